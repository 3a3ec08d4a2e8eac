/* The vhost port without a session: options, rings, gates. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "port/vhost.h"
#include "unit/eal.h"
#include "unit/fds.h"

enum { BYTES = 1 << 20, USER = 0x10000000 };

static const struct mr_vhost_options any = {
    .packed = -1, .mergeable = -1, .in_order = -1, .indirect = -1,
    .event_idx = -1, .order_platform = -1, .version_1 = -1, .packets = 512,
};
static const uint64_t modern = MR_F(VERSION_1) | MR_F(MRG_RXBUF);
static struct mr_vhost *v;

static int
open_port(void **state)
{
    (void)state;
    assert_int_equal(mr_vhost_create(&any, &v), 0);
    return 0;
}

static int
close_port(void **state)
{
    (void)state;
    assert_int_equal(mr_port_close(&v->port), 0);
    return 0;
}

static void
memory_give(void)
{
    struct mr_region_spec spec = {0, BYTES, USER, 0};
    struct mr_memory *m;
    int fd = memfd_create("guest", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(mr_memory_create(&spec, &fd, 1, &m), 0);
    close(fd);
    mr_vhost_set_memory(v, m);
}

static struct mr_vhost_ring
setup_of(uint32_t r)
{
    uint64_t at = USER + r * 0x10000;

    return (struct mr_vhost_ring){
        .size = 256, .part = {at, at + 0x4000, at + 0x8000}, .call_fd = -1};
}

static void
options_out_of_range_are_refused_with_nothing_left(void **state)
{
    int before = fds_open();
    struct mr_vhost_options o = any;

    (void)state;
    o.pairs = 129;
    assert_int_equal(mr_vhost_create(&o, &v), -EINVAL);
    o = any;
    o.mergeable = 2;
    assert_int_equal(mr_vhost_create(&o, &v), -EINVAL);
    o = any;
    o.version_1 = 0;
    o.in_order = 1; /* N5 */
    assert_int_equal(mr_vhost_create(&o, &v), -EINVAL);
    assert_non_null(strstr(mr_error_text(), "VERSION_1"));
    o = any;
    o.packets = 1u << 23;
    assert_int_equal(mr_vhost_create(&o, &v), -EINVAL);
    assert_int_equal(fds_open(), before);
}

static void
each_option_takes_its_feature_out_of_the_offer(void **state)
{
    static const struct {
        size_t option;
        uint64_t bit;
    } row[] = {
        {offsetof(struct mr_vhost_options, packed), MR_F(RING_PACKED)},
        {offsetof(struct mr_vhost_options, mergeable), MR_F(MRG_RXBUF)},
        {offsetof(struct mr_vhost_options, in_order), MR_F(IN_ORDER)},
        {offsetof(struct mr_vhost_options, indirect), MR_F(INDIRECT_DESC)},
        {offsetof(struct mr_vhost_options, event_idx), MR_F(EVENT_IDX)},
        {offsetof(struct mr_vhost_options, order_platform),
         MR_F(ORDER_PLATFORM)},
    };
    uint64_t all;

    (void)state;
    assert_int_equal(mr_vhost_create(&any, &v), 0);
    all = v->offered;
    mr_port_close(&v->port);
    for (size_t i = 0; i < MR_COUNT_OF(row); i++) {
        struct mr_vhost_options o = any;

        *(int32_t *)((char *)&o + row[i].option) = 0;
        assert_int_equal(mr_vhost_create(&o, &v), 0);
        assert_int_equal(v->offered, all & ~row[i].bit);
        mr_port_close(&v->port);
    }
}

/* virtio-net 1: even rings are what the driver receives, so our tx. */
static void
even_rings_are_tx_and_odd_ones_rx(void **state)
{
    struct mr_vhost_options o = any;

    (void)state;
    o.pairs = 128;
    assert_int_equal(mr_vhost_create(&o, &v), 0);
    for (uint32_t r = 0; r < 256; r++) {
        struct mr_queue *q = mr_vhost_queue(v, r);

        assert_int_equal(q->direction, r & 1 ? MR_RX : MR_TX);
        assert_int_equal(q->index, r / 2);
        assert_ptr_equal(q, mr_port_queue(&v->port, r & 1 ? MR_RX : MR_TX,
                                          r / 2));
    }
    mr_port_close(&v->port);
}

static void
v53_a_ring_without_memory_does_not_start(void **state)
{
    struct mr_vhost_ring setup = setup_of(0);

    (void)state;
    v->features = modern;
    assert_int_equal(mr_vhost_ring_start(v, 0, &setup), -EINVAL);
    assert_int_equal(mr_vhost_ring_fault(v, 0), MR_FAULT_RING_SETUP);
    assert_int_equal(mr_queue_fault(mr_vhost_queue(v, 0)),
                     MR_FAULT_RING_SETUP);
    assert_int_equal(mr_queue_up(mr_vhost_queue(v, 0)), 0);
    assert_int_equal(
        mr_vhost_queue(v, 0)->counters.faults[MR_FAULT_RING_SETUP], 1);
}

static void
a_pair_is_up_when_both_rings_run(void **state)
{
    struct mr_vhost_ring setup[2] = {setup_of(0), setup_of(1)};
    struct mr_port_info info;

    (void)state;
    v->features = modern;
    memory_give();
    assert_int_equal(mr_vhost_ring_start(v, 0, &setup[0]), 0);
    assert_int_equal(mr_port_up(&v->port), 0);
    assert_int_equal(mr_vhost_ring_start(v, 1, &setup[1]), 0);
    assert_int_equal(mr_port_up(&v->port), 1);
    mr_port_info(&v->port, &info);
    assert_int_equal(info.size, 256);
    assert_int_equal(info.header, 12);
    assert_int_equal(info.mergeable, 1);
    assert_int_equal(info.packed, 0);
    assert_true(info.variant[MR_RX][0] && info.variant[MR_TX][0]);
    assert_int_equal(mr_vhost_ring_stop(v, 0), 0);
    assert_int_equal(mr_port_up(&v->port), 0);
    assert_int_equal(mr_vhost_ring_stop(v, 0), 0); /* again */
}

/* S3: event words count only with EVENT_IDX. */
static void
s3_event_words_need_memory_only_with_event_idx(void **state)
{
    struct mr_vhost_ring setup = setup_of(0);

    (void)state;
    memory_give();
    setup.part[2] = USER + BYTES - (4 + 8 * 256);
    v->features = modern | MR_F(EVENT_IDX);
    assert_int_equal(mr_vhost_ring_start(v, 0, &setup), -EINVAL);
    v->features = modern;
    assert_int_equal(mr_vhost_ring_start(v, 0, &setup), 0);
}

static void
v56_a_stop_waits_for_the_burst(void **state)
{
    struct mr_vhost_ring setup = setup_of(1);
    struct mr_gate *gate = &mr_vhost_queue(v, 1)->gate;

    (void)state;
    v->features = modern;
    memory_give();
    assert_int_equal(mr_vhost_ring_start(v, 1, &setup), 0);
    assert_true(mr_gate_enter(gate));
    assert_int_equal(mr_vhost_ring_stop(v, 1), -EAGAIN);
    assert_true(v->ring[1].started);
    mr_gate_leave(gate);
    assert_int_equal(mr_vhost_ring_stop(v, 1), 0);
    assert_false(v->ring[1].started);
    assert_false(mr_gate_enter(gate));
}

static void
v44_the_call_fd_changes_behind_the_gate(void **state)
{
    struct mr_vhost_ring setup = setup_of(1);
    struct mr_gate *gate = &mr_vhost_queue(v, 1)->gate;

    (void)state;
    assert_int_equal(mr_vhost_ring_call(v, 1, 7), 0); /* stopped: nothing */
    v->features = modern;
    memory_give();
    assert_int_equal(mr_vhost_ring_start(v, 1, &setup), 0);
    assert_int_equal(v->ring[1].notify_fd, -1);
    assert_true(mr_gate_enter(gate));
    assert_int_equal(mr_vhost_ring_call(v, 1, 7), -EAGAIN);
    assert_int_equal(v->ring[1].notify_fd, -1);
    mr_gate_leave(gate);
    assert_int_equal(mr_vhost_ring_call(v, 1, 7), 0);
    assert_int_equal(v->ring[1].notify_fd, 7);
    assert_true(mr_gate_enter(gate));
    mr_gate_leave(gate);
}

static void
a_dump_tells_the_state_of_a_ring(void **state)
{
    struct mr_vhost_ring setup = setup_of(1);
    char text[1024];

    (void)state;
    assert_true(mr_queue_dump(mr_vhost_queue(v, 1), text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "stopped"));
    v->features = modern;
    memory_give();
    assert_int_equal(mr_vhost_ring_start(v, 1, &setup), 0);
    assert_true(mr_queue_dump(mr_vhost_queue(v, 1), text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "256"));
}

#define WITH_PORT(f) cmocka_unit_test_setup_teardown(f, open_port, close_port)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range_are_refused_with_nothing_left),
        cmocka_unit_test(each_option_takes_its_feature_out_of_the_offer),
        cmocka_unit_test(even_rings_are_tx_and_odd_ones_rx),
        WITH_PORT(v53_a_ring_without_memory_does_not_start),
        WITH_PORT(a_pair_is_up_when_both_rings_run),
        WITH_PORT(s3_event_words_need_memory_only_with_event_idx),
        WITH_PORT(v56_a_stop_waits_for_the_burst),
        WITH_PORT(v44_the_call_fd_changes_behind_the_gate),
        WITH_PORT(a_dump_tells_the_state_of_a_ring),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
