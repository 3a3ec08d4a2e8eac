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
#include "mem/packet_stash.h"

/* Elements of one list that we expose: header and segments. */
enum { ELEMENTS_MAX = MR_TABLE_ENTRIES };

/* ---- Used buffers ------------------------------------------------------- */

struct done {
    struct mr_pkt *pkt;
    uint32_t len; /* reported by the device */
    bool plain;
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

/* Bytes of a receive buffer, header included. */
MR_INLINE uint32_t
rx_room(const struct mr_ring *r, unsigned v)
{
    return r->pool->room + mr_ring_header(r, v & MR_V_PACKED);
}

/* In order one entry may stand for all buffers up to its id; those before it
 * were filled completely (S40-S42, P44-P46). Takes the next entry up, unless
 * one is being followed. */
MR_INLINE bool
batch_begin(struct mr_ring *r, struct mr_state *s, uint32_t left, unsigned v)
{
    uint32_t id;

    if (s->in_batch)
        return true;
    if (!left || !used_at(r, s, &id, &s->batch_len, v))
        return false;
    if (mr_unlikely(id >= r->size || r->out[id] == MR_OUT_NONE)) {
        mr_ring_break(r, MR_FAULT_USED_ID); /* S12, P16 */
        return false;
    }
    s->batch_id = (uint16_t)id;
    s->in_batch = true;
    return true;
}

/* The id that comes next in order. */
MR_INLINE uint16_t
oldest(const struct mr_ring *r, const struct mr_state *s, unsigned v)
{
    return v & MR_V_PACKED ? mr_packed_oldest(r, s) : mr_split_oldest(r, s);
}

/* The next used buffer's id and length, if there is one. */
MR_INLINE bool
next_used(struct mr_ring *r, struct mr_state *s, uint32_t left, uint32_t *id,
          uint32_t *len, unsigned v)
{
    if (!(v & MR_V_IN_ORDER))
        return left && used_at(r, s, id, len, v);
    if (!batch_begin(r, s, left, v))
        return false;
    *id = left ? oldest(r, s, v) : r->size; /* S42: longer than was used */
    *len = *id == s->batch_id ? s->batch_len : rx_room(r, v);
    s->in_batch = *id != s->batch_id;
    return true;
}

/* Takes the next used buffer, if there is one, and frees its id. */
MR_INLINE bool
take_used(struct mr_ring *r, struct mr_state *s, uint32_t *left,
          struct done *done, unsigned v)
{
    uint32_t id;
    uint32_t len;
    mr_out out;

    if (!next_used(r, s, *left, &id, &len, v))
        return false;
    if (mr_unlikely(id >= r->size || r->out[id] == MR_OUT_NONE)) {
        mr_ring_break(r, MR_FAULT_USED_ID); /* S12, P16 */
        return false;
    }
    --*left;
    out = r->out[id];
    *done = (struct done){mr_out_pkt(out), len, mr_out_plain(out)};
    r->out[id] = MR_OUT_NONE;
    if (v & MR_V_PACKED)
        mr_packed_release(r, s, (uint16_t)id, done->plain);
    else
        mr_split_release(r, s, (uint16_t)id, done->plain);
    return true;
}

/* The plain course of things: entries that stand for one list of one descriptor
 * each. The functions below step through those, on a packed ring a line at a
 * time, and stop in front of what is not plain, or not there yet; take_used
 * then finds out which. */

/* Is there a whole line of used entries at our position? Then `word` has their
 * second halves. */
MR_INLINE bool
used_line(const struct mr_ring *r, const struct mr_state *s,
          uint64_t word[MR_GROUP], unsigned v)
{
    const struct mr_packed_desc *line = &r->desc.packed[s->used.pos];
    uint16_t used = s->used.wrap ? MR_DESC_AVAIL | MR_DESC_USED : 0;

    return mr_packed_at_line(r, s->used.pos) &&
           mr_packed_line(line, MR_DESC_AVAIL | MR_DESC_USED, used, word,
                          v & MR_V_PLATFORM);
}

/* Skips n entries of a line, whose ids were put back. */
MR_INLINE void
skip_used(const struct mr_ring *r, struct mr_state *s, uint32_t n)
{
    s->free = (uint16_t)(s->free + n);
    mr_packed_advance(r, &s->used, n);
}

/* Steps over one element of a split ring, whose id was put back. */
MR_INLINE void
skip_elem(struct mr_state *s, uint32_t *left)
{
    s->tail++;
    s->free++;
    s->used.pos++;
    --*left;
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
    uint32_t n, struct mr_pkt *pkt, bool plain, unsigned v)
{
    uint16_t id;

    if (v & MR_V_PACKED)
        id = mr_packed_add(r, s, element, n, v & MR_V_PLATFORM);
    else
        id = mr_split_add(r, s, element, n);
    r->out[id] = (mr_out)pkt | !plain;
    if (!plain)
        r->slot[id].ndesc = (uint16_t)n;
}

MR_INLINE void
publish(struct mr_ring *r, unsigned v)
{
    if (!(v & MR_V_PACKED))
        mr_split_publish_avail(r, v & MR_V_PLATFORM);
    mr_notify_if_wanted(r, false, v);
}

/* ---- rx ------------------------------------------------------------------ */

enum { REFILL_BATCH = MR_HAS(REFILL_BATCH) ? 64 : 1 };

/* A receive buffer: the header lands in the headroom, the frame where a fresh
 * packet has its data; the packet is made fresh when it comes back. Legacy
 * devices without ANY_LAYOUT want the header in a descriptor of its own (N19).
 */
MR_INLINE void
post(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt, unsigned v)
{
    const uint32_t header = mr_ring_header(r, v & MR_V_PACKED);
    uint64_t at =
        guest_address(r, mr_pkt_buffer(r->pool, pkt) + MR_HEADROOM - header);
    uint32_t room = r->pool->room;

    if (v & MR_V_PACKED || mr_likely(!r->split_header)) {
        struct mr_desc one = {at, header + room, MR_DESC_WRITE, 0};

        add(r, s, &one, 1, pkt, true, v);
    } else {
        struct mr_desc two[2] = {
            {at, header, MR_DESC_WRITE, 0},
            {at + header, room, MR_DESC_WRITE, 0},
        };

        add(r, s, two, 2, pkt, false, v);
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
    const uint64_t all = mr_packed_word(
        rx_room(r, v), 0, MR_DESC_WRITE | mr_packed_avail_flags(s->avail.wrap));
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
    const uint64_t word = rx_room(r, v) | (uint64_t)MR_DESC_WRITE << 32;
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
            publish(r, v);
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
rx_drop(struct mr_ring *r, const struct done *done, bool too_long)
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
 * the header's. */
MR_INLINE void
rx_fresh(struct mr_pkt *pkt, uint32_t len)
{
    uint8_t *data = pkt->buf_addr + MR_HEADROOM;

    mr_prefetch_write(data - 1);
    mr_prefetch_write(data);
    mr_pkt_refresh(pkt);
    mr_pkt_set_len(pkt, len);
}

/* A used buffer becomes a packet, a part of one (NULL), or nothing (NULL). */
MR_INLINE struct mr_pkt *
rx_packet(struct mr_ring *r, const struct mr_state *s, const struct done *done,
          unsigned v)
{
    struct mr_pkt *pkt = done->pkt;
    const uint32_t header = mr_ring_header(r, v & MR_V_PACKED);
    bool first = !(v & MR_V_MERGEABLE) || !r->partial;
    uint32_t least = first ? header + MR_FRAME_MIN : 1;

    if (mr_unlikely(done->len > rx_room(r, v) || done->len < least)) {
        rx_drop(r, done, done->len > rx_room(r, v));
        return NULL;
    }
    rx_fresh(pkt, done->len - header);
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

/* Asks for what the line after the next will need: the descriptors, which are
 * posted anew, and the entries of mr_ring.out. A device completes bursts, and
 * completes most in order. */
MR_INLINE void
ahead(const struct mr_ring *r, const struct mr_state *s)
{
    uint32_t pos = s->used.pos + 2u * MR_GROUP;

    if (pos + MR_GROUP > r->size)
        return;
    mr_prefetch_write(&r->desc.packed[pos]);
    mr_prefetch_write(&r->out[r->ids[pos]]);
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

    while (n - got >= MR_GROUP && used_line(r, s, word, v)) {
        uint16_t *ids = &r->ids[s->used.pos];

        ahead(r, s);

        MR_UNROLLED(i, MR_GROUP)
        {
            uint16_t id = (uint16_t)(word[i] >> 32);
            uint32_t len = (uint32_t)word[i] - MR_HEADER;
            mr_out one = mr_likely(id < size) ? out[id] : MR_OUT_NONE;
            struct mr_pkt *pkt = (struct mr_pkt *)one;

            if (mr_unlikely(!mr_out_plain(one) || len - MR_FRAME_MIN > most ||
                            (v & MR_V_IN_ORDER && id != ids[i]) ||
                            (v & MR_V_MERGEABLE && num_buffers(pkt) > 1))) {
                skip_used(r, s, (uint32_t)i);
                return got;
            }
            out[id] = MR_OUT_NONE;
            if (!(v & MR_V_IN_ORDER))
                ids[i] = id;
            rx_fresh(pkt, len);
            *bytes += len;
            pkts[got++] = pkt;
        }
        skip_used(r, s, MR_GROUP);
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
        skip_elem(s, left);
        rx_fresh(pkt, len);
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
    uint32_t left = used_count(r, s, v);
    struct done done;
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
        if (!take_used(r, s, &left, &done, v))
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
        publish(r, v);
    mr_counters_moved(r->counters, got, bytes);
    return got;
}

/* ---- tx ------------------------------------------------------------------ */

/* Packets of whole lines of plain entries go home without a look. */
MR_INLINE void
reclaim_lines(struct mr_ring *r, struct mr_state *s, struct mr_stash *stash,
              unsigned v)
{
    const uint32_t size = r->size;
    mr_out *const out = r->out;
    uint64_t word[MR_GROUP];

    while (used_line(r, s, word, v)) {
        uint16_t *ids = &r->ids[s->used.pos];

        ahead(r, s);
        mr_stash_room(stash, MR_GROUP);
        MR_UNROLLED(i, MR_GROUP)
        {
            uint16_t id = (uint16_t)(word[i] >> 32);
            mr_out one = mr_likely(id < size) ? out[id] : MR_OUT_NONE;

            if (mr_unlikely(!mr_out_plain(one))) {
                skip_used(r, s, (uint32_t)i);
                return;
            }
            out[id] = MR_OUT_NONE;
            ids[i] = id;
            mr_stash_put(stash, (struct mr_pkt *)one);
        }
        skip_used(r, s, MR_GROUP);
    }
}

/* The same on a split ring, element by element. */
MR_INLINE void
reclaim_elems(struct mr_ring *r, struct mr_state *s, uint32_t *left,
              struct mr_stash *stash)
{
    const struct mr_split_view view = mr_split_view(r);
    const uint32_t mask = view.size - 1;
    uint16_t *const ids = r->ids;
    mr_out *const out = r->out;

    while (*left) {
        uint32_t id = (uint32_t)mr_load(&view.used[s->used.pos & mask]);
        mr_out one = mr_likely(id <= mask) ? out[id] : MR_OUT_NONE;

        if (mr_unlikely(!mr_out_plain(one)))
            return;
        out[id] = MR_OUT_NONE;
        ids[s->tail & mask] = (uint16_t)id;
        skip_elem(s, left);
        mr_stash_room(stash, 1);
        mr_stash_put(stash, (struct mr_pkt *)one);
    }
}

/* The same in order: all packets up to the id of an entry, and on to the next
 * entry. The ids are where they are to be put back. */
MR_INLINE void
reclaim_batches(struct mr_ring *r, struct mr_state *s, uint32_t *left,
                struct mr_stash *stash, unsigned v)
{
    mr_out *const out = r->out;

    while (batch_begin(r, s, *left, v) && *left) {
        uint16_t id = oldest(r, s, v);
        mr_out one = out[id];

        if (mr_unlikely(!mr_out_plain(one)))
            return;
        out[id] = MR_OUT_NONE;
        if (v & MR_V_PACKED) {
            skip_used(r, s, 1);
            --*left;
        } else {
            skip_elem(s, left);
        }
        s->in_batch = id != s->batch_id;
        mr_stash_room(stash, 1);
        mr_stash_put(stash, (struct mr_pkt *)one);
    }
}

/* Frees what the device is done with. The used length means nothing here
 * (N33). */
MR_INLINE void
reclaim(struct mr_ring *r, struct mr_state *s, unsigned v)
{
    uint32_t left = used_count(r, s, v);
    struct mr_stash stash;
    struct done done;

    mr_stash_open(&stash, r->pool->mp);
    for (;;) {
        if (v & MR_V_IN_ORDER)
            reclaim_batches(r, s, &left, &stash, v);
        else if (v & MR_V_PACKED)
            reclaim_lines(r, s, &stash, v);
        else
            reclaim_elems(r, s, &left, &stash);
        if (r->fault || !take_used(r, s, &left, &done, v))
            break;
        mr_stash_room(&stash, 1);
        if (mr_likely(done.plain)) {
            mr_stash_put(&stash, done.pkt);
        } else {
            mr_stash_close(&stash);
            mr_pkt_free(done.pkt);
            mr_stash_open(&stash, r->pool->mp);
        }
    }
    mr_stash_close(&stash);
}

/* Are the segment's bytes in the port's shared memory? */
static bool
is_shared(const struct mr_ring *r, const struct mr_pkt *seg)
{
    return (size_t)(seg->buf_addr - r->pool->bytes) < r->pool->span;
}

/* Can the packet be exposed as it is, header in the headroom? */
MR_INLINE bool
is_plain(const struct mr_ring *r, const struct mr_pkt *pkt, unsigned v)
{
    return mr_pkt_of(r->pool, pkt) && mr_pkt_single(pkt) &&
           pkt->data_off >= mr_ring_header(r, v & MR_V_PACKED) &&
           (v & MR_V_PACKED || !r->split_header);
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
tx_elements(const struct mr_ring *r, const struct mr_pkt *pkt, uint16_t id,
            struct mr_desc *element)
{
    uint8_t *header = r->headers + (size_t)id * MR_HEADER_SLOT;
    uint32_t n = 0;

    mr_header_put(header, r->header, 0);
    element[n++] = (struct mr_desc){guest_address(r, header), r->header, 0, 0};
    for (; pkt; pkt = pkt->next)
        if (pkt->data_len)
            element[n++] = (struct mr_desc){guest_address(r, mr_pkt_data(pkt)),
                                            pkt->data_len, 0, 0};
    return n;
}

/* Moves the elements into the id's table (P30, S39) and leaves one element
 * that refers to it. */
static void
tx_table(struct mr_ring *r, uint16_t id, struct mr_desc *element, uint32_t n,
         bool packed)
{
    struct mr_packed_desc *table = r->tables + (size_t)id * MR_TABLE_ENTRIES;

    for (uint32_t i = 0; i < n; i++) {
        if (packed) {
            table[i] =
                (struct mr_packed_desc){element[i].addr, element[i].len, 0, 0};
        } else {
            bool more = i + 1 < n;
            struct mr_split_desc d = {element[i].addr, element[i].len,
                                      more ? MR_DESC_NEXT : 0,
                                      more ? (uint16_t)(i + 1) : 0};

            memcpy(&table[i], &d, sizeof(d));
        }
    }
    element[0] =
        (struct mr_desc){guest_address(r, table), 16 * n, MR_DESC_INDIRECT, 0};
}

enum tx_result { TX_ADDED, TX_FULL, TX_NOBUF, TX_NEVER };

/* A plain packet is one element, its header just before its data. */
MR_INLINE enum tx_result
tx_plain(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt, unsigned v)
{
    const uint32_t bytes = mr_ring_header(r, v & MR_V_PACKED);
    uint8_t *header = mr_pkt_data(pkt) - bytes;
    struct mr_desc one = {guest_address(r, header),
                          bytes + (uint32_t)pkt->data_len, 0, 0};

    if (mr_unlikely(!s->free))
        return TX_FULL;
    mr_header_put(header, bytes, 0);
    add(r, s, &one, 1, pkt, true, v);
    return TX_ADDED;
}

/* Exposes plain packets a line of a packed ring at a time; returns how many of
 * n, as many lines as are free and in a row. */
MR_INLINE uint32_t
tx_lines(struct mr_ring *r, struct mr_state *s, struct mr_pkt *const *pkts,
         uint32_t n, uint64_t *bytes, unsigned v)
{
    uint32_t done = 0;

    while (MR_MIN(n - done, s->free) >= MR_GROUP &&
           mr_packed_at_line(r, s->avail.pos)) {
        struct mr_packed_desc *line = &r->desc.packed[s->avail.pos];
        const uint16_t *id = &r->ids[s->avail.pos];
        const uint64_t all =
            mr_packed_word(MR_HEADER, 0, mr_packed_avail_flags(s->avail.wrap));
        uint64_t first = 0;

        MR_UNROLLED(i, MR_GROUP)
        if (mr_unlikely(!is_plain(r, pkts[done + (uint32_t)i], v)))
            return done;
        MR_UNROLLED(i, MR_GROUP)
        {
            struct mr_pkt *pkt = pkts[done++];
            uint8_t *header = mr_pkt_data(pkt) - MR_HEADER;
            uint64_t word = all + pkt->data_len + ((uint64_t)id[i] << 32);

            mr_header_put(header, MR_HEADER, 0);
            r->out[id[i]] = (mr_out)pkt;
            *bytes += pkt->data_len;
            mr_store(&line[i].addr, guest_address(r, header));
            if (i)
                mr_store(mr_packed_half(&line[i]), word);
            else
                first = word;
        }
        s->free = (uint16_t)(s->free - MR_GROUP);
        mr_packed_advance(r, &s->avail, MR_GROUP);
        mr_order_publish(mr_packed_half(line), first, v & MR_V_PLATFORM);
    }
    return done;
}

/* The same on a split ring, packet by packet. */
MR_INLINE uint32_t
tx_heads(struct mr_ring *r, struct mr_state *s, struct mr_pkt *const *pkts,
         uint32_t n, uint64_t *bytes, unsigned v)
{
    const struct mr_split_view view = mr_split_view(r);
    const uint32_t size = r->header;
    const uint16_t *const ids = r->ids;
    mr_out *const out = r->out;
    uint32_t done = 0;

    for (n = MR_MIN(n, s->free); done < n; done++) {
        struct mr_pkt *pkt = *pkts++;
        uint8_t *header = mr_pkt_data(pkt) - size;

        if (mr_unlikely(!is_plain(r, pkt, v)))
            break;
        mr_header_put(header, size, 0);
        *bytes += pkt->data_len;
        out[mr_split_add_one(&view, ids, s, guest_address(r, header),
                             size + (uint64_t)pkt->data_len)] = (mr_out)pkt;
    }
    return done;
}

/* A packet in shared memory of several segments, or without headroom. */
static enum tx_result
tx_segments(struct mr_ring *r, struct mr_pkt *pkt, unsigned v)
{
    bool packed = v & MR_V_PACKED;
    /* P32: devices may refuse packed tables of ring size. */
    uint32_t most = MR_MIN(MR_TABLE_ENTRIES + 0u, r->size - (packed ? 1u : 0u));
    struct mr_desc element[ELEMENTS_MAX];
    uint16_t id;
    uint32_t n;

    if (pkt->nb_segs >= ELEMENTS_MAX)
        return TX_NEVER;
    if (!r->at.free)
        return TX_FULL;
    id = packed ? r->ids[r->at.avail.pos] : r->ids[r->at.head & (r->size - 1)];
    n = tx_elements(r, pkt, id, element);
    if (r->indirect && n > 1 && n <= most) {
        tx_table(r, id, element, n, packed);
        n = 1;
    }
    if (n > r->at.free)
        return n > r->size ? TX_NEVER : TX_FULL;
    add(r, &r->at, element, n, pkt, false, v);
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
    result = is_plain(r, copy, v) ? tx_plain(r, &r->at, copy, v)
                                  : tx_segments(r, copy, v);
    mr_pkt_free(result == TX_ADDED ? pkt : copy);
    return result;
}

MR_INLINE enum tx_result
tx_packet(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt, unsigned v)
{
    enum tx_result result;

    if (mr_likely(is_plain(r, pkt, v)))
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
        enum tx_result result;
        struct mr_pkt *pkt;
        uint32_t len;

        done += v & MR_V_PACKED
                    ? tx_lines(r, &s, &pkts[done], n - done, &bytes, v)
                    : tx_heads(r, &s, &pkts[done], n - done, &bytes, v);
        if (done == n)
            break;
        pkt = pkts[done];
        len = pkt->pkt_len;
        result = tx_packet(r, &s, pkt, v);
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
