/* Counters: one writer each, the thread inside the queue's gate; any thread
 * reads them, each word whole. The rows are in moonring.h. */
#pragma once

#include "base/atomic.h"
#include "moonring.h"

/* Counts a burst that moved n packets with that many bytes; n = 0 is none. */
MR_INLINE void
mr_counters_moved(struct mr_counters *c, uint32_t n, uint64_t bytes)
{
    if (!n)
        return;
    mr_count(&c->packets, n);
    mr_count(&c->bytes, bytes);
    mr_count(&c->bursts, 1);
}
