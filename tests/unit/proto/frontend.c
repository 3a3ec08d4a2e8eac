/* The front-end session with a friendly peer: what it says, in which order,
 * and how it ends. */
#include "unit/proto/bench.h"

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
        b.features = i % 2 ? ~0ull : ~MR_F(MRG_RXBUF);
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
        cmocka_unit_test(stop_disables_then_stops_every_ring),
        cmocka_unit_test(stop_before_the_session_is_up_has_nothing_to_wait_for),
        cmocka_unit_test(disconnect_and_stop_wait_for_the_burst_that_runs),
        cmocka_unit_test(
            V86_V89_a_new_connection_is_a_full_handshake_with_new_choices),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
