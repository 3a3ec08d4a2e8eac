/* The packed ring: how its memory is touched, from either side, under the
 * names of split.h.
 *
 * A position is an index and a wrap counter; any size from 1 to 32768 works,
 * so positions wrap by compare and subtract (P1, P5). */
#pragma once

#include "ring/fault.h"
#include "ring/list.h"
#include "ring/order.h"
#include "ring/split.h"

/* T1: n <= size. */
MR_INLINE void
mr_packed_advance(const struct mr_ring *r, struct mr_pos *at, uint32_t n)
{
    uint32_t pos = at->pos + n;

    if (pos >= r->size) {
        pos -= r->size;
        at->wrap ^= 1;
    }
    at->pos = (uint16_t)pos;
}

/* Flags of an available descriptor on this lap: AVAIL is the counter, USED is
 * not (P6). */
MR_INLINE uint16_t
mr_packed_avail_flags(uint16_t wrap)
{
    return wrap ? MR_DESC_AVAIL : MR_DESC_USED;
}

MR_INLINE bool
mr_packed_is_avail(uint16_t flags, uint16_t wrap)
{
    return (flags & (MR_DESC_AVAIL | MR_DESC_USED)) ==
           mr_packed_avail_flags(wrap);
}

MR_INLINE bool
mr_packed_is_used(uint16_t flags, uint16_t wrap)
{
    uint16_t want = wrap ? MR_DESC_AVAIL | MR_DESC_USED : 0;

    return (flags & (MR_DESC_AVAIL | MR_DESC_USED)) == want;
}

/* Flags of a used entry on this lap (P21). */
MR_INLINE uint16_t
mr_packed_used_flags(uint16_t wrap, bool written)
{
    return (uint16_t)((wrap ? MR_DESC_AVAIL | MR_DESC_USED : 0) |
                      (written ? MR_DESC_WRITE : 0));
}

/* The second half of a descriptor, len, id and flags, moves as one word: fewer
 * accesses, and no flags without the id they belong to. */
MR_INLINE uint64_t *
mr_packed_half(struct mr_packed_desc *desc)
{
    return (uint64_t *)(void *)desc + 1;
}

MR_INLINE uint64_t *
mr_packed_word_at(const struct mr_ring *r, uint16_t pos)
{
    return mr_packed_half(&r->desc.packed[pos]);
}

MR_INLINE uint64_t
mr_packed_word(uint32_t len, uint16_t id, uint16_t flags)
{
    return len | (uint64_t)id << 32 | (uint64_t)flags << 48;
}

/* ---- Device side ------------------------------------------------------- */

/* Is there a list at `at`? A look without ordering. */
MR_INLINE bool
mr_packed_pending(const struct mr_ring *r, struct mr_pos at)
{
    uint64_t word = mr_load(mr_packed_word_at(r, at.pos));

    return mr_packed_is_avail((uint16_t)(word >> 48), at.wrap);
}

/* Copies the head of the next list, if one is available, and steps over one
 * descriptor: flags, id and length in one acquire load, then the address (P7,
 * P57). */
MR_INLINE bool
mr_packed_head(struct mr_ring *r, struct mr_pos *at, struct mr_desc *desc,
               struct mr_list *list, bool platform)
{
    uint64_t word;

    mr_order_observe(word, mr_packed_word_at(r, at->pos), platform);
    if (!mr_packed_is_avail((uint16_t)(word >> 48), at->wrap))
        return false;
    *desc = mr_desc_of(mr_load(&r->desc.packed[at->pos].addr), word, true);
    list->id = desc->id;
    list->ndesc = 1;
    mr_packed_advance(r, at, 1);
    return true;
}

/* A cache line of descriptors: four lists that are handled together (P49). */
enum { MR_GROUP = 4 };

/* Does a line of descriptors start at `pos`, with all of it in the ring? */
MR_INLINE bool
mr_packed_at_line(const struct mr_ring *r, uint16_t pos)
{
    return MR_HAS(LINES) && pos % MR_GROUP == 0 && pos + MR_GROUP <= r->size;
}

/* Have the flags of a line's descriptors, under `mask`, the value `want`? Then
 * `word` has their second halves: four plain loads, one fence (P50, P65). */
MR_INLINE bool
mr_packed_line(const struct mr_packed_desc *line, uint16_t mask, uint16_t want,
               uint64_t word[MR_GROUP], bool platform)
{
    const uint64_t *half = (const uint64_t *)(const void *)line + 1;
    uint64_t differ = 0;

    MR_UNROLLED(i, MR_GROUP)
    {
        word[i] = mr_load_fenced(&half[2 * i]);
        differ |= word[i] ^ (uint64_t)want << 48;
    }
    mr_order_observed(platform);
    return !(differ & (uint64_t)mask << 48);
}

/* mr_packed_line for available lists of one direct descriptor each, of the
 * wanted direction, on the lap `wrap`. */
MR_INLINE bool
mr_packed_head_line(const struct mr_packed_desc *line, uint16_t wrap,
                    bool write, uint64_t word[MR_GROUP], bool platform)
{
    return mr_packed_line(line,
                          MR_DESC_AVAIL | MR_DESC_USED | MR_DESC_NEXT |
                              MR_DESC_INDIRECT | MR_DESC_WRITE,
                          mr_packed_avail_flags(wrap) |
                              (write ? MR_DESC_WRITE : 0),
                          word, platform);
}

/* Writes a used entry, `nth` of its run, at `pos`, whose second half is *half.
 * The first entry of a run is held back until publish, so the driver, which
 * reads in order, sees none of the run before all of it (P20-P25, P53; T9).
 * In-order: it is the only one, with the last id, which the caller notes (P44,
 * P48; T13). */
MR_INLINE void
mr_packed_use_half(uint64_t *half, struct mr_used_run *run, uint32_t nth,
                   uint16_t pos, uint64_t word, bool in_order)
{
    if (!MR_HAS(HOLD_FIRST)) {
        mr_store_release(half, word);
    } else if (mr_unlikely(!nth)) {
        run->first = pos;
        run->first_word = word;
    } else if (!in_order) {
        mr_store(half, word);
    }
}

MR_INLINE void
mr_packed_use_at(struct mr_ring *r, struct mr_used_run *run, uint32_t nth,
                 uint16_t pos, uint64_t word, bool in_order)
{
    mr_packed_use_half(mr_packed_word_at(r, pos), run, nth, pos, word,
                       in_order);
    run->last_id = (uint16_t)(word >> 32);
}

/* The same for a list of ndesc descriptors, and steps over it. */
MR_INLINE void
mr_packed_use(struct mr_ring *r, struct mr_used_run *run, uint16_t id,
              uint32_t len, uint16_t ndesc, bool in_order)
{
    uint16_t flags = mr_packed_used_flags(run->at.wrap, len != 0);

    mr_packed_use_at(r, run, run->n++, run->at.pos,
                     mr_packed_word(len, id, flags), in_order);
    mr_packed_advance(r, &run->at, ndesc);
}

/* Writes the used entries of a line of lists; word: the len and id of each.
 * They lie where the lists lay: used entries do not lag behind (T8). */
MR_INLINE void
mr_packed_use_line(struct mr_ring *r, struct mr_used_run *run,
                   struct mr_packed_desc *line, const uint64_t word[MR_GROUP],
                   bool written, bool in_order)
{
    uint64_t flags = (uint64_t)mr_packed_used_flags(run->at.wrap, written)
                     << 48;

    (void)line;
    MR_UNROLLED(i, MR_GROUP)
    mr_packed_use_at(r, run, i ? 1 : run->n, (uint16_t)(run->at.pos + i),
                     word[i] | flags, in_order);
    run->n += MR_GROUP;
    mr_packed_advance(r, &run->at, MR_GROUP);
}

MR_INLINE void
mr_packed_publish_used(struct mr_ring *r, struct mr_used_run *run,
                       bool in_order, bool platform)
{
    r->at.used = run->at;
    if (in_order)
        run->first_word = (run->first_word & ~(0xffffull << 32)) |
                          (uint64_t)run->last_id << 32;
    if (MR_HAS(HOLD_FIRST))
        mr_order_publish(mr_packed_word_at(r, run->first), run->first_word,
                         platform); /* P58, P60 */
}

/* ---- Driver side ------------------------------------------------------- */

/* The used entry at our position, if it is used (P59). */
MR_INLINE bool
mr_packed_used_at(const struct mr_ring *r, const struct mr_state *s,
                  uint32_t *id, uint32_t *len, bool platform)
{
    uint64_t word;

    mr_order_observe(word, mr_packed_word_at(r, s->used.pos), platform);
    if (!mr_packed_is_used((uint16_t)(word >> 48), s->used.wrap))
        return false;
    *id = (uint16_t)(word >> 32);
    *len = (uint32_t)word;
    return true;
}

/* Writes n elements as one list under a free id; the head's flags go last and
 * hand it over (P9-P12, P56). Returns the id. The list takes an id for each of
 * its descriptors, so that ids are taken and put back where the ring stands. */
MR_INLINE uint16_t
mr_packed_add(struct mr_ring *r, struct mr_state *s,
              const struct mr_desc *element, uint32_t n, bool platform)
{
    uint16_t head = s->avail.pos;
    uint16_t id = r->ids[head];
    uint16_t last = id;
    uint64_t head_word = 0;

    s->free = (uint16_t)(s->free - n);
    for (uint32_t i = 0; i < n; i++) {
        uint16_t flags =
            (uint16_t)(element[i].flags | mr_packed_avail_flags(s->avail.wrap) |
                       (i + 1 < n ? MR_DESC_NEXT : 0));
        uint64_t word = mr_packed_word(element[i].len, id, flags);
        uint16_t pos = s->avail.pos;

        mr_store(&r->desc.packed[pos].addr, element[i].addr);
        if (i) {
            mr_store(mr_packed_word_at(r, pos), word);
            r->slot[last].next = r->ids[pos];
            last = r->ids[pos];
        } else {
            head_word = word;
        }
        mr_packed_advance(r, &s->avail, 1);
    }
    mr_order_publish(mr_packed_word_at(r, head), head_word, platform);
    return id;
}

/* The head id of the oldest list that is out. */
MR_INLINE uint16_t
mr_packed_oldest(const struct mr_ring *r, const struct mr_state *s)
{
    return r->ids[s->used.pos];
}

/* The ids of the list under `id` are free again, and its descriptors are
 * skipped (P13, P15). */
MR_INLINE void
mr_packed_release(struct mr_ring *r, struct mr_state *s, uint16_t id,
                  bool plain)
{
    uint32_t ndesc = plain ? 1 : r->slot[id].ndesc;

    r->ids[s->used.pos] = id;
    mr_packed_advance(r, &s->used, 1);
    for (uint32_t i = 1; i < ndesc; i++) {
        id = r->slot[id].next;
        r->ids[s->used.pos] = id;
        mr_packed_advance(r, &s->used, 1);
    }
    s->free = (uint16_t)(s->free + ndesc);
}

/* ---- Notifications, both sides ----------------------------------------- */

/* P38, in positions of a ring of `size`. */
MR_INLINE bool
mr_packed_event_passed(uint16_t event, struct mr_pos now, uint16_t old,
                       uint16_t size)
{
    int off = event & 0x7fff;
    int was = old;

    if (event >> 15 != now.wrap)
        off -= size;
    if (now.pos <= was)
        was -= size;
    return (uint16_t)(now.pos - off - 1) < (uint16_t)(now.pos - was);
}

/* After the fence: does the peer, whose event structure this is, want to hear
 * of what we published up to `now` (P35-P39, P42)? One load. */
MR_INLINE bool
mr_packed_must_notify(struct mr_ring *r, const struct mr_packed_event *event,
                      struct mr_pos now)
{
    uint32_t word = mr_load_acquire((const uint32_t *)(const void *)event);
    uint16_t flags = (word >> 16) & 3;
    struct mr_pos old = r->signalled;
    bool known = r->signalled_valid;

    r->signalled = now;
    r->signalled_valid = true;
    if (flags == MR_EVENT_DISABLE)
        return false;
    if (flags != MR_EVENT_DESC || !r->event_idx || !known)
        return true; /* P36: what makes no sense means ENABLE */
    return mr_packed_event_passed((uint16_t)word, now, old.pos, r->size);
}
