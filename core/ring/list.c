#include "ring/list.h"

#include <string.h>

#include "ring/fault.h"
#include "ring/packed.h"

static void
list_fail(struct mr_list *list, enum mr_fault fault)
{
    if (!list->fault)
        list->fault = fault;
}

void
mr_list_element(struct mr_ring *ring, const struct mr_desc *desc, bool write,
                struct mr_list *list, struct mr_gather *gather)
{
    uint32_t max = MR_CHAIN_SEGS - gather->n;
    uint32_t n;

    if (!!(desc->flags & MR_DESC_WRITE) != write) {
        list_fail(list, MR_FAULT_DIRECTION); /* S67, P70 */
        return;
    }
    if (!max) {
        list_fail(list, MR_FAULT_SEGMENTS); /* S68, P71 */
        return;
    }
    n = mr_memory_split(ring->memory, desc->addr, desc->len,
                        &gather->seg[gather->n], max);
    if (!n)
        list_fail(list, MR_FAULT_ADDRESS); /* S66, P69 */
    else if (n > max)
        list_fail(list, MR_FAULT_SEGMENTS);
    else
        gather->n += n; /* C16: an empty one too, as the list's bound */
    list->len += desc->len;
}

/* Reads entry i of an indirect table, which may itself cross regions (S27). */
static bool
table_entry(const struct mr_ring *r, uint64_t table, uint32_t i,
            struct mr_desc *desc)
{
    struct mr_seg seg[16];
    MR_ALIGNED(16) uint8_t copy[16];
    uint32_t at = 0;
    uint32_t n;

    n = mr_memory_split(r->memory, table + 16ull * i, sizeof(copy), seg, 16);
    if (!n || n > 16)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        memcpy(copy + at, seg[k].ptr, seg[k].len);
        at += seg[k].len;
    }
    *desc = mr_desc_copy(copy, r->features & MR_F(RING_PACKED));
    return true;
}

/* S21, S26, P29, P32: may this descriptor refer to a table, and how long? */
static uint32_t
table_entries(const struct mr_ring *ring, const struct mr_desc *desc)
{
    if (!(ring->features & MR_F(INDIRECT_DESC)) ||
        desc->flags & MR_DESC_NEXT || desc->len % 16 ||
        desc->len / 16 > ring->size)
        return 0;
    return desc->len / 16;
}

/* Split tables chain by `next` and may use any order (S22). */
static void
walk_split_table(struct mr_ring *ring, const struct mr_desc *at, bool write,
                 struct mr_list *list, struct mr_gather *gather)
{
    uint32_t entries = table_entries(ring, at);
    uint32_t next = 0;
    struct mr_desc d;

    if (!entries) {
        list_fail(list, MR_FAULT_INDIRECT);
        return;
    }
    for (uint32_t seen = 0; !list->fault; seen++) {
        if (next >= entries)
            list_fail(list, MR_FAULT_NEXT); /* S63 */
        else if (seen == entries)
            list_fail(list, MR_FAULT_LOOP); /* S64 */
        else if (!table_entry(ring, at->addr, next, &d))
            list_fail(list, MR_FAULT_ADDRESS);
        else if (d.flags & MR_DESC_INDIRECT)
            list_fail(list, MR_FAULT_INDIRECT); /* S21: nested */
        else {
            mr_list_element(ring, &d, write, list, gather);
            if (!(d.flags & MR_DESC_NEXT))
                return;
            next = d.id;
        }
    }
}

MR_COLD void
mr_list_walk_split(struct mr_ring *ring, struct mr_desc d, bool write,
                   struct mr_list *list, struct mr_gather *gather)
{
    for (uint32_t seen = 1; !list->fault; seen++) {
        if (d.flags & MR_DESC_INDIRECT) { /* S24: ends the chain */
            walk_split_table(ring, &d, write, list, gather);
            return;
        }
        mr_list_element(ring, &d, write, list, gather);
        if (!(d.flags & MR_DESC_NEXT))
            return;
        if (d.id >= ring->size)
            list_fail(list, MR_FAULT_NEXT); /* S63 */
        else if (seen == ring->size)
            list_fail(list, MR_FAULT_LOOP); /* S64 */
        else
            d = mr_desc_copy(&ring->desc.split[d.id], false);
    }
}

/* Packed tables are taken in sequence; only WRITE counts (P30), and only where
 * we would write: DPDK's driver leaves it set on entries of what it sends, and
 * reading those is harmless. */
static void
walk_packed_table(struct mr_ring *ring, const struct mr_desc *at, bool write,
                  struct mr_list *list, struct mr_gather *gather)
{
    uint32_t entries = table_entries(ring, at);
    struct mr_desc d;

    if (!entries)
        list_fail(list, MR_FAULT_INDIRECT); /* P68 */
    for (uint32_t i = 0; i < entries && !list->fault; i++) {
        if (!table_entry(ring, at->addr, i, &d)) {
            list_fail(list, MR_FAULT_ADDRESS);
            return;
        }
        if (!write)
            d.flags &= (uint16_t)~MR_DESC_WRITE;
        mr_list_element(ring, &d, write, list, gather);
    }
}

MR_COLD bool
mr_list_walk_packed(struct mr_ring *ring, struct mr_pos at, struct mr_desc d,
                    bool write, struct mr_list *list, struct mr_gather *gather)
{
    bool single = !(d.flags & MR_DESC_NEXT);

    for (list->ndesc = 1;; list->ndesc++) {
        if (d.flags & MR_DESC_INDIRECT) {
            if (single) /* P29: a table, or a chain, never both */
                walk_packed_table(ring, &d, write, list, gather);
            else
                list_fail(list, MR_FAULT_INDIRECT);
        } else if (!list->fault) {
            mr_list_element(ring, &d, write, list, gather);
        }
        list->id = d.id; /* P11: the last one's counts */
        if (!(d.flags & MR_DESC_NEXT))
            return true;
        mr_packed_advance(ring, &at, 1);
        d = mr_desc_copy(&ring->desc.packed[at.pos], true);
        if (list->ndesc == ring->size ||
            !mr_packed_is_avail(d.flags, at.wrap)) {
            mr_ring_break(ring, MR_FAULT_LIST); /* P66, P67 */
            return false;
        }
    }
}
