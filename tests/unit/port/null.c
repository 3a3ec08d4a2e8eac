/* port/null: a source without end and a sink without bottom. */
#include "unit/ports.h"

#include <errno.h>

static struct mr_burst burst = {.cap = MR_BURST_MAX};

static void
rx_gives_the_pools_template_and_counts_it(void **state)
{
    struct mr_pool *pool = pool_new(512, 64);
    struct mr_null_options o = {.name = "source", .pairs = 2, .pool = pool};
    struct mr_port *port;
    struct mr_queue *q;

    (void)state;
    assert_int_equal(mr_pool_template(pool, "0123456789abcdef", 16), 0);
    assert_int_equal(mr_null_open(&o, &port), 0);
    assert_string_equal(mr_port_name(port), "source");
    assert_ptr_equal(mr_port_pool(port), pool);
    assert_int_equal(mr_port_up(port), 1);
    q = mr_port_queue(port, MR_RX, 1);
    burst.cap = 37;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(mr_queue_try_recv(q, &burst), 37);
        assert_pkt_equal(burst.pkt[36], "0123456789abcdef", 16);
    }
    burst.cap = MR_BURST_MAX;
    assert_int_equal(mr_queue_counters(q)->packets, 370);
    assert_int_equal(mr_queue_counters(q)->bytes, 370 * 16);
    assert_int_equal(mr_queue_counters(q)->bursts, 10);
    mr_burst_free(&burst);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(pool);
}

static void
an_empty_pool_is_counted(void **state)
{
    struct mr_pool *pool = pool_new(16, 64);
    struct mr_null_options o = {.pool = pool};
    struct mr_port *port;
    struct mr_queue *q;

    (void)state;
    assert_int_equal(mr_null_open(&o, &port), 0);
    q = mr_port_queue(port, MR_RX, 0);
    assert_int_equal(mr_queue_try_recv(q, &burst), 0);
    assert_int_equal(mr_queue_counters(q)->nobuf, 1);
    assert_int_equal(mr_queue_counters(q)->bursts, 0);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(pool);
}

static void
without_a_pool_rx_is_empty(void **state)
{
    struct mr_null_options o = {0};
    struct mr_port *port;

    (void)state;
    assert_int_equal(mr_null_open(&o, &port), 0);
    assert_int_equal(
        mr_queue_try_recv(mr_port_queue(port, MR_RX, 0), &burst), 0);
    assert_int_equal(mr_port_close(port), 0);
}

static void
tx_takes_everything_chains_included(void **state)
{
    struct mr_pool *pool = pool_new(512, 64);
    struct mr_null_options o = {0};
    struct mr_port *port;
    struct mr_queue *q;
    uint8_t bytes[500] = {0};

    (void)state;
    assert_int_equal(mr_null_open(&o, &port), 0);
    q = mr_port_queue(port, MR_TX, 0);
    assert_int_equal(mr_pool_alloc(pool, &burst, 200), 200);
    burst.pkt[burst.n++] = pkt_make(pool, bytes, 500, 60);
    assert_int_equal(mr_queue_send(q, &burst, 0), 201);
    assert_int_equal(mr_queue_counters(q)->packets, 201);
    assert_int_equal(mr_queue_counters(q)->bytes, 500);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(pool);
}

static void
bad_options_are_errors(void **state)
{
    struct mr_null_options o = {.pairs = 129};
    struct mr_port *port;

    (void)state;
    assert_int_equal(mr_null_open(&o, &port), -EINVAL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rx_gives_the_pools_template_and_counts_it),
        cmocka_unit_test(an_empty_pool_is_counted),
        cmocka_unit_test(without_a_pool_rx_is_empty),
        cmocka_unit_test(tx_takes_everything_chains_included),
        cmocka_unit_test(bad_options_are_errors),
    };

    return cmocka_run_group_tests(tests, ports_setup, NULL);
}
