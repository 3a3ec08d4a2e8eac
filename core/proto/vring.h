/* A session's view of one ring: what the peer has said about it so far, and
 * whether that is enough to run it.
 *
 *   stopped --everything known, kicked, enabled (V53)--> running
 *   running --GET_VRING_BASE, disable, new memory, end of session--> stopped
 *
 * Messages may come in any order (V135, V147): each one stores what it says
 * and then asks mr_vring_try. A ring that stops keeps its position, so a
 * later start goes on where it was (B8).
 *
 * Owner: control thread. Invariants:
 *  1. running = the port's ring is started; then `setup` is in force.
 *  2. broken: a fault ended the ring; only a new setup (GET_VRING_BASE or
 *     RESET_OWNER, new memory if memory was lost) makes it run again.
 *  3. Each fd slot is -1 or owned. */
#pragma once

#include "port/vhost.h"

struct mr_vring {
    struct mr_vhost_ring setup; /* size 0 = not set */
    int kick_fd;
    int err_fd;
    bool addressed; /* setup.part is set */
    bool based;     /* setup.base is set, else the ring is fresh (B2) */
    bool kicked;    /* "started" in the protocol's words */
    bool enabled;
    bool live;      /* ran since its base was last asked for (V49) */
    bool running;
    enum mr_fault broken;
    enum mr_fault told; /* the fault last reported */
    uint64_t skips[MR_FAULT_COUNT]; /* counts last reported */
};

/* The rings of one session. */
struct mr_vrings {
    struct mr_vhost *vhost;
    uint32_t n; /* 2 * pairs */
    struct mr_vring ring[];
};

/* All rings stopped and disabled, nothing known. NULL without memory. */
struct mr_vrings *mr_vrings_create(struct mr_vhost *vhost);
/* Closes the fds; all rings are stopped. */
void mr_vrings_destroy(struct mr_vrings *rings);
/* Forgets everything about all rings, which are stopped (V86). */
void mr_vrings_forget(struct mr_vrings *rings);

/* Starts ring r (below n) if it is usable and stopped (V53). A ring whose
 * setup is wrong stays stopped, is logged, and raises its err fd (V123). */
void mr_vring_try(struct mr_vrings *rings, uint32_t r);
void mr_vrings_try(struct mr_vrings *rings);
/* Stops ring r and remembers its position; 0, or -EAGAIN while a burst runs.
 * Stopped rings are allowed. */
int mr_vring_stop(struct mr_vrings *rings, uint32_t r);
/* All of them; -EAGAIN when some still run. */
int mr_vrings_stop(struct mr_vrings *rings);
/* The position of stopped ring r, as GET_VRING_BASE answers it (B1, B5). */
uint32_t mr_vring_base(const struct mr_vrings *rings, uint32_t r);
/* True while some ring runs. */
bool mr_vrings_running(const struct mr_vrings *rings);
/* What a session looks after from time to time: drains kicks, reports faults
 * once each by a log line and the err fd (C17), ends rings whose memory was
 * lost (V62). Errors: EPROTO, close the connection: the peer had a burst wait
 * in a notification (V41). */
int mr_vrings_tick(struct mr_vrings *rings);
