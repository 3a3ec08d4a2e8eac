/* The split ring: how its memory is touched, from either side. packed.h offers
 * the same operations under the same names, where its layout has them.
 *
 *   device side                       driver side
 *   pending       buffers to take     add            expose a buffer
 *   head          first descriptor    publish_avail  make them the device's
 *   use           give one back       used_at        next used buffer
 *   publish_used  make them visible   release        its id is free again
 *   must_notify                       must_notify
 *
 * Positions run free modulo 65536 and are masked on use (S5). */
#pragma once

#include "ring/fault.h"
#include "ring/list.h"
#include "ring/order.h"

MR_INLINE uint16_t *
mr_split_used_event(const struct mr_ring *r) /* in the driver area (S32) */
{
    return &r->avail.split->ring[r->size];
}

MR_INLINE uint16_t *
mr_split_avail_event(const struct mr_ring *r) /* in the device area (S32) */
{
    return (uint16_t *)(void *)&r->used.split->ring[r->size];
}

/* S31: did an index that moved from `old` to `new` pass `event`? */
MR_INLINE bool
mr_event_passed(uint16_t event, uint16_t new, uint16_t old)
{
    return (uint16_t)(new - event - 1) < (uint16_t)(new - old);
}

/* ---- Device side ------------------------------------------------------- */

/* Buffers available at `at`, at most max (S14, S61). */
MR_INLINE uint32_t
mr_split_pending(struct mr_ring *r, struct mr_pos at, uint32_t max,
                 bool platform)
{
    uint16_t idx;
    uint16_t n;

    mr_order_observe(idx, &r->avail.split->idx, platform);
    n = (uint16_t)(idx - at.pos);
    if (mr_unlikely(n > r->size)) {
        mr_ring_break(r, MR_FAULT_AVAIL_INDEX);
        return 0;
    }
    return MR_MIN(n, max);
}

/* What a burst reads of a ring for every list, in registers. */
struct mr_split_view {
    struct mr_split_desc *desc;
    uint16_t *avail;
    uint64_t *used; /* elements: id and length as one word */
    uint32_t size;
};

MR_INLINE struct mr_split_view
mr_split_view(const struct mr_ring *r)
{
    return (struct mr_split_view){r->desc.split, r->avail.split->ring,
                                  (uint64_t *)(void *)r->used.split->ring,
                                  r->size};
}

/* Copies descriptor `head`. False: there is no such descriptor. */
MR_INLINE bool
mr_split_desc_at(const struct mr_split_view *view, uint16_t head,
                 struct mr_desc *desc)
{
    if (mr_unlikely(head >= view->size))
        return false;
    *desc = mr_desc_copy(&view->desc[head], false);
    return true;
}

/* The address in the descriptor at the head of the list at `pos`, if there is
 * such a list. For a prefetch only: whoever takes the list reads it again. */
MR_INLINE uint64_t
mr_split_addr_at(const struct mr_split_view *view, uint32_t pos)
{
    uint16_t mask = (uint16_t)(view->size - 1);

    return mr_load(&view->desc[mr_load(&view->avail[pos & mask]) & mask].addr);
}

/* Copies the descriptor at the head of the list at `at`, without a step. The
 * caller knows from `pending` that there is one. False: no such descriptor. */
MR_INLINE bool
mr_split_peek(const struct mr_split_view *view, struct mr_pos at, uint16_t *id,
              struct mr_desc *desc)
{
    *id = mr_load(&view->avail[at.pos & (view->size - 1)]);
    return mr_split_desc_at(view, *id, desc);
}

/* Copies the descriptor at the head of the next list and steps over it; the
 * caller knows from `pending` that there is one. */
MR_INLINE bool
mr_split_head(struct mr_ring *r, struct mr_pos *at, struct mr_desc *desc,
              struct mr_list *list)
{
    struct mr_split_view view = mr_split_view(r);

    if (!mr_split_peek(&view, *at, &list->id, desc)) {
        mr_ring_break(r, MR_FAULT_HEAD); /* S62 */
        return false;
    }
    at->pos++;
    list->ndesc = 1;
    return true;
}

/* Writes a used element; invisible until publish (S16). */
MR_INLINE void
mr_split_use_elem(uint64_t *elem, uint16_t id, uint32_t len)
{
    mr_store(elem, id | (uint64_t)len << 32);
}

/* Steps over n elements that were written. */
MR_INLINE void
mr_split_use_step(struct mr_used_run *run, uint32_t n, bool in_order)
{
    run->n += n;
    if (!in_order)
        run->at.pos = (uint16_t)(run->at.pos + n);
}

/* Writes the next used element of a run. With `in_order` only the last one of
 * the run counts (S40), for buffers that carry no length. */
MR_INLINE void
mr_split_use_at(const struct mr_split_view *view, struct mr_used_run *run,
                uint16_t id, uint32_t len, bool in_order)
{
    if (!in_order)
        mr_split_use_elem(&view->used[run->at.pos & (view->size - 1)], id,
                          len);
    run->last_id = id;
    mr_split_use_step(run, 1, in_order);
}

MR_INLINE void
mr_split_use(struct mr_ring *r, struct mr_used_run *run, uint16_t id,
             uint32_t len, bool in_order)
{
    struct mr_split_view view = mr_split_view(r);

    mr_split_use_at(&view, run, id, len, in_order);
}

MR_INLINE void
mr_split_publish_used(struct mr_ring *r, struct mr_used_run *run, bool in_order,
                      bool platform)
{
    if (in_order) {
        struct mr_split_view view = mr_split_view(r);

        mr_store(&view.used[run->at.pos & (r->size - 1)],
                 (uint64_t)run->last_id);
        run->at.pos = (uint16_t)(run->at.pos + run->n);
    }
    r->at.used = run->at;
    mr_order_publish(&r->used.split->idx, run->at.pos, platform);
}

/* ---- Driver side ------------------------------------------------------- */

/* Used buffers at our position (S12). */
MR_INLINE uint32_t
mr_split_used_count(struct mr_ring *r, const struct mr_state *s, bool platform)
{
    uint16_t idx;
    uint16_t n;

    mr_order_observe(idx, &r->used.split->idx, platform);
    n = (uint16_t)(idx - s->used.pos);
    if (mr_unlikely(n > (uint16_t)(s->avail.pos - s->used.pos))) {
        mr_ring_break(r, MR_FAULT_USED_INDEX);
        return 0;
    }
    return n;
}

/* The used element at our position: one 8-byte load. */
MR_INLINE void
mr_split_used_at(const struct mr_ring *r, const struct mr_state *s,
                 uint32_t *id, uint32_t *len)
{
    struct mr_split_view view = mr_split_view(r);
    uint64_t e = mr_load(&view.used[s->used.pos & (r->size - 1)]);

    *id = (uint32_t)e;
    *len = (uint32_t)(e >> 32);
}

/* Takes n ids for one list and links them; returns the first. */
MR_INLINE uint16_t
mr_split_take_ids(struct mr_ring *r, struct mr_state *s, uint32_t n)
{
    const uint16_t mask = (uint16_t)(r->size - 1);
    uint16_t head = r->ids[s->head++ & mask];
    uint16_t last = head;

    for (uint32_t i = 1; i < n; i++) {
        r->slot[last].next = r->ids[s->head++ & mask];
        last = r->slot[last].next;
    }
    s->free = (uint16_t)(s->free - n);
    return head;
}

/* Writes n elements as one list and puts its head into the available ring;
 * invisible until publish (S8-S10). Returns the head. The caller saw that n
 * descriptors are free. */
MR_INLINE uint16_t
mr_split_add(struct mr_ring *r, struct mr_state *s,
             const struct mr_desc *element, uint32_t n)
{
    uint16_t head = mr_split_take_ids(r, s, n);
    uint16_t at = head;

    for (uint32_t i = 0; i < n; i++) {
        bool more = i + 1 < n;
        uint16_t next = more ? r->slot[at].next : 0;
        struct mr_split_desc d = {
            element[i].addr, element[i].len,
            (uint16_t)(element[i].flags | (more ? MR_DESC_NEXT : 0)), next};

        memcpy(&r->desc.split[at], &d, sizeof(d));
        at = next;
    }
    mr_store(&r->avail.split->ring[s->avail.pos & (r->size - 1)], head);
    s->avail.pos++;
    return head;
}

/* mr_split_add for a list of one element, `word` its length and flags. */
MR_INLINE uint16_t
mr_split_add_one(const struct mr_split_view *view, const uint16_t *ids,
                 struct mr_state *s, uint64_t addr, uint64_t word)
{
    const uint16_t mask = (uint16_t)(view->size - 1);
    uint16_t id = ids[s->head++ & mask];
    uint64_t *half = (uint64_t *)(void *)&view->desc[id];

    mr_store(&half[0], addr);
    mr_store(&half[1], word);
    mr_store(&view->avail[s->avail.pos++ & mask], id);
    s->free--;
    return id;
}

/* The head of the oldest list that is out. */
MR_INLINE uint16_t
mr_split_oldest(const struct mr_ring *r, const struct mr_state *s)
{
    return r->ids[s->tail & (r->size - 1)];
}

/* The ids of the list under `id` are free again (S11). */
MR_INLINE void
mr_split_release(struct mr_ring *r, struct mr_state *s, uint16_t id, bool plain)
{
    const uint16_t mask = (uint16_t)(r->size - 1);
    uint32_t ndesc = plain ? 1 : r->slot[id].ndesc;

    r->ids[s->tail++ & mask] = id;
    for (uint32_t i = 1; i < ndesc; i++) {
        id = r->slot[id].next;
        r->ids[s->tail++ & mask] = id;
    }
    s->free = (uint16_t)(s->free + ndesc);
    s->used.pos++;
}

MR_INLINE void
mr_split_publish_avail(struct mr_ring *r, bool platform)
{
    mr_order_publish(&r->avail.split->idx, r->at.avail.pos, platform);
}

/* ---- Notifications, both sides ----------------------------------------- */

/* After the fence: does the peer want to hear of what we published up to
 * `now` (S29-S33)? `flags` is the peer's word, `event` its event word. */
MR_INLINE bool
mr_split_must_notify(struct mr_ring *r, const uint16_t *flags,
                     const uint16_t *event, struct mr_pos now)
{
    uint16_t old = r->signalled.pos;
    bool known = r->signalled_valid;

    r->signalled = now;
    r->signalled_valid = true;
    if (!r->event_idx)
        return !(mr_load(flags) & 1); /* NO_INTERRUPT, NO_NOTIFY */
    return !known || mr_event_passed(mr_load(event), now.pos, old);
}
