/* The fixture of tests that need one pool of small packets: group setup and
 * teardown. The teardown fails when a test left a packet out. */
#pragma once

#include "unit/eal.h"
#include "unit/packets.h"

static struct mr_pool *pool;

static inline int
pool_setup(void **state)
{
    eal_setup(state);
    pool = pool_new(16384, 256);
    return 0;
}

static inline int
pool_teardown(void **state)
{
    (void)state;
    pool_end(pool);
    return 0;
}
