/* Joins a core ring and a peer; see rig.h. Guest space begins with the ring
 * parts, which lie in the first region; buffers follow in the others. */
#include "peer/rig.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

static const uint64_t GUEST = 0x40000000;        /* ring parts */
static const uint64_t GUEST_ARENA = 0x180000000; /* the core's own memory */

enum { SLAB = 2112, PACKETS = 1024, FOREIGN = 600 };

bool
rig_fail(struct rig *rig, const char *fmt, ...)
{
    va_list args;

    if (rig->error[0])
        return false;
    va_start(args, fmt);
    vsnprintf(rig->error, sizeof(rig->error), fmt, args);
    va_end(args);
    return false;
}

uint32_t
rig_random(struct rig *rig, uint32_t n)
{
    rig->random = rig->random * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)((rig->random >> 33) % n);
}

static bool
packed(const struct rig *rig)
{
    return rig->setup.features >> MR_F_RING_PACKED & 1;
}

static uint64_t
part_bytes(const struct rig *rig, int part)
{
    return mr_ring_part_bytes(packed(rig),
                              rig->setup.features >> MR_F_EVENT_IDX & 1,
                              rig->setup.size, part);
}

/* ---- The core as device ------------------------------------------------ */

/* Ring parts as close together as their alignment allows (S2, P2). Returns the
 * bytes that they take. */
static uint64_t
place_parts(struct rig *rig, uint64_t guest)
{
    static const uint8_t align[3] = {16, 4, 4};
    uint64_t at = guest;

    for (int i = 0; i < 3; i++) {
        uint64_t a = i == 1 && !packed(rig) ? 2 : align[i];

        at = (at + a - 1) / a * a;
        rig->part[i] = at;
        at += part_bytes(rig, i);
    }
    return at - guest;
}

/* Data regions that follow each other without a gap; with `crossing` their
 * borders run through the first slabs at every interesting place: in the
 * header, twice, behind it, in the middle, in and between table entries. */
static uint32_t
data_regions(const struct rig *rig, struct peer_region *region)
{
    const struct rig_setup *s = &rig->setup;
    uint64_t end = rig->slabs_guest + (uint64_t)s->slab * s->slabs;
    const uint64_t border[] = {5, 20, s->slab + 40ull,
                               s->slab * 2ull + s->slab / 2,
                               s->slab * 4ull - 24, s->slab * 5ull - 16};
    uint64_t at = rig->slabs_guest;
    uint32_t n = 0;

    for (uint32_t i = 0; s->crossing && i < MR_COUNT_OF(border); i++) {
        uint64_t to = rig->slabs_guest + border[i];

        if (to >= end)
            break;
        region[n++] = (struct peer_region){.guest = at, .size = to - at};
        at = to;
    }
    region[n++] = (struct peer_region){.guest = at, .size = end - at};
    return n;
}

static bool
open_device(struct rig *rig)
{
    struct peer_region region[PEER_REGIONS];
    struct mr_region_spec spec[PEER_REGIONS];
    int fds[PEER_REGIONS];
    uint64_t bytes = place_parts(rig, GUEST);
    uint32_t n;

    region[0] = (struct peer_region){.guest = GUEST, .size = bytes};
    rig->slabs_guest = (GUEST + bytes + 63) / 64 * 64;
    n = 1 + data_regions(rig, region + 1);
    if (!peer_memory_create(&rig->guest, region, n))
        return rig_fail(rig, "rig: no guest memory");
    for (uint32_t i = 0; i < n; i++) {
        const struct peer_region *r = &rig->guest.region[i];

        spec[i] = (struct mr_region_spec){r->guest, r->size, r->user,
                                          r->offset};
        fds[i] = rig->guest.fd;
    }
    if (mr_memory_create(spec, fds, n, &rig->memory))
        return rig_fail(rig, "rig: %s", mr_error_text());
    rig->config.memory = rig->memory;
    for (int i = 0; i < 3; i++)
        rig->config.part[i] = mr_memory_user(
            rig->memory, rig->part[i] - GUEST + spec[0].user,
            part_bytes(rig, i));
    return true;
}

/* ---- The core as driver ------------------------------------------------ */

static bool
open_driver(struct rig *rig)
{
    const struct rig_setup *s = &rig->setup;
    size_t bytes = mr_ring_table_bytes(s->size) +
                   mr_pool_bytes(s->packets, s->room) + 4096;

    for (int i = 0; i < 3; i++)
        bytes += part_bytes(rig, i) + 64;
    if (mr_arena_open(&rig->arena, bytes))
        return rig_fail(rig, "rig: %s", mr_error_text());
    for (int i = 0; i < 3; i++)
        rig->config.part[i] = mr_arena_alloc(&rig->arena, part_bytes(rig, i),
                                             16);
    rig->config.shadow_tables =
        mr_arena_alloc(&rig->arena, mr_ring_table_bytes(s->size), 16);
    rig->config.delta = (uintptr_t)rig->arena.base - GUEST_ARENA;
    for (int i = 0; i < 3; i++)
        rig->part[i] = (uintptr_t)rig->config.part[i] - rig->config.delta;
    if (!peer_memory_attach(&rig->guest, rig->arena.fd, rig->arena.size,
                            GUEST_ARENA))
        return rig_fail(rig, "rig: cannot map the arena again");
    return true;
}

/* ---- Both -------------------------------------------------------------- */

static bool
open_pools(struct rig *rig)
{
    const struct rig_setup *s = &rig->setup;
    struct mr_pool_options o = {.packets = s->packets, .size = s->room};
    struct mr_pool_options other = {.packets = FOREIGN, .size = 1024};

    if (mr_pool_create_in(s->driver ? &rig->arena : NULL, &o, &rig->pool) ||
        mr_pool_create(&other, &rig->foreign))
        return rig_fail(rig, "rig: %s", mr_error_text());
    return true;
}

static void
defaults(struct rig *rig)
{
    struct rig_setup *s = &rig->setup;

    s->room = s->room ? s->room : 2048;
    s->packets = s->packets ? s->packets : PACKETS;
    s->slab = s->slab ? s->slab : SLAB;
    s->slabs = s->slabs ? s->slabs : s->size;
    if (!s->base && packed(rig))
        s->base = 0x80008000; /* B2 */
}

static bool
start(struct rig *rig)
{
    const struct rig_setup *s = &rig->setup;
    struct mr_ring_config *c = &rig->config;
    struct peer_setup peer = {
        .memory = &rig->guest,
        .driver = !s->driver,
        .to_driver = s->driver == s->rx,
        .features = s->features,
        .size = s->size,
        .base = s->base,
        .guest = {rig->part[0], rig->part[1], rig->part[2]},
    };

    if (!peer_start(&rig->peer, &peer))
        return rig_fail(rig, "rig: no memory for the peer");
    if (rig->peer.driver &&
        !peer_slabs_set(&rig->peer, rig->slabs_guest, s->slab, s->slabs))
        return rig_fail(rig, "rig: no memory for slabs");
    c->features = s->features;
    c->size = s->size;
    c->base = s->base;
    c->driver = s->driver;
    c->rx = s->rx;
    c->pool = rig->pool;
    c->counters = &rig->counters;
    c->notify_fd = rig->event;
    if (mr_ring_start(&rig->ring, c))
        return rig_fail(rig, "rig: %s", mr_error_text());
    rig->burst = mr_burst_select(&rig->ring, &rig->variant);
    return true;
}

bool
rig_open(struct rig *rig, const struct rig_setup *setup)
{
    memset(rig, 0, sizeof(*rig));
    rig->setup = *setup;
    rig->guest.fd = -1;
    rig->arena.fd = -1;
    rig->random = 0x853c49e6748fea9b;
    rig->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    defaults(rig);
    return (setup->driver ? open_driver(rig) : open_device(rig)) &&
           open_pools(rig) && start(rig);
}

static void
close_pool(struct rig *rig, struct mr_pool *pool, const char *name)
{
    if (pool && mr_pool_free(pool))
        rig_fail(rig, "%s: %s", name, mr_error_text());
}

static void
close_other(struct rig *rig)
{
    if (rig->other && !rig_close(rig->other))
        rig_fail(rig, "splice: %s", rig->other->error);
    free(rig->other);
}

bool
rig_close(struct rig *rig)
{
    close_other(rig);
    mr_ring_stop(&rig->ring);
    if (!rig->torn && rig->guest.map && !peer_memory_intact(&rig->guest))
        rig_fail(rig, "the core wrote between the regions");
    close_pool(rig, rig->pool, "pool");
    close_pool(rig, rig->foreign, "foreign pool");
    peer_stop(&rig->peer);
    mr_memory_destroy(rig->memory);
    peer_memory_close(&rig->guest);
    mr_arena_close(&rig->arena);
    if (rig->event >= 0)
        close(rig->event);
    free(rig->snapshot);
    return !rig->error[0];
}

uint32_t
rig_notified(struct rig *rig)
{
    uint64_t n = 0;

    return read(rig->event, &n, sizeof(n)) == sizeof(n) ? (uint32_t)n : 0;
}

/* ---- Writes outside ---------------------------------------------------- */

void
rig_seal(struct rig *rig)
{
    free(rig->snapshot);
    rig->snapshot = malloc(rig->guest.size);
    if (rig->snapshot)
        memcpy(rig->snapshot, rig->guest.map, rig->guest.size);
}

/* Is the byte at `offset` of the file one that the device may write? */
static bool
writable(const struct rig *rig, uint64_t offset, bool buffers)
{
    for (uint32_t i = 0; i < rig->guest.n; i++) {
        const struct peer_region *r = &rig->guest.region[i];
        uint64_t guest = offset - r->offset + r->guest;

        if (offset - r->offset >= r->size)
            continue;
        if (i > 0)
            return buffers;
        return guest - rig->part[2] < part_bytes(rig, 2) ||
               (packed(rig) && guest - rig->part[0] < part_bytes(rig, 0));
    }
    return false;
}

bool
rig_seal_check(struct rig *rig, bool buffers)
{
    for (uint64_t i = 0; i < rig->guest.size; i++)
        if (rig->guest.map[i] != rig->snapshot[i] &&
            !writable(rig, i, buffers))
            return rig_fail(rig, "the core wrote byte %#lx of the file", i);
    return true;
}
