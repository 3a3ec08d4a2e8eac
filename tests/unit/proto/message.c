/* The list of requests and the checks that need no session. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/message.h"

static struct mr_message msg;

static int
check(uint32_t request, uint32_t size, uint32_t nfds)
{
    msg.request = request;
    msg.size = size;
    return mr_message_check(mr_message_row(request), &msg, nfds);
}

/* Numbers, payload bytes, fds and answers as the document has them, written
 * down once more. */
static void
rows_say_what_the_protocol_says(void **state)
{
    static const struct {
        uint32_t number, bytes, fds_min, fds_max;
        enum mr_payload reply;
    } want[] = {
        {1, 0, 0, 0, MR_PAYLOAD_U64},   {2, 8, 0, 0, MR_PAYLOAD_NONE},
        {3, 0, 0, 0, MR_PAYLOAD_NONE},  {4, 0, 0, 0, MR_PAYLOAD_NONE},
        {5, 8, 0, 8, MR_PAYLOAD_NONE},  {7, 0, 1, 1, MR_PAYLOAD_NONE},
        {8, 8, 0, 0, MR_PAYLOAD_NONE},  {9, 40, 0, 0, MR_PAYLOAD_NONE},
        {10, 8, 0, 0, MR_PAYLOAD_NONE}, {11, 8, 0, 0, MR_PAYLOAD_STATE},
        {12, 8, 0, 1, MR_PAYLOAD_NONE}, {13, 8, 0, 1, MR_PAYLOAD_NONE},
        {14, 8, 0, 1, MR_PAYLOAD_NONE}, {15, 0, 0, 0, MR_PAYLOAD_U64},
        {16, 8, 0, 0, MR_PAYLOAD_NONE}, {17, 0, 0, 0, MR_PAYLOAD_U64},
        {18, 8, 0, 0, MR_PAYLOAD_NONE},
    };
    uint32_t rows = 0;

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(want); i++) {
        const struct mr_message_row *row = mr_message_row(want[i].number);

        assert_non_null(row);
        assert_int_equal(row->fds_min, want[i].fds_min);
        assert_int_equal(row->fds_max, want[i].fds_max);
        assert_int_equal(row->reply, want[i].reply);
        memset(&msg.payload, 0, sizeof(msg.payload));
        msg.payload.u64 =
            row->payload == MR_PAYLOAD_FD_WORD ? MR_FD_WORD_NONE : 0;
        assert_int_equal(check(want[i].number, want[i].bytes, row->fds_min),
                         0);
    }
    for (uint32_t request = 0; request < 100; request++)
        rows += mr_message_row(request) != NULL;
    assert_int_equal(rows, MR_COUNT_OF(want));
}

static void
v113_numbers_without_a_row_have_none(void **state)
{
    static const uint32_t none[] = {0,  6,   19,         20,        33,
                                    44, 200, 0x7fffffff, 0xffffffff};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(none); i++)
        assert_null(mr_message_row(none[i]));
    assert_string_equal(mr_message_name(0xffffffff), "request 4294967295");
    assert_string_equal(mr_message_name(18), "SET_VRING_ENABLE");
}

/* V111, V112: every request, with every size but its own. */
static void
v111_v112_other_sizes_are_refused(void **state)
{
    (void)state;
    memset(&msg.payload, 0, sizeof(msg.payload));
    for (uint32_t request = 1; request <= MR_REQUEST_MAX; request++) {
        const struct mr_message_row *row = mr_message_row(request);

        if (!row)
            continue;
        msg.payload.u64 =
            row->payload == MR_PAYLOAD_FD_WORD ? MR_FD_WORD_NONE : 0;
        for (uint32_t size = 0; size <= MR_PAYLOAD_MAX; size++) {
            static const uint32_t fixed[] = {0, 8, 8, 8, 40};
            bool right = row->payload == MR_PAYLOAD_TABLE
                             ? size >= 8 && size <= 264
                             : size == fixed[row->payload];

            assert_int_equal(check(request, size, row->fds_min),
                             right ? 0 : -EINVAL);
        }
    }
}

static void
v19_table_may_come_short_or_full(void **state)
{
    (void)state;
    memset(&msg.payload, 0, sizeof(msg.payload));
    for (uint32_t n = 0; n <= 8; n++) {
        msg.payload.table.n = n;
        assert_int_equal(check(5, 8 + 32 * n, n), 0);
        assert_int_equal(check(5, 264, n), 0);
        if (n)
            assert_int_equal(check(5, 8 + 32 * n - 1, n), -EINVAL);
    }
}

static void
v128_region_count_must_fit_and_match_the_fds(void **state)
{
    static const uint32_t bad[] = {9, 32, 0x08000001, 0x80000000, 0xffffffff};

    (void)state;
    memset(&msg.payload, 0, sizeof(msg.payload));
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        msg.payload.table.n = bad[i];
        for (uint32_t nfds = 0; nfds <= 8; nfds++)
            assert_int_equal(check(5, 264, nfds), -EINVAL);
    }
    for (uint32_t n = 0; n <= 8; n++)
        for (uint32_t nfds = 0; nfds <= 8; nfds++) {
            msg.payload.table.n = n;
            assert_int_equal(check(5, 264, nfds), n == nfds ? 0 : -EINVAL);
        }
}

static void
v115_v116_v118_fds_as_the_row_says(void **state)
{
    (void)state;
    memset(&msg.payload, 0, sizeof(msg.payload));
    for (uint32_t nfds = 1; nfds <= 8; nfds++) {
        assert_int_equal(check(1, 0, nfds), -EINVAL);
        assert_int_equal(check(2, 8, nfds), -EINVAL);
        assert_int_equal(check(7, 0, nfds), nfds == 1 ? 0 : -EINVAL);
        assert_int_equal(check(12, 8, nfds), nfds == 1 ? 0 : -EINVAL);
    }
    assert_int_equal(check(7, 0, 0), -EINVAL);
}

static void
v117_bit_8_and_fd_must_agree(void **state)
{
    static const uint64_t beyond[] = {0x200, 0x10000, 0xffffffff,
                                      1ull << 63 | 0x100};

    (void)state;
    for (uint32_t request = 12; request <= 14; request++)
        for (uint64_t ring = 0; ring < 256; ring++) {
            msg.payload.u64 = ring;
            assert_int_equal(check(request, 8, 1), 0);
            assert_int_equal(check(request, 8, 0), -EINVAL);
            msg.payload.u64 = ring | 0x100;
            assert_int_equal(check(request, 8, 0), 0);
            assert_int_equal(check(request, 8, 1), -EINVAL);
        }
    for (size_t i = 0; i < MR_COUNT_OF(beyond); i++) {
        msg.payload.u64 = beyond[i];
        assert_int_equal(check(12, 8, 0), -EINVAL);
        assert_int_equal(check(12, 8, 1), -EINVAL);
    }
}

static void
v2_reply_has_flags_5(void **state)
{
    struct mr_message reply;

    (void)state;
    memset(&reply, 0xff, sizeof(reply));
    mr_message_reply(&reply, 17, 8);
    assert_int_equal(reply.request, 17);
    assert_int_equal(reply.flags, 5);
    assert_int_equal(reply.payload.u64, 0);
    assert_int_equal(mr_message_bytes(&reply), 20);
    assert_ptr_equal(mr_message_wire(&reply), &reply.request);
}

static void
replies_are_checked_against_their_request(void **state)
{
    struct mr_message reply;

    (void)state;
    mr_message_reply(&reply, 11, 8);
    assert_int_equal(mr_message_check_reply(&reply, 0, 11, false), 0);
    assert_int_equal(mr_message_check_reply(&reply, 0, 1, false), -EPROTO);
    assert_int_equal(mr_message_check_reply(&reply, 1, 11, false), -EPROTO);
    mr_message_reply(&reply, 5, 8);
    assert_int_equal(mr_message_check_reply(&reply, 0, 5, true), 0);
    mr_message_reply(&reply, 5, 0);
    assert_int_equal(mr_message_check_reply(&reply, 0, 5, true), -EPROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_say_what_the_protocol_says),
        cmocka_unit_test(v113_numbers_without_a_row_have_none),
        cmocka_unit_test(v111_v112_other_sizes_are_refused),
        cmocka_unit_test(v19_table_may_come_short_or_full),
        cmocka_unit_test(v128_region_count_must_fit_and_match_the_fds),
        cmocka_unit_test(v115_v116_v118_fds_as_the_row_says),
        cmocka_unit_test(v117_bit_8_and_fd_must_agree),
        cmocka_unit_test(v2_reply_has_flags_5),
        cmocka_unit_test(replies_are_checked_against_their_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
