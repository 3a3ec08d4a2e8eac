/* The rings of a session: running, stopping, memory that changes under them,
 * their fds, their faults. */
#include "unit/proto/peer.h"

#include <signal.h>

/* The guard's handler; cmocka puts its own in its place before every test. */
static struct sigaction guard;

static void
guard_find(void)
{
    struct mr_memory *m;

    assert_int_equal(mr_memory_create(NULL, NULL, 0, &m), 0);
    sigaction(SIGBUS, NULL, &guard);
    mr_memory_destroy(m);
}

/* ---- Rings that run ------------------------------------------------------ */

static void
b8_disable_and_enable_keep_the_position(void **state)
{
    uint64_t features = MODERN | MR_F(RING_PACKED);

    (void)state;
    bring_up(&p, features, 0x00050005);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 0), 0);
    assert_false(running(0));
    assert_int_equal(mr_port_up(&p.vhost->port), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_true(running(0));
    assert_int_equal(base_of(0), 0x00050005);
}

static void
get_vring_base_stops_and_a_kick_starts_again(void **state)
{
    (void)state;
    bring_up(&p, MODERN | MR_F(RING_PACKED), 0x80078007);
    assert_int_equal(base_of(1), 0x80078007);
    assert_int_equal(p.backend->rings->ring[1].kick_fd, -1);
    assert_int_equal(p.backend->rings->ring[1].setup.call_fd, -1);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_false(running(1));
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 1), 0);
    assert_true(running(1));
    assert_int_equal(base_of(1), 0x80078007);
}

static void
b2_a_packed_ring_without_base_is_fresh(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 100), 0);
    assert_int_equal(say_addr(&p, 0), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
    assert_true(running(0));
    assert_int_equal(base_of(0), 0x80008000);
}

static void
v44_a_new_call_fd_does_not_disturb_a_running_ring(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count = 0;

    (void)state;
    bring_up(&p, MODERN | MR_F(RING_PACKED), 0x00030003);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, fd), 0);
    assert_true(running(0));
    assert_int_equal(p.vhost->ring[0].notify_fd,
                     p.backend->rings->ring[0].setup.call_fd);
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
    assert_int_equal(p.vhost->ring[0].at.avail.pos, 3);
    assert_int_equal(read(fd, &count, 8), 8);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, -1), 0);
    assert_true(running(0));
    assert_int_equal(p.vhost->ring[0].notify_fd, -1);
    close(fd);
}

static void
v49_v132_setup_of_a_running_ring_is_fixed(void **state)
{
    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 128), -EBUSY);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_BASE, 0, 1), -EBUSY);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), -EBUSY);
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(p.vhost->ring[0].size, 256);
    assert_int_equal(p.vhost->features, MODERN);
    assert_true(running(0) && running(1));
}

static void
v48_same_addresses_do_not_stop_a_ring(void **state)
{
    struct mr_vring_addr a = {
        .index = 0,
        .flags = 1,
        .desc = part(0, 0),
        .avail = part(0, 1),
        .used = part(0, 2),
        .log = 0x1234,
    };

    (void)state;
    bring_up(&p, MODERN, 0);
    p.vhost->ring[0].at.avail.pos = 77; /* a restart would read it anew */
    assert_int_equal(say(&p, MR_REQ_SET_VRING_ADDR, 0, &a, sizeof(a), NULL, 0),
                     0);
    assert_int_equal(p.vhost->ring[0].at.avail.pos, 77);
}

static void
reset_owner_stops_and_disables_all(void **state)
{
    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_none(&p, MR_REQ_RESET_OWNER), 0);
    assert_false(running(0) || running(1));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 128), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_true(running(0));
    assert_int_equal(p.vhost->ring[0].size, 128);
}

/* ---- Memory -------------------------------------------------------------- */

static void
v63_new_memory_is_swapped_under_running_rings(void **state)
{
    struct mr_memory *old;

    (void)state;
    bring_up(&p, MODERN | MR_F(RING_PACKED), 0x00090009);
    old = p.vhost->memory;
    assert_int_equal(say_memory(&p), 0);
    assert_ptr_not_equal(p.vhost->memory, old);
    assert_ptr_equal(p.vhost->ring[0].memory, p.vhost->memory);
    assert_true(running(0) && running(1));
    assert_int_equal(base_of(0), 0x00090009);
}

static void
v129_a_bad_table_leaves_the_old_one_and_the_rings(void **state)
{
    struct mr_memory_table t = {.n = 5};
    struct mr_memory *old;
    int fds[5];
    int before;

    (void)state;
    bring_up(&p, MODERN, 0);
    before = fds_open();
    old = p.vhost->memory;
    for (uint32_t i = 0; i < 5; i++) {
        fds[i] = p.memory;
        t.region[i] = (struct mr_region_spec){i << 20, 1 << 20, i << 20, 0};
    }
    t.region[3].size = 2 << 20; /* overlaps and is beyond the file */
    for (int i = 0; i < 1000; i++)
        assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, 0, &t, 8 + 5 * 32, fds,
                             5), -EINVAL);
    assert_ptr_equal(p.vhost->memory, old);
    assert_true(running(0) && running(1));
    assert_int_equal(fds_open(), before);
}

static void
v66_a_ring_outside_the_new_memory_stops(void **state)
{
    struct mr_memory_table t = table();
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 1, err), 0);
    t.region[0].size = RING_STRIDE; /* ring 0 only */
    assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, 0, &t, 40, &p.memory, 1),
                     0);
    assert_true(running(0));
    assert_false(running(1));
    assert_int_equal(mr_vhost_ring_fault(p.vhost, 1), MR_FAULT_RING_SETUP);
    assert_int_equal(read(err, &count, 8), 8);
    assert_int_equal(say_memory(&p), 0);
    assert_true(running(1));
    close(err);
}

static void
v128_an_empty_table_takes_the_memory_away(void **state)
{
    struct mr_memory_table t = {0};

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say(&p, MR_REQ_SET_MEM_TABLE, 0, &t, 8, NULL, 0), 0);
    assert_int_equal(mr_port_up(&p.vhost->port), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
}

static void
v62_lost_memory_stops_the_rings_and_tells_the_peer(void **state)
{
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    sigaction(SIGBUS, &guard, NULL);
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 0, err), 0);
    assert_int_equal(ftruncate(p.memory, 0), 0);
    /* Any touch: the handler puts zeros there and marks the table. */
    assert_int_equal(*(volatile uint32_t *)p.vhost->ring[0].desc.split, 0);
    mr_backend_tick(p.backend);
    assert_false(running(0) || running(1));
    assert_int_equal(mr_vhost_ring_fault(p.vhost, 0), MR_FAULT_MEMORY_LOST);
    assert_int_equal(
        mr_vhost_queue(p.vhost, 0)->counters.faults[MR_FAULT_MEMORY_LOST], 1);
    assert_int_equal(read(err, &count, 8), 8);
    mr_backend_tick(p.backend);
    assert_true(read(err, &count, 8) < 0); /* once */
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_false(running(0));
    assert_int_equal(ftruncate(p.memory, MEMORY_BYTES), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_true(running(0) && running(1));
    close(err);
}

/* ---- Fds ----------------------------------------------------------------- */

static void
v142_repeated_fds_replace_the_old_ones(void **state)
{
    int before;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, 0), 0);
    before = fds_open();
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_CALL, 0), 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, 0), 0);
        assert_int_equal(say(&p, MR_REQ_SET_LOG_FD, 0, NULL, 0, &p.memory, 1),
                         0);
    }
    assert_int_equal(fds_open(), before);
}

static void
v86_after_a_session_nothing_is_left(void **state)
{
    int before = fds_open();

    (void)state;
    for (int i = 0; i < 100; i++) {
        bring_up(&p, MODERN, 0);
        assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_ERR, 0), 0);
        assert_int_equal(mr_backend_close(p.backend), 0);
        assert_int_equal(p.vhost->features, 0);
        assert_false(p.vhost->connected);
        assert_null(p.vhost->memory);
        assert_false(running(0));
        assert_int_equal(fds_open(), before);
        mr_backend_open(p.backend);
        assert_int_equal(say_addr(&p, 0), -EINVAL); /* V127 again */
    }
    assert_int_equal(p.vhost->connects, 101);
}

static void
v40_kicks_are_drained_from_eventfds_and_pipes(void **state)
{
    int kick = eventfd(0, EFD_CLOEXEC);
    uint64_t value = UINT64_MAX - 1;
    char bytes[8] = {0};
    int pipes[2];

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 0, kick), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 1, pipes[0]), 0);
    assert_int_equal(write(kick, &value, 8), 8);
    assert_int_equal(write(pipes[1], bytes, 8), 8);
    fcntl(kick, F_SETFL, 0); /* the peer's trick: blocking again */
    mr_backend_tick(p.backend);
    mr_backend_tick(p.backend);
    fcntl(kick, F_SETFL, O_NONBLOCK);
    assert_true(read(kick, &value, 8) < 0);
    assert_true(read(pipes[0], bytes, 8) < 0);
    close(kick);
    close(pipes[0]);
    close(pipes[1]);
}

/* V41, V145, V146: whatever the fd is, the session goes on. */
static void
v146_fds_that_are_no_signals_harm_nobody(void **state)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    int file = memory_new(4096);
    int directory = open("/", O_RDONLY | O_CLOEXEC);
    int ends[2];
    int fds[6];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    memcpy(fds, (int[]){null, zero, file, directory, ends[0], ends[1]},
           sizeof(fds));
    close(ends[0]);
    fds[4] = null;
    bring_up(&p, MODERN, 0);
    for (size_t i = 0; i < MR_COUNT_OF(fds); i++) {
        assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_KICK, 0, fds[i]), 0);
        assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_CALL, 0, fds[i]), 0);
        assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 0, fds[i]), 0);
        mr_vhost_ring_break(p.vhost, 0, MR_FAULT_HEAD);
        mr_backend_tick(p.backend);
    }
    close(null);
    close(zero);
    close(file);
    close(directory);
    close(ends[1]);
}

/* ---- Faults -------------------------------------------------------------- */

static void
c17_a_broken_ring_raises_err_once_and_stays_down(void **state)
{
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    bring_up(&p, MODERN, 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 1, err), 0);
    mr_vhost_ring_break(p.vhost, 1, MR_FAULT_HEAD); /* as the data path does */
    mr_backend_tick(p.backend);
    mr_backend_tick(p.backend);
    assert_int_equal(read(err, &count, 8), 8);
    assert_int_equal(count, 1);
    assert_int_equal(mr_port_up(&p.vhost->port), 0);
    /* Neither a pause nor new memory is a new setup. */
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 0), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_false(running(1));
    base_of(1);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 1), 0);
    assert_true(running(1));
    assert_int_equal(mr_port_up(&p.vhost->port), 1);
    close(err);
}

/* V123-V125, C20, C21: the ring does not start, the err fd says so, and the
 * session and the other ring go on. */
static void
v123_to_v125_bad_ring_parts_do_not_start(void **state)
{
    static const struct mr_vring_addr bad[] = {
        {.desc = 0, .avail = 0, .used = 0},
        {.desc = 0xfffffffffffffff0, .avail = 0xfffffffffffffffe,
         .used = 0xfffffffffffffffc},
        {.desc = USER_BASE, .avail = USER_BASE + 0x4000,
         .used = USER_BASE + MEMORY_BYTES - 0x800}, /* its end is outside */
        {.desc = USER_BASE, .avail = USER_BASE + 0x4000,
         .used = USER_BASE + MEMORY_BYTES},
        {.desc = USER_BASE - 16, .avail = USER_BASE + 0x4000,
         .used = USER_BASE + 0x8000},
        {.desc = USER_BASE, .avail = USER_BASE + 0x10,
         .used = USER_BASE + 0x8000}, /* inside of the descriptors */
        {.desc = GUEST_BASE, .avail = GUEST_BASE + 0x4000,
         .used = GUEST_BASE + 0x8000}, /* guest instead of user addresses */
    };
    int err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count;

    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES, MODERN), 0);
    assert_int_equal(say_memory(&p), 0);
    ring_setup(&p, 1, 256, 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 1, 1), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_NUM, 0, 256), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    assert_int_equal(say_eventfd(&p, MR_REQ_SET_VRING_KICK, 0), 0);
    assert_int_equal(say_fd(&p, MR_REQ_SET_VRING_ERR, 0, err), 0);
    for (size_t i = 0; i < MR_COUNT_OF(bad); i++) {
        assert_int_equal(say(&p, MR_REQ_SET_VRING_ADDR, 0, &bad[i], 40, NULL,
                             0), 0);
        assert_false(running(0));
        assert_true(running(1));
        assert_int_equal(read(err, &count, 8), 8);
        assert_int_equal(mr_vhost_ring_fault(p.vhost, 0), MR_FAULT_RING_SETUP);
    }
    assert_int_equal(say_addr(&p, 0), 0);
    assert_true(running(0));
    close(err);
}

static void
b6_a_packed_base_beyond_the_ring_does_not_start(void **state)
{
    (void)state;
    assert_int_equal(say_u64(&p, MR_REQ_SET_FEATURES,
                             MODERN | MR_F(RING_PACKED)), 0);
    assert_int_equal(say_memory(&p), 0);
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_ENABLE, 0, 1), 0);
    ring_setup(&p, 0, 100, 0x80648064);
    assert_false(running(0));
    assert_int_equal(say_state(&p, MR_REQ_SET_VRING_BASE, 0, 0x80638063), 0);
    assert_true(running(0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PEER(b8_disable_and_enable_keep_the_position),
        WITH_PEER(get_vring_base_stops_and_a_kick_starts_again),
        WITH_PEER(b2_a_packed_ring_without_base_is_fresh),
        WITH_PEER(v44_a_new_call_fd_does_not_disturb_a_running_ring),
        WITH_PEER(v49_v132_setup_of_a_running_ring_is_fixed),
        WITH_PEER(v48_same_addresses_do_not_stop_a_ring),
        WITH_PEER(reset_owner_stops_and_disables_all),
        WITH_PEER(v63_new_memory_is_swapped_under_running_rings),
        WITH_PEER(v129_a_bad_table_leaves_the_old_one_and_the_rings),
        WITH_PEER(v66_a_ring_outside_the_new_memory_stops),
        WITH_PEER(v128_an_empty_table_takes_the_memory_away),
        WITH_PEER(v62_lost_memory_stops_the_rings_and_tells_the_peer),
        WITH_PEER(v142_repeated_fds_replace_the_old_ones),
        WITH_PEER(v86_after_a_session_nothing_is_left),
        WITH_PEER(v40_kicks_are_drained_from_eventfds_and_pipes),
        WITH_PEER(v146_fds_that_are_no_signals_harm_nobody),
        WITH_PEER(c17_a_broken_ring_raises_err_once_and_stays_down),
        WITH_PEER(v123_to_v125_bad_ring_parts_do_not_start),
        WITH_PEER(b6_a_packed_base_beyond_the_ring_does_not_start),
    };

    guard_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
