/* A pipe: two ports wired to each other, for packets between workers. What
 * one sends the other receives, the same packets, nothing is copied.
 *
 * Each queue pair is two single-producer single-consumer rings of packet
 * pointers. The port that sends owns the tail of a ring, the port that
 * receives its head; a claim makes each of them one thread.
 *
 * When a port closes, its peer can send no more but still receives what is on
 * the way; the last of the two frees the rings with what they hold. */

/* Loads and stores that say their order: as fast on x86, and the only kind
 * that the race detector understands. */
#define RTE_USE_C11_MEM_MODEL
#include <rte_ring.h>

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "port/port.h"

enum { PIPE_SIZE = 1024, PIPE_SIZE_MAX = 1 << 20 };

/* A tx queue's context. The rx queue at the other end has it too. */
struct lane {
    struct rte_ring *ring;
    struct mr_queue *tx;
    struct mr_queue *rx;
};

struct pipe_port {
    struct mr_port port;
    struct pipe_port *peer; /* NULL once it was closed */
    struct lane *lane;      /* [2 * pairs], shared by the two */
};

static uint32_t
pipe_rx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct lane *lane = ctx;

    n = rte_ring_sc_dequeue_burst(lane->ring, (void **)pkts, n, NULL);
    mr_queue_count(lane->rx, n, mr_pkts_bytes(pkts, n));
    return n;
}

/* What was sent is the other thread's already; what was not is still ours. */
static uint32_t
pipe_tx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct lane *lane = ctx;
    uint64_t bytes = mr_pkts_bytes(pkts, n);
    uint32_t sent = rte_ring_sp_enqueue_burst(lane->ring, (void *const *)pkts,
                                              n, NULL);

    bytes -= mr_pkts_bytes(pkts + sent, n - sent);
    mr_queue_count(lane->tx, sent, bytes);
    return sent;
}

static void
lanes_free(struct lane *lane, uint32_t n)
{
    for (uint32_t i = 0; lane && i < n && lane[i].ring; i++) {
        struct mr_pkt *pkt;

        while (rte_ring_sc_dequeue(lane[i].ring, (void **)&pkt) == 0)
            mr_pkt_free(pkt);
        free(lane[i].ring);
    }
    free(lane);
}

static struct lane *
lanes_make(uint32_t n, uint32_t size)
{
    ssize_t bytes = rte_ring_get_memsize(2 * size); /* one slot stays empty */
    struct lane *lane = calloc(n, sizeof(*lane));

    for (uint32_t i = 0; lane && i < n; i++) {
        lane[i].ring = aligned_alloc(MR_CACHE_LINE, (size_t)bytes);
        if (!lane[i].ring) {
            lanes_free(lane, n);
            return NULL;
        }
        rte_ring_init(lane[i].ring, "pipe", size,
                      RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
    }
    return lane;
}

static void
pipe_close(struct mr_port *port)
{
    struct pipe_port *self = MR_CONTAINER(port, struct pipe_port, port);
    struct pipe_port *peer = self->peer;

    if (peer) {
        for (uint32_t i = 0; i < port->pairs; i++)
            mr_gate_close_wait(&peer->port.queue[MR_TX][i].gate);
        mr_store_release(&peer->peer, NULL);
    } else {
        lanes_free(self->lane, 2 * port->pairs);
    }
    mr_port_fini(port);
    free(self);
}

/* A receiver is up until it took what a closed peer had sent. */
static int
pipe_queue_up(const struct mr_queue *queue)
{
    struct pipe_port *self = MR_CONTAINER(queue->port, struct pipe_port, port);
    const struct rte_ring *ring = ((struct lane *)queue->ctx)->ring;

    return mr_load_acquire(&self->peer) ||
           (queue->direction == MR_RX &&
            mr_load(&ring->prod.tail) != mr_load(&ring->cons.tail));
}

static const struct mr_port_ops pipe_ops = {
    .kind = MR_PORT_pipe,
    .close = pipe_close,
    .queue_up = pipe_queue_up,
};

static void
wire(struct lane *lane, struct mr_queue *tx, struct mr_queue *rx)
{
    lane->tx = tx;
    lane->rx = rx;
    tx->ctx = lane;
    rx->ctx = lane;
}

static int
pipe_port_make(const char *name, uint32_t pairs, struct pipe_port **out)
{
    struct pipe_port *self = calloc(1, sizeof(*self));
    int rc;

    if (!self)
        return mr_error_set(-ENOMEM, "no memory for a pipe");
    rc = mr_port_init(&self->port, &pipe_ops, name, pairs);
    if (rc)
        free(self);
    else
        *out = self;
    return rc;
}

static void
pipe_start(struct pipe_port *a, struct pipe_port *b, struct lane *lane)
{
    static const mr_burst_fn burst[] = {[MR_RX] = pipe_rx, [MR_TX] = pipe_tx};

    a->peer = b;
    b->peer = a;
    a->lane = lane;
    b->lane = lane;
    for (uint32_t i = 0; i < a->port.pairs; i++) {
        wire(&lane[2 * i], &a->port.queue[MR_TX][i], &b->port.queue[MR_RX][i]);
        wire(&lane[2 * i + 1], &b->port.queue[MR_TX][i],
             &a->port.queue[MR_RX][i]);
    }
    mr_port_queues_open(&a->port, burst);
    mr_port_queues_open(&b->port, burst);
}

/* "NAME.a" and "NAME.b", or numbers when there is no name. */
static int
pipe_ports_make(const struct mr_pipe_options *o, struct pipe_port *port[2])
{
    uint32_t pairs = o->pairs ? o->pairs : 1;
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        char name[80];

        if (o->name)
            snprintf(name, sizeof(name), "%.70s.%c", o->name, "ab"[i]);
        rc = pipe_port_make(o->name ? name : NULL, pairs, &port[i]);
    }
    return rc;
}

int
mr_pipe_open(const struct mr_pipe_options *options, struct mr_port **a,
             struct mr_port **b)
{
    uint32_t size = options->size ? options->size : PIPE_SIZE;
    struct pipe_port *port[2] = {NULL, NULL};
    struct lane *lane = NULL;
    int rc;

    if (size > PIPE_SIZE_MAX || (size & (size - 1)))
        return mr_error_set(-EINVAL, "pipe of %u packets: a power of two up "
                            "to %u", size, PIPE_SIZE_MAX);
    rc = pipe_ports_make(options, port);
    if (!rc)
        lane = lanes_make(2 * port[0]->port.pairs, size);
    if (!rc && !lane)
        rc = mr_error_set(-ENOMEM, "no memory for a pipe of %u packets: ask "
                          "for fewer", size);
    if (rc) {
        for (int i = 0; i < 2 && port[i]; i++)
            pipe_close(&port[i]->port);
        return rc;
    }
    pipe_start(port[0], port[1], lane);
    *a = &port[0]->port;
    *b = &port[1]->port;
    return 0;
}
