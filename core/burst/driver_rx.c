/* rx of the driver side (virtio): packets of the port's shared memory are
 * posted as receive buffers and come back with a frame.
 *
 * Owner: the worker inside the queue's gate. */
#include "burst/driver.h"

enum { REFILL_BATCH = MR_HAS(REFILL_BATCH) ? 64 : 1 };

/* A receive buffer: the header lands in the headroom, the frame where a fresh
 * packet has its data; the packet is made fresh when it comes back. Legacy
 * devices without ANY_LAYOUT want the header in a descriptor of its own (N19).
 */
MR_INLINE void
post(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt, unsigned v)
{
    const uint32_t header = mr_ring_header(r, v & MR_V_PACKED);
    uint64_t at = mr_driver_address(r, mr_pkt_buffer(r->pool, pkt) +
                                           MR_HEADROOM - header);
    uint32_t room = r->pool->room;

    if (v & MR_V_PACKED || mr_likely(!r->split_header)) {
        struct mr_desc one = {at, header + room, MR_DESC_WRITE, 0};

        mr_driver_add(r, s, &one, 1, pkt, true, v);
    } else {
        struct mr_desc two[2] = {
            {at, header, MR_DESC_WRITE, 0},
            {at + header, room, MR_DESC_WRITE, 0},
        };

        mr_driver_add(r, s, two, 2, pkt, false, v);
    }
}

/* Four receive buffers on a line of a packed ring; the caller saw that it is
 * free. */
MR_INLINE void
post_line(struct mr_ring *r, struct mr_state *s, struct mr_stash *stash,
          unsigned v)
{
    const uint64_t offset = MR_HEADROOM - MR_HEADER - r->delta;
    struct mr_packed_desc *line = &r->desc.packed[s->avail.pos];
    const uint16_t *id = &r->ids[s->avail.pos];
    const uint64_t all =
        mr_packed_word(mr_driver_room(r, v), 0,
                       MR_DESC_WRITE | mr_packed_avail_flags(s->avail.wrap));
    uint64_t first = 0;

    MR_UNROLLED(i, MR_GROUP)
    {
        struct mr_pkt *pkt = mr_stash_take_stale(stash);
        uint64_t word = all | (uint64_t)id[i] << 32;

        r->out[id[i]] = (mr_out)pkt;
        mr_store(&line[i].addr,
                 (uintptr_t)mr_pkt_buffer(r->pool, pkt) + offset);
        if (i)
            mr_store(mr_packed_half(&line[i]), word);
        else
            first = word;
    }
    s->free = (uint16_t)(s->free - MR_GROUP);
    mr_packed_advance(r, &s->avail, MR_GROUP);
    mr_order_publish(mr_packed_half(line), first, v & MR_V_PLATFORM);
}

/* n receive buffers on a split ring. */
MR_INLINE void
post_heads(struct mr_ring *r, struct mr_state *s, struct mr_stash *stash,
           uint32_t n, unsigned v)
{
    const struct mr_split_view view = mr_split_view(r);
    const uint64_t offset = MR_HEADROOM - r->header - r->delta;
    const uint64_t word = mr_driver_room(r, v) | (uint64_t)MR_DESC_WRITE << 32;
    const uint16_t *const ids = r->ids;
    mr_out *const out = r->out;

    while (n--) {
        struct mr_pkt *pkt = mr_stash_take_stale(stash);
        uint64_t addr = (uintptr_t)mr_pkt_buffer(r->pool, pkt) + offset;

        out[mr_split_add_one(&view, ids, s, addr, word)] = (mr_out)pkt;
    }
}

/* Keeps the queue full (N4), in batches (T50). True when it posted some. */
MR_INLINE bool
refill(struct mr_ring *r, struct mr_state *s, unsigned v)
{
    uint32_t room = r->split_header ? s->free / 2u : s->free;
    struct mr_stash stash;
    bool posted = false;

    if (room < MR_MIN(REFILL_BATCH / 2u, r->size / 8u + 1u))
        return false;
    mr_stash_open(&stash, r->pool->mp);
    while (room) {
        uint32_t n = mr_stash_want(&stash, MR_MIN(room, REFILL_BATCH + 0u));

        if (!MR_HAS(REFILL_BATCH) && posted) {
            mr_state_copy(&r->at, s);
            mr_driver_publish(r, v);
        }
        if (mr_unlikely(!n)) {
            mr_count(&r->counters->nobuf, 1);
            break;
        }
        room -= n;
        posted = true;
        if (!(v & MR_V_PACKED) && mr_likely(!r->split_header)) {
            post_heads(r, s, &stash, n, v);
            continue;
        }
        while (n) {
            if (v & MR_V_PACKED && n >= MR_GROUP &&
                mr_packed_at_line(r, s->avail.pos)) {
                post_line(r, s, &stash, v);
                n -= MR_GROUP;
            } else {
                post(r, s, mr_stash_take_stale(&stash), v);
                n--;
            }
        }
    }
    mr_stash_close(&stash);
    return posted;
}

/* A further buffer of the packet in r->partial: it holds no header. Returns
 * the packet when this was its last one. */
MR_COLD static struct mr_pkt *
rx_continue(struct mr_ring *r, const struct mr_done *done)
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
rx_drop(struct mr_ring *r, const struct mr_done *done, bool too_long)
{
    if (too_long)
        mr_ring_break(r, MR_FAULT_USED_LENGTH); /* S12, P16 */
    else
        mr_count(&r->counters->faults[MR_FAULT_USED_SHORT], 1); /* N48 */
    mr_pkt_free(done->pkt);
}

/* Buffers that the header before a fresh packet's data tells of (N37). */
MR_INLINE uint16_t
num_buffers(const struct mr_pkt *pkt)
{
    const uint8_t *end = pkt->buf_addr + MR_HEADROOM;

    return mr_load((const uint16_t *)(const void *)(end - 2));
}

/* A packet that was posted as it was and comes back with a frame. Whoever gets
 * it most often writes to the frame's first line, or sends it, which writes to
 * the header's unless that is kept. */
MR_INLINE void
rx_fresh(const struct mr_ring *r, struct mr_pkt *pkt, uint32_t len)
{
    uint8_t *data = pkt->buf_addr + MR_HEADROOM;

    mr_prefetch_write(data - !r->keep_num_buffers);
    mr_prefetch_write(data);
    mr_pkt_refresh(pkt);
    mr_pkt_set_len(pkt, len);
}

/* A used buffer becomes a packet, a part of one (NULL), or nothing (NULL). */
MR_INLINE struct mr_pkt *
rx_packet(struct mr_ring *r, const struct mr_state *s,
          const struct mr_done *done, unsigned v)
{
    struct mr_pkt *pkt = done->pkt;
    const uint32_t header = mr_ring_header(r, v & MR_V_PACKED);
    bool first = !(v & MR_V_MERGEABLE) || !r->partial;
    uint32_t least = first ? header + MR_FRAME_MIN : 1;

    if (mr_unlikely(done->len > mr_driver_room(r, v) || done->len < least)) {
        rx_drop(r, done, done->len > mr_driver_room(r, v));
        return NULL;
    }
    rx_fresh(r, pkt, done->len - header);
    if (mr_unlikely(!first))
        return rx_continue(r, done);
    if (v & MR_V_MERGEABLE) {
        uint16_t buffers = num_buffers(pkt);

        if (mr_unlikely(buffers > 1)) {
            rx_begin(r, pkt, buffers, (uint32_t)r->size - s->free);
            return NULL;
        }
    }
    return pkt;
}

/* Packets out of whole lines of plain entries; returns how many, at most n. */
MR_INLINE uint32_t
rx_lines(struct mr_ring *r, struct mr_state *s, struct mr_pkt **pkts,
         uint32_t n, uint64_t *bytes, unsigned v)
{
    const uint32_t most = r->pool->room - MR_FRAME_MIN;
    const uint32_t size = r->size;
    mr_out *const out = r->out;
    uint64_t word[MR_GROUP];
    uint32_t got = 0;

    while (n - got >= MR_GROUP && mr_driver_used_line(r, s, word, v)) {
        uint16_t *ids = &r->ids[s->used.pos];

        mr_driver_ahead(r, s);

        MR_UNROLLED(i, MR_GROUP)
        {
            uint16_t id = (uint16_t)(word[i] >> 32);
            uint32_t len = (uint32_t)word[i] - MR_HEADER;
            mr_out one = mr_likely(id < size) ? out[id] : MR_OUT_NONE;
            struct mr_pkt *pkt = (struct mr_pkt *)one;

            if (mr_unlikely(!mr_out_plain(one) || len - MR_FRAME_MIN > most ||
                            (v & MR_V_IN_ORDER && id != ids[i]) ||
                            (v & MR_V_MERGEABLE && num_buffers(pkt) > 1))) {
                mr_driver_skip_line(r, s, (uint32_t)i);
                return got;
            }
            out[id] = MR_OUT_NONE;
            if (!(v & MR_V_IN_ORDER))
                ids[i] = id;
            rx_fresh(r, pkt, len);
            *bytes += len;
            pkts[got++] = pkt;
        }
        mr_driver_skip_line(r, s, MR_GROUP);
    }
    return got;
}

/* The same on a split ring, element by element. */
MR_INLINE uint32_t
rx_elems(struct mr_ring *r, struct mr_state *s, uint32_t *left,
         struct mr_pkt **pkts, uint32_t n, uint64_t *bytes, unsigned v)
{
    const struct mr_split_view view = mr_split_view(r);
    const uint32_t most = r->pool->room - MR_FRAME_MIN;
    const uint32_t mask = view.size - 1;
    const uint32_t header = r->header;
    uint16_t *const ids = r->ids;
    mr_out *const out = r->out;
    uint32_t got = 0;

    for (n = MR_MIN(n, *left); got < n; got++) {
        uint64_t elem = mr_load(&view.used[s->used.pos & mask]);
        uint32_t id = (uint32_t)elem;
        uint32_t len = (uint32_t)(elem >> 32) - header;
        mr_out one = mr_likely(id <= mask) ? out[id] : MR_OUT_NONE;
        struct mr_pkt *pkt = (struct mr_pkt *)one;

        if (mr_unlikely(!mr_out_plain(one) || len - MR_FRAME_MIN > most ||
                        (v & MR_V_IN_ORDER && id != ids[s->tail & mask]) ||
                        (v & MR_V_MERGEABLE && num_buffers(pkt) > 1)))
            break;
        out[id] = MR_OUT_NONE;
        if (!(v & MR_V_IN_ORDER))
            ids[s->tail & mask] = (uint16_t)id;
        mr_driver_skip_elem(s, left);
        rx_fresh(r, pkt, len);
        *bytes += len;
        *pkts++ = pkt;
    }
    return got;
}

/* Takes what was used, at most n packets, into pkts; returns how many. */
MR_INLINE uint32_t
rx_take(struct mr_ring *r, struct mr_state *s, struct mr_pkt **pkts, uint32_t n,
        uint64_t *bytes, unsigned v)
{
    uint32_t left = mr_driver_used_count(r, s, v);
    struct mr_done done;
    uint32_t got = 0;

    while (got < n) {
        struct mr_pkt *pkt;

        if (!(v & MR_V_MERGEABLE && r->partial) &&
            !(v & MR_V_IN_ORDER && s->in_batch)) {
            got += v & MR_V_PACKED
                       ? rx_lines(r, s, &pkts[got], n - got, bytes, v)
                       : rx_elems(r, s, &left, &pkts[got], n - got, bytes, v);
            if (got == n)
                break;
        }
        if (!mr_driver_take(r, s, &left, &done, v))
            break;
        pkt = rx_packet(r, s, &done, v);
        if (mr_likely(pkt != NULL)) {
            pkts[got++] = pkt;
            *bytes += pkt->pkt_len;
        } else if (mr_unlikely(r->fault)) {
            break;
        }
    }
    return got;
}

MR_INLINE uint32_t
driver_rx(struct mr_ring *r, struct mr_pkt **pkts, uint32_t n, unsigned v)
{
    struct mr_state s;
    uint64_t bytes = 0;
    bool posted = false;
    uint32_t got;

    if (mr_unlikely(r->fault))
        return 0;
    mr_state_copy(&s, &r->at);
    got = rx_take(r, &s, pkts, n, &bytes, v);
    if (mr_likely(!r->fault))
        posted = refill(r, &s, v);
    mr_state_copy(&r->at, &s);
    if (posted)
        mr_driver_publish(r, v);
    mr_counters_moved(r->counters, got, bytes);
    return got;
}

MR_VARIANT_TABLE(driver_rx)
