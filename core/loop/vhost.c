/* A vhost port on a socket: the back-end session fed by loop/socket.c.
 *
 * Owner: control thread. A port that closes takes its session along; the link
 * between them stays until the loop has forgotten the socket. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "loop/socket.h"
#include "proto/backend.h"

struct link {
    struct mr_vhost *vhost;
    struct mr_backend *backend;
    struct mr_socket *socket;
};

static int
on_open(void *session, struct mr_socket *socket)
{
    struct link *l = session;

    (void)socket;
    mr_backend_open(l->backend);
    return 0;
}

static int
on_input(void *session, struct mr_socket *socket, struct mr_frame *frame)
{
    struct link *l = session;
    struct mr_message reply;
    int rc = mr_backend_input(l->backend, frame, &reply);

    if (rc != 1)
        return rc;
    return mr_socket_send(socket, mr_message_wire(&reply),
                          mr_message_bytes(&reply), NULL, 0);
}

static int
on_closed(void *session)
{
    struct link *l = session;

    return mr_backend_close(l->backend);
}

static int
on_tick(void *session, struct mr_socket *socket)
{
    struct link *l = session;

    (void)socket;
    return mr_backend_tick(l->backend);
}

static const struct mr_session_ops session_ops = {
    .open = on_open,
    .input = on_input,
    .closed = on_closed,
    .tick = on_tick,
};

/* All gates are closed, so the session ends at once. */
static void
port_close(struct mr_vhost *vhost)
{
    struct link *l = vhost->session;

    mr_socket_close(l->socket, free);
    mr_backend_destroy(l->backend);
    mr_vhost_destroy(vhost);
}

static int
link_open(struct link *l, const struct mr_vhost_options *options)
{
    int rc = mr_vhost_create(options, &l->vhost);

    if (!rc)
        rc = mr_backend_create(l->vhost, &l->backend);
    if (!rc)
        rc = mr_socket_open(&l->vhost->port, options, &session_ops, l, false,
                            &l->socket);
    return rc;
}

int
mr_vhost_open(const struct mr_vhost_options *options, struct mr_port **port)
{
    struct link *l = calloc(1, sizeof(*l));
    int rc;

    if (!l)
        return mr_error_set(-ENOMEM, "no memory for a port");
    rc = link_open(l, options);
    if (rc) {
        mr_backend_destroy(l->backend);
        if (l->vhost)
            mr_vhost_destroy(l->vhost);
        free(l);
        return rc;
    }
    l->vhost->session = l;
    l->vhost->on_close = port_close;
    *port = &l->vhost->port;
    return 0;
}
