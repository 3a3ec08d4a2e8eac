/* The one notification decision at the end of a burst: a full fence between
 * what was published and the peer's suppression state (C9), the layout's
 * test, and one write to the peer's eventfd. */
#pragma once

#include "burst/variant.h"
#include "ring/packed.h"
#include "ring/split.h"

/* Writes the eventfd; a peer that does not listen is not an error (V41). */
void mr_notify(struct mr_ring *ring);

/* Where one decision a burst is not enough: what it costs, a packet (T20). */
MR_INLINE void
mr_notify_look(const struct mr_ring *r)
{
    if (!MR_HAS(ONE_FENCE)) {
        mr_fence_full();
        (void)mr_load_acquire((const uint32_t *)(const void *)r->avail.packed);
    }
}

/* After a publish: tells the driver (device side) or device (driver side). */
MR_INLINE void
mr_notify_if_wanted(struct mr_ring *r, bool device, unsigned v)
{
    bool wanted;

    mr_order_before_suppression(v & MR_V_PLATFORM);
    if (v & MR_V_PACKED)
        wanted = device
                     ? mr_packed_must_notify(r, r->avail.packed, r->at.used)
                     : mr_packed_must_notify(r, r->used.packed, r->at.avail);
    else
        wanted = device ? mr_split_must_notify(r, &r->avail.split->flags,
                                               mr_split_used_event(r),
                                               r->at.used)
                        : mr_split_must_notify(r, &r->used.split->flags,
                                               mr_split_avail_event(r),
                                               r->at.avail);
    if (wanted)
        mr_notify(r);
}
