/* mem/memory: V58-V61, V68-V70, V128, V129, C12, C13, T13e. The peer's file is
 * mapped here a second time, as a guest maps its own memory, so that what is
 * read through a translation is judged by other eyes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/memory.h"

enum { PAGE = 4096, PAGES = 64 };

/* The guest: a file, and its own view of it. */
static int fd = -1;
static uint8_t *view;

static int
setup(void **state)
{
    (void)state;
    fd = memfd_create("guest", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, PAGES * PAGE), 0);
    view = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(view, MAP_FAILED);
    for (int i = 0; i < PAGES * PAGE; i++)
        view[i] = (uint8_t)(i * 7 + i / 256);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    munmap(view, PAGES * PAGE);
    close(fd);
    return 0;
}

static int
create(const struct mr_region_spec *spec, uint32_t n, struct mr_memory **m)
{
    int fds[16];

    for (int i = 0; i < 16; i++)
        fds[i] = fd;
    return mr_memory_create(spec, fds, n, m);
}

static struct mr_memory *
made(const struct mr_region_spec *spec, uint32_t n)
{
    struct mr_memory *m = NULL;

    assert_int_equal(create(spec, n, &m), 0);
    return m;
}

/* Refused, with the rule in the text. */
static void
refused(const struct mr_region_spec *spec, uint32_t n, const char *rule)
{
    struct mr_memory *m = NULL;

    assert_int_equal(create(spec, n, &m), -EINVAL);
    assert_null(m);
    assert_non_null(strstr(mr_error_text(), rule));
}

static int
count_fds(void)
{
    int n = 0;

    for (int i = 0; i < 1024; i++)
        n += fcntl(i, F_GETFD) >= 0;
    return n;
}

static int
count_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    while (fgets(line, sizeof(line), f))
        n += strstr(line, "memfd:guest") != NULL;
    fclose(f);
    return n;
}

static void
V58_translation_adds_map_base_and_offset(void **state)
{
    struct mr_region_spec spec = {0x100000, 4 * PAGE, 0x7f0000000000,
                                  8 * PAGE};
    struct mr_memory *m = made(&spec, 1);
    uint64_t len;
    uint8_t *p = mr_memory_guest(m, 0x100000 + 123, &len);

    (void)state;
    assert_non_null(p);
    assert_int_equal(len, 4 * PAGE - 123);
    assert_memory_equal(p, view + 8 * PAGE + 123, len);
    assert_ptr_equal(mr_memory_user(m, 0x7f0000000000 + 123, 1), p);
    *p ^= 0xff; /* and what we write the guest sees */
    assert_int_equal(view[8 * PAGE + 123], *p);
    mr_memory_destroy(m);
}

static void
V59_offset_needs_no_alignment_and_unmap_is_whole(void **state)
{
    int before = count_maps();

    (void)state;
    for (uint64_t offset = 1; offset < 2 * PAGE; offset += 333) {
        struct mr_region_spec spec = {0, PAGE + 5, 0x1000, offset};
        struct mr_memory *m = made(&spec, 1);
        uint64_t len;
        uint8_t *p = mr_memory_guest(m, 0, &len);

        assert_int_equal(len, PAGE + 5);
        assert_memory_equal(p, view + offset, len);
        mr_memory_destroy(m);
        assert_int_equal(count_maps(), before);
    }
}

static void
V60_sizes_that_are_empty_wrap_or_exceed_the_file_are_refused(void **state)
{
    static const uint64_t top = UINT64_MAX;
    struct mr_region_spec bad[] = {
        {0, 0, 0, 0},
        {0, PAGE, 0, top - PAGE + 1},
        {top - PAGE + 1, 2 * PAGE, 0, 0},
        {0, 2 * PAGE, top - PAGE + 1, 0},
        {0, top, 0, 0},
        {0, top - 1, 0, 1},
        {0, top - PAGE / 2, 0, 0},
        {0, PAGES * PAGE + 1, 0, 0},
        {0, PAGE, 0, PAGES *PAGE - PAGE + 1},
        {0, 0x2000, 0, 0xfffffffffffff000},
    };
    int maps = count_maps();
    int fds = count_fds();

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++)
        refused(&bad[i], 1, "V60");
    assert_int_equal(count_maps(), maps);
    assert_int_equal(count_fds(), fds);
}

static void
V60_only_files_that_have_a_size_are_mapped(void **state)
{
    struct mr_region_spec spec = {0, PAGE, 0, 0};
    struct mr_memory *m = NULL;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(mr_memory_create(&spec, &ends[0], 1, &m), -EINVAL);
    close(ends[0]);
    close(ends[1]);
    assert_true(mr_memory_create(&spec, &ends[0], 1, &m) < 0);
    assert_true(mr_memory_create(&spec, &(int){-1}, 1, &m) < 0);
    assert_null(m);
}

static void
V61_overlap_in_either_space_is_refused(void **state)
{
    struct mr_region_spec guest[] = {{0, 2 * PAGE, 0x10000, 0},
                                     {2 * PAGE - 1, PAGE, 0x90000, 0}};
    struct mr_region_spec user[] = {{0, 2 * PAGE, 0x10000, 0},
                                    {0x90000, PAGE, 0x10000 + PAGE, 0}};
    struct mr_region_spec inside[] = {{PAGE, PAGE, 0x10000, 0},
                                      {0, 4 * PAGE, 0x90000, 0}};
    struct mr_region_spec third[] = {{0, PAGE, 0, 0},
                                     {PAGE, PAGE, PAGE, 0},
                                     {0, PAGE, 9 * PAGE, 0}};
    int maps = count_maps();

    (void)state;
    refused(guest, 2, "V61");
    refused(user, 2, "V61");
    refused(inside, 2, "V61");
    refused(third, 3, "V61");
    assert_int_equal(count_maps(), maps);
}

static void
V61_neighbours_are_no_overlap(void **state)
{
    struct mr_region_spec spec[] = {{0, PAGE, 0x10000, 0},
                                    {PAGE, PAGE, 0x10000 + PAGE, PAGE}};

    (void)state;
    mr_memory_destroy(made(spec, 2));
}

static void
V128_more_than_eight_regions_are_refused(void **state)
{
    struct mr_region_spec spec[9];

    (void)state;
    for (uint64_t i = 0; i < 9; i++)
        spec[i] = (struct mr_region_spec){i * PAGE, PAGE, i * PAGE, i * PAGE};
    mr_memory_destroy(made(spec, 8));
    refused(spec, 9, "V128");
    refused(spec, UINT32_MAX, "V128");
}

static void
an_empty_table_translates_nothing(void **state)
{
    struct mr_memory *m = made(NULL, 0);
    struct mr_seg seg[1];
    uint64_t len;

    (void)state;
    assert_null(mr_memory_guest(m, 0, &len));
    assert_null(mr_memory_user(m, 0, 0));
    assert_int_equal(mr_memory_split(m, 0, 1, seg, 1), 0);
    mr_memory_destroy(m);
    mr_memory_destroy(NULL);
}

static void
V69_lookup_does_not_overflow_at_the_top(void **state)
{
    uint64_t base = UINT64_MAX - PAGE; /* the last byte is never ours */
    struct mr_region_spec spec = {base, PAGE, base, 0};
    struct mr_memory *m = made(&spec, 1);
    uint64_t len;

    (void)state;
    assert_non_null(mr_memory_guest(m, base + PAGE - 1, &len));
    assert_int_equal(len, 1);
    assert_null(mr_memory_guest(m, base + PAGE, &len));
    assert_null(mr_memory_guest(m, base - 1, &len));
    assert_null(mr_memory_guest(m, 0, &len));
    assert_null(mr_memory_user(m, base + PAGE - 1, 2));
    assert_null(mr_memory_user(m, base, UINT64_MAX));
    assert_null(mr_memory_user(m, base + 8, UINT64_MAX - 4));
    mr_memory_destroy(m);
}

/* Three regions that are neighbours for the guest, in scrambled file order, so
 * that they are no neighbours here; then a hole; then a fourth. */
static const struct mr_region_spec scrambled[] = {
    {0x10000, PAGE, 0x100000, 40 * PAGE},
    {0x11000, PAGE, 0x200000, 3 * PAGE},
    {0x12000, PAGE, 0x300000, 20 * PAGE},
    {0x14000, PAGE, 0x400000, 0},
};

static const uint8_t *
scrambled_byte(uint64_t guest)
{
    const struct mr_region_spec *s = &scrambled[(guest - 0x10000) / PAGE];

    return view + s->offset + guest % PAGE;
}

static void
V68_ring_parts_lie_in_one_region(void **state)
{
    struct mr_memory *m = made(scrambled, 4);

    (void)state;
    assert_non_null(mr_memory_user(m, 0x100000, PAGE));
    assert_null(mr_memory_user(m, 0x100000, PAGE + 1));
    assert_null(mr_memory_user(m, 0x100000 + PAGE - 1, 2));
    assert_null(mr_memory_user(m, 0x100000 + PAGE, 1));
    mr_memory_destroy(m);
}

static void
C13_a_buffer_may_cross_into_the_next_region(void **state)
{
    struct mr_memory *m = made(scrambled, 4);

    (void)state;
    for (uint64_t at = 0x10000; at < 0x13000; at += 61) {
        for (uint64_t len = 1; at + len <= 0x13000; len += 577) {
            struct mr_seg seg[3];
            uint32_t n = mr_memory_split(m, at, len, seg, 3);
            uint64_t pos = at;

            assert_in_range(n, 1, 3);
            assert_int_equal(n, (at + len - 1) / PAGE - at / PAGE + 1);
            for (uint32_t i = 0; i < n; i++) {
                assert_memory_equal(seg[i].ptr, scrambled_byte(pos),
                                    seg[i].len);
                pos += seg[i].len;
            }
            assert_int_equal(pos, at + len);
        }
    }
    mr_memory_destroy(m);
}

static void
C13_more_pieces_than_asked_for_are_told(void **state)
{
    struct mr_memory *m = made(scrambled, 4);
    struct mr_seg seg[3];

    (void)state;
    assert_int_equal(mr_memory_split(m, 0x10000, 3 * PAGE, seg, 3), 3);
    assert_int_equal(mr_memory_split(m, 0x10000, 3 * PAGE, seg, 2), 3);
    assert_int_equal(mr_memory_split(m, 0x10000, 3 * PAGE, seg, 1), 2);
    mr_memory_destroy(m);
}

static void
C13_the_whole_length_is_translated_not_the_start(void **state)
{
    struct mr_memory *m = made(scrambled, 4);
    struct mr_seg seg[8];

    (void)state;
    assert_int_equal(mr_memory_split(m, 0x12fff, 2, seg, 8), 0);
    assert_int_equal(mr_memory_split(m, 0x10000, 5 * PAGE, seg, 8), 0);
    assert_int_equal(mr_memory_split(m, 0x10000, UINT32_MAX, seg, 8), 0);
    assert_int_equal(mr_memory_split(m, 0x10000, UINT64_MAX, seg, 8), 0);
    mr_memory_destroy(m);
}

static void
T13e_an_empty_buffer_needs_a_valid_address(void **state)
{
    struct mr_memory *m = made(scrambled, 4);
    struct mr_seg seg[1];

    (void)state;
    assert_int_equal(mr_memory_split(m, 0x10000, 0, seg, 1), 1);
    assert_int_equal(seg[0].len, 0);
    assert_int_equal(mr_memory_split(m, 0x13000, 0, seg, 1), 0);
    assert_int_equal(mr_memory_split(m, 0, 0, seg, 1), 0);
    assert_int_equal(mr_memory_split(m, UINT64_MAX, 0, seg, 1), 0);
    mr_memory_destroy(m);
}

static void
V70_guest_memory_stays_out_of_core_dumps(void **state)
{
    struct mr_region_spec spec = {0, PAGE, 0, 0};
    struct mr_memory *m = made(&spec, 1);
    FILE *f = fopen("/proc/self/smaps", "r");
    unsigned long map = (unsigned long)m->origin[0].map;
    char line[512];
    bool here = false, found = false;

    (void)state;
    while (fgets(line, sizeof(line), f)) {
        unsigned long start, end;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = start == map;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, " dd") != NULL;
    }
    fclose(f);
    assert_true(found);
    mr_memory_destroy(m);
}

static void
hugetlb_regions_map_and_unmap_as_huge_pages(void **state)
{
    const size_t huge = 2 << 20;
    int hfd = memfd_create("guest-huge", MFD_CLOEXEC | MFD_HUGETLB);
    struct mr_region_spec spec = {0, huge / 2, 0, 12345};
    struct mr_memory *m = NULL;
    uint8_t *own = MAP_FAILED;
    uint64_t len;

    (void)state;
    if (hfd >= 0 && ftruncate(hfd, (off_t)huge) == 0)
        own = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_SHARED, hfd, 0);
    if (own == MAP_FAILED) {
        close(hfd);
        print_message("no huge pages on this machine\n");
        skip();
    }
    memset(own + 12345, 0x5a, 100);
    assert_int_equal(mr_memory_create(&spec, &hfd, 1, &m), 0);
    assert_int_equal(m->origin[0].map_size, huge);
    assert_int_equal(*mr_memory_guest(m, 99, &len), 0x5a);
    mr_memory_destroy(m);
    munmap(own, huge);
    close(hfd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(V58_translation_adds_map_base_and_offset),
        cmocka_unit_test(V59_offset_needs_no_alignment_and_unmap_is_whole),
        cmocka_unit_test(
            V60_sizes_that_are_empty_wrap_or_exceed_the_file_are_refused),
        cmocka_unit_test(V60_only_files_that_have_a_size_are_mapped),
        cmocka_unit_test(V61_overlap_in_either_space_is_refused),
        cmocka_unit_test(V61_neighbours_are_no_overlap),
        cmocka_unit_test(V128_more_than_eight_regions_are_refused),
        cmocka_unit_test(an_empty_table_translates_nothing),
        cmocka_unit_test(V69_lookup_does_not_overflow_at_the_top),
        cmocka_unit_test(V68_ring_parts_lie_in_one_region),
        cmocka_unit_test(C13_a_buffer_may_cross_into_the_next_region),
        cmocka_unit_test(C13_more_pieces_than_asked_for_are_told),
        cmocka_unit_test(C13_the_whole_length_is_translated_not_the_start),
        cmocka_unit_test(T13e_an_empty_buffer_needs_a_valid_address),
        cmocka_unit_test(V70_guest_memory_stays_out_of_core_dumps),
        cmocka_unit_test(hugetlb_regions_map_and_unmap_as_huge_pages),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
