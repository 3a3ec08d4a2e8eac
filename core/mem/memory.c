#include "mem/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/foreign.h"
#include "mem/guard.h"
#include "mem/map.h"

static bool
overflows(uint64_t start, uint64_t size)
{
    return start + size < start;
}

static bool
overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

/* V60, V61, V129: everything that can be told before mapping. */
static int
region_check(const struct mr_region_spec *spec, uint32_t i)
{
    const struct mr_region_spec *s = &spec[i];

    if (!s->size || overflows(s->offset, s->size) ||
        overflows(s->guest, s->size) || overflows(s->user, s->size))
        return mr_error_set(-EINVAL,
                            "memory region %u: size %#llx at guest %#llx, "
                            "user %#llx, offset %#llx is empty or wraps (V60)",
                            i, (unsigned long long)s->size,
                            (unsigned long long)s->guest,
                            (unsigned long long)s->user,
                            (unsigned long long)s->offset);
    for (uint32_t j = 0; j < i; j++)
        if (overlaps(s->guest, s->size, spec[j].guest, spec[j].size) ||
            overlaps(s->user, s->size, spec[j].user, spec[j].size))
            return mr_error_set(-EINVAL, "memory regions %u and %u overlap "
                                "(V61)", j, i);
    return 0;
}

/* Maps from file offset 0, as the offset need not be page aligned (V59), and
 * rounds up to the file's block, a huge page on hugetlbfs. */
static int
region_map(struct mr_memory *m, const struct mr_region_spec *s, int fd,
           uint32_t i)
{
    uint64_t end = s->offset + s->size;
    uint64_t block;
    struct stat st;
    void *map;

    if (!mr_foreign_memory(fd))
        return mr_error_set(-EINVAL, "memory region %u: its fd is no file in "
                            "memory or on a disk: share a memfd, or a file of "
                            "/dev/shm or hugetlbfs (V129)", i);
    if (fstat(fd, &st))
        return mr_error_set(-errno, "memory region %u: its fd is not usable "
                            "(%s)", i, mr_error_name(errno));
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < end)
        return mr_error_set(-EINVAL, "memory region %u: file of %lld bytes "
                            "does not cover %llu (V60)", i,
                            (long long)st.st_size, (unsigned long long)end);
    block = MR_MAX((uint64_t)st.st_blksize, (uint64_t)MR_PAGE);
    if (end + block - 1 < end)
        return mr_error_set(-EINVAL, "memory region %u: size wraps (V60)", i);
    end = (end + block - 1) / block * block;
    map = mr_map_huge(end, MAP_SHARED | MAP_NORESERVE, fd);
    if (!map)
        return mr_error_set(-errno, "memory region %u: cannot map %llu bytes "
                            "(%s)", i, (unsigned long long)end,
                            mr_error_name(errno));
    madvise(map, end, MADV_DONTDUMP); /* V70 */
    m->origin[i].map = map;
    m->origin[i].map_size = end;
    m->origin[i].user = s->user;
    m->region[i] = (struct mr_region){s->guest, s->size,
                                      (uint8_t *)map + s->offset};
    m->n = i + 1;
    return 0;
}

int
mr_memory_create(const struct mr_region_spec *spec, const int *fds, uint32_t n,
                 struct mr_memory **memory)
{
    struct mr_memory *m;
    int rc = 0;

    if (n > MR_MEMORY_REGIONS)
        return mr_error_set(-EINVAL, "%u memory regions, at most %u (V128)", n,
                            MR_MEMORY_REGIONS);
    m = calloc(1, sizeof(*m));
    if (!m)
        return mr_error_set(-ENOMEM, "no memory for a region table");
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = region_check(spec, i);
        if (!rc)
            rc = region_map(m, &spec[i], fds[i], i);
    }
    if (!rc)
        rc = mr_guard_add(m);
    if (rc) {
        mr_memory_destroy(m);
        return rc;
    }
    *memory = m;
    return 0;
}

void
mr_memory_hold(struct mr_memory *m)
{
    m->holders++;
}

void
mr_memory_destroy(struct mr_memory *m)
{
    if (!m || m->holders--)
        return;
    mr_guard_remove(m);
    for (uint32_t i = 0; i < m->n; i++)
        munmap(m->origin[i].map, m->origin[i].map_size);
    free(m);
}

void *
mr_memory_user(const struct mr_memory *m, uint64_t user, uint64_t len)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct mr_region *r = &m->region[i];
        uint64_t at = user - m->origin[i].user;

        if (at < r->size)
            return len <= r->size - at ? r->host + at : NULL;
    }
    return NULL;
}

bool
mr_memory_find(const struct mr_memory *m, uint64_t guest,
               struct mr_region *region)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (guest - m->region[i].guest < m->region[i].size) {
            *region = m->region[i];
            return true;
        }
    }
    return false;
}

uint32_t
mr_memory_split(const struct mr_memory *m, uint64_t guest, uint64_t len,
                struct mr_seg *seg, uint32_t max)
{
    uint32_t n = 0;

    do {
        uint64_t room;
        uint8_t *ptr = mr_memory_guest(m, guest, &room);

        if (!ptr)
            return 0;
        if (n == max)
            return max + 1;
        room = MR_MIN(room, len);
        seg[n++] = (struct mr_seg){ptr, (uint32_t)room};
        guest += room;
        len -= room;
    } while (len);
    return n;
}
