/* Device side: one list of descriptors, resolved to host memory.
 *
 * The common case, one direct descriptor inside one region, is inline in
 * split.h and packed.h. Everything else (chains, indirect tables, buffers that
 * cross regions) is here, out of line. A descriptor is copied once into a
 * local struct mr_desc and never looked at again (C11). */
#pragma once

#include "ring/ring.h"

/* Local copy of a descriptor, whatever the layout. */
struct mr_desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags;
    uint16_t id; /* packed: id; split: next */
};

/* A list as the device consumes it. */
struct mr_list {
    uint16_t id;    /* to report as used */
    uint16_t ndesc; /* ring entries it takes: split 1, packed its length */
    uint32_t fault; /* MR_FAULT_NONE, or why it must be given back unused */
    uint64_t len;   /* bytes of all its elements */
};

/* Host pieces of one list, or of several that hold one packet. */
struct mr_gather {
    uint32_t n;
    struct mr_seg seg[MR_CHAIN_SEGS];
};

/* A descriptor from its two halves: the address, and what lies behind it. */
MR_INLINE struct mr_desc
mr_desc_of(uint64_t addr, uint64_t word, bool packed)
{
    uint16_t third = (uint16_t)(word >> 32);
    uint16_t fourth = (uint16_t)(word >> 48);

    return (struct mr_desc){addr, (uint32_t)word, packed ? fourth : third,
                            packed ? third : fourth};
}

/* Copies a descriptor of either layout out of shared memory in two loads. */
MR_INLINE struct mr_desc
mr_desc_copy(const void *shared, bool packed)
{
    const uint64_t *half = shared;

    return mr_desc_of(mr_load(&half[0]), mr_load(&half[1]), packed);
}

/* Appends the element's bytes to the pieces; sets list->fault otherwise
 * (ADDRESS, DIRECTION, SEGMENTS). `write` = what the queue's direction wants.
 */
void mr_list_element(struct mr_ring *ring, const struct mr_desc *desc,
                     bool write, struct mr_list *list,
                     struct mr_gather *gather);
/* Walks the rest of a split chain from `head`, whose copy is `desc` (S21-S28).
 */
void mr_list_walk_split(struct mr_ring *ring, struct mr_desc desc, bool write,
                        struct mr_list *list, struct mr_gather *gather);
/* Walks a packed list whose head at `at` is `desc`; sets ndesc and id even for
 * a list with a fault (P71). False = the ring broke (P66, P67). */
bool mr_list_walk_packed(struct mr_ring *ring, struct mr_pos at,
                         struct mr_desc desc, bool write, struct mr_list *list,
                         struct mr_gather *gather);
