/* The device side of a virtqueue (vhost): packets out of the driver's transmit
 * buffers (rx) and into its receive buffers (tx).
 *
 * One body a direction; the variant is a constant, so a burst function holds
 * no test of a feature. The inline path takes one direct descriptor inside one
 * region and one packet segment; whatever else a driver may do goes through
 * the cold functions.
 *
 * Owner: the worker inside the queue's gate. */
#include "burst/copy.h"
#include "burst/header.h"
#include "base/stat.h"
#include "burst/notify.h"
#include "burst/variant.h"
#include "mem/copy.h"

/* ---- Lists, in either layout ------------------------------------------- */

/* Lists to take, at most n. A packed ring only knows whether there is one; its
 * size bounds a burst against a driver that adds buffers for ever (C15). */
MR_INLINE uint32_t
pending(struct mr_ring *r, struct mr_pos at, uint32_t n, unsigned v)
{
    if (!(v & MR_V_PACKED))
        return mr_split_pending(r, at, n, v & MR_V_PLATFORM);
    return mr_packed_pending(r, at) ? MR_MIN(n, r->size) : 0;
}

/* Resolves the next list and appends its bytes to `gather`. False: there is
 * none, or the ring broke. A list with a fault is still to be used. */
MR_INLINE bool
next_list(struct mr_ring *r, struct mr_pos *at, bool write,
          struct mr_list *list, struct mr_gather *gather, unsigned v)
{
    struct mr_pos head = *at;
    struct mr_desc d;
    uint64_t room;
    uint8_t *ptr;

    if (v & MR_V_PACKED) {
        if (!mr_packed_head(r, at, &d, list, v & MR_V_PLATFORM))
            return false;
    } else if (!mr_split_head(r, at, &d, list)) {
        return false;
    }
    list->fault = MR_FAULT_NONE;
    list->len = 0;
    ptr = mr_memory_guest(r->memory, d.addr, &room);
    if (mr_likely(!(d.flags & (MR_DESC_NEXT | MR_DESC_INDIRECT)) &&
                  !!(d.flags & MR_DESC_WRITE) == write && ptr &&
                  d.len <= room && d.len && gather->n < MR_CHAIN_SEGS)) {
        gather->seg[gather->n++] = (struct mr_seg){ptr, d.len};
        list->len = d.len;
        return true;
    }
    if (!(v & MR_V_PACKED)) {
        mr_list_walk_split(r, d, write, list, gather);
        return true;
    }
    if (!mr_list_walk_packed(r, head, d, write, list, gather))
        return false;
    mr_packed_advance(r, at, list->ndesc - 1u);
    return true;
}

MR_INLINE void
use(struct mr_ring *r, struct mr_used_run *run, const struct mr_list *list,
    uint32_t len, bool in_order, unsigned v)
{
    if (v & MR_V_PACKED)
        mr_packed_use(r, run, list->id, len, list->ndesc, in_order);
    else
        mr_split_use(r, run, list->id, len, list->ndesc, in_order);
}

/* Makes the run the driver's and tells it, if there is a run (S48). */
MR_INLINE void
finish(struct mr_ring *r, struct mr_used_run *run, struct mr_pos at,
       bool in_order, unsigned v)
{
    if (!run->n)
        return;
    r->next_avail = at;
    if (v & MR_V_PACKED)
        mr_packed_publish_used(r, run, v & MR_V_PLATFORM);
    else
        mr_split_publish_used(r, run, in_order, v & MR_V_PLATFORM);
    mr_notify_if_wanted(r, true, v);
}

/* ---- rx: the driver's transmit queue ------------------------------------ */

/* Packets to receive into: as many as the pool can give, up to n. */
MR_INLINE uint32_t
fresh_packets(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n)
{
    uint32_t got = mr_pkts_alloc(r->pool, pkts, n);

    while (mr_unlikely(!got && (n >>= 1)))
        got = mr_pkts_alloc(r->pool, pkts, n);
    if (mr_unlikely(!got))
        mr_count(&r->counters->nobuf, 1);
    return got;
}

/* What is wrong with the list as a packet (N90-N92, S69, S70). */
MR_INLINE uint32_t
rx_list_fault(const struct mr_ring *r, const struct mr_list *list)
{
    if (list->fault)
        return list->fault;
    if (list->len < (uint32_t)r->header + MR_FRAME_MIN)
        return MR_FAULT_RUNT;
    return list->len > (uint32_t)r->header + MR_FRAME_MAX ? MR_FAULT_GIANT
                                                          : MR_FAULT_NONE;
}

/* N94: no offload is negotiated, so flags and gso_type must not ask for one. */
MR_INLINE bool
asks_for_offload(const uint8_t *header)
{
    uint16_t word;

    memcpy(&word, header, sizeof(word));
    return (word & 0xff01) != 0; /* NEEDS_CSUM, any gso_type */
}

enum rx_result { RX_PACKET, RX_SKIP, RX_NOBUF };

/* Any list of pieces into a packet of as many segments as it takes. `pkt` is
 * fresh and its own; further segments come from the pool. */
MR_COLD static enum rx_result
rx_copy_general(struct mr_ring *r, const struct mr_list *list,
                const struct mr_gather *gather, struct mr_pkt *pkt)
{
    struct mr_cursor from = {gather->seg, gather->n, 0};
    uint32_t len = (uint32_t)list->len - r->header;
    struct mr_net_header header;
    struct mr_pkt *rest = NULL;

    mr_cursor_read(&from, &header, r->header);
    if (asks_for_offload((const uint8_t *)&header)) {
        mr_ring_skip(r, MR_FAULT_OFFLOAD);
        return RX_SKIP;
    }
    if (len > r->pool->room) {
        rest = mr_pkt_chain(r->pool, len - r->pool->room);
        if (!rest)
            return RX_NOBUF;
    }
    mr_pkt_set_len(pkt, MR_MIN(len, r->pool->room));
    if (rest) {
        pkt->next = rest;
        pkt->nb_segs = (uint16_t)(1 + rest->nb_segs);
        rest->nb_segs = 1;
        pkt->pkt_len = len;
    }
    for (struct mr_pkt *seg = pkt; seg; seg = seg->next)
        mr_cursor_read(&from, mr_pkt_data(seg), seg->data_len);
    return RX_PACKET;
}

MR_INLINE enum rx_result
rx_copy(struct mr_ring *r, const struct mr_list *list,
        const struct mr_gather *gather, struct mr_pkt *pkt)
{
    uint32_t fault = rx_list_fault(r, list);
    uint32_t len = (uint32_t)list->len - r->header;

    if (mr_unlikely(fault)) {
        mr_ring_skip(r, fault);
        return RX_SKIP;
    }
    if (mr_unlikely(gather->n != 1 || len > r->pool->room ||
                    asks_for_offload(gather->seg[0].ptr)))
        return rx_copy_general(r, list, gather, pkt);
    mr_copy(mr_pkt_data(pkt), gather->seg[0].ptr + r->header, len);
    mr_pkt_set_len(pkt, len);
    return RX_PACKET;
}

MR_INLINE uint32_t
device_rx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    const bool in_order = v & MR_V_IN_ORDER;
    struct mr_pos at = r->next_avail;
    struct mr_used_run run = {.at = r->next_used};
    struct mr_gather gather;
    struct mr_list list;
    uint64_t bytes = 0;
    uint32_t got = 0;
    uint32_t fresh;

    if (mr_unlikely(r->fault))
        return 0;
    n = pending(r, at, n, v);
    if (!n)
        return 0;
    fresh = fresh_packets(r, pkts, n);
    for (uint32_t i = 0; i < fresh; i++) {
        struct mr_pos before = at;
        enum rx_result result;

        gather.n = 0;
        if (!next_list(r, &at, false, &list, &gather, v)) {
            at = before;
            break;
        }
        result = rx_copy(r, &list, &gather, pkts[got]);
        if (mr_unlikely(result == RX_NOBUF)) { /* N101: try again later */
            mr_count(&r->counters->nobuf, 1);
            at = before;
            break;
        }
        use(r, &run, &list, 0, in_order, v);
        if (mr_likely(result == RX_PACKET))
            bytes += pkts[got++]->pkt_len;
    }
    finish(r, &run, at, in_order, v);
    if (mr_unlikely(got < fresh))
        mr_pkts_free(pkts + got, fresh - got);
    mr_counters_moved(r->counters, got, bytes);
    return got;
}

/* ---- tx: the driver's receive queue -------------------------------------- */

/* The buffers that one packet goes into. */
struct tx_buffers {
    uint32_t n;
    uint64_t len;
    struct mr_list list[MR_CHAIN_SEGS];
    struct mr_gather gather;
};

enum tx_result { TX_SENT, TX_WAIT, TX_DROP };

/* Header and packet into any pieces. */
MR_COLD static void
tx_copy_general(struct mr_ring *r, const struct tx_buffers *b,
                const struct mr_pkt *pkt)
{
    struct mr_cursor to = {b->gather.seg, b->gather.n, 0};
    struct mr_net_header header = {.num_buffers = (uint16_t)b->n};

    mr_cursor_write(&to, &header, r->header);
    for (; pkt; pkt = pkt->next)
        mr_cursor_write(&to, mr_pkt_data(pkt), pkt->data_len);
}

/* A list that cannot be used, and any gathered before it for the same packet:
 * all go back empty. */
MR_COLD static void
tx_skip(struct mr_ring *r, const struct tx_buffers *b, uint32_t fault)
{
    for (uint32_t i = 0; i < b->n; i++)
        mr_ring_skip(r, fault);
}

/* Finds buffers for header and packet: one, or with mergeable buffers as many
 * as it takes (N36). When the driver has too few (WAIT) or they can never hold
 * the packet (DROP), none is consumed (N41, N42). Lists with a fault go back
 * empty on the way. */
MR_INLINE enum tx_result
tx_gather(struct mr_ring *r, struct mr_pos *at, uint32_t *left,
          struct mr_used_run *run, uint32_t need, struct tx_buffers *b,
          unsigned v)
{
    struct mr_pos start = *at;
    uint32_t start_left = *left;
    enum tx_result result = TX_SENT;

    b->n = 0;
    b->len = 0;
    b->gather.n = 0;
    do {
        struct mr_list *list = &b->list[b->n];

        if (mr_unlikely(b->n == (v & MR_V_MERGEABLE ? MR_CHAIN_SEGS : 1))) {
            result = TX_DROP;
            break;
        }
        if (mr_unlikely(!*left ||
                        !next_list(r, at, true, list, &b->gather, v))) {
            result = TX_WAIT;
            break;
        }
        --*left;
        b->n++;
        b->len += list->len;
        if (mr_unlikely(list->fault || list->len < r->header)) {
            tx_skip(r, b, list->fault ? list->fault : MR_FAULT_RUNT);
            for (uint32_t i = 0; i < b->n; i++)
                use(r, run, &b->list[i], 0, false, v);
            b->n = 0;
            b->len = 0;
            b->gather.n = 0;
            start = *at;
            start_left = *left;
        }
    } while (mr_unlikely(b->len < need));
    if (mr_unlikely(result != TX_SENT)) {
        *at = start;
        *left = start_left;
    }
    return result;
}

MR_INLINE void
tx_use(struct mr_ring *r, struct mr_used_run *run, const struct tx_buffers *b,
       uint32_t need, unsigned v)
{
    for (uint32_t i = 0; i + 1 < b->n; i++) { /* filled completely (N36) */
        use(r, run, &b->list[i], (uint32_t)b->list[i].len, false, v);
        need -= (uint32_t)b->list[i].len;
    }
    use(r, run, &b->list[b->n - 1], need, false, v);
}

MR_INLINE uint32_t
device_tx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    struct mr_pos at = r->next_avail;
    struct mr_used_run run = {.at = r->next_used};
    struct tx_buffers b;
    uint64_t bytes = 0;
    uint32_t sent = 0;
    uint32_t dropped = 0;
    uint32_t left;

    if (mr_unlikely(r->fault))
        return 0;
    left = pending(r, at, UINT32_MAX, v);
    for (; sent < n; sent++) {
        struct mr_pkt *pkt = pkts[sent];
        uint32_t need = pkt->pkt_len + r->header;
        enum tx_result result = tx_gather(r, &at, &left, &run, need, &b, v);

        if (mr_unlikely(result == TX_WAIT))
            break;
        if (mr_unlikely(result == TX_DROP)) {
            dropped++;
            continue;
        }
        if (mr_likely(b.gather.n == 1 && pkt->nb_segs == 1)) {
            mr_header_put(b.gather.seg[0].ptr, r->header, 1);
            mr_copy(b.gather.seg[0].ptr + r->header, mr_pkt_data(pkt),
                    pkt->data_len);
        } else {
            tx_copy_general(r, &b, pkt);
        }
        tx_use(r, &run, &b, need, v);
        bytes += pkt->pkt_len;
    }
    finish(r, &run, at, false, v);
    mr_pkts_free(pkts, sent);
    mr_count(&r->counters->oversize, dropped);
    mr_count(&r->counters->faults[MR_FAULT_ROOM], dropped);
    mr_counters_moved(r->counters, sent - dropped, bytes);
    return sent;
}

MR_VARIANT_TABLE(device_rx)
MR_VARIANT_TABLE(device_tx)
