/* Receiving without a copy (T11): what is lent, what comes back and when, that
 * the ring never starves, and that nothing of a hostile driver gets through
 * that would not get through with a copy. mem/loan.c has the loans themselves,
 * port/loan.c what becomes of them when a ring stops. */
#include "unit/burst/hostile.h"

#include "burst/loan.h"
#include "mem/header.h"
#include "mem/packet_loan.h"

enum { SIZE = 32, HEAD = MR_HEADERS, LEAST = 1024 };

static struct mr_pkt *pkts[MR_BURST_MAX];
static uint8_t frame[PEER_FRAME_MAX];

struct lending {
    struct rig rig;
    struct mr_pool *pool;
};

static void
lend_from(struct lending *l)
{
    assert_int_equal(mr_loan_pool_create(256, &l->pool), 0);
    assert_int_equal(mr_loan_open(l->rig.memory, l->pool,
                                  l->rig.setup.size / 2, &l->rig.ring.loan), 0);
    l->rig.burst = mr_burst_select(&l->rig.ring, &l->rig.variant);
    assert_ptr_equal(l->rig.burst, mr_device_lend);
}

static void
open_lending(struct lending *l, int i, uint32_t slab, bool crossing)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | MR_F(INDIRECT_DESC) |
                    (i & 1 ? MR_F(RING_PACKED) : 0) |
                    (i & 2 ? MR_F(ORDER_PLATFORM) : 0),
        .size = SIZE,
        .rx = true,
        .slab = slab,
        .crossing = crossing,
    };

    if (!rig_open(&l->rig, &s))
        fail_msg("%s", l->rig.error);
    lend_from(l);
}

static void
close_lending(struct lending *l)
{
    struct mr_loan *loan = l->rig.ring.loan;

    if (l->rig.peer.error[0])
        fail_msg("%s", l->rig.peer.error);
    assert_true(mr_loan_close(loan));
    assert_int_equal(mr_pool_free(l->pool), 0);
    if (!rig_close(&l->rig))
        fail_msg("%s", l->rig.error);
}

static void
send_frame(struct lending *l, struct peer_shape shape, uint32_t len,
           uint32_t seq)
{
    frame_fill(frame, len, seq);
    assert_int_equal(peer_send(&l->rig.peer, &shape, frame, len), 1);
}

static uint32_t
receive(struct lending *l, uint32_t n)
{
    return l->rig.burst(&l->rig.ring, pkts, n);
}

/* Does the packet refer to guest memory? */
static bool
is_lent(const struct lending *l, const struct mr_pkt *pkt)
{
    const struct mr_memory *m = l->rig.memory;

    for (uint32_t i = 0; pkt->next && i < m->n; i++)
        if ((uint64_t)(mr_pkt_data(pkt->next) - m->region[i].host) <
            m->region[i].size)
            return true;
    return false;
}

/* ---- What is lent -------------------------------------------------------- */

static void
long_frames_are_lent_with_their_headers_copied(void **state)
{
    static const uint32_t lengths[] = {14, 60, 1023, 1024, 1025, 1514,
                                       9000, 65535, 65557};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct lending l;

        open_lending(&l, i, 66000, false);
        for (uint32_t k = 0; k < MR_COUNT_OF(lengths); k++) {
            uint32_t len = lengths[k];

            send_frame(&l, WHOLE, len, k);
            assert_int_equal(receive(&l, 8), 1);
            assert_true(frame_packet_same(pkts[0], len, k));
            assert_int_equal(is_lent(&l, pkts[0]), len >= LEAST);
            if (len >= LEAST) {
                assert_int_equal(pkts[0]->data_len, HEAD);
                assert_int_equal(pkts[0]->nb_segs, 2);
            }
            assert_int_equal(peer_sent(&l.rig.peer), len < LEAST);
            mr_pkts_free(pkts, 1);
            assert_int_equal(receive(&l, 8), 0);
            assert_int_equal(peer_sent(&l.rig.peer), len >= LEAST);
        }
        assert_int_equal(l.rig.counters.packets, MR_COUNT_OF(lengths));
        assert_int_equal(l.rig.counters.bursts, MR_COUNT_OF(lengths));
        assert_int_equal(l.rig.counters.lent, 6);
        close_lending(&l);
    }
}

/* Chains, tables, buffers across regions: copied. Order is kept. */
static void
all_shapes_mixed_arrive_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint32_t sent = 0, seen = 0;
        struct lending l;

        open_lending(&l, i, 9600, true);
        for (int turn = 0; turn < 300; turn++) {
            uint32_t n = rig_random(&l.rig, 12), got;

            for (; n; n--, sent++) {
                uint32_t len = frame_length(sent, 9000);
                struct peer_shape s = {
                    rig_random(&l.rig, 3) ? PEER_CUT_whole
                                          : rig_random(&l.rig, PEER_CUT_COUNT),
                    rig_random(&l.rig, 4) ? PEER_CHAIN : PEER_TABLE};

                frame_fill(frame, len, sent);
                if (peer_send(&l.rig.peer, &s, frame, len) != 1)
                    break;
            }
            got = receive(&l, 1 + rig_random(&l.rig, 16));
            for (uint32_t k = 0; k < got; k++, seen++)
                assert_true(frame_packet_same(
                    pkts[k], frame_length(seen, 9000), seen));
            mr_pkts_free(pkts, got);
            assert_true(peer_sent(&l.rig.peer) >= 0);
        }
        for (uint32_t got; (got = receive(&l, 32));)
            mr_pkts_free(pkts, got);
        assert_true(l.rig.counters.lent > 100);
        assert_true(l.rig.counters.packets > 3 * l.rig.counters.lent / 2);
        check_faults(&l.rig, MR_FAULT_NONE, 0);
        close_lending(&l);
    }
}

/* ---- When it comes back -------------------------------------------------- */

/* Packets that are held keep at most half of the ring; the rest goes on. */
static void
T11_the_ring_does_not_starve(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct mr_pkt *held[SIZE / 2];
        struct lending l;

        open_lending(&l, i, 2112, false);
        for (uint32_t k = 0; k < SIZE; k++)
            send_frame(&l, WHOLE, 1514, k);
        assert_int_equal(receive(&l, SIZE), SIZE);
        for (uint32_t k = 0; k < SIZE; k++) {
            assert_true(frame_packet_same(pkts[k], 1514, k));
            assert_int_equal(is_lent(&l, pkts[k]), k < SIZE / 2);
        }
        memcpy(held, pkts, sizeof(held));
        mr_pkts_free(pkts + SIZE / 2, SIZE / 2);
        assert_int_equal(peer_sent(&l.rig.peer), SIZE / 2);
        for (uint32_t k = 0; k < 10 * SIZE; k++) {
            send_frame(&l, WHOLE, 1514, k);
            assert_int_equal(receive(&l, SIZE), 1);
            assert_true(frame_packet_same(pkts[0], 1514, k));
            assert_false(is_lent(&l, pkts[0]));
            mr_pkts_free(pkts, 1);
            assert_int_equal(peer_sent(&l.rig.peer), 1);
        }
        for (uint32_t k = 0; k < SIZE / 2; k++)
            assert_true(frame_packet_same(held[k], 1514, k));
        mr_pkts_free(held, SIZE / 2);
        assert_int_equal(receive(&l, 1), 0);
        assert_int_equal(peer_sent(&l.rig.peer), SIZE / 2);
        close_lending(&l);
    }
}

/* C19: buffers go back in the order in which packets are freed. */
static void
any_order_of_freeing(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct mr_pkt *held[SIZE / 2] = {NULL};
        uint32_t number[SIZE / 2], sent = 0;
        struct lending l;

        open_lending(&l, i, 2112, false);
        for (int turn = 0; turn < 3000; turn++) {
            uint32_t k = rig_random(&l.rig, SIZE / 2);
            int rc;

            if (held[k]) {
                assert_true(frame_packet_same(held[k], 1100, number[k]));
                mr_pkts_free(&held[k], 1);
                held[k] = NULL;
            }
            assert_int_equal(receive(&l, 8), 0);
            rc = peer_sent(&l.rig.peer);
            assert_true(rc >= 0);
            send_frame(&l, WHOLE, 1100, sent);
            assert_int_equal(receive(&l, 8), 1);
            held[k] = pkts[0];
            number[k] = sent++;
        }
        assert_int_equal(l.rig.counters.lent, sent);
        for (uint32_t k = 0; k < SIZE / 2; k++)
            mr_pkt_free(held[k]);
        assert_int_equal(receive(&l, 8), 0);
        assert_true(peer_sent(&l.rig.peer) > 0);
        assert_int_equal(peer_outstanding(&l.rig.peer), 0);
        close_lending(&l);
    }
}

/* What is owed at the end is given back, once, and the packet is readable
 * after it. */
static void
T41_all_is_paid_back_at_a_stop(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct lending l;

        open_lending(&l, i, 2112, false);
        for (uint32_t k = 0; k < 8; k++)
            send_frame(&l, WHOLE, 1514, k);
        assert_int_equal(receive(&l, 8), 8);
        mr_pkts_free(pkts + 2, 3);
        mr_device_repay(&l.rig.ring, true);
        assert_int_equal(peer_sent(&l.rig.peer), 8);
        if (i & 1)
            assert_int_equal(mr_ring_base(&l.rig.ring) >> 16,
                             mr_ring_base(&l.rig.ring) & 0xffff);
        assert_true(frame_packet_same(pkts[0], 1514, 0));
        mr_pkts_free(pkts, 2);
        mr_pkts_free(pkts + 5, 3);
        mr_device_repay(&l.rig.ring, true);
        assert_int_equal(peer_sent(&l.rig.peer), 0);
        close_lending(&l);
    }
}

/* N101: without a packet nothing is taken, with one it is. */
static void
N101_pools_that_are_empty(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        static struct mr_pkt *all[2048];
        struct lending l;
        uint32_t n = 0;

        open_lending(&l, i, 2112, false);
        while (mr_pkts_alloc(l.rig.pool, &all[n], 1))
            n++;
        send_frame(&l, WHOLE, 1514, 7);
        assert_int_equal(receive(&l, 8), 0);
        assert_int_equal(l.rig.counters.nobuf, 1);
        assert_int_equal(peer_sent(&l.rig.peer), 0);
        mr_pkts_free(all, n);
        assert_int_equal(receive(&l, 8), 1);
        assert_true(frame_packet_same(pkts[0], 1514, 7));
        mr_pkts_free(pkts, 1);
        close_lending(&l);
    }
}

/* ---- Hostile drivers ----------------------------------------------------- */

/* Long buffers that must not be lent, between two that may. */
struct refused {
    enum mr_fault fault;
    void (*bad)(struct rig *rig);
};

static void
outside(struct rig *rig)
{
    expose_one(rig, OUTSIDE, 1500);
}

static void
half_outside(struct rig *rig)
{
    end_outside(rig, 1500);
}

static void
giant(struct rig *rig)
{
    expose_one(rig, rig->slabs_guest, MR_HEADER + MR_FRAME_MAX + 1);
}

static void
wrong_direction(struct rig *rig)
{
    struct mr_split_desc d = element(rig, scratch(rig), 1500);

    d.flags ^= MR_DESC_WRITE;
    expose(rig, &d, 1);
}

static void
offload(struct rig *rig)
{
    write_frame(rig, scratch(rig), 1500);
    peer_memory_fill(&rig->guest, scratch(rig), 1, 1);
    expose_one(rig, scratch(rig), 1512);
}

static const struct refused refused[] = {
    {MR_FAULT_ADDRESS, outside},        {MR_FAULT_ADDRESS, half_outside},
    {MR_FAULT_GIANT, giant},            {MR_FAULT_DIRECTION, wrong_direction},
    {MR_FAULT_OFFLOAD, offload},
};

static void
bad_buffers_are_not_lent(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * MR_COUNT_OF(refused); i++) {
        struct row row = {.features = 0, .size = SIZE, .slab = 4224};
        struct trial t = {&row, i & 1, true, false};
        uint32_t good, unused, got = 0;
        struct lending l;

        open_trial(&l.rig, &t, false);
        lend_from(&l);
        send_frame(&l, WHOLE, 1514, 1);
        refused[i / 2].bad(&l.rig);
        send_frame(&l, WHOLE, 1514, 2);
        for (int k = 0; k < 3; k++) {
            uint32_t n = l.rig.burst(&l.rig.ring, pkts + got, 8);

            got += n;
        }
        assert_int_equal(got, 2);
        assert_true(frame_packet_same(pkts[0], 1514, 1));
        assert_true(frame_packet_same(pkts[1], 1514, 2));
        mr_pkts_free(pkts, 2);
        assert_int_equal(receive(&l, 8), 0);
        collect(&l.rig, &good, &unused);
        assert_int_equal(good, 2);
        assert_int_equal(unused, 1);
        check_faults(&l.rig, refused[i / 2].fault, 1);
        close_lending(&l);
    }
}

/* A broken ring gets nothing back, and its packets end all the same. */
static void
broken_ring_is_left_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct lending l;

        open_lending(&l, i, 2112, false);
        send_frame(&l, WHOLE, 1514, 1);
        assert_int_equal(receive(&l, 8), 1);
        l.rig.ring.fault = MR_FAULT_LIST;
        mr_pkts_free(pkts, 1);
        rig_seal(&l.rig);
        assert_int_equal(receive(&l, 8), 0);
        mr_device_repay(&l.rig.ring, true);
        assert_memory_equal(l.rig.guest.map, l.rig.snapshot, l.rig.guest.size);
        assert_int_equal(l.rig.ring.loan->out, 0);
        close_lending(&l);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_frames_are_lent_with_their_headers_copied),
        cmocka_unit_test(all_shapes_mixed_arrive_in_order),
        cmocka_unit_test(T11_the_ring_does_not_starve),
        cmocka_unit_test(any_order_of_freeing),
        cmocka_unit_test(T41_all_is_paid_back_at_a_stop),
        cmocka_unit_test(N101_pools_that_are_empty),
        cmocka_unit_test(bad_buffers_are_not_lent),
        cmocka_unit_test(broken_ring_is_left_alone),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
