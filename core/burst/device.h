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
    struct mr_region near; /* where the last buffer lay */
};

MR_INLINE struct mr_progress
mr_device_progress(const struct mr_ring *r)
{
    return (struct mr_progress){.at = r->at.avail,
                                .run = {.at = r->at.used},
                                .near = r->memory->region[0]};
}

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

/* mr_memory_guest, with a look first where the last buffer lay. Where nothing
 * is, there is no room either. */
MR_INLINE uint8_t *
mr_device_guest(const struct mr_ring *r, struct mr_region *near, uint64_t guest,
                uint64_t *room)
{
    uint64_t at = guest - near->guest;

    if (mr_unlikely(at >= near->size || !MR_HAS(NEAR_REGION))) {
        struct mr_region found;

        *room = 0;
        if (!mr_memory_find(r->memory, guest, &found))
            return NULL;
        *near = found;
        at = guest - near->guest;
    }
    *room = near->size - at;
    return near->host + at;
}

/* Host address of a list's bytes when it is one direct descriptor inside one
 * region, as drivers make them; else NULL. `write` = the direction wanted. */
MR_INLINE uint8_t *
mr_device_direct(const struct mr_ring *r, struct mr_region *near,
                 const struct mr_desc *d, bool write)
{
    uint16_t flags =
        d->flags & (MR_DESC_NEXT | MR_DESC_INDIRECT | MR_DESC_WRITE);
    uint64_t room = 0;
    uint8_t *ptr = mr_device_guest(r, near, d->addr, &room);

    return flags == (write ? MR_DESC_WRITE : 0) && d->len <= room ? ptr : NULL;
}

/* Can used entries be written where the lists lie, on a packed ring? */
MR_INLINE bool
mr_device_in_step(const struct mr_progress *p)
{
    return p->run.at.pos == p->at.pos && p->run.at.wrap == p->at.wrap;
}

/* Takes over the position of a loop over lines, whose n lists were used as they
 * were taken; returns n. */
MR_INLINE uint32_t
mr_device_stand(struct mr_progress *p, struct mr_pos at, uint32_t n)
{
    p->at = at;
    p->run.at = at;
    p->run.n += n;
    return n;
}

/* Is the list one direct descriptor of the wanted direction? */
MR_INLINE bool
mr_device_plain(const struct mr_desc *d, bool write)
{
    return (d->flags & (MR_DESC_NEXT | MR_DESC_INDIRECT | MR_DESC_WRITE)) ==
           (write ? MR_DESC_WRITE : 0);
}

/* Where the frame behind the header at a guest address would be, if that is
 * where the last buffer lay: good for a prefetch only. */
MR_INLINE const void *
mr_device_frame(const struct mr_region *near, uint64_t guest)
{
    return (const void *)((uintptr_t)near->host +
                          (guest + MR_HEADER - near->guest));
}

/* Asks for what the next lines of a burst need: the descriptors of the line
 * after the next, to be used, and the frames of the next. */
MR_INLINE void
mr_device_rx_ahead(const struct mr_ring *r, const struct mr_region *near,
                   uint32_t pos)
{
    const struct mr_packed_desc *next = &r->desc.packed[pos + MR_GROUP];

    if (pos + 3 * MR_GROUP > r->size)
        return;
    mr_prefetch_write(next + MR_GROUP);
    if (MR_HAS(READ_AHEAD))
        MR_UNROLLED(i, MR_GROUP)
        mr_prefetch(mr_device_frame(near, mr_load(&next[i].addr)));
}

/* Asks for what the line after the next will be written to: its descriptors,
 * and where frames begin in its buffers. Drivers post well ahead; what is not
 * theirs to give yet costs nothing but the asking. The headers' lines are
 * mostly ours to read already, and stay the driver's to read: asking for them
 * to write would only take them away. */
MR_INLINE void
mr_device_tx_ahead(const struct mr_ring *r, const struct mr_region *near,
                   uint32_t pos)
{
    const struct mr_packed_desc *line = &r->desc.packed[pos + 2 * MR_GROUP];

    if (!MR_HAS(WRITE_PREFETCH) || pos + 3 * MR_GROUP > r->size)
        return;
    mr_prefetch_write(line);
    MR_UNROLLED(i, MR_GROUP)
    mr_prefetch_write(mr_device_frame(near, mr_load(&line[i].addr)));
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
        mr_packed_publish_used(r, &p->run, in_order, v & MR_V_PLATFORM);
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

/* ---- Any packet -------------------------------------------------------- */

/* What is wrong with the list as a packet (N90-N92, S69, S70). */
MR_INLINE enum mr_fault
mr_device_packet_fault(const struct mr_ring *r, const struct mr_list *list)
{
    if (list->fault)
        return list->fault;
    if (list->len < (uint32_t)r->header + MR_FRAME_MIN)
        return MR_FAULT_RUNT;
    return list->len > (uint32_t)r->header + MR_FRAME_MAX ? MR_FAULT_GIANT
                                                          : MR_FAULT_NONE;
}

/* The buffers that one packet goes into. */
struct mr_buffers {
    uint32_t n;
    uint64_t len;
    struct mr_list list[MR_CHAIN_SEGS];
    struct mr_gather gather;
};

/* Is there room for a packet: found, later perhaps, or never? */
enum mr_room { MR_ROOM_FOUND, MR_ROOM_LATER, MR_ROOM_NEVER };

/* A list that cannot be used, and those gathered before it for the same
 * packet, go back empty. */
MR_INLINE void
mr_device_skip_buffers(struct mr_ring *r, struct mr_used_run *run,
                       struct mr_buffers *b, enum mr_fault fault, unsigned v)
{
    for (uint32_t i = 0; i < b->n; i++) {
        mr_ring_skip(r, fault);
        mr_device_use(r, run, &b->list[i], 0, false, v);
    }
    b->n = 0;
    b->len = 0;
    b->gather.n = 0;
}

/* Finds buffers for `need` bytes: one, or with mergeable buffers as many as it
 * takes (N36). When the driver has too few (LATER) or they can never hold the
 * packet (NEVER), none is consumed (N41, N42). Lists with a fault go back on
 * the way. */
MR_INLINE enum mr_room
mr_device_gather(struct mr_ring *r, struct mr_progress *p, uint32_t *left,
                 uint32_t need, struct mr_buffers *b, unsigned v)
{
    const uint32_t most = v & MR_V_MERGEABLE ? MR_CHAIN_SEGS : 1;
    struct mr_pos start = p->at;
    uint32_t start_left = *left;
    enum mr_room result = MR_ROOM_FOUND;
    struct mr_desc d;

    b->n = 0;
    b->len = 0;
    b->gather.n = 0;
    while (b->len < need) {
        struct mr_list *list = &b->list[b->n];
        struct mr_pos first = p->at;

        result = b->n == most ? MR_ROOM_NEVER : MR_ROOM_LATER;
        if (b->n == most || !*left || !mr_device_head(r, &p->at, &d, list, v) ||
            !mr_device_resolve(r, first, &p->at, &d, true, list, &b->gather, v))
            break;
        result = MR_ROOM_FOUND;
        --*left;
        b->n++;
        b->len += list->len;
        if (list->fault || list->len < r->header) { /* S69, N40 */
            mr_device_skip_buffers(
                r, &p->run, b, list->fault ? list->fault : MR_FAULT_RUNT, v);
            start = p->at;
            start_left = *left;
        }
    }
    if (result != MR_ROOM_FOUND) {
        p->at = start;
        *left = start_left;
    }
    return result;
}

/* Uses the buffers that hold `len` bytes, all but the last filled completely
 * (N36). */
MR_INLINE void
mr_device_use_buffers(struct mr_ring *r, struct mr_used_run *run,
                      const struct mr_buffers *b, uint32_t len, unsigned v)
{
    for (uint32_t i = 0; i + 1 < b->n; i++) {
        mr_device_use(r, run, &b->list[i], (uint32_t)b->list[i].len, false, v);
        len -= (uint32_t)b->list[i].len;
    }
    mr_device_use(r, run, &b->list[b->n - 1], len, false, v);
}
