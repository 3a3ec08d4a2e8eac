/* Every rule about messages that a hostile front-end may break, walked through
 * along the list of requests. */
#include "unit/proto/peer.h"

/* ---- Hostile front-ends -------------------------------------------------- */

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

/* Any order, any value near a border, any fd: no crash, no leak, and an honest
 * peer is served afterwards. The seed is fixed, so a failure comes again. */
static void
random_messages_do_no_harm(void **state)
{
    static const uint64_t borders[] = {
        0, 1, 2, 3, 255, 256, 257, 32768, 32769, 0x8000, 0xffff, 0x10000,
        0x7fffffff, 0x80000000, 0xffffffff, GUEST_BASE, USER_BASE,
        USER_BASE + 0x4000, USER_BASE + 0x8000, USER_BASE + MEMORY_BYTES,
        MEMORY_BYTES, 0xfffffffffffff000, UINT64_MAX, MODERN,
        MODERN | MR_F(RING_PACKED)};
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int before = fds_open();
    struct mr_message msg;
    unsigned seed = 42;

    (void)state;
    memset(&msg, 0, sizeof(msg));
    for (int i = 0; i < 100000; i++) {
        uint32_t request = (uint32_t)rand_r(&seed) % 20;
        uint32_t flags = rand_r(&seed) & MR_MESSAGE_NEED_REPLY;
        bool plausible = mr_message_row(request) && rand_r(&seed) % 4;
        uint32_t size = plausible ? good_payload(request, &msg)
                                  : (uint32_t)rand_r(&seed) % 300;
        uint32_t nfds = plausible ? (size != 0) : rand_r(&seed) % 3;
        int fds[2] = {rand_r(&seed) % 2 ? p.memory : event, event};

        for (int n = rand_r(&seed) % 3; n > 0 && size >= 8; n--) {
            uint64_t value =
                borders[(unsigned)rand_r(&seed) % MR_COUNT_OF(borders)];
            uint32_t width = rand_r(&seed) % 2 ? 4 : 8;
            uint32_t at = (uint32_t)rand_r(&seed) % (size / width) * width;

            memcpy(msg.payload.bytes + at, &value, width);
        }
        if (say(&p, request, flags, &msg.payload, size, fds, nfds) < 0) {
            assert_int_equal(mr_backend_close(p.backend), 0);
            assert_int_equal(fds_open(), before);
            mr_backend_open(p.backend);
            if (rand_r(&seed) % 2)
                bring_up(&p, MODERN, 0);
        }
        if (i % 64 == 0)
            mr_backend_tick(p.backend);
    }
    assert_int_equal(mr_backend_close(p.backend), 0);
    mr_backend_open(p.backend);
    bring_up(&p, MODERN, 0);
    close(event);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PEER(every_request_refuses_wrong_sizes_and_fds),
        WITH_PEER(every_ring_request_refuses_rings_that_are_not_there),
        WITH_PEER(v121_ring_sizes_that_are_none),
        WITH_PEER(v131_v133_features_that_were_not_offered),
        WITH_PEER(v114_get_queue_num_needs_mq),
        WITH_PEER(v134_enable_is_0_or_1),
        WITH_PEER(v127_v124_addresses_too_early_or_crooked),
        WITH_PEER(v129_memory_that_cannot_be),
        WITH_PEER(e18_a_refused_message_is_followed_by_a_good_one),
        WITH_PEER(random_messages_do_no_harm),
        cmocka_unit_test(other_sessions_live_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
