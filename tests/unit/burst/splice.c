/* mr_splice with odd buffers at both ends, and what only it does: leaving
 * packets where they are, turning them round, sending them back into memory
 * that they came from. One odd end at a time: faults_device.c, legal.c, flip.c,
 * threads.c and the matrix run each of their cases spliced, too. */
#include "unit/burst/hostile.h"

#include "burst/splice.h"
#include "mem/turn.h"

enum { BURST = 32 };

static const uint8_t MAC[6] = {2, 0x4d, 0x52, 0, 0, 1};
static struct mr_pkt *pkts[MR_BURST_MAX];
static uint8_t frame[PEER_FRAME_MAX];

static void
open_rig(struct rig *rig, bool rx, uint64_t features, uint32_t size)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | MR_F(INDIRECT_DESC) | features,
        .size = size,
        .rx = rx,
        .slab = 4096,
        .crossing = true,
    };

    if (!rig_open(rig, &s))
        fail_msg("%s", rig->error);
    peer_notify_set(&rig->peer, PEER_LOUD, rig->peer.used, 0);
}

static void
close_rigs(struct rig *from, struct rig *to)
{
    if (from->peer.error[0] || to->peer.error[0])
        fail_msg("from: %s; to: %s", from->peer.error, to->peer.error);
    if (!rig_close(from))
        fail_msg("from: %s", from->error);
    if (!rig_close(to))
        fail_msg("to: %s", to->error);
}

/* Variants of a side, by number. */
static uint64_t
features(int i)
{
    return (i & 1 ? MR_F(RING_PACKED) : 0) | (i & 2 ? MR_F(IN_ORDER) : 0) |
           (i & 4 ? MR_F(MRG_RXBUF) : 0) | (i & 8 ? MR_F(ORDER_PLATFORM) : 0);
}

static uint32_t
ring_size(int i)
{
    return i & 1 ? 67 : 64;
}

static struct peer_shape
any_shape(struct rig *rig)
{
    struct peer_shape s = {
        .cut = rig_random(rig, 2) ? PEER_CUT_whole
                                  : rig_random(rig, PEER_CUT_COUNT),
        .form = rig_random(rig, rig->peer.packed ? PEER_TAIL_TABLE
                                                 : PEER_TAIL_TABLE + 1u),
    };

    if (rig_random(rig, 2))
        s.form = PEER_CHAIN;
    return s;
}

/* ---- Content ------------------------------------------------------------- */

/* Frames of number *sent and up into the source, as many as fit. */
static uint32_t
send_frames(struct rig *from, uint32_t *sent, uint32_t max)
{
    uint32_t n = 0;

    for (; n < max; n++, ++*sent) {
        struct peer_shape s = any_shape(from);
        uint32_t len = frame_length(*sent, 1514);

        frame_fill(frame, len, *sent);
        if (peer_send(&from->peer, &s, frame, len) != 1)
            break;
    }
    return n;
}

/* Keeps buffers for whole frames posted, or, with mergeable ones, any. */
static void
post_buffers(struct rig *to)
{
    bool small = to->setup.features & MR_F(MRG_RXBUF);
    uint32_t room = 12 + 1514;
    struct peer_shape s;

    do {
        s = any_shape(to);
        if (small)
            room = rig_random(to, 3) ? 1600 : 12 + rig_random(to, 900);
    } while (peer_post(&to->peer, &s, room) == 1);
}

static void
check_frames(struct rig *to, uint32_t *seen)
{
    uint32_t len, unused = 0;

    while (peer_receive(&to->peer, frame, &len, &unused) == 1) {
        assert_int_equal(len, frame_length(*seen, 1514));
        assert_true(frame_same(frame, len, *seen));
        ++*seen;
    }
    assert_int_equal(unused, 0);
}

/* Some hundred frames, three times round both rings and more. */
static void
carry(int i, int k)
{
    uint32_t sent = 0, back = 0, seen = 0;
    uint64_t bytes = 0;
    struct rig from, to;

    open_rig(&from, true, features(i), ring_size(i));
    open_rig(&to, false, features(k), ring_size(k));
    for (uint32_t turn = 0; turn < 60 || seen < sent; turn++) {
        uint32_t n = 1 + rig_random(&from, BURST);
        int rc;

        assert_true(turn < 1000);
        if (turn < 60)
            send_frames(&from, &sent, n);
        post_buffers(&to);
        assert_true(mr_splice(&from.ring, &to.ring, n, NULL) <= (int32_t)n);
        check_frames(&to, &seen);
        rc = peer_sent(&from.peer);
        assert_true(rc >= 0);
        back += (uint32_t)rc;
        assert_int_equal(back, seen);
    }
    assert_true(seen > 300);
    for (uint32_t s = 0; s < seen; s++)
        bytes += frame_length(s, 1514);
    assert_int_equal(from.counters.packets, seen);
    assert_int_equal(to.counters.packets, seen);
    assert_int_equal(from.counters.bytes, bytes);
    assert_int_equal(to.counters.bytes, bytes);
    check_faults(&from, MR_FAULT_NONE, 0);
    check_faults(&to, MR_FAULT_NONE, 0);
    close_rigs(&from, &to);
}

static void
every_variant_carries_into_every_other(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++)
        carry(i & 15, i >> 4);
}

/* ---- What stays where it is ---------------------------------------------- */

static void
put_frame(struct rig *from, const uint8_t *bytes, uint32_t len,
          enum peer_cut cut)
{
    struct peer_shape s = {cut, PEER_CHAIN};

    assert_int_equal(peer_send(&from->peer, &s, bytes, len), 1);
}

/* Without room nothing happens to the source; with room for some, only to
 * those. */
static void
N41_without_room_packets_stay(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        uint32_t sent = 0, seen = 0;
        struct rig from, to;

        open_rig(&from, true, features(i & 3), 16);
        open_rig(&to, false, features(i >> 2), 16);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL),
                         MR_SPLICE_NONE);
        while (send_frames(&from, &sent, 1))
            ;
        rig_seal(&from);
        rig_seal(&to);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL),
                         MR_SPLICE_ROOM);
        assert_memory_equal(from.guest.map, from.snapshot, from.guest.size);
        assert_memory_equal(to.guest.map, to.snapshot, to.guest.size);
        assert_int_equal(rig_notified(&from) + rig_notified(&to), 0);
        for (uint32_t k = 0; k < sent; k++) {
            peer_post(&to.peer, &WHOLE, 12 + 1514);
            assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL), 1);
            assert_int_equal(peer_sent(&from.peer), 1);
            check_frames(&to, &seen);
            assert_int_equal(seen, k + 1);
        }
        close_rigs(&from, &to);
    }
}

/* N42: what can never fit costs the source its buffer, and is counted where
 * sending would count it. */
static void
ROOM_too_long_is_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint32_t len, unused = 0;
        struct rig from, to;

        open_rig(&from, true, features(i & 1), 16);
        open_rig(&to, false, features(i >> 1), 16);
        frame_fill(frame, 200, 0);
        put_frame(&from, frame, 101, PEER_CUT_whole);
        put_frame(&from, frame, 100, PEER_CUT_whole);
        put_frame(&from, frame, 200, PEER_CUT_chain);
        for (int k = 0; k < 3; k++)
            peer_post(&to.peer, &WHOLE, 12 + 100);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL), 3);
        assert_int_equal(peer_sent(&from.peer), 3);
        assert_int_equal(peer_receive(&to.peer, frame, &len, &unused), 1);
        assert_int_equal(len, 100);
        assert_int_equal(peer_receive(&to.peer, frame, &len, &unused), 0);
        assert_int_equal(from.counters.packets, 3);
        assert_int_equal(from.counters.bytes, 401);
        assert_int_equal(to.counters.packets, 1);
        assert_int_equal(to.counters.bytes, 100);
        assert_int_equal(to.counters.oversize, 2);
        check_faults(&from, MR_FAULT_NONE, 0);
        check_faults(&to, MR_FAULT_ROOM, 2);
        close_rigs(&from, &to);
    }
}

/* A target that broke takes nothing: the packets are for whoever receives. */
static void
broken_target_leaves_packets(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint32_t sent = 0;
        struct rig from, to;

        open_rig(&from, true, features(i & 1), 16);
        open_rig(&to, false, features(i >> 1), 16);
        peer_post(&to.peer, &WHOLE, 12 + 1514);
        to.ring.fault = MR_FAULT_LIST;
        send_frames(&from, &sent, 2);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL),
                         MR_SPLICE_TAKE);
        assert_int_equal(peer_sent(&from.peer), 0);
        assert_int_equal(from.burst(&from.ring, pkts, BURST), 2);
        mr_pkts_free(pkts, 2);
        assert_int_equal(peer_sent(&from.peer), 2);
        close_rigs(&from, &to);
    }
}

/* One notification a ring, however many packets and however odd they are. */
static void
one_notification_a_ring(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint32_t sent = 0, seen = 0;
        struct rig from, to;

        open_rig(&from, true, features(i & 1), 64);
        open_rig(&to, false, features(i >> 1), 64);
        send_frames(&from, &sent, 20);
        for (uint32_t k = 0; k < sent; k++)
            peer_post(&to.peer, &WHOLE, 12 + 1514);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL), sent);
        assert_int_equal(rig_notified(&from), 1);
        assert_int_equal(rig_notified(&to), 1);
        assert_int_equal(from.counters.bursts, 1);
        assert_int_equal(to.counters.bursts, 1);
        check_frames(&to, &seen);
        assert_int_equal(peer_sent(&from.peer), sent);
        close_rigs(&from, &to);
    }
}

/* ---- Turning ------------------------------------------------------------- */

/* A frame of random bytes and plausible headers. */
static uint32_t
any_frame(struct rig *rig, uint8_t *f)
{
    static const uint16_t types[] = {0x0800, 0x0800, 0x0806, 0x86dd, 0x8100,
                                     0x88a8, 0x88b5, 0x0000, 0x0046};
    static const uint8_t next[] = {1, 6, 17, 58, 0, 44, 60};
    static const uint32_t lengths[] = {14, 15, 20, 24, 31, 32, 33, 42, 60, 64,
                                       86, 128, 129, 1514};
    uint16_t type = types[rig_random(rig, MR_COUNT_OF(types))];
    uint32_t len = lengths[rig_random(rig, MR_COUNT_OF(lengths))];

    for (uint32_t i = 0; i < len + 128; i++)
        f[i] = (uint8_t)rig_random(rig, 256);
    if (rig_random(rig, 4))
        f[0] &= 0xfe;
    mr_put16(f + 12, type);
    f[14] = type == 0x86dd ? 0x60 : 0x45;
    mr_put16(f + 16, (uint16_t)(len - 14));
    f[20] = next[rig_random(rig, MR_COUNT_OF(next))];
    f[23] = next[rig_random(rig, MR_COUNT_OF(next))];
    if (type == 0x0806 && rig_random(rig, 2))
        memcpy(f + 14, (uint8_t[]){0, 1, 8, 0, 6, 4, 0, 1}, 8);
    if (type == 0x0800)
        mr_put16(f + 20, 0);
    return len;
}

/* What mr_burst_reflect makes of the frame; false when it answers. */
static bool
reflected(struct rig *rig, const uint8_t *bytes, uint32_t len, uint8_t *out)
{
    struct mr_burst b = {.n = 1, .cap = 1};
    uint32_t answered;

    b.pkt[0] = mr_pkt_chain(rig->pool, len);
    memcpy(mr_pkt_data(b.pkt[0]), bytes, len);
    answered = mr_burst_reflect(&b, MAC, 0);
    mr_pkt_read(b.pkt[0], 0, out, len);
    mr_burst_free(&b);
    return !answered;
}

/* Frame by frame: what is spliced looks as if it had been received, reflected
 * and sent; what would be answered is left, and is what is received next. */
static void
turned_as_reflect_turns(void **state)
{
    static uint8_t want[PEER_FRAME_MAX];
    uint32_t moved = 0, left = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig from, to;

        open_rig(&from, true, features(i & 1), 16);
        open_rig(&to, false, features(i >> 1), 16);
        for (int k = 0; k < 4000; k++) {
            uint32_t len = any_frame(&from, frame), got, unused = 0;
            bool turns = reflected(&from, frame, len, want);
            int32_t rc;

            put_frame(&from, frame, len,
                      k % 3 ? PEER_CUT_whole : PEER_CUT_random);
            peer_post(&to.peer, &WHOLE, 12 + 1514);
            rc = mr_splice(&from.ring, &to.ring, BURST, MAC);
            if (rc == MR_SPLICE_TAKE) {
                left++;
                assert_int_equal(from.burst(&from.ring, pkts, BURST), 1);
                assert_memory_equal(mr_pkt_data(pkts[0]), frame, len);
                to.burst(&to.ring, pkts, 1);
            } else {
                moved++;
                assert_int_equal(rc, 1);
                assert_true(turns);
            }
            assert_int_equal(peer_sent(&from.peer), 1);
            assert_int_equal(
                peer_receive(&to.peer, frame, &got, &unused), 1);
            assert_int_equal(got, len);
            if (rc == 1)
                assert_memory_equal(frame, want, len);
        }
        close_rigs(&from, &to);
    }
    assert_true(moved > 4000);
    assert_true(left > 2000);
}

/* The packets before one that may want an answer go first, in one burst. */
static void
order_is_kept_around_an_answer(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig from, to;
        uint32_t len, unused = 0;

        open_rig(&from, true, features(i & 1), 16);
        open_rig(&to, false, features(i >> 1), 16);
        for (int k = 0; k < 10; k++) {
            memset(frame, k, 60);
            mr_put16(frame + 12, k == 6 ? MR_ETHER_ARP : 0x88b5);
            put_frame(&from, frame, 60, PEER_CUT_whole);
            peer_post(&to.peer, &WHOLE, 12 + 60);
        }
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, MAC), 6);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, MAC),
                         MR_SPLICE_TAKE);
        assert_int_equal(from.burst(&from.ring, pkts, 1), 1);
        assert_int_equal(to.burst(&to.ring, pkts, 1), 1);
        assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, MAC), 3);
        for (int k = 0; k < 10; k++) {
            assert_int_equal(peer_receive(&to.peer, frame, &len, &unused), 1);
            assert_int_equal(frame[59], k);
        }
        assert_int_equal(peer_sent(&from.peer), 10);
        close_rigs(&from, &to);
    }
}

/* ---- Into itself --------------------------------------------------------- */

/* A driver that offers the memory of its packets to receive into, at any
 * distance: any bytes arrive, but nobody gets hurt (the sanitizer tells), and
 * without a distance the frame is whole. */
static void
memory_of_its_own_packets(void **state)
{
    static const int32_t apart[] = {0, 1, 12, 16, 40, 64, 100, 600, -1, -12,
                                    -16, -40, -100};
    static const uint32_t lengths[] = {60, 64, 100, 128, 200, 1514};

    (void)state;
    for (uint32_t i = 0; i < 4 * MR_COUNT_OF(apart); i++) {
        struct rig from, to;
        uint32_t good, unused;

        open_rig(&from, true, features(i & 1), 16);
        open_rig(&to, false, features(i >> 1 & 1), 16);
        to.ring.memory = from.memory; /* one device */
        for (uint32_t k = 0; k < 2 * MR_COUNT_OF(lengths); k++) {
            uint32_t len = lengths[k / 2];
            uint64_t at = scratch(&from) + 1024;
            uint8_t *bytes = peer_memory_at(&from.guest, at, &(uint64_t){0});
            struct mr_split_desc d[2] = {
                element(&from, at, k & 1 ? 12 : 12 + len),
                element(&from, at + 12, len)};
            uint16_t id;

            memset(bytes, 0, 12);
            frame_fill(bytes + 12, len, k);
            expose(&from, d, k & 1 ? 2 : 1);
            id = expose_one(&to, at + (uint64_t)(int64_t)apart[i / 4],
                            12 + len);
            to.peer.record[id].writable = 12 + len;
            assert_int_equal(mr_splice(&from.ring, &to.ring, BURST, NULL), 1);
            if (apart[i / 4] == 0)
                assert_true(frame_same(bytes + 12, len, k));
            collect(&from, &good, &unused);
            collect(&to, &good, &unused);
        }
        close_rigs(&from, &to);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_carries_into_every_other),
        cmocka_unit_test(N41_without_room_packets_stay),
        cmocka_unit_test(ROOM_too_long_is_dropped),
        cmocka_unit_test(broken_target_leaves_packets),
        cmocka_unit_test(one_notification_a_ring),
        cmocka_unit_test(turned_as_reflect_turns),
        cmocka_unit_test(order_is_kept_around_an_answer),
        cmocka_unit_test(memory_of_its_own_packets),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
