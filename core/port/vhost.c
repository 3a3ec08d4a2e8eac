#include "port/vhost.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "burst/loan.h"
#include "mem/packet_loan.h"
#include "port/feature.h"
#include "ring/fault.h"

enum {
    PACKETS_PAIR = 4096,   /* of the port's own pool, for each queue pair */
    PACKETS_MOST = 65536,  /* and together, unless the options say more */
    POOL_CACHE = 256,
    CLOSE_TRIES = 32,      /* times a burst's end is waited for by a yield */
    LENDER_PAIR = 4096,    /* packets to lend with, for each queue pair */
    PATIENCE_NS = 100000000, /* a stop waits for packets that have buffers */
};

/* Offered is what no option takes away. LOG_ALL is missing: there is no dirty
 * log. MAC, STATUS and the control queue itself are the front-end's (virtio-net
 * 12). */
static int
offer(struct mr_vhost *v, const struct mr_vhost_options *o)
{
    struct mr_feature_wishes wishes;
    int rc = mr_feature_wishes_read(o, v->port.name, &wishes);

    if (rc)
        return rc;
    if (o->zero_copy > 1 || (o->zero_copy && wishes.on & MR_F(IN_ORDER)))
        return mr_error_set(-EINVAL, "%s: zero_copy is %u: 0 or 1, and not "
                            "together with in_order, as packets are freed in "
                            "any order", v->port.name, o->zero_copy);
    v->offered = MR_F(ANY_LAYOUT) | MR_F(PROTOCOL_FEATURES) |
                 mr_feature_closure(wishes.on | wishes.any);
    if (o->zero_copy)
        v->offered &= ~MR_F(IN_ORDER);
    /* QEMU takes MQ only together with the queue that controls it (N102). */
    if (v->port.pairs > 1)
        v->offered |= MR_F(MQ) | MR_F(CTRL_VQ);
    return 0;
}

int
mr_vhost_features_check(const struct mr_vhost *v, uint64_t features)
{
    uint64_t beyond = features & ~v->offered;

    if (beyond)
        return mr_error_set(-EINVAL, "feature bits %#llx were not offered "
                            "(V131)", (unsigned long long)beyond);
    beyond = features & ~mr_feature_closure(features);
    if (beyond)
        return mr_error_set(-EINVAL, "feature bits %#llx lack what they need "
                            "(N5)", (unsigned long long)beyond);
    return 0;
}

static struct mr_vhost *
vhost_of(const struct mr_port *port)
{
    return MR_CONTAINER(port, struct mr_vhost, port);
}

struct mr_queue *
mr_vhost_queue(const struct mr_vhost *v, uint32_t r)
{
    return &v->port.queue[r & 1 ? MR_RX : MR_TX][r / 2];
}

static struct mr_ring *
queue_ring(const struct mr_queue *q)
{
    uint32_t r = 2u * q->index + (q->direction == MR_RX);

    return &vhost_of(q->port)->ring[r];
}

static void
vhost_close(struct mr_port *port)
{
    struct mr_vhost *v = vhost_of(port);

    if (v->on_close)
        v->on_close(v);
    else
        mr_vhost_destroy(v);
}

static bool
ring_up(const struct mr_vhost *v, uint32_t r)
{
    return mr_load(&mr_vhost_queue(v, r)->gate.open) && !v->ring[r].fault;
}

static int
vhost_up(const struct mr_port *port)
{
    const struct mr_vhost *v = vhost_of(port);

    for (uint32_t i = 0; i < port->pairs; i++)
        if (ring_up(v, 2 * i) && ring_up(v, 2 * i + 1))
            return 1;
    return 0;
}

static void
vhost_info(const struct mr_port *port, struct mr_port_info *info)
{
    const struct mr_vhost *v = vhost_of(port);

    mr_feature_info(v->features, v->variant, info);
    info->protocol_features = v->protocol_features;
    info->connected = v->connected;
    info->connects = v->connects;
    for (uint32_t r = 0; r < 2 * port->pairs && !info->size; r++)
        info->size = v->ring[r].started ? v->ring[r].size : 0;
}

static uint32_t
vhost_fault(const struct mr_queue *queue)
{
    return mr_load(&queue_ring(queue)->fault);
}

/* A burst is short: most closes succeed at once, nearly all within a few
 * turns of the scheduler. */
static int
gate_close(struct mr_gate *gate)
{
    int rc = mr_gate_close(gate);

    for (int i = 0; rc && i < CLOSE_TRIES; i++) {
        sched_yield();
        rc = mr_gate_close(gate);
    }
    return rc;
}

static uint32_t
vhost_dump(const struct mr_queue *queue, char *out, uint32_t size)
{
    struct mr_ring *ring = queue_ring(queue);

    if (!ring->started)
        return (uint32_t)snprintf(out, size, "%s: ring is stopped\n",
                                  queue->port->name);
    return mr_ring_dump(ring, out, size);
}

static const struct mr_port_ops vhost_ops = {
    .kind = MR_PORT_vhost,
    .close = vhost_close,
    .up = vhost_up,
    .info = vhost_info,
    .fault = vhost_fault,
    .dump = vhost_dump,
};

/* ---- Loans --------------------------------------------------------------- */

/* Late loans of ports that are closed; the last one of a pool frees that. */
static struct mr_loan *orphans;

static void
orphan_pool_free(struct mr_pool *pool)
{
    for (const struct mr_loan *l = orphans; l; l = l->next)
        if (l->pool == pool)
            return;
    mr_pool_free(pool);
}

/* Ends the loans of a list whose packets were freed. */
static void
reap(struct mr_loan **link)
{
    bool orphaned = link == &orphans;

    while (*link) {
        struct mr_loan *loan = *link;
        struct mr_loan *next = loan->next;
        struct mr_pool *pool = loan->pool;

        if (!mr_loan_close(loan)) {
            link = &loan->next;
            continue;
        }
        *link = next;
        if (orphaned)
            orphan_pool_free(pool);
    }
}

void
mr_vhost_reap(struct mr_vhost *v)
{
    reap(&v->late);
    reap(&orphans);
}

/* Lets a ring that was started lend up to half of its buffers, if the port
 * does that; without memory for it the ring copies. */
static void
loan_begin(struct mr_vhost *v, struct mr_ring *ring)
{
    mr_vhost_reap(v);
    if (v->lender && ring->rx &&
        mr_loan_open(v->memory, v->lender, ring->size / 2u, &ring->loan))
        mr_log_limited(&v->port.limit, MR_LOG_WARN, "%s: %s; it copies",
                       v->port.name, mr_error_text());
}

/* mr_device_repay by the control thread, which a driver must not make wait for
 * its notification (V41): it is notified at the next start, if there is one. */
static void
repay(struct mr_ring *ring, bool all)
{
    int fd = ring->notify_fd;

    ring->notify_fd = -1;
    mr_device_repay(ring, all);
    ring->notify_fd = fd;
}

/* The driver gets all of its buffers back, and the loan is late. */
static void
loan_end(struct mr_vhost *v, struct mr_ring *ring)
{
    struct mr_loan *loan = ring->loan;

    if (!loan)
        return;
    repay(ring, true);
    ring->loan = NULL;
    loan->next = v->late;
    v->late = loan;
    mr_vhost_reap(v);
}

/* Is there still hope that the packets are freed before that? */
static bool
loan_waits(struct mr_ring *ring)
{
    struct mr_loan *loan = ring->loan;

    if (!loan)
        return false;
    repay(ring, false);
    if (!loan->patience)
        loan->patience = mr_now() + PATIENCE_NS;
    return loan->out && mr_now() < loan->patience;
}

/* What packets still refer to outlives the port, until another one finds that
 * they were freed. */
static void
loans_abandon(struct mr_vhost *v)
{
    struct mr_loan **last = &orphans;

    mr_vhost_reap(v);
    if (v->lender && mr_pool_free(v->lender))
        mr_log(MR_LOG_WARN, "%s is closed while packets of it are out whose "
               "bytes are in a guest's memory: that stays mapped",
               v->port.name);
    while (*last)
        last = &(*last)->next;
    *last = v->late;
}

/* ---- Making -------------------------------------------------------------- */

static int
rings_create(struct mr_vhost *v)
{
    uint32_t n = 2 * v->port.pairs;

    v->ring = aligned_alloc(MR_CACHE_LINE, n * sizeof(*v->ring));
    if (!v->ring)
        return mr_error_set(-ENOMEM, "%s: no memory for %u rings",
                            v->port.name, n);
    memset(v->ring, 0, n * sizeof(*v->ring));
    return 0;
}

static int
pool_create(struct mr_vhost *v, const struct mr_vhost_options *o)
{
    uint32_t packets = PACKETS_PAIR * (v->port.pairs + 1);
    struct mr_pool_options options = {
        .packets = o->packets ? o->packets : MR_MIN(packets, PACKETS_MOST),
        .cache = POOL_CACHE,
    };
    uint32_t lent = MR_MIN(LENDER_PAIR * v->port.pairs, PACKETS_MOST);
    int rc = o->zero_copy ? mr_loan_pool_create(lent, &v->lender) : 0;

    return rc ? rc : mr_port_set_pool(&v->port, o->pool, &options);
}

int
mr_vhost_create(const struct mr_vhost_options *o, struct mr_vhost **out)
{
    struct mr_vhost *v = calloc(1, sizeof(*v));
    int rc;

    if (!v)
        return mr_error_set(-ENOMEM, "no memory for a port");
    rc = mr_port_init(&v->port, &vhost_ops, o->name, o->pairs ? o->pairs : 1);
    if (rc) {
        free(v);
        return rc;
    }
    rc = offer(v, o);
    if (!rc)
        rc = rings_create(v);
    if (!rc)
        rc = pool_create(v, o);
    if (rc) {
        mr_vhost_destroy(v);
        return rc;
    }
    *out = v;
    return 0;
}

void
mr_vhost_destroy(struct mr_vhost *v)
{
    for (uint32_t r = 0; v->ring && r < 2 * v->port.pairs; r++) {
        mr_gate_close_wait(&mr_vhost_queue(v, r)->gate);
        loan_end(v, &v->ring[r]);
        mr_ring_stop(&v->ring[r]);
    }
    loans_abandon(v);
    mr_port_fini(&v->port);
    mr_memory_destroy(v->memory);
    free(v->ring);
    free(v);
}

bool
mr_vhost_ring_unblock(const struct mr_vhost *v, uint32_t r)
{
    return mr_queue_unblock(mr_vhost_queue(v, r), v->ring[r].notify_fd);
}

int
mr_vhost_ring_stop(struct mr_vhost *v, uint32_t r)
{
    int rc = gate_close(&mr_vhost_queue(v, r)->gate);

    if (rc) {
        mr_vhost_ring_unblock(v, r);
        return rc;
    }
    if (!v->ring[r].started)
        return 0;
    if (loan_waits(&v->ring[r]))
        return -EAGAIN;
    loan_end(v, &v->ring[r]);
    mr_ring_stop(&v->ring[r]);
    return 0;
}

void
mr_vhost_ring_break(struct mr_vhost *v, uint32_t r, enum mr_fault fault)
{
    v->ring[r].counters = &mr_vhost_queue(v, r)->counters;
    mr_ring_break(&v->ring[r], fault);
}

enum mr_fault
mr_vhost_ring_fault(const struct mr_vhost *v, uint32_t r)
{
    return mr_load(&v->ring[r].fault);
}

int
mr_vhost_ring_start(struct mr_vhost *v, uint32_t r,
                    const struct mr_vhost_ring *setup)
{
    struct mr_queue *q = mr_vhost_queue(v, r);
    bool packed = v->features & MR_F(RING_PACKED);
    bool event_idx = v->features & MR_F(EVENT_IDX);
    struct mr_ring_config config = {
        .features = v->features,
        .size = setup->size,
        .base = setup->base,
        .rx = q->direction == MR_RX,
        .memory = v->memory,
        .pool = v->port.pool,
        .counters = &q->counters,
        .notify_fd = setup->call_fd,
    };
    const char *variant;
    int rc;

    for (int i = 0; i < 3 && v->memory; i++)
        config.part[i] = mr_memory_user(
            v->memory, setup->part[i],
            mr_ring_part_bytes(packed, event_idx, setup->size, i));
    rc = mr_ring_start(&v->ring[r], &config);
    if (rc) {
        mr_vhost_ring_break(v, r, MR_FAULT_RING_SETUP);
        return rc;
    }
    loan_begin(v, &v->ring[r]);
    q->ctx = &v->ring[r];
    q->burst = mr_burst_select(&v->ring[r], &variant);
    if (r < 2)
        v->variant[q->direction] = variant;
    mr_gate_open(&q->gate);
    return 0;
}

uint32_t
mr_vhost_ring_base(const struct mr_vhost *v, uint32_t r)
{
    return mr_ring_base(&v->ring[r]);
}

int
mr_vhost_ring_call(struct mr_vhost *v, uint32_t r, int fd)
{
    struct mr_queue *q = mr_vhost_queue(v, r);
    int rc;

    if (!v->ring[r].started)
        return 0;
    rc = gate_close(&q->gate);
    if (rc)
        return rc;
    v->ring[r].notify_fd = fd;
    mr_gate_open(&q->gate);
    return 0;
}

void
mr_vhost_set_memory(struct mr_vhost *v, struct mr_memory *memory)
{
    mr_vhost_reap(v);
    mr_memory_destroy(v->memory);
    v->memory = memory;
}
