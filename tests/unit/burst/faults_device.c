/* Hostile drivers against our device side: for every fault of MR_FAULTS what
 * provokes it, in both layouts and directions, and at either end of a splice.
 * legal.c has the neighbours that are no fault, and ROOM; faults_setup.c
 * RING_SETUP and MEMORY_LOST.
 *
 * A fault of the kind "skip" costs its own buffer only: that comes back with
 * length 0, packets before and after it flow, and however many there are, the
 * ring keeps its capacity (hostile-inputs C6). A fault of the kind "broken"
 * stops the ring: what was taken before it is published, later bursts do
 * nothing, even when good buffers follow. In both cases nothing is written
 * outside the buffers. */
#include "unit/burst/hostile.h"

static const uint64_t TABLES = MR_F(INDIRECT_DESC);

/* ---- What breaks a rule ------------------------------------------------ */

static void
index_too_far(struct rig *rig, uint32_t by)
{
    struct mr_split_avail *avail = rig->peer.part[1];

    avail->idx = (uint16_t)(avail->idx + rig->setup.size + by);
}

static void
head_outside(struct rig *rig, uint32_t head)
{
    struct mr_split_avail *avail = rig->peer.part[1];
    uint16_t slot = (uint16_t)(rig->peer.avail.pos % rig->setup.size);

    expose_one(rig, scratch(rig), 100);
    avail->ring[slot] = (uint16_t)head;
}

static void
next_outside(struct rig *rig, uint32_t next)
{
    uint16_t id = expose_one(rig, scratch(rig), 100);

    add_flags(rig, last_index(rig, id), MR_DESC_NEXT, (uint16_t)next);
}

static void
table_next_outside(struct rig *rig, uint32_t next)
{
    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, 100, MR_DESC_NEXT,
              (uint16_t)next);
    put_entry(rig, scratch(rig), 1, scratch(rig) + 1000, 100, 0, 0);
    expose_table(rig, scratch(rig), 32);
}

static void
loop_to_self(struct rig *rig, uint32_t len)
{
    uint16_t id = expose_one(rig, scratch(rig), len);

    add_flags(rig, id, MR_DESC_NEXT, id);
}

static void
loop_of_two(struct rig *rig, uint32_t len)
{
    struct mr_split_desc two[2] = {element(rig, scratch(rig), len),
                                   element(rig, scratch(rig), len)};
    uint16_t id = expose(rig, two, 2);

    add_flags(rig, last_index(rig, id), MR_DESC_NEXT, id);
}

static void
loop_in_table(struct rig *rig, uint32_t len)
{
    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, len, MR_DESC_NEXT, 1);
    put_entry(rig, scratch(rig), 1, scratch(rig) + 1000, len, MR_DESC_NEXT, 0);
    expose_table(rig, scratch(rig), 32);
}

static void
follower_missing(struct rig *rig, uint32_t n)
{
    struct mr_split_desc desc[4];

    for (uint32_t i = 0; i < n; i++)
        desc[i] = element(rig, scratch(rig), 100);
    expose(rig, desc, n);
    add_flags(rig, last_index(rig, 0), MR_DESC_NEXT, 0);
}

static void
list_fills_ring(struct rig *rig, uint32_t len)
{
    struct mr_split_desc desc[PEER_PARTS];

    for (uint32_t i = 0; i < rig->setup.size; i++)
        desc[i] = element(rig, scratch(rig), len);
    expose(rig, desc, rig->setup.size);
    add_flags(rig, last_index(rig, 0), MR_DESC_NEXT, 0);
}

static void
table_of_bytes(struct rig *rig, uint32_t bytes)
{
    for (uint32_t i = 0; i < 17; i++)
        put_entry(rig, scratch(rig), i, scratch(rig) + 1000, 4,
                  rig->peer.packed ? 0 : MR_DESC_NEXT, (uint16_t)(i + 1));
    expose_table(rig, scratch(rig), bytes);
}

static void
table_with_next(struct rig *rig, uint32_t unused)
{
    struct mr_split_desc two[2] = {
        {scratch(rig), 16, MR_DESC_INDIRECT, 0},
        element(rig, scratch(rig) + 1000, 100),
    };

    (void)unused;
    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, 100, 0, 0);
    expose(rig, two, 2);
}

/* P29: a chain whose last descriptor is a table. */
static void
chain_with_table(struct rig *rig, uint32_t unused)
{
    struct mr_split_desc two[2] = {
        element(rig, scratch(rig) + 1000, 100),
        {scratch(rig), 16, MR_DESC_INDIRECT, 0},
    };

    (void)unused;
    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, 100, 0, 0);
    expose(rig, two, 2);
}

static void
table_nested(struct rig *rig, uint32_t unused)
{
    (void)unused;
    put_entry(rig, scratch(rig), 0, scratch(rig) + 32, 16, MR_DESC_INDIRECT,
              0);
    put_entry(rig, scratch(rig), 2, scratch(rig) + 1000, 100, 0, 0);
    expose_table(rig, scratch(rig), 16);
}

static void
address_outside(struct rig *rig, uint32_t len)
{
    expose_one(rig, OUTSIDE, len);
}

static void
address_zero(struct rig *rig, uint32_t len)
{
    expose_one(rig, 0, len);
}

static void
address_wraps(struct rig *rig, uint32_t len)
{
    expose_one(rig, UINT64_MAX - 50, len);
}

static void
second_part_outside(struct rig *rig, uint32_t len)
{
    struct mr_split_desc two[2] = {element(rig, scratch(rig), 100),
                                   element(rig, OUTSIDE, len)};

    expose(rig, two, 2);
}

static void
table_outside(struct rig *rig, uint32_t bytes)
{
    expose_table(rig, OUTSIDE, bytes);
}

static void
table_end_outside(struct rig *rig, uint32_t bytes)
{
    uint64_t at = scratch(rig) + rig->setup.slab - 24;

    put_entry(rig, at, 0, scratch(rig), 100, MR_DESC_NEXT, 1);
    expose_table(rig, at, bytes);
}

static void
table_entry_outside(struct rig *rig, uint32_t len)
{
    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, 100,
              rig->peer.packed ? 0 : MR_DESC_NEXT, 1);
    put_entry(rig, scratch(rig), 1, OUTSIDE, len, 0, 0);
    expose_table(rig, scratch(rig), 32);
}

static void
wrong_direction(struct rig *rig, uint32_t len)
{
    struct mr_split_desc d = element(rig, scratch(rig), len);

    d.flags ^= MR_DESC_WRITE;
    expose(rig, &d, 1);
}

/* The part number `at` of three turns round. */
static void
mixed_directions(struct rig *rig, uint32_t at)
{
    struct mr_split_desc d[3];

    for (int i = 0; i < 3; i++)
        d[i] = element(rig, scratch(rig) + 100 * i, 100);
    d[at].flags ^= MR_DESC_WRITE;
    expose(rig, d, 3);
}

static void
mixed_in_table(struct rig *rig, uint32_t len)
{
    struct mr_split_desc d = {scratch(rig) + 1000, len, 0, 0};

    put_entry(rig, scratch(rig), 0, scratch(rig) + 1000, 100,
              rig->peer.packed ? 0 : MR_DESC_NEXT, 1);
    put_entry(rig, scratch(rig), 1, scratch(rig) + 1000, 100, 0, 0);
    peer_memory_read(&rig->guest, scratch(rig) + 16, &d, 16);
    if (rig->peer.packed)
        d.next ^= MR_DESC_WRITE; /* where a packed descriptor has its flags */
    else
        d.flags ^= MR_DESC_WRITE;
    peer_memory_write(&rig->guest, scratch(rig) + 16, &d, 16);
    expose_table(rig, scratch(rig), 32);
}

static void
of_two_lengths(struct rig *rig, uint32_t len)
{
    struct mr_split_desc two[2] = {element(rig, scratch(rig), 0),
                                   element(rig, scratch(rig), len)};

    write_frame(rig, scratch(rig), 60);
    expose(rig, two, 2);
}

/* C16: empty parts count, or a list of them would keep us busy for ever. */
static void
many_empties(struct rig *rig, uint32_t n)
{
    struct mr_split_desc desc[PEER_PARTS];

    write_frame(rig, scratch(rig), 60);
    for (uint32_t i = 0; i < n; i++)
        desc[i] = element(rig, scratch(rig), i ? 0 : 100);
    expose(rig, desc, n);
}

/* 2^32 bytes and `rest`, as 241 parts that are the same 17 MiB, which all
 * slabs together have (C14). */
static void
beyond_32_bits(struct rig *rig, uint32_t rest)
{
    struct mr_split_desc desc[242];

    write_frame(rig, scratch(rig), 60);
    for (int i = 0; i < 241; i++)
        desc[i] = element(rig, rig->slabs_guest, i < 240 ? 17 << 20 : 16 << 20);
    desc[241] = element(rig, scratch(rig), rest);
    expose(rig, desc, 242);
}

#define SPLIT_BOTH (ON_SPLIT | TO_BOTH)
#define PACKED_BOTH (ON_PACKED | TO_BOTH)
#define ALL (ON_BOTH | TO_BOTH)
#define RX (ON_BOTH | TO_RX)
#define TX (ON_BOTH | TO_TX)

static const struct row rows[] = {
    {MR_FAULT_AVAIL_INDEX, "by_one", SPLIT_BOTH | ALONE, index_too_far, 1,
     0, 0, 0},
    {MR_FAULT_AVAIL_INDEX, "by_half_of_all", SPLIT_BOTH | ALONE,
     index_too_far, 32768, 0, 0, 0},
    {MR_FAULT_HEAD, "size", SPLIT_BOTH, head_outside, 16, 0, 0, 0},
    {MR_FAULT_HEAD, "ffff", SPLIT_BOTH, head_outside, 0xffff, 0, 0, 0},
    {MR_FAULT_NEXT, "size", SPLIT_BOTH, next_outside, 16, 0, 0, 0},
    {MR_FAULT_NEXT, "ffff", SPLIT_BOTH, next_outside, 0xffff, 0, 0, 0},
    {MR_FAULT_NEXT, "table_end", SPLIT_BOTH, table_next_outside, 2, TABLES, 0,
     0},
    {MR_FAULT_NEXT, "table_ffff", SPLIT_BOTH, table_next_outside, 0xffff,
     TABLES, 0, 0},
    {MR_FAULT_LOOP, "self", SPLIT_BOTH, loop_to_self, 100, 0, 0, 0},
    {MR_FAULT_LOOP, "self_empty", SPLIT_BOTH, loop_to_self, 0, 0, 0, 0},
    {MR_FAULT_LOOP, "two", SPLIT_BOTH, loop_of_two, 10, 0, 0, 0},
    {MR_FAULT_LOOP, "two_empty", SPLIT_BOTH, loop_of_two, 0, 0, 0, 0},
    {MR_FAULT_LOOP, "table", SPLIT_BOTH, loop_in_table, 10, TABLES, 0, 0},
    {MR_FAULT_LOOP, "table_empty", SPLIT_BOTH, loop_in_table, 0, TABLES, 0, 0},
    {MR_FAULT_LIST, "follower", PACKED_BOTH, follower_missing, 1, 0, 0, 0},
    {MR_FAULT_LIST, "follower_4", PACKED_BOTH, follower_missing, 4, 0, 0, 0},
    {MR_FAULT_LIST, "endless", PACKED_BOTH | ALONE, list_fills_ring, 4, 0, 0,
     0},
    {MR_FAULT_LIST, "endless_empty", PACKED_BOTH | ALONE, list_fills_ring, 0,
     0, 0, 0},
    {MR_FAULT_INDIRECT, "no_feature", ALL, table_of_bytes, 16, 0, 0, 0},
    {MR_FAULT_INDIRECT, "empty", ALL, table_of_bytes, 0, TABLES, 0, 0},
    {MR_FAULT_INDIRECT, "bytes_8", ALL, table_of_bytes, 8, TABLES, 0, 0},
    {MR_FAULT_INDIRECT, "bytes_17", ALL, table_of_bytes, 17, TABLES, 0, 0},
    {MR_FAULT_INDIRECT, "too_long", ALL, table_of_bytes, 16 * 17, TABLES, 0,
     0},
    {MR_FAULT_INDIRECT, "huge", ALL, table_of_bytes, 0xfffffff0, TABLES, 0, 0},
    {MR_FAULT_INDIRECT, "with_next", ALL, table_with_next, 0, TABLES, 0, 0},
    {MR_FAULT_INDIRECT, "in_chain", PACKED_BOTH, chain_with_table, 0, TABLES,
     0, 0},
    {MR_FAULT_INDIRECT, "nested", SPLIT_BOTH, table_nested, 0, TABLES, 0, 0},
    {MR_FAULT_ADDRESS, "outside", ALL, address_outside, 100, 0, 0, 0},
    {MR_FAULT_ADDRESS, "outside_empty", ALL, address_outside, 0, 0, 0, 0},
    {MR_FAULT_ADDRESS, "outside_huge", ALL, address_outside, UINT32_MAX, 0, 0,
     0},
    {MR_FAULT_ADDRESS, "null", ALL, address_zero, 100, 0, 0, 0},
    {MR_FAULT_ADDRESS, "wraps", ALL, address_wraps, 100, 0, 0, 0},
    {MR_FAULT_ADDRESS, "end", ALL, end_outside, 41, 0, 0, 0},
    {MR_FAULT_ADDRESS, "end_huge", ALL, end_outside, UINT32_MAX, 0, 0, 0},
    {MR_FAULT_ADDRESS, "second", ALL, second_part_outside, 100, 0, 0, 0},
    {MR_FAULT_ADDRESS, "second_empty", ALL, second_part_outside, 0, 0, 0, 0},
    {MR_FAULT_ADDRESS, "table", ALL, table_outside, 32, TABLES, 0, 0},
    {MR_FAULT_ADDRESS, "table_end", ALL, table_end_outside, 32, TABLES, 0, 0},
    {MR_FAULT_ADDRESS, "entry", ALL, table_entry_outside, 100, TABLES, 0, 0},
    {MR_FAULT_ADDRESS, "entry_empty", ALL, table_entry_outside, 0, TABLES, 0,
     0},
    {MR_FAULT_DIRECTION, "whole", ALL, wrong_direction, 100, 0, 0, 0},
    {MR_FAULT_DIRECTION, "empty", ALL, wrong_direction, 0, 0, 0, 0},
    {MR_FAULT_DIRECTION, "first", ALL, mixed_directions, 0, 0, 0, 0},
    {MR_FAULT_DIRECTION, "middle", ALL, mixed_directions, 1, 0, 0, 0},
    {MR_FAULT_DIRECTION, "last", ALL, mixed_directions, 2, 0, 0, 0},
    {MR_FAULT_DIRECTION, "table", ALL & ~ON_PACKED, mixed_in_table, 100,
     TABLES, 0, 0},
    {MR_FAULT_SEGMENTS, "chain", ALL, many_parts, 257, 0, 512, 0},
    {MR_FAULT_SEGMENTS, "chain_300", ALL, many_parts, 300, 0, 512, 0},
    {MR_FAULT_SEGMENTS, "table", ALL, many_entries, 257, TABLES, 512, 8192},
    {MR_FAULT_SEGMENTS, "empties", ALL, many_empties, 257, 0, 512, 0},
    {MR_FAULT_RUNT, "nothing", ALL, of_length, 0, 0, 0, 0},
    {MR_FAULT_RUNT, "one", ALL, of_length, 1, 0, 0, 0},
    {MR_FAULT_RUNT, "header_less_one", ALL, of_length, 11, 0, 0, 0},
    {MR_FAULT_RUNT, "header", RX, of_length, 12, 0, 0, 0},
    {MR_FAULT_RUNT, "header_and_one", RX, of_length, 13, 0, 0, 0},
    {MR_FAULT_RUNT, "short_of_ethernet", RX, of_length, 25, 0, 0, 0},
    {MR_FAULT_RUNT, "empties", ALL, of_two_lengths, 0, 0, 0, 0},
    {MR_FAULT_RUNT, "empty_and_few", ALL, of_two_lengths, 11, 0, 0, 0},
    {MR_FAULT_RUNT, "header_mrg", ALL, of_length, 11, MR_F(MRG_RXBUF), 0, 0},
    {MR_FAULT_GIANT, "by_one", RX, of_length, 12 + MR_FRAME_MAX + 1, 0, 0,
     80000},
    {MR_FAULT_GIANT, "2_32", RX, beyond_32_bits, 0, 0, 256, 69632},
    {MR_FAULT_GIANT, "2_32_and_few", RX, beyond_32_bits, 100, 0, 256, 69632},
    {MR_FAULT_OFFLOAD, "csum", RX, header_says, 0x0001, 0, 0, 0},
    {MR_FAULT_OFFLOAD, "tcp4", RX, header_says, 0x0100, 0, 0, 0},
    {MR_FAULT_OFFLOAD, "tcp4_csum", RX, header_says, 0x0101, 0, 0, 0},
    {MR_FAULT_OFFLOAD, "udp", RX, header_says, 0x0300, 0, 0, 0},
    {MR_FAULT_OFFLOAD, "ecn", RX, header_says, 0x8000, 0, 0, 0},
    {MR_FAULT_OFFLOAD, "unknown", RX, header_says, 0x7f00, 0, 0, 0},
    {MR_FAULT_OFFLOAD, "in_pieces", RX, header_says, 0x10101, 0, 0, 0},
};

/* ---- What then must happen --------------------------------------------- */

static struct mr_pkt *pkts[MR_BURST_MAX];

/* n good frames through the ring, around what lies in it already. */
static uint32_t
good_in(struct rig *rig, uint32_t n)
{
    uint8_t frame[60];
    uint32_t i = 0;

    frame_fill(frame, 60, 0);
    while (i < n && (rig->setup.rx
                         ? peer_send(&rig->peer, &WHOLE, frame, 60)
                         : peer_post(&rig->peer, &WHOLE, 1600)) == 1)
        i++;
    return i;
}

/* One burst of n packets either way; how many crossed. */
static uint32_t
burst(struct rig *rig, uint32_t n)
{
    uint32_t done;

    if (rig->setup.rx) {
        done = rig->burst(&rig->ring, pkts, n);
        for (uint32_t i = 0; i < done; i++)
            assert_true(frame_packet_same(pkts[i], 60, 0));
        mr_pkts_free(pkts, done);
        return done;
    }
    for (uint32_t i = 0; i < n; i++)
        pkts[i] = frame_packet(rig->pool, 60, 0);
    done = rig->burst(&rig->ring, pkts, n);
    mr_pkts_free(pkts + done, n - done);
    return done;
}

/* The bad buffer in the middle of one burst. */
static void
skipped_in_the_middle(struct rig *rig, const struct row *row)
{
    uint32_t good, unused;

    assert_int_equal(good_in(rig, 2), 2);
    row->bad(rig, row->arg);
    assert_int_equal(good_in(rig, 2), 2);
    rig_seal(rig);
    assert_int_equal(burst(rig, rig->setup.rx ? 8 : 4), 4);
    if (!rig_seal_check(rig, !rig->setup.rx))
        fail_msg("%s", rig->error);
    collect(rig, &good, &unused);
    assert_int_equal(good, 4);
    assert_int_equal(unused, 1);
    check_faults(rig, row->fault, 1);
}

/* C6: after more bad buffers than the ring has entries, and with the counters
 * telling, it still takes as many good ones as ever. */
static void
capacity_is_kept(struct rig *rig, const struct row *row)
{
    uint32_t good, unused, n = rig->setup.size > 64 ? 8 : rig->setup.size + 3;
    uint32_t most = MR_MIN(rig->setup.size, (uint32_t)MR_BURST_MAX);

    for (uint32_t i = 0; i < n; i++) {
        row->bad(rig, row->arg);
        if (!rig->setup.rx)
            good_in(rig, 1);
        assert_int_equal(burst(rig, 1), !rig->setup.rx);
        collect(rig, &good, &unused);
        assert_int_equal(unused, 1);
    }
    check_faults(rig, row->fault, 1 + n);
    assert_int_equal(rig->counters.skipped, 1 + n);
    assert_int_equal(good_in(rig, most), most);
    assert_int_equal(burst(rig, most), most);
    collect(rig, &good, &unused);
    assert_int_equal(good, most);
    assert_int_equal(rig->counters.packets, 4 + most + (rig->setup.rx ? 0 : n));
}

static void
skipped(struct rig *rig, const struct row *row)
{
    skipped_in_the_middle(rig, row);
    capacity_is_kept(rig, row);
    assert_int_equal(rig->ring.fault, MR_FAULT_NONE);
}

/* Nothing may change any more, whatever is offered and asked for. */
static void
stays_broken(struct rig *rig, enum mr_fault fault)
{
    assert_int_equal(rig->ring.fault, fault);
    rig_notified(rig);
    rig_seal(rig);
    for (int i = 0; i < 3; i++)
        assert_int_equal(burst(rig, 4), 0);
    assert_memory_equal(rig->guest.map, rig->snapshot, rig->guest.size);
    assert_int_equal(rig_notified(rig), 0);
    check_faults(rig, fault, 1);
}

static void
broken(struct rig *rig, const struct row *row)
{
    bool around = !(row->where & ALONE);
    uint32_t before = around ? 2 : 0;

    if (around)
        good_in(rig, 2);
    row->bad(rig, row->arg);
    if (around && row->fault != MR_FAULT_LIST)
        good_in(rig, 2); /* behind a LIST they would be its followers */
    rig_seal(rig);
    assert_int_equal(burst(rig, 8), before);
    if (!rig_seal_check(rig, !rig->setup.rx))
        fail_msg("%s", rig->error);
    assert_int_equal(rig->counters.packets, before);
    stays_broken(rig, row->fault);
}

static void
hostile(void **state)
{
    const struct trial *t = *state;
    const struct row *row = t->row;
    struct rig rig;

    open_trial(&rig, t, false);
    if (mr_fault_row(row->fault)->broken)
        broken(&rig, row);
    else
        skipped(&rig, row);
    close_trial(&rig);
}

/* ---- Every fault has a row --------------------------------------------- */

/* Faults that only our driver side can meet: faults_driver.c. */
static bool
is_drivers(uint32_t fault)
{
    static const enum mr_fault list[] = {
        MR_FAULT_USED_INDEX, MR_FAULT_USED_ID, MR_FAULT_USED_LENGTH,
        MR_FAULT_USED_SHORT, MR_FAULT_NUM_BUFFERS};

    for (size_t i = 0; i < MR_COUNT_OF(list); i++)
        if (list[i] == fault)
            return true;
    return false;
}

static void
every_fault_of_the_device_side_has_a_case(void **state)
{
    (void)state;
    for (uint32_t f = 1; f < MR_FAULT_COUNT; f++) {
        bool found = f == MR_FAULT_ROOM || f == MR_FAULT_RING_SETUP ||
                     f == MR_FAULT_MEMORY_LOST || is_drivers(f);

        for (size_t i = 0; i < MR_COUNT_OF(rows); i++)
            found |= rows[i].fault == f;
        if (!found)
            fail_msg("no case for %s", mr_fault_row(f)->name);
    }
}

/* ---- The program ------------------------------------------------------- */

enum { TESTS_MAX = 1000 };

static struct CMUnitTest tests[TESTS_MAX];
static struct trial trials[TESTS_MAX];
static char names[TESTS_MAX][96];
static size_t n_tests;

static void
add(const char *name, CMUnitTestFunction fn, void *state)
{
    tests[n_tests] = (struct CMUnitTest){name, fn, NULL, NULL, state};
    n_tests++;
}

static void
add_rows(void)
{
    for (size_t i = 0; i < 8 * MR_COUNT_OF(rows); i++) {
        const struct row *row = &rows[i / 8];
        struct trial *t = &trials[n_tests];

        *t = (struct trial){row, i & 1, !(i & 2), i & 4};
        if (!(row->where & (t->packed ? ON_PACKED : ON_SPLIT)) ||
            !(row->where & (t->rx ? TO_RX : TO_TX)))
            continue;
        snprintf(names[n_tests], sizeof(names[0]), "%s_%s_%s_%s%s",
                 mr_fault_row(row->fault)->name, row->name,
                 t->packed ? "packed" : "split", t->rx ? "rx" : "tx",
                 t->spliced ? "_spliced" : "");
        add(names[n_tests], hostile, t);
    }
}

int
main(void)
{
    add("every_fault_of_the_device_side_has_a_case",
        every_fault_of_the_device_side_has_a_case, NULL);
    add_rows();
    return _cmocka_run_group_tests("faults_device", tests, n_tests, eal_setup,
                                   NULL);
}
