/* A virtio port with its socket: carries messages between the front-end
 * session and the peer, and keeps the time for it.
 *
 * Closing: the session is told to stop, which takes the peer a few answers;
 * then, or when it takes too long, the socket ends, and the port is freed in
 * the turn of the loop after that. mr_port_close serves the loop meanwhile,
 * so that everything is gone when it returns; called from inside the loop it
 * leaves the rest to the loop.
 *
 * Owner: control thread. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/process.h"
#include "loop/loop.h"
#include "loop/socket.h"
#include "proto/frontend.h"

struct session {
    struct mr_frontend fe;
    struct mr_socket *socket;
    bool closing; /* the port is being closed */
    bool ended;   /* the socket was closed */
    bool *gone;   /* told when the session is freed; NULL = nobody waits */
    uint8_t told[2 * MR_PAIRS_MAX]; /* fault of each ring that was logged */
};

static void
session_done(void *arg)
{
    struct session *s = arg;

    mr_virtio_destroy(s->fe.virtio);
    if (s->gone)
        *s->gone = true;
    free(s);
}

/* Closing a socket that has a peer calls session_closed once more. */
static void
session_end(struct session *s)
{
    if (s->ended)
        return;
    s->ended = true;
    mr_socket_close(s->socket, session_done);
}

/* Sends what there is to send. A burst that still runs is asked again by the
 * next tick. */
static int
session_pump(struct session *s)
{
    struct mr_frontend_out out;
    int rc;

    while ((rc = mr_frontend_next(&s->fe, mr_now(), &out)) == 1) {
        rc = mr_socket_send(s->socket, mr_message_wire(&out.msg),
                            mr_message_bytes(&out.msg), out.fds, out.nfds);
        if (rc)
            return rc;
    }
    if (s->closing && s->fe.state == MR_FRONTEND_STOPPED)
        session_end(s);
    return rc == -EAGAIN ? 0 : rc;
}

static int
session_open(void *arg, struct mr_socket *socket)
{
    struct session *s = arg;

    s->socket = socket;
    for (size_t r = 0; r < MR_COUNT_OF(s->told); r++)
        s->told[r] = MR_FAULT_NONE;
    mr_frontend_connected(&s->fe, mr_now());
    return session_pump(s);
}

static int
session_input(void *arg, struct mr_socket *socket, struct mr_frame *frame)
{
    struct session *s = arg;
    int rc = mr_frontend_receive(&s->fe, &frame->msg, frame->nfds);

    (void)socket;
    return rc ? rc : session_pump(s);
}

static int
session_closed(void *arg)
{
    struct session *s = arg;
    int rc = mr_frontend_disconnected(&s->fe);

    if (!rc && s->closing)
        session_end(s);
    return rc;
}

/* A burst cannot log, so the fault that stopped its ring is told from here. */
static void
faults_tell(struct session *s)
{
    struct mr_virtio *v = s->fe.virtio;

    for (uint32_t r = 0; r < 2 * v->active; r++) {
        uint32_t fault = mr_load(&v->ring[r].fault);
        const struct mr_fault_row *row = mr_fault_row(fault);

        if (s->told[r] == fault)
            continue;
        s->told[r] = (uint8_t)fault;
        mr_log_limited(&v->port.limit, MR_LOG_WARN, "%s: %s %u stopped until "
                       "the peer connects again: %s (%s)", v->port.name,
                       r & 1 ? "tx" : "rx", r / 2, row->text, row->rules);
    }
}

/* V41. */
static int
kicks_unblock(struct session *s)
{
    bool held = false;

    for (uint32_t r = 0; r < s->fe.prepared; r++)
        if (mr_virtio_ring_unblock(s->fe.virtio, r))
            held = true;
    if (held)
        return mr_error_set(-EPROTO, "a kick fd is blocking and full: the peer "
                            "does not read it (V41)");
    return 0;
}

static int
session_tick(void *arg, struct mr_socket *socket)
{
    struct session *s = arg;
    int rc = mr_frontend_tick(&s->fe, mr_now());

    (void)socket;
    if (!rc)
        rc = kicks_unblock(s);
    faults_tell(s);
    return rc ? rc : session_pump(s);
}

static const struct mr_session_ops session_ops = {
    .open = session_open,
    .input = session_input,
    .closed = session_closed,
    .tick = session_tick,
};

/* Waits for the peer to let go, at most as long as the session does, and for
 * the loop to free the handles. */
static void
session_wait(struct session *s)
{
    uint64_t end = mr_now() + 2 * MR_FRONTEND_STOP_MS * 1000000ull;
    bool gone = false;

    s->gone = &gone;
    while (!gone && mr_now() < end)
        mr_loop_run(1000);
    if (!gone)
        s->gone = NULL;
}

static void
port_closing(struct mr_virtio *v)
{
    struct session *s = v->session;

    s->closing = true;
    mr_frontend_stop(&s->fe, mr_now());
    if (!mr_socket_connected(s->socket) || session_pump(s))
        session_end(s);
    if (!mr_loop_inside())
        session_wait(s);
}

int
mr_virtio_open(const struct mr_vhost_options *options, struct mr_port **port)
{
    struct session *s = calloc(1, sizeof(*s));
    struct mr_virtio *v;
    int rc;

    if (!s)
        return mr_error_set(-ENOMEM, "no memory for a session");
    rc = mr_virtio_create(options, &v);
    if (rc) {
        free(s);
        return rc;
    }
    mr_frontend_init(&s->fe, v);
    rc = mr_socket_open(&v->port, options, &session_ops, s, true, &s->socket);
    if (rc) {
        mr_virtio_destroy(v);
        free(s);
        return rc;
    }
    v->session = s;
    v->on_close = port_closing;
    *port = &v->port;
    return 0;
}
