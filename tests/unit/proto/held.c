/* V41: a peer that shares a notification fd makes it blocking and full, on
 * either side of the ring, while a burst is about to write it. */
#include "unit/proto/peer.h"

#include <pthread.h>

#include "base/process.h"
#include "port/virtio.h"

static const uint64_t most = UINT64_MAX - 1;
static int held; /* the fd */

/* A burst that does nothing but notify. */
static uint32_t
burst_notify(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    (void)ctx;
    (void)pkts;
    (void)n;
    if (write(held, &(uint64_t){1}, 8) < 0)
        return 0;
    return 0;
}

static void *
worker(void *arg)
{
    struct mr_queue *q = arg;
    struct mr_burst burst = {.cap = 1};

    assert_int_equal(mr_queue_claim(q), 0);
    mr_queue_try_recv(q, &burst);
    mr_queue_release(q);
    return NULL;
}

/* Has a worker wait in a burst on `q`, in a write to `fd`. */
static pthread_t
hold(struct mr_queue *q, int fd)
{
    pthread_t thread;

    held = fd;
    q->burst = burst_notify;
    fcntl(fd, F_SETFL, 0);
    assert_int_equal(write(fd, &most, sizeof(most)), sizeof(most));
    assert_int_equal(pthread_create(&thread, NULL, worker, q), 0);
    while (!mr_load_acquire(&q->gate.inside))
        usleep(100);
    usleep(5000);
    assert_true(mr_load_acquire(&q->gate.inside));
    return thread;
}

#define WITHIN_A_SECOND(condition)                                             \
    for (int tries_ = 0; !(condition); tries_++) {                             \
        assert_true(tries_ < 1000);                                            \
        usleep(1000);                                                          \
    }

static void
v41_the_session_of_a_full_call_fd_ends(void **state)
{
    struct mr_queue *q;
    pthread_t thread;
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 1, fd), 0);
    assert_int_equal(mr_backend_tick(p.backend), 0);
    assert_int_equal(read(fd, &(uint64_t){0}, 8), 8); /* its first call */
    q = mr_vhost_queue(p.vhost, 1);
    thread = hold(q, fd);
    assert_int_equal(mr_backend_tick(p.backend), -EPROTO);
    assert_non_null(strstr(mr_error_text(), "V41"));
    WITHIN_A_SECOND(!mr_backend_close(p.backend));
    pthread_join(thread, NULL);
    assert_false(mr_load(&q->gate.inside));
    close(fd);
    mr_backend_open(p.backend);
    bring_up(&p, MODERN, 0); /* the next peer is served */
}

static void
v41_a_parked_message_waits_for_the_tick_only(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    pthread_t thread;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 1, fd), 0);
    assert_int_equal(read(fd, &(uint64_t){0}, 8), 8);
    thread = hold(mr_vhost_queue(p.vhost, 1), fd);
    put(&p, MR_REQ_GET_VRING_BASE, 0, &(struct mr_vring_state){1, 0}, 8, NULL,
        0);
    WITHIN_A_SECOND(serve(&p) == 1);
    pthread_join(thread, NULL);
    close(fd);
}

static void
v41_full_err_and_call_fds_do_not_hold_the_control_thread(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(write(fd, &most, sizeof(most)), sizeof(most));
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 1, fd), 0);
    fcntl(fd, F_SETFL, 0);
    mr_vhost_ring_break(p.vhost, 1, MR_FAULT_HEAD);
    assert_int_equal(mr_backend_tick(p.backend), 0);
    fcntl(fd, F_SETFL, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, fd), 0);
    fcntl(fd, F_SETFL, 0);
    assert_int_equal(base_of(0), 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
    close(fd);
}

static void
v41_a_full_kick_fd_holds_neither_side_of_a_virtio_port(void **state)
{
    struct mr_vhost_options o = defaults();
    struct mr_virtio *v;
    pthread_t thread;
    int fd;

    (void)state;
    o.packets = 0;
    assert_int_equal(mr_virtio_create(&o, &v), 0);
    assert_int_equal(mr_virtio_negotiate(v, MODERN), 0);
    assert_int_equal(mr_virtio_ring_prepare(v, 0), 0);
    fd = v->parts[0].kick_fd;
    while (read(fd, &(uint64_t){0}, 8) == 8) /* receive buffers were told */
        continue;
    assert_int_equal(write(fd, &most, sizeof(most)), sizeof(most));
    fcntl(fd, F_SETFL, 0);
    mr_virtio_ring_open(v, 0);
    assert_false(mr_virtio_ring_unblock(v, 0));
    assert_int_equal(read(fd, &(uint64_t){0}, 8), 8);
    thread = hold(mr_port_queue(&v->port, MR_RX, 0), fd);
    assert_true(mr_virtio_ring_unblock(v, 0));
    WITHIN_A_SECOND(!mr_virtio_ring_close(v, 0));
    pthread_join(thread, NULL);
    mr_virtio_ring_release(v, 0);
    mr_port_close(&v->port);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PEER(v41_the_session_of_a_full_call_fd_ends),
        WITH_PEER(v41_a_parked_message_waits_for_the_tick_only),
        WITH_PEER(v41_full_err_and_call_fds_do_not_hold_the_control_thread),
        cmocka_unit_test(
            v41_a_full_kick_fd_holds_neither_side_of_a_virtio_port),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
