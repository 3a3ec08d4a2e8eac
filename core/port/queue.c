/* The data calls of one queue: gate, one indirect call, gate; and what is done
 * with packets that do not fit.
 *
 * Owner: the thread that holds the queue. A kind's burst function counts the
 * packets, bytes and bursts that it moved, as only it knows which of them
 * crossed; what is counted here are the packets that were given up. */
#include <string.h>

#include "port/port.h"
#include "port/wait.h"

uint32_t
mr_queue_try_recv(struct mr_queue *queue, struct mr_burst *burst)
{
    mr_burst_free(burst);
    return mr_queue_receive(queue, burst);
}

uint32_t
mr_queue_recv(struct mr_queue *queue, struct mr_burst *burst,
              uint64_t timeout_us)
{
    struct mr_wait w = mr_wait_for(timeout_us);

    mr_burst_free(burst);
    while (!mr_queue_receive(queue, burst))
        if (!mr_wait_turn(&w))
            return 0;
    return burst->n;
}

uint32_t
mr_queue_try_send(struct mr_queue *queue, struct mr_burst *burst)
{
    uint32_t n = MR_MIN(burst->n, (uint32_t)MR_BURST_MAX);
    uint32_t done = mr_queue_call(queue, MR_TX, burst->pkt, n);

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
    struct mr_wait w = mr_wait_for(timeout_us);
    uint32_t sent = 0;

    burst->n = 0;
    for (;;) {
        uint32_t done =
            mr_queue_call(queue, MR_TX, burst->pkt + sent, n - sent);

        sent += done;
        if (sent == n)
            return n;
        if (done)
            w.turn = 0;
        else if (!mr_wait_turn(&w))
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
