/* The legal neighbours of what faults_device.c refuses: buffers that look bad
 * and are not, so that hardening never breaks an honest driver; and packets
 * that are too long for the driver's buffers (ROOM: N41, N42). */
#include "unit/burst/hostile.h"

static struct mr_pkt *pkts[MR_BURST_MAX];

/* N42: dropped and counted, never cut; a smaller one goes into the buffer. */
static void
ROOM_one_buffer_too_small(void **state)
{
    for (int i = 0; i < 8; i++) {
        struct row row = {.features = i & 2 ? MR_F(MRG_RXBUF) : 0, .size = 1};
        struct trial t = {&row, i & 1, false, i & 4};
        uint32_t unused = 0, len;
        uint8_t frame[PEER_FRAME_MAX];
        struct rig rig;

        (void)state;
        open_trial(&rig, &t, false);
        peer_post(&rig.peer, &WHOLE, 12 + 100);
        pkts[0] = frame_packet(rig.pool, 101, 7);
        pkts[1] = frame_packet(rig.pool, 100, 8);
        if (i & 2) { /* N41: more buffers may come, so it waits */
            assert_int_equal(rig.burst(&rig.ring, pkts, 1), 0);
            assert_int_equal(peer_receive(&rig.peer, frame, &len, &unused), 0);
            mr_pkts_free(pkts, 1);
            pkts[0] = pkts[1];
            assert_int_equal(rig.burst(&rig.ring, pkts, 1), 1);
            check_faults(&rig, MR_FAULT_ROOM, 0);
        } else {
            assert_int_equal(rig.burst(&rig.ring, pkts, 2), 2);
            check_faults(&rig, MR_FAULT_ROOM, 1);
            assert_int_equal(rig.counters.oversize, 1);
        }
        assert_int_equal(rig.counters.packets, 1);
        assert_int_equal(peer_receive(&rig.peer, frame, &len, &unused), 1);
        assert_int_equal(len, 100);
        assert_true(frame_same(frame, len, 8));
        assert_int_equal(unused, 0);
        close_trial(&rig);
    }
}

/* A packet that more buffers than one packet may have would be needed for. */
static void
ROOM_mergeable_buffers_too_small(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct row row = {.features = MR_F(MRG_RXBUF), .size = 512};
        struct trial t = {&row, i & 1, false, i & 2};
        struct rig rig;

        (void)state;
        open_trial(&rig, &t, false);
        while (peer_post(&rig.peer, &WHOLE, 13) == 1)
            ;
        pkts[0] = frame_packet(rig.pool, 13 * MR_CHAIN_SEGS - 12 + 1, 7);
        pkts[1] = frame_packet(rig.pool, 13 * MR_CHAIN_SEGS - 12, 8);
        assert_int_equal(rig.burst(&rig.ring, pkts, 2), 2);
        check_faults(&rig, MR_FAULT_ROOM, 1);
        assert_int_equal(rig.counters.packets, 1);
        assert_int_equal(rig.ring.fault, MR_FAULT_NONE);
        close_trial(&rig);
    }
}

/* N41, N37: with too few buffers nothing is exposed, and nothing lost. */
static void
N41_no_partial_packet_is_exposed(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct row row = {.features = MR_F(MRG_RXBUF), .size = 8};
        struct trial t = {&row, i & 1, false, i & 2};
        uint32_t unused = 0, len;
        uint8_t frame[PEER_FRAME_MAX];
        struct rig rig;

        (void)state;
        open_trial(&rig, &t, false);
        for (int k = 0; k < 3; k++)
            peer_post(&rig.peer, &WHOLE, 100);
        pkts[0] = frame_packet(rig.pool, 350, 3);
        for (int k = 0; k < 3; k++)
            assert_int_equal(rig.burst(&rig.ring, pkts, 1), 0);
        assert_int_equal(peer_receive(&rig.peer, frame, &len, &unused), 0);
        peer_post(&rig.peer, &WHOLE, 100);
        assert_int_equal(rig.burst(&rig.ring, pkts, 1), 1);
        assert_int_equal(peer_receive(&rig.peer, frame, &len, &unused), 1);
        assert_int_equal(len, 350);
        assert_true(frame_same(frame, 350, 3));
        assert_int_equal(unused, 0);
        close_trial(&rig);
    }
}

/* A bad buffer, then a small one: after skipping the one and giving up on the
 * other the core still knows how many there are (S14). */
static void
S14_never_beyond_what_is_available(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct row row = {.size = 8};
        struct trial t = {&row, i & 1, false, i & 2};
        uint32_t good, unused;
        struct rig rig;

        (void)state;
        open_trial(&rig, &t, false);
        expose_one(&rig, OUTSIDE, 100);
        peer_post(&rig.peer, &WHOLE, 12 + 100);
        for (int k = 0; k < 3; k++)
            pkts[k] = frame_packet(rig.pool, k ? 100 : 101, k);
        assert_int_equal(rig.burst(&rig.ring, pkts, 3), 2);
        mr_pkts_free(pkts + 2, 1);
        collect(&rig, &good, &unused);
        assert_int_equal(good, 1);
        assert_int_equal(unused, 1);
        assert_int_equal(rig.ring.fault, MR_FAULT_NONE);
        close_trial(&rig);
    }
}

/* A bad buffer among those of one packet costs itself and the ones before it;
 * the packet goes into the next. */
static void
N36_span_goes_around_a_bad_buffer(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct row row = {.features = MR_F(MRG_RXBUF), .size = 8};
        struct trial t = {&row, i & 1, false, i & 2};
        uint32_t unused = 0, len;
        uint8_t frame[PEER_FRAME_MAX];
        struct rig rig;

        (void)state;
        open_trial(&rig, &t, false);
        for (int k = 0; k < 2; k++)
            peer_post(&rig.peer, &WHOLE, 100);
        expose_one(&rig, OUTSIDE, 100);
        for (int k = 0; k < 4; k++)
            peer_post(&rig.peer, &WHOLE, 100);
        pkts[0] = frame_packet(rig.pool, 350, 3);
        assert_int_equal(rig.burst(&rig.ring, pkts, 1), 1);
        assert_int_equal(peer_receive(&rig.peer, frame, &len, &unused), 1);
        assert_int_equal(len, 350);
        assert_true(frame_same(frame, 350, 3));
        assert_int_equal(unused, 3);
        assert_true(rig.counters.faults[MR_FAULT_ADDRESS] > 0);
        close_trial(&rig);
    }
}

/* ---- Buffers that only look bad ---------------------------------------- */

/* What looks bad and is not: one packet comes out of it. */
struct legal {
    const char *name;
    uint32_t where;
    void (*put)(struct rig *rig, uint32_t arg);
    uint32_t arg;
    uint32_t len; /* of the packet */
    uint32_t size, slab;
};

static void
unknown_flags(struct rig *rig, uint32_t flags)
{
    uint16_t id;

    write_frame(rig, scratch(rig), 60);
    id = expose_one(rig, scratch(rig), 72);
    add_flags(rig, last_index(rig, id), (uint16_t)flags, 0);
}

static void
table_unknown_flags(struct rig *rig, uint32_t flags)
{
    write_frame(rig, scratch(rig) + 1000, 60);
    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, 72, (uint16_t)flags,
              0xffff);
    expose_table(rig, scratch(rig), 16);
}

/* C2, C16: empty parts with good addresses count for nothing. */
static void
empty_parts(struct rig *rig, uint32_t n)
{
    struct mr_split_desc desc[PEER_PARTS];

    write_frame(rig, scratch(rig), 60);
    for (uint32_t i = 0; i < n; i++)
        desc[i] = element(rig, scratch(rig) + 100, 0);
    desc[n / 2] = element(rig, scratch(rig), 72);
    expose(rig, desc, n);
}

/* S22: the entries of a split table may follow each other in any order. */
static void
table_backwards(struct rig *rig, uint32_t at)
{
    uint64_t table = scratch(rig) + at;

    write_frame(rig, scratch(rig) + 1000, 60);
    put_entry(rig, table, 0, scratch(rig) + 1000, 10, MR_DESC_NEXT, 2);
    put_entry(rig, table, 2, scratch(rig) + 1010, 30, MR_DESC_NEXT, 1);
    put_entry(rig, table, 1, scratch(rig) + 1040, 32, 0, 0);
    expose_table(rig, table, 48);
}

/* A table at an odd address is nowhere forbidden. */
static void
table_at(struct rig *rig, uint32_t at)
{
    uint64_t table = scratch(rig) + at;

    write_frame(rig, scratch(rig) + 1000, 60);
    put_entry(rig, table, 0, scratch(rig) + 1000, 72, 0, 0);
    expose_table(rig, table, 16);
}

static const struct legal legals[] = {
    {"RUNT_shortest", ON_BOTH, of_length, 12 + 14, 14, 0, 0},
    {"GIANT_longest", ON_BOTH, of_length, 12 + MR_FRAME_MAX, MR_FRAME_MAX, 0,
     80000},
    {"SEGMENTS_256", ON_BOTH, many_parts, 256, 4 * 256 - 12, 512, 0},
    {"SEGMENTS_256_table", ON_BOTH, many_entries, 256, 4 * 256 - 12, 512,
     8192},
    {"INDIRECT_table_of_16", ON_BOTH, many_entries, 16, 4 * 16 - 12, 16, 0},
    {"INDIRECT_table_at_odd_address", ON_BOTH, table_at, 7, 60, 0, 0},
    {"S22_table_backwards", ON_SPLIT, table_backwards, 0, 60, 0, 0},
    {"C16_empty_parts", ON_BOTH, empty_parts, 9, 60, 0, 0},
    {"SEGMENTS_256_with_empty_ones", ON_BOTH, empty_parts, 256, 60, 512, 0},
    {"LOOP_list_of_ring_size", ON_BOTH, empty_parts, 16, 60, 16, 0},
    {"S71_unknown_flags", ON_SPLIT, unknown_flags, 0xfff8, 60, 0, 0},
    {"P73_unknown_flags", ON_PACKED, unknown_flags, 0x7f78, 60, 0, 0},
    {"S71_unknown_flags_in_table", ON_SPLIT, table_unknown_flags, 0xfff8, 60,
     0, 0},
    {"P30_table_flags_mean_nothing", ON_PACKED, table_unknown_flags, 0xffff,
     60, 0, 0},
    {"OFFLOAD_N17_unknown_header_flags", ON_BOTH, header_says, 0x00fe, 60, 0,
     0},
    {"ADDRESS_to_the_last_byte", ON_BOTH, end_outside, 40, 28, 0, 0},
};

struct legal_trial {
    const struct legal *legal;
    bool packed;
    bool spliced;
};

static void
legal(void **state)
{
    const struct legal_trial *t = *state;
    const struct legal *l = t->legal;
    struct row row = {.features = MR_F(INDIRECT_DESC),
                      .size = l->size,
                      .slab = l->slab};
    struct trial trial = {&row, t->packed, true, t->spliced};
    struct rig rig;

    open_trial(&rig, &trial, false);
    for (int i = 0; i < 20; i++) {
        uint32_t good, unused;

        write_frame(&rig, scratch(&rig), 100);
        l->put(&rig, l->arg);
        assert_int_equal(rig.burst(&rig.ring, pkts, 8), 1);
        assert_int_equal(pkts[0]->pkt_len, l->len);
        mr_pkts_free(pkts, 1);
        collect(&rig, &good, &unused);
        assert_int_equal(unused, 1);
    }
    check_faults(&rig, MR_FAULT_NONE, 0);
    close_trial(&rig);
}

enum { TESTS_MAX = 5 + 4 * MR_COUNT_OF(legals) };

static struct CMUnitTest tests[TESTS_MAX] = {
    cmocka_unit_test(ROOM_one_buffer_too_small),
    cmocka_unit_test(ROOM_mergeable_buffers_too_small),
    cmocka_unit_test(N41_no_partial_packet_is_exposed),
    cmocka_unit_test(S14_never_beyond_what_is_available),
    cmocka_unit_test(N36_span_goes_around_a_bad_buffer),
};

int
main(void)
{
    static struct legal_trial trials[TESTS_MAX];
    static char names[TESTS_MAX][96];
    size_t n = 5;

    for (size_t i = 0; i < 4 * MR_COUNT_OF(legals); i++) {
        const struct legal *l = &legals[i / 4];
        struct legal_trial *t = &trials[n];

        *t = (struct legal_trial){l, i & 1, i & 2};
        if (!(l->where & (t->packed ? ON_PACKED : ON_SPLIT)))
            continue;
        snprintf(names[n], sizeof(names[0]), "legal_%s_%s%s", l->name,
                 t->packed ? "packed" : "split",
                 t->spliced ? "_spliced" : "");
        tests[n] = (struct CMUnitTest){names[n], legal, NULL, NULL, t};
        n++;
    }
    return _cmocka_run_group_tests("legal", tests, n, eal_setup, NULL);
}
