/* Copies between a packet (a chain of segments) and the host pieces of guest
 * buffers. The burst functions copy the common case, one piece each, inline;
 * these serve the rest. */
#pragma once

#include "mem/packet.h"
#include "ring/list.h"

/* A place in a sequence of pieces. */
struct mr_cursor {
    const struct mr_seg *seg;
    uint32_t left; /* pieces from seg on */
    uint32_t at;   /* bytes of *seg that are done */
};

/* Copies `len` bytes to / from the pieces and moves on. False when the pieces
 * end before; what fitted is copied. */
bool mr_cursor_write(struct mr_cursor *to, const void *from, uint32_t len);
bool mr_cursor_read(struct mr_cursor *from, void *to, uint32_t len);
/* Copies `len` bytes from pieces to pieces, which both have them, and moves
 * both on. Where they overlap the result is any bytes. */
void mr_cursor_pass(struct mr_cursor *to, struct mr_cursor *from, uint32_t len);
