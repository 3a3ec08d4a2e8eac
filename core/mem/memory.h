/* Guest memory, as the device side sees it: the regions that a vhost-user
 * peer shared, mapped here, and the checked translation of its addresses.
 *
 * A table is built by the control thread, never changed while a queue uses
 * it, and replaced as a whole behind the gates (V63). Workers only translate.
 *
 * Invariants: regions overlap neither in guest nor in user space (V61); every
 * region is mapped over its full size and its file covers it (V60). A file
 * that shrinks later raises SIGBUS: the handler in mem/guard.c puts a zero
 * page there and marks the table lost (V62). */
#pragma once

#include "base/atomic.h"
#include "base/attr.h"

enum { MR_MEMORY_REGIONS = 8 };

/* What a region message says; also what our driver side sends. */
struct mr_region_spec {
    uint64_t guest;  /* address in descriptors */
    uint64_t size;   /* bytes */
    uint64_t user;   /* address in ring messages */
    uint64_t offset; /* of the region in its file */
};

/* The half that a burst reads. */
struct mr_region {
    uint64_t guest;
    uint64_t size;
    uint8_t *host;
};

struct mr_memory {
    uint32_t n;
    uint32_t lost; /* set by the SIGBUS handler, read by the control thread */
    struct mr_region region[MR_MEMORY_REGIONS];
    /* Control half. */
    struct {
        uint64_t user;
        void *map;
        size_t map_size;
    } origin[MR_MEMORY_REGIONS];
    uint32_t holders; /* beside who created it */
};

/* One piece of host memory. */
struct mr_seg {
    uint8_t *ptr;
    uint32_t len;
};

/* Builds a table from n specs and as many fds. The fds stay the caller's (they
 * can be closed afterwards). Errors, with the table unchanged: EINVAL (V60,
 * V61, V128, V129), ENOMEM. *memory belongs to the caller. */
int mr_memory_create(const struct mr_region_spec *spec, const int *fds,
                     uint32_t n, struct mr_memory **memory);
/* One holder more, beside who created it: packets may refer to its bytes. */
void mr_memory_hold(struct mr_memory *memory);
/* One holder less; without any, everything is unmapped. NULL is allowed. */
void mr_memory_destroy(struct mr_memory *memory);

/* Host address of user address `user` when all of its `len` bytes lie in one
 * region (V68), else NULL. Control thread. */
void *mr_memory_user(const struct mr_memory *memory, uint64_t user,
                     uint64_t len);

/* Copies the region that guest address `guest` lies in; false, and *region as
 * it was, when there is none. */
bool mr_memory_find(const struct mr_memory *memory, uint64_t guest,
                    struct mr_region *region);

/* Host address of guest address `guest` and in *len how many contiguous bytes
 * follow (to the region's end), NULL when it lies in none (V69, C12). */
MR_INLINE uint8_t *
mr_memory_guest(const struct mr_memory *m, uint64_t guest, uint64_t *len)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct mr_region *r = &m->region[i];
        uint64_t at = guest - r->guest;

        if (at < r->size) {
            *len = r->size - at;
            return r->host + at;
        }
    }
    return NULL;
}

/* Splits [guest, guest + len) into host pieces, crossing into adjacent regions
 * where it must (C13). Returns the number of pieces, 0 when part of it lies
 * outside, or max + 1 when more than `max` pieces would be needed. A length of
 * zero gives no piece but must have a valid address: returns 0 then only for a
 * bad address, else 1 with an empty piece (T13e). */
uint32_t mr_memory_split(const struct mr_memory *m, uint64_t guest,
                         uint64_t len, struct mr_seg *seg, uint32_t max);
