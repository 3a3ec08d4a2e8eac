/* The body of mr_splice. Packets go in a tight loop as long as each is one
 * direct descriptor inside one region at either end; what does not fit that is
 * resolved out of line, one by one.
 *
 * Owner: the worker inside both gates. Invariants:
 *  1. Both drivers are hostile: what is decided upon are copies in registers,
 *     and the bytes that were decided upon are the ones written.
 *  2. Nothing is stepped over before it is certain that it moves: what is not
 *     plain costs nothing but the look.
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

/* ---- Plain packets ------------------------------------------------------- */

/* Bounds of the loop for short frames, which has no call in it and so keeps all
 * it needs in registers: frames that are copied inline, into buffers of a usual
 * length, in the region where the last one lay, and not at its end. */
enum { BRIEF_BUFFER = 8192, BRIEF_MARGIN = BRIEF_BUFFER + 2 * MR_COPY_MOST };

/* A ring as a loop goes through it, up to where it wraps. */
struct lane {
    struct mr_split_view split;
    const uint16_t *next; /* split: the next head, */
    uint64_t *elem;       /* and the next used element */
    uint64_t *half;       /* packed: of the next descriptor, the second; */
    uint32_t there;       /* what is in its upper half, */
    uint64_t used;        /* and of a used one */
    uint64_t guest;       /* brief: where the region begins, there, */
    uint8_t *host;        /* here, */
    uint64_t limit;       /* and how far in it a buffer may begin */
    uint32_t n;           /* lists before the ring wraps */
};

/* A list of one descriptor: its bytes, their length, its id. */
struct item {
    uint64_t addr;
    uint8_t *ptr;
    uint32_t len;
    uint16_t id;
};

/* The flags of a descriptor, as they lie in the upper half of its word. */
#define FLAGS(f) ((uint32_t)(f) << 16)

MR_INLINE struct lane
lane_of(const struct end *e, bool write, unsigned v)
{
    const struct mr_region *near = &e->p.near;
    struct lane l = {.n = e->left, .guest = near->guest, .host = near->host};

    l.limit = near->size > BRIEF_MARGIN ? near->size - BRIEF_MARGIN : 0;
    if (!(v & MR_V_PACKED)) {
        uint32_t at = e->p.at.pos & (e->r->size - 1u);
        uint32_t used = e->p.run.at.pos & (e->r->size - 1u);

        l.split = mr_split_view(e->r);
        l.next = &l.split.avail[at];
        l.elem = &l.split.used[used];
        l.n = MR_MIN(l.n, l.split.size - MR_MAX(at, used));
        return l;
    }
    l.half = mr_packed_word_at(e->r, e->p.at.pos);
    l.there = FLAGS(mr_packed_avail_flags(e->p.at.wrap) |
                    (write ? MR_DESC_WRITE : 0));
    l.used = (uint64_t)mr_packed_used_flags(e->p.at.wrap, write) << 48;
    l.n = MR_MIN(l.n, (uint32_t)e->r->size - e->p.at.pos);
    if (!mr_device_in_step(&e->p)) /* used entries lag behind: one by one */
        l.n = 0;
    return l;
}

/* The next list of a lane, if it is there and plain. The caller knows that on a
 * split ring it is there. A bad head is left to the general path, which breaks
 * the ring. */
MR_INLINE bool
look(const struct lane *l, bool write, struct item *item, unsigned v)
{
    const uint32_t mask =
        FLAGS(MR_DESC_AVAIL | MR_DESC_USED | MR_DESC_NEXT | MR_DESC_INDIRECT |
              MR_DESC_WRITE);
    struct mr_desc d;

    if (v & MR_V_PACKED) {
        uint64_t word;

        mr_order_observe(word, l->half, v & MR_V_PLATFORM);
        if (((uint32_t)(word >> 32) ^ l->there) & mask)
            return false;
        d = mr_desc_of(mr_load(l->half - 1), word, true);
        item->id = d.id;
    } else {
        item->id = mr_load(l->next);
        if (!mr_split_desc_at(&l->split, item->id, &d) ||
            !mr_device_plain(&d, write))
            return false;
    }
    item->addr = d.addr;
    item->len = d.len;
    return true;
}

/* Where the buffer is; false unless it has `need` bytes and all that its length
 * says are there. */
MR_INLINE bool
locate(struct end *e, const struct lane *l, struct item *item, uint32_t need,
       bool brief)
{
    uint64_t room;

    if (brief) {
        uint64_t at = item->addr - l->guest;

        item->ptr = (uint8_t *)((uintptr_t)l->host + at); /* any address */
        return item->len - need < BRIEF_BUFFER && at < l->limit;
    }
    item->ptr = mr_device_guest(e->r, &e->p.near, item->addr, &room);
    return item->len >= need && item->len <= room && item->ptr;
}

/* Uses the list with that many bytes written, and steps over it; nth: of the
 * run, any number but 0 will do. */
MR_INLINE void
use(struct end *e, struct lane *l, uint32_t nth, const struct item *item,
    uint32_t len, bool in_order, unsigned v)
{
    if (v & MR_V_PACKED) {
        mr_packed_use_half(l->half, &e->p.run, nth, e->p.at.pos,
                           len | (uint64_t)item->id << 32 | l->used, in_order);
        l->half += 2;
        return;
    }
    if (!in_order)
        mr_split_use_elem(l->elem++, item->id, len);
    l->next++;
}

/* The end of a lane, of which n lists were used, the last one under `id`. */
MR_INLINE void
leave(struct end *e, uint32_t n, uint16_t id, bool in_order, unsigned v)
{
    e->left -= n;
    if (n)
        e->p.run.last_id = id;
    if (v & MR_V_PACKED) {
        mr_packed_advance(e->r, &e->p.at, n);
        mr_device_stand(&e->p, e->p.at, n);
    } else {
        e->p.at.pos = (uint16_t)(e->p.at.pos + n);
        mr_split_use_step(&e->p.run, n, in_order);
    }
}

/* Every few packets: asks for what will be read and written to soon. */
MR_INLINE void
ahead(const struct end *f, const struct end *t, uint32_t i, unsigned vf,
      unsigned vt)
{
    if (vf & MR_V_PACKED)
        mr_device_rx_ahead(f->r, &f->p.near, f->p.at.pos + i);
    if (vt & MR_V_PACKED)
        mr_device_tx_ahead(t->r, &t->p.near, t->p.at.pos + i);
}

MR_INLINE void
copy(uint8_t *to, const uint8_t *from, uint32_t len, bool turn,
     const struct mr_head *head)
{
    if (!turn) {
        mr_copy(to, from, len);
        return;
    }
    mr_head_store(to, head);
    mr_copy(to + MR_HEAD, from + MR_HEAD, len - MR_HEAD);
}

/* The first bytes, turned; false when the frame may want an answer. */
MR_INLINE bool
turned(const uint8_t *frame, uint64_t mac, struct mr_head *head)
{
    *head = mr_head_load(frame);
    if (mr_unlikely(!mr_head_turns(head)))
        return false;
    mr_turn(&head->first, &head->rest, mac);
    return true;
}

/* Frames that a loop takes. */
MR_INLINE bool
taken(uint32_t len, bool turn, bool brief)
{
    uint32_t least = turn ? (uint32_t)MR_HEAD : (uint32_t)MR_FRAME_MIN;
    uint32_t most = MR_FRAME_MAX;

    if (brief) {
        least = turn ? MR_HEAD + MR_COPY_LEAST : (uint32_t)MR_COPY_LEAST;
        most = MR_COPY_MOST;
    }
    return len - least <= most - least;
}

/* What a loop goes on with. */
struct loop {
    struct end *f;
    struct end *t;
    struct lane from;
    struct lane to;
    struct way way;
    uint32_t fh; /* bytes of the headers */
    uint32_t th;
    uint64_t bytes;
    uint16_t last; /* id of the last list used at the source */
};

/* The next packet of both lanes, if it is plain at both ends; nf, nt: number in
 * the run of either end, see use. */
MR_INLINE bool
move_one(struct loop *l, uint32_t nf, uint32_t nt, bool brief, unsigned vf,
         unsigned vt)
{
    const struct way way = l->way;
    struct mr_head head = {0};
    struct item from;
    struct item to;
    uint32_t len;

    if (!look(&l->from, false, &from, vf))
        return false;
    len = from.len - l->fh;
    if (!taken(len, way.turn, brief) ||
        !locate(l->f, &l->from, &from, from.len, brief) ||
        mr_header_asks_offload(from.ptr) || !look(&l->to, true, &to, vt) ||
        !locate(l->t, &l->to, &to, len + l->th, brief) ||
        (way.turn && !turned(from.ptr + l->fh, way.mac, &head)))
        return false;
    mr_header_put(to.ptr, l->th, 1, 0);
    copy(to.ptr + l->th, from.ptr + l->fh, len, way.turn, &head);
    l->bytes += len;
    l->last = from.id;
    use(l->t, &l->to, nt, &to, len + l->th, false, vt);
    use(l->f, &l->from, nf, &from, 0, vf & MR_V_IN_ORDER, vf); /* C6 */
    return true;
}

/* Packets as long as they are plain, up to the end of a lane. Returns how many.
 * The first may be the first of a run, the others are not. */
MR_INLINE uint32_t
move(struct end *f, struct end *t, struct way way, bool brief,
     struct tally *sum, unsigned vf, unsigned vt)
{
    struct loop l = {.f = f, .t = t, .way = way,
                     .fh = brief ? (uint32_t)MR_HEADER : f->r->header,
                     .th = brief ? (uint32_t)MR_HEADER : t->r->header,
                     .from = lane_of(f, false, vf),
                     .to = lane_of(t, true, vt)};
    const uint32_t n = MR_MIN(l.from.n, l.to.n);
    uint32_t i = 0;

    if (n && move_one(&l, f->p.run.n, t->p.run.n, brief, vf, vt))
        for (i = 1; i < n; i++) {
            if (i % MR_GROUP == 1)
                ahead(f, t, i, vf, vt);
            if (!move_one(&l, 1, 1, brief, vf, vt))
                break;
        }
    sum->bytes += l.bytes;
    sum->packets += i;
    leave(f, i, l.last, vf & MR_V_IN_ORDER, vf);
    leave(t, i, 0, false, vt);
    return i;
}

/* Variants of the loop for short frames: what is worth a constant in it. Of the
 * rest, MERGEABLE matters out of line only, IN_ORDER to the source only, and
 * rings that order for a platform device or have short headers do without. Each
 * is a function of its own, with no call in it, so that what the loop needs is
 * in registers. */
#define BRIEFS(X)                                                              \
    X(0, 0, 0) X(1, 0, 0) X(4, 0, 0) X(5, 0, 0)                                \
    X(0, 1, 0) X(1, 1, 0) X(4, 1, 0) X(5, 1, 0)                                \
    X(0, 0, 1) X(1, 0, 1) X(4, 0, 1) X(5, 0, 1)                                \
    X(0, 1, 1) X(1, 1, 1) X(4, 1, 1) X(5, 1, 1)

typedef uint32_t (*brief_fn)(struct end *, struct end *, uint64_t mac,
                             struct tally *);

#define BRIEF(vf, vt, turn)                                                    \
    static __attribute__((noinline)) uint32_t brief_##vf##_##vt##_##turn(      \
        struct end *f, struct end *t, uint64_t mac, struct tally *sum)         \
    {                                                                          \
        return move(f, t, (struct way){turn, mac}, true, sum, vf, vt);         \
    }
BRIEFS(BRIEF)

#define BRIEF_ROW(vf, vt, turn) [vf][vt][turn] = brief_##vf##_##vt##_##turn,
static const brief_fn briefs[6][2][2] = {BRIEFS(BRIEF_ROW)};

static uint32_t
brief_none(struct end *f, struct end *t, uint64_t mac, struct tally *sum)
{
    (void)f, (void)t, (void)mac, (void)sum;
    return 0;
}

static brief_fn
brief_select(const struct mr_ring *from, const struct mr_ring *to, bool turn)
{
    unsigned vf = mr_variant(from);
    unsigned vt = mr_variant(to);

    if (mr_unlikely((vf | vt) & MR_V_PLATFORM || from->header != MR_HEADER ||
                    to->header != MR_HEADER))
        return brief_none;
    return briefs[vf & (MR_V_PACKED | MR_V_IN_ORDER)][vt & MR_V_PACKED][turn];
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

MR_INLINE void
count(struct mr_ring *from, struct mr_ring *to, const struct tally *sum)
{
    mr_counters_moved(to->counters, sum->packets, sum->bytes);
    mr_counters_moved(from->counters, sum->packets + sum->dropped,
                      sum->bytes + sum->dropped_bytes);
    if (mr_unlikely(sum->dropped)) {
        mr_count(&to->counters->oversize, sum->dropped);
        mr_count(&to->counters->faults[MR_FAULT_ROOM], sum->dropped);
    }
}

int32_t
MR_LEVELED(mr_splice)(struct mr_ring *from, struct mr_ring *to, uint32_t n,
                      const uint8_t *turn)
{
    const struct way way = {turn, turn ? mr_mac_word(turn) : 0};
    const brief_fn brief = brief_select(from, to, way.turn);
    const unsigned vf = mr_variant(from);
    const unsigned vt = mr_variant(to);
    struct end f = begin(from, n, vf);
    struct end t = begin(to, UINT32_MAX, vt);
    enum step step = STEP_ON;
    struct tally sum = {0};

    while (step == STEP_ON) {
        if (f.left && t.left &&
            (brief(&f, &t, way.mac, &sum) ||
             move(&f, &t, way, false, &sum, vf, vt)))
            continue;
        if (!more(&f, vf))
            step = STEP_END;
        else if (!more(&t, vt))
            step = STEP_ROOM;
        else
            step = step_any(&f, &t, &way, &sum, vf, vt);
    }
    mr_device_finish(to, &t.p, false, vt);
    mr_device_finish(from, &f.p, vf & MR_V_IN_ORDER, vf);
    count(from, to, &sum);
    if (mr_likely(sum.packets + sum.dropped))
        return (int32_t)(sum.packets + sum.dropped);
    if (step == STEP_END)
        return MR_SPLICE_NONE;
    return step == STEP_TAKE || to->fault ? MR_SPLICE_TAKE : MR_SPLICE_ROOM;
}
