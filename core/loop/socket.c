#include "loop/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/foreign.h"
#include "loop/loop.h"
#include "loop/outbox.h"
#include "loop/unix.h"

enum {
    RETRY_MS = 1000,  /* between two tries to connect */
    PARKED_MS = 1,    /* until a busy queue is asked again */
    TICK_MS = 100,
    STARVED_MS = 100, /* until accept is tried again without fds or memory */
    RECEIVES = 64,    /* of one turn of the loop (V144) */
    FDS_SENT = 253,   /* at most by one sendmsg; what we had no room for would
                         be closed for us, at the peer's pace */
};

enum state { WAITING, CONNECTED, ENDING, CLOSED };

struct mr_socket {
    struct mr_port *port;
    const struct mr_session_ops *ops;
    void *session;
    void (*done)(void *session);
    enum state state;
    bool server;
    bool parked;           /* the session has the frame's message */
    const char *dropped;   /* why the connection is to end, NULL = it is not */
    char path[108];
    uint32_t retry_ms;
    struct mr_unix_file file;
    uv_poll_t *listener;   /* NULL = client */
    uv_poll_t *peer;       /* NULL = nobody */
    uv_timer_t timer;      /* what `state` waits for */
    uv_timer_t tick;
    uint32_t handles;      /* to be closed before the end */
    struct mr_frame frame;
    struct mr_outbox out;
};

static void on_timer(uv_timer_t *timer);
static void on_listener(uv_poll_t *poll, int status, int events);
static void on_peer(uv_poll_t *poll, int status, int events);

static int
poll_fd(const uv_poll_t *poll)
{
    uv_os_fd_t fd = -1;

    uv_fileno((const uv_handle_t *)poll, &fd);
    return fd;
}

static void
timer_set(struct mr_socket *s, uint64_t ms)
{
    uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* ---- Handles ---------------------------------------------------------- */

static void
handle_gone(struct mr_socket *s)
{
    if (--s->handles || s->state != CLOSED)
        return;
    s->done(s->session);
    free(s);
}

static void
on_timer_closed(uv_handle_t *handle)
{
    handle_gone(handle->data);
}

static void
on_poll_closed(uv_handle_t *handle)
{
    struct mr_socket *s = handle->data;

    free(handle);
    handle_gone(s);
}

static uv_poll_t *
poll_new(struct mr_socket *s, int fd)
{
    uv_poll_t *poll = malloc(sizeof(*poll));

    if (!poll || uv_poll_init(mr_loop_uv(), poll, fd)) {
        free(poll);
        return NULL;
    }
    poll->data = s;
    s->handles++;
    return poll;
}

/* Ends the handle and its fd. The other side sees that at once; messages that
 * were not read may hold up the close. */
static void
poll_end(uv_poll_t **poll)
{
    int fd;

    if (!*poll)
        return;
    fd = poll_fd(*poll);
    uv_poll_stop(*poll);
    uv_close((uv_handle_t *)*poll, on_poll_closed);
    shutdown(fd, SHUT_RDWR);
    mr_foreign_close(fd);
    *poll = NULL;
}

/* A parked session is not read from; what is unsent waits for room. */
static void
poll_update(struct mr_socket *s)
{
    int events = (s->parked ? 0 : UV_READABLE) |
                 (mr_outbox_empty(&s->out) ? 0 : UV_WRITABLE);

    if (!s->peer)
        return;
    if (events)
        uv_poll_start(s->peer, events, on_peer);
    else
        uv_poll_stop(s->peer);
}

/* ---- Begin and end of a connection ------------------------------------ */

static void
wait_peer(struct mr_socket *s)
{
    s->state = WAITING;
    if (s->server)
        uv_poll_start(s->listener, UV_READABLE, on_listener);
    else
        timer_set(s, s->retry_ms);
}

static void
session_closed(struct mr_socket *s)
{
    int rc = s->ops->closed ? s->ops->closed(s->session) : 0;

    if (s->state == CLOSED)
        return;
    if (rc == -EAGAIN)
        timer_set(s, PARKED_MS);
    else
        wait_peer(s);
}

/* rc 0: the peer left where it may. */
static void
connection_end(struct mr_socket *s, int rc, const char *why)
{
    if (s->state != CONNECTED)
        return;
    if (rc)
        mr_log_limited(&s->port->limit, MR_LOG_WARN, "%s: connection closed: "
                       "%s", s->port->name, why);
    else
        mr_log_limited(&s->port->limit, MR_LOG_INFO, "%s: peer left",
                       s->port->name);
    s->state = ENDING;
    s->parked = false;
    s->dropped = NULL;
    poll_end(&s->peer);
    uv_timer_stop(&s->timer);
    uv_timer_stop(&s->tick);
    mr_frame_fini(&s->frame);
    mr_outbox_clear(&s->out);
    session_closed(s);
}

static void
on_tick(uv_timer_t *timer)
{
    struct mr_socket *s = timer->data;
    int rc = s->ops->tick(s->session, s);

    if (rc)
        connection_end(s, rc, mr_error_text());
}

/* Takes fd over. */
static void
connection_begin(struct mr_socket *s, int fd)
{
    int rc;

    s->peer = poll_new(s, fd);
    if (!s->peer) {
        close(fd);
        timer_set(s, STARVED_MS);
        return;
    }
    if (s->server)
        uv_poll_stop(s->listener);
    s->state = CONNECTED;
    mr_log_limited(&s->port->limit, MR_LOG_INFO, "%s: peer connected",
                   s->port->name);
    mr_frame_init(&s->frame, s->frame.replies);
    poll_update(s);
    if (s->ops->tick)
        uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    rc = s->ops->open ? s->ops->open(s->session, s) : 0;
    if (rc)
        connection_end(s, rc, mr_error_text());
}

/* Without fds or memory the listener stays readable: pause instead of
 * spinning. */
static void
on_listener(uv_poll_t *poll, int status, int events)
{
    struct mr_socket *s = poll->data;
    int fd;

    (void)status;
    (void)events;
    fd = accept4(poll_fd(poll), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        connection_begin(s, fd);
        return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return;
    mr_log_limited(&s->port->limit, MR_LOG_WARN, "%s: cannot accept a peer "
                   "(%s)", s->port->name, mr_error_name(errno));
    uv_poll_stop(poll);
    timer_set(s, STARVED_MS);
}

static void
connect_try(struct mr_socket *s)
{
    int fd = mr_unix_connect(s->path);

    if (fd >= 0)
        connection_begin(s, fd);
    else
        timer_set(s, s->retry_ms);
}

/* ---- Messages --------------------------------------------------------- */

/* 1 = the message was served, 0 = it waits, or the connection is over. */
static int
message_serve(struct mr_socket *s)
{
    int rc = s->ops->input(s->session, s, &s->frame);

    if (s->state != CONNECTED)
        return 0;
    if (rc == -EAGAIN) {
        s->parked = true;
        poll_update(s);
        timer_set(s, PARKED_MS);
        return 0;
    }
    mr_frame_next(&s->frame);
    if (rc) {
        connection_end(s, rc, mr_error_text());
        return 0;
    }
    return s->dropped == NULL;
}

static uint32_t
fds_take(struct msghdr *msg, int *fds)
{
    uint32_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        uint32_t bytes = (uint32_t)(c->cmsg_len - CMSG_LEN(0));

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(fds + n, CMSG_DATA(c), bytes);
        n += bytes / sizeof(int);
    }
    return n;
}

/* One recvmsg of just the bytes that the frame wants (V5, V7). Returns what
 * mr_frame_take returned, -EAGAIN when nothing is there, -EPIPE at the end of
 * the stream. */
static int
receive(struct mr_socket *s)
{
    union {
        char bytes[CMSG_SPACE(FDS_SENT * sizeof(int))];
        struct cmsghdr align;
    } control;
    int fds[FDS_SENT + 1]; /* the padding of the control data has room, too */
    size_t len;
    void *to = mr_frame_want(&s->frame, &len);
    struct iovec iov = {to, len};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t got;

    do
        got = recvmsg(poll_fd(s->peer), &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return -EAGAIN;
    if (got < 0)
        return mr_error_set(-errno, "receive: %s", mr_error_name(errno));
    if (got == 0)
        return mr_frame_idle(&s->frame)
                   ? -EPIPE
                   : mr_error_set(-EPROTO, "end of stream inside of a message "
                                  "(V105)");
    return mr_frame_take(&s->frame, (size_t)got, fds, fds_take(&msg, fds),
                         msg.msg_flags & MSG_CTRUNC);
}

static void
on_readable(struct mr_socket *s)
{
    for (int i = 0; i < RECEIVES; i++) {
        int rc = receive(s);

        if (rc == -EAGAIN)
            return;
        if (rc < 0) {
            connection_end(s, rc == -EPIPE ? 0 : rc, mr_error_text());
            return;
        }
        if (rc && !message_serve(s))
            return;
    }
}

static void
on_peer(uv_poll_t *poll, int status, int events)
{
    struct mr_socket *s = poll->data;

    if (status < 0) { /* libuv calls every error of a socket EBADF */
        connection_end(s, status, "reset by the peer");
        return;
    }
    if (events & UV_WRITABLE) {
        int rc = mr_outbox_flush(&s->out, poll_fd(poll));

        if (rc) {
            connection_end(s, rc, mr_error_text());
            return;
        }
        poll_update(s);
    }
    if (events & UV_READABLE && !s->dropped)
        on_readable(s);
}

static void
on_timer(uv_timer_t *timer)
{
    struct mr_socket *s = timer->data;

    if (s->state == CONNECTED && s->dropped) {
        connection_end(s, -EPIPE, s->dropped);
    } else if (s->state == CONNECTED && s->parked) {
        s->parked = false;
        if (message_serve(s) || s->state == CONNECTED)
            poll_update(s);
    } else if (s->state == ENDING) {
        session_closed(s);
    } else if (s->state == WAITING && s->server) {
        wait_peer(s);
    } else if (s->state == WAITING) {
        connect_try(s);
    }
}

/* ---- For the session -------------------------------------------------- */

bool
mr_socket_connected(const struct mr_socket *s)
{
    return s->state == CONNECTED && !s->dropped;
}

void
mr_socket_drop(struct mr_socket *s, const char *why)
{
    if (s->state != CONNECTED || s->dropped)
        return;
    s->dropped = why;
    timer_set(s, 0);
}

int
mr_socket_send(struct mr_socket *s, const void *bytes, size_t len,
               const int *fds, uint32_t nfds)
{
    int rc;

    if (!mr_socket_connected(s))
        return mr_error_set(-ENOTCONN, "%s: there is no peer", s->port->name);
    rc = mr_outbox_send(&s->out, poll_fd(s->peer), bytes, len, fds, nfds);
    if (rc)
        mr_socket_drop(s, rc == -ENOBUFS ? "the peer does not read"
                                         : "the peer cannot be written to");
    poll_update(s);
    return rc;
}

/* ---- Open and close --------------------------------------------------- */

static int
listener_open(struct mr_socket *s, const struct mr_vhost_options *o)
{
    struct mr_unix_options options = {
        .path = o->path,
        .mode = o->mode,
        .owner = o->owner,
        .group = o->group,
    };
    int fd = mr_unix_listen(&options, &s->file);

    if (fd < 0)
        return fd;
    s->listener = poll_new(s, fd);
    if (!s->listener) {
        mr_unix_unlink(&s->file);
        close(fd);
        return mr_error_set(-ENOMEM, "%s: no memory to listen", o->path);
    }
    return 0;
}

static void
timer_init(struct mr_socket *s, uv_timer_t *timer)
{
    uv_timer_init(mr_loop_uv(), timer);
    timer->data = s;
    s->handles++;
}

int
mr_socket_open(struct mr_port *port, const struct mr_vhost_options *o,
               const struct mr_session_ops *ops, void *session, bool replies,
               struct mr_socket **out)
{
    struct mr_socket *s;
    int rc = mr_loop_open();

    if (!rc)
        rc = mr_unix_path_check(o->path);
    if (rc)
        return rc;
    s = calloc(1, sizeof(*s));
    if (!s)
        return mr_error_set(-ENOMEM, "%s: no memory for a socket", o->path);
    s->port = port;
    s->ops = ops;
    s->session = session;
    s->server = !o->connect;
    s->retry_ms = o->retry_ms ? o->retry_ms : RETRY_MS;
    mr_frame_init(&s->frame, replies);
    strcpy(s->path, o->path); /* its length was checked */
    if (s->server)
        rc = listener_open(s, o);
    if (rc) {
        free(s);
        return rc;
    }
    timer_init(s, &s->timer);
    timer_init(s, &s->tick);
    if (s->server)
        wait_peer(s);
    else
        timer_set(s, 0);
    *out = s;
    return 0;
}

void
mr_socket_close(struct mr_socket *s, void (*done)(void *session))
{
    bool open = s->state == CONNECTED || s->state == ENDING;

    s->done = done;
    s->state = CLOSED;
    mr_unix_unlink(&s->file);
    poll_end(&s->listener);
    poll_end(&s->peer);
    mr_frame_fini(&s->frame);
    mr_outbox_clear(&s->out);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    uv_close((uv_handle_t *)&s->tick, on_timer_closed);
    if (open && s->ops->closed)
        s->ops->closed(s->session);
}
