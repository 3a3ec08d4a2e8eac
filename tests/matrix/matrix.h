/* The matrix: every variant of every burst function, against the slow peer,
 * in every shape that buffers may have.
 *
 * A cell is one point: what was negotiated, the ring's size, the packets a
 * burst, the shape. cells.c holds the lists and enumerates them; flow.c runs
 * one cell: packets of a seeded pattern through the ring until it wrapped
 * three times, every rule checked by the peer, every notification foretold,
 * the pool whole again at the end; main.c chooses cells and counts. */
#pragma once

#include "peer/rig.h"

/* What a row of the shape list asks for. */
enum {
    SHAPE_DEVICE = 1 << 0,    /* applies when the core is the device */
    SHAPE_DRIVER = 1 << 1,    /* ... the driver */
    SHAPE_INDIRECT = 1 << 2,  /* negotiates INDIRECT_DESC */
    SHAPE_MIXED = 1 << 3,     /* peer: each buffer in a form of its own */
    SHAPE_CROSSING = 1 << 4,  /* region borders run through buffers */
    SHAPE_SHUFFLE = 1 << 5,   /* peer: ids, or completions, in any order */
    SHAPE_SPANS = 1 << 6,     /* small receive buffers: packets span many */
    SHAPE_LEGACY = 1 << 7,    /* split: no VERSION_1 */
    SHAPE_ANY_LAYOUT = 1 << 8,
    SHAPE_BATCH = 1 << 9,     /* peer: in-order batches in one used entry */
    SHAPE_FOREIGN = 1 << 10,  /* core: packets that cannot be sent in place */
    SHAPE_PARTIAL = 1 << 11,  /* peer: offers or completes a part only */
    SHAPE_LARGE = 1 << 12,    /* also on rings of 32768 */
    SHAPE_TO_DRIVER = 1 << 13, /* only where packets go to the driver */
    SHAPE_SPLIT = 1 << 14,    /* split rings only */
};

struct shape {
    const char *name;
    uint32_t flags;
    struct peer_shape peer; /* core as device: how the peer lays buffers */
    uint32_t room; /* core: data bytes of its buffers; 0 = 2048 */
    uint32_t max;  /* longest frame */
};

struct cell {
    const struct shape *shape;
    bool packed, mergeable, in_order, platform;
    bool driver, rx; /* the core's side and direction */
    bool spliced;    /* device: it is one end of a splice */
    uint32_t size;
    uint32_t count;
    enum peer_notify notify;
    bool event_idx;
};

/* Calls `fn` for every cell, in one order for ever; all = false leaves out the
 * long ones. */
void cells_each(void (*fn)(const struct cell *cell, void *arg), void *arg,
                bool all);
/* "packed-mrg device rx, size 5, 3 a burst, chains, loud" */
void cell_name(const struct cell *cell, char *out, size_t size);
/* Runs a cell: packets that crossed, 0 with the reason in `why` if it failed.
 */
uint32_t cell_run(const struct cell *cell, char *why, size_t size);
