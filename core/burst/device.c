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
#include "mem/packet_stash.h"

/* ---- rx: the driver's transmit queue ------------------------------------ */

/* What became of a list: a packet, or used without one; or nothing was taken,
 * because there is no list, no packet to put it in, or the ring broke. */
enum rx_result { RX_PACKET, RX_SKIP, RX_NONE, RX_NOBUF };

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
        return RX_NONE;
    fault = mr_device_packet_fault(r, list);
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

/* Frames longer than the shortest one by at most this fit a packet. */
MR_INLINE uint32_t
rx_most(const struct mr_ring *r)
{
    return r->pool->room - MR_FRAME_MIN;
}

/* The bytes of one direct descriptor into a fresh packet. False, with nothing
 * done, when the buffer is not what drivers make: that is for rx_any. */
MR_INLINE bool
rx_plain(const struct mr_ring *r, struct mr_region *near,
         struct mr_stash *stash, uint64_t addr, uint32_t len, uint32_t header,
         uint32_t most, struct mr_pkt **out)
{
    uint32_t frame = len - header;
    struct mr_pkt *pkt;
    uint64_t room;
    uint8_t *ptr;

    if (mr_unlikely(frame - MR_FRAME_MIN > most))
        return false;
    ptr = mr_device_guest(r, near, addr, &room);
    if (mr_unlikely(len > room || mr_header_asks_offload(ptr)))
        return false;
    pkt = mr_stash_take(stash);
    mr_copy(pkt->buf_addr + MR_HEADROOM, ptr + header, frame);
    mr_notify_look(r);
    mr_pkt_set_len(pkt, frame);
    *out = pkt;
    return true;
}

/* T6: packets out of whole lines of lists of one descriptor, as long as they
 * come. Returns how many, at most n. */
MR_INLINE uint32_t
rx_lines(struct mr_ring *r, struct mr_progress *p, struct mr_stash *stash,
         struct mr_pkt **pkts, uint32_t n, uint64_t *bytes, unsigned v)
{
    const uint32_t header = mr_ring_header(r, true);
    const uint32_t most = rx_most(r);
    struct mr_pos at = p->at;
    uint32_t got = 0;

    if (!mr_device_in_step(p))
        return 0;
    while (n - got >= MR_GROUP && mr_packed_at_line(r, at.pos)) {
        const struct mr_packed_desc *line = &r->desc.packed[at.pos];
        const uint64_t flags = (uint64_t)mr_packed_used_flags(at.wrap, false)
                               << 48;
        uint64_t word[MR_GROUP];

        if (!mr_packed_head_line(line, at.wrap, false, word, v & MR_V_PLATFORM))
            break;
        mr_device_rx_ahead(r, &p->near, at.pos);
        MR_UNROLLED(i, MR_GROUP)
        {
            if (mr_unlikely(!rx_plain(r, &p->near, stash,
                                      mr_load(&line[i].addr), (uint32_t)word[i],
                                      header, most, pkts++))) {
                mr_packed_advance(r, &at, (uint32_t)i);
                return mr_device_stand(p, at, got + (uint32_t)i);
            }
            *bytes += (uint32_t)word[i] - header;
            /* Used length 0 (C6). */
            mr_packed_use_at(
                r, &p->run, i ? 1 : p->run.n + got, (uint16_t)(at.pos + i),
                (word[i] & 0xffffull << 32) | flags, v & MR_V_IN_ORDER);
        }
        mr_packed_advance(r, &at, MR_GROUP);
        got += MR_GROUP;
    }
    return mr_device_stand(p, at, got);
}

/* Lists of a split ring between the one read and the one asked for. */
enum { RX_AHEAD = 6 };

/* The same on a split ring, list by list; the caller knows that n are there. */
MR_INLINE uint32_t
rx_heads(struct mr_ring *r, struct mr_progress *p, struct mr_stash *stash,
         struct mr_pkt **pkts, uint32_t n, uint64_t *bytes, uint32_t header,
         unsigned v)
{
    const struct mr_split_view view = mr_split_view(r);
    const uint32_t most = rx_most(r);
    uint32_t got = 0;

    for (; got < n; got++) {
        struct mr_desc d;
        uint16_t id;

        if (MR_HAS(READ_AHEAD) && n - got > RX_AHEAD)
            mr_prefetch(mr_device_frame(
                &p->near, mr_split_addr_at(&view, p->at.pos + RX_AHEAD)));
        if (!mr_split_peek(&view, p->at, &id, &d) ||
            !mr_device_plain(&d, false) ||
            !rx_plain(r, &p->near, stash, d.addr, d.len, header, most,
                      &pkts[got]))
            break;
        *bytes += d.len - header;
        p->at.pos++;
        mr_split_use_at(&view, &p->run, id, 0, v & MR_V_IN_ORDER);
    }
    return got;
}

/* Plain packets, as many as come in a row, at most n. A legacy header is a
 * variant of its own: its length is a constant, too. */
MR_INLINE uint32_t
rx_run(struct mr_ring *r, struct mr_progress *p, struct mr_stash *stash,
       struct mr_pkt **pkts, uint32_t n, uint64_t *bytes, unsigned v)
{
    if (v & MR_V_PACKED)
        return rx_lines(r, p, stash, pkts, n, bytes, v);
    if (mr_likely(r->header == MR_HEADER))
        return rx_heads(r, p, stash, pkts, n, bytes, MR_HEADER, v);
    return rx_heads(r, p, stash, pkts, n, bytes, MR_HEADER_LEGACY, v);
}

/* One packet out of whatever list comes next; the stash has one to take. */
MR_INLINE enum rx_result
rx_one(struct mr_ring *r, struct mr_progress *p, struct mr_stash *stash,
       struct mr_pkt **pkt, unsigned v)
{
    struct mr_progress slow = *p;
    enum rx_result result;
    struct mr_list list;
    struct mr_desc d;

    if (!mr_device_head(r, &slow.at, &d, &list, v))
        return RX_NONE;
    if (mr_likely(v & MR_V_PACKED && mr_device_plain(&d, false) &&
                  rx_plain(r, &p->near, stash, d.addr, d.len, MR_HEADER,
                           rx_most(r), pkt))) { /* within a line */
        mr_packed_advance(r, &p->at, 1);
        mr_device_use(r, &p->run, &list, 0, v & MR_V_IN_ORDER, v);
        return RX_PACKET;
    }
    *pkt = mr_stash_take(stash);
    mr_stash_close(stash);
    result = rx_generals[v](r, &slow, p->at, &d, &list, *pkt);
    if (result != RX_PACKET)
        mr_pkt_free(*pkt);
    mr_stash_open(stash, r->pool->mp);
    if (result == RX_NOBUF) /* N101: consumed nothing, try later */
        mr_count(&r->counters->nobuf, 1);
    else if (result != RX_NONE)
        *p = slow;
    return result;
}

MR_INLINE uint32_t
device_rx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    enum rx_result result = RX_PACKET;
    struct mr_progress p;
    struct mr_stash stash;
    uint64_t bytes = 0;
    uint32_t got = 0;

    if (mr_unlikely(r->fault))
        return 0;
    n = mr_device_pending(r, r->at.avail, n, v);
    if (!n)
        return 0;
    p = mr_device_progress(r);
    mr_stash_open(&stash, r->pool->mp);
    while (n && result <= RX_SKIP) {
        uint32_t k = mr_stash_want(&stash, n);

        if (mr_unlikely(!k)) {
            mr_count(&r->counters->nobuf, 1);
            break;
        }
        k = rx_run(r, &p, &stash, &pkts[got], k, &bytes, v);
        got += k;
        n -= k;
        if (k)
            continue;
        result = rx_one(r, &p, &stash, &pkts[got], v);
        if (result == RX_PACKET)
            bytes += pkts[got++]->pkt_len;
        n--;
    }
    mr_stash_close(&stash);
    mr_device_finish(r, &p, v & MR_V_IN_ORDER, v);
    mr_counters_moved(r->counters, got, bytes);
    return got;
}

/* ---- tx: the driver's receive queue -------------------------------------- */

/* Header and packet into the pieces. */
static void
tx_copy(struct mr_ring *r, const struct mr_buffers *b, const struct mr_pkt *pkt)
{
    struct mr_cursor to = {b->gather.seg, b->gather.n, 0};
    struct mr_net_header header = {.num_buffers = (uint16_t)b->n};

    mr_cursor_write(&to, &header, r->header);
    for (; pkt; pkt = pkt->next)
        mr_cursor_write(&to, mr_pkt_data(pkt), pkt->data_len);
}

/* Any packet into any buffers. */
MR_INLINE enum mr_room
tx_general(struct mr_ring *r, struct mr_progress *p, uint32_t *left,
           const struct mr_pkt *pkt, unsigned v)
{
    uint32_t need = pkt->pkt_len + r->header;
    struct mr_buffers b;
    enum mr_room result = mr_device_gather(r, p, left, need, &b, v);

    if (result != MR_ROOM_FOUND)
        return result;
    tx_copy(r, &b, pkt);
    mr_device_use_buffers(r, &p->run, &b, need, v);
    return MR_ROOM_FOUND;
}

#define TX_GENERAL(arg, v, name)                                               \
    MR_COLD static enum mr_room tx_general_##v(                                \
        struct mr_ring *r, struct mr_progress *p, uint32_t *left,              \
        const struct mr_pkt *pkt)                                              \
    {                                                                          \
        return tx_general(r, p, left, pkt, v);                                 \
    }
MR_VARIANTS(TX_GENERAL, )
#define TX_GENERAL_ROW(arg, v, name) [v] = tx_general_##v,
static enum mr_room (*const tx_generals[MR_V_COUNT])(
    struct mr_ring *, struct mr_progress *, uint32_t *,
    const struct mr_pkt *) = {MR_VARIANTS(TX_GENERAL_ROW, )};

/* One packet of one segment into one direct descriptor. False, with nothing
 * done, when that is not what it takes: that is for tx_general. */
MR_INLINE bool
tx_plain(const struct mr_ring *r, struct mr_region *near, uint64_t addr,
         uint32_t len, uint32_t header, const struct mr_pkt *pkt)
{
    uint32_t frame = pkt->data_len;
    uint64_t room;
    uint8_t *ptr;

    if (mr_unlikely(pkt->nb_segs != 1 || len < header + frame))
        return false;
    ptr = mr_device_guest(r, near, addr, &room);
    if (mr_unlikely(len > room))
        return false;
    mr_header_put(ptr, header, 1, 0);
    mr_copy(ptr + header, mr_pkt_data(pkt), frame);
    mr_notify_look(r);
    return true;
}

/* T4: as rx_lines, the other way. */
MR_INLINE uint32_t
tx_lines(struct mr_ring *r, struct mr_progress *p, struct mr_pkt *const *pkts,
         uint32_t n, uint64_t *bytes, unsigned v)
{
    const uint32_t header = mr_ring_header(r, true);
    struct mr_pos at = p->at;
    uint32_t sent = 0;

    if (!mr_device_in_step(p))
        return 0;
    while (n - sent >= MR_GROUP && mr_packed_at_line(r, at.pos)) {
        const struct mr_packed_desc *line = &r->desc.packed[at.pos];
        const uint64_t all =
            mr_packed_word(header, 0, mr_packed_used_flags(at.wrap, true));
        uint64_t word[MR_GROUP];

        if (!mr_packed_head_line(line, at.wrap, true, word, v & MR_V_PLATFORM))
            break;
        mr_device_tx_ahead(r, &p->near, at.pos);
        MR_UNROLLED(i, MR_GROUP)
        {
            const struct mr_pkt *pkt = *pkts++;

            if (mr_unlikely(!tx_plain(r, &p->near, mr_load(&line[i].addr),
                                      (uint32_t)word[i], header, pkt))) {
                mr_packed_advance(r, &at, (uint32_t)i);
                return mr_device_stand(p, at, sent + (uint32_t)i);
            }
            *bytes += pkt->data_len;
            mr_packed_use_at(
                r, &p->run, i ? 1 : p->run.n + sent, (uint16_t)(at.pos + i),
                (word[i] & 0xffffull << 32) + all + pkt->data_len, false);
        }
        mr_packed_advance(r, &at, MR_GROUP);
        sent += MR_GROUP;
    }
    return mr_device_stand(p, at, sent);
}

/* The same on a split ring, list by list; the caller knows that n are there. */
MR_INLINE uint32_t
tx_heads(struct mr_ring *r, struct mr_progress *p, struct mr_pkt *const *pkts,
         uint32_t n, uint64_t *bytes, uint32_t header)
{
    const struct mr_split_view view = mr_split_view(r);
    uint32_t sent = 0;

    for (; sent < n; sent++) {
        const struct mr_pkt *pkt = pkts[sent];
        struct mr_desc d;
        uint16_t id;

        if (!mr_split_peek(&view, p->at, &id, &d) ||
            !mr_device_plain(&d, true) ||
            !tx_plain(r, &p->near, d.addr, d.len, header, pkt))
            break;
        *bytes += pkt->data_len;
        p->at.pos++;
        mr_split_use_at(&view, &p->run, id, pkt->data_len + header, false);
    }
    return sent;
}

/* As rx_run, the other way. */
MR_INLINE uint32_t
tx_run(struct mr_ring *r, struct mr_progress *p, struct mr_pkt *const *pkts,
       uint32_t n, uint64_t *bytes, unsigned v)
{
    if (v & MR_V_PACKED)
        return tx_lines(r, p, pkts, n, bytes, v);
    if (mr_likely(r->header == MR_HEADER))
        return tx_heads(r, p, pkts, n, bytes, MR_HEADER);
    return tx_heads(r, p, pkts, n, bytes, MR_HEADER_LEGACY);
}

/* One packet, into whatever comes next. */
MR_INLINE enum mr_room
tx_one(struct mr_ring *r, struct mr_progress *p, uint32_t *left,
       const struct mr_pkt *pkt, unsigned v)
{
    struct mr_progress slow = *p;
    uint32_t slow_left = *left;
    enum mr_room result;
    struct mr_list list;
    struct mr_desc d;

    if (v & MR_V_PACKED) { /* within a line */
        if (!mr_device_head(r, &p->at, &d, &list, v))
            return MR_ROOM_LATER;
        if (mr_likely(mr_device_plain(&d, true) &&
                      tx_plain(r, &p->near, d.addr, d.len, MR_HEADER, pkt))) {
            mr_device_use(r, &p->run, &list, pkt->pkt_len + MR_HEADER, false,
                          v);
            --*left;
            return MR_ROOM_FOUND;
        }
    }
    result = tx_generals[v](r, &slow, &slow_left, pkt);
    *p = slow;
    *left = slow_left;
    return result;
}

MR_INLINE uint32_t
device_tx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    struct mr_progress p;
    uint64_t bytes = 0;
    uint32_t dropped = 0;
    uint32_t sent = 0;
    uint32_t left;

    if (mr_unlikely(r->fault))
        return 0;
    left = mr_device_pending(r, r->at.avail, UINT32_MAX, v);
    if (!left)
        return 0;
    p = mr_device_progress(r);
    while (sent < n && left) {
        uint32_t k = MR_MIN(n - sent, left);
        enum mr_room result;

        k = tx_run(r, &p, &pkts[sent], k, &bytes, v);
        sent += k;
        left -= k;
        if (k)
            continue;
        result = tx_one(r, &p, &left, pkts[sent], v);
        if (result == MR_ROOM_LATER)
            break;
        if (result == MR_ROOM_FOUND)
            bytes += pkts[sent]->pkt_len;
        else
            dropped++;
        sent++;
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
