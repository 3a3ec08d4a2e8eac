/* mem/map: mappings that huge pages can serve. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/map.h"

static int
file_of(size_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

/* Bytes of address space that this process has. */
static size_t
mapped(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void
large_mappings_begin_at_a_huge_page(void **state)
{
    static const size_t size[] = {MR_HUGE_PAGE, MR_HUGE_PAGE + MR_PAGE,
                                  5 * MR_HUGE_PAGE, 3 * MR_HUGE_PAGE + 77};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(size); i++) {
        int fd = file_of(size[i]);
        void *map = mr_map_huge(size[i], MAP_SHARED, fd);

        assert_non_null(map);
        assert_int_equal((uintptr_t)map % MR_HUGE_PAGE, 0);
        munmap(map, size[i]);
        close(fd);
    }
}

static void
it_is_the_file_from_its_start(void **state)
{
    static const size_t size[] = {100, MR_PAGE, 2 * MR_HUGE_PAGE + 1000};

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(size); i++) {
        int fd = file_of(size[i]);
        uint8_t *map = mr_map_huge(size[i], MAP_SHARED, fd);
        uint8_t byte = 0;

        assert_non_null(map);
        map[0] = 11;
        map[size[i] - 1] = 22;
        assert_int_equal(pread(fd, &byte, 1, 0), 1);
        assert_int_equal(byte, 11);
        assert_int_equal(pread(fd, &byte, 1, (off_t)size[i] - 1), 1);
        assert_int_equal(byte, 22);
        munmap(map, size[i]);
        close(fd);
    }
}

static void
memory_without_a_file_is_mapped_too(void **state)
{
    uint8_t *map = mr_map_huge(MR_HUGE_PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    (void)state;
    assert_non_null(map);
    assert_int_equal((uintptr_t)map % MR_HUGE_PAGE, 0);
    for (size_t i = 0; i < MR_HUGE_PAGE; i += MR_PAGE)
        assert_int_equal(map[i], 0);
    munmap(map, MR_HUGE_PAGE);
}

static void
no_more_is_mapped_than_asked_for(void **state)
{
    const size_t size = 3 * MR_HUGE_PAGE + MR_PAGE + 5;
    int fd = file_of(size);
    size_t before = mapped();

    (void)state;
    for (int i = 0; i < 100; i++) {
        void *map = mr_map_huge(size, MAP_SHARED, fd);

        assert_non_null(map);
        assert_true(mapped() - before <= size + MR_HUGE_PAGE);
        munmap(map, size);
    }
    assert_true(mapped() - before < 100 * MR_PAGE);
    close(fd);
}

static void
what_cannot_be_mapped_is_null_and_leaves_nothing(void **state)
{
    size_t before = mapped();

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_null(mr_map_huge(2 * MR_HUGE_PAGE, MAP_SHARED, -1));
        assert_null(mr_map_huge(SIZE_MAX, MAP_SHARED, 0));
        assert_null(mr_map_huge(SIZE_MAX / 2, MAP_PRIVATE | MAP_ANONYMOUS,
                                -1));
    }
    assert_true(mapped() - before < 100 * MR_PAGE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_mappings_begin_at_a_huge_page),
        cmocka_unit_test(it_is_the_file_from_its_start),
        cmocka_unit_test(memory_without_a_file_is_mapped_too),
        cmocka_unit_test(no_more_is_mapped_than_asked_for),
        cmocka_unit_test(what_cannot_be_mapped_is_null_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
