/* The part that every kind of port shares: names, queues, claims, closing.
 *
 * Owner: control thread; claims are taken and given back by any thread, with
 * the holder's word as the lock: whoever swaps it from 0 owns the queue. */
#include "port/port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unblock.h"

static const char *const kind_name[] = {
#define MR_X(name) #name,
    MR_PORT_KINDS(MR_X)
#undef MR_X
};

static const char *const direction_name[] = {[MR_RX] = "rx", [MR_TX] = "tx"};

static int
name_set(struct mr_port *port, const char *name)
{
    static uint32_t serial[MR_PORT_KIND_COUNT];
    enum mr_port_kind kind = port->ops->kind;
    int len;

    if (name)
        len = snprintf(port->name, sizeof(port->name), "%s", name);
    else
        len = snprintf(port->name, sizeof(port->name), "%s%u",
                       kind_name[kind], serial[kind]++);
    if (len <= 0 || (size_t)len >= sizeof(port->name))
        return mr_error_set(-EINVAL, "%s port: a name has 1..%zu bytes, not "
                            "%d", kind_name[kind], sizeof(port->name) - 1, len);
    return 0;
}

/* Both directions are one block, rx first. */
static int
queues_set(struct mr_port *port)
{
    size_t n = 2 * (size_t)port->pairs;
    struct mr_queue *q =
        aligned_alloc(MR_CACHE_LINE, n * sizeof(struct mr_queue));

    if (!q)
        return mr_error_set(-ENOMEM, "%s: no memory for %u queue pairs",
                            port->name, port->pairs);
    memset(q, 0, n * sizeof(*q));
    for (size_t i = 0; i < n; i++) {
        q[i].port = port;
        q[i].direction = i < port->pairs ? MR_RX : MR_TX;
        q[i].index = (uint16_t)(i % port->pairs);
    }
    port->queue[MR_RX] = q;
    port->queue[MR_TX] = q + port->pairs;
    return 0;
}

int
mr_port_init(struct mr_port *port, const struct mr_port_ops *ops,
             const char *name, uint32_t pairs)
{
    int rc;

    memset(port, 0, sizeof(*port));
    port->ops = ops;
    port->pairs = pairs;
    rc = name_set(port, name);
    if (rc)
        return rc;
    if (!pairs || pairs > MR_PAIRS_MAX)
        return mr_error_set(-EINVAL, "%s: %u queue pairs: 1..%u", port->name,
                            pairs, MR_PAIRS_MAX);
    return queues_set(port);
}

int
mr_port_set_pool(struct mr_port *port, struct mr_pool *pool,
                 const struct mr_pool_options *options)
{
    int rc;

    port->own_pool = !pool;
    port->pool = pool;
    if (pool)
        return 0;
    rc = mr_pool_create(options, &port->pool);
    if (rc)
        port->own_pool = false;
    return rc;
}

void
mr_port_queues_open(struct mr_port *port, const mr_burst_fn burst[2])
{
    for (uint32_t i = 0; i < 2 * port->pairs; i++) {
        struct mr_queue *q = &port->queue[MR_RX][i];

        q->burst = burst[q->direction];
        if (!q->ctx)
            q->ctx = q;
        mr_gate_open(&q->gate);
    }
}

void
mr_port_fini(struct mr_port *port)
{
    for (uint32_t i = 0; i < 2 * port->pairs; i++)
        mr_gate_close_wait(&port->queue[MR_RX][i].gate);
    free(port->queue[MR_RX]);
    if (port->own_pool && mr_pool_free(port->pool))
        mr_log(MR_LOG_WARN, "%s: its pool stays: %s", port->name,
               mr_error_text());
}

/* Takes every queue for the closing thread, so that no task takes one
 * meanwhile; on failure all are given back. */
static int
claim_all(struct mr_port *port)
{
    for (uint32_t i = 0; i < 2 * port->pairs; i++) {
        int rc = mr_queue_claim(&port->queue[MR_RX][i]);

        if (!rc)
            continue;
        while (i--)
            mr_queue_release(&port->queue[MR_RX][i]);
        return rc;
    }
    return 0;
}

int
mr_port_close(struct mr_port *port)
{
    int rc = claim_all(port);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < 2 * port->pairs; i++)
        mr_gate_close_wait(&port->queue[MR_RX][i].gate);
    port->ops->close(port);
    return 0;
}

const char *
mr_port_name(const struct mr_port *port)
{
    return port->name;
}

const char *
mr_port_kind_name(const struct mr_port *port)
{
    return kind_name[port->ops->kind];
}

uint32_t
mr_port_pairs(const struct mr_port *port)
{
    return port->pairs;
}

struct mr_pool *
mr_port_pool(const struct mr_port *port)
{
    return port->pool;
}

int
mr_port_up(const struct mr_port *port)
{
    if (port->ops->up)
        return port->ops->up(port);
    for (uint32_t i = 0; i < 2 * port->pairs; i++)
        if (mr_queue_up(&port->queue[MR_RX][i]))
            return 1;
    return 0;
}

int
mr_port_info(const struct mr_port *port, struct mr_port_info *info)
{
    memset(info, 0, sizeof(*info));
    if (port->ops->info)
        port->ops->info(port, info);
    return 0;
}

struct mr_queue *
mr_port_queue(struct mr_port *port, int direction, uint32_t index)
{
    if ((direction != MR_RX && direction != MR_TX) || index >= port->pairs)
        return NULL;
    return &port->queue[direction][index];
}

/* Never 0, never reused. */
static uint64_t
thread_id(void)
{
    static uint64_t last;
    static _Thread_local uint64_t id;

    if (!id)
        id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return id;
}

int
mr_queue_claim(struct mr_queue *queue)
{
    uint64_t me = thread_id();
    uint64_t holder = 0;

    if (mr_load(&queue->holder) != me &&
        !__atomic_compare_exchange_n(&queue->holder, &holder, me, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return mr_error_set(-EBUSY, "%s: %s %u is in use by another task: "
                            "wait for that task's end first",
                            queue->port->name,
                            direction_name[queue->direction], queue->index);
    queue->claims++;
    mr_store(&queue->tid, gettid());
    return 0;
}

void
mr_queue_release(struct mr_queue *queue)
{
    if (mr_load(&queue->holder) != thread_id())
        return;
    if (--queue->claims == 0)
        mr_store_release(&queue->holder, 0);
}

bool
mr_queue_unblock(const struct mr_queue *queue, int notify_fd)
{
    if (!mr_load(&queue->gate.inside) || !mr_unblock_needed(notify_fd))
        return false;
    mr_unblock_thread(mr_load(&queue->tid));
    return true;
}

int
mr_queue_up(const struct mr_queue *queue)
{
    const struct mr_port_ops *ops = queue->port->ops;

    if (!mr_load_acquire(&queue->gate.open) || mr_queue_fault(queue))
        return 0;
    return ops->queue_up ? ops->queue_up(queue) : 1;
}

const struct mr_counters *
mr_queue_counters(const struct mr_queue *queue)
{
    return &queue->counters;
}

uint32_t
mr_queue_fault(const struct mr_queue *queue)
{
    const struct mr_port_ops *ops = queue->port->ops;

    return ops->fault ? ops->fault(queue) : MR_FAULT_NONE;
}

uint32_t
mr_queue_dump(struct mr_queue *queue, char *out, uint32_t size)
{
    const struct mr_port_ops *ops = queue->port->ops;

    if (ops->dump)
        return ops->dump(queue, out, size);
    return (uint32_t)snprintf(out, size, "%s %s %u: no ring, %s\n",
                              queue->port->name,
                              direction_name[queue->direction], queue->index,
                              mr_queue_up(queue) ? "up" : "down");
}
