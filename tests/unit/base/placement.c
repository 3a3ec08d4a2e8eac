/* Placement: classes by round trip, and a probe of the CPUs that are there. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/placement.h"

static void
the_measured_ranges_have_their_classes(void **state)
{
    (void)state;
    for (int ns = 23; ns <= 55; ns++)
        assert_int_equal(mr_placement_of(ns), MR_PLACEMENT_SIBLINGS);
    for (int ns = 115; ns <= 210; ns++)
        assert_int_equal(mr_placement_of(ns), MR_PLACEMENT_FAR);
}

static void
what_lies_between_and_beyond_is_unknown(void **state)
{
    static const double ns[] = {-1, 0, 5, 80, 1000};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(ns); i++)
        assert_int_equal(mr_placement_of(ns[i]), MR_PLACEMENT_UNKNOWN);
}

static void
every_class_has_a_text(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MR_PLACEMENT_COUNT; i++)
        assert_true(strlen(mr_placement_name(i)) > 0);
    assert_null(mr_placement_name(MR_PLACEMENT_COUNT));
}

/* Puts the first n CPUs that we may use into cpu; -1 where there are none. */
static void
find_cpus(int *cpu, int n)
{
    cpu_set_t set;
    int at = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    for (int i = 0; i < CPU_SETSIZE && at < n; i++)
        if (CPU_ISSET(i, &set))
            cpu[at++] = i;
    while (at < n)
        cpu[at++] = -1;
}

static void
one_cpu_is_one_core(void **state)
{
    struct mr_probe probe;
    int cpu;

    (void)state;
    find_cpus(&cpu, 1);
    assert_int_equal(mr_probe_cores(cpu, cpu, &probe), 0);
    assert_int_equal(probe.placement, MR_PLACEMENT_ONE_CORE);
}

/* On a busy machine a probe may run out of time: then it says so. */
static void
two_cpus_have_a_round_trip_of_their_class(void **state)
{
    struct mr_probe probe;
    int cpu[2];

    (void)state;
    find_cpus(cpu, 2);
    if (cpu[1] < 0)
        skip();
    assert_int_equal(mr_probe_cores(cpu[0], cpu[1], &probe), 0);
    print_message("%u samples, median %.1f ns, %s\n", probe.samples, probe.ns,
                  mr_placement_name(probe.placement));
    assert_true(probe.samples < 64 ? probe.ns == 0 : probe.ns > 1);
    assert_int_equal(probe.placement, mr_placement_of(probe.ns));
}

static void
cpus_that_are_not_ours_are_refused(void **state)
{
    struct mr_probe probe;
    int cpu;

    (void)state;
    find_cpus(&cpu, 1);
    assert_int_equal(mr_probe_cores(cpu, CPU_SETSIZE - 1, &probe), -EINVAL);
    assert_non_null(strstr(mr_error_text(), "1023"));
    assert_int_equal(mr_probe_cores(CPU_SETSIZE - 1, cpu, &probe), -EINVAL);
    assert_int_equal(mr_probe_cores(cpu, -1, &probe), -EINVAL);
    assert_int_equal(mr_probe_cores(CPU_SETSIZE, cpu, &probe), -EINVAL);
    assert_int_equal(probe.placement, MR_PLACEMENT_UNKNOWN);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_measured_ranges_have_their_classes),
        cmocka_unit_test(what_lies_between_and_beyond_is_unknown),
        cmocka_unit_test(every_class_has_a_text),
        cmocka_unit_test(one_cpu_is_one_core),
        cmocka_unit_test(two_cpus_have_a_round_trip_of_their_class),
        cmocka_unit_test(cpus_that_are_not_ours_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
