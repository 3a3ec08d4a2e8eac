/* port/pipe: packets between two threads, in order, none lost, none copied.
 * Runs under TSan, too. */
#include "unit/ports.h"

#include <errno.h>

static void
pipe_of(uint32_t pairs, uint32_t size, struct mr_port **a, struct mr_port **b)
{
    struct mr_pipe_options o = {.pairs = pairs, .size = size};

    assert_int_equal(mr_pipe_open(&o, a, b), 0);
}

static void
the_same_packets_come_out(void **state)
{
    static struct mr_burst in = {.cap = 256}, out = {.cap = 256};
    struct mr_pool *pool = pool_new(1024, 64);
    struct mr_port *port[2];

    (void)state;
    pipe_of(3, 0, &port[0], &port[1]);
    for (int side = 0; side < 2; side++)
        for (uint32_t pair = 0; pair < 3; pair++) {
            struct mr_queue *tx = mr_port_queue(port[side], MR_TX, pair);
            struct mr_queue *rx = mr_port_queue(port[!side], MR_RX, pair);
            struct mr_pkt *sent[50];

            assert_int_equal(mr_pool_alloc(pool, &in, 50), 50);
            for (int i = 0; i < 50; i++)
                mr_pkt_set_len(in.pkt[i], 60);
            memcpy(sent, in.pkt, sizeof(sent));
            assert_int_equal(mr_queue_send(tx, &in, 0), 50);
            assert_int_equal(mr_queue_try_recv(rx, &out), 50);
            assert_memory_equal(out.pkt, sent, sizeof(sent));
            assert_int_equal(mr_queue_counters(tx)->bytes, 3000);
            assert_int_equal(mr_queue_counters(rx)->bytes, 3000);
            assert_int_equal(mr_queue_counters(rx)->packets, 50);
        }
    mr_burst_free(&out);
    assert_int_equal(mr_port_close(port[0]), 0);
    assert_int_equal(mr_port_close(port[1]), 0);
    pool_end(pool);
}

static void
it_holds_exactly_its_size(void **state)
{
    struct mr_burst b = {.cap = 256};
    struct mr_pool *pool = pool_new(1024, 64);

    (void)state;
    for (uint32_t size = 1; size <= 128; size *= 2) {
        struct mr_port *a, *z;

        pipe_of(1, size, &a, &z);
        assert_int_equal(mr_pool_alloc(pool, &b, 256), 256);
        assert_int_equal(mr_queue_try_send(mr_port_queue(a, MR_TX, 0), &b),
                         size);
        assert_int_equal(mr_queue_send(mr_port_queue(a, MR_TX, 0), &b, 0), 0);
        assert_int_equal(mr_queue_counters(mr_port_queue(a, MR_TX, 0))->full,
                         256 - size);
        assert_int_equal(mr_port_close(z), 0);
        assert_int_equal(mr_port_close(a), 0);
    }
    pool_end(pool);
}

static void
a_closed_peer_is_down_but_its_packets_arrive(void **state)
{
    struct mr_burst b = {.cap = 256};
    struct mr_pool *pool = pool_new(256, 64);
    struct mr_port *a, *z;
    struct mr_queue *rx, *tx;

    (void)state;
    pipe_of(1, 64, &a, &z);
    rx = mr_port_queue(z, MR_RX, 0);
    tx = mr_port_queue(z, MR_TX, 0);
    assert_int_equal(mr_pool_alloc(pool, &b, 5), 5);
    assert_int_equal(mr_queue_send(mr_port_queue(a, MR_TX, 0), &b, 0), 5);
    assert_int_equal(mr_port_close(a), 0);
    assert_int_equal(mr_queue_up(tx), 0);
    assert_int_equal(mr_queue_up(rx), 1);
    assert_int_equal(mr_pool_alloc(pool, &b, 5), 5);
    assert_int_equal(mr_queue_send(tx, &b, 0), 0);
    assert_int_equal(mr_queue_counters(tx)->down, 5);
    b.cap = 3;
    assert_int_equal(mr_queue_try_recv(rx, &b), 3);
    assert_int_equal(mr_queue_up(rx), 1);
    mr_burst_free(&b);
    assert_int_equal(mr_queue_try_recv(rx, &b), 2);
    assert_int_equal(mr_queue_up(rx), 0);
    assert_int_equal(mr_port_up(z), 0);
    mr_burst_free(&b);
    assert_int_equal(mr_port_close(z), 0);
    pool_end(pool);
}

/* Whoever closes last frees what nobody received. */
static void
packets_on_the_way_are_freed_at_the_end(void **state)
{
    struct mr_burst b = {.cap = 256};
    struct mr_pool *pool = pool_new(256, 64);
    struct mr_port *port[2];

    (void)state;
    for (int first = 0; first < 2; first++) {
        pipe_of(2, 64, &port[0], &port[1]);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(mr_pool_alloc(pool, &b, 10), 10);
            assert_int_equal(
                mr_queue_send(mr_port_queue(port[i & 1], MR_TX,
                                            (uint32_t)i / 2), &b, 0), 10);
        }
        assert_int_equal(mr_port_close(port[first]), 0);
        assert_int_equal(mr_port_close(port[!first]), 0);
        assert_int_equal(mr_pool_available(pool), 256);
    }
    pool_end(pool);
}

static void
bad_options_are_errors(void **state)
{
    struct mr_pipe_options bad[] = {
        {.size = 3}, {.size = 1 << 21}, {.pairs = 129},
    };
    char name[100];
    struct mr_port *a, *b;

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++)
        assert_int_equal(mr_pipe_open(&bad[i], &a, &b), -EINVAL);
    memset(name, 'x', 99);
    name[99] = 0;
    assert_int_equal(
        mr_pipe_open(&(struct mr_pipe_options){.name = name}, &a, &b),
        -EINVAL);
}

/* ---- Two threads ------------------------------------------------------ */

enum { PACKETS = 200000 };

struct side {
    struct mr_queue *queue;
    struct mr_pool *pool;
    uint64_t bad;
};

static void *
producer(void *arg)
{
    struct mr_burst b = {.cap = 256};
    struct side *s = arg;
    uint32_t next = 0;

    mr_queue_claim(s->queue);
    while (next < PACKETS) {
        uint32_t n = MR_MIN(1 + next % 64, PACKETS - next);

        if (!mr_pool_alloc(s->pool, &b, n)) {
            sched_yield();
            continue;
        }
        for (uint32_t i = 0; i < n; i++, next++) {
            mr_pkt_set_len(b.pkt[i], 60);
            memcpy(mr_pkt_data(b.pkt[i]), &next, sizeof(next));
        }
        s->bad += mr_queue_send(s->queue, &b, UINT64_MAX) != n;
    }
    mr_queue_release(s->queue);
    return NULL;
}

static void *
consumer(void *arg)
{
    static struct mr_burst b = {.cap = 48};
    struct side *s = arg;
    uint32_t next = 0;

    mr_queue_claim(s->queue);
    while (next < PACKETS && mr_queue_recv(s->queue, &b, 10000000))
        for (uint32_t i = 0; i < b.n; i++, next++) {
            uint32_t got;

            memcpy(&got, mr_pkt_data(b.pkt[i]), sizeof(got));
            s->bad += got != next;
        }
    s->bad += next != PACKETS;
    mr_burst_free(&b);
    mr_queue_release(s->queue);
    return NULL;
}

static void
order_and_number_hold_between_two_threads(void **state)
{
    struct mr_pool *pool = pool_new(4096, 64);
    struct mr_port *a, *z;
    struct side side[2];
    pthread_t thread[2];

    (void)state;
    pipe_of(1, 128, &a, &z);
    side[0] = (struct side){mr_port_queue(a, MR_TX, 0), pool, 0};
    side[1] = (struct side){mr_port_queue(z, MR_RX, 0), pool, 0};
    pthread_create(&thread[0], NULL, producer, &side[0]);
    pthread_create(&thread[1], NULL, consumer, &side[1]);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    assert_int_equal(side[0].bad, 0);
    assert_int_equal(side[1].bad, 0);
    assert_int_equal(mr_queue_counters(side[0].queue)->packets, PACKETS);
    assert_int_equal(mr_queue_counters(side[1].queue)->packets, PACKETS);
    assert_int_equal(mr_port_close(a), 0);
    assert_int_equal(mr_port_close(z), 0);
    pool_end(pool);
}

/* The sender goes away while the receiver runs. */
static void *
drainer(void *arg)
{
    static struct mr_burst b = {.cap = 64};
    struct side *s = arg;

    mr_queue_claim(s->queue);
    while (mr_queue_up(s->queue) || mr_queue_try_recv(s->queue, &b))
        s->bad += mr_queue_try_recv(s->queue, &b);
    mr_burst_free(&b);
    mr_queue_release(s->queue);
    return NULL;
}

static void
a_peer_may_close_while_the_other_runs(void **state)
{
    static struct mr_burst b = {.cap = 64};
    struct mr_pool *pool = pool_new(4096, 64);

    (void)state;
    for (int round = 0; round < 50; round++) {
        struct mr_port *a, *z;
        struct side side;
        pthread_t thread;

        pipe_of(1, 64, &a, &z);
        side = (struct side){mr_port_queue(z, MR_RX, 0), pool, 0};
        pthread_create(&thread, NULL, drainer, &side);
        for (int i = 0; i < 20; i++) {
            mr_pool_alloc(pool, &b, 64);
            mr_queue_send(mr_port_queue(a, MR_TX, 0), &b, 100);
        }
        assert_int_equal(mr_port_close(a), 0);
        pthread_join(thread, NULL);
        assert_int_equal(mr_port_close(z), 0);
        assert_int_equal(mr_pool_available(pool), 4096);
    }
    pool_end(pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_packets_come_out),
        cmocka_unit_test(it_holds_exactly_its_size),
        cmocka_unit_test(a_closed_peer_is_down_but_its_packets_arrive),
        cmocka_unit_test(packets_on_the_way_are_freed_at_the_end),
        cmocka_unit_test(bad_options_are_errors),
        cmocka_unit_test(order_and_number_hold_between_two_threads),
        cmocka_unit_test(a_peer_may_close_while_the_other_runs),
    };

    return cmocka_run_group_tests(tests, ports_setup, NULL);
}
