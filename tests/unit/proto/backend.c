/* The back-end session: handshakes, answers, parking, and what is left after
 * a peer. */
#include "unit/proto/peer.h"

/* ---- Handshakes ---------------------------------------------------------- */

static void
n5_offer_is_closed_under_requirements(void **state)
{
    struct mr_vhost_options options = defaults();
    struct mr_vhost *v;
    uint64_t modern = MR_F(RING_PACKED) | MR_F(IN_ORDER) | MR_F(ORDER_PLATFORM);

    (void)state;
    eal_start();
    assert_int_equal(mr_vhost_create(&options, &v), 0);
    assert_int_equal(v->offered & (modern | MR_F(VERSION_1)),
                     MR_F(RING_PACKED) | MR_F(IN_ORDER) | MR_F(VERSION_1));
    assert_int_equal(v->offered & (MR_F(MQ) | MR_F(CTRL_VQ) | MR_F(LOG_ALL)),
                     0);
    mr_port_close(&v->port);
    options.order_platform = 1; /* S60: only for those who ask */
    assert_int_equal(mr_vhost_create(&options, &v), 0);
    assert_int_equal(v->offered & modern, modern);
    mr_port_close(&v->port);
    options.order_platform = -1;
    options.version_1 = 0;
    options.pairs = 2;
    assert_int_equal(mr_vhost_create(&options, &v), 0);
    assert_int_equal(v->offered & (modern | MR_F(VERSION_1)), 0);
    assert_true(v->offered & MR_F(MQ) && v->offered & MR_F(CTRL_VQ));
    mr_port_close(&v->port);
    options.packed = 1;
    assert_int_equal(mr_vhost_create(&options, &v), -EINVAL);
}

static void
v21_queue_number_counts_pairs(void **state)
{
    struct mr_vhost_options options = defaults();

    (void)state;
    options.pairs = 128;
    peer_open(&p, &options);
    assert_int_equal(say_u64(&p, MR_REQ_SET_PROTOCOL_FEATURES, MR_P(MQ)), 0);
    assert_int_equal(say_none(&p, MR_REQ_GET_QUEUE_NUM), 1);
    assert_int_equal(p.reply.payload.u64, 128);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_CALL, 255), 0);
    peer_close(&p);
}

/* The order of a QEMU front-end (vhost-user 16). */
static void
qemu_sequence_brings_both_rings_up(void **state)
{
    uint64_t features;

    (void)state;
    assert_int_equal(say_none(&p, MR_REQ_GET_FEATURES), 1);
    features = p.reply.payload.u64 & ~MR_F(CTRL_VQ);
    assert_true(features & MR_F(PROTOCOL_FEATURES));
    assert_int_equal(say_none(&p, MR_REQ_GET_PROTOCOL_FEATURES), 1);
    assert_int_equal(p.reply.payload.u64, MR_P(MQ) | MR_P(REPLY_ACK));
    assert_int_equal(say_u64(&p, MR_REQ_SET_PROTOCOL_FEATURES,
                             p.reply.payload.u64), 0);
    assert_int_equal(say_none(&p, MR_REQ_GET_QUEUE_NUM), 1);
    assert_int_equal(p.reply.payload.u64, 1);
    assert_int_equal(say_none(&p, MR_REQ_SET_OWNER), 0);
    assert_int_equal(say_none(&p, MR_REQ_GET_FEATURES), 1);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_CALL, r), 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, r), 0);
    }
    /* QEMU enables the first pair when its device is made. */
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, features), 0);
    assert_int_equal(say_memory(&p), 0);
    for (uint32_t r = 0; r < 2; r++)
        ring_setup(&p, r, 256, 0x80008000);
    assert_true(running(0));
    assert_false(running(1));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_true(running(0) && running(1));
    assert_int_equal(base_of(0), 0x80008000);
    assert_int_equal(base_of(1), 0x80008000);
    assert_false(running(0) || running(1));
}

/* The order of DPDK's virtio-user (vhost-user 16). */
static void
virtio_user_sequence_brings_both_rings_up(void **state)
{
    struct mr_memory_table t = table();
    uint64_t features = MODERN | MR_F(MRG_RXBUF) | MR_F(IN_ORDER);

    (void)state;
    assert_int_equal(say_none(&p, MR_REQ_SET_OWNER), 0);
    assert_int_equal(say_none(&p, MR_REQ_GET_FEATURES), 1);
    assert_int_equal(say_none(&p, MR_REQ_GET_PROTOCOL_FEATURES), 1);
    assert_int_equal(say_u64(&p, MR_REQ_SET_PROTOCOL_FEATURES,
                             MR_P(REPLY_ACK)), 0);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_CALL, r), 0);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, features), 0);
    assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, MR_MESSAGE_NEED_REPLY, &t,
                         40, &p.memory, 1), 1);
    assert_int_equal(p.reply.payload.u64, 0);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, r, 256), 0);
        assert_int_equal(say_state(&p, MR_REQ_SET_VRING_BASE, r, 0), 0);
        assert_int_equal(say_addr(&p, r), 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, r), 0);
    }
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, r, 1), 0);
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
}

static int
ring_message(uint32_t request, uint32_t r)
{
    switch (request) {
    case MR_REQ_SET_VRING_NUM: return say_state(&p, request, r, 256);
    case MR_REQ_SET_VRING_BASE: return say_state(&p, request, r, 0);
    case MR_REQ_SET_VRING_ADDR: return say_addr(&p, r);
    case MR_REQ_SET_VRING_ENABLE: return say_state(&p, request, r, 1);
    default: return say_eventfd(&p, request, r);
    }
}

/* The ring starts with the request `last`, and not before. */
static void
starts_with(uint32_t last, const uint32_t *before)
{
    struct mr_vhost_options options = defaults();

    peer_open(&p, &options);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ring_message(before[i], 0), 0);
    assert_false(running(0));
    assert_int_equal(ring_message(last, 0), 0);
    assert_true(running(0));
    peer_close(&p);
}

/* In every order of before[fixed..5). */
static void
permute(uint32_t last, uint32_t *before, uint32_t fixed)
{
    if (fixed == 5)
        starts_with(last, before);
    for (uint32_t i = fixed; i < 5; i++) {
        uint32_t swap = before[fixed];

        before[fixed] = before[i];
        before[i] = swap;
        permute(last, before, fixed + 1);
        before[i] = before[fixed];
        before[fixed] = swap;
    }
}

static void
v147_every_order_of_ring_messages_starts_the_ring(void **state)
{
    uint32_t before_kick[] = {8, 9, 10, 13, 18};
    uint32_t before_enable[] = {8, 9, 10, 12, 13};

    (void)state;
    permute(MR_REQ_SET_VRING_KICK, before_kick, 0);
    permute(MR_REQ_SET_VRING_ENABLE, before_enable, 0);
}

static void
v135_kick_and_enable_are_remembered(void **state)
{
    (void)state;
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(say_addr(&p, 0), 0);
    assert_false(running(0));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 128), 0);
    assert_true(running(0));
}

static void
v39_kick_without_fd_starts_a_polled_ring(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 256), 0);
    assert_int_equal(say_addr(&p, 0), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, -1), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 0, -1), 0);
    assert_true(running(0));
}

static void
v50_without_bit_30_all_rings_are_enabled(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MR_F(VERSION_1)), 0);
    assert_int_equal(say_memory(&p), 0);
    ring_setup(&p, 1, 256, 0);
    assert_true(running(1));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 0), -EINVAL);
}

/* ---- Answers ------------------------------------------------------------- */

static void
v32_v33_need_reply_is_answered_before_and_after_reply_ack(void **state)
{
    uint64_t bits = MR_P(REPLY_ACK);

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(say(&p, MR_REQ_SET_OWNER, MR_MESSAGE_NEED_REPLY, NULL,
                             0, NULL, 0), 1);
        assert_int_equal(p.reply.request, MR_REQ_SET_OWNER);
        assert_int_equal(p.reply.flags, 5);
        assert_int_equal(p.reply.size, 8);
        assert_int_equal(p.reply.payload.u64, 0);
        assert_int_equal(say(&p, MR_REQ_SET_PROTOCOL_FEATURES,
                             MR_MESSAGE_NEED_REPLY, &bits, 8, NULL, 0), 1);
    }
}

static void
v32_an_explicit_answer_is_the_only_one(void **state)
{
    (void)state;
    assert_int_equal(say(&p, MR_REQ_GET_FEATURES, MR_MESSAGE_NEED_REPLY, NULL,
                         0, NULL, 0), 1);
    assert_int_equal(p.reply.payload.u64, p.vhost->offered);
}

static void
v113_unimplemented_requests_are_nacked_or_end(void **state)
{
    static const uint32_t none[] = {0,  6,   19,         24,        31, 33,
                                    44, 200, 0x7fffffff, 0xffffffff};
    uint8_t payload[24] = {0};
    int before = fds_open();

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(none); i++) {
        assert_int_equal(say(&p, none[i], 0, payload, 24, &p.memory, 1),
                         -ENOTSUP);
        assert_int_equal(say(&p, none[i], MR_MESSAGE_NEED_REPLY, payload, 24,
                             &p.memory, 1), 1);
        assert_int_equal(p.reply.request, none[i]);
        assert_int_not_equal(p.reply.payload.u64, 0);
    }
    assert_int_equal(fds_open(), before);
}

static void
e3_base_of_a_ring_nobody_set_up_is_zero(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(base_of(0), 0);
        assert_int_equal(base_of(1), 0);
    }
}

/* ---- Parking ------------------------------------------------------------- */

static struct mr_gate *
gate(uint32_t r)
{
    return &mr_vhost_queue(p.vhost, r)->gate;
}

/* Each message that needs a ring stopped waits while a burst runs in it,
 * whatever it needs besides stays whole, and nothing leaks. */
static void
a_busy_ring_parks_the_message(void **state)
{
    struct mr_vring_state base = {0, 0};
    struct mr_vring_state off = {0, 0};
    struct mr_memory_table t = table();
    uint64_t word = 0;
    int call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const struct {
        uint32_t request, size;
        const void *payload;
        int fd;
        int answer;
    } cases[] = {
        {MR_REQ_SET_VRING_CALL, 8, &word, call, 0},
        {MR_REQ_SET_MEM_TABLE, 40, &t, p.memory, 0},
        {MR_REQ_SET_VRING_ENABLE, 8, &off, -1, 0},
        {MR_REQ_GET_VRING_BASE, 8, &base, -1, 1},
        {MR_REQ_RESET_OWNER, 0, NULL, -1, 0},
    };

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(cases); i++) {
        int before = fds_open();

        bring_up(&p, MODERN, 0);
        put(&p, cases[i].request, 0, cases[i].payload, cases[i].size,
            &cases[i].fd, cases[i].fd >= 0);
        mr_store(&gate(0)->inside, 1);
        for (int again = 0; again < 3; again++)
            assert_int_equal(serve(&p), -EAGAIN);
        mr_store(&gate(0)->inside, 0);
        assert_int_equal(serve(&p), cases[i].answer);
        /* From nothing again. */
        assert_int_equal(mr_backend_close(p.backend), 0);
        mr_backend_open(p.backend);
        assert_int_equal(fds_open(), before);
    }
    close(call);
}

static void
v56_the_end_of_a_session_waits_for_the_burst(void **state)
{
    (void)state;
    bring_up(&p, MODERN, 0);
    mr_store(&gate(1)->inside, 1);
    assert_int_equal(mr_backend_close(p.backend), -EAGAIN);
    assert_non_null(p.vhost->memory);
    mr_store(&gate(1)->inside, 0);
    assert_int_equal(mr_backend_close(p.backend), 0);
    assert_null(p.vhost->memory);
    mr_backend_open(p.backend);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(n5_offer_is_closed_under_requirements),
        cmocka_unit_test(v21_queue_number_counts_pairs),
        WITH_PEER(qemu_sequence_brings_both_rings_up),
        WITH_PEER(virtio_user_sequence_brings_both_rings_up),
        cmocka_unit_test(v147_every_order_of_ring_messages_starts_the_ring),
        WITH_PEER(v135_kick_and_enable_are_remembered),
        WITH_PEER(v39_kick_without_fd_starts_a_polled_ring),
        WITH_PEER(v50_without_bit_30_all_rings_are_enabled),
        WITH_PEER(v32_v33_need_reply_is_answered_before_and_after_reply_ack),
        WITH_PEER(v32_an_explicit_answer_is_the_only_one),
        WITH_PEER(v113_unimplemented_requests_are_nacked_or_end),
        WITH_PEER(e3_base_of_a_ring_nobody_set_up_is_zero),
        WITH_PEER(a_busy_ring_parks_the_message),
        WITH_PEER(v56_the_end_of_a_session_waits_for_the_burst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
