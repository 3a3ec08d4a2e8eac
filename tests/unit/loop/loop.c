/* The loop: how long a turn takes, and what ends it. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/loop.h"

static void
a_turn_ends_when_its_time_is_over(void **state)
{
    uint64_t begin = mr_now();

    (void)state;
    assert_int_equal(mr_loop_run(30000), 0);
    assert_true(mr_now() - begin >= 29000000);
    assert_int_equal(mr_loop_run(0), 0);
}

static void
v41_sigpipe_is_ignored(void **state)
{
    struct sigaction action;

    (void)state;
    assert_int_equal(mr_loop_open(), 0);
    assert_int_equal(sigaction(SIGPIPE, NULL, &action), 0);
    assert_ptr_equal(action.sa_handler, SIG_IGN);
}

/* Each in a process of its own, as nobody comes back from being stopped. */
static int
child(void (*act)(void))
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        alarm(20);
        act();
        _exit(3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void *
stop_soon(void *arg)
{
    usleep(30000);
    mr_stop();
    return arg;
}

static void
stopped_by_a_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, stop_soon, NULL);
    while (mr_running())
        mr_loop_run(UINT64_MAX);
    _exit(0);
}

static void
stopped_by_a_signal(void)
{
    pid_t self = getpid();

    if (!fork()) {
        usleep(30000);
        kill(self, SIGTERM);
        _exit(0);
    }
    while (mr_running())
        mr_loop_run(UINT64_MAX);
    _exit(0);
}

static void
stopped_twice(void)
{
    raise(SIGINT);
    if (mr_running())
        _exit(1);
    raise(SIGINT);
}

static void
stop_and_sigterm_end_an_endless_turn(void **state)
{
    (void)state;
    assert_int_equal(child(stopped_by_a_thread), 0);
    assert_int_equal(child(stopped_by_a_signal), 0);
}

static void
the_second_sigint_is_obeyed_at_once(void **state)
{
    int status = child(stopped_twice);

    (void)state;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_ends_when_its_time_is_over),
        cmocka_unit_test(v41_sigpipe_is_ignored),
        cmocka_unit_test(stop_and_sigterm_end_an_endless_turn),
        cmocka_unit_test(the_second_sigint_is_obeyed_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
