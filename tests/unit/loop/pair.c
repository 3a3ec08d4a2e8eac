/* Our driver side against our device side over a real socket, in one process:
 * one control loop, bursts called by the test. Packets are numbered; every one
 * must arrive whole, once and in order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "loop/loop.h"
#include "port/gate.h"
#include "ring/layout.h"
#include "unit/eal.h"
#include "unit/fds.h"
#include "unit/packets.h"

enum {
    WAIT_NS = 1000000000, /* for a handshake, ten times over */
    IDLE = 100000,        /* polls without a packet before a test gives up */
    BURST = 32,
};

struct pair {
    struct mr_port *host;  /* vhost */
    struct mr_port *guest; /* virtio */
};

static char path[108];

/* Whatever the other side wants, in both roles. */
static struct mr_vhost_options
options_any(void)
{
    return (struct mr_vhost_options){
        .path = path, .mode = -1, .owner = -1, .group = -1, .packed = -1,
        .mergeable = -1, .in_order = -1, .indirect = -1, .event_idx = -1,
        .order_platform = -1, .version_1 = -1, .retry_ms = 5,
    };
}

static void
host_open(struct pair *p, struct mr_vhost_options o, bool connect)
{
    o.connect = connect;
    if (mr_vhost_open(&o, &p->host))
        fail_msg("vhost: %s", mr_error_text());
}

static void
guest_open(struct pair *p, struct mr_vhost_options o, bool connect)
{
    o.connect = connect;
    if (mr_virtio_open(&o, &p->guest))
        fail_msg("virtio: %s", mr_error_text());
}

/* Serves the loop until both ports are up, or down. */
static void
pair_wait(const struct pair *p, int up)
{
    uint64_t end = mr_now() + 10ull * WAIT_NS;

    while (mr_port_up(p->host) != up || mr_port_up(p->guest) != up) {
        if (mr_now() > end)
            fail_msg("host %d, guest %d, wanted %d", mr_port_up(p->host),
                     mr_port_up(p->guest), up);
        mr_loop_run(1000);
    }
}

/* The device side's options hold for the driver's, but for its own choices. */
static struct pair
pair_open(const struct mr_vhost_options *o)
{
    struct mr_vhost_options host = options_any();
    struct pair p;

    host.pairs = o->pairs;
    host_open(&p, host, false);
    guest_open(&p, *o, true);
    pair_wait(&p, 1);
    return p;
}

static void
pair_close(struct pair *p)
{
    assert_int_equal(mr_port_close(p->guest), 0);
    assert_int_equal(mr_port_close(p->host), 0);
    mr_loop_run(0);
}

/* ---- Traffic ---------------------------------------------------------- */

static uint32_t
frame_len(uint32_t seq, uint32_t max)
{
    static const uint32_t lens[] = {60, 14, 64, 1514, 61, 128, 2048, 2049,
                                    9000, 4097, 65000, MR_FRAME_MAX};
    uint32_t len = lens[seq % MR_COUNT_OF(lens)];

    return len <= max ? len : 60 + seq % (max - 59);
}

static void
frame_fill(uint8_t *bytes, uint32_t seq, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(seq * 7 + i * 13 + (i >> 8));
    memcpy(bytes, &seq, sizeof(seq));
}

static void
frames_check(struct mr_burst *burst, uint32_t *got, uint32_t max)
{
    static uint8_t want[MR_FRAME_MAX];

    for (uint32_t i = 0; i < burst->n; i++, ++*got) {
        uint32_t len = frame_len(*got, max);

        frame_fill(want, *got, len);
        assert_pkt_equal(burst->pkt[i], want, len);
    }
    mr_burst_free(burst);
}

/* Adds packets to the burst up to number `n`. */
static void
frames_make(struct mr_pool *pool, struct mr_burst *burst, uint32_t *made,
            uint32_t n, uint32_t max)
{
    static uint8_t bytes[MR_FRAME_MAX];

    while (burst->n < burst->cap && *made < n) {
        uint32_t len = frame_len(*made, max);

        if (mr_pool_available(pool) < 64)
            return;
        frame_fill(bytes, *made, len);
        burst->pkt[burst->n++] = pkt_make(pool, bytes, len, 2048);
        ++*made;
    }
}

/* Sends n packets of at most `max` bytes from one queue to the other. */
static void
stream(struct mr_queue *tx, struct mr_queue *rx, struct mr_pool *pool,
       uint32_t n, uint32_t max)
{
    struct mr_burst out = {.cap = BURST};
    struct mr_burst in = {.cap = BURST};
    uint32_t made = 0;
    uint32_t got = 0;
    uint32_t idle = 0;

    while (got < n) {
        uint32_t before = got;

        frames_make(pool, &out, &made, n, max);
        mr_queue_try_send(tx, &out);
        mr_queue_try_recv(rx, &in);
        frames_check(&in, &got, max);
        idle = got > before ? 0 : idle + 1;
        if (idle > IDLE)
            fail_msg("%u of %u packets came", got, n);
    }
    assert_int_equal(out.n, 0);
    assert_int_equal(mr_queue_counters(rx)->packets >= n, 1);
}

/* Both directions of one queue pair; long frames towards the driver only when
 * they can be spread over buffers. */
static void
exchange(const struct pair *p, uint32_t queue, uint32_t n)
{
    struct mr_port_info info;
    uint32_t max;

    mr_port_info(p->guest, &info);
    max = info.mergeable && info.size >= 64 ? 9000 : 1514;
    stream(mr_port_queue(p->guest, MR_TX, queue),
           mr_port_queue(p->host, MR_RX, queue), mr_port_pool(p->guest), n,
           info.size >= 64 ? MR_FRAME_MAX : 1514);
    stream(mr_port_queue(p->host, MR_TX, queue),
           mr_port_queue(p->guest, MR_RX, queue), mr_port_pool(p->host), n,
           max);
}

static void
no_faults(const struct pair *p)
{
    for (int d = 0; d < 2; d++)
        for (uint32_t q = 0; q < mr_port_pairs(p->host); q++) {
            assert_int_equal(mr_queue_fault(mr_port_queue(p->host, d, q)), 0);
            assert_int_equal(mr_queue_fault(mr_port_queue(p->guest, d, q)), 0);
        }
}

/* ---- Tests ------------------------------------------------------------ */

static void
every_variant_carries_packets_both_ways(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++) {
        struct mr_vhost_options o = options_any();
        struct mr_port_info info;
        struct pair p;

        o.packed = i & 1;
        o.mergeable = i >> 1 & 1;
        o.in_order = i >> 2 & 1;
        o.indirect = i >> 3 & 1;
        o.event_idx = i >> 4 & 1;
        p = pair_open(&o);
        mr_port_info(p.guest, &info);
        assert_int_equal(info.packed, o.packed);
        assert_int_equal(info.mergeable, o.mergeable);
        assert_int_equal(info.in_order, o.in_order);
        exchange(&p, 0, 1200);
        no_faults(&p);
        pair_close(&p);
    }
}

static void
both_ends_agree_on_what_was_negotiated(void **state)
{
    struct mr_vhost_options o = options_any();
    struct mr_port_info host;
    struct mr_port_info guest;
    struct pair p;

    (void)state;
    o.packed = 1;
    o.size = 100;
    p = pair_open(&o);
    mr_port_info(p.host, &host);
    mr_port_info(p.guest, &guest);
    assert_int_equal(host.features, guest.features);
    assert_int_equal(host.protocol_features, guest.protocol_features);
    assert_int_equal(host.size, 100);
    assert_int_equal(guest.size, 100);
    pair_close(&p);
}

static void
every_ring_size_carries_packets(void **state)
{
    static const struct {
        uint32_t size;
        int packed;
    } row[] = {{1, 0}, {2, 0}, {1024, 0}, {32768, 0}, {1, 1},
               {3, 1}, {7, 1}, {1000, 1}, {32768, 1}};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(row); i++) {
        struct mr_vhost_options o = options_any();
        struct pair p;

        o.size = row[i].size;
        o.packed = row[i].packed;
        p = pair_open(&o);
        exchange(&p, 0, 1000);
        no_faults(&p);
        pair_close(&p);
    }
}

static void
legacy_headers_of_10_and_12_bytes(void **state)
{
    (void)state;
    for (int mergeable = 0; mergeable <= 1; mergeable++) {
        struct mr_vhost_options o = options_any();
        struct mr_port_info info;
        struct pair p;

        o.version_1 = 0;
        o.mergeable = mergeable;
        p = pair_open(&o);
        mr_port_info(p.guest, &info);
        assert_int_equal(info.header, mergeable ? 12 : 10);
        exchange(&p, 0, 1000);
        pair_close(&p);
    }
}

static void
every_pair_of_many_carries_its_own_packets(void **state)
{
    struct mr_vhost_options o = options_any();
    struct pair p;

    (void)state;
    o.pairs = 5;
    o.size = 64;
    p = pair_open(&o);
    for (uint32_t q = 0; q < 5; q++)
        exchange(&p, q, 300);
    no_faults(&p);
    pair_close(&p);
}

static void
either_end_may_be_the_server(void **state)
{
    struct pair p;

    (void)state;
    guest_open(&p, options_any(), false);
    host_open(&p, options_any(), true);
    pair_wait(&p, 1);
    exchange(&p, 0, 500);
    pair_close(&p);
    assert_int_equal(access(path, F_OK), -1);
}

static void
V86_a_driver_that_comes_back_starts_anew(void **state)
{
    struct mr_vhost_options o = options_any();
    struct pair p;

    (void)state;
    host_open(&p, o, false);
    for (int i = 0; i < 20; i++) {
        o.packed = i & 1;
        guest_open(&p, o, true);
        pair_wait(&p, 1);
        exchange(&p, 0, 300);
        assert_int_equal(mr_port_close(p.guest), 0);
    }
    assert_int_equal(mr_port_close(p.host), 0);
    mr_loop_run(0);
}

static void
V89_a_device_that_comes_back_is_found_again(void **state)
{
    uint32_t home = 0;
    struct pair p;

    (void)state;
    guest_open(&p, options_any(), true);
    for (uint32_t i = 1; i <= 20; i++) {
        struct mr_port_info info;

        home = mr_pool_available(mr_port_pool(p.guest));
        host_open(&p, options_any(), false);
        pair_wait(&p, 1);
        exchange(&p, 0, 300);
        mr_port_info(p.guest, &info);
        assert_int_equal(info.connects, i);
        assert_int_equal(mr_port_close(p.host), 0);
        while (mr_port_up(p.guest))
            mr_loop_run(1000);
        assert_int_equal(mr_pool_available(mr_port_pool(p.guest)), home);
    }
    assert_int_equal(mr_port_close(p.guest), 0);
}

static void
packets_in_flight_come_home_when_the_peer_goes(void **state)
{
    struct mr_burst burst = {.cap = BURST};
    struct pair p = pair_open(&(struct mr_vhost_options){
        .path = path, .mode = -1, .owner = -1, .group = -1, .retry_ms = 5,
        .version_1 = -1});
    struct mr_queue *tx = mr_port_queue(p.guest, MR_TX, 0);
    struct mr_pool *pool = mr_port_pool(p.guest);
    uint32_t made = 0;

    (void)state;
    frames_make(pool, &burst, &made, BURST, 1514);
    assert_int_equal(mr_queue_try_send(tx, &burst), BURST);
    assert_int_equal(mr_port_close(p.host), 0);
    while (mr_port_up(p.guest))
        mr_loop_run(1000);
    assert_int_equal(mr_pool_available(pool), mr_pool_size(pool));
    assert_int_equal(mr_queue_counters(tx)->down, BURST);
    assert_int_equal(mr_port_close(p.guest), 0);
}

static void
sends_without_a_peer_count_as_down(void **state)
{
    struct mr_burst burst = {.cap = 4};
    struct pair p;
    struct mr_queue *tx;

    (void)state;
    guest_open(&p, options_any(), true);
    tx = mr_port_queue(p.guest, MR_TX, 0);
    assert_int_equal(mr_pool_alloc(mr_port_pool(p.guest), &burst, 4), 4);
    assert_int_equal(mr_queue_send(tx, &burst, 0), 0);
    assert_int_equal(mr_queue_counters(tx)->down, 4);
    assert_int_equal(mr_port_close(p.guest), 0);
}

static void
the_orderly_stop_leaves_the_device_without_memory_or_faults(void **state)
{
    struct mr_vhost_options o = options_any();
    struct pair p = pair_open(&o);
    struct mr_port_info info;

    (void)state;
    exchange(&p, 0, 100);
    assert_int_equal(mr_port_close(p.guest), 0);
    while (mr_port_up(p.host))
        mr_loop_run(1000);
    for (int d = 0; d < 2; d++)
        assert_int_equal(mr_queue_fault(mr_port_queue(p.host, d, 0)), 0);
    do {
        mr_loop_run(1000);
        mr_port_info(p.host, &info);
    } while (info.connected);
    assert_int_equal(mr_port_close(p.host), 0);
    mr_loop_run(0);
}

static void
close_does_not_wait_for_a_peer_that_is_silent(void **state)
{
    struct pair p;

    (void)state;
    guest_open(&p, options_any(), false);
    host_open(&p, options_any(), true);
    pair_wait(&p, 1);
    assert_int_equal(mr_port_close(p.host), 0); /* its end waits in the loop */
    assert_int_equal(mr_port_close(p.guest), 0);
    mr_loop_run(0);
}

static void
a_refused_peer_is_tried_again_and_both_ports_stay_whole(void **state)
{
    struct mr_vhost_options host = options_any();
    struct mr_vhost_options guest = options_any();
    uint64_t end = mr_now() + WAIT_NS / 10;
    struct pair p;

    (void)state;
    host.packed = 0;
    guest.packed = 1;
    mr_log_level_set(MR_LOG_ERROR);
    host_open(&p, host, false);
    guest_open(&p, guest, true);
    while (mr_now() < end)
        mr_loop_run(1000);
    mr_log_level_set(MR_LOG_WARN);
    assert_false(mr_port_up(p.guest) || mr_port_up(p.host));
    pair_close(&p);
}

static void
ports_and_sessions_leave_no_fd(void **state)
{
    struct mr_vhost_options o = options_any();
    int fds = fds_open();

    (void)state;
    o.pairs = 2;
    for (int i = 0; i < 20; i++) {
        struct pair p = pair_open(&o);

        pair_close(&p);
    }
    for (int i = 0; i < 50; i++)
        mr_loop_run(100);
    assert_int_equal(fds_open(), fds);
}

static int
setup(void **state)
{
    mr_gate_init();
    snprintf(path, sizeof(path), "/tmp/mr_pair_%d.sock", (int)getpid());
    if (mr_loop_open())
        return -1;
    return eal_setup(state);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_carries_packets_both_ways),
        cmocka_unit_test(both_ends_agree_on_what_was_negotiated),
        cmocka_unit_test(every_ring_size_carries_packets),
        cmocka_unit_test(legacy_headers_of_10_and_12_bytes),
        cmocka_unit_test(every_pair_of_many_carries_its_own_packets),
        cmocka_unit_test(either_end_may_be_the_server),
        cmocka_unit_test(V86_a_driver_that_comes_back_starts_anew),
        cmocka_unit_test(V89_a_device_that_comes_back_is_found_again),
        cmocka_unit_test(packets_in_flight_come_home_when_the_peer_goes),
        cmocka_unit_test(sends_without_a_peer_count_as_down),
        cmocka_unit_test(
            the_orderly_stop_leaves_the_device_without_memory_or_faults),
        cmocka_unit_test(close_does_not_wait_for_a_peer_that_is_silent),
        cmocka_unit_test(
            a_refused_peer_is_tried_again_and_both_ports_stay_whole),
        cmocka_unit_test(ports_and_sessions_leave_no_fd),
    };
    int failed = cmocka_run_group_tests(tests, setup, NULL);

    mr_loop_close();
    return failed;
}
