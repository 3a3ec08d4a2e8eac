/* Runs one cell. Four flows, by the core's side and direction; each is a loop
 * of: the peer does its part, one burst, the peer looks at the result. */
#include <string.h>

#include "matrix/matrix.h"

enum { LAPS = 3, STALL = 200, SPAN_ROOM = 64, SPAN_MORE = 300 };

struct flow {
    const struct cell *cell;
    struct rig rig;
    struct peer *peer;
    uint32_t max;    /* longest frame */
    uint32_t sent;   /* number of the next frame into the ring */
    uint32_t seen;   /* number of the next frame out of it */
    uint64_t moved;  /* ring entries used up */
    uint32_t stall;  /* turns without a packet */
    struct mr_pkt *pkts[MR_BURST_MAX];
    uint8_t frame[PEER_FRAME_MAX];
};

static bool
has(const struct flow *f, uint32_t flag)
{
    return f->cell->shape->flags & flag;
}

/* Length of frame `seq`. Most frames of a batch fill their buffers, or there
 * would be no batch of receive buffers (S41, P45). */
static uint32_t
length(const struct flow *f, uint32_t seq)
{
    return has(f, SHAPE_BATCH) && seq % 5 ? f->max : frame_length(seq, f->max);
}

/* ---- Setting up -------------------------------------------------------- */

static uint64_t
features(const struct cell *c)
{
    uint32_t f = c->shape->flags;

    return (f & SHAPE_LEGACY ? 0 : MR_F(VERSION_1)) |
           (f & SHAPE_ANY_LAYOUT ? MR_F(ANY_LAYOUT) : 0) |
           (f & SHAPE_INDIRECT ? MR_F(INDIRECT_DESC) : 0) |
           (c->packed ? MR_F(RING_PACKED) : 0) |
           (c->mergeable ? MR_F(MRG_RXBUF) : 0) |
           (c->in_order ? MR_F(IN_ORDER) : 0) |
           (c->platform ? MR_F(ORDER_PLATFORM) : 0) |
           (c->event_idx ? MR_F(EVENT_IDX) : 0);
}

/* The longest frame that the ring can carry: room for its buffers (spans), for
 * its segments with a header (chains), in one buffer (else). */
static uint32_t
longest(const struct cell *c)
{
    const struct shape *s = c->shape;
    uint32_t room = s->room ? s->room : 2048;
    uint32_t max = s->max;

    if (c->count > 32)
        max = MR_MIN(max, 9000u);
    if (c->size >= 1000)
        max = MR_MIN(max, 1514u);
    if (c->size == 32768)
        max = 128;
    if (s->flags & SHAPE_SPANS) {
        uint32_t each = c->driver ? room : SPAN_ROOM;
        uint32_t descs = c->driver ? 1 : 12; /* at most, a cut has */
        uint32_t n = c->size > descs ? c->size / descs : 1;

        return MR_MIN(max, MR_MAX(n * each - 12, 14u));
    }
    if (c->driver && c->rx)
        return MR_MIN(max, room);
    if (c->driver) {
        uint32_t segs = MR_MIN(c->size - 1, MR_TABLE_ENTRIES - 1u);

        return MR_MIN(max, MR_MAX(segs, 1u) * room);
    }
    return max;
}

static bool
begin(struct flow *f, const struct cell *c)
{
    uint32_t small = c->size == 32768 && !c->shape->room ? 128 : 0;
    struct rig_setup s = {
        .features = features(c),
        .size = c->size,
        .driver = c->driver,
        .rx = c->rx,
        .room = small ? small : c->shape->room,
        .crossing = c->shape->flags & SHAPE_CROSSING,
    };
    uint32_t segs;

    f->cell = c;
    f->max = longest(c);
    segs = f->max / (s.room ? s.room : 2048) + 1;
    s.packets = 600 + MR_MIN(segs * c->count, 6000u);
    s.packets += c->driver ? c->size : 0;
    if (c->driver && !c->rx)
        s.packets += MR_MIN(segs * c->size, 3000u);
    s.slab = (12 + MR_MAX(f->max, SPAN_ROOM + SPAN_MORE) + 16 + 24 * 16 + 63) /
             64 * 64;
    s.slabs = MR_MIN(c->size, (24u << 20) / s.slab);
    if (!rig_open(&f->rig, &s))
        return false;
    /* The other end has the other layout, and with platform rings its own. */
    if (c->spliced && !rig_splice(&f->rig, c->packed == c->platform
                                               ? MR_F(RING_PACKED) : 0))
        return false;
    f->peer = &f->rig.peer;
    f->peer->shuffle = has(f, SHAPE_SHUFFLE);
    return true;
}

/* ---- Notifications ----------------------------------------------------- */

static void
listen_from(struct flow *f, struct peer_pos from)
{
    peer_notify_set(f->peer, f->cell->notify, from,
                    rig_random(&f->rig, MR_MIN(f->cell->count + 1,
                                               f->cell->size)));
}

/* The core published old..new: did it notify exactly when it had to? */
static bool
heard(struct flow *f, struct peer_pos old, struct peer_pos new)
{
    uint32_t due = peer_notify_due(f->peer, old, new);
    uint32_t got = rig_notified(&f->rig);

    if (f->cell->packed) {
        f->moved += new.wrap == old.wrap ? (uint32_t)(new.pos - old.pos)
                                         : f->cell->size + new.pos - old.pos;
    } else {
        f->moved += (uint16_t)(new.pos - old.pos);
    }
    if (got != due)
        return rig_fail(&f->rig, "S29-S33 P35-P42: %u notifications for "
                        "%u/%u..%u/%u, event %u/%u, due %u", got, old.pos,
                        old.wrap, new.pos, new.wrap, f->peer->event.pos,
                        f->peer->event.wrap, due);
    return peer_notify_check(f->peer) == 0;
}

/* ---- Packets of the core ----------------------------------------------- */

/* Checks packets that the core received, and frees them. */
static bool
check_received(struct flow *f, uint32_t n)
{
    bool good = true;

    for (uint32_t i = 0; i < n && good; i++, f->seen++)
        good = frame_packet_same(f->pkts[i], length(f, f->seen),
                                 f->seen);
    mr_pkts_free(f->pkts, n);
    if (!good)
        rig_fail(&f->rig, "frame %u arrived changed", f->seen - 1);
    return good;
}

/* A packet to send. A foreign one lies in memory that the peer cannot reach,
 * or has no headroom, or somebody else holds it too. */
static struct mr_pkt *
packet(struct flow *f, uint32_t seq)
{
    uint32_t len = length(f, seq);
    bool foreign = has(f, SHAPE_FOREIGN) && rig_random(&f->rig, 2);
    struct mr_pkt *pkt =
        frame_packet(foreign ? f->rig.foreign : f->rig.pool, len, seq);

    if (pkt && has(f, SHAPE_FOREIGN) && !foreign && pkt->nb_segs == 1 &&
        rig_random(&f->rig, 2)) {
        uint8_t *data = mr_pkt_data(pkt);

        pkt->data_off = (uint16_t)rig_random(&f->rig, 12);
        memmove(mr_pkt_data(pkt), data, len);
    }
    return pkt;
}

/* One burst of up to `count` packets; those that the core does not take come
 * again. Returns how many it took. */
static uint32_t
burst_out(struct flow *f)
{
    uint32_t n = 0, took;

    while (n < f->cell->count &&
           (f->pkts[n] = packet(f, f->sent + n)) != NULL)
        n++;
    took = f->rig.burst(&f->rig.ring, f->pkts, n);
    if (took > n) {
        rig_fail(&f->rig, "took %u packets of %u", took, n);
        return 0;
    }
    mr_pkts_free(f->pkts + took, n - took);
    f->sent += took;
    return took;
}

static bool
check_frame(struct flow *f, uint32_t len)
{
    if (len != length(f, f->seen))
        return rig_fail(&f->rig, "frame %u has %u bytes of %u", f->seen, len,
                        length(f, f->seen));
    if (!frame_same(f->frame, len, f->seen))
        return rig_fail(&f->rig, "frame %u arrived changed", f->seen);
    f->seen++;
    return true;
}

static uint32_t
some_of(struct flow *f, uint32_t n)
{
    return has(f, SHAPE_PARTIAL) && n ? rig_random(&f->rig, n + 1) : n;
}

static struct peer_shape
next_shape(struct flow *f)
{
    struct peer_shape s = f->cell->shape->peer;

    if (has(f, SHAPE_MIXED)) {
        s.cut = rig_random(&f->rig, PEER_CUT_COUNT);
        s.form = rig_random(&f->rig, f->cell->packed ? PEER_TAIL_TABLE
                                                     : PEER_TAIL_TABLE + 1u);
    }
    return s;
}

/* ---- The core is the device -------------------------------------------- */

static bool
device_rx(struct flow *f)
{
    uint32_t want = some_of(f, f->cell->count), sent = 0, got;
    struct peer_pos old = f->peer->used;

    while (sent < want) {
        struct peer_shape s = next_shape(f);
        uint32_t len = length(f, f->sent);

        frame_fill(f->frame, len, f->sent);
        if (peer_send(f->peer, &s, f->frame, len) != 1)
            break;
        f->sent++;
        sent++;
    }
    listen_from(f, old);
    got = f->rig.burst(&f->rig.ring, f->pkts, f->cell->count);
    if (got != sent)
        rig_fail(&f->rig, "received %u of %u packets", got, sent);
    if (!check_received(f, got) || peer_sent(f->peer) != (int)sent)
        return rig_fail(&f->rig, "of %u buffers not all came back", sent);
    return heard(f, old, f->peer->used);
}

/* Keeps the receive queue full, or not quite. */
static void
post(struct flow *f)
{
    uint32_t max = some_of(f, f->cell->size);
    struct peer_shape s = next_shape(f);

    while (peer_outstanding(f->peer) < MR_MAX(max, 1u)) {
        uint32_t room = f->max + f->peer->header;

        if (has(f, SHAPE_SPANS))
            room = SPAN_ROOM + rig_random(&f->rig, SPAN_MORE);
        if (peer_post(f->peer, &s, room) != 1)
            break;
        s = next_shape(f);
    }
}

static bool
device_tx(struct flow *f)
{
    struct peer_pos old = f->peer->used;
    uint32_t took, buffers, unused = 0, len;
    int rc;

    post(f);
    buffers = peer_outstanding(f->peer);
    listen_from(f, old);
    took = burst_out(f);
    while ((rc = peer_receive(f->peer, f->frame, &len, &unused)) > 0)
        if (!check_frame(f, len))
            return false;
    if (rc < 0)
        return false;
    if (unused || f->seen != f->sent)
        return rig_fail(&f->rig, "%u frames sent, %u seen, %u buffers unused",
                        f->sent, f->seen, unused);
    if (!has(f, SHAPE_SPANS) && took != MR_MIN(buffers, f->cell->count))
        return rig_fail(&f->rig, "sent %u, room for %u", took, buffers);
    return heard(f, old, f->peer->used);
}

/* ---- The core is the driver -------------------------------------------- */

static bool
take_all(struct flow *f)
{
    struct peer_list list;
    uint16_t id;
    int rc;

    while ((rc = peer_take(f->peer, &list, &id)) > 0)
        if (!f->cell->rx) {
            uint32_t len;

            if (peer_frame_read(f->peer, id, f->frame, &len) ||
                !check_frame(f, len))
                return false;
        }
    return rc == 0;
}

/* S41, P45: a batch fills its buffers but the last completely, so its frames
 * have a length of their own; here all are filled and end in one entry. */
static uint32_t
give_batch(struct flow *f, uint32_t most)
{
    struct peer *p = f->peer;
    uint32_t n = MR_MIN(peer_outstanding(p), most), done, len = 0;

    for (done = 0; done < n; done++) {
        uint16_t id = p->queue[(p->queue_head + done) % p->size];
        uint32_t full = (uint32_t)p->record[id].writable;

        if (done && len != full) /* the one before, of the same size */
            break;
        len = length(f, f->sent);
        frame_fill(f->frame, len, f->sent);
        if (peer_frame_write(p, &id, 1, &len, f->frame, len))
            return done;
        f->sent++;
    }
    if (done)
        peer_complete_batch(p, done, len);
    return done;
}

static uint32_t
give(struct flow *f, uint32_t most)
{
    uint32_t n = 0, got = 1;

    if (has(f, SHAPE_BATCH)) {
        while (got && n < most)
            n += got = give_batch(f, most - n);
        return n;
    }
    for (; n < most; n++, f->sent++) {
        uint32_t len = length(f, f->sent);

        frame_fill(f->frame, len, f->sent);
        if (peer_give(f->peer, f->frame, len) != 1)
            break;
    }
    return n;
}

static bool
driver_rx(struct flow *f)
{
    struct peer_pos old = f->peer->avail;
    uint32_t given, got;

    given = give(f, some_of(f, f->cell->count));
    if (f->peer->error[0])
        return false;
    listen_from(f, old);
    got = f->rig.burst(&f->rig.ring, f->pkts, f->cell->count);
    if (got != given)
        rig_fail(&f->rig, "received %u of %u packets", got, given);
    return check_received(f, got) && take_all(f) &&
           heard(f, old, f->peer->avail);
}

/* Completes some of what was taken, oldest first or in any order. */
static void
complete(struct flow *f)
{
    struct peer *p = f->peer;
    uint32_t n = some_of(f, peer_outstanding(p));

    if (has(f, SHAPE_BATCH)) {
        while (n) {
            uint32_t k = 1 + rig_random(&f->rig, n);

            peer_complete_batch(p, k, 0);
            n -= k;
        }
        return;
    }
    for (; n; n--) {
        uint32_t out = peer_outstanding(p);
        uint32_t i = has(f, SHAPE_SHUFFLE) ? rig_random(&f->rig, out) : 0;
        uint16_t id = p->queue[(p->queue_head + i) % p->size];
        uint32_t none = 0;

        peer_complete(p, &id, &none, 1);
    }
}

static bool
driver_tx(struct flow *f)
{
    struct peer_pos old = f->peer->avail;
    uint32_t room = f->cell->size - f->peer->ndesc, took;

    listen_from(f, old);
    took = burst_out(f);
    if (!take_all(f))
        return false;
    if (f->seen != f->sent)
        return rig_fail(&f->rig, "%u frames sent, %u seen", f->sent, f->seen);
    if (room == f->cell->size && !took)
        return rig_fail(&f->rig, "the ring is empty but nothing was sent");
    if (!heard(f, old, f->peer->avail))
        return false;
    complete(f);
    return true;
}

/* ---- A cell ------------------------------------------------------------ */

/* A driver posts receive buffers before the device may use them (N4). */
static bool
first_post(struct flow *f)
{
    struct peer_pos old = f->peer->avail;

    if (!f->cell->driver || !f->cell->rx)
        return true;
    listen_from(f, old);
    f->rig.burst(&f->rig.ring, f->pkts, 0);
    return take_all(f) && heard(f, old, f->peer->avail);
}

static bool
flow(struct flow *f)
{
    static bool (*const turn[2][2])(struct flow *) = {{device_tx, device_rx},
                                                      {driver_tx, driver_rx}};
    const struct cell *c = f->cell;
    const struct mr_counters *n = &f->rig.counters;

    if (!first_post(f))
        return false;
    while (f->moved < LAPS * (uint64_t)c->size + 3) {
        uint32_t before = f->seen;

        if (!turn[c->driver][c->rx](f))
            return false;
        f->stall = f->seen == before ? f->stall + 1 : 0;
        if (f->stall == STALL)
            return rig_fail(&f->rig, "no packet in %u turns", STALL);
    }
    for (uint32_t i = 0; i < MR_FAULT_COUNT; i++)
        if (n->faults[i])
            return rig_fail(&f->rig, "%lu faults %s", n->faults[i],
                            mr_fault_row(i) ? mr_fault_row(i)->name : "?");
    if (n->packets != f->seen || n->full || n->oversize || n->skipped)
        return rig_fail(&f->rig, "counted %lu packets of %u, %lu full, %lu "
                        "oversize, %lu skipped", n->packets, f->seen, n->full,
                        n->oversize, n->skipped);
    return true;
}

uint32_t
cell_run(const struct cell *c, char *why, size_t size)
{
    static struct flow f;
    bool good;

    memset(&f, 0, offsetof(struct flow, frame));
    good = begin(&f, c) && flow(&f);
    snprintf(why, size, "%s%s%s", f.rig.error,
             f.rig.error[0] && f.rig.peer.error[0] ? "; " : "",
             f.rig.peer.error);
    if (!rig_close(&f.rig) && good) {
        snprintf(why, size, "%s", f.rig.error);
        good = false;
    }
    return good ? f.seen : 0;
}
