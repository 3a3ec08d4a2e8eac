/* port/gate: V56's handshake. A worker runs bursts behind the gate while the
 * control thread closes and opens it and changes what it protects. Runs under
 * TSan, too: a plain variable is the proof that nobody else is inside. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "port/gate.h"

struct shared {
    struct mr_gate gate;
    uint32_t stop;
    uint64_t inside;  /* plain: written by whoever has the right */
    uint64_t bursts;  /* plain, written inside */
    uint64_t refused; /* worker's */
    uint64_t wrong;   /* worker's */
    uint64_t value[2]; /* plain: equal, except in the middle of a change */
};

static void *
worker(void *arg)
{
    struct shared *s = arg;

    while (!mr_load(&s->stop)) {
        if (!mr_gate_enter(&s->gate)) {
            s->refused++;
            sched_yield();
            continue;
        }
        s->inside = 1;
        s->wrong += s->value[0] != s->value[1];
        s->bursts++;
        s->inside = 0;
        mr_gate_leave(&s->gate);
    }
    return NULL;
}

static uint64_t
now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void
hammer(void)
{
    static struct shared s;
    uint64_t end = now_ms() + 1500;
    uint64_t closes = 0;
    pthread_t thread;

    s = (struct shared){0};
    assert_int_equal(pthread_create(&thread, NULL, worker, &s), 0);
    while (now_ms() < end) {
        mr_gate_close_wait(&s.gate);
        assert_int_equal(s.inside, 0);
        s.value[0]++;
        if (closes % 64 == 0)
            sched_yield(); /* let the worker try, in the middle of it */
        s.value[1]++;
        closes++;
        mr_gate_open(&s.gate);
        if (closes % 32 == 0)
            sched_yield();
    }
    mr_store(&s.stop, 1);
    pthread_join(thread, NULL);
    assert_int_equal(s.wrong, 0);
    assert_true(s.bursts > 0);
    assert_true(s.refused > 0);
    assert_true(closes > 100);
}

static void
V56_nobody_is_inside_a_closed_gate(void **state)
{
    (void)state;
    mr_gate_init();
    hammer();
}

static void
V56_nobody_is_inside_a_closed_gate_without_membarrier(void **state)
{
    uint32_t before = mr_gate_asymmetric;

    (void)state;
    mr_gate_asymmetric = 0;
    hammer();
    mr_gate_asymmetric = before;
}

static void
a_gate_starts_closed_and_closing_repeats(void **state)
{
    struct mr_gate gate = {0};

    (void)state;
    assert_false(mr_gate_enter(&gate));
    assert_int_equal(mr_gate_close(&gate), 0);
    assert_int_equal(mr_gate_close(&gate), 0);
    mr_gate_open(&gate);
    assert_true(mr_gate_enter(&gate));
    mr_gate_leave(&gate);
}

static void
closing_does_not_wait_for_a_burst(void **state)
{
    struct mr_gate gate = {0};

    (void)state;
    mr_gate_open(&gate);
    assert_true(mr_gate_enter(&gate));
    assert_int_equal(mr_gate_close(&gate), -EAGAIN);
    assert_int_equal(mr_gate_close(&gate), -EAGAIN);
    mr_gate_leave(&gate);
    assert_int_equal(mr_gate_close(&gate), 0);
    assert_false(mr_gate_enter(&gate));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_starts_closed_and_closing_repeats),
        cmocka_unit_test(closing_does_not_wait_for_a_burst),
        cmocka_unit_test(V56_nobody_is_inside_a_closed_gate),
        cmocka_unit_test(
            V56_nobody_is_inside_a_closed_gate_without_membarrier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
