/* The rig: one core ring, on either side and in either direction, joined to a
 * peer at the other end, with everything in between: a file of guest memory
 * that both map on their own, a packet pool, an eventfd, counters.
 *
 * Owner: one thread. Only the rig knows both ends; the peer sees nothing of
 * the core and the core nothing of the peer. */
#pragma once

#include <stdio.h>

#include "mem/arena.h"
#include "mem/memory.h"
#include "mem/packet.h"
#include "peer/peer.h"
#include "ring/ring.h"

struct rig_setup {
    uint64_t features;
    uint32_t size;
    uint32_t base;     /* SET_VRING_BASE value; 0 = fresh for the layout */
    bool driver;       /* the core's side */
    bool rx;           /* into Moonring */
    uint32_t room;     /* data bytes of the pool's buffers: 0 = 2048 */
    uint32_t packets;  /* of the pool: 0 = 1024 */
    uint32_t slab;     /* peer as driver: bytes of one buffer: 0 = 2112 */
    uint32_t slabs;    /* and how many: 0 = as many as ring entries */
    bool crossing;     /* region borders run through the first slabs */
};

struct rig {
    struct rig_setup setup;
    struct peer_memory guest; /* the peer's view */
    struct peer peer;
    struct mr_memory *memory; /* the core's view; device side */
    struct mr_arena arena;    /* the core's own; driver side */
    struct mr_pool *pool;
    struct mr_pool *foreign;  /* a pool that the peer cannot reach */
    struct mr_ring ring;
    struct mr_ring_config config;
    struct mr_counters counters;
    mr_burst_fn burst;
    struct rig *other;        /* rig_splice: the other end of each burst */
    const char *variant;
    bool torn;                /* the test took the memory away: no last look */
    int event;                /* eventfd that the core notifies */
    uint64_t part[3];         /* guest addresses of the ring parts */
    uint64_t slabs_guest;
    uint64_t random;
    uint8_t *snapshot;        /* rig_seal */
    char error[256];
};

/* Sets both ends up and starts them. False, with rig->error, when something
 * refuses; rig_close is then still to be called. */
bool rig_open(struct rig *rig, const struct rig_setup *setup);
/* Ends the core's ring and checks that every packet is home and that nothing
 * was written between the regions; then frees all. False, with rig->error,
 * otherwise. */
bool rig_close(struct rig *rig);
/* From now on the rig's burst function is a splice to or from a rig of its own
 * with these features, whose peer behaves; device side. One mr_splice a burst,
 * of up to 256 packets. */
bool rig_splice(struct rig *rig, uint64_t features);
/* Keeps the first error; returns false. */
bool rig_fail(struct rig *rig, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Notifications that the core sent since the last call. */
uint32_t rig_notified(struct rig *rig);
uint32_t rig_random(struct rig *rig, uint32_t n);

/* Remembers all of guest memory; the check then tells whether the core changed
 * a byte outside the device's own ring part and, with `buffers`, outside the
 * memory of buffers. Peer as driver only. */
void rig_seal(struct rig *rig);
bool rig_seal_check(struct rig *rig, bool buffers);

/* ---- Frames (frame.c) -------------------------------------------------- */

/* Frame number `seq` of a seeded pattern, `len` bytes. */
void frame_fill(uint8_t *frame, uint32_t len, uint32_t seq);
/* Is this that frame? */
bool frame_same(const uint8_t *frame, uint32_t len, uint32_t seq);
/* A length for frame `seq`: 14, 60, 64, 1514, 9000, 65535 and any in between,
 * at most `max`. */
uint32_t frame_length(uint32_t seq, uint32_t max);
/* A packet that holds the frame, in as many segments as it takes; NULL when
 * the pool is short. */
struct mr_pkt *frame_packet(struct mr_pool *pool, uint32_t len, uint32_t seq);
/* Checks a received packet's fields and bytes. */
bool frame_packet_same(const struct mr_pkt *pkt, uint32_t len, uint32_t seq);
