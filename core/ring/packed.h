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

/* P6: AVAIL is our counter, USED is not. */
MR_INLINE bool
mr_packed_is_avail(uint16_t flags, uint16_t wrap)
{
    uint16_t want = wrap ? MR_DESC_AVAIL : MR_DESC_USED;

    return (flags & (MR_DESC_AVAIL | MR_DESC_USED)) == want;
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
mr_packed_word_at(const struct mr_ring *r, uint16_t pos)
{
    return (uint64_t *)(void *)&r->desc.packed[pos] + 1;
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

/* Are the four descriptors from `at` on one line, and have their flags, under
 * `mask`, the value `want`? Then `word` has their second halves: four plain
 * loads, one fence (P50, P65). */
MR_INLINE bool
mr_packed_group(const struct mr_ring *r, struct mr_pos at, uint16_t mask,
                uint16_t want, uint64_t word[MR_GROUP], bool platform)
{
    const uint64_t *half = mr_packed_word_at(r, at.pos);
    uint64_t differ = 0;

    if (at.pos % MR_GROUP || at.pos + MR_GROUP > r->size)
        return false;
    MR_UNROLLED(i, MR_GROUP) {
        word[i] = mr_load(&half[2 * i]);
        differ |= word[i] ^ (uint64_t)want << 48;
    }
    if (platform)
        mr_fence_io_read();
    else
        mr_fence_acquire();
    return !(differ >> 48 & mask);
}

/* mr_packed_group for lists of one direct descriptor each, of the wanted
 * direction. */
MR_INLINE bool
mr_packed_head_group(const struct mr_ring *r, struct mr_pos at, bool write,
                     uint64_t word[MR_GROUP], bool platform)
{
    return mr_packed_group(r, at,
                           MR_DESC_AVAIL | MR_DESC_USED | MR_DESC_NEXT |
                               MR_DESC_INDIRECT | MR_DESC_WRITE,
                           (uint16_t)((at.wrap ? MR_DESC_AVAIL : MR_DESC_USED) |
                                      (write ? MR_DESC_WRITE : 0)),
                           word, platform);
}

/* Writes a used entry. The first entry of a run is held back until publish, so
 * the driver, which reads in order, sees none of the run before all of it
 * (P20-P25, P53; T9). In-order: it is the only one (P44, P48; T13). */
MR_INLINE void
mr_packed_use(struct mr_ring *r, struct mr_used_run *run, uint16_t id,
              uint32_t len, uint16_t ndesc, bool in_order)
{
    bool first = run->n++ == 0;
    uint16_t flags = mr_packed_used_flags(run->at.wrap, len != 0);

    if (first) {
        run->first = run->at.pos;
        run->first_word = mr_packed_word(len, id, flags);
    } else if (in_order) {
        run->first_word &= ~(0xffffull << 32);
        run->first_word |= (uint64_t)id << 32;
    } else {
        mr_store(mr_packed_word_at(r, run->at.pos),
                 mr_packed_word(len, id, flags));
    }
    mr_packed_advance(r, &run->at, ndesc);
}

/* Writes the used entries of a group; word: the len and id of each. They lie
 * where the group lay: used entries do not lag behind (T8). */
MR_INLINE void
mr_packed_use_group(struct mr_ring *r, struct mr_used_run *run,
                    const uint64_t word[MR_GROUP], bool written, bool in_order)
{
    uint64_t flags =
        (uint64_t)mr_packed_used_flags(run->at.wrap, written) << 48;
    uint64_t *half = mr_packed_word_at(r, run->at.pos);
    bool first = !run->n;

    if (first) {
        run->first = run->at.pos;
        run->first_word = word[0] | flags;
    }
    if (in_order) {
        run->first_word = (run->first_word & ~(0xffffull << 32)) |
                          (word[MR_GROUP - 1] & 0xffffull << 32);
    } else {
        if (!first)
            mr_store(&half[0], word[0] | flags);
        MR_UNROLLED(i, MR_GROUP - 1)
            mr_store(&half[2 * i + 2], word[i + 1] | flags);
    }
    run->n += MR_GROUP;
    mr_packed_advance(r, &run->at, MR_GROUP);
}

MR_INLINE void
mr_packed_publish_used(struct mr_ring *r, struct mr_used_run *run,
                       bool platform)
{
    r->at.used = run->at;
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
 * hand it over (P9-P12, P56). Returns the id. */
MR_INLINE uint16_t
mr_packed_add(struct mr_ring *r, struct mr_state *s,
              const struct mr_desc *element, uint32_t n, bool platform)
{
    uint16_t head = s->avail.pos;
    uint16_t id = s->head;
    uint64_t head_word = 0;

    s->head = r->slot[id].next;
    s->free_ids--;
    s->free = (uint16_t)(s->free - n);
    for (uint32_t i = 0; i < n; i++) {
        uint16_t lap = s->avail.wrap ? MR_DESC_AVAIL : MR_DESC_USED;
        uint16_t flags = (uint16_t)(element[i].flags | lap |
                                    (i + 1 < n ? MR_DESC_NEXT : 0));
        uint64_t word = mr_packed_word(element[i].len, id, flags);
        uint16_t pos = s->avail.pos;

        mr_store(&r->desc.packed[pos].addr, element[i].addr);
        if (i)
            mr_store(mr_packed_word_at(r, pos), word);
        else
            head_word = word;
        mr_packed_advance(r, &s->avail, 1);
    }
    mr_order_publish(mr_packed_word_at(r, head), head_word, platform);
    return id;
}

/* Puts a used id back at the end of the free list and skips its descriptors
 * (P13, P15). */
MR_INLINE void
mr_packed_release(struct mr_ring *r, struct mr_state *s, uint16_t id)
{
    uint32_t ndesc = mr_predict(r->slot[id].ndesc, 1);

    if (s->free_ids)
        r->slot[s->tail].next = id;
    else
        s->head = id;
    s->tail = id;
    s->free_ids++;
    s->free = (uint16_t)(s->free + ndesc);
    mr_packed_advance(r, &s->used, ndesc);
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
