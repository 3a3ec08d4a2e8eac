/* Ports and queues, whatever their kind.
 *
 * A queue is a gate, a burst function with its context, and counters. Kinds
 * differ only in what they put there. The data calls of moonring.h
 * (mr_queue_try_recv, ...) enter the gate, call the function once, leave.
 *
 * Owner: the port belongs to the control thread; behind the gate a queue
 * belongs to the thread that claimed it. Counters have one writer. */
#pragma once

#include "base/attr.h"
#include "base/log.h"
#include "base/stat.h"
#include "mem/packet.h"
#include "port/gate.h"

/* A burst touches the first two lines. */
struct mr_queue {
    /* Read by every burst, written by the control thread: all but the gate's
     * own word behind the gate. */
    MR_LINE mr_burst_fn burst;
    void *ctx;
    uint8_t direction; /* enum mr_direction; set once */
    struct mr_gate gate;
    /* Written by every burst, like the gate's last word. */
    struct mr_counters counters;
    /* Control. */
    MR_LINE struct mr_port *port;
    uint16_t index;
    uint64_t holder; /* thread that claimed it, 0 = none */
    pid_t tid;       /* the same, as the kernel calls it; of the last holder */
    uint32_t claims; /* belongs to the holder */
};

static_assert(offsetof(struct mr_queue, gate.open) < MR_CACHE_LINE &&
              offsetof(struct mr_queue, gate.inside) / MR_CACHE_LINE == 1 &&
              offsetof(struct mr_queue, counters.bursts) / MR_CACHE_LINE == 1,
              "one line written by each side");

struct mr_port;

/* What differs by kind; a NULL entry means "does not apply". */
struct mr_port_ops {
    enum mr_port_kind kind;
    /* Ends what the kind holds and frees the port; the gates are closed. */
    void (*close)(struct mr_port *port);
    /* NULL = some queue is up. */
    int (*up)(const struct mr_port *port);
    /* Asked while the gate is open, by any thread; NULL = up. */
    int (*queue_up)(const struct mr_queue *queue);
    void (*info)(const struct mr_port *port, struct mr_port_info *info);
    uint32_t (*fault)(const struct mr_queue *queue);
    uint32_t (*dump)(const struct mr_queue *queue, char *out, uint32_t size);
};

/* First member of every kind's port. */
struct mr_port {
    const struct mr_port_ops *ops;
    char name[64];
    uint32_t pairs;
    struct mr_pool *pool;  /* rx packets come from it */
    bool own_pool;         /* freed with the port */
    struct mr_queue *queue[2]; /* [direction][pairs] */
    struct mr_log_limit limit;
};

/* Initialises the common part with `pairs` queues a direction, gates closed.
 * name NULL = kind and a number. On error nothing is left behind. Errors:
 * EINVAL (pairs outside 1..MR_PAIRS_MAX, name too long), ENOMEM. */
int mr_port_init(struct mr_port *port, const struct mr_port_ops *ops,
                 const char *name, uint32_t pairs);
/* Sets the pool: `pool` when given, else one of its own. */
int mr_port_set_pool(struct mr_port *port, struct mr_pool *pool,
                     const struct mr_pool_options *options);
/* Gives each queue the burst function of its direction, with the queue as its
 * context where none is set, and opens the gates. */
void mr_port_queues_open(struct mr_port *port, const mr_burst_fn burst[2]);
/* Closes all gates, frees the queues and the port's own pool (which is leaked
 * with a warning when packets are still out). The struct itself stays the
 * kind's to free. */
void mr_port_fini(struct mr_port *port);

/* Control: true when the burst that runs on the queue waits in a write to its
 * notification fd, which the peer then has made blocking and filled (V41). The
 * burst goes on without having notified. To be asked from time to time, and
 * while a gate does not close; such a peer's session is to be ended. */
bool mr_queue_unblock(const struct mr_queue *queue, int notify_fd);

/* One burst in `direction` (enum mr_direction) through the queue's gate: up to
 * n packets, ownership as mr_burst_fn says. Returns how many moved; none
 * through a closed gate or in a queue of the other direction. */
MR_INLINE uint32_t
mr_queue_call(struct mr_queue *queue, uint8_t direction, struct mr_pkt **pkts,
              uint32_t n)
{
    uint32_t done = 0;

    if (mr_unlikely(!n || !mr_gate_enter(&queue->gate)))
        return 0;
    if (mr_likely(queue->direction == direction))
        done = queue->burst(queue->ctx, pkts, n);
    mr_gate_leave(&queue->gate);
    return done;
}

/* What is there now, into a burst that holds nothing. Returns the number. */
MR_INLINE uint32_t
mr_queue_receive(struct mr_queue *queue, struct mr_burst *burst)
{
    burst->n = mr_queue_call(queue, MR_RX, burst->pkt,
                             MR_MIN(burst->cap, (uint32_t)MR_BURST_MAX));
    return burst->n;
}

/* Bytes in n packets. */
MR_INLINE uint64_t
mr_pkts_bytes(struct mr_pkt *const *pkts, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++)
        bytes += pkts[i]->pkt_len;
    return bytes;
}

/* Counts a burst of n packets with that many bytes; n = 0 is none. */
MR_INLINE void
mr_queue_count(struct mr_queue *queue, uint32_t n, uint64_t bytes)
{
    mr_counters_moved(&queue->counters, n, bytes);
}

/* A tx burst function that takes every packet and frees it. ctx: the queue. */
uint32_t mr_queue_discard(void *ctx, struct mr_pkt **pkts, uint32_t n);
