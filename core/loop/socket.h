/* A vhost-user socket: finds a peer, moves messages, reports its end.
 *
 * A server listens and talks to one peer at a time (others wait in its
 * backlog); a client connects, and tries again for ever. Who is back-end and
 * who front-end is the session's business: the socket cuts the stream into
 * messages (proto/frame.h) and hands them over in order.
 *
 *   waiting --peer--> connected --EOF, error, session's wish--> ending
 *      ^                                                          |
 *      +---------------------- session closed --------------------+
 *
 * Owner: control thread. Invariants: at most one message is with the session;
 * while it is parked nothing is read (other sockets are served); a turn of
 * the loop serves a bounded number of messages (V144); nothing here blocks. */
#pragma once

#include "port/port.h"
#include "proto/frame.h"

struct mr_socket;

/* What a session does; all but input may be NULL. */
struct mr_session_ops {
    /* A peer is there. A negative code drops it. */
    int (*open)(void *session, struct mr_socket *socket);
    /* A message is complete; it and the fds that were not taken are forgotten
     * afterwards. 0 = served; -EAGAIN = a queue is busy, call again with the
     * same message; another negative code closes the connection, the text of
     * mr_error_set is logged. */
    int (*input)(void *session, struct mr_socket *socket,
                 struct mr_frame *frame);
    /* The peer is gone. 0 = done; -EAGAIN = a queue is busy, call again. */
    int (*closed)(void *session);
    /* About every 100 ms while there is a peer. Negative as for input. */
    int (*tick)(void *session, struct mr_socket *socket);
};

/* Starts to listen or to connect (options: path, connect, retry_ms, mode,
 * owner, group). port: for names and log limits; outlives the socket. replies:
 * see mr_frame_init. Errors: EINVAL (path too long or missing), EADDRINUSE
 * (somebody listens there, or it is no socket), EACCES, ENOENT, ENOMEM. */
int mr_socket_open(struct mr_port *port, const struct mr_vhost_options *options,
                   const struct mr_session_ops *ops, void *session,
                   bool replies, struct mr_socket **socket);
/* Ends the connection and the socket and unlinks the path if it is still ours.
 * If there was a peer, `closed` is called before this returns and, as all gates
 * are closed by then, must not answer -EAGAIN. The port and the session's
 * other calls are not used any more; done(session) comes in a later turn of
 * the loop. */
void mr_socket_close(struct mr_socket *socket, void (*done)(void *session));
/* Sends bytes, with copies of nfds (0..8) fds attached to the first one (V4,
 * V9). What does not fit now is sent later. Errors: ENOTCONN; ENOBUFS (the
 * peer does not read: 1 MiB waits), EPIPE and the like: the connection ends in
 * the next turn of the loop. */
int mr_socket_send(struct mr_socket *socket, const void *bytes, size_t len,
                   const int *fds, uint32_t nfds);
/* Ends the connection in the next turn of the loop; why: for the log. */
void mr_socket_drop(struct mr_socket *socket, const char *why);
/* True while there is a peer. */
bool mr_socket_connected(const struct mr_socket *socket);
