/* A virtio port whose peer is played by the test over a real socket: it leaves
 * or falls silent at any point of the handshake, and the port is closed at any
 * point of it. What must hold: nothing leaks, nothing hangs, and the next peer
 * is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "loop/loop.h"
#include "port/gate.h"
#include "proto/frontend.h"
#include "unit/eal.h"
#include "unit/fds.h"

enum {
    MESSAGES = 19, /* of a handshake with one pair and REPLY_ACK */
    ALL = 1000,
};

/* A back-end of few words. */
struct rogue {
    int listener;
    int peer;           /* -1 = nobody */
    uint32_t heard;     /* messages of this connection */
    uint32_t last;      /* request of the latest */
    uint32_t deaf_from; /* messages from this one on are not answered */
};

static char path[108];

static struct rogue
rogue_listen(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct rogue r = {.peer = -1, .deaf_from = ALL};

    unlink(path);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    r.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(r.listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(r.listener, 4), 0);
    return r;
}

static void
rogue_hang_up(struct rogue *r)
{
    if (r->peer >= 0)
        close(r->peer);
    r->peer = -1;
    r->heard = 0;
}

static void
rogue_end(struct rogue *r)
{
    rogue_hang_up(r);
    close(r->listener);
    unlink(path);
}

/* One message, whose fds are closed unseen; false when there is none. */
static bool
rogue_hear(struct rogue *r, struct mr_message *msg)
{
    char control[256];
    struct iovec iov = {&msg->request, MR_MESSAGE_HEADER};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};

    if (recvmsg(r->peer, &h, MSG_DONTWAIT) != MR_MESSAGE_HEADER)
        return false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
        close(*(int *)(void *)CMSG_DATA(c));
    if (msg->size)
        assert_int_equal(recv(r->peer, &msg->payload, msg->size, MSG_WAITALL),
                         msg->size);
    r->last = msg->request;
    r->heard++;
    return true;
}

static void
rogue_answer(struct rogue *r, const struct mr_message *msg)
{
    const struct mr_message_row *row = mr_message_row(msg->request);
    struct mr_message reply;

    if (row->reply == MR_PAYLOAD_NONE && !(msg->flags & MR_MESSAGE_NEED_REPLY))
        return;
    mr_message_reply(&reply, msg->request, 8);
    if (row->reply == MR_PAYLOAD_U64)
        reply.payload.u64 = UINT64_MAX;
    if (row->reply == MR_PAYLOAD_STATE)
        reply.payload.state.index = msg->payload.state.index;
    assert_int_equal(send(r->peer, mr_message_wire(&reply),
                          mr_message_bytes(&reply), MSG_NOSIGNAL),
                     mr_message_bytes(&reply));
}

/* A turn of the back-end: at most one message. */
static void
rogue_turn(struct rogue *r)
{
    struct mr_message msg;

    if (r->peer < 0)
        r->peer = accept(r->listener, NULL, NULL);
    if (r->peer >= 0 && rogue_hear(r, &msg) && r->heard <= r->deaf_from)
        rogue_answer(r, &msg);
}

/* Both sides take turns until `heard` messages came, or the port is up. */
static void
handshake(struct rogue *r, struct mr_port *port, uint32_t heard)
{
    uint64_t end = mr_now() + 10000000000ull;

    while (r->heard < heard && !mr_port_up(port)) {
        rogue_turn(r);
        mr_loop_run(r->peer < 0 ? 1000 : 0);
        if (mr_now() > end)
            fail_msg("%u of %u messages", r->heard, heard);
    }
}

static struct mr_port *
port_open(void)
{
    struct mr_vhost_options o = {
        .path = path, .connect = 1, .retry_ms = 1, .packed = -1,
        .mergeable = -1, .in_order = -1, .indirect = -1, .event_idx = -1,
        .order_platform = -1, .version_1 = -1,
    };
    struct mr_port *port;

    assert_int_equal(mr_virtio_open(&o, &port), 0);
    return port;
}

static void
a_peer_may_leave_after_any_message(void **state)
{
    struct rogue r = rogue_listen();
    struct mr_port *port = port_open();
    uint32_t home = mr_pool_available(mr_port_pool(port));
    int fds = 0;

    (void)state;
    for (uint32_t k = 0; k <= MESSAGES; k++) {
        handshake(&r, port, k);
        rogue_hang_up(&r);
        handshake(&r, port, ALL); /* the next connection is complete */
        assert_true(mr_port_up(port));
        rogue_hang_up(&r);
        while (mr_port_up(port))
            mr_loop_run(1000);
        assert_int_equal(mr_pool_available(mr_port_pool(port)), home);
        fds = fds ? fds : fds_open();
        assert_in_range(fds_open(), fds - 1, fds + 1); /* a try to connect */
    }
    assert_int_equal(mr_port_close(port), 0);
    rogue_end(&r);
}

static void
J1_a_port_may_be_closed_after_any_message(void **state)
{
    struct rogue r = rogue_listen();
    int fds = fds_open();

    (void)state;
    for (uint32_t k = 0; k < MESSAGES; k++) {
        struct mr_port *port = port_open();

        handshake(&r, port, k);
        assert_int_equal(mr_port_close(port), 0);
        rogue_hang_up(&r);
        while ((r.peer = accept(r.listener, NULL, NULL)) >= 0)
            rogue_hang_up(&r); /* of the backlog */
        assert_int_equal(fds_open(), fds);
    }
    rogue_end(&r);
}

static void
a_peer_that_is_silent_at_the_end_costs_a_bounded_time(void **state)
{
    struct rogue r = rogue_listen();
    int fds = fds_open();
    struct mr_port *port = port_open();

    (void)state;
    handshake(&r, port, ALL);
    assert_int_equal(mr_port_close(port), 0); /* returns */
    while (rogue_hear(&r, &(struct mr_message){0}))
        ;
    assert_int_equal(r.last, MR_REQ_GET_VRING_BASE); /* it was asked */
    rogue_hang_up(&r);
    assert_int_equal(fds_open(), fds);
    rogue_end(&r);
}

static void
V143_a_silent_peer_is_dropped_and_the_next_one_served(void **state)
{
    struct rogue r = rogue_listen();
    struct mr_port *port = port_open();
    uint64_t end = mr_now() + 2000000ull * MR_FRONTEND_ANSWER_MS;
    struct mr_port_info info;

    (void)state;
    r.deaf_from = 1;
    handshake(&r, port, 2);
    mr_log_level_set(MR_LOG_ERROR);
    do {
        mr_loop_run(10000);
        mr_port_info(port, &info);
        assert_true(mr_now() < end);
    } while (info.connected && info.connects == 1);
    mr_log_level_set(MR_LOG_WARN);
    rogue_hang_up(&r);
    r.deaf_from = ALL;
    handshake(&r, port, ALL);
    assert_true(mr_port_up(port));
    rogue_hang_up(&r);
    assert_int_equal(mr_port_close(port), 0);
    rogue_end(&r);
}

static int
setup(void **state)
{
    mr_gate_init();
    snprintf(path, sizeof(path), "/tmp/mr_rogue_%d.sock", (int)getpid());
    return mr_loop_open() ? -1 : eal_setup(state);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_may_leave_after_any_message),
        cmocka_unit_test(J1_a_port_may_be_closed_after_any_message),
        cmocka_unit_test(a_peer_that_is_silent_at_the_end_costs_a_bounded_time),
        cmocka_unit_test(V143_a_silent_peer_is_dropped_and_the_next_one_served),
    };
    int failed = cmocka_run_group_tests(tests, setup, NULL);

    mr_loop_close();
    return failed;
}
