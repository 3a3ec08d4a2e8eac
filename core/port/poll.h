/* A poll set: many rx queues served by one worker, in rounds, idle ones less
 * often (mr_poll_* of moonring.h).
 *
 * A wheel of 64 slots holds the queues, each in the slot of the round in which
 * it is due. A round advances the hand by one slot, by more when more time went
 * by than a slot stands for, and over empty slots at once; the queues of the
 * slots passed are then due. After its look a queue goes `interval` slots
 * ahead. So a round touches no queue that is not due, and finds those that are
 * by links in an array.
 *
 * Owner: the thread that created it. Invariants:
 *  1. Each queue is in one list: a slot's, or the due one.
 *  2. Bit s of `filled` tells whether slot s has a list.
 *  3. The hand moves at least as fast as the clock: MR_POLL_US a turn. */
#pragma once

#include "port/port.h"

enum { MR_POLL_SLOTS = 64 };

struct mr_poll_entry {
    struct mr_queue *queue;
    uint16_t next;     /* entry behind it in its list; the tail's: the head */
    uint16_t interval; /* rounds between looks: 1..MR_POLL_SLOTS */
};

/* Where the packets of an entry's queue are spliced to. */
struct mr_poll_target {
    struct mr_queue *to; /* NULL = they are received */
    bool turns;
    uint8_t mac[6];
};

struct mr_poll {
    MR_LINE uint32_t n;
    uint32_t hand;     /* slot of this round */
    uint32_t due;      /* entries due in this round, */
    uint16_t due_tail; /* and the last of them */
    uint64_t time;     /* tsc that the hand stands at */
    uint64_t unit;     /* ticks that a slot stands for, */
    uint64_t inverse;  /* and 2^32 over that */
    uint64_t filled;
    struct mr_poll_target *target; /* [n], by place; NULL = none has one */
    bool spliced;      /* packets were, since it was set to false */
    uint16_t tail[MR_POLL_SLOTS]; /* last entry of each slot's list */
    struct mr_poll_entry entry[];
};

/* Begins the round of time `now` (tsc): no entry may be due, one will be. */
void mr_poll_round(struct mr_poll *poll, uint64_t now);
/* Looks at due queues until one yields packets, into a burst that holds none;
 * splices those that have a target. Returns its place, or -1: the round is
 * over. */
int32_t mr_poll_due(struct mr_poll *poll, struct mr_burst *burst);
