/* base/unblock: V41, a peer that makes an fd of ours blocking and full. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/process.h"
#include "base/unblock.h"

static const uint64_t most = UINT64_MAX - 1;
static const uint64_t one = 1;

static int
full_eventfd(int flags)
{
    int fd = eventfd(0, EFD_CLOEXEC | flags);

    assert_int_equal(write(fd, &most, sizeof(most)), sizeof(most));
    return fd;
}

static void
only_a_blocking_and_full_fd_needs_help(void **state)
{
    int fd = full_eventfd(0);
    uint64_t count;
    int ends[2];

    (void)state;
    assert_true(mr_unblock_needed(fd));
    mr_unblock_fd(fd);
    assert_false(mr_unblock_needed(fd));
    assert_int_equal(write(fd, &one, 8), -1);
    assert_int_equal(errno, EAGAIN);
    fcntl(fd, F_SETFL, 0);
    assert_int_equal(read(fd, &count, 8), 8);
    assert_false(mr_unblock_needed(fd));
    close(fd);

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], &one, 8) == 8)
        continue;
    assert_false(mr_unblock_needed(ends[1]));
    fcntl(ends[1], F_SETFL, 0);
    assert_true(mr_unblock_needed(ends[1]));
    close(ends[0]);
    assert_false(mr_unblock_needed(ends[1])); /* EPIPE comes at once */
    close(ends[1]);
    assert_false(mr_unblock_needed(-1));
    assert_false(mr_unblock_needed(ends[1])); /* closed */
    mr_unblock_fd(-1);
    mr_unblock_thread(0);
}

static uint32_t stop;

/* The flags are blocking again whenever the other side looks. */
static void *
spoil(void *arg)
{
    int fd = *(int *)arg;

    while (!mr_load(&stop))
        fcntl(fd, F_SETFL, 0);
    return NULL;
}

static void
v41_a_write_ends_whatever_the_peer_does(void **state)
{
    int fd = full_eventfd(EFD_NONBLOCK);
    pthread_t peer;

    (void)state;
    mr_store(&stop, 0);
    assert_int_equal(pthread_create(&peer, NULL, spoil, &fd), 0);
    for (int i = 0; i < 200; i++) {
        uint64_t begin = mr_now();

        assert_int_equal(mr_unblock_write(fd, &one, sizeof(one)), -1);
        assert_true(errno == EAGAIN || errno == EINTR);
        assert_true(mr_now() - begin < 1000000000);
    }
    mr_store(&stop, 1);
    pthread_join(peer, NULL);
    close(fd);
}

struct writer {
    int fd;
    pid_t tid;
    ssize_t done;
    uint32_t over;
};

static void *
write_blocking(void *arg)
{
    struct writer *w = arg;

    mr_store_release(&w->tid, gettid());
    w->done = write(w->fd, &one, sizeof(one));
    mr_store_release(&w->over, 1);
    return NULL;
}

static void
a_thread_that_waits_in_a_write_is_made_to_go_on(void **state)
{
    struct writer w = {.fd = full_eventfd(0)};
    pthread_t thread;
    int tries = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, write_blocking, &w), 0);
    while (!mr_load_acquire(&w.tid))
        usleep(100);
    usleep(10000);
    assert_false(mr_load_acquire(&w.over));
    for (; !mr_load_acquire(&w.over) && tries < 5000; tries++) {
        mr_unblock_thread(w.tid);
        usleep(1000);
    }
    assert_true(mr_load_acquire(&w.over));
    pthread_join(thread, NULL);
    assert_int_equal(w.done, -1);
    close(w.fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_blocking_and_full_fd_needs_help),
        cmocka_unit_test(v41_a_write_ends_whatever_the_peer_does),
        cmocka_unit_test(a_thread_that_waits_in_a_write_is_made_to_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
