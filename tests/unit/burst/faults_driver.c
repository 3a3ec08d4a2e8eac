/* Hostile devices against our driver side: for every fault that a device can
 * provoke a case in both layouts, with the legal neighbours (hostile-inputs
 * I1, I3, I5; S12, P16, N48).
 *
 * After a broken rule the ring is dead for good: bursts move nothing, and every
 * packet comes home exactly once when it is stopped. After a skipped one the
 * next packet flows and the buffer was recycled. */
#include "unit/burst/hostile.h"

static struct mr_pkt *pkts[MR_BURST_MAX];
static const uint64_t MRG = MR_F(MRG_RXBUF);
static const uint64_t IN_ORDER = MR_F(IN_ORDER);

/* Takes every buffer that the core offers. */
static void
take_all(struct rig *rig)
{
    struct peer_list list;
    uint16_t id;

    while (peer_take(&rig->peer, &list, &id) == 1)
        ;
}

static uint16_t
oldest(const struct rig *rig, uint32_t n)
{
    const struct peer *p = &rig->peer;

    return p->queue[(p->queue_head + n) % p->size];
}

/* Sends `n` packets so that the device holds buffers, or posts buffers. */
static void
fill(struct rig *rig, uint32_t n)
{
    uint32_t done;

    if (rig->setup.rx) {
        rig->burst(&rig->ring, pkts, 0);
    } else {
        for (uint32_t i = 0; i < n; i++)
            pkts[i] = frame_packet(rig->pool, 60, 0);
        done = rig->burst(&rig->ring, pkts, n);
        mr_pkts_free(pkts + done, n - done);
    }
    take_all(rig);
}

/* A used entry as it is: id and len are the device's own invention. */
static void
forge(struct rig *rig, uint32_t id, uint32_t len, uint32_t advance)
{
    struct peer *p = &rig->peer;
    struct mr_split_used *used = p->part[2];

    if (p->packed) {
        p->layout->write_used(p, p->used, (uint16_t)id, len);
        p->layout->advance(p, &p->used, advance);
        return;
    }
    used->ring[p->used.pos % p->size] = (struct mr_split_used_elem){id, len};
    p->used.pos = (uint16_t)(p->used.pos + advance);
    p->layout->publish(p);
}

/* ---- What breaks a rule ------------------------------------------------ */

static void
index_too_far(struct rig *rig, uint32_t by)
{
    struct mr_split_used *used = rig->peer.part[2];

    used->idx = (uint16_t)(used->idx + peer_outstanding(&rig->peer) + by);
}

static void
index_back(struct rig *rig, uint32_t by)
{
    struct mr_split_used *used = rig->peer.part[2];

    used->idx = (uint16_t)(used->idx - by);
}

static void
id_outside(struct rig *rig, uint32_t id)
{
    forge(rig, id, rig->setup.rx ? 100 : 0, 1);
}

/* An id of the ring that is not outstanding: the device was given fewer
 * buffers than the ring has. */
static void
id_not_out(struct rig *rig, uint32_t unused)
{
    uint16_t id = 0;

    (void)unused;
    while (rig->peer.record[id].out)
        id++;
    forge(rig, id, 0, 1);
}

static void
id_twice(struct rig *rig, uint32_t unused)
{
    uint16_t id = oldest(rig, 0);

    (void)unused;
    forge(rig, id, rig->setup.rx ? 100 : 0, 1);
    forge(rig, id, rig->setup.rx ? 100 : 0, 1);
}

static void
length_too_much(struct rig *rig, uint32_t by)
{
    uint16_t id = oldest(rig, 0);

    forge(rig, id, (uint32_t)rig->peer.record[id].writable + by, 1);
}

static void
length_huge(struct rig *rig, uint32_t len)
{
    forge(rig, oldest(rig, 0), len, 1);
}

static void
buffers_too_many(struct rig *rig, uint32_t n)
{
    uint16_t id = oldest(rig, 0);
    struct mr_net_header h = {.num_buffers = (uint16_t)n};

    peer_memory_write(&rig->guest, rig->peer.record[id].part[0].addr, &h, 12);
    forge(rig, id, 12 + 60, 1);
}

/* ---- Rows -------------------------------------------------------------- */

static const struct row rows[] = {
    {MR_FAULT_USED_INDEX, "by_one", ON_SPLIT | TO_BOTH, index_too_far, 1, 0, 0,
     0},
    {MR_FAULT_USED_INDEX, "by_half_of_all", ON_SPLIT | TO_BOTH, index_too_far,
     32768, 0, 0, 0},
    {MR_FAULT_USED_INDEX, "backwards", ON_SPLIT | TO_BOTH, index_back, 1, 0, 0,
     0},
    {MR_FAULT_USED_ID, "size", ON_BOTH | TO_BOTH, id_outside, 16, 0, 0, 0},
    {MR_FAULT_USED_ID, "ffff", ON_BOTH | TO_BOTH, id_outside, 0xffff, 0, 0, 0},
    {MR_FAULT_USED_ID, "32_bits", ON_SPLIT | TO_BOTH, id_outside, 0x10000, 0,
     0, 0},
    {MR_FAULT_USED_ID, "not_out", ON_BOTH | TO_TX, id_not_out, 0, 0, 0, 0},
    {MR_FAULT_USED_ID, "twice", ON_BOTH | TO_BOTH, id_twice, 0, 0, 0, 0},
    {MR_FAULT_USED_ID, "in_order_size", ON_BOTH | TO_BOTH, id_outside, 16,
     IN_ORDER, 0, 0},
    {MR_FAULT_USED_ID, "in_order_not_out", ON_BOTH | TO_TX, id_not_out, 0,
     IN_ORDER, 0, 0},
    {MR_FAULT_USED_ID, "in_order_twice", ON_BOTH | TO_BOTH, id_twice, 0,
     IN_ORDER, 0, 0},
    {MR_FAULT_USED_LENGTH, "by_one", ON_BOTH | TO_RX, length_too_much, 1, 0, 0,
     0},
    {MR_FAULT_USED_LENGTH, "by_one_mrg", ON_BOTH | TO_RX, length_too_much, 1,
     MRG, 0, 0},
    {MR_FAULT_USED_LENGTH, "all_ones", ON_BOTH | TO_RX, length_huge,
     UINT32_MAX, 0, 0, 0},
    {MR_FAULT_NUM_BUFFERS, "ffff", ON_BOTH | TO_RX, buffers_too_many, 0xffff,
     MRG, 0, 0},
    {MR_FAULT_NUM_BUFFERS, "one_too_many", ON_BOTH | TO_RX, buffers_too_many,
     17, MRG, 0, 0},
};

/* Does nothing any more, however often it is asked. */
static void
broken(void **state)
{
    const struct trial *t = *state;
    const struct row *row = t->row;
    uint32_t before, got;
    struct rig rig;

    open_trial(&rig, t, true);
    fill(&rig, 8);
    row->bad(&rig, row->arg);
    before = rig.counters.packets;
    for (int i = 0; i < 3; i++) {
        uint32_t n = t->rx ? 8 : 1;

        if (!t->rx)
            pkts[0] = frame_packet(rig.pool, 60, 0);
        got = rig.burst(&rig.ring, pkts, n);
        /* What the device completed properly before counts. */
        assert_true(got <= (t->rx && i == 0 ? 1u : 0u));
        mr_pkts_free(pkts, t->rx ? got : 1);
    }
    assert_true(rig.counters.packets <= before + 1);
    assert_int_equal(rig.ring.fault, row->fault);
    check_faults(&rig, row->fault, 1);
    close_trial(&rig);
}

/* N48, hostile-inputs I1: dropped, counted, recycled; the next one flows. */
static void
USED_SHORT_is_dropped(void **state)
{
    static const uint32_t lens[] = {0, 1, 11, 12, 13, 25};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct row row = {.features = i & 2 ? MRG : 0};
        struct trial t = {&row, i & 1, true, false};
        uint64_t seen = 0;
        struct rig rig;

        open_trial(&rig, &t, true);
        fill(&rig, 0);
        for (uint32_t k = 0; k < 5 * MR_COUNT_OF(lens); k++) {
            uint16_t id = oldest(&rig, 0);
            uint8_t frame[60];

            peer_complete(&rig.peer, &id, &lens[k % MR_COUNT_OF(lens)], 1);
            frame_fill(frame, 60, k);
            assert_int_equal(peer_give(&rig.peer, frame, 60), 1);
            assert_int_equal(rig.burst(&rig.ring, pkts, 8), 1);
            assert_true(frame_packet_same(pkts[0], 60, k));
            mr_pkts_free(pkts, 1);
            take_all(&rig);
            seen++;
            check_faults(&rig, MR_FAULT_USED_SHORT, seen);
        }
        assert_int_equal(rig.ring.fault, MR_FAULT_NONE);
        close_trial(&rig);
    }
}

/* C6 allows the device to report less than it wrote, N48 no header at all in
 * the second buffer; one byte there is legal. */
static void
legal_last_buffer_of_one_byte(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct row row = {.features = MRG};
        struct trial t = {&row, i & 1, true, false};
        uint8_t frame[2049];
        struct rig rig;

        open_trial(&rig, &t, true);
        fill(&rig, 0);
        frame_fill(frame, 2049, 5);
        assert_int_equal(peer_give(&rig.peer, frame, 2049), 1);
        assert_int_equal(rig.burst(&rig.ring, pkts, 8), 1);
        assert_true(frame_packet_same(pkts[0], 2049, 5));
        mr_pkts_free(pkts, 1);
        close_trial(&rig);
    }
}

/* N48. */
static void
legal_num_buffers_of_zero_is_one(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct row row = {.features = MRG};
        struct trial t = {&row, i & 1, true, false};
        struct rig rig;

        open_trial(&rig, &t, true);
        fill(&rig, 0);
        buffers_too_many(&rig, 0);
        assert_int_equal(rig.burst(&rig.ring, pkts, 8), 1);
        assert_int_equal(pkts[0]->pkt_len, 60);
        mr_pkts_free(pkts, 1);
        check_faults(&rig, MR_FAULT_NONE, 0);
        close_trial(&rig);
    }
}

/* N35 FIELD: without MRG_RXBUF num_buffers means nothing. */
static void
legal_num_buffers_without_mergeable(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct row row = {0};
        struct trial t = {&row, i & 1, true, false};
        struct rig rig;

        open_trial(&rig, &t, true);
        fill(&rig, 0);
        buffers_too_many(&rig, 0xffff);
        assert_int_equal(rig.burst(&rig.ring, pkts, 8), 1);
        mr_pkts_free(pkts, 1);
        check_faults(&rig, MR_FAULT_NONE, 0);
        close_trial(&rig);
    }
}

/* N23: a packet that came with a header is sent with a clean one, but for
 * num_buffers where that may be kept. */
static void
legal_header_of_a_packet_sent_on(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct row row = {.features = MRG};
        struct trial t = {&row, i & 1, false, false};
        const bool keep = i & 2;
        const struct mr_net_header junk = {
            .flags = 1, .csum_offset = keep ? 0 : 6, .num_buffers = 1};
        struct mr_net_header seen;
        struct peer_list list;
        struct rig rig;
        uint16_t id;

        open_trial(&rig, &t, true);
        rig.ring.keep_num_buffers = keep;
        for (int k = 0; k < 6; k++) {
            pkts[k] = frame_packet(rig.pool, 60, 0);
            memcpy(mr_pkt_data(pkts[k]) - sizeof(junk), &junk, sizeof(junk));
        }
        assert_int_equal(rig.burst(&rig.ring, pkts, 6), 6);
        for (int k = 0; k < 6; k++) {
            assert_int_equal(peer_take(&rig.peer, &list, &id), 1);
            assert_true(peer_memory_read(rig.peer.memory, list.part[0].addr,
                                         &seen, sizeof(seen)));
            assert_int_equal(seen.flags, 0);
            assert_int_equal(seen.csum_offset, 0);
            assert_int_equal(seen.num_buffers, keep);
        }
        close_trial(&rig);
    }
}

/* N33: of transmit buffers the used length means nothing. */
static void
legal_junk_length_of_transmit_buffers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct row row = {0};
        struct trial t = {&row, i & 1, false, false};
        struct rig rig;

        open_trial(&rig, &t, true);
        for (int k = 0; k < 40; k++) {
            uint16_t id;
            uint32_t junk = 0xdeadbeef;

            fill(&rig, 4);
            while (peer_outstanding(&rig.peer)) {
                id = oldest(&rig, 0);
                peer_complete(&rig.peer, &id, &junk, 1);
            }
        }
        assert_int_equal(rig.counters.packets, 160);
        check_faults(&rig, MR_FAULT_NONE, 0);
        close_trial(&rig);
    }
}

/* A packet of so many buffers that it is longer than a frame may be: dropped,
 * its buffers recycled. */
static void
GIANT_of_many_buffers_is_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct row row = {.features = MRG, .size = 64};
        struct trial t = {&row, i & 1, true, false};
        uint16_t ids[64];
        uint32_t lens[64];
        uint8_t frame[60];
        struct rig rig;

        open_trial(&rig, &t, true);
        fill(&rig, 0);
        for (int k = 0; k < 33; k++) {
            ids[k] = oldest(&rig, k);
            lens[k] = 12 + 2048;
        }
        peer_memory_write(&rig.guest, rig.peer.record[ids[0]].part[0].addr,
                          &(struct mr_net_header){.num_buffers = 33}, 12);
        peer_complete(&rig.peer, ids, lens, 33);
        frame_fill(frame, 60, 9);
        assert_int_equal(peer_give(&rig.peer, frame, 60), 1);
        assert_int_equal(rig.burst(&rig.ring, pkts, 8), 1);
        assert_true(frame_packet_same(pkts[0], 60, 9));
        mr_pkts_free(pkts, 1);
        check_faults(&rig, MR_FAULT_GIANT, 1);
        close_trial(&rig);
    }
}

/* T41: whatever is out when the ring stops comes home, a half packet too. */
static void
T41_stop_brings_every_packet_home(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct row row = {.features = MRG};
        struct trial t = {&row, i & 1, i & 2, false};
        struct rig rig;

        open_trial(&rig, &t, true);
        fill(&rig, 8);
        if (t.rx) { /* the first of three buffers, and no more */
            buffers_too_many(&rig, 3);
            assert_int_equal(rig.burst(&rig.ring, pkts, 8), 0);
        }
        assert_int_not_equal(mr_pool_available(rig.pool),
                             mr_pool_size(rig.pool));
        close_trial(&rig); /* tells when a packet is missing */
    }
}

static void
every_fault_of_the_driver_side_has_a_case(void **state)
{
    static const enum mr_fault list[] = {
        MR_FAULT_USED_INDEX, MR_FAULT_USED_ID, MR_FAULT_USED_LENGTH,
        MR_FAULT_NUM_BUFFERS}; /* USED_SHORT has a test of its own */

    (void)state;
    for (size_t f = 0; f < MR_COUNT_OF(list); f++)
        for (int packed = 0; packed < 2; packed++) {
            uint32_t where = packed ? ON_PACKED : ON_SPLIT;
            bool found = packed && list[f] == MR_FAULT_USED_INDEX;

            for (size_t i = 0; i < MR_COUNT_OF(rows); i++)
                found |= rows[i].fault == list[f] && (rows[i].where & where);
            assert_true(found);
        }
}

enum { TESTS_MAX = 100 };

static struct CMUnitTest tests[TESTS_MAX] = {
    cmocka_unit_test(every_fault_of_the_driver_side_has_a_case),
    cmocka_unit_test(USED_SHORT_is_dropped),
    cmocka_unit_test(legal_last_buffer_of_one_byte),
    cmocka_unit_test(legal_num_buffers_of_zero_is_one),
    cmocka_unit_test(legal_num_buffers_without_mergeable),
    cmocka_unit_test(legal_header_of_a_packet_sent_on),
    cmocka_unit_test(legal_junk_length_of_transmit_buffers),
    cmocka_unit_test(GIANT_of_many_buffers_is_dropped),
    cmocka_unit_test(T41_stop_brings_every_packet_home),
};

int
main(void)
{
    static struct trial trials[TESTS_MAX];
    static char names[TESTS_MAX][96];
    size_t n = 8;

    for (size_t i = 0; i < 4 * MR_COUNT_OF(rows); i++) {
        const struct row *row = &rows[i / 4];
        struct trial *t = &trials[n];

        *t = (struct trial){row, i & 1, !(i & 2), false};
        if (!(row->where & (t->packed ? ON_PACKED : ON_SPLIT)) ||
            !(row->where & (t->rx ? TO_RX : TO_TX)))
            continue;
        snprintf(names[n], sizeof(names[0]), "%s_%s_%s_%s",
                 mr_fault_row(row->fault)->name, row->name,
                 t->packed ? "packed" : "split", t->rx ? "rx" : "tx");
        tests[n] = (struct CMUnitTest){names[n], broken, NULL, NULL, t};
        n++;
    }
    return _cmocka_run_group_tests("faults_driver", tests, n, eal_setup, NULL);
}
