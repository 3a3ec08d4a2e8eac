/* What the hostile tests share: buffers that break one rule, exposed through
 * the peer so that it still knows what to expect back. Included by
 * faults_*.c; the cases are rows of the tables there. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "peer/rig.h"
#include "unit/eal.h"

enum {
    ON_SPLIT = 1,
    ON_PACKED = 2,
    ON_BOTH = 3,
    TO_RX = 4, /* the core receives */
    TO_TX = 8, /* the core sends */
    TO_BOTH = 12,
    ALONE = 16, /* no good buffers around it */
};

static const struct peer_shape WHOLE = {PEER_CUT_whole, PEER_CHAIN};
static const uint64_t OUTSIDE = 0x7fff00000000; /* in no region */

/* A row: a rule, where it applies, and what breaks it. */
struct row {
    enum mr_fault fault;
    const char *name;
    uint32_t where;
    void (*bad)(struct rig *rig, uint32_t arg);
    uint32_t arg;
    uint64_t features;
    uint32_t size; /* of the ring: 0 = 16 */
    uint32_t slab; /* 0 = 2112 */
};

/* One row on one layout in one direction, alone or as one end of a splice. */
struct trial {
    const struct row *row;
    bool packed;
    bool rx;
    bool spliced;
};

/* Memory of the test's own: one slab that the peer never hands out. */
static inline uint64_t
scratch(const struct rig *rig)
{
    return rig->slabs_guest +
           (uint64_t)(rig->setup.slabs - 1) * rig->setup.slab;
}

/* A descriptor in the right direction for the queue. */
static inline struct mr_split_desc
element(const struct rig *rig, uint64_t addr, uint32_t len)
{
    return (struct mr_split_desc){addr, len,
                                  rig->setup.rx ? 0 : MR_DESC_WRITE, 0};
}

/* Exposes descriptors as they are, NEXT between them; the peer expects one
 * buffer back, with nothing written. */
static inline uint16_t
expose(struct rig *rig, const struct mr_split_desc *desc, uint32_t n)
{
    struct peer *p = &rig->peer;
    uint16_t id = p->layout->place(p, desc, n);

    p->record[id].out = true;
    p->record[id].n = 0;
    p->record[id].readable = 0;
    p->record[id].writable = 0;
    p->record[id].order = p->queue_tail;
    p->record[id].slab = UINT32_MAX;
    p->queue[p->queue_tail++ % p->size] = id;
    p->ndesc += n;
    return id;
}

static inline uint16_t
expose_one(struct rig *rig, uint64_t addr, uint32_t len)
{
    struct mr_split_desc d = element(rig, addr, len);

    return expose(rig, &d, 1);
}

/* Index in the ring of the descriptor that was exposed last. */
static inline uint16_t
last_index(const struct rig *rig, uint16_t id)
{
    const struct peer *p = &rig->peer;
    uint16_t at = id;

    if (p->packed)
        return (uint16_t)((p->avail.pos + p->size - 1) % p->size);
    for (uint32_t i = 1; i < p->record[id].ndesc; i++)
        at = p->shadow[at].next;
    return at;
}

/* Changes a descriptor that is exposed already, in the ring and in what the
 * peer remembers. */
static inline void
add_flags(struct rig *rig, uint16_t at, uint16_t flags, uint16_t next)
{
    struct peer *p = &rig->peer;

    if (p->packed) {
        struct mr_packed_desc *d = (struct mr_packed_desc *)p->part[0] + at;

        d->flags |= flags;
        memcpy(&p->shadow[at], d, 16);
    } else {
        struct mr_split_desc *d = (struct mr_split_desc *)p->part[0] + at;

        d->flags |= flags;
        d->next = next;
        p->shadow[at] = *d;
    }
}

/* Writes entry i of a table at `table`. */
static inline void
put_entry(struct rig *rig, uint64_t table, uint32_t i, uint64_t addr,
          uint32_t len, uint16_t flags, uint16_t next)
{
    struct mr_split_desc s = {
        addr, len, (uint16_t)(flags | (rig->setup.rx ? 0 : MR_DESC_WRITE)),
        next};
    struct mr_packed_desc p = {addr, len, next, s.flags};

    peer_memory_write(&rig->guest, table + 16 * i,
                      rig->peer.packed ? (void *)&p : (void *)&s, 16);
}

static inline void
expose_table(struct rig *rig, uint64_t table, uint32_t bytes)
{
    struct mr_split_desc d = {table, bytes, MR_DESC_INDIRECT, 0};

    expose(rig, &d, 1);
}

/* Bytes that are a header without offloads and a frame. */
static inline void
write_frame(struct rig *rig, uint64_t guest, uint32_t len)
{
    peer_memory_fill(&rig->guest, guest, 0, 12);
    peer_memory_fill(&rig->guest, guest + 12, 0x5a, len);
}

/* The start is good, the end is not. */
static inline void
end_outside(struct rig *rig, uint32_t len)
{
    expose_one(rig, scratch(rig) + rig->setup.slab - 40, len);
}

static inline void
many_parts(struct rig *rig, uint32_t n)
{
    struct mr_split_desc desc[PEER_PARTS];

    write_frame(rig, scratch(rig), 60);
    for (uint32_t i = 0; i < n; i++)
        desc[i] = element(rig, scratch(rig), 4);
    expose(rig, desc, n);
}

static inline void
many_entries(struct rig *rig, uint32_t n)
{
    write_frame(rig, scratch(rig) + 16 * n, 60);
    for (uint32_t i = 0; i < n; i++)
        put_entry(rig, scratch(rig), i, scratch(rig) + 16 * n, 4,
                  !rig->peer.packed && i + 1 < n ? MR_DESC_NEXT : 0,
                  (uint16_t)(i + 1));
    expose_table(rig, scratch(rig), 16 * n);
}

static inline void
of_length(struct rig *rig, uint32_t len)
{
    write_frame(rig, scratch(rig), 60);
    expose_one(rig, scratch(rig), len);
}

/* flags | gso_type << 8 | 0x10000 to lay the header over two parts. */
static inline void
header_says(struct rig *rig, uint32_t what)
{
    uint8_t word[2] = {(uint8_t)what, (uint8_t)(what >> 8)};
    struct mr_split_desc two[2] = {element(rig, scratch(rig), 1),
                                   element(rig, scratch(rig) + 1, 71)};

    write_frame(rig, scratch(rig), 60);
    peer_memory_write(&rig->guest, scratch(rig), word, 2);
    if (what >> 16)
        expose(rig, two, 2);
    else
        expose_one(rig, scratch(rig), 72);
}

static inline void
open_trial(struct rig *rig, const struct trial *t, bool driver)
{
    const struct row *row = t->row;
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | row->features |
                    (t->packed ? MR_F(RING_PACKED) : 0),
        .size = row->size ? row->size : 16,
        .driver = driver,
        .rx = t->rx,
        .slab = row->slab,
    };

    s.slabs = s.size + 1;
    if (!rig_open(rig, &s))
        fail_msg("%s", rig->error);
    rig->peer.slabs.n--; /* scratch: the last slab is at the stack's bottom */
    if (rig->peer.driver)
        memmove(rig->peer.slabs.free, rig->peer.slabs.free + 1,
                --rig->peer.slabs.nfree * sizeof(uint32_t));
    if (t->spliced && !rig_splice(rig, t->packed ? 0 : MR_F(RING_PACKED)))
        fail_msg("%s", rig->error);
}

static inline void
close_trial(struct rig *rig)
{
    if (rig->peer.error[0])
        fail_msg("peer: %s", rig->peer.error);
    if (!rig_close(rig))
        fail_msg("%s", rig->error);
}

/* Exactly `n` of this fault and nothing else were counted. */
static inline void
check_faults(const struct rig *rig, enum mr_fault fault, uint64_t n)
{
    for (uint32_t i = 1; i < MR_FAULT_COUNT; i++)
        if (rig->counters.faults[i] != (i == fault ? n : 0))
            fail_msg("%lu faults %s, expected %lu of %s",
                     rig->counters.faults[i], mr_fault_row(i)->name, n,
                     mr_fault_row(fault)->name);
}

/* Takes back what is used: *good buffers with a packet, *unused without. A
 * receive buffer tells by its length; of transmit buffers a bad one has no
 * slab. */
static inline void
collect(struct rig *rig, uint32_t *good, uint32_t *unused)
{
    struct peer_done done;
    int rc;

    *good = *unused = 0;
    while ((rc = peer_reap(&rig->peer, &done)) == 1) {
        bool bad = done.record.slab == UINT32_MAX;

        if (bad || (!rig->setup.rx && !done.len))
            ++*unused;
        else
            ++*good;
        if (!bad)
            rig->peer.slabs.free[rig->peer.slabs.nfree++] = done.record.slab;
    }
    if (rc < 0)
        fail_msg("peer: %s", rig->peer.error);
}
