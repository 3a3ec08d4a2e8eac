#include "pair/pair.h"

#include <string.h>

#include "base/error.h"

/* Guest addresses that are no host addresses. */
#define GUEST 0x100000000ull

static bool
memory_open(struct pair *pair, const struct pair_setup *s)
{
    struct mr_pool_options options = {s->packets, s->room, 0};
    size_t rings = 2 * (32ull * s->size + 3 * MR_CACHE_LINE +
                        mr_ring_table_bytes(s->size));
    size_t bytes = mr_pool_bytes(s->packets, s->room) + rings + MR_PAGE;
    struct mr_region_spec spec = {.guest = GUEST, .user = GUEST};

    if (mr_arena_open(&pair->arena, bytes))
        return false;
    spec.size = pair->arena.size;
    if (mr_memory_create(&spec, &pair->arena.fd, 1, &pair->memory))
        return false;
    if (s->one_mapping)
        pair->memory->region[0].host = pair->arena.base;
    return !mr_pool_create_in(&pair->arena, &options, &pair->driver.pool) &&
           !mr_pool_create(&options, &pair->device.pool);
}

static bool
queue_start(struct pair_queue *queue, const struct mr_ring_config *config)
{
    struct mr_ring_config c = *config;

    c.counters = &queue->counters;
    if (mr_ring_start(&queue->ring, &c))
        return false;
    queue->fn = mr_burst_select(&queue->ring, &queue->variant);
    return true;
}

/* One virtqueue, from the driver's queue to the device's or back. */
static bool
ring_open(struct pair *pair, const struct pair_setup *s, bool driver_rx)
{
    uint64_t features = s->features | MR_F(VERSION_1);
    bool packed = features & MR_F(RING_PACKED);
    struct pair_side *device = &pair->device;
    struct pair_side *driver = &pair->driver;
    uint8_t *host = pair->memory->region[0].host;
    struct mr_ring_config c = {.features = features,
                               .size = s->size,
                               .base = mr_ring_fresh_base(features),
                               .driver = true,
                               .rx = driver_rx,
                               .delta = (uintptr_t)pair->arena.base - GUEST,
                               .pool = driver->pool,
                               .notify_fd = -1};

    for (int i = 0; i < 3; i++)
        c.part[i] = mr_arena_alloc(
            &pair->arena, mr_ring_part_bytes(packed, true, s->size, i),
            MR_CACHE_LINE);
    c.shadow_tables = mr_arena_alloc(
        &pair->arena, mr_ring_table_bytes(s->size), MR_CACHE_LINE);
    if (!c.shadow_tables)
        return !mr_error_set(-1, "the pair's arena is too small");
    if (!queue_start(driver_rx ? &driver->rx : &driver->tx, &c))
        return false;
    for (int i = 0; i < 3; i++)
        c.part[i] = host + ((uint8_t *)c.part[i] - pair->arena.base);
    c.driver = false;
    c.rx = !driver_rx;
    c.memory = pair->memory;
    c.pool = device->pool;
    return queue_start(driver_rx ? &device->tx : &device->rx, &c);
}

bool
pair_open(struct pair *pair, const struct pair_setup *setup)
{
    *pair = (struct pair){.arena.fd = -1};
    if (!memory_open(pair, setup) || !ring_open(pair, setup, true) ||
        !ring_open(pair, setup, false))
        return false;
    pair_burst(&pair->driver.rx, NULL, 0);
    return true;
}

/* A fault of either kind: both ends are ours. */
static bool
queue_close(struct pair_queue *queue)
{
    mr_ring_stop(&queue->ring);
    for (uint32_t i = 1; i < MR_FAULT_COUNT; i++)
        if (queue->counters.faults[i])
            return !mr_error_set(-1, "a ring met the fault %s",
                                 mr_fault_row(i)->name);
    return true;
}

static bool
side_close(struct pair_side *side)
{
    bool rx = queue_close(&side->rx);
    bool tx = queue_close(&side->tx);
    bool home = !side->pool || !mr_pool_free(side->pool);

    return rx && tx && home;
}

bool
pair_close(struct pair *pair)
{
    bool driver = side_close(&pair->driver);
    bool device = side_close(&pair->device);

    mr_memory_destroy(pair->memory);
    mr_arena_close(&pair->arena);
    return driver && device;
}
