/* A back-end that the test plays, for the front-end session: it answers as a
 * friendly peer would, but for the one answer that a test damages. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "proto/frontend.h"
#include "unit/eal.h"
#include "unit/fds.h"

enum { TRACE = 256, SECOND = 1000000000 };

/* The back-end that the test plays, and what it saw. */
struct bench {
    struct mr_virtio *v;
    struct mr_frontend fe;
    uint64_t now;
    uint64_t features;
    uint64_t protocol;
    uint64_t queues;
    /* Answer to damage: the first to this request; 0 = none. */
    uint32_t hostile;
    void (*damage)(struct mr_message *msg, uint32_t *nfds);
    bool silent; /* answers nothing */
    uint32_t n;
    struct mr_frontend_out seen[TRACE];
};

static inline struct bench
bench_open(uint32_t pairs, int32_t packed)
{
    struct mr_vhost_options o = {
        .pairs = pairs, .packed = packed, .mergeable = -1, .in_order = -1,
        .indirect = -1, .event_idx = -1, .order_platform = -1,
        .version_1 = -1, .size = 64,
    };
    struct bench b = {.features = ~0ull, .protocol = ~0ull,
                      .queues = pairs};

    assert_int_equal(mr_virtio_create(&o, &b.v), 0);
    mr_frontend_init(&b.fe, b.v);
    return b;
}

static inline void
bench_close(struct bench *b)
{
    assert_int_equal(mr_frontend_disconnected(&b->fe), 0);
    assert_int_equal(mr_port_close(&b->v->port), 0);
}

/* The answer of a friendly peer; false when the message has none. */
static inline bool
answer(const struct bench *b, const struct mr_message *request,
       struct mr_message *reply)
{
    uint64_t value = 0;

    if (request->request == MR_REQ_GET_FEATURES)
        value = b->features;
    else if (request->request == MR_REQ_GET_PROTOCOL_FEATURES)
        value = b->protocol;
    else if (request->request == MR_REQ_GET_QUEUE_NUM)
        value = b->queues;
    else if (request->request != MR_REQ_GET_VRING_BASE &&
             !(request->flags & MR_MESSAGE_NEED_REPLY))
        return false;
    mr_message_reply(reply, request->request, 8);
    reply->payload.u64 = value;
    if (request->request == MR_REQ_GET_VRING_BASE)
        reply->payload.state.index = request->payload.state.index;
    return true;
}

/* Carries messages to and fro until nothing is left to do or an error. */
static inline int
bench_run(struct bench *b)
{
    struct mr_message reply;
    struct mr_frontend_out *out;
    uint32_t nfds = 0;
    int rc;

    for (;;) {
        out = &b->seen[b->n];
        rc = mr_frontend_next(&b->fe, b->now, out);
        if (rc != 1)
            return rc;
        assert_true(++b->n < TRACE);
        if (b->silent || !answer(b, &out->msg, &reply))
            continue;
        if (b->hostile == out->msg.request) {
            b->hostile = 0;
            b->damage(&reply, &nfds);
        }
        rc = mr_frontend_receive(&b->fe, &reply, nfds);
        if (rc)
            return rc;
    }
}

static inline int
bench_connect(struct bench *b)
{
    b->n = 0;
    mr_frontend_connected(&b->fe, b->now);
    return bench_run(b);
}

/* "3 1 15 ..."; a request for an answer has a '?' behind it. */
static inline void
expect_trace(const struct bench *b, const char *want)
{
    char trace[4 * TRACE] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < b->n; i++)
        n += (size_t)snprintf(
            trace + n, sizeof(trace) - n, "%s%u%s", i ? " " : "",
            b->seen[i].msg.request,
            b->seen[i].msg.flags & MR_MESSAGE_NEED_REPLY ? "?" : "");
    assert_string_equal(trace, want);
}

static inline const struct mr_frontend_out *
seen(const struct bench *b, uint32_t request, uint32_t ring)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (b->seen[i].msg.request == request && !ring--)
            return &b->seen[i];
    fail_msg("request %u was not sent", request);
    return NULL;
}
