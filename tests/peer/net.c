/* Frames in buffers: the virtio-net header and the many ways to lay header
 * and data into descriptors (virtio-net 4-6). */
#include <stdlib.h>
#include <string.h>

#include "peer/peer.h"

/* ---- Cutting ----------------------------------------------------------- */

struct pieces {
    uint32_t n;
    uint32_t len[PEER_PARTS];
};

static void
piece(struct pieces *s, uint32_t len)
{
    s->len[s->n++] = len;
}

static void
equal(struct pieces *s, uint32_t total, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        piece(s, total / n + (i < total % n));
}

static void
at_random(struct peer *p, struct pieces *s, uint32_t total)
{
    uint32_t n = 1 + peer_random(p, 12);

    for (; n > 1; n--) {
        uint32_t len = peer_random(p, 2) ? peer_random(p, total + 1)
                                         : peer_random(p, 16);

        len = len < total ? len : total;
        piece(s, len);
        total -= len;
    }
    piece(s, total);
}

static void
cut_modern(struct peer *p, enum peer_cut cut, uint32_t data, struct pieces *s)
{
    uint32_t h = p->header, few = data < 5 ? data : 5;

    switch (cut) {
    case PEER_CUT_header:
        piece(s, h), piece(s, data);
        break;
    case PEER_CUT_few:
        piece(s, h + few), piece(s, data - few);
        break;
    case PEER_CUT_straddle:
        piece(s, 7), piece(s, h - 7 + data);
        break;
    case PEER_CUT_bytes:
        equal(s, h, h), piece(s, data);
        break;
    case PEER_CUT_chain:
        equal(s, h + data, 8);
        break;
    case PEER_CUT_empty:
        piece(s, 0), piece(s, h), piece(s, 0), piece(s, data), piece(s, 0);
        break;
    case PEER_CUT_random:
        at_random(p, s, h + data);
        break;
    default:
        piece(s, h + data);
    }
}

/* N19: a legacy header has a descriptor of its own, whatever the data does. */
static void
cut_legacy(struct peer *p, enum peer_cut cut, uint32_t data, struct pieces *s)
{
    piece(s, p->header);
    if (cut == PEER_CUT_chain)
        equal(s, data, 8);
    else if (cut == PEER_CUT_random)
        at_random(p, s, data);
    else
        piece(s, data);
}

/* Parts that the ring cannot hold are joined to the last one that it can. */
static void
join(struct pieces *s, uint32_t max)
{
    while (s->n > max) {
        s->n--;
        s->len[s->n - 1] += s->len[s->n];
    }
}

static void
cut(struct peer *p, const struct peer_shape *shape, uint32_t data,
    struct pieces *s)
{
    s->n = 0;
    if (p->own_header)
        cut_legacy(p, shape->cut, data, s);
    else
        cut_modern(p, shape->cut, data, s);
    join(s, p->size);
}

/* ---- Memory of buffers ------------------------------------------------- */

bool
peer_slabs_set(struct peer *p, uint64_t guest, uint32_t size, uint32_t n)
{
    struct peer_slabs *s = &p->slabs;

    *s = (struct peer_slabs){guest, size, n, calloc(n, sizeof(uint32_t)), 0};
    while (s->free && s->nfree < n) {
        s->free[s->nfree] = n - 1 - s->nfree;
        s->nfree++;
    }
    return s->free != NULL;
}

/* Lays the pieces into a slab, anywhere near its start, canaries between. */
static void
lay(struct peer *p, uint32_t slab, const struct pieces *s, bool write,
    struct peer_list *list)
{
    uint64_t at = p->slabs.guest + (uint64_t)slab * p->slabs.size;
    uint64_t end = at + p->slabs.size - 16 * s->n;

    at += peer_random(p, 16);
    for (list->n = 0; list->n < s->n; list->n++) {
        struct peer_part *part = &list->part[list->n];

        *part = (struct peer_part){at, s->len[list->n], write};
        at += part->len;
        peer_memory_fill(p->memory, at, PEER_CANARY, PEER_GAP);
        at += PEER_GAP;
    }
    if (at > end)
        peer_fail(p, "peer: slab of %u bytes is too small", p->slabs.size);
}

static int
check_canaries(struct peer *p, const struct peer_record *r)
{
    uint8_t gap[PEER_GAP], want[PEER_GAP];

    memset(want, PEER_CANARY, sizeof(want));
    for (uint32_t i = 0; i < r->n; i++) {
        peer_memory_read(p->memory, r->part[i].addr + r->part[i].len, gap,
                         sizeof(gap));
        if (memcmp(gap, want, sizeof(gap)))
            return peer_fail(p, "C3: the device wrote behind part %u", i);
    }
    return 0;
}

/* Copies between a buffer's parts and `bytes`, from byte `from` of the buffer;
 * parts of the other direction do not count. */
static uint32_t
copy(struct peer *p, const struct peer_record *r, bool write, uint64_t from,
     void *out, const void *in, uint32_t len)
{
    uint32_t done = 0;

    for (uint32_t i = 0; i < r->n && done < len; i++) {
        const struct peer_part *part = &r->part[i];
        uint32_t n;

        if (part->write != write)
            continue;
        if (from >= part->len) {
            from -= part->len;
            continue;
        }
        n = part->len - (uint32_t)from;
        n = n < len - done ? n : len - done;
        if (out)
            peer_memory_read(p->memory, part->addr + from,
                             (uint8_t *)out + done, n);
        else
            peer_memory_write(p->memory, part->addr + from,
                              (const uint8_t *)in + done, n);
        done += n;
        from = 0;
    }
    return done;
}

/* Offers what the list says in slab memory; what stands in it already (a frame
 * to send) is `bytes`, else header noise, to see that the device defines every
 * field (N22). */
static int
offer(struct peer *p, const struct peer_shape *shape, uint32_t data,
      const uint8_t *frame)
{
    static const uint8_t noise[12] = {[0 ... 11] = 0xee};
    static const uint8_t zero[12];
    struct peer_list list;
    struct pieces s;
    uint32_t slab;
    int id;

    cut(p, shape, data, &s);
    if (!p->slabs.nfree || p->error[0])
        return 0;
    slab = p->slabs.free[p->slabs.nfree - 1];
    lay(p, slab, &s, frame == NULL, &list);
    struct peer_record r = {.n = list.n, .part = list.part};
    copy(p, &r, !frame, 0, NULL, frame ? zero : noise, p->header);
    if (frame)
        copy(p, &r, false, p->header, NULL, frame, data);
    id = peer_offer(p, &list, shape->form,
                    p->slabs.guest + (slab + 1ull) * p->slabs.size -
                        16 * s.n);
    if (id < 0)
        return 0;
    p->slabs.nfree--;
    p->record[id].slab = slab;
    return 1;
}

/* ---- Driver ------------------------------------------------------------ */

int
peer_send(struct peer *p, const struct peer_shape *shape, const uint8_t *frame,
          uint32_t len)
{
    return offer(p, shape, len, frame);
}

int
peer_post(struct peer *p, const struct peer_shape *shape, uint32_t room)
{
    return offer(p, shape, room - p->header, NULL);
}

static int
reap(struct peer *p, struct peer_done *done)
{
    int rc = peer_reap(p, done);

    if (rc <= 0)
        return rc;
    p->slabs.free[p->slabs.nfree++] = done->record.slab;
    return check_canaries(p, &done->record) ? -1 : 1;
}

int
peer_sent(struct peer *p)
{
    struct peer_done done;
    int rc, n = 0;

    while ((rc = reap(p, &done)) > 0)
        n++;
    return rc < 0 ? -1 : n;
}

/* N22, N35, N36, N43, N44. Returns the number of buffers. */
static int
header_check(struct peer *p, const struct peer_done *done)
{
    struct mr_net_header h = {0};
    bool mergeable = p->features >> MR_F_MRG_RXBUF & 1;

    if (done->len < p->header)
        return peer_fail(p, "N38: %lu bytes do not hold the header",
                         done->len);
    copy(p, &done->record, true, 0, &h, NULL, p->header);
    if (h.flags || h.gso_type)
        return peer_fail(p, "N43 N44: header flags %#x, gso type %#x", h.flags,
                         h.gso_type);
    if (h.hdr_len || h.gso_size || h.csum_start || h.csum_offset)
        return peer_fail(p, "N22: header with %#x %#x %#x %#x left in it",
                         h.hdr_len, h.gso_size, h.csum_start, h.csum_offset);
    if (p->header < 12)
        return 1;
    if (!mergeable && h.num_buffers != 1)
        return peer_fail(p, "N35: num_buffers %u", h.num_buffers);
    if (!h.num_buffers || h.num_buffers > peer_outstanding(p) + 1)
        return peer_fail(p, "N36: num_buffers %u", h.num_buffers);
    return h.num_buffers;
}

/* N36-N38: the rest of a packet of n buffers. */
static int
gather(struct peer *p, struct peer_done *done, int n, uint8_t *frame,
       uint32_t *len)
{
    *len = (uint32_t)done->len - p->header;
    copy(p, &done->record, true, p->header, frame, NULL, *len);
    for (int i = 1; i < n; i++) {
        if (done->len != done->record.writable)
            return peer_fail(p, "N36: buffer %d of %d holds %lu of %lu", i, n,
                             done->len, done->record.writable);
        if (reap(p, done) != 1)
            return peer_fail(p, "N37: buffer %d of %d is not there", i + 1, n);
        if (!done->len || *len + done->len > PEER_FRAME_MAX)
            return peer_fail(p, "N36 N38: buffer %d of %d holds %lu bytes",
                             i + 1, n, done->len);
        copy(p, &done->record, true, 0, frame + *len, NULL,
             (uint32_t)done->len);
        *len += (uint32_t)done->len;
    }
    return 1;
}

int
peer_receive(struct peer *p, uint8_t *frame, uint32_t *len, uint32_t *unused)
{
    struct peer_done done;
    int rc;

    while ((rc = reap(p, &done)) == 1 && done.len == 0)
        ++*unused;
    if (rc <= 0)
        return rc;
    rc = header_check(p, &done);
    return rc < 0 ? -1 : gather(p, &done, rc, frame, len);
}

/* ---- Device ------------------------------------------------------------ */

/* N19, N23, N24, N29, N91. */
int
peer_frame_read(struct peer *p, uint16_t id, uint8_t *frame, uint32_t *len)
{
    const struct peer_record *r = &p->record[id];
    struct mr_net_header h = {0};

    if (r->readable < p->header + 14u ||
        r->readable > p->header + (uint64_t)PEER_FRAME_MAX)
        return peer_fail(p, "N90: frame with its header has %lu bytes",
                         r->readable);
    if (p->own_header && r->part[0].len != p->header)
        return peer_fail(p, "N19: first part has %u bytes", r->part[0].len);
    copy(p, r, false, 0, &h, NULL, p->header);
    if (h.flags || h.gso_type || h.num_buffers)
        return peer_fail(p, "N23 N24: flags %#x, gso type %#x, num_buffers %u",
                         h.flags, h.gso_type, h.num_buffers);
    *len = (uint32_t)r->readable - p->header;
    copy(p, r, false, p->header, frame, NULL, *len);
    return 0;
}

int
peer_frame_write(struct peer *p, const uint16_t *ids, uint32_t n,
                 uint32_t *lens, const uint8_t *frame, uint32_t len)
{
    struct mr_net_header h = {.num_buffers = (uint16_t)n};
    uint32_t done = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct peer_record *r = &p->record[ids[i]];
        uint32_t skip = i ? 0 : p->header, put;

        if (r->writable < p->header) /* N40 */
            return peer_fail(p, "N40: rx buffer of %lu bytes", r->writable);
        if (p->own_header && r->part[0].len != p->header)
            return peer_fail(p, "N19: first part has %u bytes",
                             r->part[0].len);
        if (i == 0)
            copy(p, r, true, 0, NULL, &h, p->header);
        put = copy(p, r, true, skip, NULL, frame + done, len - done);
        done += put;
        lens[i] = skip + put;
    }
    return done == len ? 0 : -1;
}

/* The buffers for `len` bytes with header: how many, 0 = not enough. */
static uint32_t
choose(struct peer *p, uint16_t *ids, uint64_t len)
{
    uint32_t all = peer_outstanding(p), n = 0;
    uint32_t most = p->features >> MR_F_MRG_RXBUF & 1 ? all : all > 0;
    uint32_t from = p->shuffle && all ? peer_random(p, all) : 0;
    uint64_t room = 0;

    while (n < most && room < len) {
        ids[n] = p->queue[(p->queue_head + (from + n) % all) % p->size];
        room += p->record[ids[n++]].writable;
    }
    return room < len ? 0 : n;
}

int
peer_give(struct peer *p, const uint8_t *frame, uint32_t len)
{
    static __thread uint16_t ids[MR_RING_MAX];
    static __thread uint32_t lens[MR_RING_MAX];
    uint32_t n = choose(p, ids, len + p->header);

    if (p->error[0])
        return -1;
    if (!n)
        return 0;
    if (peer_frame_write(p, ids, n, lens, frame, len))
        return -1;
    peer_complete(p, ids, lens, n);
    return 1;
}
