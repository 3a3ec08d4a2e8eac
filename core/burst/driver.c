/* The driver side of a virtqueue (virtio): packets in the port's shared memory
 * are posted as receive buffers (rx) and exposed for transmission in place
 * (tx); a packet whose bytes lie elsewhere is copied into shared memory first.
 *
 * The device at the other end is not trusted: what it reports is checked
 * against the slots, which are private (S11-S13, P15, P16).
 *
 * Owner: the worker inside the queue's gate. */
#include "base/stat.h"
#include "burst/header.h"
#include "burst/notify.h"
#include "burst/variant.h"

/* Elements of one list that we expose: header and segments. */
enum { ELEMENTS_MAX = MR_TABLE_ENTRIES };

/* ---- Used buffers ------------------------------------------------------- */

struct done {
    struct mr_pkt *pkt;
    uint32_t len;  /* reported by the device */
    uint32_t room; /* exposed to it */
};

/* Used buffers that may be taken: an upper bound on a packed ring. */
MR_INLINE uint32_t
used_count(struct mr_ring *r, const struct mr_state *s, unsigned v)
{
    return v & MR_V_PACKED ? r->size
                           : mr_split_used_count(r, s, v & MR_V_PLATFORM);
}

MR_INLINE bool
used_at(struct mr_ring *r, const struct mr_state *s, uint32_t *id,
        uint32_t *len, unsigned v)
{
    if (v & MR_V_PACKED)
        return mr_packed_used_at(r, s, id, len, v & MR_V_PLATFORM);
    mr_split_used_at(r, s, id, len);
    return true;
}

/* In order one entry may stand for all buffers up to its id; those before it
 * were filled completely (S40-S42, P44-P46). Turns the entry into its oldest
 * buffer. */
MR_INLINE void
in_order_oldest(struct mr_ring *r, struct mr_state *s, uint32_t *id,
                uint32_t *len, unsigned v)
{
    uint32_t next;

    r->batch_id = (uint16_t)*id;
    r->batch_len = *len;
    *id = s->expect;
    r->in_batch = *id != r->batch_id;
    if (r->in_batch)
        *len = r->slot[*id].room;
    next = *id + (v & MR_V_PACKED ? 1u : mr_predict(r->slot[*id].ndesc, 1));
    s->expect = (uint16_t)(next >= r->size ? next - r->size : next);
}

/* Takes the next used buffer, if there is one, and frees its id. */
MR_INLINE bool
take_used(struct mr_ring *r, struct mr_state *s, uint32_t *left,
          struct done *done, unsigned v)
{
    uint32_t id;
    uint32_t len;

    if (v & MR_V_IN_ORDER && r->in_batch) {
        if (mr_unlikely(!*left)) { /* S42: longer than what was used */
            mr_ring_break(r, MR_FAULT_USED_ID);
            return false;
        }
        id = r->batch_id;
        len = r->batch_len;
    } else if (!*left || !used_at(r, s, &id, &len, v)) {
        return false;
    }
    if (mr_unlikely(id >= r->size || !r->slot[id].pkt)) {
        mr_ring_break(r, MR_FAULT_USED_ID); /* S12, P16 */
        return false;
    }
    if (v & MR_V_IN_ORDER) {
        in_order_oldest(r, s, &id, &len, v);
        if (mr_unlikely(!r->slot[id].pkt)) {
            mr_ring_break(r, MR_FAULT_USED_ID);
            return false;
        }
    }
    --*left;
    *done = (struct done){r->slot[id].pkt, len, r->slot[id].room};
    r->slot[id].pkt = NULL;
    if (v & MR_V_PACKED)
        mr_packed_release(r, s, (uint16_t)id);
    else
        mr_split_release(r, s, (uint16_t)id);
    return true;
}

/* ---- Exposing buffers --------------------------------------------------- */

MR_INLINE uint64_t
guest_address(const struct mr_ring *r, const void *ptr)
{
    return (uintptr_t)ptr - r->delta;
}

/* Exposes n elements as one list and records what it carries. */
MR_INLINE void
add(struct mr_ring *r, struct mr_state *s, const struct mr_desc *element,
    uint32_t n, struct mr_pkt *pkt, uint32_t room, unsigned v)
{
    struct mr_slot *slot;
    uint16_t id;

    if (v & MR_V_PACKED)
        id = mr_packed_add(r, s, element, n, v & MR_V_PLATFORM);
    else
        id = mr_split_add(r, s, element, n);
    slot = &r->slot[id];
    slot->pkt = pkt;
    slot->room = room;
    slot->ndesc = (uint16_t)n;
}

MR_INLINE void
publish(struct mr_ring *r, unsigned v)
{
    if (!(v & MR_V_PACKED))
        mr_split_publish_avail(r, v & MR_V_PLATFORM);
    mr_notify_if_wanted(r, false, v);
}

/* ---- rx ------------------------------------------------------------------ */

enum { REFILL_BATCH = 64 };

/* A receive buffer: the header lands in the headroom, the frame where a fresh
 * packet has its data. Legacy devices without ANY_LAYOUT want the header in a
 * descriptor of its own (N19). */
MR_INLINE void
post(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt, unsigned v)
{
    uint8_t *data = mr_pkt_data(pkt);
    uint64_t at = guest_address(r, data - r->header);
    uint32_t room = r->pool->room;

    if (mr_likely(!r->split_header)) {
        struct mr_desc one = {at, r->header + room, MR_DESC_WRITE, 0};

        add(r, s, &one, 1, pkt, r->header + room, v);
    } else {
        struct mr_desc two[2] = {
            {at, r->header, MR_DESC_WRITE, 0},
            {at + r->header, room, MR_DESC_WRITE, 0},
        };

        add(r, s, two, 2, pkt, r->header + room, v);
    }
}

/* Keeps the queue full (N4), in batches (T50). True when it posted some. */
MR_INLINE bool
refill(struct mr_ring *r, struct mr_state *s, unsigned v)
{
    uint32_t room = r->split_header ? s->free / 2u : s->free;
    struct mr_pkt *pkts[REFILL_BATCH];
    bool posted = false;

    if (room < MR_MIN(32u, r->size / 8u + 1u))
        return false;
    while (room) {
        uint32_t n = MR_MIN(room, (uint32_t)REFILL_BATCH);

        if (mr_unlikely(!mr_pkts_alloc(r->pool, pkts, n))) {
            mr_count(&r->counters->nobuf, 1);
            break;
        }
        for (uint32_t i = 0; i < n; i++)
            post(r, s, pkts[i], v);
        room -= n;
        posted = true;
    }
    return posted;
}

/* A further buffer of the packet in r->partial: it holds no header. Returns
 * the packet when this was its last one. */
MR_COLD static struct mr_pkt *
rx_continue(struct mr_ring *r, const struct done *done)
{
    struct mr_pkt *head = r->partial;
    struct mr_pkt *seg = done->pkt;

    seg->data_off = (uint16_t)(seg->data_off - r->header);
    mr_pkt_set_len(seg, done->len);
    r->partial_last->next = seg;
    r->partial_last = seg;
    head->nb_segs++;
    head->pkt_len += done->len;
    if (--r->partial_left)
        return NULL;
    r->partial = NULL;
    if (head->pkt_len <= MR_FRAME_MAX)
        return head;
    mr_count(&r->counters->faults[MR_FAULT_GIANT], 1); /* N48 */
    mr_pkt_free(head);
    return NULL;
}

/* The first of several buffers (N36, N37, N48). */
MR_COLD static void
rx_begin(struct mr_ring *r, struct mr_pkt *pkt, uint32_t buffers,
         uint32_t outstanding)
{
    if (buffers > outstanding + 1) {
        mr_ring_break(r, MR_FAULT_NUM_BUFFERS);
        mr_pkt_free(pkt);
        return;
    }
    r->partial = pkt;
    r->partial_last = pkt;
    r->partial_left = buffers - 1;
}

MR_COLD static void
rx_drop(struct mr_ring *r, const struct done *done)
{
    if (done->len > done->room)
        mr_ring_break(r, MR_FAULT_USED_LENGTH); /* S12, P16 */
    else
        mr_count(&r->counters->faults[MR_FAULT_USED_SHORT], 1); /* N48 */
    mr_pkt_free(done->pkt);
}

/* A used buffer becomes a packet, a part of one (NULL), or nothing (NULL). */
MR_INLINE struct mr_pkt *
rx_packet(struct mr_ring *r, const struct mr_state *s,
          const struct done *done, unsigned v)
{
    struct mr_pkt *pkt = done->pkt;
    bool first = !(v & MR_V_MERGEABLE) || !r->partial;
    uint32_t least = first ? r->header + MR_FRAME_MIN : 1;

    if (mr_unlikely(done->len > done->room || done->len < least)) {
        rx_drop(r, done);
        return NULL;
    }
    if (mr_unlikely(!first))
        return rx_continue(r, done);
    mr_pkt_set_len(pkt, done->len - r->header);
    if (v & MR_V_MERGEABLE) {
        const uint8_t *end = mr_pkt_data(pkt);
        uint16_t buffers = mr_load((const uint16_t *)(const void *)(end - 2));

        if (mr_unlikely(buffers > 1)) {
            rx_begin(r, pkt, buffers, (uint32_t)r->size - s->free_ids);
            return NULL;
        }
    }
    return pkt;
}

MR_INLINE uint32_t
driver_rx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    struct mr_state s;
    uint64_t bytes = 0;
    uint32_t got = 0;
    struct done done;
    bool posted = false;
    uint32_t left;

    if (mr_unlikely(r->fault))
        return 0;
    mr_state_copy(&s, &r->at);
    left = used_count(r, &s, v);
    while (got < n && take_used(r, &s, &left, &done, v)) {
        struct mr_pkt *pkt = rx_packet(r, &s, &done, v);

        if (mr_likely(pkt != NULL)) {
            pkts[got++] = pkt;
            bytes += pkt->pkt_len;
        } else if (mr_unlikely(r->fault)) {
            break;
        }
    }
    if (mr_likely(!r->fault))
        posted = refill(r, &s, v);
    mr_state_copy(&r->at, &s);
    if (posted)
        publish(r, v);
    mr_counters_moved(r->counters, got, bytes);
    return got;
}

/* ---- tx ------------------------------------------------------------------ */

/* Frees what the device is done with. The used length means nothing here
 * (N33). */
MR_INLINE void
reclaim(struct mr_ring *r, struct mr_state *s, unsigned v)
{
    struct mr_pkt *pkts[REFILL_BATCH];
    uint32_t left = used_count(r, s, v);
    struct done done;
    uint32_t n = 0;

    while (take_used(r, s, &left, &done, v)) {
        if (mr_unlikely(!done.room)) {
            mr_pkt_free(done.pkt);
            continue;
        }
        pkts[n++] = done.pkt;
        if (n == REFILL_BATCH) {
            mr_pkts_put(r->pool, pkts, n);
            n = 0;
        }
    }
    if (n)
        mr_pkts_put(r->pool, pkts, n);
}

/* Are the segment's bytes in the port's shared memory? */
MR_INLINE bool
is_shared(const struct mr_ring *r, const struct mr_pkt *seg)
{
    return (size_t)(seg->buf_addr - r->pool->bytes) < r->pool->span;
}

/* Can the packet be exposed as it is, header in the headroom? */
MR_INLINE bool
is_plain(const struct mr_ring *r, const struct mr_pkt *pkt)
{
    return pkt->nb_segs == 1 && is_shared(r, pkt) &&
           mr_load(&pkt->refcnt) == 1 && pkt->data_off >= r->header &&
           !r->split_header;
}

static bool
can_expose(const struct mr_ring *r, const struct mr_pkt *pkt)
{
    if (pkt->nb_segs >= ELEMENTS_MAX)
        return false;
    for (; pkt; pkt = pkt->next)
        if (!is_shared(r, pkt))
            return false;
    return true;
}

/* Header in the id's slot, then every segment. */
static uint32_t
tx_elements(const struct mr_ring *r, const struct mr_pkt *pkt,
            struct mr_desc *element)
{
    uint8_t *header = r->headers + (size_t)r->at.head * MR_HEADER_SLOT;
    uint32_t n = 0;

    mr_header_put(header, r->header, 0);
    element[n++] = (struct mr_desc){guest_address(r, header), r->header, 0, 0};
    for (; pkt; pkt = pkt->next)
        if (pkt->data_len)
            element[n++] = (struct mr_desc){guest_address(r, mr_pkt_data(pkt)),
                                            pkt->data_len, 0, 0};
    return n;
}

/* Moves the elements into the table of the next free id (P30, S39) and leaves
 * one element that refers to it. */
static void
tx_table(struct mr_ring *r, struct mr_desc *element, uint32_t n, bool packed)
{
    struct mr_packed_desc *table =
        r->tables + (size_t)r->at.head * MR_TABLE_ENTRIES;

    for (uint32_t i = 0; i < n; i++) {
        if (packed) {
            table[i] = (struct mr_packed_desc){element[i].addr, element[i].len,
                                               0, 0};
        } else {
            bool more = i + 1 < n;
            struct mr_split_desc d = {element[i].addr, element[i].len,
                                      more ? MR_DESC_NEXT : 0,
                                      more ? (uint16_t)(i + 1) : 0};

            memcpy(&table[i], &d, sizeof(d));
        }
    }
    element[0] = (struct mr_desc){guest_address(r, table), 16 * n,
                                  MR_DESC_INDIRECT, 0};
}

enum tx_result { TX_ADDED, TX_FULL, TX_NOBUF, TX_NEVER };

/* A plain packet is one element, its header just before its data. */
MR_INLINE enum tx_result
tx_plain(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt,
         unsigned v)
{
    uint8_t *header = mr_pkt_data(pkt) - r->header;
    struct mr_desc one = {guest_address(r, header),
                          r->header + (uint32_t)pkt->data_len, 0, 0};

    if (mr_unlikely(!s->free))
        return TX_FULL;
    mr_header_put(header, r->header, 0);
    add(r, s, &one, 1, pkt, pkt->pool == r->pool->mp, v);
    return TX_ADDED;
}

/* A packet in shared memory of several segments, or without headroom. */
static enum tx_result
tx_segments(struct mr_ring *r, struct mr_pkt *pkt, unsigned v)
{
    bool packed = v & MR_V_PACKED;
    /* P32: devices may refuse packed tables of ring size. */
    uint32_t most = MR_MIN(MR_TABLE_ENTRIES + 0u, r->size - (packed ? 1u : 0u));
    struct mr_desc element[ELEMENTS_MAX];
    uint32_t n;

    if (pkt->nb_segs >= ELEMENTS_MAX)
        return TX_NEVER;
    if (!r->at.free)
        return TX_FULL;
    n = tx_elements(r, pkt, element);
    if (r->indirect && n > 1 && n <= most) {
        tx_table(r, element, n, packed);
        n = 1;
    }
    if (n > r->at.free)
        return n > r->size ? TX_NEVER : TX_FULL;
    add(r, &r->at, element, n, pkt, 0, v);
    return TX_ADDED;
}

/* Any packet; works on the ring's own state. On TX_ADDED the packet is the
 * ring's (or was copied and freed), else it stays the caller's. */
MR_COLD static enum tx_result
tx_general(struct mr_ring *r, struct mr_pkt *pkt, unsigned v)
{
    enum tx_result result;
    struct mr_pkt *copy;

    if (can_expose(r, pkt)) {
        result = tx_segments(r, pkt, v);
        if (result != TX_NEVER)
            return result;
    }
    /* A copy has fewer segments, and headroom. */
    if (!r->at.free)
        return TX_FULL;
    copy = mr_pkt_copy(r->pool, pkt);
    if (!copy)
        return TX_NOBUF;
    result = is_plain(r, copy) ? tx_plain(r, &r->at, copy, v)
                               : tx_segments(r, copy, v);
    mr_pkt_free(result == TX_ADDED ? pkt : copy);
    return result;
}

MR_INLINE enum tx_result
tx_packet(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt,
          unsigned v)
{
    enum tx_result result;

    if (mr_likely(is_plain(r, pkt)))
        return tx_plain(r, s, pkt, v);
    mr_state_copy(&r->at, s);
    result = tx_general(r, pkt, v);
    mr_state_copy(s, &r->at);
    return result;
}

MR_INLINE uint32_t
driver_tx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    struct mr_state s;
    uint64_t bytes = 0;
    uint32_t dropped = 0;
    uint32_t done = 0;

    if (mr_unlikely(r->fault))
        return 0;
    mr_state_copy(&s, &r->at);
    reclaim(r, &s, v);
    if (mr_unlikely(r->fault))
        n = 0;
    for (; done < n; done++) {
        struct mr_pkt *pkt = pkts[done];
        uint32_t len = pkt->pkt_len;
        enum tx_result result = tx_packet(r, &s, pkt, v);

        if (mr_likely(result == TX_ADDED)) {
            bytes += len;
        } else if (result == TX_NEVER) {
            mr_pkt_free(pkt);
            dropped++;
        } else {
            mr_count(&r->counters->nobuf, result == TX_NOBUF);
            break;
        }
    }
    mr_state_copy(&r->at, &s);
    if (done > dropped)
        publish(r, v);
    mr_count(&r->counters->oversize, dropped);
    mr_counters_moved(r->counters, done - dropped, bytes);
    return done;
}

MR_VARIANT_TABLE(driver_rx)
MR_VARIANT_TABLE(driver_tx)
