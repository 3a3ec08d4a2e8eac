/* Guest memory of the peer: a file, our own mapping of the whole of it, and
 * the regions that the other end is told about. Neighbours in guest space lie
 * apart in the file, so a buffer that crosses from one region into the next
 * is in pieces for everyone. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peer/peer.h"

enum { PAGE = 4096, MOAT = 192 };

static const uint64_t USER = 0x7e0000000000; /* user address of guest 0 */

static uint64_t
round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* The first region, which holds the rings, starts on a page; the others at
 * any byte whose low four bits agree with the guest address, so that alignment
 * means the same to both ends. Between them is a moat that nobody may touch. */
static void
lay_out(struct peer_memory *m)
{
    uint64_t at = 0;

    for (uint32_t i = m->n; i-- > 0;) {
        struct peer_region *r = &m->region[i];

        at = round_up(at + MOAT, i == 0 ? PAGE : 64) + r->guest % 16;
        r->offset = at;
        r->user = r->guest + USER + i * (1ull << 40);
        at += r->size;
    }
    m->size = round_up(at + MOAT, PAGE);
}

/* The moats lie before each region and behind the first, which is the last. */
static uint8_t *
moat(const struct peer_memory *m, uint32_t i)
{
    return i < m->n ? m->map + m->region[i].offset - MOAT
                    : m->map + m->region[0].offset + m->region[0].size;
}

bool
peer_memory_intact(const struct peer_memory *m)
{
    for (uint32_t i = 0; m->moats && i <= m->n; i++) {
        const uint8_t *at = moat(m, i);

        for (int k = 0; k < MOAT; k++)
            if (at[k] != PEER_CANARY)
                return false;
    }
    return true;
}

static bool
map_file(struct peer_memory *m)
{
    m->map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (m->map != MAP_FAILED)
        return true;
    m->map = NULL;
    peer_memory_close(m);
    return false;
}

bool
peer_memory_create(struct peer_memory *m, const struct peer_region *regions,
                   uint32_t n)
{
    memset(m, 0, sizeof(*m));
    m->n = n;
    memcpy(m->region, regions, n * sizeof(*regions));
    lay_out(m);
    m->fd = memfd_create("peer", MFD_CLOEXEC);
    if (m->fd < 0)
        return false;
    if (ftruncate(m->fd, (off_t)m->size)) {
        peer_memory_close(m);
        return false;
    }
    if (!map_file(m))
        return false;
    m->moats = true;
    for (uint32_t i = 0; i <= n; i++)
        memset(moat(m, i), PEER_CANARY, MOAT);
    return true;
}

bool
peer_memory_attach(struct peer_memory *m, int fd, size_t size, uint64_t guest)
{
    memset(m, 0, sizeof(*m));
    m->n = 1;
    m->region[0] = (struct peer_region){.guest = guest, .size = size};
    m->size = size;
    m->fd = dup(fd);
    return m->fd >= 0 && map_file(m);
}

void
peer_memory_close(struct peer_memory *m)
{
    if (m->map)
        munmap(m->map, m->size);
    if (m->fd >= 0)
        close(m->fd);
    m->map = NULL;
    m->fd = -1;
}

uint8_t *
peer_memory_at(const struct peer_memory *m, uint64_t guest, uint64_t *room)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct peer_region *r = &m->region[i];

        if (guest < r->guest || guest - r->guest >= r->size)
            continue;
        *room = r->size - (guest - r->guest);
        return m->map + r->offset + (guest - r->guest);
    }
    return NULL;
}

/* Calls for each piece with our address: exactly one of out, in is set, or
 * neither to fill. */
static bool
each_piece(const struct peer_memory *m, uint64_t guest, uint64_t len, void *out,
           const void *in, int byte)
{
    uint64_t at = 0;

    while (at < len) {
        uint64_t room;
        uint8_t *ptr = peer_memory_at(m, guest + at, &room);

        if (!ptr)
            return false;
        if (room > len - at)
            room = len - at;
        if (out)
            memcpy((uint8_t *)out + at, ptr, room);
        else if (in)
            memcpy(ptr, (const uint8_t *)in + at, room);
        else
            memset(ptr, byte, room);
        at += room;
    }
    return true;
}

bool
peer_memory_read(const struct peer_memory *m, uint64_t guest, void *out,
                 uint64_t len)
{
    return each_piece(m, guest, len, out, NULL, 0);
}

bool
peer_memory_write(const struct peer_memory *m, uint64_t guest, const void *in,
                  uint64_t len)
{
    return each_piece(m, guest, len, NULL, in, 0);
}

bool
peer_memory_fill(const struct peer_memory *m, uint64_t guest, uint8_t byte,
                 uint64_t len)
{
    return each_piece(m, guest, len, NULL, NULL, byte);
}
