/* A virtio port: the driver side of up to 128 queue pairs. It knows no socket
 * and no message; a session (proto/frontend.c) offers it what the peer offers,
 * tells the peer where its rings are, and says when they run.
 *
 * Ring r belongs to queue pair r / 2: even rings are receive queues, our rx,
 * odd ones transmit queues, our tx (virtio-net 1).
 *
 * One arena holds what the peer may see: rings, header slots, indirect tables
 * and packet bytes. Peers know it by addresses of its own, MR_VIRTIO_BASE and
 * up, for ring parts and descriptors alike, so they learn nothing about our
 * address space. Packet headers stay private.
 *
 * Life of ring r, each edge a function below; the gate of its queue is open
 * only in "running":
 *
 *   idle --prepare--> ready --open--> running --close--> closed
 *     ^                 |                                   |
 *     +------release----+--------------release--------------+
 *
 * Owner: control thread; workers enter through the gates. Invariants:
 *  1. A ring is set up from zeroed memory (S7, P3), and its receive buffers
 *     are posted (N4), before a peer is told about it.
 *  2. Rings never resume: a new session finds fresh rings, packets that were
 *     in flight are back in the pool (V88, V90). */
#pragma once

#include "mem/arena.h"
#include "port/port.h"
#include "ring/ring.h"

/* Where the arena begins in the peer's eyes. */
#define MR_VIRTIO_BASE 0x100000000ull

/* What stays with a ring from open to close. */
struct mr_virtio_ring {
    void *part[3]; /* descriptors, driver area, device area */
    void *tables;  /* header slots and indirect tables */
    /* New for every session, -1 before the first. */
    int kick_fd; /* we write: buffers are available */
    int call_fd; /* the peer writes: buffers were used */
};

struct mr_virtio {
    struct mr_port port;
    struct mr_arena arena;
    uint64_t delta; /* the peer's address = pointer - delta */
    struct mr_virtio_ring *parts; /* [2 * pairs] */
    struct mr_ring *ring;         /* [2 * pairs] */
    uint32_t size;                /* entries of every ring */
    bool keep_num_buffers;        /* see mr_ring_config */
    uint32_t active;              /* pairs that the peer serves too */
    uint64_t wanted;              /* feature bits taken when offered */
    uint64_t required;            /* of these, what we do not go without */
    uint64_t features;            /* negotiated, 0 without a peer */
    uint64_t protocol_features;
    bool connected;
    uint32_t connects;
    uint8_t mac[6];
    void *session; /* the loop's */
    /* Ends the session, then calls mr_virtio_destroy, at once or later. */
    void (*on_close)(struct mr_virtio *virtio);
    const char *variant[2];
};

/* Opens a port without a peer: arena, rings and pool; gates closed.
 * The port is closed by mr_port_close. Errors: EINVAL (an option out of range,
 * S1, P1), ENOMEM. */
int mr_virtio_create(const struct mr_vhost_options *options,
                     struct mr_virtio **virtio);
/* Frees the port; its gates are closed. Only for on_close. */
void mr_virtio_destroy(struct mr_virtio *virtio);

/* Chooses from the bits that the peer offers and stores the choice in
 * `features` (N5, N7, N103); all rings are idle. Errors: EPROTO when the peer
 * lacks a feature that the options require: which, in the text. */
int mr_virtio_negotiate(struct mr_virtio *virtio, uint64_t offered);
/* The memory that the peer has to map: one region; the fd stays the port's. */
void mr_virtio_region(const struct mr_virtio *virtio,
                      struct mr_region_spec *spec, int *fd);
/* The peer's address for part 0..2 of ring r. */
uint64_t mr_virtio_ring_part(const struct mr_virtio *virtio, uint32_t r,
                             int part);
/* SET_VRING_BASE value of a fresh ring (B2). */
uint32_t mr_virtio_ring_base(const struct mr_virtio *virtio);

/* idle -> ready: zeroes the ring's memory, makes new eventfds, chooses the
 * burst function and posts receive buffers. Errors, the ring then is idle:
 * EINVAL, ENOMEM, EMFILE. */
int mr_virtio_ring_prepare(struct mr_virtio *virtio, uint32_t r);
/* ready -> running: kicks once (V91) and opens the gate. */
void mr_virtio_ring_open(struct mr_virtio *virtio, uint32_t r);
/* True when a burst on ring r waits for a peer that does not take its kicks;
 * it is made to go on: mr_queue_unblock. */
bool mr_virtio_ring_unblock(const struct mr_virtio *virtio, uint32_t r);
/* running -> closed: 0 = the data path is out of it, -EAGAIN = a burst still
 * runs, ask again. Allowed in every state. */
int mr_virtio_ring_close(struct mr_virtio *virtio, uint32_t r);
/* ready or closed -> idle: frees the packets that are out; those that the peer
 * had not taken yet count as `down`. Allowed on an idle ring. */
void mr_virtio_ring_release(struct mr_virtio *virtio, uint32_t r);
