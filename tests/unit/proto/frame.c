/* Framing: bytes and fds in any pieces, and who closes what. */
#include "unit/proto/peer.h"

static struct mr_frame frame;

/* Feeds `bytes` in pieces of at most `step` bytes; fds with the first. */
static int
feed(const void *bytes, size_t len, size_t step, const int *fds, uint32_t nfds)
{
    const uint8_t *from = bytes;
    int rc = 0;

    while (len && !rc) {
        size_t room;
        void *to = mr_frame_want(&frame, &room);
        size_t n = MR_MIN(MR_MIN(room, len), step);

        assert_true(room > 0);
        memcpy(to, from, n);
        rc = mr_frame_take(&frame, n, fds, nfds, false);
        from += n;
        len -= n;
        nfds = 0;
    }
    assert_true(rc < 0 || len == 0);
    return rc;
}

static int
new_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void
v5_asks_for_the_header_then_for_the_payload(void **state)
{
    static const uint32_t words[] = {18, 1, 8, 3, 1};
    size_t len;

    (void)state;
    mr_frame_init(&frame, false);
    memcpy(mr_frame_want(&frame, &len), words, 12);
    assert_int_equal(len, 12);
    assert_int_equal(mr_frame_take(&frame, 12, NULL, 0, false), 0);
    memcpy(mr_frame_want(&frame, &len), words + 3, 8);
    assert_int_equal(len, 8);
    assert_int_equal(mr_frame_take(&frame, 8, NULL, 0, false), 1);
    assert_int_equal(frame.msg.payload.state.index, 3);
    assert_int_equal(frame.msg.payload.state.num, 1);
    mr_frame_next(&frame);
    mr_frame_want(&frame, &len);
    assert_int_equal(len, 12);
}

static void
v5_every_split_gives_the_same_message(void **state)
{
    static const uint32_t words[] = {18, 1, 8, 3, 1};

    (void)state;
    mr_frame_init(&frame, false);
    for (size_t step = 1; step <= sizeof(words); step++) {
        assert_true(mr_frame_idle(&frame));
        assert_int_equal(feed(words, sizeof(words), step, NULL, 0), 1);
        assert_false(mr_frame_idle(&frame));
        assert_int_equal(frame.msg.request, 18);
        assert_int_equal(frame.msg.payload.state.index, 3);
        mr_frame_next(&frame);
    }
}

static void
v6_a_short_payload_shows_nothing_old(void **state)
{
    uint32_t words[3 + 66];

    (void)state;
    memset(words, 0xee, sizeof(words));
    memcpy(words, (uint32_t[]){5, 1, 264}, 12);
    mr_frame_init(&frame, false);
    assert_int_equal(feed(words, sizeof(words), 4096, NULL, 0), 1);
    mr_frame_next(&frame);
    assert_int_equal(feed((uint32_t[]){5, 1, 4, 7}, 16, 4096, NULL, 0), 1);
    assert_int_equal(frame.msg.payload.table.n, 7);
    for (size_t i = 4; i < MR_PAYLOAD_MAX; i++)
        assert_int_equal(frame.msg.payload.bytes[i], 0);
    mr_frame_fini(&frame);
}

static int
header(uint32_t request, uint32_t flags, uint32_t size, bool replies)
{
    uint32_t words[3] = {request, flags, size};
    int rc;

    mr_frame_init(&frame, replies);
    rc = feed(words, sizeof(words), 12, NULL, 0);
    mr_frame_fini(&frame);
    return rc;
}

static void
v107_other_versions_end_the_stream(void **state)
{
    (void)state;
    assert_int_equal(header(1, 0, 0, false), -EPROTO);
    assert_int_equal(header(1, 2, 0, false), -EPROTO);
    assert_int_equal(header(1, 3, 0, false), -EPROTO);
    assert_int_equal(header(1, 1, 0, false), 1);
}

static void
v108_v2_reply_bit_by_direction(void **state)
{
    (void)state;
    assert_int_equal(header(1, 5, 0, false), -EPROTO);
    assert_int_equal(header(1, 1, 0, true), -EPROTO);
    assert_int_equal(header(1, 5, 0, true), 1);
    assert_int_equal(header(1, 13, 0, true), -EPROTO);
}

static void
v109_unknown_flags_are_ignored(void **state)
{
    (void)state;
    assert_int_equal(header(1, 0xfffffff1, 0, false), 1);
}

static void
v110_too_large_a_payload_ends_the_stream(void **state)
{
    (void)state;
    assert_int_equal(header(5, 1, MR_PAYLOAD_MAX, false), 0);
    assert_int_equal(header(5, 1, MR_PAYLOAD_MAX + 1, false), -EPROTO);
    assert_int_equal(header(5, 1, 0x80000000, false), -EPROTO);
    assert_int_equal(header(5, 1, 0xffffffff, false), -EPROTO);
}

static void
v38_fds_are_closed_once_or_handed_over(void **state)
{
    int before = fds_open();
    int fds[8];
    int mine;

    (void)state;
    mr_frame_init(&frame, false);
    for (int i = 0; i < 8; i++)
        fds[i] = new_fd();
    assert_int_equal(feed((uint32_t[]){1, 1, 0}, 12, 12, fds, 8), 1);
    mine = mr_frame_fd(&frame, 3);
    assert_int_equal(mine, fds[3]);
    assert_int_equal(mr_frame_fd(&frame, 3), -1);
    assert_int_equal(mr_frame_fd(&frame, 8), -1);
    assert_int_equal(mr_frame_fd(&frame, 0xffffffff), -1);
    mr_frame_next(&frame);
    assert_int_equal(fds_open(), before + 1);
    close(mine);
    mr_frame_fini(&frame);
    assert_int_equal(fds_open(), before);
}

static void
v4_v119_fds_after_the_first_byte_end_the_stream(void **state)
{
    int before = fds_open();

    (void)state;
    for (size_t first = 1; first < 20; first++) {
        size_t room;
        int early = new_fd();
        int late = new_fd();

        mr_frame_init(&frame, false);
        assert_int_equal(feed((uint32_t[]){18, 1, 8, 0, 0}, first, 12, &early,
                              1), 0);
        mr_frame_want(&frame, &room);
        assert_int_equal(mr_frame_take(&frame, 1, &late, 1, false), -EPROTO);
        mr_frame_fini(&frame);
        assert_int_equal(fds_open(), before);
    }
}

static void
v106_truncated_control_data_ends_the_stream(void **state)
{
    int before = fds_open();
    int fds[2] = {new_fd(), new_fd()};
    size_t room;

    (void)state;
    mr_frame_init(&frame, false);
    mr_frame_want(&frame, &room);
    assert_int_equal(mr_frame_take(&frame, 12, fds, 2, true), -EPROTO);
    mr_frame_fini(&frame);
    assert_int_equal(fds_open(), before);
}

static void
v105_end_inside_a_message_is_told_from_a_clean_one(void **state)
{
    (void)state;
    mr_frame_init(&frame, false);
    assert_true(mr_frame_idle(&frame));
    feed((uint32_t[]){1, 1, 0}, 5, 12, NULL, 0);
    assert_false(mr_frame_idle(&frame));
    mr_frame_fini(&frame);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v5_asks_for_the_header_then_for_the_payload),
        cmocka_unit_test(v5_every_split_gives_the_same_message),
        cmocka_unit_test(v6_a_short_payload_shows_nothing_old),
        cmocka_unit_test(v107_other_versions_end_the_stream),
        cmocka_unit_test(v108_v2_reply_bit_by_direction),
        cmocka_unit_test(v109_unknown_flags_are_ignored),
        cmocka_unit_test(v110_too_large_a_payload_ends_the_stream),
        cmocka_unit_test(v38_fds_are_closed_once_or_handed_over),
        cmocka_unit_test(v4_v119_fds_after_the_first_byte_end_the_stream),
        cmocka_unit_test(v106_truncated_control_data_ends_the_stream),
        cmocka_unit_test(v105_end_inside_a_message_is_told_from_a_clean_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
