#include "proto/vring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "proto/signal.h"

static void
vring_init(struct mr_vring *v)
{
    memset(v, 0, sizeof(*v));
    v->setup.call_fd = v->kick_fd = v->err_fd = -1;
}

/* Counters outlive sessions: what an earlier peer did is not this one's. */
static void
skips_sync(struct mr_vrings *rings, uint32_t r)
{
    const struct mr_queue *q = mr_vhost_queue(rings->vhost, r);

    for (uint32_t f = 0; f < MR_FAULT_COUNT; f++)
        rings->ring[r].skips[f] = mr_load(&q->counters.faults[f]);
}

struct mr_vrings *
mr_vrings_create(struct mr_vhost *vhost)
{
    uint32_t n = 2 * vhost->port.pairs;
    struct mr_vrings *rings =
        calloc(1, sizeof(*rings) + n * sizeof(struct mr_vring));

    if (!rings)
        return NULL;
    rings->vhost = vhost;
    rings->n = n;
    for (uint32_t r = 0; r < n; r++) {
        vring_init(&rings->ring[r]);
        skips_sync(rings, r);
    }
    return rings;
}

void
mr_vrings_forget(struct mr_vrings *rings)
{
    for (uint32_t r = 0; r < rings->n; r++) {
        struct mr_vring *v = &rings->ring[r];

        mr_signal_replace(&v->setup.call_fd, -1);
        mr_signal_replace(&v->kick_fd, -1);
        mr_signal_replace(&v->err_fd, -1);
        vring_init(v);
        skips_sync(rings, r);
    }
}

void
mr_vrings_destroy(struct mr_vrings *rings)
{
    if (rings)
        mr_vrings_forget(rings);
    free(rings);
}

/* "vhost0: ring 3 (rx 1)" */
static const char *
ring_name(const struct mr_vrings *rings, uint32_t r)
{
    static _Thread_local char name[112];

    snprintf(name, sizeof(name), "%s: ring %u (%s %u)",
             rings->vhost->port.name, r, r & 1 ? "rx" : "tx", r / 2);
    return name;
}

static struct mr_log_limit *
limit(struct mr_vrings *rings)
{
    return &rings->vhost->port.limit;
}

/* V53, without STATUS (V102). A missing call fd does not matter (V55). */
static bool
usable(const struct mr_vrings *rings, const struct mr_vring *v)
{
    return rings->vhost->memory && v->setup.size && v->addressed && v->kicked &&
           v->enabled && !v->broken;
}

uint32_t
mr_vring_base(const struct mr_vrings *rings, uint32_t r)
{
    const struct mr_vring *v = &rings->ring[r];

    if (v->based)
        return v->setup.base;
    return mr_ring_fresh_base(rings->vhost->features);
}

void
mr_vring_try(struct mr_vrings *rings, uint32_t r)
{
    struct mr_vring *v = &rings->ring[r];

    if (v->running || !usable(rings, v))
        return;
    v->setup.base = mr_vring_base(rings, r);
    if (mr_vhost_ring_start(rings->vhost, r, &v->setup)) {
        mr_log_limited(limit(rings), MR_LOG_WARN, "%s does not start: %s",
                       ring_name(rings, r), mr_error_text());
        mr_signal_raise(v->err_fd);
        skips_sync(rings, r);
        return;
    }
    v->based = v->live = v->running = true;
    v->told = MR_FAULT_NONE;
    mr_log_limited(limit(rings), MR_LOG_INFO, "%s runs, size %u",
                   ring_name(rings, r), v->setup.size);
    /* The driver may wait for a notification that an earlier start owed. */
    mr_signal_raise(v->setup.call_fd);
}

void
mr_vrings_try(struct mr_vrings *rings)
{
    for (uint32_t r = 0; r < rings->n; r++)
        mr_vring_try(rings, r);
}

int
mr_vring_stop(struct mr_vrings *rings, uint32_t r)
{
    struct mr_vring *v = &rings->ring[r];
    int rc;

    if (!v->running)
        return 0;
    rc = mr_vhost_ring_stop(rings->vhost, r);
    if (rc)
        return rc;
    v->running = false;
    v->broken = mr_vhost_ring_fault(rings->vhost, r);
    v->setup.base = mr_vhost_ring_base(rings->vhost, r);
    return 0;
}

int
mr_vrings_stop(struct mr_vrings *rings)
{
    int rc = 0;

    for (uint32_t r = 0; r < rings->n; r++)
        if (mr_vring_stop(rings, r))
            rc = -EAGAIN;
    return rc;
}

bool
mr_vrings_running(const struct mr_vrings *rings)
{
    for (uint32_t r = 0; r < rings->n; r++)
        if (rings->ring[r].running)
            return true;
    return false;
}

/* A ring that a burst is still in is left for the next tick; its gate is
 * closed already. */
static void
memory_lost(struct mr_vrings *rings)
{
    for (uint32_t r = 0; r < rings->n; r++) {
        struct mr_vring *v = &rings->ring[r];

        if (!v->running || mr_vring_stop(rings, r))
            continue;
        v->broken = MR_FAULT_MEMORY_LOST;
        mr_vhost_ring_break(rings->vhost, r, MR_FAULT_MEMORY_LOST);
    }
}

/* A broken ring, once for each fault. */
static void
fault_report(struct mr_vrings *rings, uint32_t r)
{
    struct mr_vring *v = &rings->ring[r];
    enum mr_fault fault =
        v->running ? mr_vhost_ring_fault(rings->vhost, r) : v->broken;
    const struct mr_fault_row *row;

    if (!fault || fault == v->told)
        return;
    row = mr_fault_row(fault);
    v->told = fault;
    mr_log_limited(limit(rings), MR_LOG_WARN, "%s stopped: %s: %s (%s); it "
                   "runs again when the peer sets it up anew",
                   ring_name(rings, r), row->name, row->text, row->rules);
    mr_signal_raise(v->err_fd);
}

/* Buffers that were given back unused since the last tick. */
static void
skips_report(struct mr_vrings *rings, uint32_t r)
{
    const struct mr_queue *q = mr_vhost_queue(rings->vhost, r);

    for (uint32_t f = MR_FAULT_NONE + 1; f < MR_FAULT_COUNT; f++) {
        const struct mr_fault_row *row = mr_fault_row(f);
        uint64_t now = mr_load(&q->counters.faults[f]);
        uint64_t new = now - rings->ring[r].skips[f];

        rings->ring[r].skips[f] = now;
        if (!new || row->broken)
            continue;
        mr_log_limited(limit(rings), MR_LOG_WARN, "%s: %llu buffers skipped: "
                       "%s: %s (%s)", ring_name(rings, r),
                       (unsigned long long)new, row->name, row->text,
                       row->rules);
    }
}

static int
unblock(struct mr_vrings *rings)
{
    bool held = false;

    for (uint32_t r = 0; r < rings->n; r++)
        if (rings->ring[r].running && mr_vhost_ring_unblock(rings->vhost, r))
            held = true;
    if (held)
        return mr_error_set(-EPROTO, "a call fd is blocking and full: the peer "
                            "does not read it (V41)");
    return 0;
}

int
mr_vrings_tick(struct mr_vrings *rings)
{
    const struct mr_memory *memory = rings->vhost->memory;
    int rc = unblock(rings);

    if (rc)
        return rc;
    mr_vhost_reap(rings->vhost);
    if (memory && mr_load(&memory->lost))
        memory_lost(rings);
    for (uint32_t r = 0; r < rings->n; r++) {
        mr_signal_drain(rings->ring[r].kick_fd);
        fault_report(rings, r);
        skips_report(rings, r);
    }
    return 0;
}
