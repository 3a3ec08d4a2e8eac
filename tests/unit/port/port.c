/* port/port and port/queue: names, claims, closing, and what the data calls
 * promise, with a kind of port made for the test. */
#include "unit/pool.h"

#include <errno.h>

#include "base/error.h"
#include "base/process.h"
#include "port/port.h"

static int
setup(void **state)
{
    mr_gate_init();
    return pool_setup(state);
}

/* A port that moves as many packets a call as it is told. */
struct fake {
    struct mr_port port;
    uint32_t step;  /* packets a call */
    uint32_t calls;
    uint32_t total; /* packets in all */
    uint32_t fault;
    uint32_t closed;
    uint32_t delay; /* calls that move nothing before the first that does */
};

static uint32_t
fake_amount(struct fake *f, uint32_t n)
{
    f->calls++;
    if (f->calls <= f->delay)
        return 0;
    n = MR_MIN(n, f->step);
    n = MR_MIN(n, f->total);
    f->total -= n;
    return n;
}

static uint32_t
fake_rx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    struct fake *f = MR_CONTAINER(q->port, struct fake, port);

    return mr_pkts_fill(pool, pkts, fake_amount(f, n));
}

static uint32_t
fake_tx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    struct fake *f = MR_CONTAINER(q->port, struct fake, port);

    n = fake_amount(f, n);
    return n ? mr_queue_discard(q, pkts, n) : 0;
}

static void
fake_close(struct mr_port *port)
{
    MR_CONTAINER(port, struct fake, port)->closed++;
    mr_port_fini(port);
}

static uint32_t
fake_fault(const struct mr_queue *queue)
{
    return MR_CONTAINER(queue->port, struct fake, port)->fault;
}

static const struct mr_port_ops ops = {
    .kind = MR_PORT_null,
    .close = fake_close,
    .fault = fake_fault,
};

static struct mr_port *
fake_open(struct fake *f, uint32_t pairs)
{
    static const mr_burst_fn burst[] = {fake_rx, fake_tx};

    *f = (struct fake){.step = 256, .total = UINT32_MAX};
    assert_int_equal(mr_port_init(&f->port, &ops, NULL, pairs), 0);
    mr_port_queues_open(&f->port, burst);
    return &f->port;
}

static struct mr_burst *
burst_of(uint32_t n)
{
    static struct mr_burst burst;

    burst.cap = MR_BURST_MAX;
    burst.n = 0;
    assert_int_equal(mr_pool_alloc(pool, &burst, n), n);
    return &burst;
}

static void
names_are_given_or_numbered(void **state)
{
    struct fake a, b;
    char longest[64], too_long[65];

    (void)state;
    fake_open(&a, 1);
    fake_open(&b, 1);
    assert_string_equal(mr_port_kind_name(&a.port), "null");
    assert_memory_equal(mr_port_name(&a.port), "null", 4);
    assert_string_not_equal(mr_port_name(&a.port), mr_port_name(&b.port));
    assert_int_equal(mr_port_close(&a.port), 0);
    assert_int_equal(mr_port_close(&b.port), 0);
    memset(longest, 'x', 63);
    longest[63] = 0;
    memset(too_long, 'x', 64);
    too_long[64] = 0;
    assert_int_equal(mr_port_init(&a.port, &ops, longest, 1), 0);
    assert_string_equal(mr_port_name(&a.port), longest);
    assert_int_equal(mr_port_close(&a.port), 0);
    assert_int_equal(mr_port_init(&a.port, &ops, too_long, 1), -EINVAL);
    assert_int_equal(mr_port_init(&a.port, &ops, "", 1), -EINVAL);
}

static void
pairs_are_bounded(void **state)
{
    struct fake f;

    (void)state;
    assert_int_equal(mr_port_init(&f.port, &ops, NULL, 0), -EINVAL);
    assert_int_equal(mr_port_init(&f.port, &ops, NULL, 129), -EINVAL);
    fake_open(&f, 128);
    assert_int_equal(mr_port_pairs(&f.port), 128);
    for (uint32_t i = 0; i < 128; i++)
        for (int d = MR_RX; d <= MR_TX; d++) {
            struct mr_queue *q = mr_port_queue(&f.port, d, i);

            assert_non_null(q);
            assert_int_equal(q->index, i);
            assert_int_equal(q->direction, d);
        }
    assert_null(mr_port_queue(&f.port, MR_RX, 128));
    assert_null(mr_port_queue(&f.port, MR_TX, UINT32_MAX));
    assert_null(mr_port_queue(&f.port, 2, 0));
    assert_null(mr_port_queue(&f.port, -1, 0));
    assert_int_equal(mr_port_close(&f.port), 0);
}

/* What another thread gets from a claim. */
static void *
claim_there(void *queue)
{
    int rc = mr_queue_claim(queue);

    if (!rc)
        mr_queue_release(queue);
    return (void *)(intptr_t)rc;
}

static void *
release_there(void *queue)
{
    mr_queue_release(queue);
    return NULL;
}

static int
elsewhere(void *(*act)(void *), struct mr_queue *q)
{
    pthread_t thread;
    void *rc;

    assert_int_equal(pthread_create(&thread, NULL, act, q), 0);
    pthread_join(thread, &rc);
    return (int)(intptr_t)rc;
}

static void
a_claim_is_one_threads_and_nests(void **state)
{
    struct fake f;
    struct mr_queue *q;

    (void)state;
    q = mr_port_queue(fake_open(&f, 1), MR_RX, 0);
    assert_int_equal(mr_queue_claim(q), 0);
    assert_int_equal(mr_queue_claim(q), 0);
    assert_int_equal(elsewhere(claim_there, q), -EBUSY);
    elsewhere(release_there, q); /* not theirs: no effect */
    mr_queue_release(q);
    assert_int_equal(elsewhere(claim_there, q), -EBUSY);
    mr_queue_release(q);
    mr_queue_release(q); /* one too many: no effect */
    assert_int_equal(elsewhere(claim_there, q), 0);
    assert_int_equal(mr_port_close(&f.port), 0);
}

static pthread_barrier_t meet;

static void *
hold(void *queue)
{
    int rc = mr_queue_claim(queue);

    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    mr_queue_release(queue);
    return (void *)(intptr_t)rc;
}

static void
a_port_in_use_does_not_close_and_keeps_working(void **state)
{
    struct fake f;
    struct mr_port *port = fake_open(&f, 2);
    pthread_t thread;
    void *rc;

    (void)state;
    pthread_barrier_init(&meet, NULL, 2);
    pthread_create(&thread, NULL, hold, mr_port_queue(port, MR_TX, 1));
    pthread_barrier_wait(&meet);
    assert_int_equal(mr_port_close(port), -EBUSY);
    assert_non_null(strstr(mr_error_text(), "tx 1"));
    assert_int_equal(f.closed, 0);
    assert_true(mr_queue_up(mr_port_queue(port, MR_RX, 0)));
    /* The claims that closing took are given back. */
    assert_int_equal(
        elsewhere(claim_there, mr_port_queue(port, MR_RX, 0)), 0);
    pthread_barrier_wait(&meet);
    pthread_join(thread, &rc);
    assert_null(rc);
    pthread_barrier_destroy(&meet);
    assert_int_equal(mr_port_close(port), 0);
    assert_int_equal(f.closed, 1);
}

static void
try_recv_frees_what_the_burst_held(void **state)
{
    struct fake f;
    struct mr_queue *q = mr_port_queue(fake_open(&f, 1), MR_RX, 0);
    struct mr_burst *b = burst_of(10);

    (void)state;
    f.step = 3;
    b->cap = 2;
    assert_int_equal(mr_queue_try_recv(q, b), 2);
    b->cap = 256;
    assert_int_equal(mr_queue_try_recv(q, b), 3);
    assert_int_equal(b->n, 3);
    assert_int_equal(mr_pool_available(pool), mr_pool_size(pool) - 3);
    f.total = 0;
    assert_int_equal(mr_queue_try_recv(q, b), 0);
    assert_int_equal(b->n, 0);
    assert_int_equal(mr_port_close(&f.port), 0);
}

static void
recv_waits_for_the_first_packet_and_no_longer(void **state)
{
    struct fake f;
    struct mr_queue *q = mr_port_queue(fake_open(&f, 1), MR_RX, 0);
    struct mr_burst *b = burst_of(1);
    uint64_t start;

    (void)state;
    f.delay = 400;
    f.step = 1;
    assert_int_equal(mr_queue_recv(q, b, UINT64_MAX), 1);
    f.total = 0;
    f.calls = 0;
    start = mr_now();
    assert_int_equal(mr_queue_recv(q, b, 20000), 0);
    assert_true(mr_now() - start >= 20000000);
    assert_true(f.calls > 1);
    f.calls = 0;
    assert_int_equal(mr_queue_recv(q, b, 0), 0);
    assert_int_equal(f.calls, 1);
    assert_int_equal(mr_port_close(&f.port), 0);
}

static void
try_send_leaves_the_rest_in_front(void **state)
{
    struct fake f;
    struct mr_queue *q = mr_port_queue(fake_open(&f, 1), MR_TX, 0);
    struct mr_burst *b = burst_of(10);
    struct mr_pkt *eighth = b->pkt[7];
    struct mr_pkt *last = b->pkt[9];

    (void)state;
    f.step = 7;
    assert_int_equal(mr_queue_try_send(q, b), 7);
    assert_int_equal(b->n, 3);
    assert_ptr_equal(b->pkt[0], eighth);
    assert_ptr_equal(b->pkt[2], last);
    f.total = 0;
    assert_int_equal(mr_queue_try_send(q, b), 0);
    assert_int_equal(b->n, 3);
    assert_int_equal(mr_queue_counters(q)->full, 0);
    mr_burst_free(b);
    assert_int_equal(mr_port_close(&f.port), 0);
}

static void
send_takes_all_and_counts_what_it_drops(void **state)
{
    struct fake f;
    struct mr_queue *q = mr_port_queue(fake_open(&f, 1), MR_TX, 0);
    const struct mr_counters *c = mr_queue_counters(q);
    struct mr_burst *b = burst_of(100);
    uint64_t start = mr_now();

    (void)state;
    f.step = 7;
    f.total = 50;
    assert_int_equal(mr_queue_send(q, b, 5000), 50);
    assert_true(mr_now() - start >= 5000000);
    assert_int_equal(b->n, 0);
    assert_int_equal(c->full, 50);
    assert_int_equal(c->down, 0);
    assert_int_equal(c->packets, 50);
    assert_int_equal(mr_pool_available(pool), mr_pool_size(pool));

    mr_gate_close_wait(&q->gate);
    f.total = 1000;
    assert_int_equal(mr_queue_send(q, burst_of(9), 0), 0);
    assert_int_equal(c->down, 9);
    mr_gate_open(&q->gate);
    f.fault = MR_FAULT_HEAD; /* a broken ring is no peer either */
    f.total = 0;
    assert_int_equal(mr_queue_send(q, burst_of(5), 0), 0);
    assert_int_equal(c->down, 14);
    assert_int_equal(c->full, 50);
    assert_int_equal(mr_port_close(&f.port), 0);
}

/* Progress starts the time anew. */
static void
send_gives_up_only_without_progress(void **state)
{
    struct fake f;
    struct mr_queue *q = mr_port_queue(fake_open(&f, 1), MR_TX, 0);

    (void)state;
    f.step = 1;
    assert_int_equal(mr_queue_send(q, burst_of(256), 1), 256);
    assert_int_equal(mr_port_close(&f.port), 0);
}

static void
a_queue_of_the_other_direction_moves_nothing(void **state)
{
    struct fake f;
    struct mr_port *port = fake_open(&f, 1);
    struct mr_burst *b = burst_of(4);

    (void)state;
    assert_int_equal(mr_queue_try_send(mr_port_queue(port, MR_RX, 0), b), 0);
    assert_int_equal(b->n, 4);
    assert_int_equal(mr_queue_try_recv(mr_port_queue(port, MR_TX, 0), b), 0);
    assert_int_equal(f.calls, 0);
    assert_int_equal(mr_port_close(port), 0);
}

static void
up_follows_gate_and_fault(void **state)
{
    struct fake f;
    struct mr_port *port = fake_open(&f, 1);
    struct mr_queue *q = mr_port_queue(port, MR_RX, 0);

    (void)state;
    assert_int_equal(mr_queue_up(q), 1);
    f.fault = MR_FAULT_LIST;
    assert_int_equal(mr_queue_up(q), 0);
    assert_int_equal(mr_queue_fault(q), MR_FAULT_LIST);
    f.fault = 0;
    mr_gate_close_wait(&q->gate);
    assert_int_equal(mr_queue_up(q), 0);
    assert_int_equal(mr_port_up(port), 1); /* tx still is */
    mr_gate_close_wait(&mr_port_queue(port, MR_TX, 0)->gate);
    assert_int_equal(mr_port_up(port), 0);
    assert_int_equal(mr_port_close(port), 0);
}

static void
dump_tells_the_length_it_wanted(void **state)
{
    struct fake f;
    struct mr_port *port = fake_open(&f, 1);
    char text[200], part[5];
    uint32_t len =
        mr_queue_dump(mr_port_queue(port, MR_TX, 0), text, sizeof(text));

    (void)state;
    assert_int_equal(strlen(text), len);
    assert_non_null(strstr(text, "tx 0"));
    assert_int_equal(mr_queue_dump(mr_port_queue(port, MR_TX, 0), part, 5),
                     len);
    assert_int_equal(strlen(part), 4);
    assert_int_equal(mr_port_close(port), 0);
}

static void
a_pool_with_packets_out_outlives_its_port(void **state)
{
    struct fake f;
    struct mr_pool_options o = {.packets = 64, .size = 64};
    struct mr_pkt *pkt;
    struct mr_pool *own;

    (void)state;
    fake_open(&f, 1);
    assert_int_equal(mr_port_set_pool(&f.port, NULL, &o), 0);
    own = mr_port_pool(&f.port);
    assert_int_equal(mr_pkts_alloc(own, &pkt, 1), 1);
    mr_pkt_set_len(pkt, 60);
    memset(mr_pkt_data(pkt), 1, 60);
    assert_int_equal(mr_port_close(&f.port), 0);
    memset(mr_pkt_data(pkt), 2, 60); /* still there */
    mr_pkt_free(pkt);
    pool_end(own);
}

static void
rows_name_every_counter_and_fault(void **state)
{
    uint32_t n = 0;

    (void)state;
    while (mr_counter_row(n)->name) {
        assert_int_equal(mr_counter_row(n)->offset, n * sizeof(uint64_t));
        n++;
    }
    assert_int_equal(n * sizeof(uint64_t),
                     offsetof(struct mr_counters, faults));
    assert_string_equal(mr_counter_row(0)->name, "packets");
    assert_null(mr_counter_row(UINT32_MAX)->name);
    for (n = 0; mr_fault_row(n)->name; n++)
        assert_non_null(mr_fault_row(n)->rules);
    assert_int_equal(n, MR_FAULT_COUNT);
    assert_string_equal(mr_fault_row(MR_FAULT_RUNT)->name, "RUNT");
    assert_int_equal(mr_fault_row(MR_FAULT_RUNT)->broken, 0);
    assert_int_equal(mr_fault_row(MR_FAULT_HEAD)->broken, 1);
    assert_null(mr_fault_row(UINT32_MAX)->name);
}

/* Last, as a process stops only once. */
static void
a_stop_ends_every_wait(void **state)
{
    struct fake f;
    struct mr_port *port = fake_open(&f, 1);
    struct mr_burst *b = burst_of(8);

    (void)state;
    f.total = 0;
    mr_stop();
    assert_int_equal(mr_queue_send(mr_port_queue(port, MR_TX, 0), b,
                                   UINT64_MAX), 0);
    assert_int_equal(mr_queue_recv(mr_port_queue(port, MR_RX, 0), b,
                                   UINT64_MAX), 0);
    assert_int_equal(mr_port_close(port), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_given_or_numbered),
        cmocka_unit_test(pairs_are_bounded),
        cmocka_unit_test(a_claim_is_one_threads_and_nests),
        cmocka_unit_test(a_port_in_use_does_not_close_and_keeps_working),
        cmocka_unit_test(try_recv_frees_what_the_burst_held),
        cmocka_unit_test(recv_waits_for_the_first_packet_and_no_longer),
        cmocka_unit_test(try_send_leaves_the_rest_in_front),
        cmocka_unit_test(send_takes_all_and_counts_what_it_drops),
        cmocka_unit_test(send_gives_up_only_without_progress),
        cmocka_unit_test(a_queue_of_the_other_direction_moves_nothing),
        cmocka_unit_test(up_follows_gate_and_fault),
        cmocka_unit_test(dump_tells_the_length_it_wanted),
        cmocka_unit_test(a_pool_with_packets_out_outlives_its_port),
        cmocka_unit_test(rows_name_every_counter_and_fault),
        cmocka_unit_test(a_stop_ends_every_wait),
    };

    return cmocka_run_group_tests(tests, setup, pool_teardown);
}
