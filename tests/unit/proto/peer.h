/* A front-end for tests of the back-end session: it speaks in messages, owns a
 * piece of "guest memory", and counts what the process holds. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "proto/backend.h"
#include "unit/eal.h"
#include "unit/fds.h"

#define GUEST_BASE 0x100000ull     /* guest address of the memory */
#define USER_BASE 0x7f0000000000ull /* user address of the memory */
#define MEMORY_BYTES (1u << 20)
#define RING_STRIDE 0x10000u        /* between the rings' parts */

struct peer {
    struct mr_vhost *vhost;
    struct mr_backend *backend;
    struct mr_frame frame;
    struct mr_message reply;
    int memory; /* memfd */
    uint8_t *map;
};

static inline int
memory_new(size_t size)
{
    int fd = memfd_create("guest", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static inline struct mr_vhost_options
defaults(void)
{
    return (struct mr_vhost_options){
        .pairs = 1,
        .packed = -1,
        .mergeable = -1,
        .in_order = -1,
        .indirect = -1,
        .event_idx = -1,
        .order_platform = -1,
        .version_1 = -1,
        .packets = 512,
    };
}

static inline void
peer_open(struct peer *p, const struct mr_vhost_options *options)
{
    eal_start();
    memset(p, 0, sizeof(*p));
    assert_int_equal(mr_vhost_create(options, &p->vhost), 0);
    assert_int_equal(mr_backend_create(p->vhost, &p->backend), 0);
    mr_frame_init(&p->frame, false);
    p->memory = memory_new(MEMORY_BYTES);
    p->map = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                  p->memory, 0);
    assert_ptr_not_equal(p->map, MAP_FAILED);
    mr_backend_open(p->backend);
}

static inline void
peer_close(struct peer *p)
{
    assert_int_equal(mr_backend_close(p->backend), 0);
    mr_frame_fini(&p->frame);
    mr_backend_destroy(p->backend);
    assert_int_equal(mr_port_close(&p->vhost->port), 0);
    munmap(p->map, MEMORY_BYTES);
    close(p->memory);
}

/* Puts a message into the frame as a socket would; fds are duplicated. */
static inline void
put(struct peer *p, uint32_t request, uint32_t flags, const void *payload,
    uint32_t size, const int *fds, uint32_t nfds)
{
    uint32_t header[3] = {request, 1 | flags, size};
    int copies[MR_MESSAGE_FDS];
    size_t len;
    void *to = mr_frame_want(&p->frame, &len);
    int rc;

    assert_int_equal(len, sizeof(header));
    memcpy(to, header, len);
    for (uint32_t i = 0; i < nfds; i++) {
        copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        assert_true(copies[i] >= 0);
    }
    rc = mr_frame_take(&p->frame, len, copies, nfds, false);
    if (size) {
        assert_int_equal(rc, 0);
        to = mr_frame_want(&p->frame, &len);
        assert_int_equal(len, size);
        memcpy(to, payload, size);
        rc = mr_frame_take(&p->frame, len, NULL, 0, false);
    }
    assert_int_equal(rc, 1);
}

/* Sends a message and returns what the session answered; a parked one stays
 * in the frame. */
static inline int
serve(struct peer *p)
{
    int rc = mr_backend_input(p->backend, &p->frame, &p->reply);

    if (rc != -EAGAIN)
        mr_frame_next(&p->frame);
    return rc;
}

static inline int
say(struct peer *p, uint32_t request, uint32_t flags, const void *payload,
    uint32_t size, const int *fds, uint32_t nfds)
{
    put(p, request, flags, payload, size, fds, nfds);
    return serve(p);
}

static inline int
say_none(struct peer *p, uint32_t request)
{
    return say(p, request, 0, NULL, 0, NULL, 0);
}

static inline int
say_u64(struct peer *p, uint32_t request, uint64_t value)
{
    return say(p, request, 0, &value, sizeof(value), NULL, 0);
}

static inline int
say_state(struct peer *p, uint32_t request, uint32_t index, uint32_t num)
{
    struct mr_vring_state state = {index, num};

    return say(p, request, 0, &state, sizeof(state), NULL, 0);
}

static inline int
say_fd(struct peer *p, uint32_t request, uint32_t ring, int fd)
{
    uint64_t word = ring | (fd < 0 ? MR_FD_WORD_NONE : 0);

    return say(p, request, 0, &word, sizeof(word), &fd, fd >= 0);
}

/* A fresh eventfd that the session gets a copy of; ours is closed. */
static inline int
say_eventfd(struct peer *p, uint32_t request, uint32_t ring)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = say_fd(p, request, ring, fd);

    close(fd);
    return rc;
}

static inline struct mr_memory_table
table(void)
{
    return (struct mr_memory_table){
        .n = 1,
        .region[0] = {GUEST_BASE, MEMORY_BYTES, USER_BASE, 0},
    };
}

static inline int
say_memory(struct peer *p)
{
    struct mr_memory_table t = table();

    return say(p, MR_REQ_SET_MEM_TABLE, 0, &t, 8 + 32, &p->memory, 1);
}

/* Where test rings have their parts: descriptors, driver, device area. */
static inline uint64_t
part(uint32_t ring, int i)
{
    static const uint32_t at[3] = {0, 0x4000, 0x8000};

    return USER_BASE + ring * RING_STRIDE + at[i];
}

static inline int
say_addr(struct peer *p, uint32_t ring)
{
    struct mr_vring_addr a = {
        .index = ring,
        .desc = part(ring, 0),
        .avail = part(ring, 1),
        .used = part(ring, 2),
    };

    return say(p, MR_REQ_SET_VRING_ADDR, 0, &a, sizeof(a), NULL, 0);
}

#define MODERN (MR_F(VERSION_1) | MR_F(PROTOCOL_FEATURES))

static inline void
ring_setup(struct peer *p, uint32_t ring, uint32_t size, uint32_t base)
{
    assert_int_equal(say_state(p, MR_REQ_SET_VRING_NUM, ring, size), 0);
    assert_int_equal(say_state(p, MR_REQ_SET_VRING_BASE, ring, base), 0);
    assert_int_equal(say_addr(p, ring), 0);
    assert_int_equal(say_eventfd(p, MR_REQ_SET_VRING_KICK, ring), 0);
    assert_int_equal(say_eventfd(p, MR_REQ_SET_VRING_CALL, ring), 0);
}

/* Everything up to two running rings. */
static inline void
bring_up(struct peer *p, uint64_t features, uint32_t base)
{
    assert_int_equal(say_u64(p, MR_REQ_SET_FEATURES, features), 0);
    assert_int_equal(say_memory(p), 0);
    for (uint32_t r = 0; r < 2; r++)
        ring_setup(p, r, 256, base);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(say_state(p, MR_REQ_SET_VRING_ENABLE, r, 1), 0);
    assert_int_equal(mr_port_up(&p->vhost->port), 1);
}

/* ---- The peer of a test ------------------------------------------------ */

static struct peer p;

static inline int
open_default(void **state)
{
    struct mr_vhost_options options = defaults();

    (void)state;
    peer_open(&p, &options);
    return 0;
}

static inline int
close_default(void **state)
{
    (void)state;
    peer_close(&p);
    return 0;
}

static inline bool
running(uint32_t r)
{
    return p.backend->rings->ring[r].running;
}

static inline uint32_t
base_of(uint32_t r)
{
    assert_int_equal(say_state(&p, MR_REQ_GET_VRING_BASE, r, 0), 1);
    assert_int_equal(p.reply.size, 8);
    assert_int_equal(p.reply.flags, 5);
    assert_int_equal(p.reply.payload.state.index, r);
    return p.reply.payload.state.num;
}

#define WITH_PEER(f) cmocka_unit_test_setup_teardown(f, open_default,          \
                                                     close_default)
