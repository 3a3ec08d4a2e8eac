#include "mem/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/map.h"

static size_t
round_up(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* A shared mapping of huge pages reserves them here, so a later touch cannot
 * fail; without enough of them mmap says so and ordinary pages serve. Of those
 * the kernel makes transparent huge pages where its administrator lets it. */
static int
arena_map(struct mr_arena *arena, size_t size, unsigned flags)
{
    int fd = memfd_create("moonring", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    void *base;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)size) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    base = mr_map_huge(size, MAP_SHARED, fd);
    if (!base) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    if (MR_HAS(HUGE_PAGES))
        madvise(base, size, MADV_HUGEPAGE);
    arena->fd = fd;
    arena->base = base;
    arena->size = size;
    arena->used = 0;
    arena->hugetlb = (flags & MFD_HUGETLB) != 0;
    return 0;
}

int
mr_arena_open(struct mr_arena *arena, size_t size)
{
    int rc;

    arena->fd = -1;
    arena->base = NULL;
    if (MR_HAS(HUGE_PAGES) &&
        arena_map(arena, round_up(size, MR_HUGE_PAGE), MFD_HUGETLB) == 0)
        return 0;
    rc = arena_map(arena, round_up(size, MR_PAGE), 0);
    if (rc)
        return mr_error_set(rc, "cannot map %zu MiB of shared memory (%s): "
                            "ask for smaller rings or fewer packets",
                            size >> 20, mr_error_name(rc));
    return 0;
}

void
mr_arena_close(struct mr_arena *arena)
{
    if (!arena->base)
        return;
    munmap(arena->base, arena->size);
    close(arena->fd);
    arena->base = NULL;
    arena->fd = -1;
}

void *
mr_arena_alloc(struct mr_arena *arena, size_t size, size_t align)
{
    size_t at = round_up(arena->used, align);

    if (at > arena->size || size > arena->size - at)
        return NULL;
    arena->used = at + size;
    return arena->base + at;
}
