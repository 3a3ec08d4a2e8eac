/* The pair: our device side and our driver side on the two virtqueues of one
 * network device, in one process and without sockets. Each side has a packet
 * pool of its own; the driver's bytes and the rings lie in an arena, which the
 * device sees through a mapping of its own, as behind a socket.
 *
 *   driver.tx -> device.rx        device.tx -> driver.rx
 *
 * Owner: the thread that opens it; then one thread a side may use that side.
 * Nobody is woken: both sides have to poll. */
#pragma once

#include "mem/arena.h"
#include "mem/memory.h"
#include "mem/packet.h"
#include "ring/ring.h"

struct pair_setup {
    uint64_t features; /* VERSION_1 comes with every pair */
    uint32_t size;     /* ring entries */
    uint32_t packets;  /* of each side's pool */
    uint32_t room;     /* data bytes of a packet buffer, both pools */
    bool one_mapping;  /* the device uses the driver's mapping: a race detector
                        * then knows that both touch the same bytes */
};

/* One direction of a side: fn(&ring, pkts, n). */
struct pair_queue {
    struct mr_ring ring;
    mr_burst_fn fn;
    const char *variant;
    struct mr_counters counters;
};

struct pair_side {
    struct mr_pool *pool;
    struct pair_queue rx, tx;
};

struct pair {
    struct mr_arena arena;
    struct mr_memory *memory;
    struct pair_side device, driver;
};

/* Starts both sides, with the driver's receive buffers posted. False, with
 * mr_error_text set, when something refuses; pair_close is then still to be
 * called. The EAL runs. */
bool pair_open(struct pair *pair, const struct pair_setup *setup);
/* Ends both sides. False, with mr_error_text set, when a packet is missing or
 * a ring met a fault. */
bool pair_close(struct pair *pair);

MR_INLINE uint32_t
pair_burst(struct pair_queue *queue, struct mr_pkt **pkts, uint32_t n)
{
    return queue->fn(&queue->ring, pkts, n);
}
