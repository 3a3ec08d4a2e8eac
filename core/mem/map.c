#include "mem/map.h"

#include <sys/mman.h>

/* Reserves more than is needed, so that an aligned piece lies inside, maps
 * over that and gives the rest back. */
static void *
map_aligned(size_t size, int flags, int fd)
{
    size_t whole = size + MR_HUGE_PAGE;
    uint8_t *reserved = mmap(NULL, whole, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                             0);
    size_t before = -(uintptr_t)reserved % MR_HUGE_PAGE;
    uint8_t *map;

    if (reserved == MAP_FAILED)
        return MAP_FAILED;
    map = mmap(reserved + before, size, PROT_READ | PROT_WRITE,
               flags | MAP_FIXED, fd, 0);
    if (map == MAP_FAILED) {
        munmap(reserved, whole);
        return MAP_FAILED;
    }
    size = (size + MR_PAGE - 1) & -(size_t)MR_PAGE;
    if (before)
        munmap(reserved, before);
    if (size < whole - before)
        munmap(map + size, whole - before - size);
    return map;
}

void *
mr_map_huge(size_t size, int flags, int fd)
{
    void *map = MAP_FAILED;

    if (size >= MR_HUGE_PAGE && size < SIZE_MAX - 2 * MR_HUGE_PAGE)
        map = map_aligned(size, flags, fd);
    if (map == MAP_FAILED)
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}
