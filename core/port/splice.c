/* mr_queue_splice (moonring.h): both gates, one burst, both gates.
 *
 * Owner: the thread that holds both queues. Entering a gate never waits, so
 * two gates in a row cannot lock each other out; a gate that is closed in
 * between is waited for by the control thread until the burst ends, as ever. */
#include <errno.h>

#include "burst/splice.h"
#include "port/port.h"
#include "port/wait.h"

/* Both ends must be rings of guests, the burst's context (vhost.h). */
static bool
joins(const struct mr_queue *from, const struct mr_queue *to)
{
    return from->direction == MR_RX && to->direction == MR_TX &&
           from->port->ops->kind == MR_PORT_vhost &&
           to->port->ops->kind == MR_PORT_vhost;
}

/* A target that is down makes no one wait: who takes the packets finds out. */
static int32_t
splice(struct mr_queue *from, struct mr_queue *to, uint32_t n,
       const uint8_t *turn)
{
    int32_t result = MR_SPLICE_TAKE;

    if (!mr_gate_enter(&from->gate))
        return MR_SPLICE_NONE;
    if (mr_likely(mr_gate_enter(&to->gate))) {
        result = mr_splice(from->ctx, to->ctx, n, turn);
        mr_gate_leave(&to->gate);
    }
    mr_gate_leave(&from->gate);
    return result;
}

int32_t
mr_queue_splice(struct mr_queue *from, struct mr_queue *to, uint32_t n,
                const uint8_t *turn, uint64_t timeout_us)
{
    int32_t result;

    if (mr_unlikely(!joins(from, to)))
        return -ENOTSUP;
    if (mr_unlikely(!n))
        return 0;
    n = MR_MIN(n, (uint32_t)MR_BURST_MAX);
    result = splice(from, to, n, turn);
    if (mr_unlikely(result == MR_SPLICE_ROOM)) {
        struct mr_wait w = mr_wait_for(timeout_us);

        while (result == MR_SPLICE_ROOM && mr_wait_turn(&w))
            result = splice(from, to, n, turn);
    }
    return result < 0 ? -ENOTSUP : result;
}
