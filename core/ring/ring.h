/* One virtqueue, on either side of it.
 *
 * The device side (vhost) takes buffers that the driver made available and
 * gives them back used; the driver side (virtio) does the reverse. Both keep
 * every position in this struct and look into shared memory only for what the
 * peer writes.
 *
 * Owner: the worker that is inside the queue's gate; the control thread while
 * the gate is closed. Lines: as set up, state, and as set up for the driver
 * side: a burst touches two of them on the device side, three on the other.
 *
 * Invariants:
 *  1. avail and used positions change only by what was published.
 *  2. A shared word is loaded once; only the local copy is checked and used.
 *  3. `fault` is sticky: once set the ring does nothing until the next start.
 *  4. When a burst returns, everything it consumed is published (P54, S49). */
#pragma once

#include "base/atomic.h"
#include "mem/memory.h"
#include "mem/packet.h"
#include "ring/layout.h"

/* Descriptors of one list that we follow on the device side (S28). */
enum { MR_CHAIN_SEGS = 256 };
/* Entries of a driver-side indirect table: 64 KiB in 2 KiB buffers + header. */
enum { MR_TABLE_ENTRIES = 36 };

/* A position in a ring. Split: pos runs free, modulo 65536. Packed: pos is an
 * index below the size, wrap the counter that belongs to it. */
struct mr_pos {
    uint16_t pos;
    uint16_t wrap;
};

/* Buffers used since the last publish: private until then. */
struct mr_used_run {
    struct mr_pos at;    /* where the next used entry goes */
    uint32_t n;          /* lists in the run */
    uint16_t first;      /* packed: position of the first entry, */
    uint64_t first_word; /* and its len, id and flags, held back */
    uint16_t last_id;    /* in-order: the id that stands for all */
};

/* Driver side: what is out under an id, a packet with a mark in its lowest bit.
 * Plain, without the mark, is one descriptor with a packet of the ring's pool,
 * which needs no look before it goes home. MR_OUT_NONE: nothing, or an id that
 * is not the first of its list. */
typedef uintptr_t mr_out;

enum { MR_OUT_NONE = 1 };

MR_INLINE bool
mr_out_plain(mr_out out)
{
    return !(out & 1);
}

MR_INLINE struct mr_pkt *
mr_out_pkt(mr_out out)
{
    return (struct mr_pkt *)(out & ~(mr_out)1);
}

/* Driver side: the shape of the list that is out under an id. */
struct mr_slot {
    uint16_t ndesc; /* descriptors, and ids, that it takes */
    uint16_t next;  /* next id of a list of several */
};

/* What every buffer changes: a burst works on a copy in registers and stores
 * it back at its end. */
struct mr_state {
    struct mr_pos avail; /* next buffer to make available, or to take */
    struct mr_pos used;  /* next buffer to take back, or to use */
    /* Driver side. Descriptors of the ring that are free, and where in
     * mr_ring.ids the next id is taken (head) and put back (tail). A packed
     * ring takes and puts at its avail and used positions. */
    uint16_t free;
    uint16_t head;
    uint16_t tail;
    /* Driver, in-order: the batch that one used entry stands for. */
    bool in_batch;
    uint16_t batch_id;
    uint32_t batch_len;
};

/* Copies a state field by field: as one block the compiler would keep the
 * burst's copy in memory. */
MR_INLINE void
mr_state_copy(struct mr_state *to, const struct mr_state *from)
{
    to->avail.pos = from->avail.pos;
    to->avail.wrap = from->avail.wrap;
    to->used.pos = from->used.pos;
    to->used.wrap = from->used.wrap;
    to->free = from->free;
    to->head = from->head;
    to->tail = from->tail;
    to->in_batch = from->in_batch;
    to->batch_id = from->batch_id;
    to->batch_len = from->batch_len;
}

/* What lies among the fields of a ring that is not laid out by their use. */
#if MR_HAS(LAYOUT)
#define MR_SPREAD(n)
#else
#define MR_SPREAD(n) uint8_t spread##n[2 * MR_CACHE_LINE];
#endif

struct mr_ring {
    /* Line 0: as set up. */
    MR_LINE union {
        struct mr_split_desc *split;
        struct mr_packed_desc *packed;
    } desc;
    union {
        struct mr_split_avail *split;
        struct mr_packed_event *packed;
    } avail; /* driver area */
    union {
        struct mr_split_used *split;
        struct mr_packed_event *packed;
    } used; /* device area */
    MR_SPREAD(0)
    const struct mr_memory *memory; /* device side */
    struct mr_pool *pool;
    struct mr_counters *counters;
    uint16_t size;
    uint8_t header; /* bytes of the virtio-net header: 10 or 12 */
    bool event_idx;
    bool indirect;
    bool split_header; /* driver: header in a descriptor of its own (N19) */
    bool keep_num_buffers; /* driver: see mr_ring_config */
    MR_SPREAD(1)
    int notify_fd; /* call (device) or kick (driver); -1 = none */
    bool driver;
    bool rx;
    bool started;
    uint8_t cpu; /* enum mr_cpu: the code that it runs with */

    /* Line 1: state. */
    MR_LINE struct mr_state at;
    MR_SPREAD(2)
    uint32_t fault;          /* enum mr_fault */
    struct mr_pos signalled; /* position at the last notification decision */
    bool signalled_valid;    /* false until the first decision (S33, P42) */
    uint32_t partial_left;
    struct mr_pkt *partial;      /* driver rx: packet of several buffers, */
    struct mr_pkt *partial_last; /* of which not all came yet */

    /* Line 2: as set up, driver side. */
    MR_LINE mr_out *out;  /* [size], by id */
    MR_SPREAD(3)
    struct mr_slot *slot; /* [size], by id, unless plain */
    /* [size], the free ids in the order in which they were put back, and,
     * behind them, those in use in the order in which they were taken: as long
     * as completions come in order it is the ring's (S38). */
    uint16_t *ids;
    uint64_t delta;                /* guest address = pointer - delta */
    struct mr_packed_desc *tables; /* [size][MR_TABLE_ENTRIES] */
    uint8_t *headers;              /* tx: [size][MR_HEADER_SLOT], zeroed */
    uint64_t features;
    struct mr_loan *loan; /* device rx: lends, as its owner arranged; or NULL */
};

/* Who writes which field, in their order: X(field, writer). `start` = the
 * control thread, before the ring runs; `gate` = also later, behind the closed
 * gate; `data` = the data path. fields.c asserts that the data path has a line
 * of its own, so that neither side's stores cost the other (T31). */
/* clang-format off */
#define MR_RING_FIELDS(X)                                                      \
    X(desc, start) X(avail, start) X(used, start) X(memory, start)             \
    X(pool, start) X(counters, start) X(size, start) X(header, start)          \
    X(event_idx, start) X(indirect, start) X(split_header, start)              \
    X(keep_num_buffers, start) X(notify_fd, gate) X(driver, start)             \
    X(rx, start) X(started, gate) X(cpu, start)                                \
    X(at, data) X(fault, data) X(signalled, data) X(signalled_valid, data)     \
    X(partial_left, data) X(partial, data) X(partial_last, data)               \
    X(out, start) X(slot, start) X(ids, start) X(delta, start)                 \
    X(tables, start) X(headers, start) X(features, start)            \
    X(loan, start)
/* clang-format on */

/* r->header, as a constant where the layout decides it: packed implies
 * VERSION_1 (T13h). */
MR_INLINE uint32_t
mr_ring_header(const struct mr_ring *r, bool packed)
{
    return packed && MR_HAS(CONSTANT_HEADER) ? (uint32_t)MR_HEADER : r->header;
}

enum { MR_HEADER_SLOT = 16 };

struct mr_ring_config {
    uint64_t features;
    uint32_t size;
    uint32_t base; /* SET_VRING_BASE value (virtqueues 5) */
    bool driver;   /* which side we are */
    bool rx;       /* which way packets go: true = into Moonring */
    void *part[3]; /* host: descriptors, driver area, device area */
    const struct mr_memory *memory; /* device side */
    uint64_t delta;       /* driver side: guest address = pointer - delta */
    void *shadow_tables;  /* driver: mr_ring_table_bytes(size), shared */
    struct mr_pool *pool; /* rx: buffers; driver: sent in place, else copied */
    struct mr_counters *counters;
    int notify_fd; /* stays the caller's; -1 = none */
    bool keep_num_buffers; /* driver: num_buffers is sent as it lies there,
                            * not as 0 (N23) */
};

/* Shared memory that the driver side needs beside the ring parts: header slots
 * and indirect tables. */
size_t mr_ring_table_bytes(uint32_t size);

/* A driver-side receive queue has no buffers posted after start: call its burst
 * function once with n = 0 before the peer may use it (N4).
 *
 * Takes the configuration over and puts the positions where `base` says; does
 * not touch the gate. Device side: reads used.idx of a split ring (S19).
 * Driver side: the parts must be zero for a fresh base; allocates the slots.
 * Errors: EINVAL (S1, S2, B6, P1, P2: which, in the text), ENOMEM. */
int mr_ring_start(struct mr_ring *ring, const struct mr_ring_config *config);
/* Ends a ring: driver side frees the packets that are outstanding (T41). The
 * base stays readable. Allowed on a ring that never started. */
void mr_ring_stop(struct mr_ring *ring);
/* SET_VRING_BASE value of a ring that nothing happened on yet (B2). */
MR_INLINE uint32_t
mr_ring_fresh_base(uint64_t features)
{
    return features & MR_F(RING_PACKED) ? 0x80008000 : 0;
}

/* GET_VRING_BASE value (B5). */
uint32_t mr_ring_base(const struct mr_ring *ring);
/* The burst function for the ring's side, direction and features; *name gets
 * its variant name for humans ("packed-mrg-inorder"). Context is the ring. */
mr_burst_fn mr_burst_select(const struct mr_ring *ring, const char **name);
/* Text of the state: positions, wraps, event words, outstanding; returns the
 * length it wanted, like snprintf. */
uint32_t mr_ring_dump(const struct mr_ring *ring, char *out, uint32_t size);
