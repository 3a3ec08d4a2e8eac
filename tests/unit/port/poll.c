/* port/poll: each queue's turn comes, busy ones every round, idle ones less
 * often but in time; with a kind of port made for the test, and times that the
 * test makes up. */
#include "unit/pool.h"

#include <errno.h>
#include <pthread.h>

#include "base/process.h"
#include "port/poll.h"

enum { PAIRS = MR_PAIRS_MAX };

/* A port whose queues hold as many packets as the test puts there. */
struct fake {
    struct mr_port port;
    uint32_t waiting[PAIRS];
    uint32_t looks[PAIRS];
    uint64_t seen[PAIRS]; /* round of the last look */
    uint64_t round;
    uint32_t looks_all;
};

static struct fake fake;
static struct mr_burst burst = {.cap = 32};

static uint32_t
fake_rx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    uint32_t waiting = mr_load(&fake.waiting[q->index]);

    fake.looks[q->index]++;
    fake.looks_all++;
    fake.seen[q->index] = fake.round;
    n = MR_MIN(n, waiting);
    if (n) {
        fake.waiting[q->index] -= n;
        assert_int_equal(mr_pkts_fill(pool, pkts, n), n);
    }
    return n;
}

static const struct mr_port_ops ops = {.kind = MR_PORT_null};

/* A set of the first n rx queues of a fresh port. */
static struct mr_poll *
set_of(uint32_t n)
{
    static const mr_burst_fn functions[] = {fake_rx, mr_queue_discard};
    struct mr_queue *queue[PAIRS];
    struct mr_poll *poll;

    memset(&fake, 0, sizeof(fake));
    assert_int_equal(mr_port_init(&fake.port, &ops, NULL, PAIRS), 0);
    mr_port_queues_open(&fake.port, functions);
    for (uint32_t i = 0; i < n; i++)
        queue[i] = mr_port_queue(&fake.port, MR_RX, i);
    assert_int_equal(mr_poll_create(queue, n, &poll), 0);
    return poll;
}

static void
set_end(struct mr_poll *poll)
{
    mr_burst_free(&burst);
    mr_poll_free(poll);
    mr_port_fini(&fake.port);
}

/* One whole round that begins `ticks` after the set's making. */
static void
round_at(struct mr_poll *poll, uint64_t ticks)
{
    fake.round = ticks;
    mr_poll_round(poll, ticks);
    while (mr_poll_due(poll, &burst) >= 0)
        mr_burst_free(&burst);
}

static int
setup(void **state)
{
    mr_gate_init();
    return pool_setup(state);
}

static void
every_packet_comes_with_its_queues_place(void **state)
{
    struct mr_poll *poll = set_of(PAIRS);
    uint32_t put[PAIRS] = {0}, got[PAIRS] = {0};
    uint32_t left = 0;

    (void)state;
    for (int step = 0; step < 20000 || left; step++) {
        uint32_t q = dice(PAIRS);
        uint32_t n = step < 20000 ? dice(40) : 0;
        int32_t i;

        put[q] += n;
        left += n;
        fake.waiting[q] += n;
        i = mr_poll_try_recv(poll, &burst);
        assert_in_range(i + 1, 0, PAIRS);
        assert_int_equal(i < 0, burst.n == 0);
        if (i >= 0)
            got[i] += burst.n;
        left -= burst.n;
        assert_true(burst.n <= burst.cap);
    }
    assert_memory_equal(put, got, sizeof(put));
    set_end(poll);
}

static void
busy_queues_take_turns_of_one_burst(void **state)
{
    struct mr_poll *poll = set_of(3);

    (void)state;
    for (int i = 0; i < 3; i++)
        fake.waiting[i] = 3200;
    for (int step = 0; step < 300; step++) {
        assert_int_equal(mr_poll_try_recv(poll, &burst), step % 3);
        assert_int_equal(burst.n, 32);
    }
    assert_int_equal(mr_poll_try_recv(poll, &burst), -1);
    assert_int_equal(burst.n, 0);
    set_end(poll);
}

static void
an_idle_queue_is_looked_at_less_and_less(void **state)
{
    struct mr_poll *poll = set_of(2);
    uint64_t begin = poll->time;

    (void)state;
    fake.waiting[0] = UINT32_MAX;
    for (int i = 0; i < 640; i++)
        round_at(poll, begin);
    assert_int_equal(fake.looks[0], 640);
    /* After 1, 3, 7, ... 63 rounds, then every 64. */
    assert_int_equal(fake.looks[1], 6 + 9);
    fake.waiting[1] = 1;
    for (int i = 0; i < 64; i++)
        round_at(poll, begin);
    assert_int_equal(fake.waiting[1], 0);
    set_end(poll);
}

static void
packets_make_a_queue_busy_again(void **state)
{
    struct mr_poll *poll = set_of(2);
    uint64_t begin = poll->time;
    uint32_t looks;

    (void)state;
    fake.waiting[0] = UINT32_MAX;
    for (int i = 0; i < 640; i++)
        round_at(poll, begin);
    fake.waiting[1] = 100 * 32;
    while (fake.waiting[1] == 100 * 32)
        round_at(poll, begin);
    looks = fake.looks[1];
    for (int i = 0; i < 99; i++)
        round_at(poll, begin);
    assert_int_equal(fake.waiting[1], 0);
    assert_int_equal(fake.looks[1], looks + 99);
    set_end(poll);
}

static void
many_idle_queues_cost_a_64th_each(void **state)
{
    struct mr_poll *poll = set_of(PAIRS);
    uint64_t begin = poll->time;
    uint32_t looks;

    (void)state;
    fake.waiting[77] = UINT32_MAX;
    for (int i = 0; i < 640; i++)
        round_at(poll, begin);
    looks = fake.looks_all;
    for (int i = 0; i < 640; i++)
        round_at(poll, begin);
    assert_int_equal(fake.looks_all - looks, 640 + 10 * (PAIRS - 1));
    set_end(poll);
}

static void
when_all_are_idle_no_round_is_without_a_look(void **state)
{
    struct mr_poll *poll = set_of(5);

    (void)state;
    for (uint32_t i = 1; i < 1000; i++) {
        assert_int_equal(mr_poll_try_recv(poll, &burst), -1);
        assert_true(fake.looks_all >= i);
    }
    for (uint32_t i = 0; i < 5; i++)
        assert_true(fake.looks[i] > 100);
    set_end(poll);
}

/* Rounds as long as a whole turn, shorter than a slot, and both in turn. */
static uint64_t
round_ticks(const struct mr_poll *poll, int kind)
{
    switch (kind) {
    case 0: return 0;
    case 1: return 1;
    case 2: return poll->unit - 1;
    case 3: return poll->unit;
    case 4: return poll->unit + 1;
    case 5: return 2 * poll->unit - 1;
    case 6: return dice((uint32_t)(3 * poll->unit));
    case 7: return dice((uint32_t)(100 * poll->unit));
    default: return dice(10) ? dice((uint32_t)(poll->unit)) : 1ull << 40;
    }
}

static void
no_look_is_later_than_the_bound(void **state)
{
    const uint64_t bound = mr_tsc_hz() / 1000000 * MR_POLL_US;

    (void)state;
    for (int kind = 0; kind <= 8; kind++) {
        struct mr_poll *poll = set_of(PAIRS);
        uint64_t now = poll->time;

        fake.waiting[0] = UINT32_MAX;
        for (int i = 0; i < PAIRS; i++)
            fake.seen[i] = now;
        for (int i = 0; i < 20000; i++) {
            if (dice(8) == 0)
                fake.waiting[1 + dice(PAIRS - 1)] = 1;
            now += round_ticks(poll, kind);
            for (int q = 0; q < PAIRS; q++) {
                bool due = now - fake.seen[q] >= bound;

                fake.looks[q] = due ? 0 : 1;
            }
            round_at(poll, now);
            for (int q = 0; q < PAIRS; q++)
                assert_true(fake.looks[q]);
        }
        set_end(poll);
    }
}

static void
old_packets_of_the_burst_are_freed(void **state)
{
    struct mr_poll *poll = set_of(1);

    (void)state;
    fake.waiting[0] = 64;
    assert_int_equal(mr_poll_try_recv(poll, &burst), 0);
    assert_int_equal(mr_poll_recv(poll, &burst, 0), 0);
    assert_int_equal(mr_pool_available(pool), mr_pool_size(pool) - 32);
    assert_int_equal(mr_poll_recv(poll, &burst, 0), -1);
    assert_int_equal(mr_pool_available(pool), mr_pool_size(pool));
    set_end(poll);
}

static void
a_wait_ends_after_its_time(void **state)
{
    struct mr_poll *poll = set_of(PAIRS);
    uint64_t before = mr_now();

    (void)state;
    assert_int_equal(mr_poll_recv(poll, &burst, 2000), -1);
    assert_true(mr_now() - before >= 2000000);
    for (int i = 0; i < PAIRS; i++)
        assert_true(fake.looks[i] > 10);
    set_end(poll);
}

static void *
put_later(void *arg)
{
    mr_sleep_us(3000);
    mr_store((uint32_t *)arg, 5);
    return NULL;
}

static void
a_wait_ends_with_the_first_packet(void **state)
{
    struct mr_poll *poll = set_of(PAIRS);
    pthread_t thread;

    (void)state;
    pthread_create(&thread, NULL, put_later, &fake.waiting[99]);
    assert_int_equal(mr_poll_recv(poll, &burst, UINT64_MAX), 99);
    assert_int_equal(burst.n, 5);
    pthread_join(thread, NULL);
    set_end(poll);
}

static void *
claim(void *queue)
{
    int rc = mr_queue_claim(queue);

    if (!rc)
        mr_queue_release(queue);
    return (void *)(intptr_t)rc;
}

static int
claim_elsewhere(struct mr_queue *queue)
{
    pthread_t thread;
    void *rc;

    pthread_create(&thread, NULL, claim, queue);
    pthread_join(thread, &rc);
    return (int)(intptr_t)rc;
}

static void
a_set_holds_its_queues_until_it_is_freed(void **state)
{
    struct mr_poll *poll = set_of(2);
    struct mr_queue *queue = mr_port_queue(&fake.port, MR_RX, 1);

    (void)state;
    assert_int_equal(claim_elsewhere(queue), -EBUSY);
    mr_poll_free(poll);
    assert_int_equal(claim_elsewhere(queue), 0);
    mr_poll_free(NULL);
    mr_port_fini(&fake.port);
}

static struct mr_queue *held;

static void *
hold_and_make(void *arg)
{
    struct mr_queue *queue[] = {mr_port_queue(&fake.port, MR_RX, 0), held};
    struct mr_poll *poll;

    (void)arg;
    return (void *)(intptr_t)mr_poll_create(queue, 2, &poll);
}

static void
a_set_that_cannot_be_made_leaves_nothing(void **state)
{
    struct mr_poll *poll = set_of(1);
    struct mr_queue *queue[] = {
        mr_port_queue(&fake.port, MR_RX, 3),
        mr_port_queue(&fake.port, MR_TX, 3),
    };
    pthread_t thread;
    void *rc;

    (void)state;
    mr_poll_free(poll);
    assert_int_equal(mr_poll_create(queue, 0, &poll), -EINVAL);
    assert_int_equal(mr_poll_create(queue, MR_POLL_MAX + 1, &poll), -EINVAL);
    assert_int_equal(mr_poll_create(queue, 2, &poll), -EINVAL);
    assert_int_equal(claim_elsewhere(queue[0]), 0);
    assert_int_equal(claim_elsewhere(queue[1]), 0);
    held = queue[0];
    assert_int_equal(mr_queue_claim(held), 0);
    pthread_create(&thread, NULL, hold_and_make, NULL);
    pthread_join(thread, &rc);
    assert_int_equal((int)(intptr_t)rc, -EBUSY);
    assert_int_equal(claim_elsewhere(mr_port_queue(&fake.port, MR_RX, 0)), 0);
    mr_queue_release(held);
    mr_port_fini(&fake.port);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_packet_comes_with_its_queues_place),
        cmocka_unit_test(busy_queues_take_turns_of_one_burst),
        cmocka_unit_test(an_idle_queue_is_looked_at_less_and_less),
        cmocka_unit_test(packets_make_a_queue_busy_again),
        cmocka_unit_test(many_idle_queues_cost_a_64th_each),
        cmocka_unit_test(when_all_are_idle_no_round_is_without_a_look),
        cmocka_unit_test(no_look_is_later_than_the_bound),
        cmocka_unit_test(old_packets_of_the_burst_are_freed),
        cmocka_unit_test(a_wait_ends_after_its_time),
        cmocka_unit_test(a_wait_ends_with_the_first_packet),
        cmocka_unit_test(a_set_holds_its_queues_until_it_is_freed),
        cmocka_unit_test(a_set_that_cannot_be_made_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, setup, pool_teardown);
}
