/* Splice: packets from one driver's transmit buffers straight into another's,
 * or its own, receive buffers: one copy, and no packet in between.
 *
 * Owner: the worker inside the gates of both rings. */
#pragma once

#include "burst/variant.h"

/* What mr_splice returns when it moved nothing. */
enum {
    MR_SPLICE_NONE = 0,  /* there is nothing to move */
    MR_SPLICE_ROOM = -1, /* the target has no room for the next packet */
    MR_SPLICE_TAKE = -2, /* the next packet must be received as one */
};

/* Moves up to n packets (1..MR_BURST_MAX) from `from`, a device-side rx ring,
 * to `to`, a device-side tx ring; order is kept. `turn`: NULL = the bytes stay
 * as they are; else our MAC address: addresses are swapped as mr_burst_reflect
 * does, and a packet that it might answer is left (TAKE), as all packets are
 * for a target that broke. Returns how many `from` is rid of, those included
 * that `to` can never take and that are dropped, counted as sending counts
 * them (N41, N42); or one of the above. Faults cost either driver what they
 * cost it in mr_device_rx and mr_device_tx. */
int32_t mr_splice(struct mr_ring *from, struct mr_ring *to, uint32_t n,
                  const uint8_t *turn);

typedef int32_t (*mr_splice_fn)(struct mr_ring *, struct mr_ring *, uint32_t,
                                const uint8_t *);
/* mr_splice as compiled for each CPU level. */
#define MR_X(level, text)                                                      \
    int32_t mr_splice_##level(struct mr_ring *, struct mr_ring *, uint32_t,    \
                              const uint8_t *);
MR_LEVELS(MR_X)
#undef MR_X
