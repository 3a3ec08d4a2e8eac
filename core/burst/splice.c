/* The body of mr_splice. Packets go in fours, as long as each is one direct
 * descriptor inside one region at either end; then one by one; what does not
 * fit that is resolved out of line. One body for both, with the number as a
 * constant.
 *
 * Owner: the worker inside both gates. Invariants:
 *  1. Both drivers are hostile: what is decided upon are copies in registers,
 *     and the bytes that were decided upon are the ones written.
 *  2. Nothing is stepped over before it is certain that it moves: a set that
 *     is not plain costs nothing but the look.
 *  3. Target buffers become visible after the last copy of the burst; source
 *     buffers go back after that. */
#include "burst/splice.h"

#include "burst/copy.h"
#include "burst/device.h"
#include "mem/turn.h"

/* One end of a burst. */
struct end {
    struct mr_ring *r;
    struct mr_progress p;
    uint32_t left; /* lists to take, at most */
};

struct tally {
    uint32_t packets;
    uint32_t dropped;
    uint64_t bytes;
    uint64_t dropped_bytes;
};

/* How packets are changed. */
struct way {
    bool turn;
    uint64_t mac;
};

/* Lists of one direct descriptor each: where their bytes are, and their length
 * and id as in the word of a packed descriptor. */
struct set {
    uint8_t *ptr[MR_GROUP];
    uint64_t word[MR_GROUP];
};

enum { ID_BITS = 32 };
static const uint64_t ID_MASK = 0xffffull << ID_BITS;

/* ---- Plain packets ------------------------------------------------------- */

/* The caller knows that k lists are pending. A bad head is left to the general
 * path, which breaks the ring. */
MR_INLINE bool
look_split(struct end *e, bool write, int k, struct set *s)
{
    const struct mr_ring *r = e->r;
    uint16_t head[MR_GROUP];
    bool ok = true;

    MR_UNROLLED(i, k)
    {
        uint16_t slot = (uint16_t)(e->p.at.pos + i) & (r->size - 1);

        head[i] = mr_load(&r->avail.split->ring[slot]);
        ok &= head[i] < r->size;
    }
    if (!ok)
        return false;
    MR_UNROLLED(i, k)
    {
        struct mr_desc d = mr_desc_copy(&r->desc.split[head[i]], false);

        s->ptr[i] = mr_device_direct(r, &e->p.near, &d, write);
        s->word[i] = d.len | (uint64_t)head[i] << ID_BITS;
        ok &= s->ptr[i] != NULL;
    }
    return ok;
}

/* The flags that k plain lists have, from `at` on, in the top of a word. */
MR_INLINE uint64_t
packed_flags(struct mr_pos at, bool write)
{
    return (uint64_t)((at.wrap ? MR_DESC_AVAIL : MR_DESC_USED) |
                      (write ? MR_DESC_WRITE : 0))
           << 48;
}

MR_INLINE bool
look_packed(struct end *e, bool write, int k, struct set *s, bool platform)
{
    const uint64_t mask =
        (uint64_t)(MR_DESC_AVAIL | MR_DESC_USED | MR_DESC_NEXT |
                   MR_DESC_INDIRECT | MR_DESC_WRITE)
        << 48;
    const uint64_t want = packed_flags(e->p.at, write);
    const struct mr_ring *r = e->r;
    uint64_t differ = 0;
    bool ok = true;

    if (e->p.at.pos + k > r->size)
        return false;
    MR_UNROLLED(i, k)
    {
        uint16_t pos = (uint16_t)(e->p.at.pos + i);

        s->word[i] = mr_load_fenced(mr_packed_word_at(r, pos));
        differ |= s->word[i] ^ want;
    }
    mr_order_observed(platform);
    if (differ & mask)
        return false;
    MR_UNROLLED(i, k)
    {
        uint64_t addr = mr_load(&r->desc.packed[e->p.at.pos + i].addr);
        uint64_t room = 0;

        s->ptr[i] = mr_device_guest(r, &e->p.near, addr, &room);
        ok &= s->ptr[i] && (uint32_t)s->word[i] <= room;
    }
    return ok;
}

/* The next k lists, if they are there and plain; the end stays where it is. */
MR_INLINE bool
look(struct end *e, bool write, int k, struct set *s, unsigned v)
{
    if (v & MR_V_PACKED)
        return look_packed(e, write, k, s, v & MR_V_PLATFORM);
    return look_split(e, write, k, s);
}

/* Steps over the set and uses its lists, whose words say with what length. */
MR_INLINE void
use(struct end *e, bool write, int k, const struct set *s, bool in_order,
    unsigned v)
{
    struct mr_used_run *run = &e->p.run;

    e->left -= (uint32_t)k;
    if (v & MR_V_PACKED)
        mr_packed_advance(e->r, &e->p.at, (uint32_t)k);
    else
        e->p.at.pos = (uint16_t)(e->p.at.pos + k);
    if (v & MR_V_PACKED && k == MR_GROUP && run->at.pos + k <= e->r->size) {
        mr_packed_use_line(e->r, run, &e->r->desc.packed[run->at.pos], s->word,
                           write, in_order);
        return;
    }
    MR_UNROLLED(i, k)
    {
        struct mr_list list = {.id = (uint16_t)(s->word[i] >> ID_BITS),
                               .ndesc = 1};

        mr_device_use(e->r, run, &list, (uint32_t)s->word[i], in_order, v);
    }
}

/* Lengths of the frames; false when one is none, or does not fit (N90-N92). */
MR_INLINE bool
fit(const struct end *f, const struct end *t, int k, const struct set *from,
    const struct set *to, uint32_t least, uint32_t len[MR_GROUP])
{
    bool ok = true;

    MR_UNROLLED(i, k)
    {
        len[i] = (uint32_t)from->word[i] - f->r->header;
        ok &= len[i] - least <= MR_FRAME_MAX - least;
        ok &= (uint32_t)to->word[i] >= len[i] + t->r->header;
    }
    return ok;
}

/* The frames' first bytes, turned; false when one may be to be answered. */
MR_INLINE bool
turn_all(const struct end *f, int k, const struct set *from, uint64_t mac,
         struct mr_head head[MR_GROUP])
{
    bool ok = true;

    MR_UNROLLED(i, k)
    {
        head[i] = mr_head_load(from->ptr[i] + f->r->header);
        ok &= mr_head_turns(&head[i]);
        mr_turn(&head[i].first, &head[i].rest, mac);
    }
    return ok;
}

MR_INLINE void
copy(uint8_t *to, const uint8_t *from, uint32_t len, const struct mr_head *head)
{
    if (!head) {
        mr_copy(to, from, len);
        return;
    }
    memcpy(to, head, MR_HEAD);
    mr_copy(to + MR_HEAD, from + MR_HEAD, len - MR_HEAD);
}

/* The next k packets, if each is plain at both ends. */
MR_INLINE bool
move(struct end *f, struct end *t, int k, const struct way *way,
     struct tally *sum, unsigned vf, unsigned vt)
{
    const uint32_t least =
        way->turn ? (uint32_t)MR_HEAD : (uint32_t)MR_FRAME_MIN;
    struct mr_head head[MR_GROUP];
    uint32_t len[MR_GROUP];
    struct set from;
    struct set to;
    bool ok = true;

    if (!look(f, false, k, &from, vf) || !look(t, true, k, &to, vt) ||
        !fit(f, t, k, &from, &to, least, len))
        return false;
    MR_UNROLLED(i, k)
    ok &= !mr_header_asks_offload(from.ptr[i]);
    if (!ok || (way->turn && !turn_all(f, k, &from, way->mac, head)))
        return false;
    MR_UNROLLED(i, k)
    mr_header_put(to.ptr[i], t->r->header, 1);
    MR_UNROLLED(i, k)
    {
        copy(to.ptr[i] + t->r->header, from.ptr[i] + f->r->header, len[i],
             way->turn ? &head[i] : NULL);
        sum->bytes += len[i];
        to.word[i] = (to.word[i] & ID_MASK) | (len[i] + t->r->header);
        from.word[i] &= ID_MASK; /* used length 0 (C6) */
    }
    sum->packets += (uint32_t)k;
    use(t, true, k, &to, false, vt);
    use(f, false, k, &from, vf & MR_V_IN_ORDER, vf);
    return true;
}

/* ---- Any packet ---------------------------------------------------------- */

enum step { STEP_ON, STEP_END, STEP_ROOM, STEP_TAKE };

/* Header, first bytes and the rest, from pieces into pieces. */
static void
copy_pieces(const struct end *t, const struct mr_buffers *b,
            struct mr_cursor *from, uint32_t len, const uint8_t *head,
            uint32_t head_len)
{
    struct mr_cursor to = {b->gather.seg, b->gather.n, 0};
    struct mr_net_header header = {.num_buffers = (uint16_t)b->n};

    mr_cursor_write(&to, &header, t->r->header);
    mr_cursor_write(&to, head, head_len);
    mr_cursor_pass(&to, from, len - head_len);
}

/* A list without a fault, of `len` bytes behind the header. */
static enum step
pass(struct end *f, struct end *t, const struct mr_list *list,
     const struct mr_gather *gather, const struct way *way, struct tally *sum,
     unsigned vt)
{
    struct mr_cursor from = {gather->seg, gather->n, 0};
    uint32_t len = (uint32_t)list->len - f->r->header;
    uint32_t head_len = MR_MIN(len, (uint32_t)MR_HEAD);
    struct mr_head head = {0};
    struct mr_net_header header;
    struct mr_buffers to;
    enum mr_room room;

    mr_cursor_read(&from, &header, f->r->header);
    if (mr_header_asks_offload(&header)) {
        mr_ring_skip(f->r, MR_FAULT_OFFLOAD);
        return STEP_ON;
    }
    mr_cursor_read(&from, &head, head_len);
    if (way->turn && !mr_head_turns(&head))
        return STEP_TAKE;
    if (way->turn)
        mr_turn(&head.first, &head.rest, way->mac);
    room = mr_device_gather(t->r, &t->p, &t->left, len + t->r->header, &to, vt);
    if (room == MR_ROOM_LATER)
        return STEP_ROOM;
    if (room == MR_ROOM_NEVER) {
        sum->dropped++;
        sum->dropped_bytes += len;
        return STEP_ON;
    }
    copy_pieces(t, &to, &from, len, (const uint8_t *)&head, head_len);
    mr_device_use_buffers(t->r, &t->p.run, &to, len + t->r->header, vt);
    sum->packets++;
    sum->bytes += len;
    return STEP_ON;
}

/* The next packet, whatever its lists are. */
MR_COLD static enum step
step_any(struct end *f, struct end *t, const struct way *way, struct tally *sum,
         unsigned vf, unsigned vt)
{
    struct mr_pos first = f->p.at;
    enum step step = STEP_ON;
    struct mr_gather gather;
    enum mr_fault fault;
    struct mr_list list;
    struct mr_desc d;

    gather.n = 0;
    if (!mr_device_head(f->r, &f->p.at, &d, &list, vf) ||
        !mr_device_resolve(f->r, first, &f->p.at, &d, false, &list, &gather,
                           vf)) {
        f->p.at = first;
        return STEP_END;
    }
    fault = mr_device_packet_fault(f->r, &list);
    if (fault)
        mr_ring_skip(f->r, fault);
    else
        step = pass(f, t, &list, &gather, way, sum, vt);
    if (step != STEP_ON) {
        f->p.at = first;
        return step;
    }
    mr_device_use(f->r, &f->p.run, &list, 0, vf & MR_V_IN_ORDER, vf);
    f->left--;
    return STEP_ON;
}

/* ---- The burst ----------------------------------------------------------- */

MR_INLINE struct end
begin(struct mr_ring *r, uint32_t n, unsigned v)
{
    struct end e = {.r = r, .p = mr_device_progress(r)};

    if (mr_likely(!r->fault))
        e.left = mr_device_pending(r, e.p.at, n, v);
    return e;
}

/* Of a split ring `left` tells; a packed one must be looked at. */
MR_INLINE bool
more(const struct end *e, unsigned v)
{
    return e->left && (!(v & MR_V_PACKED) || mr_packed_pending(e->r, e->p.at));
}

static void
count(const struct end *f, const struct end *t, const struct tally *sum)
{
    mr_counters_moved(t->r->counters, sum->packets, sum->bytes);
    mr_counters_moved(f->r->counters, sum->packets + sum->dropped,
                      sum->bytes + sum->dropped_bytes);
    if (mr_unlikely(sum->dropped)) {
        mr_count(&t->r->counters->oversize, sum->dropped);
        mr_count(&t->r->counters->faults[MR_FAULT_ROOM], sum->dropped);
    }
}

/* Of vf and vt the caller knows some bits at compile time; all of them are
 * what `any_f` and `any_t` say. */
MR_INLINE int32_t
splice(struct mr_ring *from, struct mr_ring *to, uint32_t n,
       const struct way *way, unsigned vf, unsigned vt)
{
    const unsigned any_f = mr_variant(from);
    const unsigned any_t = mr_variant(to);
    struct end f = begin(from, n, vf);
    struct end t = begin(to, UINT32_MAX, vt);
    enum step step = STEP_ON;
    struct tally sum = {0};

    while (step == STEP_ON) {
        if (f.left >= MR_GROUP && t.left >= MR_GROUP &&
            move(&f, &t, MR_GROUP, way, &sum, vf, vt))
            continue;
        if (f.left && t.left && move(&f, &t, 1, way, &sum, vf, vt))
            continue;
        if (!more(&f, vf)) {
            step = STEP_END;
        } else if (!more(&t, vt)) {
            step = STEP_ROOM;
        } else {
            struct end slow_f = f;
            struct end slow_t = t;
            struct tally slow_sum = sum;

            step = step_any(&slow_f, &slow_t, way, &slow_sum, any_f, any_t);
            f = slow_f;
            t = slow_t;
            sum = slow_sum;
        }
    }
    mr_device_finish(to, &t.p, false, vt);
    mr_device_finish(from, &f.p, vf & MR_V_IN_ORDER, vf);
    count(&f, &t, &sum);
    if (mr_likely(sum.packets + sum.dropped))
        return (int32_t)(sum.packets + sum.dropped);
    if (step == STEP_END)
        return MR_SPLICE_NONE;
    return step == STEP_TAKE || to->fault ? MR_SPLICE_TAKE : MR_SPLICE_ROOM;
}

/* Variants: what is worth a constant inside the loop. Of the rest, MERGEABLE
 * matters out of line only, IN_ORDER to the source only, and rings that order
 * for a platform device share one function without constants. */
#define SPLICES(X)                                                             \
    X(0, 0) X(1, 0) X(4, 0) X(5, 0) X(0, 1) X(1, 1) X(4, 1) X(5, 1)

typedef int32_t (*splice_fn)(struct mr_ring *, struct mr_ring *, uint32_t,
                             uint64_t);

#define SPLICE(f, t)                                                           \
    static int32_t splice_##f##_##t(struct mr_ring *from, struct mr_ring *to,  \
                                    uint32_t n, uint64_t mac)                  \
    {                                                                          \
        return splice(from, to, n, &(struct way){false, mac}, f, t);           \
    }                                                                          \
    static int32_t turn_##f##_##t(struct mr_ring *from, struct mr_ring *to,    \
                                  uint32_t n, uint64_t mac)                    \
    {                                                                          \
        return splice(from, to, n, &(struct way){true, mac}, f, t);            \
    }
SPLICES(SPLICE)

#define ROW(f, t) [f][t] = {splice_##f##_##t, turn_##f##_##t},
static const splice_fn table[6][2][2] = {SPLICES(ROW)};

MR_COLD static int32_t
splice_platform(struct mr_ring *from, struct mr_ring *to, uint32_t n,
                const struct way *way)
{
    return splice(from, to, n, way, mr_variant(from), mr_variant(to));
}

int32_t
MR_LEVELED(mr_splice)(struct mr_ring *from, struct mr_ring *to, uint32_t n,
                      const uint8_t *turn)
{
    unsigned f = mr_variant(from);
    unsigned t = mr_variant(to);
    uint64_t mac = turn ? mr_mac_word(turn) : 0;

    if (mr_unlikely((f | t) & MR_V_PLATFORM))
        return splice_platform(from, to, n, &(struct way){turn, mac});
    return table[f & (MR_V_PACKED | MR_V_IN_ORDER)][t & MR_V_PACKED][!!turn](
        from, to, n, mac);
}
