/* The back-end session: one peer's vhost-user connection to a vhost port.
 *
 * Messages come in, actions on the port and at most one reply go out. There
 * is no socket here: loop/vhost.c, a unit test or a fuzzer feeds it.
 *
 *   open -> input, input, tick, ... -> close
 *
 * A message that needs a ring stopped while a burst runs in it is parked:
 * mr_backend_input answers -EAGAIN and wants to be called with the same
 * message again, before any later one of this session. Meanwhile others are
 * served.
 *
 * A request that breaks a rule changes nothing. It is answered with a nack
 * where the peer asked for an answer, else its connection is closed (V34,
 * V35); the reason is logged within the port's limit.
 *
 * Owner: control thread. Invariants:
 *  1. Between open and close the port is `connected`; outside nothing of a
 *     peer is left: no fd, no memory, no feature, no running ring (V86).
 *  2. An answer is given after its effect is visible to the data path (V36). */
#pragma once

#include "proto/frame.h"
#include "proto/vring.h"

struct mr_backend {
    struct mr_vhost *vhost;
    struct mr_vrings *rings;
    bool agreed;               /* SET_FEATURES came */
    struct mr_memory *pending; /* table that waits for the rings (V63) */
};

/* A session for the port, which outlives it. Errors: ENOMEM. *backend is the
 * caller's. */
int mr_backend_create(struct mr_vhost *vhost, struct mr_backend **backend);
/* Frees a session that is closed. NULL is allowed. */
void mr_backend_destroy(struct mr_backend *backend);
/* A peer is there: the handshake begins from nothing. */
void mr_backend_open(struct mr_backend *backend);
/* Serves the complete request in `frame` and takes the fds it keeps. 0 = no
 * answer is due, 1 = *reply is to be sent, -EAGAIN = parked, another negative
 * code: close the connection. */
int mr_backend_input(struct mr_backend *backend, struct mr_frame *frame,
                     struct mr_message *reply);
/* The peer is gone: stops its rings and forgets it. 0, or -EAGAIN while a
 * burst still runs: call again. Closing twice is allowed. */
int mr_backend_close(struct mr_backend *backend);
/* To be called about every 100 ms while the session is open: kicks are
 * drained, faults are reported. Errors: as mr_vrings_tick. */
int mr_backend_tick(struct mr_backend *backend);
