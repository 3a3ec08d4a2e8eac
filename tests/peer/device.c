/* The peer as the device: takes buffers, completes them in any order, and
 * checks how the driver laid them out. */
#include <stdlib.h>
#include <string.h>

#include "peer/peer.h"

static bool
feature(const struct peer *p, int bit)
{
    return p->features >> bit & 1;
}

/* C2, N3, C12. */
int
peer_part_add(struct peer *p, struct peer_list *list, uint64_t addr,
              uint32_t len, uint16_t flags)
{
    bool write = flags & MR_DESC_WRITE;
    uint64_t at = addr, room;

    if (list->n == PEER_PARTS)
        return peer_fail(p, "S28: more than %d parts", PEER_PARTS);
    if (list->n && list->part[list->n - 1].write && !write)
        return peer_fail(p, "C2: readable part %u after a writable one",
                         list->n);
    if (write != p->to_driver)
        return peer_fail(p, "N3: part %u is %s", list->n,
                         write ? "writable" : "readable");
    while (at - addr < len) {
        if (!peer_memory_at(p->memory, at, &room))
            return peer_fail(p, "C12: part %#lx+%u lies outside", addr, len);
        at += room;
    }
    list->part[list->n++] = (struct peer_part){addr, len, write};
    return 0;
}

/* S9, S21, S22, S25 for entry i of n; P30: only WRITE has a meaning. */
static int
table_entry(struct peer *p, struct peer_list *list, uint64_t table,
            uint32_t *i, uint32_t n)
{
    struct mr_split_desc d;
    struct mr_packed_desc packed;

    if (p->packed) {
        peer_memory_read(p->memory, table + 16 * *i, &packed, 16);
        ++*i;
        return peer_part_add(p, list, packed.addr, packed.len,
                             packed.flags & MR_DESC_WRITE);
    }
    peer_memory_read(p->memory, table + 16 * *i, &d, 16);
    if (d.flags & ~(MR_DESC_NEXT | MR_DESC_WRITE))
        return peer_fail(p, "S9 S21: flags %#x in a table", d.flags);
    if ((d.flags & MR_DESC_NEXT) && d.next >= n)
        return peer_fail(p, "S22: next %u in a table of %u", d.next, n);
    if ((d.flags & MR_DESC_NEXT) && feature(p, MR_F_IN_ORDER) &&
        d.next != *i + 1)
        return peer_fail(p, "S39: entry %u of a table goes on at %u", *i,
                         d.next);
    *i = d.flags & MR_DESC_NEXT ? d.next : n;
    return peer_part_add(p, list, d.addr, d.len, d.flags);
}

/* S21, S26, P32. */
int
peer_table_add(struct peer *p, struct peer_list *list, uint64_t table,
               uint32_t len)
{
    uint32_t n = len / 16, i = 0, steps = 0;
    uint8_t byte;

    if (!feature(p, MR_F_INDIRECT_DESC))
        return peer_fail(p, "S21: indirect table without the feature");
    if (len == 0 || len % 16)
        return peer_fail(p, "S26 P32: indirect table of %u bytes", len);
    if (p->packed ? n >= p->size && p->size > 1 : n > p->size)
        return peer_fail(p, "S26 P32: table of %u entries, ring %u", n,
                         p->size);
    if (!peer_memory_read(p->memory, table, &byte, 1) ||
        !peer_memory_read(p->memory, table + len - 1, &byte, 1))
        return peer_fail(p, "C12: indirect table %#lx lies outside", table);
    while (i < n) {
        if (steps++ == n)
            return peer_fail(p, "S10: loop in an indirect table");
        if (table_entry(p, list, table, &i, n))
            return -1;
    }
    return 0;
}

/* S6, S10, P12, P16. */
int
peer_record_add(struct peer *p, uint16_t id, const struct peer_list *list,
                uint16_t at, uint32_t ndesc)
{
    size_t bytes = list->n * sizeof(*list->part);
    struct peer_record *r;

    if (id >= p->size)
        return peer_fail(p, "P11 P16: buffer id %u in a ring of %u", id,
                         p->size);
    r = &p->record[id];
    if (r->out)
        return peer_fail(p, "P15: id %u is outstanding already", id);
    if (p->ndesc + ndesc > p->size)
        return peer_fail(p, "S6 P12: %u descriptors outstanding of %u",
                         p->ndesc + ndesc, p->size);
    free(r->part);
    r->part = malloc(bytes);
    if (!r->part)
        return peer_fail(p, "peer: no memory");
    memcpy(r->part, list->part, bytes);
    r->n = list->n;
    r->at = at;
    r->ndesc = (uint16_t)ndesc;
    r->readable = peer_list_bytes(list, false);
    r->writable = peer_list_bytes(list, true);
    r->out = true;
    p->ndesc += ndesc;
    p->queue[p->queue_tail++ % p->size] = id;
    return 0;
}

int
peer_take(struct peer *p, struct peer_list *list, uint16_t *id)
{
    list->n = 0;
    return p->error[0] ? -1 : p->layout->take(p, list, id);
}

/* Takes an id out of the queue; those before it move up. */
static void
queue_remove(struct peer *p, uint16_t id)
{
    uint64_t at = p->queue_head;

    while (p->queue[at % p->size] != id)
        at++;
    for (; at > p->queue_head; at--)
        p->queue[at % p->size] = p->queue[(at - 1) % p->size];
    p->queue_head++;
    p->record[id].out = false;
    p->ndesc -= p->record[id].ndesc;
}

/* S16, P20-P22; N37, P24: of a group the first entry is written last. */
void
peer_complete(struct peer *p, const uint16_t *ids, const uint32_t *lens,
              uint32_t n)
{
    struct peer_pos end = p->used, at;

    for (uint32_t i = 0; i < n; i++) {
        p->layout->forget(p, ids[i]);
        queue_remove(p, ids[i]);
        p->layout->advance(p, &end, p->packed ? p->record[ids[i]].ndesc : 1);
    }
    for (uint32_t i = n; i-- > 0;) {
        at = p->used;
        for (uint32_t j = 0; j < i; j++)
            p->layout->advance(p, &at,
                               p->packed ? p->record[ids[j]].ndesc : 1);
        p->layout->write_used(p, at, ids[i], lens[i]);
    }
    p->used = end;
    p->layout->publish(p);
}

/* S40, P44: one entry, of the last buffer, where the first one's belongs. */
void
peer_complete_batch(struct peer *p, uint32_t n, uint32_t len)
{
    struct peer_pos first = p->used;
    uint16_t id = 0;

    for (uint32_t i = 0; i < n; i++) {
        id = p->queue[p->queue_head % p->size];
        p->layout->forget(p, id);
        queue_remove(p, id);
        p->layout->advance(p, &p->used, p->packed ? p->record[id].ndesc : 1);
    }
    p->layout->write_used(p, first, id, len);
    p->layout->publish(p);
}
