/* The virtio port without a session: options, negotiation, memory, and the
 * edges of a ring's life. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/virtio.h"
#include "unit/eal.h"
#include "unit/fds.h"

static const uint64_t everything = ~0ull;
static const struct mr_vhost_options any = {
    .packed = -1, .mergeable = -1, .in_order = -1, .indirect = -1,
    .event_idx = -1, .order_platform = -1, .version_1 = -1,
};

static struct mr_virtio *
port_open(const struct mr_vhost_options *options)
{
    struct mr_virtio *v;

    assert_int_equal(mr_virtio_create(options, &v), 0);
    return v;
}

static void
options_out_of_range_are_refused_with_nothing_left(void **state)
{
    static const struct {
        struct mr_vhost_options options;
        const char *word; /* of the text */
    } row[] = {
        {{.pairs = 129}, "129"},
        {{.size = 32769}, "32769"},
        {{.size = 300}, "power of two"}, /* S1 */
        {{.size = 300, .packed = -1}, "power of two"},
        {{.packed = 2}, "packed"},
        {{.mergeable = -2}, "mergeable"},
        {{.packed = 1, .version_1 = 0}, "VERSION_1"}, /* N5 */
        {{.in_order = 1, .version_1 = 0}, "VERSION_1"},
        {{.packets = 1u << 23}, "pool"},
    };
    int fds = fds_open();
    struct mr_virtio *v;

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(row); i++) {
        assert_int_equal(mr_virtio_create(&row[i].options, &v), -EINVAL);
        if (!strstr(mr_error_text(), row[i].word))
            fail_msg("row %zu: %s", i, mr_error_text());
    }
    assert_int_equal(fds_open(), fds);
}

/* Sets one tri-state of `any`. */
static struct mr_vhost_options
with(size_t field, int32_t wish)
{
    struct mr_vhost_options o = any;

    memcpy((char *)&o + field, &wish, sizeof(wish));
    return o;
}

static void
a_feature_is_taken_refused_or_required_as_its_option_says(void **state)
{
    static const struct {
        size_t field;
        uint64_t bit;
        bool by_default;
    } row[] = {
        {offsetof(struct mr_vhost_options, packed), MR_F(RING_PACKED), 0},
        {offsetof(struct mr_vhost_options, mergeable), MR_F(MRG_RXBUF), 1},
        {offsetof(struct mr_vhost_options, in_order), MR_F(IN_ORDER), 1},
        {offsetof(struct mr_vhost_options, indirect), MR_F(INDIRECT_DESC), 1},
        {offsetof(struct mr_vhost_options, event_idx), MR_F(EVENT_IDX), 1},
        {offsetof(struct mr_vhost_options, order_platform),
         MR_F(ORDER_PLATFORM), 0},
        {offsetof(struct mr_vhost_options, version_1), MR_F(VERSION_1), 1},
    };

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(row); i++)
        for (int wish = -1; wish <= 1; wish++) {
            struct mr_vhost_options o = with(row[i].field, wish);
            bool taken = wish < 0 ? row[i].by_default : wish;
            struct mr_virtio *v = port_open(&o);

            assert_int_equal(mr_virtio_negotiate(v, everything), 0);
            assert_int_equal(!!(v->features & row[i].bit), taken);
            assert_int_equal(mr_virtio_negotiate(v, everything & ~row[i].bit),
                             wish == 1 ? -EPROTO : 0);
            assert_int_equal(v->features & row[i].bit, 0);
            mr_port_close(&v->port);
        }
}

static void
what_the_peer_lacks_is_named(void **state)
{
    struct mr_vhost_options o = any;
    struct mr_virtio *v;

    (void)state;
    o.packed = o.in_order = 1;
    v = port_open(&o);
    assert_int_equal(mr_virtio_negotiate(v, MR_F(IN_ORDER) | MR_F(VERSION_1)),
                     -EPROTO);
    assert_non_null(strstr(mr_error_text(), "RING_PACKED"));
    assert_null(strstr(mr_error_text(), "IN_ORDER"));
    assert_int_equal(v->features, 0);
    mr_port_close(&v->port);
}

static void
N5_no_feature_without_what_it_needs(void **state)
{
    struct mr_virtio *v = port_open(&any);

    (void)state;
    assert_int_equal(mr_virtio_negotiate(v, everything & ~MR_F(VERSION_1)), 0);
    assert_int_equal(v->features >> 32, 0);
    assert_true(v->features & MR_F(ANY_LAYOUT));
    mr_port_close(&v->port);
}

static void
N7_N103_unknown_and_front_end_bits_are_never_accepted(void **state)
{
    static const uint64_t known =
        MR_F(MRG_RXBUF) | MR_F(INDIRECT_DESC) | MR_F(EVENT_IDX) |
        MR_F(PROTOCOL_FEATURES) | MR_F(VERSION_1) | MR_F(IN_ORDER);
    struct mr_virtio *v = port_open(&any);

    (void)state;
    assert_int_equal(mr_virtio_negotiate(v, everything), 0);
    assert_int_equal(v->features, known); /* one pair: no MQ either */
    assert_int_equal(mr_virtio_negotiate(v, 0), 0);
    assert_int_equal(v->features, 0);
    mr_port_close(&v->port);
}

static void
S2_P2_ring_parts_are_aligned_apart_and_inside_the_region(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 256, 1000, 32768};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(sizes); i++) {
        struct mr_vhost_options o = any;
        struct mr_region_spec region;
        uint64_t end = MR_VIRTIO_BASE;
        struct mr_virtio *v;
        int fd;

        o.packed = 1;
        o.size = sizes[i];
        o.packets = 64;
        o.pairs = 2;
        v = port_open(&o);
        mr_virtio_region(v, &region, &fd);
        assert_int_equal(region.guest, MR_VIRTIO_BASE);
        assert_int_equal(region.user, MR_VIRTIO_BASE);
        assert_int_equal(lseek(fd, 0, SEEK_END), region.size);
        for (uint32_t r = 0; r < 4; r++)
            for (int part = 0; part < 3; part++) {
                uint64_t at = mr_virtio_ring_part(v, r, part);

                assert_true(at >= end && at % 16 == 0);
                end = at + MR_MAX(mr_ring_part_bytes(false, true, o.size, part),
                                  mr_ring_part_bytes(true, true, o.size, part));
                assert_true(end - MR_VIRTIO_BASE <= region.size);
            }
        mr_port_close(&v->port);
    }
}

static void
packet_bytes_are_in_the_region_and_headers_are_not(void **state)
{
    struct mr_virtio *v = port_open(&any);
    const uint8_t *end = v->arena.base + v->arena.size;
    struct mr_burst burst = {.cap = 32};

    (void)state;
    assert_int_equal(mr_pool_alloc(v->port.pool, &burst, 0), 32);
    for (uint32_t i = 0; i < burst.n; i++) {
        const uint8_t *header = (const void *)burst.pkt[i];
        const uint8_t *bytes = burst.pkt[i]->buf_addr;

        assert_true(bytes >= v->arena.base &&
                    bytes + burst.pkt[i]->buf_len <= end);
        assert_false(header >= v->arena.base && header < end);
    }
    mr_burst_free(&burst);
    mr_port_close(&v->port);
}

static void
negotiate(struct mr_virtio *v)
{
    assert_int_equal(mr_virtio_negotiate(v, everything), 0);
}

static void
N4_a_ready_ring_has_its_receive_buffers_posted(void **state)
{
    (void)state;
    for (int packed = 0; packed <= 1; packed++) {
        struct mr_vhost_options o = any;
        struct mr_virtio *v;
        uint32_t home;

        o.packed = packed;
        o.size = 64;
        v = port_open(&o);
        negotiate(v);
        home = mr_pool_available(v->port.pool);
        assert_int_equal(mr_virtio_ring_base(v), packed ? 0x80008000 : 0);
        assert_int_equal(mr_virtio_ring_prepare(v, 0), 0);
        assert_int_equal(mr_pool_available(v->port.pool), home - 64);
        if (packed) /* P3: the first lap's flags */
            assert_int_equal(v->ring[0].desc.packed[63].flags,
                             MR_DESC_WRITE | MR_DESC_AVAIL);
        else
            assert_int_equal(v->ring[0].avail.split->idx, 64);
        mr_virtio_ring_release(v, 0);
        assert_int_equal(mr_pool_available(v->port.pool), home);
        mr_port_close(&v->port);
    }
}

static void
descriptors_carry_addresses_of_the_region_not_ours(void **state)
{
    struct mr_virtio *v = port_open(&any);

    (void)state;
    negotiate(v);
    assert_int_equal(mr_virtio_ring_prepare(v, 0), 0);
    for (uint32_t i = 0; i < v->size; i++) {
        uint64_t at = v->ring[0].desc.split[i].addr;

        assert_true(at >= MR_VIRTIO_BASE &&
                    at < MR_VIRTIO_BASE + v->arena.size);
    }
    mr_port_close(&v->port);
}

static void
a_ring_runs_only_between_open_and_close(void **state)
{
    struct mr_virtio *v = port_open(&any);
    struct mr_queue *rx = mr_port_queue(&v->port, MR_RX, 0);
    uint64_t kicks;

    (void)state;
    negotiate(v);
    assert_int_equal(mr_virtio_ring_prepare(v, 0), 0);
    assert_false(mr_port_up(&v->port));
    mr_virtio_ring_open(v, 0);
    assert_true(mr_queue_up(rx) && mr_port_up(&v->port));
    assert_int_equal(read(v->parts[0].kick_fd, &kicks, 8), 8); /* V91 */

    assert_true(mr_gate_enter(&rx->gate)); /* a burst runs */
    assert_int_equal(mr_virtio_ring_close(v, 0), -EAGAIN);
    mr_gate_leave(&rx->gate);
    assert_int_equal(mr_virtio_ring_close(v, 0), 0);
    assert_false(mr_port_up(&v->port));
    mr_virtio_ring_release(v, 0);
    mr_port_close(&v->port);
}

/* Sends n packets into ring 1 and has the "peer" take `used` of them. */
static void
send_and_use(struct mr_virtio *v, uint32_t n, uint32_t used)
{
    struct mr_queue *tx = mr_port_queue(&v->port, MR_TX, 0);
    struct mr_ring *ring = &v->ring[1];
    struct mr_burst burst = {.cap = MR_BURST_MAX};
    uint8_t frame[60] = {0};

    assert_int_equal(mr_virtio_ring_prepare(v, 1), 0);
    mr_virtio_ring_open(v, 1);
    mr_pool_template(v->port.pool, frame, sizeof(frame));
    assert_int_equal(mr_pool_alloc(v->port.pool, &burst, n), n);
    assert_int_equal(mr_queue_send(tx, &burst, 0), n);
    for (uint32_t i = 0; i < used; i++)
        ring->used.split->ring[i].id = ring->avail.split->ring[i];
    mr_store_release(&ring->used.split->idx, (uint16_t)used);
    assert_int_equal(mr_virtio_ring_close(v, 1), 0);
}

static void
packets_that_the_peer_did_not_take_come_home_and_count_as_down(void **state)
{
    struct mr_virtio *v = port_open(&any);
    uint32_t home = mr_pool_available(v->port.pool);
    struct mr_queue *tx = mr_port_queue(&v->port, MR_TX, 0);

    (void)state;
    negotiate(v);
    send_and_use(v, 20, 0);
    mr_virtio_ring_release(v, 1);
    assert_int_equal(mr_pool_available(v->port.pool), home);
    assert_int_equal(mr_queue_counters(tx)->down, 20);

    send_and_use(v, 20, 13);
    mr_virtio_ring_release(v, 1);
    assert_int_equal(mr_pool_available(v->port.pool), home);
    assert_int_equal(mr_queue_counters(tx)->down, 20 + 7);
    mr_port_close(&v->port);
}

static void
V88_a_prepared_ring_is_fresh_again(void **state)
{
    struct mr_virtio *v = port_open(&any);
    int kick;

    (void)state;
    negotiate(v);
    send_and_use(v, 5, 5);
    kick = v->parts[1].kick_fd;
    mr_virtio_ring_release(v, 1);
    assert_int_equal(mr_virtio_ring_prepare(v, 1), 0);
    assert_int_equal(v->ring[1].used.split->idx, 0);
    assert_int_equal(v->ring[1].avail.split->idx, 0);
    assert_int_equal(v->ring[1].at.used.pos, 0);
    assert_true(v->parts[1].kick_fd >= 0 && kick >= 0);
    mr_port_close(&v->port);
}

static void
a_fault_of_the_peer_ends_with_the_next_session(void **state)
{
    struct mr_virtio *v = port_open(&any);
    struct mr_queue *tx = mr_port_queue(&v->port, MR_TX, 0);

    (void)state;
    negotiate(v);
    send_and_use(v, 5, 9); /* S12 */
    mr_virtio_ring_release(v, 1);
    assert_int_equal(mr_queue_fault(tx), MR_FAULT_USED_INDEX);
    assert_int_equal(mr_virtio_ring_prepare(v, 1), 0);
    assert_int_equal(mr_queue_fault(tx), MR_FAULT_NONE);
    mr_port_close(&v->port);
}

static void
info_tells_what_was_negotiated(void **state)
{
    struct mr_virtio *v = port_open(&any);
    struct mr_port_info info;
    char text[512];

    (void)state;
    mr_port_info(&v->port, &info);
    assert_true(info.features == 0 && info.size == 0);
    assert_int_equal(info.mac[0] & 3, 2); /* local, one station */
    negotiate(v);
    assert_int_equal(mr_virtio_ring_prepare(v, 0), 0);
    assert_int_equal(mr_virtio_ring_prepare(v, 1), 0);
    mr_port_info(&v->port, &info);
    assert_int_equal(info.features, v->features);
    assert_true(info.mergeable && info.in_order && info.version_1);
    assert_false(info.packed || info.order_platform);
    assert_int_equal(info.size, 256);
    assert_int_equal(info.header, 12);
    assert_true(info.variant[MR_RX][0] && info.variant[MR_TX][0]);
    assert_true(mr_queue_dump(mr_port_queue(&v->port, MR_TX, 0), text,
                              sizeof(text)) > 0);
    mr_port_close(&v->port);
}

static void
packets_still_held_survive_their_port(void **state)
{
    struct mr_virtio *v = port_open(&any);
    struct mr_burst burst = {.cap = 4};

    (void)state;
    assert_int_equal(mr_pool_alloc(v->port.pool, &burst, 4), 4);
    assert_int_equal(mr_port_close(&v->port), 0);
    for (uint32_t i = 0; i < 4; i++)
        memset(mr_pkt_append(burst.pkt[i], 60), 0xa5, 60);
    mr_burst_free(&burst);
}

static void
ports_leave_no_fd(void **state)
{
    struct mr_vhost_options o = any;
    int fds = fds_open();

    (void)state;
    o.pairs = 3;
    for (int i = 0; i < 20; i++) {
        struct mr_virtio *v = port_open(&o);

        negotiate(v);
        for (uint32_t r = 0; r < 6; r++)
            for (int again = 0; again < 2; again++) {
                mr_virtio_ring_release(v, r);
                assert_int_equal(mr_virtio_ring_prepare(v, r), 0);
            }
        mr_port_close(&v->port);
    }
    assert_int_equal(fds_open(), fds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range_are_refused_with_nothing_left),
        cmocka_unit_test(
            a_feature_is_taken_refused_or_required_as_its_option_says),
        cmocka_unit_test(what_the_peer_lacks_is_named),
        cmocka_unit_test(N5_no_feature_without_what_it_needs),
        cmocka_unit_test(N7_N103_unknown_and_front_end_bits_are_never_accepted),
        cmocka_unit_test(
            S2_P2_ring_parts_are_aligned_apart_and_inside_the_region),
        cmocka_unit_test(packet_bytes_are_in_the_region_and_headers_are_not),
        cmocka_unit_test(N4_a_ready_ring_has_its_receive_buffers_posted),
        cmocka_unit_test(descriptors_carry_addresses_of_the_region_not_ours),
        cmocka_unit_test(a_ring_runs_only_between_open_and_close),
        cmocka_unit_test(
            packets_that_the_peer_did_not_take_come_home_and_count_as_down),
        cmocka_unit_test(V88_a_prepared_ring_is_fresh_again),
        cmocka_unit_test(a_fault_of_the_peer_ends_with_the_next_session),
        cmocka_unit_test(info_tells_what_was_negotiated),
        cmocka_unit_test(packets_still_held_survive_their_port),
        cmocka_unit_test(ports_leave_no_fd),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
