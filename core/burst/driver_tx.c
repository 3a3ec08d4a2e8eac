/* tx of the driver side (virtio): packets in the port's shared memory are
 * exposed in place; one whose bytes lie elsewhere is copied there first.
 *
 * Owner: the worker inside the queue's gate. */
#include "burst/driver.h"

/* Elements of one list that we expose: header and segments. */
enum { ELEMENTS_MAX = MR_TABLE_ENTRIES };

/* Packets of whole lines of plain entries go home without a look. */
MR_INLINE void
reclaim_lines(struct mr_ring *r, struct mr_state *s, struct mr_stash *stash,
              unsigned v)
{
    const uint32_t size = r->size;
    mr_out *const out = r->out;
    uint64_t word[MR_GROUP];

    while (mr_driver_used_line(r, s, word, v)) {
        uint16_t *ids = &r->ids[s->used.pos];

        mr_driver_ahead(r, s);
        mr_stash_room(stash, MR_GROUP);
        MR_UNROLLED(i, MR_GROUP)
        {
            uint16_t id = (uint16_t)(word[i] >> 32);
            mr_out one = mr_likely(id < size) ? out[id] : MR_OUT_NONE;

            if (mr_unlikely(!mr_out_plain(one))) {
                mr_driver_skip_line(r, s, (uint32_t)i);
                return;
            }
            out[id] = MR_OUT_NONE;
            ids[i] = id;
            mr_stash_put(stash, (struct mr_pkt *)one);
        }
        mr_driver_skip_line(r, s, MR_GROUP);
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
        mr_driver_skip_elem(s, left);
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

    while (mr_driver_batch_begin(r, s, *left, v) && *left) {
        uint16_t id = mr_driver_oldest(r, s, v);
        mr_out one = out[id];

        if (mr_unlikely(!mr_out_plain(one)))
            return;
        out[id] = MR_OUT_NONE;
        if (v & MR_V_PACKED) {
            mr_driver_skip_line(r, s, 1);
            --*left;
        } else {
            mr_driver_skip_elem(s, left);
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
    uint32_t left = mr_driver_used_count(r, s, v);
    struct mr_stash stash;
    struct mr_done done;

    mr_stash_open(&stash, r->pool->mp);
    for (;;) {
        if (v & MR_V_IN_ORDER)
            reclaim_batches(r, s, &left, &stash, v);
        else if (v & MR_V_PACKED)
            reclaim_lines(r, s, &stash, v);
        else
            reclaim_elems(r, s, &left, &stash);
        if (r->fault || !mr_driver_take(r, s, &left, &done, v))
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

    mr_header_put(header, r->header, 0, 0);
    element[n++] =
        (struct mr_desc){mr_driver_address(r, header), r->header, 0, 0};
    for (; pkt; pkt = pkt->next)
        if (pkt->data_len)
            element[n++] = (struct mr_desc){
                mr_driver_address(r, mr_pkt_data(pkt)), pkt->data_len, 0, 0};
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
    element[0] = (struct mr_desc){mr_driver_address(r, table), 16 * n,
                                  MR_DESC_INDIRECT, 0};
}

enum tx_result { TX_ADDED, TX_FULL, TX_NOBUF, TX_NEVER };

/* What of a header may be as the device left it (N23). */
MR_INLINE uint32_t
header_any(const struct mr_ring *r)
{
    return r->keep_num_buffers ? MR_HEADER_BUFFERS : 0;
}

/* A plain packet is one element, its header just before its data. */
MR_INLINE enum tx_result
tx_plain(struct mr_ring *r, struct mr_state *s, struct mr_pkt *pkt, unsigned v)
{
    const uint32_t bytes = mr_ring_header(r, v & MR_V_PACKED);
    uint8_t *header = mr_pkt_data(pkt) - bytes;
    struct mr_desc one = {mr_driver_address(r, header),
                          bytes + (uint32_t)pkt->data_len, 0, 0};

    if (mr_unlikely(!s->free))
        return TX_FULL;
    mr_header_put(header, bytes, 0, header_any(r));
    mr_driver_add(r, s, &one, 1, pkt, true, v);
    return TX_ADDED;
}

/* Exposes plain packets a line of a packed ring at a time; returns how many of
 * n, as many lines as are free and in a row. */
MR_INLINE uint32_t
tx_lines(struct mr_ring *r, struct mr_state *s, struct mr_pkt *const *pkts,
         uint32_t n, uint64_t *bytes, unsigned v)
{
    const uint32_t any = header_any(r);
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

            mr_header_put(header, MR_HEADER, 0, any);
            r->out[id[i]] = (mr_out)pkt;
            *bytes += pkt->data_len;
            mr_store(&line[i].addr, mr_driver_address(r, header));
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
    const uint32_t any = header_any(r);
    const uint16_t *const ids = r->ids;
    mr_out *const out = r->out;
    uint32_t done = 0;

    for (n = MR_MIN(n, s->free); done < n; done++) {
        struct mr_pkt *pkt = *pkts++;
        uint8_t *header = mr_pkt_data(pkt) - size;

        if (mr_unlikely(!is_plain(r, pkt, v)))
            break;
        mr_header_put(header, size, 0, any);
        *bytes += pkt->data_len;
        out[mr_split_add_one(&view, ids, s, mr_driver_address(r, header),
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
    mr_driver_add(r, &r->at, element, n, pkt, false, v);
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
        mr_driver_publish(r, v);
    mr_count(&r->counters->oversize, dropped);
    mr_counters_moved(r->counters, done - dropped, bytes);
    return done;
}

MR_VARIANT_TABLE(driver_tx)
