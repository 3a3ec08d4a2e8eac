/* An arena: one memfd that holds what a peer may see, rings and packet bytes
 * and nothing else. It is sealed against shrinking, so the peer cannot take
 * the pages away (V62), and comes in huge pages when the machine has some.
 *
 * Owner: control thread. Allocation only moves forward; an arena is freed as
 * a whole. */
#pragma once

#include "base/attr.h"

struct mr_arena {
    int fd;        /* -1 when not open */
    uint8_t *base; /* NULL when not open */
    size_t size;   /* bytes mapped, a multiple of the page size */
    size_t used;   /* bytes given out */
    bool hugetlb;
};

/* Maps `size` bytes (rounded up to pages), zeroed. Errors: ENOMEM. */
int mr_arena_open(struct mr_arena *arena, size_t size);
/* Unmaps and closes. Allowed on an arena that is not open. */
void mr_arena_close(struct mr_arena *arena);
/* `size` bytes aligned to `align` (a power of two), or NULL when it is full.
 * The memory is zero unless it was written since the arena was opened. */
void *mr_arena_alloc(struct mr_arena *arena, size_t size, size_t align);
