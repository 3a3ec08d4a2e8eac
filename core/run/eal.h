/* DPDK's environment layer, started only by commands that open ports or pools.
 *
 * It runs as an ordinary user, with plain memory and without devices on a bus;
 * huge pages, where wanted, belong to the arenas. Its one lcore is the control
 * thread, which keeps the CPUs that it was allowed; workers register
 * themselves.
 *
 * Owner: control thread. */
#pragma once

#include "base/attr.h"

/* Starts the layer; repeated calls succeed and do nothing. Control thread,
 * before any worker. Errors: EINVAL, ENOMEM, whatever DPDK reports. */
int mr_eal_start(void);
/* Ends it; allowed when it never started. No port, pool or worker is left. */
void mr_eal_stop(void);
/* The calling worker joins / leaves, which makes pool caches its own.
 * Errors: EPERM (the layer was not started), ENOMEM (DPDK's limit of threads
 * is reached). */
int mr_eal_join(void);
void mr_eal_leave(void);
