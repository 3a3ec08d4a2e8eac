/* Waiting of the data calls. It gives way in three steps, so that a peer on
 * the same CPU gets it: a few pauses, then yields, then short sleeps.
 *
 * Owner: the thread that waits; a wait lives on its stack. */
#pragma once

#include "base/attr.h"

struct mr_wait {
    uint64_t timeout; /* ns, ~0 = no limit */
    uint64_t begin;   /* after the pauses */
    uint32_t turn;    /* 0 = begin anew: there was progress */
};

/* A wait of at most `timeout_us` microseconds, ~0 = no limit. */
struct mr_wait mr_wait_for(uint64_t timeout_us);
/* Gives way once; false when the time is over or the process (in a task: the
 * task) is to stop. */
bool mr_wait_turn(struct mr_wait *wait);
