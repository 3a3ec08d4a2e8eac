/* mr_queue_splice and mr_poll_splice on vhost ports without a session: gates,
 * waiting for room, kinds of port. The driver is a few lines here, on split
 * rings of direct buffers; tests/unit/burst/splice.c has all others. */
#include "unit/ports.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/header.h"
#include "port/poll.h"
#include "port/vhost.h"

enum {
    BYTES = 1 << 20,
    USER = 0x10000000,
    SIZE = 64,
    LEN = 60,
    BUFFERS = 0x80000, /* guest address */
    STRIDE = 256,
};

static const struct mr_vhost_options options = {
    .packed = -1, .mergeable = -1, .in_order = -1, .indirect = -1,
    .event_idx = -1, .order_platform = -1, .version_1 = -1, .packets = 512,
};

/* A port and its two queues, of which each has a driver. */
struct end {
    struct mr_vhost *v;
    uint8_t *bytes; /* of the guest */
    uint16_t offered[2];
} a, b;

static struct mr_burst burst = {.cap = 32};

static uint64_t
part(uint32_t r, int i)
{
    return r * 0x10000 + i * 0x4000;
}

static int
ring_start(struct end *e, uint32_t r)
{
    struct mr_vhost_ring setup = {
        .size = SIZE, .call_fd = -1,
        .part = {USER + part(r, 0), USER + part(r, 1), USER + part(r, 2)}};

    e->offered[r] = 0;
    memset(e->bytes + part(r, 0), 0, 0xc000);
    return mr_vhost_ring_start(e->v, r, &setup);
}

static void
end_open(struct end *e)
{
    struct mr_region_spec spec = {0, BYTES, USER, 0};
    int fd = memfd_create("guest", MFD_CLOEXEC);
    struct mr_memory *m;

    assert_int_equal(mr_vhost_create(&options, &e->v), 0);
    e->v->features = MR_F(VERSION_1);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(mr_memory_create(&spec, &fd, 1, &m), 0);
    close(fd);
    mr_vhost_set_memory(e->v, m);
    e->bytes = mr_memory_user(m, USER, BYTES);
    assert_int_equal(ring_start(e, 0), 0);
    assert_int_equal(ring_start(e, 1), 0);
}

static int
open_both(void **state)
{
    (void)state;
    end_open(&a);
    end_open(&b);
    return 0;
}

static int
close_both(void **state)
{
    (void)state;
    mr_burst_free(&burst);
    assert_int_equal(mr_port_close(&a.v->port), 0);
    assert_int_equal(mr_port_close(&b.v->port), 0);
    return 0;
}

static struct mr_queue *
rx(const struct end *e)
{
    return mr_port_queue(&e->v->port, MR_RX, 0);
}

static struct mr_queue *
tx(const struct end *e)
{
    return mr_port_queue(&e->v->port, MR_TX, 0);
}

/* Offers one buffer on ring r: 0 = to receive into, 1 = with a frame whose
 * bytes are all its number, of Ethernet type `type`. */
static void
offer(struct end *e, uint32_t r, uint16_t type)
{
    uint16_t i = e->offered[r]++;
    uint64_t at = BUFFERS + (r * SIZE + i % SIZE) * STRIDE;
    struct mr_split_desc d = {at, MR_HEADER + LEN, r ? 0 : MR_DESC_WRITE, 0};
    struct mr_split_avail *avail =
        (struct mr_split_avail *)(void *)(e->bytes + part(r, 1));

    memset(e->bytes + at, 0, MR_HEADER);
    memset(e->bytes + at + MR_HEADER, r ? i : 0xff, LEN);
    if (r)
        mr_put16(e->bytes + at + MR_HEADER + 12, type);
    memcpy(e->bytes + part(r, 0) + 16 * (i % SIZE), &d, sizeof(d));
    avail->ring[i % SIZE] = i % SIZE;
    mr_store_release(&avail->idx, e->offered[r]);
}

static void
offer_frames(struct end *e, uint32_t n)
{
    while (n--)
        offer(e, 1, 0x88b5);
}

static void
offer_room(struct end *e, uint32_t n)
{
    while (n--)
        offer(e, 0, 0);
}

static uint16_t
used(const struct end *e, uint32_t r)
{
    const uint16_t *words = (const uint16_t *)(void *)(e->bytes + part(r, 2));

    return mr_load_acquire(words + 1);
}

/* Frame i that the driver received has this number. */
static void
check_frame(const struct end *e, uint32_t i, uint8_t number)
{
    const uint8_t *f = e->bytes + BUFFERS + i % SIZE * STRIDE + MR_HEADER;

    assert_int_equal(f[0], number);
    assert_int_equal(f[LEN - 1], number);
}

static int32_t
splice(const struct end *from, const struct end *to, uint64_t timeout_us)
{
    return mr_queue_splice(rx(from), tx(to), 32, NULL, timeout_us);
}

/* ---- mr_queue_splice ----------------------------------------------------- */

static void
from_port_to_port_and_back_into_the_same(void **state)
{
    (void)state;
    assert_int_equal(splice(&a, &b, 0), 0);
    offer_frames(&a, 40);
    offer_room(&a, 40);
    offer_room(&b, 40);
    assert_int_equal(splice(&a, &b, 0), 32);
    assert_int_equal(splice(&a, &a, 0), 8);
    assert_int_equal(splice(&a, &b, 0), 0);
    assert_int_equal(used(&a, 1), 40);
    assert_int_equal(used(&b, 0), 32);
    assert_int_equal(used(&a, 0), 8);
    for (uint32_t i = 0; i < 40; i++)
        check_frame(i < 32 ? &b : &a, i % 32, (uint8_t)i);
    assert_int_equal(mr_queue_counters(rx(&a))->packets, 40);
    assert_int_equal(mr_queue_counters(tx(&b))->packets, 32);
    assert_int_equal(mr_queue_counters(tx(&b))->bytes, 32 * LEN);
}

static void
no_packets_asked_for_no_packets_moved(void **state)
{
    (void)state;
    offer_frames(&a, 1);
    offer_room(&b, 1);
    assert_int_equal(mr_queue_splice(rx(&a), tx(&b), 0, NULL, 0), 0);
    assert_int_equal(mr_queue_splice(rx(&a), tx(&b), ~0u, NULL, 0), 1);
}

static void
other_kinds_and_directions_are_not_spliced(void **state)
{
    struct mr_null_options o = {0};
    struct mr_port *null;

    (void)state;
    assert_int_equal(mr_null_open(&o, &null), 0);
    offer_frames(&a, 1);
    offer_room(&a, 1);
    assert_int_equal(mr_queue_splice(rx(&a), mr_port_queue(null, MR_TX, 0), 9,
                                     NULL, 0), -ENOTSUP);
    assert_int_equal(mr_queue_splice(mr_port_queue(null, MR_RX, 0), tx(&a), 9,
                                     NULL, 0), -ENOTSUP);
    assert_int_equal(mr_queue_splice(tx(&a), tx(&b), 9, NULL, 0), -ENOTSUP);
    assert_int_equal(mr_queue_splice(rx(&a), rx(&b), 9, NULL, 0), -ENOTSUP);
    assert_int_equal(mr_queue_splice(tx(&a), rx(&a), 9, NULL, 0), -ENOTSUP);
    assert_int_equal(used(&a, 0) + used(&a, 1), 0);
    assert_int_equal(mr_port_close(null), 0);
}

/* A stopped source has nothing; for a stopped target the packets are to be
 * sent, which drops and counts them. */
static void
stopped_queues(void **state)
{
    (void)state;
    offer_frames(&a, 3);
    offer_room(&b, 3);
    assert_int_equal(mr_vhost_ring_stop(b.v, 0), 0);
    assert_int_equal(splice(&a, &b, ~0ull), -ENOTSUP);
    assert_int_equal(used(&a, 1), 0);
    assert_int_equal(mr_queue_try_recv(rx(&a), &burst), 3);
    assert_int_equal(mr_queue_send(tx(&b), &burst, 0), 0);
    assert_int_equal(mr_queue_counters(tx(&b))->down, 3);
    assert_int_equal(ring_start(&b, 0), 0);
    offer_room(&b, 3);
    offer_frames(&a, 3);
    assert_int_equal(mr_vhost_ring_stop(a.v, 1), 0);
    assert_int_equal(splice(&a, &b, ~0ull), 0);
    assert_int_equal(used(&b, 0), 0);
}

static void
without_room_packets_stay_for_the_timeout(void **state)
{
    uint64_t begin = mr_now();

    (void)state;
    offer_frames(&a, 3);
    assert_int_equal(splice(&a, &b, 0), -ENOTSUP);
    assert_int_equal(splice(&a, &b, 20000), -ENOTSUP);
    assert_true(mr_now() - begin >= 20000000);
    assert_int_equal(used(&a, 1), 0);
    offer_room(&b, 2);
    assert_int_equal(splice(&a, &b, 0), 2);
    assert_int_equal(splice(&a, &b, 0), -ENOTSUP);
    offer_room(&b, 2);
    assert_int_equal(splice(&a, &b, 0), 1);
    check_frame(&b, 2, 2);
}

static void *
offer_later(void *unused)
{
    (void)unused;
    usleep(20000);
    offer_room(&b, 1);
    return NULL;
}

static void
room_that_comes_is_waited_for(void **state)
{
    pthread_t thread;

    (void)state;
    offer_frames(&a, 1);
    assert_int_equal(pthread_create(&thread, NULL, offer_later, NULL), 0);
    assert_int_equal(splice(&a, &b, ~0ull), 1);
    pthread_join(thread, NULL);
}

/* ---- The control thread stops either end --------------------------------- */

static uint32_t ended;

static void *
splice_on(void *unused)
{
    (void)unused;
    while (!mr_load(&ended)) {
        splice(&a, &b, 0);
        splice(&b, &a, 0);
    }
    return NULL;
}

/* While a ring is stopped its memory may go: nobody looks at it. */
static void
V56_a_stopped_end_is_left_alone(void **state)
{
    pthread_t thread;

    (void)state;
    ended = 0;
    assert_int_equal(pthread_create(&thread, NULL, splice_on, NULL), 0);
    for (int i = 0; i < 2000; i++) {
        struct end *e = i & 1 ? &a : &b;
        uint32_t r = i >> 1 & 1;

        while (mr_vhost_ring_stop(e->v, r))
            sched_yield();
        /* Would break the ring if it was looked at. */
        memset(e->bytes + part(r, 0), 0xff, 0xc000);
        if (i % 7 == 0)
            sched_yield();
        assert_int_equal(ring_start(e, r), 0);
        if (r)
            offer_frames(e, SIZE);
        else
            offer_room(e, SIZE);
    }
    mr_store(&ended, 1);
    pthread_join(thread, NULL);
    assert_true(mr_queue_counters(tx(&a))->packets > 0);
    for (uint32_t f = 1; f < MR_FAULT_COUNT; f++) {
        assert_int_equal(mr_queue_counters(rx(&a))->faults[f], 0);
        assert_int_equal(mr_queue_counters(tx(&a))->faults[f], 0);
        assert_int_equal(mr_queue_counters(rx(&b))->faults[f], 0);
        assert_int_equal(mr_queue_counters(tx(&b))->faults[f], 0);
    }
}

/* ---- Poll sets ----------------------------------------------------------- */

static struct mr_poll *
set_of(struct mr_queue *queue)
{
    struct mr_poll *poll;

    assert_int_equal(mr_poll_create(&queue, 1, &poll), 0);
    return poll;
}

static void
a_set_splices_and_returns_the_rest(void **state)
{
    struct mr_poll *poll = set_of(rx(&a));
    const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

    (void)state;
    assert_int_equal(mr_poll_splice(poll, 0, tx(&b), mac), 0);
    offer_frames(&a, 5);
    offer(&a, 1, MR_ETHER_ARP);
    offer_frames(&a, 4);
    offer_room(&b, 20);
    assert_int_equal(mr_poll_recv(poll, &burst, ~0ull), 0);
    assert_int_equal(burst.n, 5); /* the ARP and what came behind it */
    assert_int_equal(used(&b, 0), 5);
    assert_int_equal(mr_queue_send(tx(&b), &burst, 0), 5);
    offer_frames(&a, 4);
    assert_int_equal(mr_poll_recv(poll, &burst, 1000), -1);
    assert_int_equal(burst.n, 0);
    assert_int_equal(used(&b, 0), 14);
    mr_poll_free(poll);
}

static void
a_set_without_room_returns_packets(void **state)
{
    struct mr_poll *poll = set_of(rx(&a));

    (void)state;
    assert_int_equal(mr_poll_splice(poll, 0, tx(&b), NULL), 0);
    offer_frames(&a, 3);
    assert_int_equal(mr_poll_recv(poll, &burst, ~0ull), 0);
    assert_int_equal(burst.n, 3);
    mr_poll_free(poll);
}

static void
a_set_goes_on_without_a_target_that_can_splice(void **state)
{
    struct mr_poll *poll = set_of(rx(&a));
    struct mr_null_options o = {0};
    struct mr_port *null;

    (void)state;
    assert_int_equal(mr_null_open(&o, &null), 0);
    assert_int_equal(mr_poll_splice(poll, 0, mr_port_queue(null, MR_TX, 0),
                                    NULL), 0);
    offer_frames(&a, 3);
    assert_int_equal(mr_poll_recv(poll, &burst, ~0ull), 0);
    assert_int_equal(burst.n, 3);
    mr_poll_free(poll);
    assert_int_equal(mr_port_close(null), 0);
}

/* The driver of `a`: takes back what it received and sends as much anew. */
static void *
keep_busy(void *unused)
{
    (void)unused;
    while (!mr_load(&ended)) {
        while ((uint16_t)(a.offered[0] - used(&a, 0)) < SIZE)
            offer(&a, 0, 0);
        while ((uint16_t)(a.offered[1] - used(&a, 1)) < SIZE)
            offer(&a, 1, 0x88b5);
        sched_yield();
    }
    return NULL;
}

/* A set that only splices comes back from time to time all the same. */
static void
a_set_that_is_always_busy_returns(void **state)
{
    struct mr_poll *poll = set_of(rx(&a));
    pthread_t thread;

    (void)state;
    assert_int_equal(mr_poll_splice(poll, 0, tx(&a), NULL), 0);
    ended = 0;
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, NULL), 0);
    for (int i = 0; i < 3; i++)
        while (mr_poll_recv(poll, &burst, ~0ull) >= 0)
            mr_burst_free(&burst);
    mr_store(&ended, 1);
    pthread_join(thread, NULL);
    assert_true(mr_queue_counters(tx(&a))->packets > 3 * 256);
    mr_poll_free(poll);
}

static void *
claim_elsewhere(void *queue)
{
    int rc = mr_queue_claim(queue);

    mr_queue_release(queue);
    return (void *)(intptr_t)rc;
}

static intptr_t
claimed_elsewhere(struct mr_queue *queue)
{
    pthread_t thread;
    void *rc;

    assert_int_equal(pthread_create(&thread, NULL, claim_elsewhere, queue), 0);
    pthread_join(thread, &rc);
    return (intptr_t)rc;
}

static void
a_set_claims_its_targets(void **state)
{
    struct mr_poll *poll = set_of(rx(&a));

    (void)state;
    assert_int_equal(mr_poll_splice(poll, 1, tx(&b), NULL), -EINVAL);
    assert_int_equal(mr_poll_splice(poll, 0, rx(&b), NULL), -EINVAL);
    assert_int_equal(claimed_elsewhere(tx(&b)), 0);
    assert_int_equal(mr_poll_splice(poll, 0, tx(&b), NULL), 0);
    assert_int_equal(claimed_elsewhere(tx(&b)), -EBUSY);
    assert_int_equal(mr_poll_splice(poll, 0, tx(&a), NULL), 0);
    assert_int_equal(claimed_elsewhere(tx(&b)), 0);
    assert_int_equal(claimed_elsewhere(tx(&a)), -EBUSY);
    mr_poll_free(poll);
    assert_int_equal(claimed_elsewhere(tx(&a)), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(from_port_to_port_and_back_into_the_same),
        TEST(no_packets_asked_for_no_packets_moved),
        TEST(other_kinds_and_directions_are_not_spliced),
        TEST(stopped_queues),
        TEST(without_room_packets_stay_for_the_timeout),
        TEST(room_that_comes_is_waited_for),
        TEST(V56_a_stopped_end_is_left_alone),
        TEST(a_set_splices_and_returns_the_rest),
        TEST(a_set_without_room_returns_packets),
        TEST(a_set_goes_on_without_a_target_that_can_splice),
        TEST(a_set_that_is_always_busy_returns),
        TEST(a_set_claims_its_targets),
    };

    return cmocka_run_group_tests(tests, ports_setup, NULL);
}
