/* Sockets: connecting, framing over a real stream, parking, floods, and what
 * is left when they end. */
#include "unit/loop/session.h"

/* ---- Connections --------------------------------------------------------- */

static void
one_peer_at_a_time(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int first = try_connect(path);
    int second = try_connect(path);

    (void)state;
    assert_true(first >= 0 && second >= 0);
    TURN_UNTIL(l.opened == 1);
    send_fds(second, 3, 0);
    for (int i = 0; i < 20; i++)
        mr_loop_run(1000);
    assert_int_equal(l.opened, 1);
    assert_int_equal(l.inputs, 0);
    close(first);
    TURN_UNTIL(l.inputs == 1);
    assert_int_equal(l.opened, 2);
    assert_int_equal(l.closed, 1);
    close(second);
    TURN_UNTIL(l.closed == 2);
    end(s, &l);
}

static void
v87_a_client_tries_until_somebody_listens_and_again(void **state)
{
    struct mr_vhost_options o = options();
    struct mr_socket *s;
    struct log l = {0};
    int fd = -1;
    int peer;

    (void)state;
    o.connect = 1;
    assert_int_equal(mr_socket_open(&port, &o, &ops, &l, true, &s), 0);
    for (int i = 0; i < 20; i++)
        mr_loop_run(1000);
    assert_int_equal(l.opened, 0);
    fd = listener();
    for (int round = 1; round <= 3; round++) {
        TURN_UNTIL(l.opened == round);
        peer = accept(fd, NULL, NULL);
        assert_true(peer >= 0);
        close(peer);
        TURN_UNTIL(l.closed == round);
    }
    end(s, &l);
    close(fd);
    unlink(path);
}

static void
v56_a_session_that_cannot_end_yet_keeps_the_next_peer_waiting(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);
    int next;

    (void)state;
    TURN_UNTIL(l.opened == 1);
    l.park_end = 5;
    close(fd);
    next = try_connect(path);
    TURN_UNTIL(l.closed == 1);
    assert_int_equal(l.park_end, 0);
    TURN_UNTIL(l.opened == 2);
    close(next);
    TURN_UNTIL(l.closed == 2);
    end(s, &l);
}

/* ---- Messages ------------------------------------------------------------ */

static void
v143_a_message_in_bytes_holds_up_nobody(void **state)
{
    static const uint32_t words[] = {18, 1, 8, 0, 1};
    struct log slow, quick;
    struct mr_socket *s = server(&slow);
    struct mr_socket *other;
    int fd = try_connect(path);
    int fd2;

    (void)state;
    TURN_UNTIL(slow.opened);
    path[strlen(path) - 1] = '2';
    other = server(&quick);
    fd2 = try_connect(path);
    TURN_UNTIL(quick.opened);
    for (size_t i = 0; i < sizeof(words); i++) {
        assert_int_equal(slow.inputs, 0);
        assert_int_equal(send(fd, (const char *)words + i, 1, 0), 1);
        send_fds(fd2, 3, 0);
        TURN_UNTIL(quick.inputs == (int)i + 1);
    }
    TURN_UNTIL(slow.inputs == 1);
    assert_int_equal(slow.last_request, 18);
    close(fd2);
    TURN_UNTIL(quick.closed);
    end(other, &quick);
    path[strlen(path) - 1] = '1';
    close(fd);
    TURN_UNTIL(slow.closed);
    end(s, &slow);
}

static void
v105_an_end_in_mid_message_is_an_end(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int before = fds_open();

    (void)state;
    for (int i = 1; i < 20; i++) {
        static const uint32_t words[] = {18, 1, 8, 0, 1};
        int fd = try_connect(path);

        assert_int_equal(send(fd, words, (size_t)i, 0), i);
        close(fd);
        TURN_UNTIL(l.closed == i);
    }
    assert_int_equal(l.inputs, 0);
    assert_int_equal(fds_open(), before);
    end(s, &l);
}

static void
v106_more_than_8_fds_end_the_connection_without_a_leak(void **state)
{
    static const int counts[] = {9, 10, 16, 32, 64};
    struct log l;
    struct mr_socket *s = server(&l);
    int before = fds_open();

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(counts); i++) {
        int fd = try_connect(path);

        send_fds(fd, 3, counts[i]);
        TURN_UNTIL(l.closed == (int)i + 1);
        assert_true(left(fd));
        close(fd);
        assert_int_equal(fds_open(), before);
    }
    assert_int_equal(l.inputs, 0);
    end(s, &l);
}

/* A3: 8 are received whole; what the session does not take is closed. */
static void
v38_fds_that_nobody_takes_are_closed(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);
    int before;

    (void)state;
    TURN_UNTIL(l.opened);
    before = fds_open();
    for (int i = 1; i <= 1000; i++) {
        send_fds(fd, 3, 8);
        TURN_UNTIL(l.inputs == i);
        assert_int_equal(l.last_fds, 8);
    }
    assert_int_equal(fds_open(), before);
    close(fd);
    TURN_UNTIL(l.closed);
    end(s, &l);
}

/* V3, V5: requests sent in one go keep their order and their own fds. */
static void
v5_pipelined_requests_keep_their_fds(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);

    (void)state;
    TURN_UNTIL(l.opened);
    l.park = 1; /* holds the first one back, so all are in the socket */
    for (uint32_t i = 0; i < 8; i++)
        send_fds(fd, i + 1, (int)i);
    TURN_UNTIL(l.inputs == 8);
    assert_int_equal(l.last_request, 8);
    assert_int_equal(l.last_fds, 7);
    close(fd);
    TURN_UNTIL(l.closed);
    end(s, &l);
}

static void
a_parked_message_comes_again_and_nothing_before_it(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);

    (void)state;
    TURN_UNTIL(l.opened);
    l.park = 10;
    send_fds(fd, 3, 1);
    send_fds(fd, 4, 2);
    TURN_UNTIL(l.park < 10);
    while (l.park > 1) {
        mr_loop_run(1000);
        assert_int_equal(l.last_request, 3);
        assert_int_equal(l.last_fds, 1);
        assert_int_equal(l.inputs, l.park ? 0 : l.inputs);
    }
    TURN_UNTIL(l.inputs == 2);
    assert_int_equal(l.last_request, 4);
    close(fd);
    TURN_UNTIL(l.closed);
    end(s, &l);
}

static void
v144_a_flood_gets_a_bounded_share_of_a_turn(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);
    int before, most = 0;

    (void)state;
    TURN_UNTIL(l.opened);
    for (int i = 0; i < 200; i++)
        send_fds(fd, 3, 0);
    while (l.inputs < 200) {
        before = l.inputs;
        mr_loop_run(0);
        most = MR_MAX(most, l.inputs - before);
    }
    assert_true(most > 1 && most <= 64);
    close(fd);
    TURN_UNTIL(l.closed);
    end(s, &l);
}

static void
v35_a_refusing_session_ends_the_connection(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);

    (void)state;
    TURN_UNTIL(l.opened);
    l.refuse = -EINVAL;
    send_fds(fd, 3, 1);
    send_fds(fd, 3, 1);
    TURN_UNTIL(l.closed);
    assert_int_equal(l.inputs, 1);
    close(fd);
    end(s, &l);
}

/* ---- Sending ------------------------------------------------------------- */

/* V9: all bytes in order and every fd with the first byte of its message,
 * however full the socket was. */
static void
v9_what_does_not_fit_is_sent_later(void **state)
{
    enum { MESSAGES = 400, WORDS = 512 };
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);
    int before;
    uint32_t words[WORDS];
    uint32_t got = 0, fds = 0;

    (void)state;
    TURN_UNTIL(l.opened);
    before = fds_open();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        for (uint32_t w = 0; w < WORDS; w++)
            words[w] = i * WORDS + w;
        assert_int_equal(mr_socket_send(s, words, sizeof(words), &(int){2},
                                        1), 0);
    }
    assert_true(fds_open() > before); /* some wait, with their fds */
    while (got < MESSAGES * WORDS) {
        union {
            char bytes[CMSG_SPACE(8 * sizeof(int))];
            struct cmsghdr align;
        } control;
        struct iovec iov = {words, 4};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control)};
        int new_fd;

        if (recvmsg(fd, &msg, MSG_DONTWAIT) != 4) {
            mr_loop_run(1000);
            continue;
        }
        assert_int_equal(words[0], got);
        if (msg.msg_controllen) {
            assert_int_equal(got % WORDS, 0);
            memcpy(&new_fd, CMSG_DATA(&control.align), sizeof(int));
            close(new_fd);
            fds++;
        }
        got++;
    }
    assert_int_equal(fds, MESSAGES);
    assert_int_equal(fds_open(), before);
    close(fd);
    TURN_UNTIL(l.closed);
    end(s, &l);
}

static void
a_peer_that_never_reads_is_dropped(void **state)
{
    static char bytes[4096];
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);
    int rc = 0;

    (void)state;
    TURN_UNTIL(l.opened);
    for (int i = 0; i < 2000 && !rc; i++)
        rc = mr_socket_send(s, bytes, sizeof(bytes), NULL, 0);
    assert_int_equal(rc, -ENOBUFS);
    assert_false(mr_socket_connected(s));
    assert_int_equal(l.closed, 0);
    TURN_UNTIL(l.closed);
    assert_int_equal(mr_socket_send(s, bytes, 1, NULL, 0), -ENOTCONN);
    close(fd);
    end(s, &l);
}

static void
v41_a_dead_peer_is_an_error_not_a_signal(void **state)
{
    static char bytes[4096];
    struct log l;
    struct mr_socket *s = server(&l);
    int fd = try_connect(path);

    (void)state;
    TURN_UNTIL(l.opened);
    close(fd);
    assert_int_equal(mr_socket_send(s, bytes, sizeof(bytes), NULL, 0), -EPIPE);
    TURN_UNTIL(l.closed);
    end(s, &l);
}

/* ---- The end ------------------------------------------------------------- */

/* J1: with peers in every state. */
static void
j1_closing_leaves_nothing_behind(void **state)
{
    int before;

    (void)state;
    for (int i = 0; i < 500; i++) {
        struct log l;
        struct mr_socket *s = server(&l);
        int fd = try_connect(path);

        if (i == 1)
            before = fds_open() - 2; /* listener and our end */
        if (i % 5 > 0)
            TURN_UNTIL(l.opened);
        if (i % 5 == 2)
            send_fds(fd, 3, 8);
        if (i % 5 == 3)
            assert_int_equal(send(fd, "x", 1, 0), 1);
        if (i % 5 == 4) {
            l.park = 1000;
            send_fds(fd, 3, 8);
            TURN_UNTIL(l.park < 1000);
        }
        end(s, &l);
        close(fd);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(fds_open(), before);
}

/* ---- A vhost port on top ------------------------------------------------- */

static void
vhost_port_answers_and_goes(void **state)
{
    struct mr_vhost_options o = options();
    struct mr_port_info info;
    struct mr_port *vhost;
    uint32_t words[5] = {MR_REQ_GET_FEATURES, 1, 0};
    int fd;

    (void)state;
    eal_start();
    o.packed = o.mergeable = o.in_order = o.indirect = o.event_idx = -1;
    o.order_platform = o.version_1 = -1;
    o.packets = 512;
    assert_int_equal(mr_vhost_open(&o, &vhost), 0);
    assert_int_equal(mr_port_up(vhost), 0);
    fd = try_connect(path);
    assert_int_equal(send(fd, words, 12, 0), 12);
    for (int i = 0; recv(fd, words, 20, MSG_DONTWAIT) != 20; i++) {
        assert_true(i < 1000);
        mr_loop_run(1000);
    }
    assert_int_equal(words[0], MR_REQ_GET_FEATURES);
    assert_int_equal(words[1], 5);
    assert_int_equal(words[2], 8);
    assert_true(words[3] & (1u << MR_F_PROTOCOL_FEATURES));
    assert_int_equal(mr_port_info(vhost, &info), 0);
    assert_int_equal(info.connected, 1);
    assert_int_equal(info.connects, 1);
    assert_int_equal(mr_port_close(vhost), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(left(fd));
    close(fd);
    mr_loop_run(1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_peer_at_a_time),
        cmocka_unit_test(v87_a_client_tries_until_somebody_listens_and_again),
        cmocka_unit_test(
            v56_a_session_that_cannot_end_yet_keeps_the_next_peer_waiting),
        cmocka_unit_test(v143_a_message_in_bytes_holds_up_nobody),
        cmocka_unit_test(v105_an_end_in_mid_message_is_an_end),
        cmocka_unit_test(
            v106_more_than_8_fds_end_the_connection_without_a_leak),
        cmocka_unit_test(v38_fds_that_nobody_takes_are_closed),
        cmocka_unit_test(v5_pipelined_requests_keep_their_fds),
        cmocka_unit_test(a_parked_message_comes_again_and_nothing_before_it),
        cmocka_unit_test(v144_a_flood_gets_a_bounded_share_of_a_turn),
        cmocka_unit_test(v35_a_refusing_session_ends_the_connection),
        cmocka_unit_test(v9_what_does_not_fit_is_sent_later),
        cmocka_unit_test(a_peer_that_never_reads_is_dropped),
        cmocka_unit_test(v41_a_dead_peer_is_an_error_not_a_signal),
        cmocka_unit_test(j1_closing_leaves_nothing_behind),
        cmocka_unit_test(vhost_port_answers_and_goes),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
