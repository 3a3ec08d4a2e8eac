/* A vhost port: the device side of up to 128 queue pairs. It knows no socket
 * and no message; a session (proto/backend.c) tells it what the peer set up.
 *
 * Ring r belongs to queue pair r / 2; even rings are the driver's receive
 * queues, so our tx, odd ones our rx (virtio-net 1).
 *
 * Owner: control thread; workers enter through the gates. Invariants:
 *  1. The gate of ring r's queue is open only while the ring is started.
 *  2. `memory` is replaced only while every gate is closed (V63).
 *  3. Without a session no ring is started and `features` is 0 (V86).
 *  4. With zero_copy each rx ring that is not in order has a loan; a loan whose
 *     ring stopped is late until all of its packets are freed. */
#pragma once

#include "port/port.h"
#include "ring/ring.h"

struct mr_vhost {
    struct mr_port port;
    uint64_t offered;       /* feature bits that GET_FEATURES answers */
    uint64_t features;      /* negotiated */
    struct mr_memory *memory;
    struct mr_ring *ring;   /* [2 * pairs] */
    bool connected;
    uint32_t connects;
    uint64_t protocol_features;
    void *session;          /* the loop's */
    /* Ends the session, then calls mr_vhost_destroy, at once or later. */
    void (*on_close)(struct mr_vhost *vhost);
    const char *variant[2];
    struct mr_pool *lender; /* packets without buffers; NULL = no zero_copy */
    struct mr_loan *late;
};

/* Where a ring's parts are and how it is to be run: V53's list. */
struct mr_vhost_ring {
    uint32_t size;
    uint32_t base;
    uint64_t part[3]; /* user addresses: descriptors, driver, device area */
    int call_fd;      /* -1 = none; stays the session's */
};

/* Port with gates closed. Errors as mr_vhost_open, without the socket ones. */
int mr_vhost_create(const struct mr_vhost_options *options,
                    struct mr_vhost **vhost);
/* Frees the port; its gates are closed. Only for on_close. */
void mr_vhost_destroy(struct mr_vhost *vhost);
/* 0 when a peer may choose `features` (V131, N5), else EINVAL. MQ comes
 * without CTRL_VQ, whose queue the front-end serves itself (N102, N103). */
int mr_vhost_features_check(const struct mr_vhost *vhost, uint64_t features);
/* The queue that ring r (below 2 * pairs) serves. */
struct mr_queue *mr_vhost_queue(const struct mr_vhost *vhost, uint32_t r);
/* Stops ring r: 0 = the data path is out of it, -EAGAIN = a burst still runs,
 * or buffers of the ring are lent to packets, ask again (V56). Allowed on a
 * stopped ring. */
int mr_vhost_ring_stop(struct mr_vhost *vhost, uint32_t r);
/* True when a burst on ring r waits for a peer that does not take its
 * notifications; it is made to go on: mr_queue_unblock. */
bool mr_vhost_ring_unblock(const struct mr_vhost *vhost, uint32_t r);
/* Starts ring r, which is stopped: translates and checks its parts, chooses
 * the burst function, opens the gate (V47, V53, V68, V123-V125). Errors:
 * EINVAL with the rule in the text; the ring then stays stopped with
 * MR_FAULT_RING_SETUP. */
int mr_vhost_ring_start(struct mr_vhost *vhost, uint32_t r,
                        const struct mr_vhost_ring *setup);
/* Counts a fault that stops ring r, which is stopped already. */
void mr_vhost_ring_break(struct mr_vhost *vhost, uint32_t r,
                         enum mr_fault fault);
/* The fault that stopped ring r, MR_FAULT_NONE if none did. */
enum mr_fault mr_vhost_ring_fault(const struct mr_vhost *vhost, uint32_t r);
/* GET_VRING_BASE value of a stopped ring that was started before. */
uint32_t mr_vhost_ring_base(const struct mr_vhost *vhost, uint32_t r);
/* Changes the call fd of a ring in any state; a running one goes on with it
 * (V44). -EAGAIN = a burst still runs with the old one, ask again. */
int mr_vhost_ring_call(struct mr_vhost *vhost, uint32_t r, int fd);
/* Ends the late loans whose packets were freed meanwhile. From time to time. */
void mr_vhost_reap(struct mr_vhost *vhost);
/* Replaces the memory table; all rings must be stopped. Takes ownership; the
 * old one stays mapped while a late loan needs it. */
void mr_vhost_set_memory(struct mr_vhost *vhost, struct mr_memory *memory);
