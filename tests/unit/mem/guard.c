/* mem/guard: V62, a peer shrinks the file behind its memory while we read and
 * write there. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "mem/guard.h"
#include "mem/memory.h"

enum { PAGE = 4096, SIZE = 16 * PAGE };

/* The guard's; cmocka puts its own in its place before every test. */
static struct sigaction handler;

static struct mr_memory *
peer_make(unsigned flags, uint64_t size, int *fd)
{
    struct mr_region_spec spec = {0, size, 0, 0};
    struct mr_memory *m = NULL;

    sigaction(SIGBUS, &handler, NULL);
    *fd = memfd_create("peer", MFD_CLOEXEC | flags);
    if (*fd < 0 || ftruncate(*fd, (off_t)size) ||
        mr_memory_create(&spec, fd, 1, &m)) {
        close(*fd);
        return NULL;
    }
    return m;
}

static void
V62_touching_the_lost_part_reads_zeros_and_sets_the_flag(void **state)
{
    int fd;
    struct mr_memory *m = peer_make(0, SIZE, &fd);
    volatile uint8_t *p = m->region[0].host;

    (void)state;
    for (int i = 0; i < SIZE; i++)
        p[i] = 0xee;
    assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
    assert_int_equal(p[4 * PAGE - 1], 0xee);
    assert_int_equal(mr_load(&m->lost), 0);
    for (int i = 4 * PAGE; i < SIZE; i += 97) {
        assert_int_equal(p[i], 0);
        p[i] = 1;
        assert_int_equal(p[i], 1);
    }
    assert_int_equal(mr_load(&m->lost), 1);
    assert_int_equal(p[0], 0xee); /* what the file still has stays */
    mr_memory_destroy(m);
    close(fd);
}

static void
V62_only_the_table_that_was_hit_is_lost(void **state)
{
    struct mr_memory *m[3];
    int fd[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        m[i] = peer_make(0, SIZE, &fd[i]);
    assert_int_equal(ftruncate(fd[1], 0), 0);
    for (int i = 0; i < 3; i++)
        memset(m[i]->region[0].host, i, SIZE);
    assert_int_equal(m[0]->lost, 0);
    assert_int_equal(m[1]->lost, 1);
    assert_int_equal(m[2]->lost, 0);
    for (int i = 0; i < 3; i++) {
        mr_memory_destroy(m[i]);
        close(fd[i]);
    }
}

static uint32_t stop;

static void *
hammer(void *arg)
{
    volatile uint8_t *p = ((struct mr_memory *)arg)->region[0].host;

    while (!mr_load(&stop))
        for (int i = 0; i < SIZE; i += 64)
            p[i]++;
    return NULL;
}

static void
V62_threads_survive_a_file_that_comes_and_goes(void **state)
{
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    int fd;
    struct mr_memory *m = peer_make(0, SIZE, &fd);

    (void)state;
    mr_store(&stop, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, m), 0);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(ftruncate(fd, i * PAGE % SIZE), 0);
        usleep(100);
        assert_int_equal(ftruncate(fd, SIZE), 0);
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    usleep(2000);
    mr_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(mr_load(&m->lost), 1);
    mr_memory_destroy(m);
    close(fd);
}

static void
V62_hugetlb_files_shrink_too(void **state)
{
    const uint64_t huge = 2 << 20;
    int fd;
    struct mr_memory *m = peer_make(MFD_HUGETLB, 2 * huge, &fd);

    (void)state;
    if (!m) {
        print_message("no huge pages on this machine\n");
        skip();
    }
    m->region[0].host[0] = 7;
    assert_int_equal(ftruncate(fd, (off_t)huge), 0);
    memset(m->region[0].host + huge, 1, huge);
    assert_int_equal(m->lost, 1);
    assert_int_equal(m->region[0].host[0], 7);
    mr_memory_destroy(m);
    close(fd);
}

/* More holes than a process may have mappings (vm.max_map_count). */
static void
V62_any_number_of_pages_may_be_touched(void **state)
{
    enum { PAGES = 200000 };
    int fd;
    struct mr_memory *m = peer_make(0, (uint64_t)PAGES * PAGE, &fd);
    volatile uint8_t *p = m->region[0].host;

    (void)state;
    assert_int_equal(ftruncate(fd, PAGE), 0);
    for (size_t i = 2; i < PAGES; i += 2) /* neighbours would be merged */
        assert_int_equal(p[i * PAGE], 0);
    for (size_t i = PAGES - 1; i > 1; i -= 2)
        assert_int_equal(p[i * PAGE], 0);
    mr_memory_destroy(m);
    m = peer_make(0, (uint64_t)PAGES * PAGE, &fd);
    p = m->region[0].host;
    assert_int_equal(ftruncate(fd, PAGE), 0);
    for (size_t i = PAGES - 1; i > 1; i -= 2)
        assert_int_equal(p[i * PAGE], 0);
    mr_memory_destroy(m);
}

/* In a child, whose death is what is wanted. */
static int
death_of(void (*act)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        act();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return status;
}

static void
touch_foreign(void)
{
    int fd = memfd_create("foreign", MFD_CLOEXEC);
    volatile uint8_t *p;

    if (ftruncate(fd, PAGE))
        _exit(1);
    p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0))
        _exit(1);
    p[0] = 1;
}

static void
send_bus_error(void)
{
    kill(getpid(), SIGBUS);
    usleep(100000);
}

static void
a_bus_error_elsewhere_keeps_its_usual_effect(void **state)
{
    int fd;
    struct mr_memory *m = peer_make(0, SIZE, &fd);
    int status = death_of(touch_foreign);

    (void)state;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    status = death_of(send_bus_error);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    assert_int_equal(m->lost, 0);
    mr_memory_destroy(m);
    close(fd);
}

static void
tables_come_and_go_without_end(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        int fd;
        struct mr_memory *m = peer_make(0, PAGE, &fd);

        assert_non_null(m);
        mr_memory_destroy(m);
        close(fd);
    }
}

static void
more_tables_than_slots_are_an_error(void **state)
{
    static struct mr_memory *m[2000];
    int fds[2000];
    int n = 0;

    (void)state;
    while (n < 2000 && (m[n] = peer_make(0, PAGE, &fds[n])))
        n++;
    assert_in_range(n, 100, 1999);
    while (n--) {
        mr_memory_destroy(m[n]);
        close(fds[n]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            V62_touching_the_lost_part_reads_zeros_and_sets_the_flag),
        cmocka_unit_test(V62_only_the_table_that_was_hit_is_lost),
        cmocka_unit_test(V62_threads_survive_a_file_that_comes_and_goes),
        cmocka_unit_test(V62_hugetlb_files_shrink_too),
        cmocka_unit_test(V62_any_number_of_pages_may_be_touched),
        cmocka_unit_test(a_bus_error_elsewhere_keeps_its_usual_effect),
        cmocka_unit_test(tables_come_and_go_without_end),
        cmocka_unit_test(more_tables_than_slots_are_an_error),
    };

    mr_memory_destroy(peer_make(0, PAGE, &(int){-1})); /* installs it */
    sigaction(SIGBUS, NULL, &handler);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
