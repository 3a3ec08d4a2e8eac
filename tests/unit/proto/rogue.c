/* The front-end session with a hostile peer: every wrong answer ends the
 * connection, leaves nothing behind, and the next peer is served. */
#include "unit/proto/bench.h"

static void
wrong_number(struct mr_message *msg, uint32_t *nfds)
{
    (void)nfds;
    msg->request ^= 0x40000000;
}

static void
no_payload(struct mr_message *msg, uint32_t *nfds)
{
    (void)nfds;
    msg->size = 0;
}

static void
short_payload(struct mr_message *msg, uint32_t *nfds)
{
    (void)nfds;
    msg->size = 7;
}

static void
long_payload(struct mr_message *msg, uint32_t *nfds)
{
    (void)nfds;
    msg->size = MR_PAYLOAD_MAX;
}

static void
one_fd(struct mr_message *msg, uint32_t *nfds)
{
    (void)msg;
    *nfds = 1;
}

static void
eight_fds(struct mr_message *msg, uint32_t *nfds)
{
    (void)msg;
    *nfds = 8;
}

static void
every_wrong_answer_ends_the_connection_and_nothing_else(void **state)
{
    static const uint32_t answered[] = {1, 15, 17, 2, 5, 18};
    static void (*const damage[])(struct mr_message *, uint32_t *) = {
        wrong_number, no_payload, short_payload, long_payload, one_fd,
        eight_fds,
    };
    struct bench b = bench_open(1, -1);
    uint32_t home = mr_pool_available(b.v->port.pool);
    int fds = 0;

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(answered); i++)
        for (size_t k = 0; k < MR_COUNT_OF(damage); k++) {
            b.hostile = answered[i];
            b.damage = damage[k];
            assert_int_equal(bench_connect(&b), -EPROTO);
            assert_false(mr_port_up(&b.v->port));
            assert_int_equal(mr_frontend_disconnected(&b.fe), 0);
            assert_int_equal(mr_pool_available(b.v->port.pool), home);
            assert_int_equal(b.v->features, 0);

            assert_int_equal(bench_connect(&b), 0); /* the next one works */
            assert_true(mr_port_up(&b.v->port));
            assert_int_equal(mr_frontend_disconnected(&b.fe), 0);
            fds = fds ? fds : fds_open();
            assert_int_equal(fds_open(), fds);
        }
    bench_close(&b);
}

static void
refuse(struct mr_message *msg, uint32_t *nfds)
{
    (void)nfds;
    msg->payload.u64 = 1;
}

static void
V32_a_refusal_names_the_request(void **state)
{
    static const uint32_t asked[] = {2, 5, 18};
    struct bench b = bench_open(1, -1);

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(asked); i++) {
        b.hostile = asked[i];
        b.damage = refuse;
        assert_int_equal(bench_connect(&b), -EPROTO);
        assert_non_null(strstr(mr_error_text(), mr_message_name(asked[i])));
        assert_int_equal(mr_frontend_disconnected(&b.fe), 0);
    }
    bench_close(&b);
}

static void
a_peer_without_queues_is_refused(void **state)
{
    struct bench b = bench_open(2, -1);

    (void)state;
    b.queues = 0;
    assert_int_equal(bench_connect(&b), -EPROTO);
    assert_non_null(strstr(mr_error_text(), "V21"));
    bench_close(&b);
}

static void
a_peer_that_lacks_a_required_feature_is_refused(void **state)
{
    struct bench b = bench_open(1, 1);

    (void)state;
    b.features &= ~MR_F(RING_PACKED);
    assert_int_equal(bench_connect(&b), -EPROTO);
    assert_non_null(strstr(mr_error_text(), "RING_PACKED"));
    expect_trace(&b, "3 1");
    bench_close(&b);
}

static void
V3_a_message_that_nobody_asked_for_ends_the_connection(void **state)
{
    struct bench b = bench_open(1, -1);
    struct mr_message msg;

    (void)state;
    for (uint32_t request = 0; request < 50; request++) {
        mr_message_reply(&msg, request, 8);
        mr_frontend_connected(&b.fe, 0);
        assert_int_equal(mr_frontend_receive(&b.fe, &msg, 0), -EPROTO);
        assert_int_equal(mr_frontend_disconnected(&b.fe), 0);

        assert_int_equal(bench_connect(&b), 0);
        assert_int_equal(mr_frontend_receive(&b.fe, &msg, 0), -EPROTO);
        assert_int_equal(mr_frontend_disconnected(&b.fe), 0);
    }
    bench_close(&b);
}

static void
a_second_copy_of_an_answer_ends_the_connection(void **state)
{
    struct bench b = bench_open(1, -1);
    struct mr_frontend_out out;
    struct mr_message reply;

    (void)state;
    mr_frontend_connected(&b.fe, 0);
    while (mr_frontend_next(&b.fe, 0, &out) == 1)
        if (answer(&b, &out.msg, &reply))
            break;
    assert_int_equal(mr_frontend_receive(&b.fe, &reply, 0), 0);
    assert_int_equal(mr_frontend_receive(&b.fe, &reply, 0), -EPROTO);
    bench_close(&b);
}

static void
V143_a_silent_peer_is_given_up(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    b.silent = true;
    b.now = 7 * (uint64_t)SECOND;
    assert_int_equal(bench_connect(&b), 0);
    expect_trace(&b, "3 1");
    assert_int_equal(mr_frontend_tick(&b.fe, b.now + 4 * (uint64_t)SECOND), 0);
    assert_int_equal(mr_frontend_tick(&b.fe, b.now + 5 * (uint64_t)SECOND),
                     -ETIMEDOUT);
    assert_non_null(strstr(mr_error_text(), "GET_FEATURES"));
    bench_close(&b);
}

static void
an_idle_session_never_times_out(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    assert_int_equal(bench_connect(&b), 0);
    assert_int_equal(mr_frontend_tick(&b.fe, UINT64_MAX), 0);
    bench_close(&b);
}

static void
other_ring(struct mr_message *msg, uint32_t *nfds)
{
    (void)nfds;
    msg->payload.state.index = 0xffffffff;
}

static void
stop_with_wrong_answers_or_none_still_ends(void **state)
{
    static void (*const damage[])(struct mr_message *, uint32_t *) = {
        wrong_number, no_payload, long_payload, one_fd, other_ring,
    };
    struct bench b = bench_open(1, -1);

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(damage); i++) {
        assert_int_equal(bench_connect(&b), 0);
        b.hostile = MR_REQ_GET_VRING_BASE;
        b.damage = damage[i];
        mr_frontend_stop(&b.fe, b.now);
        assert_int_equal(bench_run(&b), -EPROTO);
        assert_int_equal(mr_frontend_disconnected(&b.fe), 0);
    }
    assert_int_equal(bench_connect(&b), 0);
    b.silent = true;
    mr_frontend_stop(&b.fe, b.now);
    assert_int_equal(bench_run(&b), 0);
    assert_int_equal(mr_frontend_tick(&b.fe, b.now + SECOND / 2), -ETIMEDOUT);
    bench_close(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            every_wrong_answer_ends_the_connection_and_nothing_else),
        cmocka_unit_test(V32_a_refusal_names_the_request),
        cmocka_unit_test(a_peer_without_queues_is_refused),
        cmocka_unit_test(a_peer_that_lacks_a_required_feature_is_refused),
        cmocka_unit_test(
            V3_a_message_that_nobody_asked_for_ends_the_connection),
        cmocka_unit_test(a_second_copy_of_an_answer_ends_the_connection),
        cmocka_unit_test(V143_a_silent_peer_is_given_up),
        cmocka_unit_test(an_idle_session_never_times_out),
        cmocka_unit_test(stop_with_wrong_answers_or_none_still_ends),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
