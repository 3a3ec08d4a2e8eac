/* Stop and start again at the reported base, in the middle of laps: the peer
 * must not notice (B1, B2, B5, B8, C18), wherever the ring stands and however
 * often. A driver ring starts afresh on zeroed memory (T41, S7, P3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "peer/rig.h"
#include "unit/eal.h"

static const struct peer_shape HEADER = {PEER_CUT_header, PEER_CHAIN};
static const struct peer_shape WHOLE = {PEER_CUT_whole, PEER_CHAIN};

static struct mr_pkt *pkts[MR_BURST_MAX];

static void
device_receives(struct rig *rig, uint32_t n, uint32_t seq)
{
    uint8_t frame[100];

    for (uint32_t i = 0; i < n; i++) {
        frame_fill(frame, 100, seq + i);
        assert_int_equal(
            peer_send(&rig->peer, i ? &WHOLE : &HEADER, frame, 100), 1);
    }
    assert_int_equal(rig->burst(&rig->ring, pkts, 32), n);
    for (uint32_t i = 0; i < n; i++)
        assert_true(frame_packet_same(pkts[i], 100, seq + i));
    mr_pkts_free(pkts, n);
    assert_int_equal(peer_sent(&rig->peer), n);
}

static void
device_sends(struct rig *rig, uint32_t n, uint32_t seq)
{
    static uint8_t frame[PEER_FRAME_MAX];
    uint32_t len, unused = 0;

    while (peer_post(&rig->peer, seq % 2 ? &WHOLE : &HEADER, 200) == 1)
        ;
    for (uint32_t i = 0; i < n; i++)
        pkts[i] = frame_packet(rig->pool, 100, seq + i);
    assert_int_equal(rig->burst(&rig->ring, pkts, n), n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(peer_receive(&rig->peer, frame, &len, &unused), 1);
        assert_true(len == 100 && frame_same(frame, 100, seq + i));
    }
    assert_int_equal(unused, 0);
}

/* Stops after every burst; between them the peer keeps its buffers. */
static void
device(bool packed, bool rx, uint64_t features, uint32_t size, uint32_t base)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | features |
                    (packed ? MR_F(RING_PACKED) : 0),
        .size = size,
        .base = base,
        .rx = rx,
        .slab = 512,
    };
    uint32_t seq = 0;
    struct rig rig;

    assert_true(rig_open(&rig, &s));
    for (uint32_t turn = 0; turn < 40; turn++) {
        uint32_t n = 1 + turn % (size - 1);

        n = MR_MIN(n, rx ? size - 1 : size / 2);
        if (rx)
            device_receives(&rig, n, seq);
        else
            device_sends(&rig, n, seq);
        seq += n;
        mr_ring_stop(&rig.ring);
        rig.config.base = mr_ring_base(&rig.ring);
        if (packed) /* B5: drained, so both halves are equal */
            assert_int_equal(rig.config.base >> 16, rig.config.base & 0xffff);
        memset(&rig.ring, 0xa5, sizeof(rig.ring)); /* nothing else survives */
        assert_int_equal(mr_ring_start(&rig.ring, &rig.config), 0);
    }
    if (rig.peer.error[0])
        fail_msg("%s", rig.peer.error);
    if (!rig_close(&rig))
        fail_msg("%s", rig.error);
}

static void
B8_packed_device_goes_on_at_its_base(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 17; size += 5)
        for (int i = 0; i < 4; i++)
            device(true, i & 1, i & 2 ? MR_F(IN_ORDER) : 0, size, 0);
}

static void
B5_split_device_goes_on_at_its_base(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 16; size *= 2)
        for (int i = 0; i < 4; i++)
            device(false, i & 1, i & 2 ? MR_F(IN_ORDER) : 0, size,
                   i & 1 ? 0 : 65500);
}

/* B1: after the stop nothing is written any more. */
static void
B1_stopped_ring_leaves_memory_alone(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        struct rig_setup s = {
            .features = MR_F(VERSION_1) | (packed ? MR_F(RING_PACKED) : 0),
            .size = 16,
            .rx = true,
        };
        struct rig rig;

        assert_true(rig_open(&rig, &s));
        device_receives(&rig, 5, 0);
        rig_seal(&rig);
        mr_ring_stop(&rig.ring);
        mr_ring_base(&rig.ring);
        mr_ring_stop(&rig.ring);
        assert_memory_equal(rig.guest.map, rig.snapshot, rig.guest.size);
        assert_true(rig_close(&rig));
    }
}

static void
wipe(struct rig *rig)
{
    bool packed = rig->setup.features >> MR_F_RING_PACKED & 1;

    for (int i = 0; i < 3; i++)
        memset(rig->config.part[i], 0,
               mr_ring_part_bytes(packed, false, rig->setup.size, i));
}

/* Reads the frames that the core sent; leaves all of them uncompleted. */
static void
take_frames(struct rig *rig, uint32_t n, uint32_t seq)
{
    static uint8_t frame[PEER_FRAME_MAX];
    struct peer_list list;
    uint32_t len;
    uint16_t id;

    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(peer_take(&rig->peer, &list, &id), 1);
        assert_int_equal(peer_frame_read(&rig->peer, id, frame, &len), 0);
        assert_true(len == 100 && frame_same(frame, 100, seq + i));
    }
}

static void
T41_driver_starts_afresh_after_a_stop(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig_setup s = {
            .features = MR_F(VERSION_1) | (i & 1 ? MR_F(RING_PACKED) : 0) |
                        (i & 2 ? MR_F(IN_ORDER) : 0),
            .size = 8,
            .driver = true,
        };
        struct rig rig;

        assert_true(rig_open(&rig, &s));
        for (int turn = 0; turn < 5; turn++) {
            struct peer_setup peer = {
                .memory = &rig.guest, .features = s.features, .size = 8,
                .guest = {rig.part[0], rig.part[1], rig.part[2]},
                .base = i & 1 ? 0x80008000 : 0};

            for (int k = 0; k < 6; k++)
                pkts[k] = frame_packet(rig.pool, 100, k);
            assert_int_equal(rig.burst(&rig.ring, pkts, 6), 6);
            take_frames(&rig, 6, 0);
            mr_ring_stop(&rig.ring);
            assert_int_equal(mr_pool_available(rig.pool),
                             mr_pool_size(rig.pool));
            peer_stop(&rig.peer);
            wipe(&rig);
            assert_true(peer_start(&rig.peer, &peer));
            assert_int_equal(mr_ring_start(&rig.ring, &rig.config), 0);
        }
        assert_true(rig_close(&rig));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B8_packed_device_goes_on_at_its_base),
        cmocka_unit_test(B5_split_device_goes_on_at_its_base),
        cmocka_unit_test(B1_stopped_ring_leaves_memory_alone),
        cmocka_unit_test(T41_driver_starts_afresh_after_a_stop),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
