/* The peer as the driver: offers buffers, takes them back, and checks what the
 * device wrote. */
#include <stdlib.h>
#include <string.h>

#include "peer/peer.h"

uint32_t
peer_offer_descs(const struct peer_list *list, enum peer_form form)
{
    switch (form) {
    case PEER_TABLE:
        return 1;
    case PEER_TAIL_TABLE:
        return list->n > 1 ? 2 : 1;
    default:
        return list->n;
    }
}

static struct mr_split_desc
descriptor(const struct peer_part *part)
{
    return (struct mr_split_desc){part->addr, part->len,
                                  part->write ? MR_DESC_WRITE : 0, 0};
}

/* Writes the parts from `first` on as a table (S22, P30) and returns the
 * descriptor that refers to it. WRITE in that one means nothing (S23, P31). */
static struct mr_split_desc
table(struct peer *p, const struct peer_list *list, uint32_t first,
      uint64_t guest)
{
    uint32_t n = list->n - first;
    uint16_t noise = peer_random(p, 4) ? 0 : MR_DESC_WRITE;

    for (uint32_t i = 0; i < n; i++) {
        struct mr_split_desc d = descriptor(&list->part[first + i]);

        if (!p->packed && i + 1 < n) {
            d.flags |= MR_DESC_NEXT;
            d.next = (uint16_t)(i + 1);
        }
        if (p->packed) /* struct mr_packed_desc: id, then flags */
            d = (struct mr_split_desc){d.addr, d.len, 0, d.flags};
        if (!peer_memory_write(p->memory, guest + 16 * i, &d, 16))
            peer_fail(p, "peer: table at %#lx is outside memory", guest);
    }
    return (struct mr_split_desc){guest, 16 * n, MR_DESC_INDIRECT | noise, 0};
}

static void
record(struct peer *p, uint16_t id, const struct peer_list *list)
{
    struct peer_record *r = &p->record[id];
    size_t bytes = list->n * sizeof(*list->part);
    struct peer_part *part = realloc(r->part, bytes);

    if (!part) {
        peer_fail(p, "peer: no memory");
        return;
    }
    memcpy(part, list->part, bytes);
    r->part = part;
    r->n = list->n;
    r->readable = peer_list_bytes(list, false);
    r->writable = peer_list_bytes(list, true);
    r->out = true;
    r->order = p->queue_tail;
    p->queue[p->queue_tail++ % p->size] = id;
}

int
peer_offer(struct peer *p, const struct peer_list *list, enum peer_form form,
           uint64_t table_guest)
{
    struct mr_split_desc desc[PEER_PARTS];
    uint32_t n = peer_offer_descs(list, form);
    uint16_t id;

    if (p->error[0] || n > p->size - p->ndesc)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        desc[i] = descriptor(&list->part[i]);
    if (form == PEER_TABLE)
        desc[0] = table(p, list, 0, table_guest);
    else if (form == PEER_TAIL_TABLE && n > 1)
        desc[1] = table(p, list, 1, table_guest);
    id = p->layout->place(p, desc, n);
    record(p, id, list);
    p->ndesc += n;
    return id;
}

/* S12, P16 and C6. */
static int
check_used(struct peer *p, uint32_t id, uint32_t len)
{
    if (id >= p->size || !p->record[id].out)
        return peer_fail(p, "S12 P16: used id %u is not outstanding", id);
    if (len > p->record[id].writable)
        return peer_fail(p, "C6: used length %u of id %u, writable %lu", len,
                         id, p->record[id].writable);
    return 0;
}

/* C19, S40, P44: an entry stands for everything up to its id. */
static int
next_entry(struct peer *p)
{
    uint32_t id, len;
    int rc = p->layout->peek(p, &id, &len);

    if (rc <= 0)
        return rc;
    if (check_used(p, id, len))
        return -1;
    p->batch = 1;
    if (p->features >> MR_F_IN_ORDER & 1)
        p->batch = (uint32_t)(p->record[id].order - p->queue_head) + 1;
    p->batch_id = (uint16_t)id;
    p->batch_len = len;
    return 1;
}

/* Out of order, the queue is a set: the hole is filled with the oldest. */
static void
queue_remove(struct peer *p, uint16_t id)
{
    uint16_t oldest = p->queue[p->queue_head % p->size];

    p->queue[p->record[id].order % p->size] = oldest;
    p->record[oldest].order = p->record[id].order;
    p->queue_head++;
    p->record[id].out = false;
}

int
peer_reap(struct peer *p, struct peer_done *done)
{
    uint16_t id;
    int rc = 1;

    if (p->error[0])
        return -1;
    if (!p->batch)
        rc = next_entry(p);
    if (rc <= 0)
        return rc;
    id = p->batch > 1 || (p->features >> MR_F_IN_ORDER & 1)
             ? p->queue[p->queue_head % p->size]
             : p->batch_id;
    done->id = id;
    done->record = p->record[id];
    /* S41, P45: what a batch skips was filled completely. */
    done->len = p->batch > 1 ? done->record.writable : p->batch_len;
    p->batch--;
    if (p->layout->recover(p, &done->record, id))
        return -1;
    queue_remove(p, id);
    p->ndesc -= done->record.ndesc;
    p->layout->advance(p, &p->used, p->packed ? done->record.ndesc : 1);
    return 1;
}
