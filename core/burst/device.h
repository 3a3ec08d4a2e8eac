/* Lists of buffers as the device side sees them, in either layout: what rx, tx
 * and splice are written with.
 *
 * Owner: the worker inside the queue's gate. The variant bits are constants of
 * the caller's body. */
#pragma once

#include "base/stat.h"
#include "burst/header.h"
#include "burst/notify.h"
#include "burst/variant.h"
#include "mem/copy.h"

/* How far a burst is: buffers taken, and buffers used but not published. */
struct mr_progress {
    struct mr_pos at;
    struct mr_used_run run;
};

/* Lists to take, at most n. A packed ring only knows whether there is one; its
 * size bounds a burst against a driver that adds buffers for ever (C15). */
MR_INLINE uint32_t
mr_device_pending(struct mr_ring *r, struct mr_pos at, uint32_t n, unsigned v)
{
    if (!(v & MR_V_PACKED))
        return mr_split_pending(r, at, n, v & MR_V_PLATFORM);
    return mr_packed_pending(r, at) ? MR_MIN(n, r->size) : 0;
}

/* Copies the first descriptor of the next list and steps over it. False: there
 * is none, or the ring broke. */
MR_INLINE bool
mr_device_head(struct mr_ring *r, struct mr_pos *at, struct mr_desc *d,
               struct mr_list *list, unsigned v)
{
    if (v & MR_V_PACKED)
        return mr_packed_head(r, at, d, list, v & MR_V_PLATFORM);
    return mr_split_head(r, at, d, list);
}

/* Host address of a list's bytes when it is one direct descriptor inside one
 * region, as drivers make them; else NULL. `write` = the direction wanted. */
MR_INLINE uint8_t *
mr_device_direct(const struct mr_ring *r, const struct mr_desc *d, bool write)
{
    uint16_t flags =
        d->flags & (MR_DESC_NEXT | MR_DESC_INDIRECT | MR_DESC_WRITE);
    uint64_t room;
    uint8_t *ptr = mr_memory_guest(r->memory, d->addr, &room);

    return flags == (write ? MR_DESC_WRITE : 0) && d->len <= room ? ptr : NULL;
}

/* Resolves any list whose first descriptor is `d`, taken from `first`, and
 * moves `at` behind it. False: the ring broke. A list with a fault is still to
 * be used. */
MR_INLINE bool
mr_device_resolve(struct mr_ring *r, struct mr_pos first, struct mr_pos *at,
                  const struct mr_desc *d, bool write, struct mr_list *list,
                  struct mr_gather *gather, unsigned v)
{
    list->fault = MR_FAULT_NONE;
    list->len = 0;
    if (!(v & MR_V_PACKED)) {
        mr_list_walk_split(r, *d, write, list, gather);
        return true;
    }
    if (!mr_list_walk_packed(r, first, *d, write, list, gather))
        return false;
    mr_packed_advance(r, at, list->ndesc - 1u);
    return true;
}

MR_INLINE void
mr_device_use(struct mr_ring *r, struct mr_used_run *run,
              const struct mr_list *list, uint32_t len, bool in_order,
              unsigned v)
{
    if (v & MR_V_PACKED)
        mr_packed_use(r, run, list->id, len, list->ndesc, in_order);
    else
        mr_split_use(r, run, list->id, len, in_order);
}

/* Makes the run the driver's and tells it, if there is a run (S48). */
MR_INLINE void
mr_device_finish(struct mr_ring *r, struct mr_progress *p, bool in_order,
                 unsigned v)
{
    if (!p->run.n)
        return;
    r->at.avail = p->at;
    if (v & MR_V_PACKED)
        mr_packed_publish_used(r, &p->run, v & MR_V_PLATFORM);
    else
        mr_split_publish_used(r, &p->run, in_order, v & MR_V_PLATFORM);
    mr_notify_if_wanted(r, true, v);
}

/* N94: no offload is negotiated, so flags and gso_type must not ask for one. */
MR_INLINE bool
mr_header_asks_offload(const void *header)
{
    uint16_t word;

    memcpy(&word, header, sizeof(word));
    return (word & 0xff01) != 0; /* NEEDS_CSUM, any gso_type */
}
