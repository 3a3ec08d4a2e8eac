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
#include "burst/device.h"

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
static enum mr_fault
rx_list_fault(const struct mr_ring *r, const struct mr_list *list)
{
    if (list->fault)
        return list->fault;
    if (list->len < (uint32_t)r->header + MR_FRAME_MIN)
        return MR_FAULT_RUNT;
    return list->len > (uint32_t)r->header + MR_FRAME_MAX ? MR_FAULT_GIANT
                                                          : MR_FAULT_NONE;
}

enum rx_result { RX_PACKET, RX_SKIP, RX_NOBUF, RX_BROKEN };

/* The list's bytes into a packet of as many segments as it takes. `pkt` is
 * fresh and its own; further segments come from the pool. */
static enum rx_result
rx_copy(struct mr_ring *r, const struct mr_list *list,
        const struct mr_gather *gather, struct mr_pkt *pkt)
{
    struct mr_cursor from = {gather->seg, gather->n, 0};
    uint32_t len = (uint32_t)list->len - r->header;
    uint32_t first = MR_MIN(len, r->pool->room);
    struct mr_net_header header;

    mr_cursor_read(&from, &header, r->header);
    if (mr_header_asks_offload(&header)) {
        mr_ring_skip(r, MR_FAULT_OFFLOAD);
        return RX_SKIP;
    }
    mr_pkt_set_len(pkt, first);
    if (len > first) {
        struct mr_pkt *rest = mr_pkt_chain(r->pool, len - first);

        if (!rest)
            return RX_NOBUF;
        pkt->next = rest;
        pkt->nb_segs = (uint16_t)(1 + rest->nb_segs);
        pkt->pkt_len = len;
        rest->nb_segs = 1;
    }
    for (; pkt; pkt = pkt->next)
        mr_cursor_read(&from, mr_pkt_data(pkt), pkt->data_len);
    return RX_PACKET;
}

/* Any list, taken from `first`, whose first descriptor is d. */
MR_INLINE enum rx_result
rx_general(struct mr_ring *r, struct mr_progress *p, struct mr_pos first,
           const struct mr_desc *d, struct mr_list *list, struct mr_pkt *pkt,
           unsigned v)
{
    enum rx_result result = RX_SKIP;
    struct mr_gather gather;
    enum mr_fault fault;

    gather.n = 0;
    if (!mr_device_resolve(r, first, &p->at, d, false, list, &gather, v))
        return RX_BROKEN;
    fault = rx_list_fault(r, list);
    if (fault)
        mr_ring_skip(r, fault);
    else
        result = rx_copy(r, list, &gather, pkt);
    if (result != RX_NOBUF)
        mr_device_use(r, &p->run, list, 0, v & MR_V_IN_ORDER, v);
    return result;
}

#define RX_GENERAL(arg, v, name)                                               \
    MR_COLD static enum rx_result rx_general_##v(                              \
        struct mr_ring *r, struct mr_progress *p, struct mr_pos first,         \
        const struct mr_desc *d, struct mr_list *list, struct mr_pkt *pkt)     \
    {                                                                          \
        return rx_general(r, p, first, d, list, pkt, v);                       \
    }
MR_VARIANTS(RX_GENERAL, )
#define RX_GENERAL_ROW(arg, v, name) [v] = rx_general_##v,
static enum rx_result (*const rx_generals[MR_V_COUNT])(
    struct mr_ring *, struct mr_progress *, struct mr_pos,
    const struct mr_desc *, struct mr_list *,
    struct mr_pkt *) = {MR_VARIANTS(RX_GENERAL_ROW, )};

/* Host addresses of a group's buffers; false when one is not contiguous. */
MR_INLINE bool
group_direct(const struct mr_ring *r, struct mr_pos at,
             const uint64_t word[MR_GROUP], uint8_t *ptr[MR_GROUP])
{
    bool ok = true;

    MR_UNROLLED(i, MR_GROUP)
    {
        uint64_t room = 0;

        ptr[i] = mr_memory_guest(
            r->memory, mr_load(&r->desc.packed[at.pos + i].addr), &room);
        ok &= ptr[i] && (uint32_t)word[i] <= room;
    }
    return ok;
}

/* Can used entries be written where the group lies? */
MR_INLINE bool
in_step(const struct mr_progress *p)
{
    return p->run.at.pos == p->at.pos && p->run.at.wrap == p->at.wrap;
}

/* T6: four packets at once, if all of them are plain: prerequisites first,
 * cheapest first, then one loop a step. */
MR_INLINE bool
rx_group(struct mr_ring *r, struct mr_progress *p, struct mr_pkt **pkts,
         uint64_t *bytes, unsigned v)
{
    const uint32_t least = (uint32_t)r->header + MR_FRAME_MIN;
    const uint32_t room = MR_MIN(r->pool->room, (uint32_t)MR_FRAME_MAX);
    uint64_t word[MR_GROUP];
    uint8_t *ptr[MR_GROUP];
    bool ok = true;

    if (!mr_packed_head_group(r, p->at, false, word, v & MR_V_PLATFORM) ||
        !in_step(p) || !group_direct(r, p->at, word, ptr))
        return false;
    MR_UNROLLED(i, MR_GROUP)
    ok &= (uint32_t)word[i] - least <= room - MR_FRAME_MIN;
    if (!ok)
        return false;
    MR_UNROLLED(i, MR_GROUP)
    ok &= !mr_header_asks_offload(ptr[i]);
    if (!ok)
        return false;
    MR_UNROLLED(i, MR_GROUP)
    {
        uint32_t len = (uint32_t)word[i] - r->header;

        mr_copy(mr_pkt_data(pkts[i]), ptr[i] + r->header, len);
        mr_pkt_set_len(pkts[i], len);
        *bytes += len;
        word[i] &= 0xffffull << 32; /* used length 0 (C6) */
    }
    mr_packed_advance(r, &p->at, MR_GROUP);
    mr_packed_use_group(r, &p->run, word, false, v & MR_V_IN_ORDER);
    return true;
}

MR_INLINE uint32_t
device_rx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    const uint32_t least = (uint32_t)r->header + MR_FRAME_MIN;
    const uint32_t room = MR_MIN(r->pool->room, (uint32_t)MR_FRAME_MAX);
    struct mr_progress p = {.at = r->at.avail, .run = {.at = r->at.used}};
    struct mr_list list;
    struct mr_desc d;
    uint64_t bytes = 0;
    uint32_t got = 0;
    uint32_t fresh;

    if (mr_unlikely(r->fault))
        return 0;
    n = mr_device_pending(r, p.at, n, v);
    if (!n)
        return 0;
    fresh = fresh_packets(r, pkts, n);
    for (uint32_t i = 0; i < fresh; i++) {
        struct mr_pos before = p.at;
        struct mr_pkt *pkt = pkts[got];
        uint8_t *ptr;

        if (v & MR_V_PACKED && fresh - i >= MR_GROUP &&
            rx_group(r, &p, &pkts[got], &bytes, v)) {
            i += MR_GROUP - 1;
            got += MR_GROUP;
            continue;
        }
        if (!mr_device_head(r, &p.at, &d, &list, v))
            break;
        ptr = mr_device_direct(r, &d, false);
        if (mr_likely(ptr && d.len - least <= room - MR_FRAME_MIN &&
                      !mr_header_asks_offload(ptr))) {
            uint32_t len = d.len - r->header;

            mr_copy(mr_pkt_data(pkt), ptr + r->header, len);
            mr_pkt_set_len(pkt, len);
            mr_device_use(r, &p.run, &list, 0, v & MR_V_IN_ORDER, v);
        } else {
            struct mr_progress slow = p;
            struct mr_desc first = d;
            struct mr_list any = list;
            enum rx_result result =
                rx_generals[v](r, &slow, before, &first, &any, pkt);

            if (result == RX_NOBUF) /* N101: consumed nothing, try later */
                mr_count(&r->counters->nobuf, 1);
            if (result == RX_NOBUF || result == RX_BROKEN) {
                p.at = before;
                break;
            }
            p = slow;
            if (result == RX_SKIP)
                continue;
        }
        bytes += pkt->pkt_len;
        got++;
    }
    mr_device_finish(r, &p, v & MR_V_IN_ORDER, v);
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

/* Header and packet into the pieces. */
static void
tx_copy(struct mr_ring *r, const struct tx_buffers *b, const struct mr_pkt *pkt)
{
    struct mr_cursor to = {b->gather.seg, b->gather.n, 0};
    struct mr_net_header header = {.num_buffers = (uint16_t)b->n};

    mr_cursor_write(&to, &header, r->header);
    for (; pkt; pkt = pkt->next)
        mr_cursor_write(&to, mr_pkt_data(pkt), pkt->data_len);
}

/* A list that cannot be used, and those gathered before it for the same
 * packet, go back empty. */
MR_INLINE void
tx_skip(struct mr_ring *r, struct mr_used_run *run, struct tx_buffers *b,
        enum mr_fault fault, unsigned v)
{
    for (uint32_t i = 0; i < b->n; i++) {
        mr_ring_skip(r, fault);
        mr_device_use(r, run, &b->list[i], 0, false, v);
    }
    b->n = 0;
    b->len = 0;
    b->gather.n = 0;
}

/* Finds buffers for `need` bytes: one, or with mergeable buffers as many as it
 * takes (N36). When the driver has too few (WAIT) or they can never hold the
 * packet (DROP), none is consumed (N41, N42). Lists with a fault go back on the
 * way. */
MR_INLINE enum tx_result
tx_gather(struct mr_ring *r, struct mr_progress *p, uint32_t *left,
          uint32_t need, struct tx_buffers *b, unsigned v)
{
    const uint32_t most = v & MR_V_MERGEABLE ? MR_CHAIN_SEGS : 1;
    struct mr_pos start = p->at;
    uint32_t start_left = *left;
    enum tx_result result = TX_SENT;
    struct mr_desc d;

    b->n = 0;
    b->len = 0;
    b->gather.n = 0;
    while (b->len < need) {
        struct mr_list *list = &b->list[b->n];
        struct mr_pos first = p->at;

        result = b->n == most ? TX_DROP : TX_WAIT;
        if (b->n == most || !*left || !mr_device_head(r, &p->at, &d, list, v) ||
            !mr_device_resolve(r, first, &p->at, &d, true, list, &b->gather, v))
            break;
        result = TX_SENT;
        --*left;
        b->n++;
        b->len += list->len;
        if (list->fault || list->len < r->header) { /* S69, N40 */
            tx_skip(r, &p->run, b, list->fault ? list->fault : MR_FAULT_RUNT,
                    v);
            start = p->at;
            start_left = *left;
        }
    }
    if (result != TX_SENT) {
        p->at = start;
        *left = start_left;
    }
    return result;
}

/* Any packet into any buffers. */
MR_INLINE enum tx_result
tx_general(struct mr_ring *r, struct mr_progress *p, uint32_t *left,
           const struct mr_pkt *pkt, unsigned v)
{
    uint32_t need = pkt->pkt_len + r->header;
    struct tx_buffers b;
    enum tx_result result = tx_gather(r, p, left, need, &b, v);

    if (result != TX_SENT)
        return result;
    tx_copy(r, &b, pkt);
    for (uint32_t i = 0; i + 1 < b.n; i++) { /* filled completely (N36) */
        mr_device_use(r, &p->run, &b.list[i], (uint32_t)b.list[i].len, false,
                      v);
        need -= (uint32_t)b.list[i].len;
    }
    mr_device_use(r, &p->run, &b.list[b.n - 1], need, false, v);
    return TX_SENT;
}

#define TX_GENERAL(arg, v, name)                                               \
    MR_COLD static enum tx_result tx_general_##v(                              \
        struct mr_ring *r, struct mr_progress *p, uint32_t *left,              \
        const struct mr_pkt *pkt)                                              \
    {                                                                          \
        return tx_general(r, p, left, pkt, v);                                 \
    }
MR_VARIANTS(TX_GENERAL, )
#define TX_GENERAL_ROW(arg, v, name) [v] = tx_general_##v,
static enum tx_result (*const tx_generals[MR_V_COUNT])(
    struct mr_ring *, struct mr_progress *, uint32_t *,
    const struct mr_pkt *) = {MR_VARIANTS(TX_GENERAL_ROW, )};

/* T4: as rx_group, the other way. */
MR_INLINE bool
tx_group(struct mr_ring *r, struct mr_progress *p, struct mr_pkt *const *pkts,
         uint64_t *bytes, unsigned v)
{
    uint64_t word[MR_GROUP];
    uint8_t *ptr[MR_GROUP];
    bool ok = true;

    if (!mr_packed_head_group(r, p->at, true, word, v & MR_V_PLATFORM) ||
        !in_step(p))
        return false;
    MR_UNROLLED(i, MR_GROUP)
    ok &= pkts[i]->nb_segs == 1 &&
          (uint32_t)word[i] >= pkts[i]->pkt_len + r->header;
    if (!ok || !group_direct(r, p->at, word, ptr))
        return false;
    MR_UNROLLED(i, MR_GROUP)
    mr_header_put(ptr[i], r->header, 1);
    MR_UNROLLED(i, MR_GROUP)
    {
        uint32_t len = pkts[i]->data_len;

        mr_copy(ptr[i] + r->header, mr_pkt_data(pkts[i]), len);
        *bytes += len;
        word[i] = (word[i] & 0xffffull << 32) | (len + r->header);
    }
    mr_packed_advance(r, &p->at, MR_GROUP);
    mr_packed_use_group(r, &p->run, word, true, false);
    return true;
}

MR_INLINE uint32_t
device_tx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    struct mr_progress p = {.at = r->at.avail, .run = {.at = r->at.used}};
    struct mr_list list;
    struct mr_desc d;
    uint64_t bytes = 0;
    uint32_t sent = 0;
    uint32_t dropped = 0;
    uint32_t left;

    if (mr_unlikely(r->fault))
        return 0;
    left = mr_device_pending(r, p.at, UINT32_MAX, v);
    for (; sent < n && left; sent++) {
        struct mr_pkt *pkt = pkts[sent];
        uint32_t need = pkt->pkt_len + r->header;
        struct mr_pos before = p.at;
        uint8_t *ptr;

        if (v & MR_V_PACKED && n - sent >= MR_GROUP && left >= MR_GROUP &&
            tx_group(r, &p, &pkts[sent], &bytes, v)) {
            sent += MR_GROUP - 1;
            left -= MR_GROUP;
            continue;
        }
        if (!mr_device_head(r, &p.at, &d, &list, v))
            break;
        ptr = mr_device_direct(r, &d, true);
        if (mr_likely(ptr && d.len >= need && pkt->nb_segs == 1)) {
            mr_header_put(ptr, r->header, 1);
            mr_copy(ptr + r->header, mr_pkt_data(pkt), pkt->data_len);
            mr_device_use(r, &p.run, &list, need, false, v);
            left--;
        } else {
            struct mr_progress slow = {.at = before, .run = p.run};
            uint32_t slow_left = left;
            enum tx_result result = tx_generals[v](r, &slow, &slow_left, pkt);

            p = slow;
            left = slow_left;
            if (result == TX_WAIT)
                break;
            if (result == TX_DROP) {
                dropped++;
                continue;
            }
        }
        bytes += pkt->pkt_len;
    }
    mr_device_finish(r, &p, false, v);
    mr_pkts_free(pkts, sent);
    if (mr_unlikely(dropped)) {
        mr_count(&r->counters->oversize, dropped);
        mr_count(&r->counters->faults[MR_FAULT_ROOM], dropped);
    }
    mr_counters_moved(r->counters, sent - dropped, bytes);
    return sent;
}

MR_VARIANT_TABLE(device_rx)
MR_VARIANT_TABLE(device_tx)
