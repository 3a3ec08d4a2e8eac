/* The process: clocks, sleeping, and being stopped. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/process.h"

static int wakes;

static void
count_wake(void)
{
    wakes++;
}

static void
clocks_run_forward_at_the_rate_they_say(void **state)
{
    uint64_t now = mr_now(), ticks = mr_tsc();
    double seconds;

    (void)state;
    usleep(50000);
    seconds = (double)(mr_now() - now) / 1e9;
    assert_true(seconds >= 0.05);
    ticks = mr_tsc() - ticks;
    assert_true((double)ticks / (double)mr_tsc_hz() > seconds * 0.9);
    assert_true((double)ticks / (double)mr_tsc_hz() < seconds * 1.1);
}

static void
sleep_takes_its_time(void **state)
{
    uint64_t begin = mr_now();

    (void)state;
    mr_sleep_us(20000);
    assert_true(mr_now() - begin >= 20000000);
    mr_sleep_us(0);
}

static void *
stop_soon(void *arg)
{
    usleep(50000);
    mr_stop();
    return arg;
}

/* Last: there is no way back. */
static void
stop_ends_every_sleep_and_wakes_the_hook(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(mr_running(), 1);
    mr_stop_hook(count_wake);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    mr_sleep_us(UINT64_MAX); /* returns */
    pthread_join(thread, NULL);
    assert_int_equal(mr_running(), 0);
    assert_int_equal(wakes, 1);
    mr_stop_hook(NULL);
    mr_stop();
    assert_int_equal(wakes, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_run_forward_at_the_rate_they_say),
        cmocka_unit_test(sleep_takes_its_time),
        cmocka_unit_test(stop_ends_every_sleep_and_wakes_the_hook),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
