/* zero_copy of a vhost port (T11): what becomes of packets that are out when
 * their ring stops, the memory changes, the port closes. The driver is a few
 * lines here: a split ring whose buffers hold one long frame each. */
#include "unit/ports.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "port/vhost.h"

enum {
    BYTES = 1 << 20,
    USER = 0x10000000,
    SIZE = 16,
    LEN = 1500,
    BUFFERS = 0x80000, /* guest address */
    STRIDE = 2048,
    AVAIL = 0x4000,
    USED = 0x8000,
};

static struct mr_vhost *v;
static struct mr_burst burst = {.cap = 64};

static struct mr_vhost_options
options(void)
{
    return (struct mr_vhost_options){
        .packed = -1, .mergeable = -1, .in_order = -1, .indirect = -1,
        .event_idx = -1, .order_platform = -1, .version_1 = -1,
        .packets = 512, .zero_copy = 1};
}

static uint8_t *
guest(uint64_t at)
{
    return mr_memory_user(v->memory, USER + at, 1);
}

static void
memory_give(void)
{
    struct mr_region_spec spec = {0, BYTES, USER, 0};
    int fd = memfd_create("guest", MFD_CLOEXEC);
    struct mr_memory *m;

    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(mr_memory_create(&spec, &fd, 1, &m), 0);
    close(fd);
    mr_vhost_set_memory(v, m);
}

static void
ring_start(void)
{
    struct mr_vhost_ring setup = {
        .size = SIZE, .part = {USER, USER + AVAIL, USER + USED},
        .call_fd = -1};

    assert_int_equal(mr_vhost_ring_start(v, 1, &setup), 0);
}

/* n frames, each of the byte that its number is. */
static void
offer(uint32_t n)
{
    struct mr_split_avail *avail = (void *)guest(AVAIL);

    for (; n; n--) {
        uint16_t i = avail->idx % SIZE;
        struct mr_split_desc d = {BUFFERS + i * STRIDE, MR_HEADER + LEN, 0, 0};

        memcpy(guest(16 * i), &d, sizeof(d));
        memset(guest(d.addr), 0, MR_HEADER);
        memset(guest(d.addr + MR_HEADER), i, LEN);
        avail->ring[i] = i;
        mr_store_release(&avail->idx, (uint16_t)(avail->idx + 1));
    }
}

static uint16_t
used(void)
{
    return mr_load_acquire((uint16_t *)(void *)guest(USED + 2));
}

static int
open_port(void **state)
{
    struct mr_vhost_options o = options();

    (void)state;
    assert_int_equal(mr_vhost_create(&o, &v), 0);
    v->features = MR_F(VERSION_1);
    memory_give();
    ring_start();
    return 0;
}

static int
close_port(void **state)
{
    (void)state;
    mr_burst_free(&burst);
    assert_int_equal(mr_port_close(&v->port), 0);
    return 0;
}

static struct mr_queue *
rx(void)
{
    return mr_port_queue(&v->port, MR_RX, 0);
}

static void
check_frame(const struct mr_pkt *pkt, uint8_t byte)
{
    uint8_t got[LEN];

    assert_int_equal(mr_pkt_read(pkt, 0, got, LEN), LEN);
    for (int i = 0; i < LEN; i++)
        assert_int_equal(got[i], byte);
}

static int
stop(void)
{
    int rc;

    while ((rc = mr_vhost_ring_stop(v, 1)) == -EAGAIN)
        usleep(1000);
    return rc;
}

/* ---- Options ------------------------------------------------------------- */

static void
in_order_is_not_offered(void **state)
{
    struct mr_vhost_options o = options();
    struct mr_vhost *other;

    (void)state;
    assert_int_equal(v->offered & MR_F(IN_ORDER), 0);
    o.in_order = 1;
    assert_int_equal(mr_vhost_create(&o, &other), -EINVAL);
    assert_non_null(strstr(mr_error_text(), "in_order"));
    o.in_order = -1;
    o.zero_copy = 2;
    assert_int_equal(mr_vhost_create(&o, &other), -EINVAL);
    o.zero_copy = 0;
    assert_int_equal(mr_vhost_create(&o, &other), 0);
    assert_int_equal(other->offered & MR_F(IN_ORDER), MR_F(IN_ORDER));
    assert_int_equal(mr_port_close(&other->port), 0);
}

static void
half_of_a_ring_is_lent(void **state)
{
    (void)state;
    offer(SIZE);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), SIZE);
    assert_int_equal(mr_queue_counters(rx())->lent, SIZE / 2);
    assert_int_equal(used(), SIZE / 2);
    for (uint32_t i = 0; i < SIZE; i++)
        check_frame(burst.pkt[i], (uint8_t)i);
    mr_burst_free(&burst);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 0);
    assert_int_equal(used(), SIZE);
}

/* ---- Stops --------------------------------------------------------------- */

static void
a_stop_waits_for_packets(void **state)
{
    (void)state;
    offer(3);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 3);
    assert_int_equal(mr_vhost_ring_stop(v, 1), -EAGAIN);
    assert_int_equal(used(), 0);
    mr_burst_free(&burst);
    assert_int_equal(mr_vhost_ring_stop(v, 1), 0);
    assert_int_equal(used(), 3);
    assert_int_equal(mr_vhost_ring_base(v, 1), 3);
}

/* V56, B5: not for ever; the driver then has all of its buffers. */
static void
a_stop_does_not_wait_for_ever(void **state)
{
    uint64_t begin = mr_now();

    (void)state;
    offer(3);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 3);
    assert_int_equal(stop(), 0);
    assert_true(mr_now() - begin >= 100000000);
    assert_int_equal(used(), 3);
    check_frame(burst.pkt[2], 2);
    assert_non_null(v->late);
    ring_start();
    offer(2);
    mr_burst_free(&burst);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 2);
    assert_int_equal(used(), 3); /* nothing comes back twice */
    mr_burst_free(&burst);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 0);
    assert_int_equal(used(), 5);
    mr_vhost_reap(v);
    assert_null(v->late);
}

/* V63: packets of the old table are readable, and end, under the new one. */
static void
memory_changes_under_packets(void **state)
{
    uint8_t *old = guest(BUFFERS);

    (void)state;
    offer(2);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 2);
    assert_int_equal(stop(), 0);
    memory_give();
    ring_start();
    assert_ptr_not_equal(guest(BUFFERS), old);
    check_frame(burst.pkt[0], 0);
    check_frame(burst.pkt[1], 1);
    offer(2);
    mr_vhost_reap(v);
    assert_int_equal(msync(old, 4096, MS_ASYNC), 0);
    mr_burst_free(&burst);
    mr_vhost_reap(v);
    assert_int_equal(msync(old, 4096, MS_ASYNC), -1);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 2);
    check_frame(burst.pkt[1], 1);
}

/* The port goes first; the packets' bytes stay readable and are freed into
 * what the process keeps for that. */
static void
a_port_closes_under_packets(void **state)
{
    struct mr_pool_options pool = {.packets = 64};
    struct mr_vhost_options o = options();
    struct mr_vhost *port = v;
    uint8_t *old;

    (void)state;
    assert_int_equal(mr_pool_create(&pool, &o.pool), 0);
    assert_int_equal(mr_vhost_create(&o, &v), 0);
    v->features = MR_F(VERSION_1);
    memory_give();
    old = guest(BUFFERS);
    ring_start();
    offer(2);
    assert_int_equal(mr_queue_try_recv(rx(), &burst), 2);
    assert_int_equal(mr_port_close(&v->port), 0);
    check_frame(burst.pkt[0], 0);
    check_frame(burst.pkt[1], 1);
    mr_burst_free(&burst);
    assert_int_equal(mr_pool_free(o.pool), 0);
    v = port;
    assert_int_equal(msync(old, 4096, MS_ASYNC), 0);
    mr_vhost_reap(v);
    assert_int_equal(msync(old, 4096, MS_ASYNC), -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_port, close_port)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(in_order_is_not_offered),
        TEST(half_of_a_ring_is_lent),
        TEST(a_stop_waits_for_packets),
        TEST(a_stop_does_not_wait_for_ever),
        TEST(memory_changes_under_packets),
        TEST(a_port_closes_under_packets),
    };

    return cmocka_run_group_tests(tests, ports_setup, NULL);
}
