/* The front-end session against a back-end that the test plays: what it says,
 * in which order, and what it makes of every wrong answer. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/frontend.h"
#include "unit/eal.h"
#include "unit/fds.h"

enum { TRACE = 256, SECOND = 1000000000 };

/* The back-end that the test plays, and what it saw. */
struct bench {
    struct mr_virtio *v;
    struct mr_frontend fe;
    uint64_t now;
    uint64_t features;
    uint64_t protocol;
    uint64_t queues;
    /* Answer to damage: the first to this request; 0 = none. */
    uint32_t hostile;
    void (*damage)(struct mr_message *msg, uint32_t *nfds);
    bool silent; /* answers nothing */
    uint32_t n;
    struct mr_frontend_out seen[TRACE];
};

static const uint64_t everything = ~0ull;

static struct bench
bench_open(uint32_t pairs, int32_t packed)
{
    struct mr_vhost_options o = {
        .pairs = pairs, .packed = packed, .mergeable = -1, .in_order = -1,
        .indirect = -1, .event_idx = -1, .order_platform = -1,
        .version_1 = -1, .size = 64,
    };
    struct bench b = {.features = everything, .protocol = everything,
                      .queues = pairs};

    assert_int_equal(mr_virtio_create(&o, &b.v), 0);
    mr_frontend_init(&b.fe, b.v);
    return b;
}

static void
bench_close(struct bench *b)
{
    assert_int_equal(mr_frontend_disconnected(&b->fe), 0);
    assert_int_equal(mr_port_close(&b->v->port), 0);
}

/* The answer of a friendly peer; false when the message has none. */
static bool
answer(const struct bench *b, const struct mr_message *request,
       struct mr_message *reply)
{
    uint64_t value = 0;

    if (request->request == MR_REQ_GET_FEATURES)
        value = b->features;
    else if (request->request == MR_REQ_GET_PROTOCOL_FEATURES)
        value = b->protocol;
    else if (request->request == MR_REQ_GET_QUEUE_NUM)
        value = b->queues;
    else if (request->request != MR_REQ_GET_VRING_BASE &&
             !(request->flags & MR_MESSAGE_NEED_REPLY))
        return false;
    mr_message_reply(reply, request->request, 8);
    reply->payload.u64 = value;
    if (request->request == MR_REQ_GET_VRING_BASE)
        reply->payload.state.index = request->payload.state.index;
    return true;
}

/* Carries messages to and fro until nothing is left to do or an error. */
static int
bench_run(struct bench *b)
{
    struct mr_message reply;
    struct mr_frontend_out *out;
    uint32_t nfds = 0;
    int rc;

    for (;;) {
        out = &b->seen[b->n];
        rc = mr_frontend_next(&b->fe, b->now, out);
        if (rc != 1)
            return rc;
        assert_true(++b->n < TRACE);
        if (b->silent || !answer(b, &out->msg, &reply))
            continue;
        if (b->hostile == out->msg.request) {
            b->hostile = 0;
            b->damage(&reply, &nfds);
        }
        rc = mr_frontend_receive(&b->fe, &reply, nfds);
        if (rc)
            return rc;
    }
}

static int
bench_connect(struct bench *b)
{
    b->n = 0;
    mr_frontend_connected(&b->fe, b->now);
    return bench_run(b);
}

/* "3 1 15 ..."; a request for an answer has a '?' behind it. */
static void
expect_trace(const struct bench *b, const char *want)
{
    char trace[4 * TRACE] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < b->n; i++)
        n += (size_t)snprintf(
            trace + n, sizeof(trace) - n, "%s%u%s", i ? " " : "",
            b->seen[i].msg.request,
            b->seen[i].msg.flags & MR_MESSAGE_NEED_REPLY ? "?" : "");
    assert_string_equal(trace, want);
}

static const struct mr_frontend_out *
seen(const struct bench *b, uint32_t request, uint32_t ring)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (b->seen[i].msg.request == request && !ring--)
            return &b->seen[i];
    fail_msg("request %u was not sent", request);
    return NULL;
}

/* ---- Sequences -------------------------------------------------------- */

static void
section_16_order_with_acknowledgements(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    assert_int_equal(bench_connect(&b), 0);
    expect_trace(&b, "3 1 15 16 17 13 13 2? 5? 8 8 10 10 9 9 12 12 18? 18?");
    assert_int_equal(b.fe.state, MR_FRONTEND_UP);
    assert_true(mr_port_up(&b.v->port));
    bench_close(&b);
}

static void
V148_without_acknowledgements_get_features_waits_for_the_effect(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    b.protocol = MR_P(MQ);
    assert_int_equal(bench_connect(&b), 0);
    expect_trace(&b, "3 1 15 16 17 13 13 2 1 5 1 8 8 10 10 9 9 12 12 "
                     "18 1 18 1");
    assert_true(mr_port_up(&b.v->port));
    bench_close(&b);
}

static void
V12_V50_a_peer_without_protocol_features_is_asked_for_none(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    b.features &= ~MR_F(PROTOCOL_FEATURES);
    assert_int_equal(bench_connect(&b), 0);
    expect_trace(&b, "3 1 13 13 2 1 5 1 8 8 10 10 9 9 12 12");
    assert_true(mr_port_up(&b.v->port));
    bench_close(&b);
}

static void
V13_only_protocol_features_of_ours_are_set(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    assert_int_equal(bench_connect(&b), 0);
    assert_int_equal(seen(&b, 16, 0)->msg.payload.u64,
                     MR_P(MQ) | MR_P(REPLY_ACK));
    bench_close(&b);
}

static void
gates_open_only_after_the_last_answer(void **state)
{
    struct bench b = bench_open(1, -1);
    struct mr_message reply;
    struct mr_frontend_out out;

    (void)state;
    mr_frontend_connected(&b.fe, 0);
    while (mr_frontend_next(&b.fe, 0, &out) == 1) {
        assert_false(mr_port_up(&b.v->port));
        if (answer(&b, &out.msg, &reply))
            assert_int_equal(mr_frontend_receive(&b.fe, &reply, 0), 0);
        assert_false(mr_port_up(&b.v->port));
    }
    assert_true(mr_port_up(&b.v->port));
    bench_close(&b);
}

static void
V19_one_region_of_40_bytes_with_one_fd(void **state)
{
    struct bench b = bench_open(1, -1);
    const struct mr_frontend_out *out;

    (void)state;
    assert_int_equal(bench_connect(&b), 0);
    out = seen(&b, 5, 0);
    assert_int_equal(out->msg.size, 40);
    assert_int_equal(out->nfds, 1);
    assert_int_equal(out->fds[0], b.v->arena.fd);
    assert_int_equal(out->msg.payload.table.n, 1);
    assert_int_equal(out->msg.payload.table.region[0].guest, MR_VIRTIO_BASE);
    bench_close(&b);
}

static void
ring_messages_carry_index_size_base_addresses_and_fds(void **state)
{
    (void)state;
    for (int packed = 0; packed <= 1; packed++) {
        struct bench b = bench_open(1, packed);

        assert_int_equal(bench_connect(&b), 0);
        for (uint32_t r = 0; r < 2; r++) {
            const struct mr_vring_addr *addr =
                &seen(&b, 9, r)->msg.payload.addr;
            const struct mr_frontend_out *kick = seen(&b, 12, r);
            const struct mr_frontend_out *call = seen(&b, 13, r);

            assert_int_equal(seen(&b, 8, r)->msg.payload.state.index, r);
            assert_int_equal(seen(&b, 8, r)->msg.payload.state.num, 64);
            assert_int_equal(seen(&b, 10, r)->msg.payload.state.num,
                             packed ? 0x80008000 : 0); /* B2 */
            assert_int_equal(addr->index, r);
            assert_int_equal(addr->desc, mr_virtio_ring_part(b.v, r, 0));
            assert_int_equal(addr->avail, mr_virtio_ring_part(b.v, r, 1));
            assert_int_equal(addr->used, mr_virtio_ring_part(b.v, r, 2));
            assert_int_equal(kick->msg.payload.u64, r); /* V39 */
            assert_int_equal(kick->fds[0], b.v->parts[r].kick_fd);
            assert_int_equal(call->msg.payload.u64, r);
            assert_int_equal(call->fds[0], b.v->parts[r].call_fd);
            assert_int_equal(seen(&b, 18, r)->msg.payload.state.num, 1);
        }
        bench_close(&b);
    }
}

static void
V21_pairs_are_what_both_ends_have(void **state)
{
    static const struct {
        uint64_t queues, without, without_protocol;
        uint32_t up;
    } row[] = {
        {4, 0, 0, 3},          {3, 0, 0, 3}, {2, 0, 0, 2}, {1, 0, 0, 1},
        {UINT64_MAX, 0, 0, 3}, /* more than anybody has */
        {4, MR_F(MQ), 0, 1},   {4, 0, MR_P(MQ), 1},
        {4, MR_F(PROTOCOL_FEATURES), 0, 1},
    };

    (void)state;
    mr_log_level_set(MR_LOG_ERROR);
    for (size_t i = 0; i < MR_COUNT_OF(row); i++) {
        struct bench b = bench_open(3, -1);

        b.queues = row[i].queues;
        b.features &= ~row[i].without;
        b.protocol &= ~row[i].without_protocol;
        assert_int_equal(bench_connect(&b), 0);
        for (uint32_t q = 0; q < 3; q++) {
            assert_int_equal(
                mr_queue_up(mr_port_queue(&b.v->port, MR_RX, q)),
                q < row[i].up);
            assert_int_equal(
                mr_queue_up(mr_port_queue(&b.v->port, MR_TX, q)),
                q < row[i].up);
        }
        bench_close(&b);
    }
    mr_log_level_set(MR_LOG_WARN);
}

/* ---- Hostile answers -------------------------------------------------- */

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

/* ---- Ends ------------------------------------------------------------- */

static void
rings_off(struct bench *b)
{
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(mr_virtio_ring_close(b->v, r), 0);
}

static void
stop_disables_then_stops_every_ring(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    assert_int_equal(bench_connect(&b), 0);
    rings_off(&b);
    b.n = 0;
    mr_frontend_stop(&b.fe, b.now);
    assert_int_equal(bench_run(&b), 0);
    expect_trace(&b, "18 18 11 11");
    assert_int_equal(seen(&b, 18, 1)->msg.payload.state.num, 0);
    assert_int_equal(seen(&b, 11, 1)->msg.payload.state.index, 1);
    assert_int_equal(b.fe.state, MR_FRONTEND_STOPPED);
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

static void
stop_before_the_session_is_up_has_nothing_to_wait_for(void **state)
{
    struct bench b = bench_open(1, -1);

    (void)state;
    b.silent = true;
    assert_int_equal(bench_connect(&b), 0);
    mr_frontend_stop(&b.fe, b.now);
    assert_int_equal(b.fe.state, MR_FRONTEND_STOPPED);
    assert_int_equal(bench_run(&b), 0);
    bench_close(&b);
}

static void
disconnect_and_stop_wait_for_the_burst_that_runs(void **state)
{
    struct bench b = bench_open(1, -1);
    struct mr_queue *tx = mr_port_queue(&b.v->port, MR_TX, 0);

    (void)state;
    assert_int_equal(bench_connect(&b), 0);
    assert_true(mr_gate_enter(&tx->gate));
    assert_int_equal(mr_frontend_disconnected(&b.fe), -EAGAIN);
    assert_int_equal(b.fe.state, MR_FRONTEND_UP);
    mr_gate_leave(&tx->gate);
    assert_int_equal(mr_frontend_disconnected(&b.fe), 0);

    assert_int_equal(bench_connect(&b), 0);
    assert_true(mr_gate_enter(&tx->gate));
    mr_frontend_stop(&b.fe, b.now);
    assert_int_equal(bench_run(&b), -EAGAIN);
    mr_gate_leave(&tx->gate);
    assert_int_equal(bench_run(&b), 0);
    assert_int_equal(b.fe.state, MR_FRONTEND_STOPPED);
    bench_close(&b);
}

static void
V86_V89_a_new_connection_is_a_full_handshake_with_new_choices(void **state)
{
    struct bench b = bench_open(1, -1);
    struct mr_port_info info;
    uint32_t home = mr_pool_available(b.v->port.pool);

    (void)state;
    for (uint32_t i = 1; i <= 50; i++) {
        b.features = i % 2 ? everything : everything & ~MR_F(MRG_RXBUF);
        assert_int_equal(bench_connect(&b), 0);
        mr_port_info(&b.v->port, &info);
        assert_int_equal(info.connects, i);
        assert_int_equal(info.connected, 1);
        assert_int_equal(info.mergeable, i % 2);
        assert_true(mr_port_up(&b.v->port));
        assert_int_equal(mr_frontend_disconnected(&b.fe), 0);
        mr_port_info(&b.v->port, &info);
        assert_true(!info.connected && !info.features);
        assert_false(mr_port_up(&b.v->port));
        assert_int_equal(mr_pool_available(b.v->port.pool), home);
    }
    bench_close(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(section_16_order_with_acknowledgements),
        cmocka_unit_test(
            V148_without_acknowledgements_get_features_waits_for_the_effect),
        cmocka_unit_test(
            V12_V50_a_peer_without_protocol_features_is_asked_for_none),
        cmocka_unit_test(V13_only_protocol_features_of_ours_are_set),
        cmocka_unit_test(gates_open_only_after_the_last_answer),
        cmocka_unit_test(V19_one_region_of_40_bytes_with_one_fd),
        cmocka_unit_test(ring_messages_carry_index_size_base_addresses_and_fds),
        cmocka_unit_test(V21_pairs_are_what_both_ends_have),
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
        cmocka_unit_test(stop_disables_then_stops_every_ring),
        cmocka_unit_test(stop_with_wrong_answers_or_none_still_ends),
        cmocka_unit_test(stop_before_the_session_is_up_has_nothing_to_wait_for),
        cmocka_unit_test(disconnect_and_stop_wait_for_the_burst_that_runs),
        cmocka_unit_test(
            V86_V89_a_new_connection_is_a_full_handshake_with_new_choices),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
