/* The back-end session: handshakes, rings, memory, parking, and every rule
 * that a hostile front-end may break. */
#include "unit/proto/peer.h"

#include <signal.h>

static struct peer p;

/* The guard's handler; cmocka puts its own in its place before every test. */
static struct sigaction guard;

static void
guard_find(void)
{
    struct mr_memory *m;

    assert_int_equal(mr_memory_create(NULL, NULL, 0, &m), 0);
    sigaction(SIGBUS, NULL, &guard);
    mr_memory_destroy(m);
}

static int
open_default(void **state)
{
    struct mr_vhost_options options = defaults();

    (void)state;
    peer_open(&p, &options);
    return 0;
}

static int
close_default(void **state)
{
    (void)state;
    peer_close(&p);
    return 0;
}

static bool
running(uint32_t r)
{
    return p.backend->rings->ring[r].running;
}

static uint32_t
base_of(uint32_t r)
{
    assert_int_equal(say_state(&p, MR_REQ_GET_VRING_BASE, r, 0), 1);
    assert_int_equal(p.reply.size, 8);
    assert_int_equal(p.reply.flags, 5);
    assert_int_equal(p.reply.payload.state.index, r);
    return p.reply.payload.state.num;
}

/* ---- Handshakes ------------------------------------------------------- */

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
                     modern | MR_F(VERSION_1));
    assert_int_equal(v->offered & (MR_F(MQ) | MR_F(CTRL_VQ) | MR_F(LOG_ALL)),
                     0);
    mr_port_close(&v->port);
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

static void
permute(uint32_t *m, uint32_t n, uint32_t fixed, void (*check)(uint32_t *))
{
    if (fixed == n) {
        check(m);
        return;
    }
    for (uint32_t i = fixed; i < n; i++) {
        uint32_t swap = m[fixed];

        m[fixed] = m[i];
        m[i] = swap;
        permute(m, n, fixed + 1, check);
        m[i] = m[fixed];
        m[fixed] = swap;
    }
}

static void
kick_last(uint32_t *m)
{
    struct mr_vhost_options options = defaults();

    peer_open(&p, &options);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ring_message(m[i], 0), 0);
    assert_false(running(0));
    assert_int_equal(ring_message(MR_REQ_SET_VRING_KICK, 0), 0);
    assert_true(running(0));
    peer_close(&p);
}

static void
enable_last(uint32_t *m)
{
    struct mr_vhost_options options = defaults();

    peer_open(&p, &options);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ring_message(m[i], 0), 0);
    assert_false(running(0));
    assert_int_equal(ring_message(MR_REQ_SET_VRING_ENABLE, 0), 0);
    assert_true(running(0));
    peer_close(&p);
}

static void
v147_every_order_of_ring_messages_starts_the_ring(void **state)
{
    uint32_t before_kick[] = {8, 9, 10, 13, 18};
    uint32_t before_enable[] = {8, 9, 10, 12, 13};

    (void)state;
    permute(before_kick, 5, 0, kick_last);
    permute(before_enable, 5, 0, enable_last);
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

/* ---- Answers ---------------------------------------------------------- */

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

/* ---- Rings that run --------------------------------------------------- */

static void
b8_disable_and_enable_keep_the_position(void **state)
{
    uint64_t features = MODERN | MR_F(RING_PACKED);

    (void)state;
    bring_up(&p, features, 0x00050005);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 0), 0);
    assert_false(running(0));
    assert_int_equal(mr_port_up(&p.vhost->port), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_true(running(0));
    assert_int_equal(base_of(0), 0x00050005);
}

static void
get_vring_base_stops_and_a_kick_starts_again(void **state)
{
    (void)state;
    bring_up(&p, MODERN | MR_F(RING_PACKED), 0x80078007);
    assert_int_equal(base_of(1), 0x80078007);
    assert_int_equal(p.backend->rings->ring[1].kick_fd, -1);
    assert_int_equal(p.backend->rings->ring[1].setup.call_fd, -1);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_false(running(1));
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 1), 0);
    assert_true(running(1));
    assert_int_equal(base_of(1), 0x80078007);
}

static void
b2_a_packed_ring_without_base_is_fresh(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 100), 0);
    assert_int_equal(say_addr(&p, 0), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
    assert_true(running(0));
    assert_int_equal(base_of(0), 0x80008000);
}

static void
v44_a_new_call_fd_does_not_disturb_a_running_ring(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count = 0;

    (void)state;
    bring_up(&p, MODERN | MR_F(RING_PACKED), 0x00030003);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, fd), 0);
    assert_true(running(0));
    assert_int_equal(p.vhost->ring[0].notify_fd,
                     p.backend->rings->ring[0].setup.call_fd);
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
    assert_int_equal(p.vhost->ring[0].next_avail.pos, 3);
    assert_int_equal(read(fd, &count, 8), 8);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, -1), 0);
    assert_true(running(0));
    assert_int_equal(p.vhost->ring[0].notify_fd, -1);
    close(fd);
}

static void
v49_v132_setup_of_a_running_ring_is_fixed(void **state)
{
    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 128), -EBUSY);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_BASE, 0, 1), -EBUSY);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), -EBUSY);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(p.vhost->ring[0].size, 256);
    assert_int_equal(p.vhost->features, MODERN);
    assert_true(running(0) && running(1));
}

static void
v48_same_addresses_do_not_stop_a_ring(void **state)
{
    struct mr_vring_addr a = {
        .index = 0,
        .flags = 1,
        .desc = part(0, 0),
        .avail = part(0, 1),
        .used = part(0, 2),
        .log = 0x1234,
    };

    (void)state;
    bring_up(&p, MODERN, 0);
    p.vhost->ring[0].next_avail.pos = 77; /* a restart would read it anew */
    assert_int_equal(say(&p, MR_REQ_SET_VRING_ADDR, 0, &a, sizeof(a), NULL, 0),
                     0);
    assert_int_equal(p.vhost->ring[0].next_avail.pos, 77);
}

static void
reset_owner_stops_and_disables_all(void **state)
{
    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_none(&p, MR_REQ_RESET_OWNER), 0);
    assert_false(running(0) || running(1));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 128), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_true(running(0));
    assert_int_equal(p.vhost->ring[0].size, 128);
}

/* ---- Memory ----------------------------------------------------------- */

static void
v63_new_memory_is_swapped_under_running_rings(void **state)
{
    struct mr_memory *old;

    (void)state;
    bring_up(&p, MODERN | MR_F(RING_PACKED), 0x00090009);
    old = p.vhost->memory;
    assert_int_equal(say_memory(&p), 0);
    assert_ptr_not_equal(p.vhost->memory, old);
    assert_ptr_equal(p.vhost->ring[0].memory, p.vhost->memory);
    assert_true(running(0) && running(1));
    assert_int_equal(base_of(0), 0x00090009);
}

static void
v129_a_bad_table_leaves_the_old_one_and_the_rings(void **state)
{
    struct mr_memory_table t = {.n = 5};
    struct mr_memory *old;
    int fds[5];
    int before;

    (void)state;
    bring_up(&p, MODERN, 0);
    before = fds_open();
    old = p.vhost->memory;
    for (uint32_t i = 0; i < 5; i++) {
        fds[i] = p.memory;
        t.region[i] = (struct mr_region_spec){i << 20, 1 << 20, i << 20, 0};
    }
    t.region[3].size = 2 << 20; /* overlaps and is beyond the file */
    for (int i = 0; i < 1000; i++)
        assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, 0, &t, 8 + 5 * 32, fds,
                             5), -EINVAL);
    assert_ptr_equal(p.vhost->memory, old);
    assert_true(running(0) && running(1));
    assert_int_equal(fds_open(), before);
}

static void
v66_a_ring_outside_the_new_memory_stops(void **state)
{
    struct mr_memory_table t = table();
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 1, err), 0);
    t.region[0].size = RING_STRIDE; /* ring 0 only */
    assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, 0, &t, 40, &p.memory, 1),
                     0);
    assert_true(running(0));
    assert_false(running(1));
    assert_int_equal(mr_vhost_ring_fault(p.vhost, 1), MR_FAULT_RING_SETUP);
    assert_int_equal(read(err, &count, 8), 8);
    assert_int_equal(say_memory(&p), 0);
    assert_true(running(1));
    close(err);
}

static void
v128_an_empty_table_takes_the_memory_away(void **state)
{
    struct mr_memory_table t = {0};

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, 0, &t, 8, NULL, 0), 0);
    assert_int_equal(mr_port_up(&p.vhost->port), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
}

static void
v62_lost_memory_stops_the_rings_and_tells_the_peer(void **state)
{
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    sigaction(SIGBUS, &guard, NULL);
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 0, err), 0);
    assert_int_equal(ftruncate(p.memory, 0), 0);
    /* Any touch: the handler puts zeros there and marks the table. */
    assert_int_equal(*(volatile uint32_t *)p.vhost->ring[0].desc.split, 0);
    mr_backend_tick(p.backend);
    assert_false(running(0) || running(1));
    assert_int_equal(mr_vhost_ring_fault(p.vhost, 0), MR_FAULT_MEMORY_LOST);
    assert_int_equal(
        mr_vhost_queue(p.vhost, 0)->counters.faults[MR_FAULT_MEMORY_LOST], 1);
    assert_int_equal(read(err, &count, 8), 8);
    mr_backend_tick(p.backend);
    assert_true(read(err, &count, 8) < 0); /* once */
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_false(running(0));
    assert_int_equal(ftruncate(p.memory, MEMORY_BYTES), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_true(running(0) && running(1));
    close(err);
}

/* ---- Parking ---------------------------------------------------------- */

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

/* ---- Fds -------------------------------------------------------------- */

static void
v142_repeated_fds_replace_the_old_ones(void **state)
{
    int before;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, 0), 0);
    before = fds_open();
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_CALL, 0), 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, 0), 0);
        assert_int_equal(say(&p, MR_REQ_SET_LOG_FD, 0, NULL, 0, &p.memory, 1),
                         0);
    }
    assert_int_equal(fds_open(), before);
}

static void
v86_after_a_session_nothing_is_left(void **state)
{
    int before = fds_open();

    (void)state;
    for (int i = 0; i < 100; i++) {
        bring_up(&p, MODERN, 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, 0), 0);
        assert_int_equal(mr_backend_close(p.backend), 0);
        assert_int_equal(p.vhost->features, 0);
        assert_false(p.vhost->connected);
        assert_null(p.vhost->memory);
        assert_false(running(0));
        assert_int_equal(fds_open(), before);
        mr_backend_open(p.backend);
        assert_int_equal(say_addr(&p, 0), -EINVAL); /* V127 again */
    }
    assert_int_equal(p.vhost->connects, 101);
}

static void
v40_kicks_are_drained_from_eventfds_and_pipes(void **state)
{
    int kick = eventfd(0, EFD_CLOEXEC);
    uint64_t value = UINT64_MAX - 1;
    char bytes[8] = {0};
    int pipes[2];

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 0, kick), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 1, pipes[0]), 0);
    assert_int_equal(write(kick, &value, 8), 8);
    assert_int_equal(write(pipes[1], bytes, 8), 8);
    fcntl(kick, F_SETFL, 0); /* the peer's trick: blocking again */
    mr_backend_tick(p.backend);
    mr_backend_tick(p.backend);
    fcntl(kick, F_SETFL, O_NONBLOCK);
    assert_true(read(kick, &value, 8) < 0);
    assert_true(read(pipes[0], bytes, 8) < 0);
    close(kick);
    close(pipes[0]);
    close(pipes[1]);
}

/* V41, V145, V146: whatever the fd is, the session goes on. */
static void
v146_fds_that_are_no_signals_harm_nobody(void **state)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    int file = memory_new(4096);
    int directory = open("/", O_RDONLY | O_CLOEXEC);
    int ends[2];
    int fds[6];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    memcpy(fds, (int[]){null, zero, file, directory, ends[0], ends[1]},
           sizeof(fds));
    close(ends[0]);
    fds[4] = null;
    bring_up(&p, MODERN, 0);
    for (size_t i = 0; i < MR_COUNT_OF(fds); i++) {
        assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 0, fds[i]), 0);
        assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, fds[i]), 0);
        assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 0, fds[i]), 0);
        mr_vhost_ring_break(p.vhost, 0, MR_FAULT_HEAD);
        mr_backend_tick(p.backend);
    }
    close(null);
    close(zero);
    close(file);
    close(directory);
    close(ends[1]);
}

/* ---- Faults ----------------------------------------------------------- */

static void
c17_a_broken_ring_raises_err_once_and_stays_down(void **state)
{
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 1, err), 0);
    mr_vhost_ring_break(p.vhost, 1, MR_FAULT_HEAD); /* as the data path does */
    mr_backend_tick(p.backend);
    mr_backend_tick(p.backend);
    assert_int_equal(read(err, &count, 8), 8);
    assert_int_equal(count, 1);
    assert_int_equal(mr_port_up(&p.vhost->port), 0);
    /* Neither a pause nor new memory is a new setup. */
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 0), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_false(running(1));
    base_of(1);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 1), 0);
    assert_true(running(1));
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
    close(err);
}

/* V123-V125, C20, C21: the ring does not start, the err fd says so, and the
 * session and the other ring go on. */
static void
v123_to_v125_bad_ring_parts_do_not_start(void **state)
{
    static const struct mr_vring_addr bad[] = {
        {.desc = 0, .avail = 0, .used = 0},
        {.desc = 0xfffffffffffffff0, .avail = 0xfffffffffffffffe,
         .used = 0xfffffffffffffffc},
        {.desc = USER_BASE, .avail = USER_BASE + 0x4000,
         .used = USER_BASE + MEMORY_BYTES - 0x800}, /* its end is outside */
        {.desc = USER_BASE, .avail = USER_BASE + 0x4000,
         .used = USER_BASE + MEMORY_BYTES},
        {.desc = USER_BASE - 16, .avail = USER_BASE + 0x4000,
         .used = USER_BASE + 0x8000},
        {.desc = USER_BASE, .avail = USER_BASE + 0x10,
         .used = USER_BASE + 0x8000}, /* inside of the descriptors */
        {.desc = GUEST_BASE, .avail = GUEST_BASE + 0x4000,
         .used = GUEST_BASE + 0x8000}, /* guest instead of user addresses */
    };
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    ring_setup(&p, 1, 256, 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 256), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 0, err), 0);
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        assert_int_equal(say(&p, MR_REQ_SET_VRING_ADDR, 0, &bad[i], 40, NULL,
                             0), 0);
        assert_false(running(0));
        assert_true(running(1));
        assert_int_equal(read(err, &count, 8), 8);
        assert_int_equal(mr_vhost_ring_fault(p.vhost, 0), MR_FAULT_RING_SETUP);
    }
    assert_int_equal(say_addr(&p, 0), 0);
    assert_true(running(0));
    close(err);
}

static void
b6_a_packed_base_beyond_the_ring_does_not_start(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    ring_setup(&p, 0, 100, 0x80648064);
    assert_false(running(0));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_BASE, 0, 0x80638063), 0);
    assert_true(running(0));
}

/* ---- Hostile front-ends ----------------------------------------------- */

/* What must not change when a request is refused. */
struct view {
    uint64_t features, protocol;
    struct mr_memory *memory;
    struct mr_vring ring[2];
    int64_t fds; /* no padding: views are compared as bytes */
};

static struct view
look(void)
{
    return (struct view){
        .features = p.vhost->features,
        .protocol = p.vhost->protocol_features,
        .memory = p.vhost->memory,
        .ring = {p.backend->rings->ring[0], p.backend->rings->ring[1]},
        .fds = fds_open(),
    };
}

/* The request is nacked when asked for an answer (unless it has one of its
 * own), ends the connection otherwise, and changes nothing. */
static void
refused(uint32_t request, const void *payload, uint32_t size, const int *fds,
        uint32_t nfds)
{
    const struct mr_message_row *row = mr_message_row(request);
    struct view before = look();
    struct view after;
    int rc = say(&p, request, 0, payload, size, fds, nfds);

    if (rc >= 0)
        fail_msg("%s, size %u, %u fds was accepted", mr_message_name(request),
                 size, nfds);
    rc = say(&p, request, MR_MESSAGE_NEED_REPLY, payload, size, fds, nfds);
    if (row->reply == MR_PAYLOAD_NONE) {
        assert_int_equal(rc, 1);
        assert_int_not_equal(p.reply.payload.u64, 0);
        assert_int_equal(p.reply.request, request);
    } else {
        assert_true(rc < 0);
    }
    after = look();
    assert_memory_equal(&before, &after, sizeof(before));
}

/* A payload that the request would take as it stands. */
static uint32_t
good_payload(uint32_t request, struct mr_message *msg)
{
    memset(&msg->payload, 0, sizeof(msg->payload));
    switch (mr_message_row(request)->payload) {
    case MR_PAYLOAD_TABLE:
        msg->payload.table = table();
        return 40;
    case MR_PAYLOAD_ADDR:
        msg->payload.addr = (struct mr_vring_addr){
            .desc = part(0, 0), .avail = part(0, 1), .used = part(0, 2)};
        return 40;
    case MR_PAYLOAD_U64:
        msg->payload.u64 = request == MR_REQ_SET_FEATURES ? MODERN : 0;
        return 8;
    case MR_PAYLOAD_STATE:
    case MR_PAYLOAD_FD_WORD: return 8;
    default: return 0;
    }
}

/* Walks the list: each request with every size that is not its own, and with
 * every number of fds that it does not take (A3, A4, V111, V112, V115-V118). */
static void
every_request_refuses_wrong_sizes_and_fds(void **state)
{
    struct mr_message msg;
    int fds[8];

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_u64(&p, MR_REQ_SET_PROTOCOL_FEATURES, MR_P(MQ)), 0);
    for (int i = 0; i < 8; i++)
        fds[i] = p.memory;
    for (uint32_t request = 1; request <= MR_REQUEST_MAX; request++) {
        const struct mr_message_row *row = mr_message_row(request);
        uint32_t size, wanted;

        if (!row)
            continue;
        size = good_payload(request, &msg);
        wanted = row->payload == MR_PAYLOAD_TABLE ||
                 row->payload == MR_PAYLOAD_FD_WORD || row->fds_min;
        for (uint32_t nfds = 0; nfds <= 8; nfds++)
            if (nfds != wanted)
                refused(request, &msg.payload, size, fds, nfds);
        for (uint32_t bad = 0; bad <= 300; bad++)
            if (bad != size &&
                (row->payload != MR_PAYLOAD_TABLE || bad < 40 || bad > 264))
                refused(request, &msg.payload, bad, fds, wanted);
        refused(request, &msg.payload, MR_PAYLOAD_MAX, fds, wanted);
    }
}

/* A6, V120, E20. */
static void
every_ring_request_refuses_rings_that_are_not_there(void **state)
{
    static const uint32_t bad[] = {2,          3,          255,
                                   256,        257,        0xffff,
                                   0x10000,    0x10001,    0x7fffffff,
                                   0x80000000, 0xfffffffe, 0xffffffff};
    struct mr_message msg;

    (void)state;
    bring_up(&p, MODERN, 0);
    for (uint32_t request = 1; request <= MR_REQUEST_MAX; request++) {
        const struct mr_message_row *row = mr_message_row(request);

        if (!row || (row->payload != MR_PAYLOAD_STATE &&
                     row->payload != MR_PAYLOAD_ADDR &&
                     row->payload != MR_PAYLOAD_FD_WORD))
            continue;
        for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
            uint32_t size = good_payload(request, &msg);

            /* As a word of fd messages these two name ring 0 and 1, none. */
            if (row->payload == MR_PAYLOAD_FD_WORD &&
                (bad[i] == 256 || bad[i] == 257))
                continue;
            msg.payload.state.index = bad[i];
            refused(request, &msg.payload, size, &p.memory,
                    row->payload == MR_PAYLOAD_FD_WORD);
        }
    }
}

/* V121, E2, D8: none of them reaches the ring. */
static void
v121_ring_sizes_that_are_none(void **state)
{
    static const uint32_t bad[] = {0,     3,     5,          255,       32769,
                                   65535, 65536, 0x80000000, 0xffffffff};

    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 512), 0);
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        struct mr_vring_state state_of = {0, bad[i]};

        refused(MR_REQ_SET_VRING_NUM, &state_of, 8, NULL, 0);
    }
    assert_int_equal(p.backend->rings->ring[0].setup.size, 512);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 255), 0);
}

/* V131, E5, N5, V133. */
static void
v131_v133_features_that_were_not_offered(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    for (uint32_t bit = 0; bit < 64; bit++) {
        uint64_t features = MODERN | 1ull << bit;

        if (!(p.vhost->offered >> bit & 1))
            refused(MR_REQ_SET_FEATURES, &features, 8, NULL, 0);
        features = 1ull << bit;
        if (!((uint64_t)MR_PROTOCOL_OURS >> bit & 1))
            refused(MR_REQ_SET_PROTOCOL_FEATURES, &features, 8, NULL, 0);
    }
    for (int i = 0; i < 3; i++) {
        static const uint64_t lonely[] = {MR_F(RING_PACKED), MR_F(IN_ORDER),
                                          MR_F(ORDER_PLATFORM)};

        refused(MR_REQ_SET_FEATURES, &lonely[i], 8, NULL, 0);
    }
}

static void
v114_get_queue_num_needs_mq(void **state)
{
    (void)state;
    refused(MR_REQ_GET_QUEUE_NUM, NULL, 0, NULL, 0);
    assert_int_equal(say_u64(&p, MR_REQ_SET_PROTOCOL_FEATURES,
                             MR_P(REPLY_ACK)), 0);
    refused(MR_REQ_GET_QUEUE_NUM, NULL, 0, NULL, 0);
}

static void
v134_enable_is_0_or_1(void **state)
{
    (void)state;
    bring_up(&p, MODERN, 0);
    for (uint32_t bit = 1; bit < 32; bit++) {
        struct mr_vring_state on = {0, 1u << bit};

        refused(MR_REQ_SET_VRING_ENABLE, &on, 8, NULL, 0);
    }
}

static void
v127_v124_addresses_too_early_or_crooked(void **state)
{
    static const uint8_t crooked[][3] = {{8, 0, 0}, {1, 0, 0}, {0, 1, 0},
                                         {0, 0, 2}, {0, 0, 1}};
    struct mr_vring_addr a = {
        .desc = part(0, 0), .avail = part(0, 1), .used = part(0, 2)};

    (void)state;
    refused(MR_REQ_SET_VRING_ADDR, &a, 40, NULL, 0);
    assert_int_equal(say_memory(&p), 0);
    for (size_t i = 0; i < MR_COUNT_OF(crooked); i++) {
        struct mr_vring_addr bad = a;

        bad.desc += crooked[i][0];
        bad.avail += crooked[i][1];
        bad.used += crooked[i][2];
        refused(MR_REQ_SET_VRING_ADDR, &bad, 40, NULL, 0);
    }
    assert_int_equal(say_addr(&p, 0), 0);
}

/* V60, V61, V129, B1-B4. */
static void
v129_memory_that_cannot_be(void **state)
{
    static const struct mr_region_spec bad[] = {
        {GUEST_BASE, 0, USER_BASE, 0},
        {GUEST_BASE, 0x2000, USER_BASE, 0xfffffffffffff000},
        {GUEST_BASE, 0xfffffffffffff000, USER_BASE, 0},
        {GUEST_BASE, UINT64_MAX, 0, 0},
        {0, UINT64_MAX, 0, 0},
        {0xfffffffffffff000, 0x2000, USER_BASE, 0},
        {GUEST_BASE, 0x2000, 0xfffffffffffff000, 0},
        {GUEST_BASE, MEMORY_BYTES + 1, USER_BASE, 0},
        {GUEST_BASE, MEMORY_BYTES, USER_BASE, 1},
    };
    struct mr_memory_table t = {.n = 1};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int read_only = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int fds[2] = {p.memory, p.memory};

    (void)state;
    bring_up(&p, MODERN, 0);
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        t.region[0] = bad[i];
        refused(MR_REQ_SET_MEM_TABLE, &t, 40, &p.memory, 1);
    }
    t = table();
    refused(MR_REQ_SET_MEM_TABLE, &t, 40, &null, 1);
    t.region[0].size = 4096;
    refused(MR_REQ_SET_MEM_TABLE, &t, 40, &read_only, 1);
    t.n = 2;
    t.region[1] = (struct mr_region_spec){GUEST_BASE + 4095, 4096, 0, 0};
    refused(MR_REQ_SET_MEM_TABLE, &t, 72, fds, 2);
    t.region[1] = (struct mr_region_spec){0, 4096, USER_BASE + 4095, 0};
    refused(MR_REQ_SET_MEM_TABLE, &t, 72, fds, 2);
    close(null);
    close(read_only);
}

static void
e18_a_refused_message_is_followed_by_a_good_one(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct mr_vring_state bad = {7, 7};

        refused(MR_REQ_SET_VRING_NUM, &bad, 8, NULL, 0);
        assert_int_equal(say_none(&p, MR_REQ_GET_FEATURES), 1);
    }
}

/* One session's misdeeds leave another one alone. */
static void
other_sessions_live_on(void **state)
{
    struct mr_vhost_options options = defaults();
    struct peer good, bad;

    (void)state;
    peer_open(&good, &options);
    bring_up(&good, MODERN, 0);
    for (int i = 0; i < 50; i++) {
        peer_open(&bad, &options);
        bring_up(&bad, MODERN, 0);
        assert_int_equal(ftruncate(bad.memory, 4096), 0);
        assert_int_equal(say_state(&bad, MR_REQ_SET_VRING_NUM, 99, 1),
                         -EINVAL);
        mr_vhost_ring_break(bad.vhost, 0, MR_FAULT_LIST);
        mr_backend_tick(bad.backend);
        peer_close(&bad);
    }
    assert_int_equal(mr_port_up(&good.vhost->port), 1);
    peer_close(&good);
}

#define WITH_PEER(f) cmocka_unit_test_setup_teardown(f, open_default,          \
                                                     close_default)

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
        WITH_PEER(b8_disable_and_enable_keep_the_position),
        WITH_PEER(get_vring_base_stops_and_a_kick_starts_again),
        WITH_PEER(b2_a_packed_ring_without_base_is_fresh),
        WITH_PEER(v44_a_new_call_fd_does_not_disturb_a_running_ring),
        WITH_PEER(v49_v132_setup_of_a_running_ring_is_fixed),
        WITH_PEER(v48_same_addresses_do_not_stop_a_ring),
        WITH_PEER(reset_owner_stops_and_disables_all),
        WITH_PEER(v63_new_memory_is_swapped_under_running_rings),
        WITH_PEER(v129_a_bad_table_leaves_the_old_one_and_the_rings),
        WITH_PEER(v66_a_ring_outside_the_new_memory_stops),
        WITH_PEER(v128_an_empty_table_takes_the_memory_away),
        WITH_PEER(v62_lost_memory_stops_the_rings_and_tells_the_peer),
        WITH_PEER(a_busy_ring_parks_the_message),
        WITH_PEER(v56_the_end_of_a_session_waits_for_the_burst),
        WITH_PEER(v142_repeated_fds_replace_the_old_ones),
        WITH_PEER(v86_after_a_session_nothing_is_left),
        WITH_PEER(v40_kicks_are_drained_from_eventfds_and_pipes),
        WITH_PEER(v146_fds_that_are_no_signals_harm_nobody),
        WITH_PEER(c17_a_broken_ring_raises_err_once_and_stays_down),
        WITH_PEER(v123_to_v125_bad_ring_parts_do_not_start),
        WITH_PEER(b6_a_packed_base_beyond_the_ring_does_not_start),
        WITH_PEER(every_request_refuses_wrong_sizes_and_fds),
        WITH_PEER(every_ring_request_refuses_rings_that_are_not_there),
        WITH_PEER(v121_ring_sizes_that_are_none),
        WITH_PEER(v131_v133_features_that_were_not_offered),
        WITH_PEER(v114_get_queue_num_needs_mq),
        WITH_PEER(v134_enable_is_0_or_1),
        WITH_PEER(v127_v124_addresses_too_early_or_crooked),
        WITH_PEER(v129_memory_that_cannot_be),
        WITH_PEER(e18_a_refused_message_is_followed_by_a_good_one),
        cmocka_unit_test(other_sessions_live_on),
    };

    guard_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
