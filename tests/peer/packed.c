/* The packed ring, as virtqueues 4 tells it. */
#include <string.h>

#include "peer/peer.h"

/* P5. */
static void
advance(const struct peer *p, struct peer_pos *pos, uint32_t n)
{
    uint32_t next = pos->pos + n;

    if (next >= p->size) {
        next -= p->size;
        pos->wrap = !pos->wrap;
    }
    pos->pos = (uint16_t)next;
}

/* The two bits that mark a descriptor available / used in a lap (4.1). */
static uint16_t
available(bool wrap)
{
    return wrap ? MR_DESC_AVAIL : MR_DESC_USED;
}

static uint16_t
used(bool wrap)
{
    return wrap ? MR_DESC_AVAIL | MR_DESC_USED : 0;
}

static const uint16_t BOTH = MR_DESC_AVAIL | MR_DESC_USED;

static uint16_t
pick_id(struct peer *p)
{
    uint32_t at = p->shuffle ? peer_random(p, p->nfree) : p->nfree - 1;
    uint16_t id = p->free[at];

    p->free[at] = p->free[--p->nfree];
    return id;
}

static void
shadow_set(struct peer *p, uint16_t at, const struct mr_packed_desc *d)
{
    memcpy(&p->shadow[at], d, 16);
}

static bool
shadow_same(const struct peer *p, uint16_t at)
{
    const struct mr_packed_desc *ring = p->part[0];

    return memcmp(&p->shadow[at], &ring[at], 16) == 0;
}

/* P9-P11: all but the head's flags, then those with release. The id of every
 * descriptor but the last is noise. */
static uint16_t
place(struct peer *p, const struct mr_split_desc *desc, uint32_t n)
{
    struct mr_packed_desc *ring = p->part[0];
    struct peer_pos at = p->avail;
    uint16_t id = pick_id(p), head_flags = 0;

    p->record[id].at = at.pos;
    p->record[id].ndesc = (uint16_t)n;
    for (uint32_t i = 0; i < n; i++) {
        struct mr_packed_desc d = {
            .addr = desc[i].addr,
            .len = desc[i].len,
            .id = i + 1 < n ? (uint16_t)peer_random(p, 65536) : id,
            .flags = (uint16_t)(desc[i].flags | available(at.wrap) |
                                (i + 1 < n ? MR_DESC_NEXT : 0)),
        };

        shadow_set(p, at.pos, &d);
        ring[at.pos].addr = d.addr;
        ring[at.pos].len = d.len;
        ring[at.pos].id = d.id;
        if (i == 0)
            head_flags = d.flags;
        else
            ring[at.pos].flags = d.flags;
        advance(p, &at, 1);
    }
    __atomic_store_n(&ring[p->avail.pos].flags, head_flags, __ATOMIC_RELEASE);
    p->avail = at;
    return id;
}

/* P21: both bits equal to the lap's counter; len only with WRITE. */
static int
peek(struct peer *p, uint32_t *id, uint32_t *len)
{
    struct mr_packed_desc *ring = p->part[0];
    struct mr_packed_desc *d = &ring[p->used.pos];
    uint16_t flags = __atomic_load_n(&d->flags, __ATOMIC_ACQUIRE);

    if (!peer_outstanding(p) || (flags & BOTH) != used(p->used.wrap))
        return 0;
    *id = d->id;
    *len = d->len;
    if (!(flags & MR_DESC_WRITE))
        *len = 0;
    else if (!p->to_driver)
        return peer_fail(p, "P21: id %u used with WRITE, but nothing in it "
                         "is writable", *id);
    return 1;
}

/* P20: one used descriptor a buffer; the others of a buffer that is completed
 * in its turn keep what we wrote. */
static int
recover(struct peer *p, const struct peer_record *record, uint16_t id)
{
    struct peer_pos at = {record->at, false};

    p->free[p->nfree++] = id;
    if (record->at != p->used.pos)
        return 0;
    for (uint32_t i = 1; i < record->ndesc; i++) {
        advance(p, &at, 1);
        if (!shadow_same(p, at.pos))
            return peer_fail(p, "P20: the device wrote descriptor %u of a "
                             "buffer at %u", at.pos, record->at);
    }
    return 0;
}

/* P10, P11, P12, P29 for descriptor number n of a list. */
static int
list_check(struct peer *p, const struct mr_packed_desc *d, struct peer_pos at,
           uint32_t n)
{
    if ((d->flags & BOTH) != available(at.wrap))
        return peer_fail(p, "P10: follower %u at %u has flags %#x", n, at.pos,
                         d->flags);
    if (n >= p->size)
        return peer_fail(p, "P12: list of more than %u", p->size);
    if ((d->flags & MR_DESC_INDIRECT) &&
        ((d->flags & MR_DESC_NEXT) || n > 0))
        return peer_fail(p, "P29: table in a chain at %u", at.pos);
    return 0;
}

static struct mr_packed_desc
load(struct peer *p, uint16_t at)
{
    struct mr_packed_desc *ring = p->part[0];
    struct mr_packed_desc d;

    d.flags = __atomic_load_n(&ring[at].flags, __ATOMIC_ACQUIRE);
    d.addr = ring[at].addr;
    d.len = ring[at].len;
    d.id = ring[at].id;
    return d;
}

static int
take(struct peer *p, struct peer_list *list, uint16_t *id)
{
    struct peer_pos at = p->avail;
    struct mr_packed_desc d = load(p, at.pos);
    uint32_t n = 0;

    if (p->ndesc == p->size || (d.flags & BOTH) != available(at.wrap))
        return 0;
    for (;;) {
        if (list_check(p, &d, at, n++))
            return -1;
        shadow_set(p, at.pos, &d);
        if (d.flags & MR_DESC_INDIRECT
                ? peer_table_add(p, list, d.addr, d.len)
                : peer_part_add(p, list, d.addr, d.len, d.flags))
            return -1;
        advance(p, &at, 1);
        if (!(d.flags & MR_DESC_NEXT))
            break;
        d = load(p, at.pos);
    }
    *id = d.id;
    if (peer_record_add(p, *id, list, p->avail.pos, n))
        return -1;
    p->avail = at;
    return 1;
}

/* P21, P22. */
static void
write_used(struct peer *p, struct peer_pos at, uint16_t id, uint32_t len)
{
    struct mr_packed_desc *ring = p->part[0];
    struct mr_packed_desc d = {
        .addr = ring[at.pos].addr,
        .len = len,
        .id = id,
        .flags = (uint16_t)(used(at.wrap) | (len ? MR_DESC_WRITE : 0)),
    };

    shadow_set(p, at.pos, &d);
    ring[at.pos].id = d.id;
    ring[at.pos].len = d.len;
    __atomic_store_n(&ring[at.pos].flags, d.flags, __ATOMIC_RELEASE);
}

/* Every entry was exposed when it was written. */
static void
publish(struct peer *p)
{
    (void)p;
}

/* P14: the driver changes a descriptor only after it was used. */
static int
forget(struct peer *p, uint16_t id)
{
    const struct peer_record *r = &p->record[id];
    struct peer_pos at = {r->at, false};

    for (uint32_t i = 0; i < r->ndesc; i++) {
        if (!shadow_same(p, at.pos))
            return peer_fail(p, "P14: descriptor %u changed while it was "
                             "outstanding", at.pos);
        advance(p, &at, 1);
    }
    return 0;
}

const struct peer_layout peer_packed = {advance, place, peek, recover,
                                        take, write_used, publish, forget};
