#include "port/poll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "port/wait.h"

enum {
    ROOM_US = MR_POLL_US, /* that a splice waits for room */
    SPLICES = 256,        /* rounds that splice, in one call */
};

static_assert(MR_POLL_MAX <= UINT16_MAX, "places are 16 bits");

/* ---- Lists: circular, known by their last entry -------------------------- */

static void
append(struct mr_poll *p, uint32_t slot, uint16_t i)
{
    uint64_t bit = 1ull << slot;

    if (p->filled & bit) {
        p->entry[i].next = p->entry[p->tail[slot]].next;
        p->entry[p->tail[slot]].next = i;
    } else {
        p->entry[i].next = i;
        p->filled |= bit;
    }
    p->tail[slot] = i;
}

/* Moves a slot's list to the end of the due one. */
static void
make_due(struct mr_poll *p, uint32_t slot)
{
    uint16_t tail = p->tail[slot];
    uint16_t head = p->entry[tail].next;

    if (p->due) {
        p->entry[tail].next = p->entry[p->due_tail].next;
        p->entry[p->due_tail].next = head;
    }
    p->due = true;
    p->due_tail = tail;
    p->filled &= ~(1ull << slot);
}

static uint16_t
take_due(struct mr_poll *p)
{
    uint16_t tail = p->due_tail;
    uint16_t head = p->entry[tail].next;

    p->entry[tail].next = p->entry[head].next;
    p->due = head != tail;
    return head;
}

/* ---- Rounds -------------------------------------------------------------- */

/* Slots that the clock passed since the last round, at least one. What is left
 * of a slot's time counts for the next round. */
static uint32_t
slots_passed(struct mr_poll *p, uint64_t now)
{
    uint64_t ticks = now - p->time;
    uint64_t slots = MR_POLL_SLOTS;

    if (mr_likely(ticks < MR_POLL_SLOTS * p->unit))
        slots = ticks * p->inverse >> 32;
    if (slots && slots < MR_POLL_SLOTS)
        p->time += slots * p->unit;
    else
        p->time = now;
    return slots ? (uint32_t)slots : 1;
}

/* The word with bit n, below 64, as its first. */
static uint64_t
rotate(uint64_t word, uint32_t n)
{
    return word >> n | word << (-n & 63);
}

void
mr_poll_round(struct mr_poll *p, uint64_t now)
{
    uint32_t first = (p->hand + 1) % MR_POLL_SLOTS;
    uint64_t ahead = rotate(p->filled, first);
    uint32_t slots = slots_passed(p, now);

    slots = MR_MAX(slots, (uint32_t)__builtin_ctzll(ahead) + 1);
    if (slots < MR_POLL_SLOTS)
        ahead &= (1ull << slots) - 1;
    for (; ahead; ahead &= ahead - 1)
        make_due(p, (first + (uint32_t)__builtin_ctzll(ahead)) %
                        MR_POLL_SLOTS);
    p->hand = (p->hand + slots) % MR_POLL_SLOTS;
}

/* Splices what queue i has, up to a burst of n. False: it must be received. */
static bool
splice(struct mr_poll *p, uint16_t i, uint32_t n, uint32_t *got)
{
    const struct mr_poll_target *t = &p->target[i];
    int32_t moved;

    if (!t->to)
        return false;
    moved = mr_queue_splice(p->entry[i].queue, t->to, n,
                            t->turns ? t->mac : NULL, ROOM_US);
    if (moved < 0)
        return false;
    p->spliced |= moved > 0;
    *got = (uint32_t)moved;
    return true;
}

int32_t
mr_poll_due(struct mr_poll *p, struct mr_burst *burst)
{
    while (p->due) {
        uint16_t i = take_due(p);
        struct mr_poll_entry *e = &p->entry[i];
        uint32_t got;

        if (!p->target || !splice(p, i, burst->cap, &got))
            got = mr_queue_receive(e->queue, burst);
        e->interval = got ? 1 : (uint16_t)MR_MIN(2 * e->interval,
                                                 MR_POLL_SLOTS);
        append(p, (p->hand + e->interval) % MR_POLL_SLOTS, i);
        if (burst->n)
            return i;
    }
    return -1;
}

/* The rest of this round, then at most one more. */
static int32_t
look(struct mr_poll *p, struct mr_burst *burst)
{
    int32_t i = mr_poll_due(p, burst);

    if (i >= 0)
        return i;
    mr_poll_round(p, mr_tsc());
    return mr_poll_due(p, burst);
}

int32_t
mr_poll_try_recv(struct mr_poll *poll, struct mr_burst *burst)
{
    mr_burst_free(burst);
    return look(poll, burst);
}

int32_t
mr_poll_recv(struct mr_poll *poll, struct mr_burst *burst, uint64_t timeout_us)
{
    struct mr_wait w = mr_wait_for(timeout_us);
    uint32_t splices = 0;
    int32_t i;

    mr_burst_free(burst);
    while ((i = look(poll, burst)) < 0) {
        bool spliced = poll->spliced;

        poll->spliced = false;
        if (spliced)
            w.turn = 0;
        if (spliced ? ++splices == SPLICES : !mr_wait_turn(&w))
            return -1;
    }
    return i;
}

/* ---- Making -------------------------------------------------------------- */

static void
release(struct mr_poll *p, uint32_t n)
{
    while (n--) {
        mr_queue_release(p->entry[n].queue);
        if (p->target && p->target[n].to)
            mr_queue_release(p->target[n].to);
    }
    free(p->target);
    free(p);
}

/* Claims queue i; every queue is due in the first round. */
static int
enlist(struct mr_poll *p, uint32_t i, struct mr_queue *queue)
{
    if (queue->direction != MR_RX)
        return mr_error_set(-EINVAL, "%s: tx %u cannot be polled: a poll set "
                            "wants rx queues", queue->port->name,
                            queue->index);
    p->entry[i].queue = queue;
    p->entry[i].interval = 1;
    append(p, 1, (uint16_t)i);
    return mr_queue_claim(queue);
}

int
mr_poll_create(struct mr_queue *const *queues, uint32_t n,
               struct mr_poll **poll)
{
    size_t bytes = sizeof(**poll) + n * sizeof((*poll)->entry[0]);
    struct mr_poll *p;

    if (!n || n > MR_POLL_MAX)
        return mr_error_set(-EINVAL, "a poll set of %u queues: 1..%u", n,
                            MR_POLL_MAX);
    bytes = (bytes + MR_CACHE_LINE - 1) & -(size_t)MR_CACHE_LINE;
    p = aligned_alloc(MR_CACHE_LINE, bytes);
    if (!p)
        return mr_error_set(-ENOMEM, "no memory for a poll set of %u queues",
                            n);
    memset(p, 0, bytes);
    p->n = n;
    /* One slot more than there are: a queue may be looked at late in its
     * round. */
    p->unit = MR_MAX(mr_tsc_hz() / 1000000 * MR_POLL_US / (MR_POLL_SLOTS + 1),
                     1u);
    p->inverse = (1ull << 32) / p->unit;
    p->time = mr_tsc();
    for (uint32_t i = 0; i < n; i++) {
        int rc = enlist(p, i, queues[i]);

        if (rc) {
            release(p, i);
            return rc;
        }
    }
    *poll = p;
    return 0;
}

int
mr_poll_splice(struct mr_poll *p, uint32_t i, struct mr_queue *to,
               const uint8_t *turn)
{
    struct mr_poll_target *t;
    int rc;

    if (i >= p->n)
        return mr_error_set(-EINVAL, "a poll set of %u queues has none at "
                            "place %u", p->n, i);
    if (to->direction != MR_TX)
        return mr_error_set(-EINVAL, "%s: rx %u cannot be spliced into: that "
                            "wants a tx queue", to->port->name, to->index);
    if (!p->target)
        p->target = calloc(p->n, sizeof(*p->target));
    if (!p->target)
        return mr_error_set(-ENOMEM, "no memory for the targets of %u queues",
                            p->n);
    rc = mr_queue_claim(to);
    if (rc)
        return rc;
    t = &p->target[i];
    if (t->to)
        mr_queue_release(t->to);
    t->to = to;
    t->turns = turn != NULL;
    if (turn)
        memcpy(t->mac, turn, sizeof(t->mac));
    return 0;
}

void
mr_poll_free(struct mr_poll *poll)
{
    if (poll)
        release(poll, poll->n);
}
