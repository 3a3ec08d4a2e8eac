/* What lies where in shared memory: sizes of ring parts and of the header, and
 * the numbers of the feature bits, against the tables of virtqueues 1, 3.1,
 * 4.1 and virtio-net 2, 4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ring/layout.h"

static void
split_part_sizes_with_event_words(void **state)
{
    static const uint32_t row[][4] = {{128, 2048, 262, 1030},
                                      {256, 4096, 518, 2054},
                                      {1024, 16384, 2054, 8198},
                                      {32768, 524288, 65542, 262150},
                                      {1, 16, 8, 14}};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(row); i++)
        for (int part = 0; part < 3; part++)
            assert_int_equal(mr_ring_part_bytes(false, true, row[i][0], part),
                             row[i][1 + part]);
}

static void
S3_event_words_need_memory_only_with_event_idx(void **state)
{
    (void)state;
    assert_int_equal(mr_ring_part_bytes(false, false, 256, 0), 4096);
    assert_int_equal(mr_ring_part_bytes(false, false, 256, 1), 516);
    assert_int_equal(mr_ring_part_bytes(false, false, 256, 2), 2052);
}

static void
packed_part_sizes(void **state)
{
    static const uint32_t sizes[] = {1, 3, 255, 256, 1000, 32768};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(sizes); i++)
        for (int event = 0; event < 2; event++) {
            assert_int_equal(mr_ring_part_bytes(true, event, sizes[i], 0),
                             16 * sizes[i]);
            assert_int_equal(mr_ring_part_bytes(true, event, sizes[i], 1), 4);
            assert_int_equal(mr_ring_part_bytes(true, event, sizes[i], 2), 4);
        }
}

/* Virtio-net 4; hostile input D10. */
static void
N16_header_size_follows_from_the_features(void **state)
{
    const uint64_t v1 = 1ull << 32, mrg = 1 << 15, packed = 1ull << 34;

    (void)state;
    assert_int_equal(mr_net_header_bytes(0), 10);
    assert_int_equal(mr_net_header_bytes(~(v1 | mrg | packed)), 10);
    assert_int_equal(mr_net_header_bytes(v1), 12);
    assert_int_equal(mr_net_header_bytes(mrg), 12);
    assert_int_equal(mr_net_header_bytes(packed), 12);
    assert_int_equal(mr_net_header_bytes(v1 | mrg | packed), 12);
}

static void
header_fields_lie_where_the_standard_puts_them(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct mr_net_header, flags), 0);
    assert_int_equal(offsetof(struct mr_net_header, gso_type), 1);
    assert_int_equal(offsetof(struct mr_net_header, hdr_len), 2);
    assert_int_equal(offsetof(struct mr_net_header, gso_size), 4);
    assert_int_equal(offsetof(struct mr_net_header, csum_start), 6);
    assert_int_equal(offsetof(struct mr_net_header, csum_offset), 8);
    assert_int_equal(offsetof(struct mr_net_header, num_buffers), 10);
}

static void
descriptor_fields_lie_where_the_standard_puts_them(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct mr_split_desc, len), 8);
    assert_int_equal(offsetof(struct mr_split_desc, flags), 12);
    assert_int_equal(offsetof(struct mr_split_desc, next), 14);
    assert_int_equal(offsetof(struct mr_packed_desc, len), 8);
    assert_int_equal(offsetof(struct mr_packed_desc, id), 12);
    assert_int_equal(offsetof(struct mr_packed_desc, flags), 14);
    assert_int_equal(offsetof(struct mr_split_avail, ring), 4);
    assert_int_equal(offsetof(struct mr_split_used, ring), 4);
    assert_int_equal(offsetof(struct mr_packed_event, flags), 2);
}

static void
feature_bits_have_the_numbers_of_the_standard(void **state)
{
    static const uint8_t row[][2] = {
        {MR_F_CSUM, 0}, {MR_F_GUEST_CSUM, 1}, {MR_F_MTU, 3}, {MR_F_MAC, 5},
        {MR_F_GUEST_TSO4, 7}, {MR_F_HOST_TSO4, 11}, {MR_F_MRG_RXBUF, 15},
        {MR_F_STATUS, 16}, {MR_F_CTRL_VQ, 17}, {MR_F_MQ, 22},
        {MR_F_NOTIFY_ON_EMPTY, 24}, {MR_F_LOG_ALL, 26},
        {MR_F_ANY_LAYOUT, 27}, {MR_F_INDIRECT_DESC, 28},
        {MR_F_EVENT_IDX, 29}, {MR_F_PROTOCOL_FEATURES, 30},
        {MR_F_VERSION_1, 32}, {MR_F_ACCESS_PLATFORM, 33},
        {MR_F_RING_PACKED, 34}, {MR_F_IN_ORDER, 35},
        {MR_F_ORDER_PLATFORM, 36}, {MR_F_NOTIFICATION_DATA, 38},
        {MR_F_RING_RESET, 40},
    };

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(row); i++)
        assert_int_equal(row[i][0], row[i][1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_part_sizes_with_event_words),
        cmocka_unit_test(S3_event_words_need_memory_only_with_event_idx),
        cmocka_unit_test(packed_part_sizes),
        cmocka_unit_test(N16_header_size_follows_from_the_features),
        cmocka_unit_test(header_fields_lie_where_the_standard_puts_them),
        cmocka_unit_test(descriptor_fields_lie_where_the_standard_puts_them),
        cmocka_unit_test(feature_bits_have_the_numbers_of_the_standard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
