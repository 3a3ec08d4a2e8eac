/* The slow, obvious peer: the other end of a virtqueue, written straight from
 * the rules in virtqueues.md and virtio-net.md, to prove the core's rings.
 *
 * It shares nothing with the core but the wire layout, reaches guest memory
 * through a mapping of its own, handles one buffer at a time, and checks
 * everything that the other end writes. The first rule that the other end
 * breaks is kept as text in peer.error; every call fails from then on.
 *
 * A peer is the driver (against our device side) or the device (against our
 * driver side), of a split or a packed ring. The files: memory.c (guest
 * memory), driver.c and device.c (what both layouts have in common), split.c
 * and packed.c (the layouts), net.c (frames in buffers), notify.c (who must be
 * woken).
 *
 * Owner: one thread. Invariants: every shared word is loaded once; positions
 * live here and never in shared memory; guest memory is written only inside
 * buffers of our own (driver) or offered to us (device). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/layout.h"

enum {
    PEER_REGIONS = 8,
    PEER_PARTS = 320,  /* parts of one buffer */
    PEER_GAP = 8,      /* canary bytes after each part of our own buffers */
    PEER_CANARY = 0xc5,
    PEER_FRAME_MAX = 65600,
};

/* ---- Guest memory (memory.c) ------------------------------------------- */

struct peer_region {
    uint64_t guest;
    uint64_t size;
    uint64_t offset; /* in the file */
    uint64_t user;
};

struct peer_memory {
    int fd;
    uint8_t *map; /* the whole file, our mapping */
    size_t size;
    bool moats;   /* canaries lie between the regions */
    uint32_t n;
    struct peer_region region[PEER_REGIONS];
};

/* Makes a file of the regions, which lie in it in reverse order, and maps it.
 * Only guest and size are read; offset and user are filled in. False = no
 * memory. */
bool peer_memory_create(struct peer_memory *memory,
                        const struct peer_region *regions, uint32_t n);
/* Maps a file that the other end made: one region at `guest`. */
bool peer_memory_attach(struct peer_memory *memory, int fd, size_t size,
                        uint64_t guest);
void peer_memory_close(struct peer_memory *memory);
/* Did everybody stay inside the regions? */
bool peer_memory_intact(const struct peer_memory *memory);
/* Our address of `guest` and how many bytes follow there; NULL outside. */
uint8_t *peer_memory_at(const struct peer_memory *memory, uint64_t guest,
                        uint64_t *room);
/* Copies across region borders. False when part of it lies outside. */
bool peer_memory_read(const struct peer_memory *memory, uint64_t guest,
                      void *out, uint64_t len);
bool peer_memory_write(const struct peer_memory *memory, uint64_t guest,
                       const void *in, uint64_t len);
bool peer_memory_fill(const struct peer_memory *memory, uint64_t guest,
                      uint8_t byte, uint64_t len);

/* ---- Buffers ----------------------------------------------------------- */

struct peer_part {
    uint64_t addr;
    uint32_t len;
    bool write; /* device-writable */
};

/* A buffer: readable parts, then writable ones (C2). */
struct peer_list {
    uint32_t n;
    struct peer_part part[PEER_PARTS];
};

uint64_t peer_list_bytes(const struct peer_list *list, bool write);

/* How the driver lays a list into descriptors. */
enum peer_form {
    PEER_CHAIN,      /* one descriptor a part */
    PEER_TABLE,      /* one indirect descriptor */
    PEER_TAIL_TABLE, /* the first part chained to a table of the rest (S24) */
};

/* What is outstanding under an id. */
struct peer_record {
    bool out;
    uint16_t at;    /* split: head; packed: position of the first descriptor */
    uint16_t ndesc; /* descriptors in the ring */
    uint64_t readable, writable;
    uint32_t n;
    struct peer_part *part;
    uint64_t order; /* count of buffers made available before it */
    uint32_t slab;  /* driver, net.c: memory of the buffer */
};

/* A position. Split: runs free modulo 65536, wrap unused. */
struct peer_pos {
    uint16_t pos;
    bool wrap;
};

/* A completed buffer, as the driver sees it. */
struct peer_done {
    uint16_t id;
    uint64_t len; /* bytes written */
    struct peer_record record; /* its parts stay valid until the next offer */
};

enum peer_notify { PEER_QUIET, PEER_LOUD, PEER_EVENT, PEER_NOTIFY_COUNT };

/* Memory for frames: the driver's buffers (net.c). */
struct peer_slabs {
    uint64_t guest;
    uint32_t size;  /* bytes of one */
    uint32_t n;
    uint32_t *free; /* stack */
    uint32_t nfree;
};

/* ---- The peer ---------------------------------------------------------- */

struct peer;

/* What differs by layout (split.c, packed.c). */
struct peer_layout {
    /* Moves a position on by n: buffers (split), descriptors (packed). */
    void (*advance)(const struct peer *p, struct peer_pos *pos, uint32_t n);
    /* Driver: exposes n descriptors, whose flags say WRITE and INDIRECT only,
     * as one buffer; there is room. Returns its id. */
    uint16_t (*place)(struct peer *p, const struct mr_split_desc *desc,
                      uint32_t n);
    /* Driver: the used entry at p->used: 1, 0 = none, -1. */
    int (*peek)(struct peer *p, uint32_t *id, uint32_t *len);
    /* Driver: checks that the device left the buffer's descriptors alone, and
     * takes them back. 0 or -1. */
    int (*recover)(struct peer *p, const struct peer_record *record,
                   uint16_t id);
    /* Device: the next available buffer: 1, 0 = none, -1. Moves p->avail. */
    int (*take)(struct peer *p, struct peer_list *list, uint16_t *id);
    /* Device: writes a used entry; a packed one is exposed by that. */
    void (*write_used)(struct peer *p, struct peer_pos at, uint16_t id,
                       uint32_t len);
    /* Device: exposes what was written before p->used. */
    void (*publish)(struct peer *p);
    /* Device: checks that the driver left a buffer's descriptors alone, and
     * forgets them. 0 or -1. */
    int (*forget)(struct peer *p, uint16_t id);
};

extern const struct peer_layout peer_split, peer_packed;

struct peer {
    const struct peer_layout *layout;
    struct peer_memory *memory;
    bool driver;
    bool packed;
    bool to_driver; /* packets go from device to driver */
    bool own_header; /* driver must give the header its own descriptor (N19) */
    uint64_t features;
    uint32_t size;
    uint8_t header;
    void *part[3];  /* descriptors, driver area, device area: our mapping */

    struct peer_pos avail; /* next to make available / to take */
    struct peer_pos used;  /* next used entry to read / to write */
    struct peer_record *record; /* [size], by head (split) or id (packed) */
    uint16_t *queue;     /* [size] outstanding ids in available order, a ring */
    uint64_t queue_head; /* order of the oldest one */
    uint64_t queue_tail;
    uint32_t ndesc;      /* descriptors of the ring in use */
    uint16_t *free;      /* driver: free ids (packed), descriptors (split) */
    uint32_t nfree;
    uint16_t cursor;     /* split, in order: next descriptor (S38) */
    uint32_t batch;      /* driver: buffers left of a batch (S40, P44) */
    uint16_t batch_id;   /* its last buffer, and the length of that */
    uint32_t batch_len;
    struct mr_split_desc *shadow; /* [size] what each descriptor should hold;
                                   * packed: len and addr as there, flags in
                                   * flags, id in next */
    bool *held;          /* device, split: [size] descriptor is in a buffer */
    bool shuffle;        /* driver: ids in random order */

    struct peer_slabs slabs;
    enum peer_notify notify;
    struct peer_pos event; /* PEER_EVENT: the position that we named */
    bool decided; /* the other end made its first decision (S33, P42) */
    uint64_t random;
    char error[256];
};

struct peer_setup {
    struct peer_memory *memory;
    bool driver;
    bool to_driver;
    uint64_t features;
    uint32_t size;
    uint64_t guest[3]; /* ring parts */
    uint32_t base;     /* SET_VRING_BASE value to start at */
};

/* Starts a peer on ring parts that are zero but for the split used.idx and
 * avail.idx, which it sets to the base. False = no memory. */
bool peer_start(struct peer *p, const struct peer_setup *setup);
void peer_stop(struct peer *p);
/* Keeps the first error; returns -1. */
int peer_fail(struct peer *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Random number below n (> 0). */
uint32_t peer_random(struct peer *p, uint32_t n);
/* Buffers outstanding. */
uint32_t peer_outstanding(const struct peer *p);

/* Driver: descriptors of the ring that a list takes in a form. */
uint32_t peer_offer_descs(const struct peer_list *list, enum peer_form form);
/* Driver: exposes a buffer. `table`: guest address for an indirect table.
 * Returns its id, -1 when there is no room. */
int peer_offer(struct peer *p, const struct peer_list *list,
               enum peer_form form, uint64_t table);
/* Driver: next completion: 1, 0 = none, -1 = a rule was broken. */
int peer_reap(struct peer *p, struct peer_done *done);

/* Device: next buffer: 1, 0 = none, -1 = a rule was broken. */
int peer_take(struct peer *p, struct peer_list *list, uint16_t *id);
/* Device: completes buffers that belong together. */
void peer_complete(struct peer *p, const uint16_t *ids, const uint32_t *lens,
                   uint32_t n);
/* Device, in order: completes the n oldest buffers with one used entry. */
void peer_complete_batch(struct peer *p, uint32_t n, uint32_t len);

/* ---- Shared by the layouts (device.c) ---------------------------------- */

/* Device: checks flags and address of a part and appends it. 0 or -1. */
int peer_part_add(struct peer *p, struct peer_list *list, uint64_t addr,
                  uint32_t len, uint16_t flags);
/* Device: appends what an indirect table says. 0 or -1. */
int peer_table_add(struct peer *p, struct peer_list *list, uint64_t table,
                   uint32_t len);
/* Device: keeps a taken list under its id, if that is free. 0 or -1. */
int peer_record_add(struct peer *p, uint16_t id, const struct peer_list *list,
                    uint16_t at, uint32_t ndesc);

/* ---- Notifications (notify.c) ------------------------------------------ */

/* How this peer wants to be notified from now on. PEER_EVENT: when the other
 * end passes the position `ahead` buffers (split) or descriptors (packed)
 * after `from`; without EVENT_IDX the same as PEER_LOUD. A split ring with
 * EVENT_IDX knows events only: the other modes name `from` or one half of the
 * index space away, and must be set anew before each publication. */
void peer_notify_set(struct peer *p, enum peer_notify mode,
                     struct peer_pos from, uint32_t ahead);
/* Must the other end notify us when it publishes old..new? Notes that it made
 * its first decision. */
bool peer_notify_due(struct peer *p, struct peer_pos old, struct peer_pos new);
/* Checks the suppression words that the other end wrote for us; 0 or -1. */
int peer_notify_check(struct peer *p);

/* ---- Frames (net.c) ---------------------------------------------------- */

/* Ways to cut header and data into parts. X(name, what). */
#define PEER_CUTS(X)                                                           \
    X(whole, "header and data in one part")                                    \
    X(header, "header alone, then the data")                                   \
    X(few, "header with five bytes of data, then the rest")                    \
    X(straddle, "seven bytes of the header, then the rest")                    \
    X(bytes, "one part a header byte, then the data")                          \
    X(chain, "eight parts of about equal size")                                \
    X(empty, "empty parts first, in the middle and last")                      \
    X(random, "one to twelve parts of any size")

enum peer_cut {
#define PEER_X(name, what) PEER_CUT_##name,
    PEER_CUTS(PEER_X)
#undef PEER_X
    PEER_CUT_COUNT
};

/* How the driver builds its buffers. */
struct peer_shape {
    enum peer_cut cut;
    enum peer_form form;
};

/* Driver: divides [guest, guest + n * size) into memory for buffers. */
bool peer_slabs_set(struct peer *p, uint64_t guest, uint32_t size, uint32_t n);
/* Driver: sends a frame. 1 = exposed, 0 = no room. */
int peer_send(struct peer *p, const struct peer_shape *shape,
              const uint8_t *frame, uint32_t len);
/* Driver: takes back sent frames; how many, -1 = a rule was broken. */
int peer_sent(struct peer *p);
/* Driver: offers a buffer for `room` bytes of header and data. 1 or 0. */
int peer_post(struct peer *p, const struct peer_shape *shape, uint32_t room);
/* Driver: receives a frame, at most PEER_FRAME_MAX bytes: 1, 0 = none, -1.
 * *unused counts buffers that came back with length 0. */
int peer_receive(struct peer *p, uint8_t *frame, uint32_t *len,
                 uint32_t *unused);

/* Device: reads the frame of a taken buffer. 0 or -1. */
int peer_frame_read(struct peer *p, uint16_t id, uint8_t *frame,
                    uint32_t *len);
/* Device: writes header and frame into taken buffers, which are filled one
 * after the other; lens[i] gets the bytes in buffer i. 0, or -1 when they do
 * not fit. */
int peer_frame_write(struct peer *p, const uint16_t *ids, uint32_t n,
                     uint32_t *lens, const uint8_t *frame, uint32_t len);
/* Device: writes a frame into the oldest taken buffers (p->shuffle: into any)
 * and completes them. 1 = done, 0 = not enough buffers, -1 = a rule was
 * broken. */
int peer_give(struct peer *p, const uint8_t *frame, uint32_t len);
