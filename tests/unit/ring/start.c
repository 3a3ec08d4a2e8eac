/* Setting a ring up: what is refused (S1, S2, P1, P2, V123, V125, B6), where
 * it then stands (B2-B5), and that stopping is always allowed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "ring/ring.h"

enum { AREA = 600000 };

/* Memory for three ring parts, far enough apart for every size. */
static uint8_t area[3][AREA] MR_ALIGNED(64);
static struct mr_counters counters;

static struct mr_ring_config
config(uint64_t features, uint32_t size, uint32_t base)
{
    memset(area, 0, sizeof(area));
    return (struct mr_ring_config){
        .features = features | MR_F(VERSION_1),
        .size = size,
        .base = base,
        .rx = true,
        .part = {area[0], area[1], area[2]},
        .counters = &counters,
        .notify_fd = -1,
    };
}

static const uint64_t PACKED = MR_F(RING_PACKED);

static int
start(const struct mr_ring_config *c)
{
    struct mr_ring ring = {0};
    int rc = mr_ring_start(&ring, c);

    mr_ring_stop(&ring);
    return rc;
}

static void
refused(const struct mr_ring_config *c, const char *rule)
{
    assert_int_equal(start(c), -EINVAL);
    if (!strstr(mr_error_text(), rule))
        fail_msg("no %s in \"%s\"", rule, mr_error_text());
}

static void
S1_split_size_is_a_power_of_two_up_to_32768(void **state)
{
    static const uint32_t bad[] = {0, 3, 5, 1000, 32767, 32769, 65535, 65536,
                                   65536 + 256, 1u << 31, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        struct mr_ring_config c = config(0, bad[i], 0);

        refused(&c, "S1");
    }
    for (uint32_t size = 1; size <= 32768; size *= 2) {
        struct mr_ring_config c = config(0, size, 0);

        assert_int_equal(start(&c), 0);
    }
}

static void
P1_packed_size_is_anything_up_to_32768(void **state)
{
    static const uint32_t bad[] = {0, 32769, 65535, 65536, 65537, 1u << 31};
    static const uint32_t good[] = {1, 2, 3, 7, 255, 1000, 32767, 32768};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        struct mr_ring_config c = config(PACKED, bad[i], 0x80008000);

        refused(&c, "P1");
    }
    for (size_t i = 0; i < MR_COUNT_OF(good); i++) {
        struct mr_ring_config c = config(PACKED, good[i], 0x80008000);

        assert_int_equal(start(&c), 0);
    }
}

/* Every part, one step below its alignment and at it. */
static void
alignment(uint64_t features, const uint8_t align[3], const char *rule)
{
    for (int i = 0; i < 3; i++) {
        struct mr_ring_config c = config(features, 16, 0);

        c.part[i] = area[i] + align[i] / 2;
        refused(&c, rule);
        c.part[i] = area[i] + align[i];
        assert_int_equal(start(&c), 0);
    }
}

static void
S2_split_parts_are_aligned_to_16_2_4(void **state)
{
    (void)state;
    alignment(0, (const uint8_t[]){16, 2, 4}, "S2");
}

static void
P2_packed_parts_are_aligned_to_16_4_4(void **state)
{
    (void)state;
    alignment(PACKED, (const uint8_t[]){16, 4, 4}, "P2");
}

static void
V123_every_part_lies_in_guest_memory(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++)
        for (int i = 0; i < 3; i++) {
            struct mr_ring_config c = config(packed ? PACKED : 0, 16, 0);

            c.part[i] = NULL;
            refused(&c, "V123");
        }
}

static void
S74_V125_parts_do_not_overlap(void **state)
{
    struct mr_ring_config c = config(0, 16, 0);

    (void)state;
    c.part[1] = area[0] + 16 * 16 - 2;
    refused(&c, "V125");
    c.part[1] = area[0] + 16 * 16; /* the legal neighbour */
    assert_int_equal(start(&c), 0);
    c.part[2] = area[0] + 16 * 16 + 4 + 2 * 16;
    assert_int_equal(start(&c), 0);
    c.part[2] = area[0] + 16 * 16 + 2 * 16;
    refused(&c, "V125");
    c = config(PACKED, 16, 0);
    c.part[2] = c.part[1];
    refused(&c, "V125");
}

/* S3: an available ring whose event word would run into the used ring. */
static void
S3_event_word_counts_only_with_event_idx(void **state)
{
    struct mr_ring_config c = config(0, 16, 0);

    (void)state;
    c.part[2] = area[1] + 4 + 2 * 16;
    assert_int_equal(start(&c), 0);
    c.features |= MR_F(EVENT_IDX);
    refused(&c, "V125");
}

static uint32_t
base_of(uint64_t features, uint32_t size, uint32_t base, uint16_t used_idx)
{
    struct mr_ring_config c = config(features, size, base);
    struct mr_ring ring = {0};
    uint32_t now;

    if (!(features & PACKED))
        ((struct mr_split_used *)(void *)area[2])->idx = used_idx;
    assert_int_equal(mr_ring_start(&ring, &c), 0);
    now = mr_ring_base(&ring);
    mr_ring_stop(&ring);
    assert_int_equal(mr_ring_base(&ring), now); /* readable after the stop */
    return now;
}

static void
B2_base_of_a_fresh_ring(void **state)
{
    (void)state;
    assert_int_equal(base_of(0, 256, 0, 0), 0);
    assert_int_equal(base_of(PACKED, 256, 0x80008000, 0), 0x80008000);
}

static void
B3_B4_packed_base_without_a_used_half(void **state)
{
    (void)state;
    assert_int_equal(base_of(PACKED, 256, 0x8000, 0), 0x80008000);
    assert_int_equal(base_of(PACKED, 256, 0x8007, 0), 0x80078007);
    assert_int_equal(base_of(PACKED, 256, 0x0007, 0), 0x00070007);
}

static void
B5_B8_packed_base_keeps_both_halves_and_wraps(void **state)
{
    (void)state;
    assert_int_equal(base_of(PACKED, 256, 0x00050005, 0), 0x00050005);
    assert_int_equal(base_of(PACKED, 256, 0x80ff80ff, 0), 0x80ff80ff);
    assert_int_equal(base_of(PACKED, 256, 0x80fe0003, 0), 0x80fe0003);
    assert_int_equal(base_of(PACKED, 32768, 0xffffffff, 0), 0xffffffff);
}

static void
B6_packed_position_is_below_the_size(void **state)
{
    static const uint32_t bad[] = {0x80058005, 0x80008005, 0x80058000,
                                   0x00000005, 0x7fff8000, 0x80007fff};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        struct mr_ring_config c = config(PACKED, 5, bad[i]);

        refused(&c, "B6");
    }
    assert_int_equal(base_of(PACKED, 5, 0x80048004, 0), 0x80048004);
}

static void
B6_split_base_ignores_the_high_half(void **state)
{
    (void)state;
    assert_int_equal(base_of(0, 256, 0xabcd1234, 0x1234), 0x1234);
}

/* A split index runs free: it is not reduced modulo the size. */
static void
S5_split_base_is_any_16_bit_value(void **state)
{
    (void)state;
    assert_int_equal(base_of(0, 4, 0xffff, 0xffff), 0xffff);
    assert_int_equal(base_of(0, 32768, 0x8001, 0x8001), 0x8001);
}

/* S19: the used index in memory is where the device goes on; nothing of ours
 * is in flight, so it is the available position too. */
static void
S19_S20_device_goes_on_at_the_used_index_in_memory(void **state)
{
    (void)state;
    assert_int_equal(base_of(0, 256, 7, 5), 5);
}

static void
stop_is_allowed_on_a_ring_that_never_started(void **state)
{
    struct mr_ring ring = {0};

    (void)state;
    mr_ring_stop(&ring);
    mr_ring_stop(&ring);
}

static void
dump_tells_what_it_wanted_and_stays_inside(void **state)
{
    struct mr_ring_config c = config(PACKED, 16, 0x80008000);
    struct mr_ring ring = {0};
    char text[2048], small[8] = "1234567";
    uint32_t n;

    (void)state;
    n = mr_ring_dump(&ring, text, sizeof(text));
    assert_int_equal(n, strlen(text));
    assert_int_equal(mr_ring_start(&ring, &c), 0);
    n = mr_ring_dump(&ring, text, sizeof(text));
    assert_int_equal(n, strlen(text));
    assert_non_null(strstr(text, "packed"));
    assert_int_equal(mr_ring_dump(&ring, small, 4), n);
    assert_string_equal(small + 4, "567");
    mr_ring_stop(&ring);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S1_split_size_is_a_power_of_two_up_to_32768),
        cmocka_unit_test(P1_packed_size_is_anything_up_to_32768),
        cmocka_unit_test(S2_split_parts_are_aligned_to_16_2_4),
        cmocka_unit_test(P2_packed_parts_are_aligned_to_16_4_4),
        cmocka_unit_test(V123_every_part_lies_in_guest_memory),
        cmocka_unit_test(S74_V125_parts_do_not_overlap),
        cmocka_unit_test(S3_event_word_counts_only_with_event_idx),
        cmocka_unit_test(B2_base_of_a_fresh_ring),
        cmocka_unit_test(B3_B4_packed_base_without_a_used_half),
        cmocka_unit_test(B5_B8_packed_base_keeps_both_halves_and_wraps),
        cmocka_unit_test(B6_packed_position_is_below_the_size),
        cmocka_unit_test(B6_split_base_ignores_the_high_half),
        cmocka_unit_test(S5_split_base_is_any_16_bit_value),
        cmocka_unit_test(S19_S20_device_goes_on_at_the_used_index_in_memory),
        cmocka_unit_test(stop_is_allowed_on_a_ring_that_never_started),
        cmocka_unit_test(dump_tells_what_it_wanted_and_stays_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
