/* Used and exposed buffers as the driver side sees them, in either layout: what
 * its rx and tx are written with.
 *
 * The device at the other end is not trusted: what it reports is checked
 * against mr_ring.out, which is private (S11-S13, P15, P16).
 *
 * Owner: the worker inside the queue's gate. The variant bits are constants of
 * the caller's body. */
#pragma once

#include "base/stat.h"
#include "burst/header.h"
#include "burst/notify.h"
#include "burst/variant.h"
#include "mem/packet_stash.h"

/* ---- Used buffers ------------------------------------------------------- */

struct mr_done {
    struct mr_pkt *pkt;
    uint32_t len; /* reported by the device */
    bool plain;
};

/* Used buffers that may be taken: an upper bound on a packed ring. */
MR_INLINE uint32_t
mr_driver_used_count(struct mr_ring *r, const struct mr_state *s, unsigned v)
{
    return v & MR_V_PACKED ? r->size
                           : mr_split_used_count(r, s, v & MR_V_PLATFORM);
}

MR_INLINE bool
mr_driver_used_at(struct mr_ring *r, const struct mr_state *s, uint32_t *id,
                  uint32_t *len, unsigned v)
{
    if (v & MR_V_PACKED)
        return mr_packed_used_at(r, s, id, len, v & MR_V_PLATFORM);
    mr_split_used_at(r, s, id, len);
    return true;
}

/* Bytes of a receive buffer, header included. */
MR_INLINE uint32_t
mr_driver_room(const struct mr_ring *r, unsigned v)
{
    return r->pool->room + mr_ring_header(r, v & MR_V_PACKED);
}

/* In order one entry may stand for all buffers up to its id; those before it
 * were filled completely (S40-S42, P44-P46). Takes the next entry up, unless
 * one is being followed. */
MR_INLINE bool
mr_driver_batch_begin(struct mr_ring *r, struct mr_state *s, uint32_t left,
                      unsigned v)
{
    uint32_t id;

    if (s->in_batch)
        return true;
    if (!left || !mr_driver_used_at(r, s, &id, &s->batch_len, v))
        return false;
    if (mr_unlikely(id >= r->size || r->out[id] == MR_OUT_NONE)) {
        mr_ring_break(r, MR_FAULT_USED_ID); /* S12, P16 */
        return false;
    }
    s->batch_id = (uint16_t)id;
    s->in_batch = true;
    return true;
}

/* The id that comes next in order. */
MR_INLINE uint16_t
mr_driver_oldest(const struct mr_ring *r, const struct mr_state *s, unsigned v)
{
    return v & MR_V_PACKED ? mr_packed_oldest(r, s) : mr_split_oldest(r, s);
}

/* The next used buffer's id and length, if there is one. */
MR_INLINE bool
mr_driver_next_used(struct mr_ring *r, struct mr_state *s, uint32_t left,
                    uint32_t *id, uint32_t *len, unsigned v)
{
    if (!(v & MR_V_IN_ORDER))
        return left && mr_driver_used_at(r, s, id, len, v);
    if (!mr_driver_batch_begin(r, s, left, v))
        return false;
    *id = left ? mr_driver_oldest(r, s, v)
               : r->size; /* S42: longer than was used */
    *len = *id == s->batch_id ? s->batch_len : mr_driver_room(r, v);
    s->in_batch = *id != s->batch_id;
    return true;
}

/* Takes the next used buffer, if there is one, and frees its id. */
MR_INLINE bool
mr_driver_take(struct mr_ring *r, struct mr_state *s, uint32_t *left,
               struct mr_done *done, unsigned v)
{
    uint32_t id;
    uint32_t len;
    mr_out out;

    if (!mr_driver_next_used(r, s, *left, &id, &len, v))
        return false;
    if (mr_unlikely(id >= r->size || r->out[id] == MR_OUT_NONE)) {
        mr_ring_break(r, MR_FAULT_USED_ID); /* S12, P16 */
        return false;
    }
    --*left;
    out = r->out[id];
    *done = (struct mr_done){mr_out_pkt(out), len, mr_out_plain(out)};
    r->out[id] = MR_OUT_NONE;
    if (v & MR_V_PACKED)
        mr_packed_release(r, s, (uint16_t)id, done->plain);
    else
        mr_split_release(r, s, (uint16_t)id, done->plain);
    return true;
}

/* The plain course of things: entries that stand for one list of one descriptor
 * each. Whoever steps through those, on a packed ring a line at a time, stops
 * in front of what is not plain, or not there yet; mr_driver_take then finds
 * out which. */

/* Is there a whole line of used entries at our position? Then `word` has their
 * second halves. */
MR_INLINE bool
mr_driver_used_line(const struct mr_ring *r, const struct mr_state *s,
                    uint64_t word[MR_GROUP], unsigned v)
{
    const struct mr_packed_desc *line = &r->desc.packed[s->used.pos];
    uint16_t used = s->used.wrap ? MR_DESC_AVAIL | MR_DESC_USED : 0;

    return mr_packed_at_line(r, s->used.pos) &&
           mr_packed_line(line, MR_DESC_AVAIL | MR_DESC_USED, used, word,
                          v & MR_V_PLATFORM);
}

/* Skips n entries of a line, whose ids were put back. */
MR_INLINE void
mr_driver_skip_line(const struct mr_ring *r, struct mr_state *s, uint32_t n)
{
    s->free = (uint16_t)(s->free + n);
    mr_packed_advance(r, &s->used, n);
}

/* Steps over one element of a split ring, whose id was put back. */
MR_INLINE void
mr_driver_skip_elem(struct mr_state *s, uint32_t *left)
{
    s->tail++;
    s->free++;
    s->used.pos++;
    --*left;
}

/* Asks for what the line after the next will need: the descriptors, which are
 * posted anew, and the entries of mr_ring.out. A device completes bursts, and
 * completes most in order. */
MR_INLINE void
mr_driver_ahead(const struct mr_ring *r, const struct mr_state *s)
{
    uint32_t pos = s->used.pos + 2u * MR_GROUP;

    if (pos + MR_GROUP > r->size)
        return;
    mr_prefetch_write(&r->desc.packed[pos]);
    mr_prefetch_write(&r->out[r->ids[pos]]);
}

/* ---- Exposing buffers --------------------------------------------------- */

MR_INLINE uint64_t
mr_driver_address(const struct mr_ring *r, const void *ptr)
{
    return (uintptr_t)ptr - r->delta;
}

/* Exposes n elements as one list and records what it carries. */
MR_INLINE void
mr_driver_add(struct mr_ring *r, struct mr_state *s,
              const struct mr_desc *element, uint32_t n, struct mr_pkt *pkt,
              bool plain, unsigned v)
{
    uint16_t id;

    if (v & MR_V_PACKED)
        id = mr_packed_add(r, s, element, n, v & MR_V_PLATFORM);
    else
        id = mr_split_add(r, s, element, n);
    r->out[id] = (mr_out)pkt | !plain;
    if (!plain)
        r->slot[id].ndesc = (uint16_t)n;
}

MR_INLINE void
mr_driver_publish(struct mr_ring *r, unsigned v)
{
    if (!(v & MR_V_PACKED))
        mr_split_publish_avail(r, v & MR_V_PLATFORM);
    mr_notify_if_wanted(r, false, v);
}
