/* DPDK's environment for unit tests: no root, no hugepages, no files, one
 * lcore. The affinity that the EAL narrows is put back, so threads that a test
 * starts run on every CPU. A test that $MR_CPU_LEVEL was to force down must not
 * run at full level for a typing error. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include "base/cpu.h"

/* Starts the EAL on the first call of the process; ends the test when it
 * cannot. */
static inline void
eal_start(void)
{
    static int done;
    char lcores[32];
    char *argv[] = {"test", "--no-huge", "--no-shconf", "-m", "128",
                    "--no-pci", "--no-telemetry", "--iova-mode=va",
                    "--log-level=error", "--lcores", lcores, NULL};
    cpu_set_t cpus;
    int cpu = 0;

    if (done)
        return;
    if (getenv("MR_CPU_LEVEL") && mr_cpu_named(getenv("MR_CPU_LEVEL")) < 0) {
        fprintf(stderr, "MR_CPU_LEVEL: no such level\n");
        exit(1);
    }
    sched_getaffinity(0, sizeof(cpus), &cpus);
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &cpus))
        cpu++;
    snprintf(lcores, sizeof(lcores), "0@%d", cpu);
    if (rte_eal_init(sizeof(argv) / sizeof(argv[0]) - 1, argv) < 0) {
        fprintf(stderr, "rte_eal_init: %s\n", rte_strerror(rte_errno));
        exit(1);
    }
    sched_setaffinity(0, sizeof(cpus), &cpus);
    done = 1;
}

/* cmocka group setup. */
static inline int
eal_setup(void **state)
{
    (void)state;
    eal_start();
    return 0;
}
