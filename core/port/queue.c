/* The data calls: gate, one indirect call, gate; and how long to wait.
 *
 * Owner: the thread that holds the queue. A kind's burst function counts the
 * packets, bytes and bursts that it moved, as only it knows which of them
 * crossed; what is counted here are the packets that were given up.
 *
 * Waiting gives way in three steps, so that a peer on the same CPU gets it: a
 * few pauses, then yields, then short sleeps. */
#include <sched.h>
#include <string.h>

#include "base/process.h"
#include "port/port.h"

enum {
    PAUSES = 64,
    /* By time, not by number: on a busy CPU one yield can cost a whole slice,
     * whereas a sleeper is soon woken. */
    YIELD_NS = 100000,
    SLEEP_US = 50,
};

struct wait {
    uint64_t timeout; /* ns, ~0 = no limit */
    uint64_t begin;   /* after the pauses */
    uint32_t turn;
};

static struct wait
wait_for(uint64_t timeout_us)
{
    bool limited = timeout_us < UINT64_MAX / 1000;

    return (struct wait){.timeout = limited ? timeout_us * 1000 : UINT64_MAX};
}

/* Gives way once; false when the time is over or the process stops. */
static bool
wait_turn(struct wait *w)
{
    uint64_t waited;

    if (!w->timeout || !mr_running())
        return false;
    if (w->turn++ < PAUSES) {
        mr_pause();
        return true;
    }
    if (w->turn == PAUSES + 1)
        w->begin = mr_now();
    waited = mr_now() - w->begin;
    if (waited >= w->timeout)
        return false;
    if (waited < YIELD_NS)
        sched_yield();
    else
        mr_sleep_us(MR_MIN((w->timeout - waited) / 1000 + 1,
                           (uint64_t)SLEEP_US));
    return true;
}

/* One burst in `direction`; a queue of the other one moves nothing. */
static uint32_t
burst_call(struct mr_queue *queue, uint8_t direction, struct mr_pkt **pkts,
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

static uint32_t
receive(struct mr_queue *queue, struct mr_burst *burst)
{
    burst->n = burst_call(queue, MR_RX, burst->pkt,
                          MR_MIN(burst->cap, (uint32_t)MR_BURST_MAX));
    return burst->n;
}

uint32_t
mr_queue_try_recv(struct mr_queue *queue, struct mr_burst *burst)
{
    mr_burst_free(burst);
    return receive(queue, burst);
}

uint32_t
mr_queue_recv(struct mr_queue *queue, struct mr_burst *burst,
              uint64_t timeout_us)
{
    struct wait w = wait_for(timeout_us);

    mr_burst_free(burst);
    while (!receive(queue, burst))
        if (!wait_turn(&w))
            return 0;
    return burst->n;
}

uint32_t
mr_queue_try_send(struct mr_queue *queue, struct mr_burst *burst)
{
    uint32_t n = MR_MIN(burst->n, (uint32_t)MR_BURST_MAX);
    uint32_t done = burst_call(queue, MR_TX, burst->pkt, n);

    burst->n = n - done;
    if (done && burst->n)
        memmove(burst->pkt, burst->pkt + done,
                burst->n * sizeof(burst->pkt[0]));
    return done;
}

/* Gives up what is left. */
static void
drop(struct mr_queue *queue, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_counters *c = &queue->counters;

    mr_count(mr_queue_up(queue) ? &c->full : &c->down, n);
    mr_pkts_free(pkts, n);
}

uint32_t
mr_queue_send(struct mr_queue *queue, struct mr_burst *burst,
              uint64_t timeout_us)
{
    uint32_t n = MR_MIN(burst->n, (uint32_t)MR_BURST_MAX);
    struct wait w = wait_for(timeout_us);
    uint32_t sent = 0;

    burst->n = 0;
    for (;;) {
        uint32_t done = burst_call(queue, MR_TX, burst->pkt + sent, n - sent);

        sent += done;
        if (sent == n)
            return n;
        if (done)
            w.turn = 0;
        else if (!wait_turn(&w))
            break;
    }
    drop(queue, burst->pkt + sent, n - sent);
    return sent;
}

uint32_t
mr_queue_discard(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    mr_queue_count(ctx, n, mr_pkts_bytes(pkts, n));
    mr_pkts_free(pkts, n);
    return n;
}
