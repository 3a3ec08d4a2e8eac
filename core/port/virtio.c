#include "port/virtio.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unblock.h"
#include "port/feature.h"

enum {
    RING_SIZE = 256,
    PART_ALIGN = 128, /* parts written by different sides share no line pair */
    CACHE = 256,
    PACKETS_MAX = 1 << 22,
};

static int
wishes_take(struct mr_virtio *v, const struct mr_vhost_options *o)
{
    struct mr_feature_wishes wishes;
    int rc = mr_feature_wishes_read(o, v->port.name, &wishes);

    v->required = wishes.on;
    v->wanted = MR_F(PROTOCOL_FEATURES) | MR_F(ANY_LAYOUT) | wishes.on |
                (wishes.any & ~MR_F(RING_PACKED)) | /* the older layout */
                (v->port.pairs > 1 ? MR_F(MQ) : 0);
    return rc;
}

/* S1, P1. A size that is no power of two exists in the packed layout only. */
static int
size_check(const struct mr_virtio *v)
{
    if (v->size > MR_RING_MAX)
        return mr_error_set(-EINVAL, "%s: ring of %u entries: 1..%u",
                            v->port.name, v->size, MR_RING_MAX);
    if ((v->size & (v->size - 1)) && !(v->required & MR_F(RING_PACKED)))
        return mr_error_set(-EINVAL, "%s: %u entries is no power of two: a "
                            "split ring needs one, or ask for packed rings",
                            v->port.name, v->size);
    return 0;
}

static size_t
part_bytes(uint32_t size, int part)
{
    size_t split = mr_ring_part_bytes(false, true, size, part);
    size_t packed = mr_ring_part_bytes(true, true, size, part);

    return (MR_MAX(split, packed) + PART_ALIGN - 1) & -(size_t)PART_ALIGN;
}

/* Room for either layout, as the peer chooses at every connection. */
static size_t
ring_bytes(uint32_t size)
{
    size_t tables = mr_ring_table_bytes(size) + 2 * PART_ALIGN;

    return part_bytes(size, 0) + part_bytes(size, 1) + part_bytes(size, 2) +
           tables;
}

static void
ring_place(struct mr_virtio *v, struct mr_virtio_ring *p)
{
    for (int i = 0; i < 3; i++)
        p->part[i] = mr_arena_alloc(&v->arena, part_bytes(v->size, i),
                                    PART_ALIGN);
    p->tables = mr_arena_alloc(&v->arena, mr_ring_table_bytes(v->size),
                               PART_ALIGN);
    p->kick_fd = p->call_fd = -1;
}

/* A new pair for every session: what an old peer does to the pair that it
 * still holds touches nobody. */
static int
eventfds_renew(struct mr_virtio *v, struct mr_virtio_ring *p)
{
    int *fd[] = {&p->kick_fd, &p->call_fd};

    for (int i = 0; i < 2; i++) {
        if (*fd[i] >= 0)
            close(*fd[i]);
        *fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (*fd[i] < 0)
            return mr_error_set(-errno, "%s: no eventfd (%s): raise the limit "
                                "of open files", v->port.name,
                                mr_error_name(errno));
    }
    return 0;
}

static int
rings_create(struct mr_virtio *v)
{
    uint32_t n = 2 * v->port.pairs;

    v->parts = calloc(n, sizeof(*v->parts));
    v->ring = aligned_alloc(MR_CACHE_LINE, n * sizeof(*v->ring));
    if (!v->parts || !v->ring)
        return mr_error_set(-ENOMEM, "%s: no memory for %u rings",
                            v->port.name, n);
    memset(v->ring, 0, n * sizeof(*v->ring));
    for (uint32_t r = 0; r < n; r++)
        ring_place(v, &v->parts[r]);
    return 0;
}

/* Every ring full, two bursts in somebody's hands, and the caches of two
 * threads a pair. */
static uint32_t
packets_needed(const struct mr_virtio *v)
{
    return v->port.pairs * (2 * v->size + 2 * MR_BURST_MAX + 4 * CACHE);
}

static int
memory_create(struct mr_virtio *v, uint32_t packets)
{
    struct mr_pool_options pool = {
        .packets = packets ? packets : packets_needed(v),
        .cache = CACHE,
    };
    size_t rings = 2ull * v->port.pairs * ring_bytes(v->size);
    int rc;

    if (pool.packets > PACKETS_MAX)
        return mr_error_set(-EINVAL, "%s: a pool of %u packets: at most %u; "
                            "ask for smaller rings or set `packets`",
                            v->port.name, pool.packets, PACKETS_MAX);
    rc = mr_arena_open(&v->arena, rings + PART_ALIGN +
                                      mr_pool_bytes(pool.packets, 0));
    if (rc)
        return rc;
    v->delta = (uintptr_t)v->arena.base - MR_VIRTIO_BASE;
    rc = rings_create(v);
    if (rc)
        return rc;
    rc = mr_pool_create_in(&v->arena, &pool, &v->port.pool);
    v->port.own_pool = rc == 0;
    return rc;
}

/* A locally administered address that stays the same for the same path. */
static void
mac_choose(struct mr_virtio *v, const char *path)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *path; path++)
        hash = (hash ^ (uint8_t)*path) * 16777619u;
    v->mac[0] = 0x02;
    v->mac[1] = 0x4d;
    memcpy(&v->mac[2], &hash, 4);
}

static struct mr_virtio *
virtio_of(const struct mr_port *port)
{
    return MR_CONTAINER(port, struct mr_virtio, port);
}

static struct mr_queue *
ring_queue(const struct mr_virtio *v, uint32_t r)
{
    return &v->port.queue[r & 1 ? MR_TX : MR_RX][r / 2];
}

static struct mr_ring *
queue_ring(const struct mr_queue *q)
{
    uint32_t r = 2u * q->index + (q->direction == MR_TX);

    return &virtio_of(q->port)->ring[r];
}

static void
virtio_close(struct mr_port *port)
{
    struct mr_virtio *v = virtio_of(port);

    if (v->on_close)
        v->on_close(v);
    else
        mr_virtio_destroy(v);
}

static void
virtio_info(const struct mr_port *port, struct mr_port_info *info)
{
    const struct mr_virtio *v = virtio_of(port);

    mr_feature_info(v->features, v->variant, info);
    info->protocol_features = v->protocol_features;
    info->connected = v->connected;
    info->connects = v->connects;
    info->hugetlb = v->arena.hugetlb;
    memcpy(info->mac, v->mac, sizeof(info->mac));
    info->size = v->features ? v->size : 0;
}

static uint32_t
virtio_fault(const struct mr_queue *queue)
{
    return mr_load(&queue_ring(queue)->fault);
}

static uint32_t
virtio_dump(const struct mr_queue *queue, char *out, uint32_t size)
{
    return mr_ring_dump(queue_ring(queue), out, size);
}

static const struct mr_port_ops virtio_ops = {
    .kind = MR_PORT_virtio,
    .close = virtio_close,
    .info = virtio_info,
    .fault = virtio_fault,
    .dump = virtio_dump,
};

int
mr_virtio_create(const struct mr_vhost_options *o, struct mr_virtio **out)
{
    struct mr_virtio *v;
    int rc;

    if (o->pool)
        return mr_error_set(-EINVAL, "a virtio port keeps its packets in the "
                            "memory that it shares: leave `pool` out and set "
                            "`packets`");
    v = calloc(1, sizeof(*v));
    if (!v)
        return mr_error_set(-ENOMEM, "no memory for a port");
    v->arena.fd = -1;
    rc = mr_port_init(&v->port, &virtio_ops, o->name, o->pairs ? o->pairs : 1);
    if (rc) {
        free(v);
        return rc;
    }
    v->size = o->size ? o->size : RING_SIZE;
    v->keep_num_buffers = o->keep_num_buffers != 0;
    rc = wishes_take(v, o);
    if (!rc)
        rc = size_check(v);
    if (!rc)
        rc = memory_create(v, o->packets);
    if (rc) {
        mr_virtio_destroy(v);
        return rc;
    }
    mac_choose(v, o->path ? o->path : v->port.name);
    *out = v;
    return 0;
}

/* Packets that somebody still holds keep the pool and the memory under it:
 * better lost than used after they are gone. */
static void
pool_drop(struct mr_virtio *v)
{
    if (v->port.own_pool && mr_pool_free(v->port.pool)) {
        mr_log(MR_LOG_WARN, "%s: closed with packets in use, its memory stays "
               "(%s)", v->port.name, mr_error_text());
        close(v->arena.fd);
        v->arena.fd = -1;
        v->arena.base = NULL;
    }
    v->port.own_pool = false;
    v->port.pool = NULL;
}

void
mr_virtio_destroy(struct mr_virtio *v)
{
    uint32_t rings = v->ring && v->parts ? 2 * v->port.pairs : 0;

    for (uint32_t r = 0; r < rings; r++) {
        mr_gate_close_wait(&ring_queue(v, r)->gate);
        mr_ring_stop(&v->ring[r]);
        if (v->parts[r].kick_fd >= 0)
            close(v->parts[r].kick_fd);
        if (v->parts[r].call_fd >= 0)
            close(v->parts[r].call_fd);
    }
    pool_drop(v);
    mr_port_fini(&v->port);
    mr_arena_close(&v->arena);
    free(v->parts);
    free(v->ring);
    free(v);
}

static int
missing_refuse(uint64_t missing)
{
    char names[256] = "";
    size_t n = 0;

    for (uint32_t bit = 0; bit < 64; bit++)
        if (missing >> bit & 1 && n < sizeof(names))
            n += (size_t)snprintf(names + n, sizeof(names) - n, " %s",
                                  mr_feature_name(bit));
    return mr_error_set(-EPROTO, "the peer does not offer%s, which this port "
                        "requires: leave the option at -1 or have the peer "
                        "offer it", names);
}

int
mr_virtio_negotiate(struct mr_virtio *v, uint64_t offered)
{
    uint64_t f = mr_feature_closure(offered & v->wanted);

    v->features = 0;
    if (v->required & ~f)
        return missing_refuse(v->required & ~f);
    if (f & MR_F(VERSION_1))
        f &= ~MR_F(ANY_LAYOUT); /* implied, and no longer a bit */
    v->features = f;
    return 0;
}

void
mr_virtio_region(const struct mr_virtio *v, struct mr_region_spec *spec,
                 int *fd)
{
    *spec = (struct mr_region_spec){
        .guest = MR_VIRTIO_BASE,
        .user = MR_VIRTIO_BASE,
        .size = v->arena.size,
    };
    *fd = v->arena.fd;
}

uint64_t
mr_virtio_ring_part(const struct mr_virtio *v, uint32_t r, int part)
{
    return (uintptr_t)v->parts[r].part[part] - v->delta;
}

uint32_t
mr_virtio_ring_base(const struct mr_virtio *v)
{
    return mr_ring_fresh_base(v->features);
}

static int
ring_begin(struct mr_virtio *v, uint32_t r)
{
    struct mr_queue *q = ring_queue(v, r);
    struct mr_virtio_ring *p = &v->parts[r];
    struct mr_ring_config config = {
        .features = v->features,
        .size = v->size,
        .base = mr_virtio_ring_base(v),
        .driver = true,
        .rx = q->direction == MR_RX,
        .part = {p->part[0], p->part[1], p->part[2]},
        .delta = v->delta,
        .shadow_tables = p->tables,
        .pool = v->port.pool,
        .counters = &q->counters,
        .notify_fd = p->kick_fd,
        .keep_num_buffers = v->keep_num_buffers,
    };

    return mr_ring_start(&v->ring[r], &config);
}

int
mr_virtio_ring_prepare(struct mr_virtio *v, uint32_t r)
{
    struct mr_queue *q = ring_queue(v, r);
    struct mr_virtio_ring *p = &v->parts[r];
    const char *variant;
    int rc = eventfds_renew(v, p);

    if (rc)
        return rc;
    for (int i = 0; i < 3; i++)
        memset(p->part[i], 0, part_bytes(v->size, i));
    rc = ring_begin(v, r);
    if (rc)
        return rc;
    q->ctx = &v->ring[r];
    q->burst = mr_burst_select(&v->ring[r], &variant);
    if (r < 2)
        v->variant[q->direction] = variant;
    if (q->direction == MR_RX)
        q->burst(q->ctx, NULL, 0); /* N4 */
    return 0;
}

void
mr_virtio_ring_open(struct mr_virtio *v, uint32_t r)
{
    struct mr_queue *q = ring_queue(v, r);

    if (mr_unblock_write(v->parts[r].kick_fd, &(uint64_t){1},
                         sizeof(uint64_t)) < 0)
        mr_count(&q->counters.notify_errors, 1);
    mr_gate_open(&q->gate);
}

bool
mr_virtio_ring_unblock(const struct mr_virtio *v, uint32_t r)
{
    return mr_queue_unblock(ring_queue(v, r), v->parts[r].kick_fd);
}

int
mr_virtio_ring_close(struct mr_virtio *v, uint32_t r)
{
    int rc = mr_gate_close(&ring_queue(v, r)->gate);

    if (rc)
        mr_virtio_ring_unblock(v, r);
    return rc;
}

/* Packets under the ring's ids; a list of several has one. */
static uint32_t
outstanding(const struct mr_ring *ring)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ring->size; i++)
        n += ring->out[i] != MR_OUT_NONE;
    return n;
}

void
mr_virtio_ring_release(struct mr_virtio *v, uint32_t r)
{
    struct mr_queue *q = ring_queue(v, r);
    struct mr_ring *ring = &v->ring[r];

    if (ring->started && q->direction == MR_TX) {
        q->burst(q->ctx, NULL, 0); /* takes in what the peer gave back */
        mr_count(&q->counters.down, outstanding(ring));
    }
    mr_ring_stop(ring);
}
