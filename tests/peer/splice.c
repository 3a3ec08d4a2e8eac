/* A rig whose burst function is a splice: packets of the rig's ring go to or
 * come from the ring of a second rig, which behaves, and from there into or
 * out of the packets that the test asked for. So whatever is proved of a burst
 * function can be proved of mr_splice. */
#include <stdlib.h>

#include "burst/splice.h"
#include "peer/rig.h"

enum { SIZE = 256, LONGEST = 65600 };

static const struct peer_shape WHOLE = {PEER_CUT_whole, PEER_CHAIN};
static uint8_t frame[PEER_FRAME_MAX];

/* Packets that the other rig received, for the caller. */
static uint32_t
collect(struct rig *rig, struct mr_pkt **pkts, uint32_t n)
{
    struct rig *to = rig->other;
    uint32_t got = 0, len, unused = 0;

    while (got < n && peer_receive(&to->peer, frame, &len, &unused) == 1) {
        const uint8_t *from = frame;

        pkts[got] = mr_pkt_chain(rig->pool, len);
        if (!pkts[got]) {
            rig_fail(rig, "splice: the pool is short");
            break;
        }
        for (struct mr_pkt *s = pkts[got]; s; s = s->next) {
            memcpy(mr_pkt_data(s), from, s->data_len);
            from += s->data_len;
        }
        got++;
    }
    if (to->peer.error[0])
        rig_fail(rig, "splice: %s", to->peer.error);
    return got;
}

static uint32_t
splice_rx(void *ring, struct mr_pkt **pkts, uint32_t n)
{
    struct rig *rig = MR_CONTAINER(ring, struct rig, ring);
    struct rig *to = rig->other;
    int32_t moved;
    uint32_t got;

    while (peer_post(&to->peer, &WHOLE, 12 + LONGEST) == 1)
        ;
    moved = mr_splice(ring, &to->ring, n, NULL);
    got = collect(rig, pkts, n);
    if ((int32_t)got != moved)
        rig_fail(rig, "splice: it returned %d, %u packets arrived", moved,
                 got);
    return got;
}

/* The other rig as it was at first, whatever lies in its ring. */
static bool
begin_anew(struct rig *rig)
{
    const struct rig_setup *s = &rig->setup;
    struct peer_setup peer = {
        .memory = &rig->guest, .driver = true, .features = s->features,
        .size = s->size, .base = s->base,
        .guest = {rig->part[0], rig->part[1], rig->part[2]}};

    mr_ring_stop(&rig->ring);
    peer_stop(&rig->peer);
    for (int i = 0; i < 3; i++)
        memset(rig->config.part[i], 0,
               mr_ring_part_bytes(s->features >> MR_F_RING_PACKED & 1, false,
                                  s->size, i));
    return peer_start(&rig->peer, &peer) &&
           peer_slabs_set(&rig->peer, rig->slabs_guest, s->slab, s->slabs) &&
           mr_ring_start(&rig->ring, &rig->config) == 0;
}

static uint32_t
splice_tx(void *ring, struct mr_pkt **pkts, uint32_t n)
{
    struct rig *rig = MR_CONTAINER(ring, struct rig, ring);
    struct rig *from = rig->other;
    int32_t moved;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = mr_pkt_read(pkts[i], 0, frame, sizeof(frame));

        if (peer_send(&from->peer, &WHOLE, frame, len) != 1)
            rig_fail(rig, "splice: no room for packet %u", i);
    }
    moved = mr_splice(&from->ring, ring, n, NULL);
    moved = MR_MAX(moved, 0);
    if (peer_sent(&from->peer) != moved || from->peer.error[0])
        rig_fail(rig, "splice: of %d packets not all came back; %s", moved,
                 from->peer.error);
    if ((uint32_t)moved < n && !begin_anew(from))
        rig_fail(rig, "splice: %s", from->error);
    mr_pkts_free(pkts, (uint32_t)moved);
    return (uint32_t)moved;
}

bool
rig_splice(struct rig *rig, uint64_t features)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | features,
        .size = SIZE,
        .rx = !rig->setup.rx,
        .slab = LONGEST + 64,
        .packets = 8,
    };

    rig->other = malloc(sizeof(*rig->other));
    if (!rig->other)
        return rig_fail(rig, "rig: no memory for another");
    if (!rig_open(rig->other, &s))
        return rig_fail(rig, "%s", rig->other->error);
    rig->burst = rig->setup.rx ? splice_rx : splice_tx;
    return true;
}
