/* mem/arena: what we share with a back-end. V62: the peer cannot take it
 * away. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem/arena.h"

static void
V62_the_file_cannot_shrink_or_grow(void **state)
{
    struct mr_arena a;
    int fd;

    (void)state;
    assert_int_equal(mr_arena_open(&a, 100000), 0);
    fd = dup(a.fd); /* as the peer gets it */
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, (off_t)a.size * 2), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    memset(a.base, 1, a.size);
    close(fd);
    mr_arena_close(&a);
}

static void
the_mapping_is_the_file_and_starts_as_zeros(void **state)
{
    struct mr_arena a;
    struct stat st;
    uint8_t *peer;

    (void)state;
    assert_int_equal(mr_arena_open(&a, 3 * 4096 + 1), 0);
    assert_int_equal(fstat(a.fd, &st), 0);
    assert_int_equal((size_t)st.st_size, a.size);
    assert_true(a.size > 3 * 4096 && a.size % 4096 == 0);
    for (size_t i = 0; i < a.size; i++)
        assert_int_equal(a.base[i], 0);
    peer = mmap(NULL, a.size, PROT_READ, MAP_SHARED, a.fd, 0);
    assert_ptr_not_equal(peer, MAP_FAILED);
    a.base[a.size - 1] = 77;
    assert_int_equal(peer[a.size - 1], 77);
    munmap(peer, a.size);
    mr_arena_close(&a);
}

static void
allocations_are_aligned_apart_and_bounded(void **state)
{
    struct mr_arena a;
    uint8_t *last = NULL;

    (void)state;
    assert_int_equal(mr_arena_open(&a, 1 << 16), 0);
    for (size_t align = 1; align <= 4096; align *= 2) {
        uint8_t *p = mr_arena_alloc(&a, 3, align);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        assert_true(!last || p >= last + 3);
        last = p;
    }
    assert_null(mr_arena_alloc(&a, a.size, 1));
    assert_null(mr_arena_alloc(&a, SIZE_MAX, 64));
    assert_null(mr_arena_alloc(&a, SIZE_MAX - 8192, 1));
    assert_non_null(mr_arena_alloc(&a, a.size - a.used, 1));
    assert_null(mr_arena_alloc(&a, 1, 1));
    mr_arena_close(&a);
}

static void
closing_twice_and_refused_sizes_leave_nothing(void **state)
{
    struct mr_arena a;

    (void)state;
    assert_int_equal(mr_arena_open(&a, 4096), 0);
    mr_arena_close(&a);
    mr_arena_close(&a);
    assert_int_equal(a.fd, -1);
    assert_true(mr_arena_open(&a, (size_t)1 << 62) < 0);
    assert_int_equal(a.fd, -1);
    assert_null(a.base);
    mr_arena_close(&a);
}

/* Huge pages serve when the machine has free ones. */
static void
hugetlb_is_used_when_there_is_some(void **state)
{
    FILE *f = fopen("/proc/meminfo", "r");
    unsigned long spare = 0;
    char line[256];
    struct mr_arena a;

    (void)state;
    while (fgets(line, sizeof(line), f))
        sscanf(line, "HugePages_Free: %lu", &spare);
    fclose(f);
    assert_int_equal(mr_arena_open(&a, 4096), 0);
    memset(a.base, 1, a.size);
    if (!spare) {
        assert_false(a.hugetlb);
        mr_arena_close(&a);
        print_message("no huge pages on this machine\n");
        skip();
    }
    assert_true(a.hugetlb);
    assert_int_equal(a.size % (2 << 20), 0);
    mr_arena_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(V62_the_file_cannot_shrink_or_grow),
        cmocka_unit_test(the_mapping_is_the_file_and_starts_as_zeros),
        cmocka_unit_test(allocations_are_aligned_apart_and_bounded),
        cmocka_unit_test(closing_twice_and_refused_sizes_leave_nothing),
        cmocka_unit_test(hugetlb_is_used_when_there_is_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
