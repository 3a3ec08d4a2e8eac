/* Start, stop and the small things that both roles of the peer use. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer/peer.h"

int
peer_fail(struct peer *p, const char *fmt, ...)
{
    va_list args;

    if (p->error[0])
        return -1;
    va_start(args, fmt);
    vsnprintf(p->error, sizeof(p->error), fmt, args);
    va_end(args);
    return -1;
}

uint32_t
peer_random(struct peer *p, uint32_t n)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)((p->random >> 33) % n);
}

uint32_t
peer_outstanding(const struct peer *p)
{
    return (uint32_t)(p->queue_tail - p->queue_head);
}

uint64_t
peer_list_bytes(const struct peer_list *list, bool write)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->part[i].write == write)
            sum += list->part[i].len;
    return sum;
}

/* Virtqueues 5. A split base tells only the available index; a ring that was
 * drained has the same used index. */
static void
positions(struct peer *p, uint32_t base)
{
    struct mr_split_avail *avail = p->part[1];
    struct mr_split_used *used = p->part[2];

    if (p->packed) {
        p->avail = (struct peer_pos){base & 0x7fff, base >> 15 & 1};
        p->used = (struct peer_pos){base >> 16 & 0x7fff, base >> 31};
        return;
    }
    p->avail.pos = p->used.pos = (uint16_t)base;
    avail->idx = (uint16_t)base;
    used->idx = (uint16_t)base;
}

static bool
allocate(struct peer *p)
{
    uint32_t n = p->size;

    p->record = calloc(n, sizeof(*p->record));
    p->queue = calloc(n, sizeof(*p->queue));
    p->free = calloc(n, sizeof(*p->free));
    p->shadow = calloc(n, sizeof(*p->shadow));
    p->held = calloc(n, sizeof(*p->held));
    for (uint32_t i = 0; p->free && i < n; i++)
        p->free[p->nfree++] = (uint16_t)(n - 1 - i);
    return p->record && p->queue && p->free && p->shadow && p->held;
}

/* Virtio-net 4, the sizes that a ring of this project can have. */
static uint8_t
header_size(uint64_t features)
{
    bool modern = features >> MR_F_VERSION_1 & 1;
    bool mergeable = features >> MR_F_MRG_RXBUF & 1;
    bool packed = features >> MR_F_RING_PACKED & 1;

    return modern || mergeable || packed ? 12 : 10;
}

bool
peer_start(struct peer *p, const struct peer_setup *setup)
{
    uint64_t room;

    memset(p, 0, sizeof(*p));
    p->memory = setup->memory;
    p->driver = setup->driver;
    p->to_driver = setup->to_driver;
    p->features = setup->features;
    p->size = setup->size;
    p->packed = setup->features >> MR_F_RING_PACKED & 1;
    p->layout = p->packed ? &peer_packed : &peer_split;
    p->header = header_size(setup->features);
    p->own_header = !(setup->features >> MR_F_VERSION_1 & 1) &&
                    !(setup->features >> MR_F_ANY_LAYOUT & 1);
    p->random = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 3; i++)
        p->part[i] = peer_memory_at(p->memory, setup->guest[i], &room);
    if (!allocate(p)) {
        peer_stop(p);
        return false;
    }
    positions(p, setup->base);
    return true;
}

void
peer_stop(struct peer *p)
{
    for (uint32_t i = 0; p->record && i < p->size; i++)
        free(p->record[i].part);
    free(p->record);
    free(p->queue);
    free(p->free);
    free(p->shadow);
    free(p->held);
    free(p->slabs.free);
    memset(p, 0, sizeof(*p));
}
