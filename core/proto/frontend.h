/* The front-end session: our driver side's half of one vhost-user connection.
 * It opens no socket and keeps no clock. Its owner carries the messages and
 * tells the time; the session says what to send next, and checks every byte
 * that a hostile back-end may answer.
 *
 *   OFF --connected--> SETUP --last step--> UP --stop--> STOPPING --> STOPPED
 *    ^                   |                  |               |          |
 *    +---disconnected----+------------------+---------------+----------+
 *
 * SETUP and STOPPING are two lists of steps (vhost-user 16, the order that
 * DPDK's virtio-user has), a step for the device or for each ring. A step that
 * has an answer is finished by it; a step that the data path relies on is
 * made to have one: REPLY_ACK where the peer has it, else a GET_FEATURES after
 * it (V148). At most one answer is awaited at any time.
 *
 * Owner: control thread. Invariants:
 *  1. Gates are open only in UP.
 *  2. Nothing survives a connection but the port: rings are prepared anew
 *     (V86, V88-V90), and what the peer chose is forgotten.
 *  3. A message that is not the answer awaited ends the connection. */
#pragma once

#include "port/virtio.h"
#include "proto/message.h"

enum {
    /* Longest time that a peer may take to answer. */
    MR_FRONTEND_ANSWER_MS = 5000,
    /* Longest time that a port waits for its peer when it is closed. */
    MR_FRONTEND_STOP_MS = 500,
};

enum mr_frontend_state {
    MR_FRONTEND_OFF,
    MR_FRONTEND_SETUP,
    MR_FRONTEND_UP,
    MR_FRONTEND_STOPPING,
    MR_FRONTEND_STOPPED,
};

struct mr_frontend {
    struct mr_virtio *virtio;
    enum mr_frontend_state state;
    uint32_t step; /* of the state's list */
    uint32_t ring; /* of the step */
    uint32_t prepared; /* rings that are not idle: 0..prepared-1 */
    uint32_t request;  /* whose answer is awaited, 0 = none */
    bool ack;          /* it is REPLY_ACK's u64 */
    bool sync;         /* GET_FEATURES is due after the step (V23, V148) */
    uint64_t deadline; /* ns: for the next answer, or for the whole stop */
    uint64_t offered;  /* what GET_FEATURES said */
};

/* A message to be sent. The fds stay the port's. */
struct mr_frontend_out {
    struct mr_message msg;
    uint32_t nfds;
    int fds[1];
};

/* A session in state OFF for the port. */
void mr_frontend_init(struct mr_frontend *fe, struct mr_virtio *virtio);
/* OFF -> SETUP: there is a fresh connection. */
void mr_frontend_connected(struct mr_frontend *fe, uint64_t now);
/* The next message to send, `now` in ns (mr_now): 1 and *out, 0 when there is
 * none before something happens, -EAGAIN when a burst must end first (ask
 * again in a moment), else an error: close the connection (EPROTO, EMFILE,
 * ENOMEM, EINVAL). Ask until it is not 1, after every other call here. */
int mr_frontend_next(struct mr_frontend *fe, uint64_t now,
                     struct mr_frontend_out *out);
/* A whole message came, with nfds fds (the caller's to close). Errors: EPROTO,
 * close the connection: the peer broke the rule in the text, or cannot serve
 * what the port requires. */
int mr_frontend_receive(struct mr_frontend *fe, const struct mr_message *msg,
                        uint32_t nfds);
/* 0, or -ETIMEDOUT when the peer did not answer in time: close the connection.
 * To be asked a few times a second. */
int mr_frontend_tick(const struct mr_frontend *fe, uint64_t now);
/* UP -> STOPPING: the port is about to close; the peer is made to leave its
 * memory. In other states there is nothing to wait for: -> STOPPED. */
void mr_frontend_stop(struct mr_frontend *fe, uint64_t now);
/* Any state -> OFF: the connection is gone. -EAGAIN while a burst still runs:
 * the session is not OFF yet, ask again. Packets that were out are back in the
 * pool afterwards, the port is down. */
int mr_frontend_disconnected(struct mr_frontend *fe);
