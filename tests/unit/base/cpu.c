/* CPU levels: names, what caps them, and that what is offered can be run. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cpu.h"

static void
names_go_both_ways(void **state)
{
    (void)state;
    for (int i = 0; i < MR_CPU_COUNT; i++)
        assert_int_equal(mr_cpu_named(mr_cpu_name(i)), i);
    assert_null(mr_cpu_name(-1));
    assert_null(mr_cpu_name(MR_CPU_COUNT));
    assert_int_equal(mr_cpu_named("AVX2"), -1);
    assert_int_equal(mr_cpu_named(""), -1);
}

static void
cap_lowers_and_lifts_up_to_what_is_offered(void **state)
{
    int offered = mr_cpu_offered();

    (void)state;
    for (int i = MR_CPU_COUNT; i-- > 0;) {
        assert_int_equal(mr_cpu_cap(mr_cpu_name(i)), 0);
        assert_int_equal(mr_cpu_level(), i < offered ? i : offered);
    }
    assert_int_equal(mr_cpu_cap("avx2 "), -EINVAL);
    assert_string_equal(mr_error_text(),
                        "CPU level 'avx2 ': baseline, avx2 or avx512");
    assert_int_equal(mr_cpu_level(), MR_CPU_baseline);
}

/* The environment counts once in a process: each case is a child. */
static int
level_with(const char *value)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (value)
            setenv("MR_CPU_LEVEL", value, 1);
        else
            unsetenv("MR_CPU_LEVEL");
        _exit(mr_cpu_level());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* First: the parent must not have asked yet. */
static void
environment_caps_from_the_first_call_on(void **state)
{
    int offered = mr_cpu_offered();

    (void)state;
    assert_int_equal(level_with(NULL), offered);
    assert_int_equal(level_with("nonsense"), offered);
    for (int i = 0; i < MR_CPU_COUNT; i++)
        assert_int_equal(level_with(mr_cpu_name(i)), i < offered ? i : offered);
}

#if defined(__x86_64__)
/* One instruction of each level: an offer that the kernel does not support
 * would be an illegal one. */
static void
what_is_offered_runs(void **state)
{
    (void)state;
    if (mr_cpu_offered() >= MR_CPU_avx2)
        __asm__ volatile("vpaddd %%ymm0, %%ymm0, %%ymm0\n\tvzeroupper" :::
                         "xmm0");
    if (mr_cpu_offered() >= MR_CPU_avx512)
        __asm__ volatile("vpaddd %%zmm0, %%zmm0, %%zmm0\n\tvzeroupper" :::
                         "xmm0");
}

/* The compiler's library asks the CPU on its own. */
static void
offer_is_what_the_compiler_sees(void **state)
{
    (void)state;
    __builtin_cpu_init();
    assert_int_equal(mr_cpu_offered() >= MR_CPU_avx2,
                     __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(mr_cpu_offered() >= MR_CPU_avx512,
                     __builtin_cpu_supports("avx512bw") != 0);
}
#endif

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_caps_from_the_first_call_on),
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(cap_lowers_and_lifts_up_to_what_is_offered),
#if defined(__x86_64__)
        cmocka_unit_test(what_is_offered_runs),
        cmocka_unit_test(offer_is_what_the_compiler_sees),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
