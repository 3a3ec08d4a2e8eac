#include "ring/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "ring/packed.h"
#include "ring/split.h"

static const char *const part_name[] = {"descriptors", "driver area",
                                        "device area"};

size_t
mr_ring_table_bytes(uint32_t size)
{
    return (size_t)size *
           (MR_HEADER_SLOT + MR_TABLE_ENTRIES * sizeof(struct mr_packed_desc));
}

static bool
is_packed(uint64_t features)
{
    return (features & MR_F(RING_PACKED)) != 0;
}

static int
check_size(const struct mr_ring_config *c)
{
    bool packed = is_packed(c->features);

    if (!c->size || c->size > MR_RING_MAX ||
        (!packed && (c->size & (c->size - 1))))
        return mr_error_set(-EINVAL, "ring size %u: 1..%u%s (%s)", c->size,
                            MR_RING_MAX, packed ? "" : ", a power of two",
                            packed ? "P1" : "S1");
    return 0;
}

/* S2, P2, S74, V125. */
static int
check_parts(const struct mr_ring_config *c)
{
    static const uint8_t align[2][3] = {{16, 2, 4}, {16, 4, 4}};
    bool packed = is_packed(c->features);
    bool event_idx = (c->features & MR_F(EVENT_IDX)) != 0;
    uintptr_t start[3];
    uintptr_t end[3];

    for (int i = 0; i < 3; i++) {
        start[i] = (uintptr_t)c->part[i];
        end[i] = start[i] + mr_ring_part_bytes(packed, event_idx, c->size, i);
        if (!start[i])
            return mr_error_set(-EINVAL,
                                "the ring's %s is not in one region "
                                "of guest memory (V123)",
                                part_name[i]);
        if (start[i] % align[packed][i])
            return mr_error_set(-EINVAL,
                                "the ring's %s is not aligned to %u "
                                "(%s)",
                                part_name[i], align[packed][i],
                                packed ? "P2" : "S2");
        for (int j = 0; j < i; j++)
            if (start[i] < end[j] && start[j] < end[i])
                return mr_error_set(-EINVAL,
                                    "the ring's %s and %s overlap "
                                    "(V125)",
                                    part_name[j], part_name[i]);
    }
    return 0;
}

/* B2-B6. */
static int
set_base(struct mr_ring *r, const struct mr_ring_config *c)
{
    uint16_t avail = (uint16_t)c->base;
    uint16_t used = (uint16_t)(c->base >> 16);

    if (!is_packed(c->features)) {
        r->at.avail = (struct mr_pos){avail, 0};
        r->at.used = r->at.avail;
        return 0;
    }
    if (!used) /* B4: the sender knows only one position */
        used = avail;
    if ((avail & 0x7fff) >= c->size || (used & 0x7fff) >= c->size)
        return mr_error_set(-EINVAL,
                            "ring base %#x lies beyond %u entries "
                            "(B6)",
                            c->base, c->size);
    r->at.avail = (struct mr_pos){avail & 0x7fff, avail >> 15};
    r->at.used = (struct mr_pos){used & 0x7fff, used >> 15};
    return 0;
}

/* Device side: nothing of ours is in flight, so both positions are where the
 * used index stands (S19, S20). We poll: the driver need not kick (S35, P41);
 * with EVENT_IDX on a split ring the event word simply stays behind. */
static void
start_device(struct mr_ring *r)
{
    if (is_packed(r->features)) {
        struct mr_packed_event off = {0, MR_EVENT_DISABLE};

        memcpy(r->used.packed, &off, sizeof(off));
        return;
    }
    r->at.used.pos = mr_load(&r->used.split->idx);
    r->at.avail.pos = r->at.used.pos;
    mr_store(&r->used.split->flags, r->event_idx ? 0 : MR_USED_NO_NOTIFY);
}

static void
free_driver(struct mr_ring *r)
{
    free(r->out);
    free(r->slot);
    free(r->ids);
    r->out = NULL;
    r->slot = NULL;
    r->ids = NULL;
}

/* Every id is free, in ascending order. */
static int
start_driver(struct mr_ring *r, const struct mr_ring_config *c)
{
    r->out = malloc(c->size * sizeof(*r->out));
    r->slot = calloc(c->size, sizeof(*r->slot));
    r->ids = malloc(c->size * sizeof(*r->ids));
    if (!r->out || !r->slot || !r->ids) {
        free_driver(r);
        return mr_error_set(-ENOMEM, "no memory for a ring of %u entries",
                            c->size);
    }
    for (uint32_t i = 0; i < c->size; i++) {
        r->ids[i] = (uint16_t)i;
        r->out[i] = MR_OUT_NONE;
    }
    r->at.free = r->size;
    r->tables = c->shadow_tables;
    r->headers = (uint8_t *)c->shadow_tables +
                 (size_t)c->size * MR_TABLE_ENTRIES * sizeof(*r->tables);
    r->delta = c->delta;
    if (is_packed(r->features)) {
        struct mr_packed_event off = {0, MR_EVENT_DISABLE};

        memcpy(r->avail.packed, &off, sizeof(off));
    } else if (r->event_idx) {
        mr_store(mr_split_used_event(r), (uint16_t)(r->at.used.pos - 1));
    } else {
        mr_store(&r->avail.split->flags, MR_AVAIL_NO_INTERRUPT);
    }
    return 0;
}

int
mr_ring_start(struct mr_ring *r, const struct mr_ring_config *c)
{
    int rc = check_size(c);

    if (!rc)
        rc = check_parts(c);
    if (rc)
        return rc;
    memset(r, 0, sizeof(*r));
    r->notify_fd = c->notify_fd;
    rc = set_base(r, c);
    if (rc)
        return rc;
    r->desc.packed = c->part[0];
    r->avail.packed = c->part[1];
    r->used.packed = c->part[2];
    r->memory = c->memory;
    r->pool = c->pool;
    r->counters = c->counters;
    r->size = (uint16_t)c->size;
    r->features = c->features;
    r->header = mr_net_header_bytes(c->features);
    r->event_idx = (c->features & MR_F(EVENT_IDX)) != 0;
    r->indirect = (c->features & MR_F(INDIRECT_DESC)) != 0;
    r->split_header = !(c->features & (MR_F(VERSION_1) | MR_F(ANY_LAYOUT)));
    r->keep_num_buffers = c->keep_num_buffers;
    r->driver = c->driver;
    r->rx = c->rx;
    r->cpu = (uint8_t)mr_cpu_level();
    if (c->driver)
        rc = start_driver(r, c);
    else
        start_device(r);
    r->started = rc == 0;
    return rc;
}

void
mr_ring_stop(struct mr_ring *r)
{
    if (r->out) {
        for (uint32_t i = 0; i < r->size; i++)
            mr_pkt_free(mr_out_pkt(r->out[i]));
        mr_pkt_free(r->partial);
    }
    free_driver(r);
    r->partial = NULL;
    r->started = false;
}

uint32_t
mr_ring_base(const struct mr_ring *r)
{
    if (!is_packed(r->features))
        return r->at.avail.pos;
    return r->at.avail.pos | (uint32_t)r->at.avail.wrap << 15 |
           (r->at.used.pos | (uint32_t)r->at.used.wrap << 15) << 16;
}

static uint32_t
dump_shared(const struct mr_ring *r, char *out, uint32_t size)
{
    if (is_packed(r->features)) {
        const struct mr_packed_desc *d = &r->desc.packed[r->at.avail.pos];

        return (uint32_t)snprintf(
            out, size,
            "  next descriptor: flags %#x, len %u, id %u\n"
            "  driver event: offset %#x, flags %u; device event: offset %#x, "
            "flags %u\n",
            mr_load(&d->flags), mr_load(&d->len), mr_load(&d->id),
            mr_load(&r->avail.packed->offset), mr_load(&r->avail.packed->flags),
            mr_load(&r->used.packed->offset), mr_load(&r->used.packed->flags));
    }
    return (uint32_t)snprintf(
        out, size, "  avail: idx %u, flags %u; used: idx %u, flags %u\n",
        mr_load(&r->avail.split->idx), mr_load(&r->avail.split->flags),
        mr_load(&r->used.split->idx), mr_load(&r->used.split->flags));
}

uint32_t
mr_ring_dump(const struct mr_ring *r, char *out, uint32_t size)
{
    uint32_t n;

    if (!r->started)
        return (uint32_t)snprintf(out, size, "ring is not started\n");
    n = (uint32_t)snprintf(
        out, size,
        "%s %s side, %s: size %u, header %u, features %#llx, fault %u\n"
        "  next avail %u wrap %u, next used %u wrap %u, free %u\n",
        is_packed(r->features) ? "packed" : "split",
        r->driver ? "driver" : "device", r->rx ? "rx" : "tx", r->size,
        r->header, (unsigned long long)r->features, r->fault, r->at.avail.pos,
        r->at.avail.wrap, r->at.used.pos, r->at.used.wrap, r->at.free);
    return n +
           dump_shared(r, n < size ? out + n : out, n < size ? size - n : 0);
}
