/* See eal.h. The layer writes what it has to say to stderr and, unless
 * MOONRING_EAL_LOG names another level, only errors. */
#include "run/eal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "base/error.h"
#include "mem/packet.h"

static bool started;

/* "--lcores=0@(0,1,5)": lcore 0 on every CPU that we may use, which leaves
 * the affinity of the control thread as it is. */
static int
lcores_text(char *out, size_t size)
{
    cpu_set_t set;
    size_t at;
    const char *comma = "";

    if (sched_getaffinity(0, sizeof(set), &set))
        return mr_error_set(-errno, "cannot read the CPUs allowed to us");
    at = (size_t)snprintf(out, size, "--lcores=0@(");
    for (int cpu = 0; cpu < CPU_SETSIZE && at < size; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%d", comma, cpu);
        comma = ",";
    }
    snprintf(out + at, size - at, ")");
    return 0;
}

int
mr_eal_start(void)
{
    static char lcores[CPU_SETSIZE * 6];
    static char level[64];
    const char *want = getenv("MOONRING_EAL_LOG");
    char *argv[] = {"moonring", "--no-huge", "--no-shconf", "--iova-mode=va",
                    "-m",       "1024",      "--no-pci",    "--no-telemetry",
                    level,      lcores,      NULL};
    int rc;

    if (started)
        return 0;
    rc = lcores_text(lcores, sizeof(lcores));
    if (rc)
        return rc;
    snprintf(level, sizeof(level), "--log-level=%s", want ? want : "error");
    rte_openlog_stream(stderr);
    if (rte_eal_init((int)MR_COUNT_OF(argv) - 1, argv) < 0)
        return mr_error_set(-rte_errno,
                            "DPDK does not start: %s; MOONRING_EAL_LOG=debug "
                            "shows why",
                            rte_strerror(rte_errno));
    started = true;
    return 0;
}

void
mr_eal_stop(void)
{
    if (started)
        rte_eal_cleanup();
    started = false;
}

int
mr_eal_join(void)
{
    if (!started)
        return mr_error_set(-EPERM, "a worker needs DPDK, which this command "
                                    "does not start");
    if (rte_thread_register() < 0)
        return mr_error_set(-ENOMEM,
                            "cannot start one more worker: DPDK allows %d "
                            "threads; end some tasks first",
                            RTE_MAX_LCORE);
    return 0;
}

void
mr_eal_leave(void)
{
    mr_pools_flush();
    rte_thread_unregister();
}
