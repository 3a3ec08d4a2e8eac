/* When a burst returns, what it consumed is completed and what it made is
 * there, down to the last packet: nothing waits for the next burst (T13a, P54,
 * S49), so a driver that keeps few packets out never stalls. One thread, each
 * side in turn, so that nobody could have done it meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "pair/pair.h"
#include "unit/eal.h"

enum { MOST = 40, RING = 128 };

static void
packets(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n)
{
    assert_int_equal(mr_pkts_alloc(pool, pkts, n), n);
    for (uint32_t i = 0; i < n; i++) {
        memset(mr_pkt_data(pkts[i]), 0, 60);
        mr_pkt_set_len(pkts[i], 60);
    }
}

/* The device takes n packets in bursts of `step`; after each as many must be
 * done for the driver. */
static void
driver_to_device(struct pair *pair, uint32_t n, uint32_t step)
{
    struct mr_ring *ring = &pair->driver.tx.ring;
    struct mr_pkt *pkts[MOST];

    packets(pair->driver.pool, pkts, n);
    assert_int_equal(pair_burst(&pair->driver.tx, pkts, n), n);
    for (uint32_t done = 0; done < n;) {
        uint32_t want = MR_MIN(step, n - done);

        assert_int_equal(pair_burst(&pair->device.rx, pkts, want), want);
        mr_pkts_free(pkts, want);
        done += want;
        assert_int_equal(pair_burst(&pair->driver.tx, NULL, 0), 0);
        assert_int_equal(ring->size - ring->at.free, n - done);
    }
}

static void
device_to_driver(struct pair *pair, uint32_t n, uint32_t step)
{
    struct mr_pkt *pkts[MOST];

    packets(pair->device.pool, pkts, n);
    for (uint32_t done = 0; done < n;) {
        struct mr_pkt *got[MOST];
        uint32_t want = MR_MIN(step, n - done);

        assert_int_equal(pair_burst(&pair->device.tx, &pkts[done], want), want);
        assert_int_equal(pair_burst(&pair->driver.rx, got, MOST), want);
        mr_pkts_free(got, want);
        done += want;
    }
}

static void
run(uint64_t features, uint32_t size,
    void (*flow)(struct pair *, uint32_t, uint32_t))
{
    struct pair_setup setup = {
        .features = features, .size = size, .packets = 1024, .room = 256};
    struct pair pair;

    if (!pair_open(&pair, &setup))
        fail_msg("%s", mr_error_text());
    for (uint32_t n = 1; n <= MOST; n++)
        for (uint32_t step = 1; step <= n; step++)
            flow(&pair, n, step);
    if (!pair_close(&pair))
        fail_msg("%s", mr_error_text());
}

static void
run_sets(void (*flow)(struct pair *, uint32_t, uint32_t))
{
    static const uint64_t bit[] = {MR_F(RING_PACKED), MR_F(MRG_RXBUF),
                                   MR_F(IN_ORDER), MR_F(ORDER_PLATFORM),
                                   MR_F(EVENT_IDX)};

    for (uint32_t set = 0; set < 1u << MR_COUNT_OF(bit); set++) {
        uint64_t features = 0;

        for (uint32_t i = 0; i < MR_COUNT_OF(bit); i++)
            features |= set >> i & 1 ? bit[i] : 0;
        run(features, RING, flow);
        if (features & MR_F(RING_PACKED))
            run(features, RING - 1, flow);
    }
}

static void
T13a_what_the_device_took_is_done(void **state)
{
    (void)state;
    run_sets(driver_to_device);
}

static void
P54_S49_what_the_device_sent_is_there(void **state)
{
    (void)state;
    run_sets(device_to_driver);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T13a_what_the_device_took_is_done),
        cmocka_unit_test(P54_S49_what_the_device_sent_is_there),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
