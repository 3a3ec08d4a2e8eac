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

/* Copies the descriptor at the head of the next list and steps over it; the
 * caller knows from `pending` that there is one. */
MR_INLINE bool
mr_split_head(struct mr_ring *r, struct mr_pos *at, struct mr_desc *desc,
              struct mr_list *list)
{
    uint16_t slot = at->pos & (r->size - 1);
    uint16_t head = mr_load(&r->avail.split->ring[slot]);

    if (mr_unlikely(head >= r->size)) {
        mr_ring_break(r, MR_FAULT_HEAD); /* S62 */
        return false;
    }
    at->pos++;
    list->id = head;
    list->ndesc = 1;
    *desc = mr_desc_copy(&r->desc.split[head], false);
    return true;
}

/* Writes a used element; invisible until publish (S16). With `in_order` only
 * the last one of the run counts (S40), for buffers that carry no length. */
MR_INLINE void
mr_split_use(struct mr_ring *r, struct mr_used_run *run, uint16_t id,
             uint32_t len, bool in_order)
{
    uint16_t slot = run->at.pos & (r->size - 1);
    struct mr_split_used_elem e = {id, len};

    run->n++;
    if (in_order) {
        run->last_id = id;
        return;
    }
    memcpy(&r->used.split->ring[slot], &e, sizeof(e));
    run->at.pos++;
}

MR_INLINE void
mr_split_publish_used(struct mr_ring *r, struct mr_used_run *run,
                      bool in_order, bool platform)
{
    if (in_order) {
        uint16_t slot = run->at.pos & (r->size - 1);
        struct mr_split_used_elem e = {run->last_id, 0};

        memcpy(&r->used.split->ring[slot], &e, sizeof(e));
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
    uint16_t slot = s->used.pos & (r->size - 1);
    uint64_t e = mr_load((const uint64_t *)(const void *)
                             ((const uint8_t *)r->used.split + 4 + 8u * slot));

    *id = (uint32_t)e;
    *len = (uint32_t)(e >> 32);
}

/* Writes n elements as one list and puts its head into the available ring;
 * invisible until publish (S8-S10). Returns the head. The caller saw that n
 * descriptors are free. */
MR_INLINE uint16_t
mr_split_add(struct mr_ring *r, struct mr_state *s,
             const struct mr_desc *element, uint32_t n)
{
    uint16_t head = s->head;
    uint16_t at = head;

    for (uint32_t i = 0; i < n; i++) {
        uint16_t next = r->slot[at].next;
        bool more = i + 1 < n;
        struct mr_split_desc d = {
            element[i].addr, element[i].len,
            (uint16_t)(element[i].flags | (more ? MR_DESC_NEXT : 0)),
            more ? next : 0};

        memcpy(&r->desc.split[at], &d, sizeof(d));
        at = next;
    }
    s->head = at;
    s->free = (uint16_t)(s->free - n);
    s->free_ids = s->free;
    mr_store(&r->avail.split->ring[s->avail.pos & (r->size - 1)], head);
    s->avail.pos++;
    return head;
}

/* Puts the list under `head` back at the end of the free list (S11). */
MR_INLINE void
mr_split_release(struct mr_ring *r, struct mr_state *s, uint16_t head)
{
    uint16_t ndesc = r->slot[head].ndesc;
    uint16_t last = head;

    for (uint32_t i = 1; i < ndesc; i++)
        last = r->slot[last].next;
    if (s->free_ids)
        r->slot[s->tail].next = head;
    else
        s->head = head;
    s->tail = last;
    s->free = (uint16_t)(s->free + ndesc);
    s->free_ids = s->free;
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
