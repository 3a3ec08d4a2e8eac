/* The split ring, as virtqueues 3 tells it. */
#include <string.h>

#include "peer/peer.h"

static bool
in_order(const struct peer *p)
{
    return p->features >> MR_F_IN_ORDER & 1;
}

/* S5. */
static void
advance(const struct peer *p, struct peer_pos *pos, uint32_t n)
{
    (void)p;
    pos->pos = (uint16_t)(pos->pos + n);
}

/* S38: in table order when that is negotiated, else any free one. */
static uint16_t
pick(struct peer *p)
{
    uint32_t at = p->nfree - 1;
    uint16_t id;

    if (in_order(p)) {
        id = p->cursor;
        p->cursor = (uint16_t)((p->cursor + 1) % p->size);
        return id;
    }
    if (p->shuffle)
        at = peer_random(p, p->nfree);
    id = p->free[at];
    p->free[at] = p->free[--p->nfree];
    return id;
}

/* S8: descriptors, then the head, then the index. */
static uint16_t
place(struct peer *p, const struct mr_split_desc *desc, uint32_t n)
{
    struct mr_split_desc *table = p->part[0];
    struct mr_split_avail *avail = p->part[1];
    uint16_t index[PEER_PARTS];

    for (uint32_t i = 0; i < n; i++)
        index[i] = pick(p);
    for (uint32_t i = 0; i < n; i++) {
        struct mr_split_desc d = desc[i];

        if (i + 1 < n) {
            d.flags |= MR_DESC_NEXT;
            d.next = index[i + 1];
        }
        p->shadow[index[i]] = d;
        table[index[i]] = d;
    }
    p->record[index[0]].at = index[0];
    p->record[index[0]].ndesc = (uint16_t)n;
    avail->ring[p->avail.pos % p->size] = index[0];
    p->avail.pos++;
    __atomic_store_n(&avail->idx, p->avail.pos, __ATOMIC_RELEASE);
    return index[0];
}

/* S5, S12, S18: how far the device's index may be. */
static int
peek(struct peer *p, uint32_t *id, uint32_t *len)
{
    struct mr_split_used *used = p->part[2];
    uint16_t idx = __atomic_load_n(&used->idx, __ATOMIC_ACQUIRE);
    uint16_t pending = (uint16_t)(idx - p->used.pos);
    struct mr_split_used_elem e;

    if (pending > peer_outstanding(p))
        return peer_fail(p, "S12: used index %u, read up to %u, %u "
                         "outstanding", idx, p->used.pos, peer_outstanding(p));
    if (!pending)
        return 0;
    e = used->ring[p->used.pos % p->size];
    if (in_order(p) && e.id < p->size && p->record[e.id].out &&
        p->record[e.id].order - p->queue_head >= pending)
        return peer_fail(p, "S40: a batch up to id %u, but the index moved "
                         "by %u", e.id, pending);
    *id = e.id;
    *len = e.len;
    return 1;
}

/* S17: the device reads descriptors and the available ring only. */
static int
recover(struct peer *p, const struct peer_record *record, uint16_t id)
{
    struct mr_split_desc *table = p->part[0];
    struct mr_split_avail *avail = p->part[1];
    uint16_t at = id;

    if (avail->idx != p->avail.pos)
        return peer_fail(p, "S17: the device wrote avail.idx");
    for (uint32_t i = 0; i < record->ndesc; i++) {
        if (memcmp(&table[at], &p->shadow[at], 16))
            return peer_fail(p, "S17: the device wrote descriptor %u", at);
        if (!in_order(p))
            p->free[p->nfree++] = at;
        at = p->shadow[at].next;
    }
    return 0;
}

/* S6, S9, S10, S38, S39 and C5 for one descriptor of a chain. */
static int
chain_check(struct peer *p, uint16_t at, const struct mr_split_desc *d,
            uint32_t links)
{
    if (at >= p->size)
        return peer_fail(p, "S9: descriptor %u in a table of %u", at, p->size);
    if (links >= p->size)
        return peer_fail(p, "S10: chain of more than %u", p->size);
    if (p->held[at])
        return peer_fail(p, "C5 S6: descriptor %u is outstanding already", at);
    if (d->flags & ~(MR_DESC_NEXT | MR_DESC_WRITE | MR_DESC_INDIRECT))
        return peer_fail(p, "S9: descriptor %u has flags %#x", at, d->flags);
    if ((d->flags & MR_DESC_NEXT) && (d->flags & MR_DESC_INDIRECT))
        return peer_fail(p, "S21: descriptor %u is INDIRECT and NEXT", at);
    if (in_order(p) && at != p->cursor)
        return peer_fail(p, "S38 S39: descriptor %u follows %u", at,
                         p->cursor);
    return 0;
}

static int
take_chain(struct peer *p, uint16_t head, struct peer_list *list,
           uint32_t *links)
{
    struct mr_split_desc *table = p->part[0];
    uint16_t at = head;
    int rc;

    for (*links = 0;;) {
        struct mr_split_desc d = {0};

        if (at < p->size)
            d = table[at];
        if (chain_check(p, at, &d, (*links)++))
            return -1;
        p->held[at] = true;
        p->shadow[at] = d;
        p->cursor = (uint16_t)((at + 1) % p->size);
        rc = d.flags & MR_DESC_INDIRECT
                 ? peer_table_add(p, list, d.addr, d.len)
                 : peer_part_add(p, list, d.addr, d.len, d.flags);
        if (rc || !(d.flags & MR_DESC_NEXT))
            return rc;
        at = d.next;
    }
}

/* S6, S14, S15. */
static int
take(struct peer *p, struct peer_list *list, uint16_t *id)
{
    struct mr_split_avail *avail = p->part[1];
    uint16_t idx = __atomic_load_n(&avail->idx, __ATOMIC_ACQUIRE);
    uint16_t pending = (uint16_t)(idx - p->avail.pos);
    uint32_t links;

    if (pending + peer_outstanding(p) > p->size)
        return peer_fail(p, "S6: avail index %u, read up to %u, %u taken", idx,
                         p->avail.pos, peer_outstanding(p));
    if (!pending)
        return 0;
    *id = avail->ring[p->avail.pos % p->size];
    if (take_chain(p, *id, list, &links) ||
        peer_record_add(p, *id, list, *id, links))
        return -1;
    p->avail.pos++;
    return 1;
}

static void
write_used(struct peer *p, struct peer_pos at, uint16_t id, uint32_t len)
{
    struct mr_split_used *used = p->part[2];

    used->ring[at.pos % p->size] = (struct mr_split_used_elem){id, len};
}

static void
publish(struct peer *p)
{
    struct mr_split_used *used = p->part[2];

    __atomic_store_n(&used->idx, p->used.pos, __ATOMIC_RELEASE);
}

/* C5: the driver leaves exposed descriptors alone. */
static int
forget(struct peer *p, uint16_t id)
{
    struct mr_split_desc *table = p->part[0];
    uint16_t at = id;

    for (uint32_t i = 0; i < p->record[id].ndesc; i++) {
        if (memcmp(&table[at], &p->shadow[at], 16))
            return peer_fail(p, "C5: descriptor %u changed while it was "
                             "outstanding", at);
        p->held[at] = false;
        at = p->shadow[at].next;
    }
    return 0;
}

const struct peer_layout peer_split = {advance, place, peek, recover,
                                       take, write_used, publish, forget};
