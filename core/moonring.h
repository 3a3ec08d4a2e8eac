/* Moonring's public interface, for C and for LuaJIT alike.
 *
 * `cc -E -P -DMR_CDEF` turns this file into the one FFI declaration of the
 * project, so it holds only what a cdef may hold once the preprocessor is
 * done: enums, structs and function declarations.
 *
 * Words: a port is something packets enter and leave by; a queue is one
 * direction of a port (rx = into Moonring, tx = out of Moonring, on both
 * sides of a virtqueue); a burst is an array of packets. Calls on ports,
 * pools and tasks belong to the control thread; calls on queues and bursts
 * belong to the thread that claimed the queue.
 *
 * Functions that can fail return 0 or a positive value for success and a
 * negative errno value otherwise; mr_error_text() then tells what happened to
 * which object and what mends it. */
#ifndef MOONRING_H
#define MOONRING_H

#ifndef MR_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

enum {
    MR_BURST_MAX = 256,   /* packets in one burst */
    MR_HEADROOM = 128,    /* bytes before the data of a fresh packet */
    MR_PAIRS_MAX = 128,   /* queue pairs of one port */
    MR_FRAME_MAX = 65557, /* Ethernet, two tags, 64 KiB - 1 of payload */
    MR_FRAME_MIN = 14,    /* an Ethernet header */
};

/* ---- Packets ---------------------------------------------------------- */

/* A packet segment: a mirror of DPDK's rte_mbuf (offsets are asserted in
 * mem/packet.c). The bytes are at buf_addr + data_off, data_len of them;
 * a longer packet continues in `next`. */
struct mr_pkt {
    uint8_t *buf_addr;
    uint64_t buf_iova;
    uint16_t data_off;
    uint16_t refcnt;
    uint16_t nb_segs;
    uint16_t port;
    uint64_t ol_flags;
    uint32_t packet_type;
    uint32_t pkt_len; /* bytes in all segments */
    uint16_t data_len; /* bytes in this segment */
    uint16_t vlan_tci;
    uint32_t hash[2];
    uint16_t vlan_tci_outer;
    uint16_t buf_len;
    void *pool;
    struct mr_pkt *next;
    uint64_t tx_offload;
    void *shinfo;
    uint16_t priv_size;
    uint16_t timesync;
    uint32_t dynfield1[9];
};

/* Packets that travel together. The packets pkt[0..n) belong to whoever holds
 * the burst; the rest of the array is undefined. */
struct mr_burst {
    uint32_t n;
    uint32_t cap; /* 1..MR_BURST_MAX */
    struct mr_pkt *pkt[MR_BURST_MAX];
};

/* A pool of packets, all of one buffer size. */
struct mr_pool;

struct mr_pool_options {
    uint32_t packets; /* 0 = 8192; at most 2^22 */
    uint32_t size;    /* data bytes of one buffer: 64..32768, 0 = 2048 */
    uint32_t cache;   /* packets kept by each thread: 1..512, 0 = 256 */
};

/* Creates a pool. *pool belongs to the caller until mr_pool_free. Errors:
 * EINVAL (a value out of range), ENOMEM. */
int mr_pool_create(const struct mr_pool_options *options,
                   struct mr_pool **pool);
/* Gives the pool back once all of its packets are home. Packets still out keep
 * it: EBUSY, with their number in the text; call again later. */
int mr_pool_free(struct mr_pool *pool);
/* Packets in the pool, and of them not in use now. */
uint32_t mr_pool_size(const struct mr_pool *pool);
uint32_t mr_pool_available(const struct mr_pool *pool);
/* Data bytes of one buffer. */
uint32_t mr_pool_buffer(const struct mr_pool *pool);
/* Bytes that mr_pool_alloc puts into each packet, at most the buffer size;
 * copied. len 0 = packets come empty. */
int mr_pool_template(struct mr_pool *pool, const void *bytes, uint32_t len);
/* Replaces the burst's content by `n` (0 = its capacity) packets of the pool.
 * All or none: returns the number, 0 when the pool is short. Packets in the
 * burst are freed first. */
uint32_t mr_pool_alloc(struct mr_pool *pool, struct mr_burst *burst,
                       uint32_t n);
/* Frees the packets of a burst, chains included, and empties it. */
void mr_burst_free(struct mr_burst *burst);
/* Frees one packet with all of its segments. NULL is allowed. */
void mr_pkt_free(struct mr_pkt *pkt);
/* Appends / removes bytes at the end of the packet; returns the address of the
 * first new byte (append) or 0 / a negative code (trim). The last segment must
 * have the room: NULL / EINVAL otherwise. */
uint8_t *mr_pkt_append(struct mr_pkt *pkt, uint32_t len);
int mr_pkt_trim(struct mr_pkt *pkt, uint32_t len);
/* Puts bytes before / takes bytes off the first segment. */
uint8_t *mr_pkt_prepend(struct mr_pkt *pkt, uint32_t len);
int mr_pkt_adj(struct mr_pkt *pkt, uint32_t len);
/* Copies `len` bytes at `offset` to `out`; returns how many there were. */
uint32_t mr_pkt_read(const struct mr_pkt *pkt, uint32_t offset, void *out,
                     uint32_t len);

/* ---- Checksums -------------------------------------------------------- */

enum mr_checksum {
    MR_CHECKSUM_IP4 = 1, /* the IPv4 header */
    MR_CHECKSUM_L4 = 2,  /* TCP, UDP, ICMP, ICMPv6 over the whole packet */
};

/* Fills in the checksums that `what` names (or of mr_checksum bits) for every
 * packet of the burst whose headers it recognises (Ethernet, up to two VLAN
 * tags, IPv4 or IPv6) and that is not an IP fragment. Returns the number of
 * packets that it changed. */
uint32_t mr_burst_checksum(struct mr_burst *burst, uint32_t what);
/* Ones'-complement sum (not inverted, not folded into the packet) of a
 * packet's bytes [offset, offset + len), in network byte order. */
uint16_t mr_pkt_sum(const struct mr_pkt *pkt, uint32_t offset, uint32_t len);
/* Answers in place what a host at `ip4` would: ARP requests, ICMP echo
 * requests (all fragments of them), and swaps the MAC addresses of the rest.
 * ip4: host order, 0 = answer for every address. Returns packets answered. */
uint32_t mr_burst_reflect(struct mr_burst *burst, const uint8_t mac[6],
                          uint32_t ip4);

/* ---- Faults and counters ---------------------------------------------- */

/* Rules that a peer can break. X(name, rules, effect, text). effect: skip =
 * the buffer goes back unused; broken = the ring stops until it is set up
 * anew. */
#define MR_FAULTS(X)                                                           \
    X(AVAIL_INDEX, "S61", broken, "more buffers available than the ring holds")\
    X(HEAD, "S62", broken, "head index outside the ring")                      \
    X(NEXT, "S63", skip, "next index outside the descriptor table")            \
    X(LOOP, "S64", skip, "list longer than the ring")                          \
    X(LIST, "P66 P67", broken, "list without an end in the ring")              \
    X(INDIRECT, "S65 P68", skip, "indirect table not allowed or malformed")    \
    X(ADDRESS, "S66 P69", skip, "address outside guest memory")                \
    X(DIRECTION, "S67 P70", skip, "descriptor in the wrong direction")         \
    X(SEGMENTS, "S68 P71", skip, "list has too many parts")                    \
    X(RUNT, "S69 P75 N90 N91", skip, "shorter than header and Ethernet")       \
    X(GIANT, "S70 P75 N92", skip, "longer than a frame may be")                \
    X(OFFLOAD, "N94", skip, "header asks for an offload not negotiated")       \
    X(ROOM, "N41 N42", skip, "receive buffer too small for the packet")        \
    X(USED_INDEX, "S12", broken, "more buffers used than were outstanding")    \
    X(USED_ID, "S12 P16", broken, "used id that is not outstanding")           \
    X(USED_LENGTH, "S12 P16", broken, "used length above the buffer's")        \
    X(USED_SHORT, "N48", skip, "used length below header and Ethernet")        \
    X(NUM_BUFFERS, "N48", broken, "packet of more buffers than possible")      \
    X(RING_SETUP, "S1 S2 S74 B6 V121-V125", broken,                            \
      "ring parts misaligned, overlapping or outside guest memory")            \
    X(MEMORY_LOST, "V62", broken, "the file behind guest memory shrank")

enum mr_fault {
    MR_FAULT_NONE,
#define MR_X(name, rules, effect, text) MR_FAULT_##name,
    MR_FAULTS(MR_X)
#undef MR_X
    MR_FAULT_COUNT
};

/* What a queue counts. X(name, text). */
#define MR_COUNTERS(X)                                                         \
    X(packets, "packets that crossed the queue")                               \
    X(bytes, "bytes in them, from the Ethernet header on")                     \
    X(bursts, "calls that moved at least one packet")                          \
    X(full, "packets dropped: no room at the peer")                            \
    X(down, "packets dropped: no peer, or the queue is stopped")               \
    X(oversize, "packets dropped: longer than the peer can take")              \
    X(nobuf, "calls that found the packet pool empty")                         \
    X(skipped, "buffers of the peer returned unused because of a fault")       \
    X(lent, "packets received with their bytes left at the peer (zero_copy)")  \
    X(notified, "notifications sent to the peer")                              \
    X(notify_errors, "notifications that could not be written")

struct mr_counters {
#define MR_X(name, text) uint64_t name;
    MR_COUNTERS(MR_X)
#undef MR_X
    uint64_t faults[MR_FAULT_COUNT];
};

/* One row of a counter list; `name` is NULL past the last row. */
struct mr_counter_row {
    const char *name;
    const char *text;
    uint32_t offset; /* of the uint64_t in struct mr_counters */
};

struct mr_fault_row {
    const char *name;
    const char *rules;
    const char *text;
    int broken; /* 1 = stops the ring, 0 = skips the buffer */
};

/* Row i of the list of counters / of faults (1..MR_FAULT_COUNT - 1). */
const struct mr_counter_row *mr_counter_row(uint32_t i);
const struct mr_fault_row *mr_fault_row(uint32_t i);

/* ---- Ports and queues ------------------------------------------------- */

struct mr_port;
struct mr_queue;

enum mr_direction { MR_RX, MR_TX };

/* Kinds of port. X(name). */
#define MR_PORT_KINDS(X) X(vhost) X(virtio) X(null) X(pcap) X(pipe) X(eth)

enum mr_port_kind {
#define MR_X(name) MR_PORT_##name,
    MR_PORT_KINDS(MR_X)
#undef MR_X
    MR_PORT_KIND_COUNT
};

/* A vhost-user port: vhost = our end is the device, virtio = our end is the
 * driver. Tri-state fields: -1 = whatever the peer wants, 0 = off, 1 = on. */
struct mr_vhost_options {
    const char *path;    /* socket; at most 107 bytes */
    const char *name;    /* NULL = kind and a number */
    uint32_t pairs;      /* queue pairs offered: 1..128, 0 = 1 */
    int32_t connect;     /* 1 = connect to a listening peer, 0 = listen */
    uint32_t retry_ms;   /* delay between tries: 0 = 1000 */
    int32_t mode;        /* permission bits of the socket file: -1 = 0600 */
    int32_t owner;       /* user and group of the socket file: -1 = ours */
    int32_t group;
    int32_t packed;      /* device: offer; driver: want RING_PACKED */
    int32_t mergeable;   /* MRG_RXBUF */
    int32_t in_order;    /* IN_ORDER */
    int32_t indirect;    /* INDIRECT_DESC */
    int32_t event_idx;   /* EVENT_IDX */
    int32_t order_platform; /* ORDER_PLATFORM; -1 is off */
    int32_t version_1;   /* 0 = legacy */
    uint32_t size;       /* driver: ring size, 0 = 256 */
    struct mr_pool *pool; /* device: received packets; NULL = one of its own */
    uint32_t packets;    /* of the port's own pool, 0 = sized by the rings */
    uint32_t keep_num_buffers; /* driver: 1 = a packet is sent with whatever
                          * lies in its header's num_buffers, of a received
                          * one what the device wrote. Virtio asks for 0 (N23),
                          * devices ignore it: not to write it spares both
                          * ends a cache line when packets are sent on */
    uint32_t zero_copy;  /* device: 1 = frames from 1024 bytes on are not copied
                          * as a whole: what follows the first 192 bytes stays
                          * in the guest's buffer, which goes back when the
                          * packet is freed. Until then the guest can change
                          * these bytes, and nobody else may. At most half of a
                          * ring is out; the rest is copied. A ring that stops
                          * waits 0.1 s for its packets, then their bytes are
                          * the guest's again. Excludes IN_ORDER */
};

struct mr_null_options {
    const char *name;
    uint32_t pairs;
    struct mr_pool *pool; /* rx: packets come from it; NULL = rx is empty */
};

struct mr_pcap_options {
    const char *name;
    const char *read;   /* file that rx reads; NULL = rx is empty */
    const char *write;  /* file that tx writes; NULL = tx discards */
    int32_t pcapng;     /* write pcapng (1) or pcap with nanoseconds (0) */
    uint32_t snap;      /* bytes kept of a packet: 0 = all */
    uint32_t loops;     /* times rx plays the file: 0 = once, ~0 = for ever */
    struct mr_pool *pool; /* NULL = one of its own */
};

struct mr_pipe_options {
    const char *name;
    uint32_t pairs;
    uint32_t size; /* packets that each direction holds: power of 2, 0 = 1024 */
};

struct mr_eth_options {
    const char *name;
    const char *devargs; /* "net_tap0", "net_af_packet0,iface=veth0", ... */
    uint32_t pairs;
    uint32_t size;       /* descriptors a queue: 0 = 512 */
    struct mr_pool *pool; /* NULL = one of its own */
};

/* Each opens a port; *port belongs to the caller until mr_port_close. The
 * strings are copied. Errors: EINVAL, EADDRINUSE (a live peer listens on the
 * path), EACCES, ENOENT, ENODEV, ENOMEM. A socket port that finds no peer yet
 * is open but down. A pipe is two ports, wired to each other. */
int mr_vhost_open(const struct mr_vhost_options *options,
                  struct mr_port **port);
int mr_virtio_open(const struct mr_vhost_options *options,
                   struct mr_port **port);
int mr_null_open(const struct mr_null_options *options, struct mr_port **port);
int mr_pcap_open(const struct mr_pcap_options *options, struct mr_port **port);
int mr_pipe_open(const struct mr_pipe_options *options, struct mr_port **a,
                 struct mr_port **b);
int mr_eth_open(const struct mr_eth_options *options, struct mr_port **port);
/* Stops the queues, ends the session, unlinks the socket and frees the port.
 * Queue handles and the port's own pool are gone afterwards. EBUSY while a
 * task still holds one of its queues. */
int mr_port_close(struct mr_port *port);

/* The port's name, the name of its kind, and its number of queue pairs. The
 * strings live as long as the port. */
const char *mr_port_name(const struct mr_port *port);
const char *mr_port_kind_name(const struct mr_port *port);
uint32_t mr_port_pairs(const struct mr_port *port);
/* The pool that the port receives into; NULL if it has none. */
struct mr_pool *mr_port_pool(const struct mr_port *port);
/* 1 when packets can flow on at least one queue pair, else 0. */
int mr_port_up(const struct mr_port *port);

/* What a socket port negotiated; zero until the peer has chosen. */
struct mr_port_info {
    uint64_t features;          /* virtio feature bits */
    uint64_t protocol_features; /* vhost-user protocol feature bits */
    uint32_t connected;         /* 1 = there is a session */
    uint32_t connects;          /* sessions so far */
    uint32_t header;            /* bytes of the virtio-net header: 10, 12 */
    uint32_t size;              /* entries of the first ring in use */
    uint8_t packed, mergeable, in_order, indirect;
    uint8_t event_idx, order_platform, version_1, hugetlb;
    uint8_t mac[6];
    char variant[2][32];        /* burst function of rx 0 and tx 0 */
};
/* Fills in *info, with zeros for a port that negotiates nothing. Returns 0. */
int mr_port_info(const struct mr_port *port, struct mr_port_info *info);

/* Queue `index` of a direction, NULL if there is none. Lives as long as the
 * port. */
struct mr_queue *mr_port_queue(struct mr_port *port, int direction,
                               uint32_t index);
/* A queue is used by one thread at a time: claim before, release after. EBUSY
 * when another thread holds it. Claims nest. */
int mr_queue_claim(struct mr_queue *queue);
void mr_queue_release(struct mr_queue *queue);
/* 1 when the queue's peer is ready, else 0. */
int mr_queue_up(const struct mr_queue *queue);
/* The queue's counters: written by its thread, readable by any, each word
 * whole. */
const struct mr_counters *mr_queue_counters(const struct mr_queue *queue);
/* The fault that stopped the ring, MR_FAULT_NONE if it runs. */
uint32_t mr_queue_fault(const struct mr_queue *queue);

/* Receives what is there now into the burst (its old packets are freed),
 * at most its capacity. Returns the number. The packets are the caller's. */
uint32_t mr_queue_try_recv(struct mr_queue *queue, struct mr_burst *burst);
/* As above, but waits for the first packet: until one came, `timeout_us` went
 * by (~0 = no limit) or the process stops. */
uint32_t mr_queue_recv(struct mr_queue *queue, struct mr_burst *burst,
                       uint64_t timeout_us);
/* Sends from the front of the burst what the peer has room for; what is left
 * moves to the front. Returns the number sent; they are no longer ours. */
uint32_t mr_queue_try_send(struct mr_queue *queue, struct mr_burst *burst);
/* Sends the whole burst: waits up to `timeout_us` without progress for room,
 * then drops the rest and counts it (`full`, or `down` without a peer). The
 * burst is empty afterwards. Returns the number sent. */
uint32_t mr_queue_send(struct mr_queue *queue, struct mr_burst *burst,
                       uint64_t timeout_us);
/* Moves up to n packets (at most MR_BURST_MAX) from an rx queue into a tx queue
 * without receiving them: one copy from guest to guest, or back into the same
 * one, in order. Both queues are the caller's and of vhost ports. `turn`: NULL
 * = the bytes stay as they are; else our 6 bytes of MAC address, and addresses
 * are swapped as mr_burst_reflect does where it has no answer. Both queues
 * count as if each packet was received and sent. Returns how many `from` is rid
 * of; 0 = it has none; -ENOTSUP = the next is to be received and sent as a
 * packet, because it may want an answer, because `to` is down or had no room
 * for `timeout_us` without progress, or because the queues are of other kinds.
 */
int32_t mr_queue_splice(struct mr_queue *from, struct mr_queue *to, uint32_t n,
                        const uint8_t *turn, uint64_t timeout_us);
/* Text dump of a queue's ring state into `out`; returns the length it wanted.
 * Control thread. */
uint32_t mr_queue_dump(struct mr_queue *queue, char *out, uint32_t size);

/* One field of the struct that the core keeps for each ring. */
struct mr_field_row {
    const char *name;   /* NULL past the last row */
    const char *writer; /* who writes it */
    uint32_t offset;
    uint32_t size;
    uint32_t line;      /* cache line, from 0 */
};
/* Row i of the list of these fields, in their order. Any thread. */
const struct mr_field_row *mr_field_row(uint32_t i);

/* ---- Polling many queues ---------------------------------------------- */

enum {
    MR_POLL_MAX = 32768, /* queues in one set */
    MR_POLL_US = 100,    /* between two looks at an idle queue, at most */
};

/* Rx queues that one thread serves in turn. It goes in rounds: a queue that
 * yields packets gets one burst a round; one that is found empty is looked at
 * every second round only, then every fourth, and so on up to every 64th, which
 * costs the busy ones little. However long the rounds are, a queue has its turn
 * again in the first that begins MR_POLL_US after the one of its last look. */
struct mr_poll;

/* Makes a set of n queues, 1..MR_POLL_MAX, claimed for the calling thread until
 * it calls mr_poll_free, which must be before their ports close. The array is
 * copied. Errors: EINVAL (n out of range, a tx queue), EBUSY (another thread
 * holds a queue), ENOMEM. */
int mr_poll_create(struct mr_queue *const *queues, uint32_t n,
                   struct mr_poll **poll);
/* From now on the set splices queue i (place in the array): what can goes by
 * mr_queue_splice to `to`, which the set claims; only what cannot is received.
 * turn: 6 bytes, copied, or NULL. Pairs of queues that cannot be spliced at all
 * are simply received from. Errors: EINVAL (no queue i, `to` is an rx queue),
 * EBUSY, ENOMEM. */
int mr_poll_splice(struct mr_poll *poll, uint32_t i, struct mr_queue *to,
                   const uint8_t *turn);
/* Ends the set and gives back its claims. NULL is allowed. */
void mr_poll_free(struct mr_poll *poll);
/* Receives from the next queue in turn that has packets, at most the burst's
 * capacity (its old packets are freed); they are the caller's. Returns the
 * queue's place in the array; -1 when a whole round found none, or none that
 * was not spliced. */
int32_t mr_poll_try_recv(struct mr_poll *poll, struct mr_burst *burst);
/* As above, but waits for the first packet: until one came, `timeout_us` went
 * by (~0 = no limit) or the process stops. Rounds go on meanwhile. Spliced
 * packets begin the time anew, a limited number of times. */
int32_t mr_poll_recv(struct mr_poll *poll, struct mr_burst *burst,
                     uint64_t timeout_us);

/* ---- Process ---------------------------------------------------------- */

/* Moonring's version, "1.2.3". */
const char *mr_version(void);
/* Text of the last failed call on this thread ("" = none; valid until the
 * next), and the name of an error code ("EINVAL"; "EUNKNOWN" for none). */
const char *mr_error_text(void);
const char *mr_error_name(int code);
/* 0 once the process was asked to stop (signal, mr_stop), in a task also once
 * that task was (mr_task_stop). Any thread. */
int mr_running(void);
void mr_stop(void);
/* Time stamp counter, its ticks a second, and a monotonic clock (ns). */
uint64_t mr_tsc(void);
uint64_t mr_tsc_hz(void);
uint64_t mr_now(void);
/* Sleeps; returns early when the process (or the task) stops. 0 = lets other
 * threads run and comes back. */
void mr_sleep_us(uint64_t us);
/* One technique that a build can do without. */
struct mr_technique_row {
    const char *name;  /* in capitals; NULL past the last row */
    const char *rows;  /* of the tick list, between blanks; may be empty */
    const char *text;
    uint32_t has;      /* 0 = this build does without it */
};
/* Row i of the list of these techniques. Any thread. */
const struct mr_technique_row *mr_technique_row(uint32_t i);

/* Control thread: serves sockets and timers for up to `timeout_us`, returns
 * earlier when something happened. */
int mr_loop_run(uint64_t timeout_us);

/* ---- CPU -------------------------------------------------------------- */

/* Levels of the instruction set that burst functions are chosen for, each a
 * part of the next. X(name, text). */
#define MR_CPU_LEVELS(X)                                                       \
    X(baseline, "what every CPU that Moonring runs on has")                    \
    X(avx2, "AVX2 and what comes with it (x86-64-v3)")                         \
    X(avx512, "AVX-512 F, BW, CD, DQ and VL (x86-64-v4)")

enum mr_cpu {
#define MR_X(name, text) MR_CPU_##name,
    MR_CPU_LEVELS(MR_X)
#undef MR_X
    MR_CPU_COUNT
};

/* The level in use: what the CPU and the kernel offer, but at most what
 * $MR_CPU_LEVEL names, or mr_cpu_cap. An unknown name there caps nothing. Any
 * thread; a ring keeps what it was started with. */
int mr_cpu_level(void);
/* Caps the level, in place of $MR_CPU_LEVEL. A level that the CPU lacks is no
 * error. Control thread. Errors: EINVAL (no such name). */
int mr_cpu_cap(const char *name);
/* Name of a level; NULL for any other number. */
const char *mr_cpu_name(int level);

/* ---- Where threads run ------------------------------------------------ */

/* How far two CPUs are from each other. X(name, text, lo, hi): lo..hi is how
 * many nanoseconds one cache line takes there and back: 23..55 and 115..210
 * were measured; the rest is room for scatter, most where others work beside
 * us. */
#define MR_PLACEMENTS(X)                                                       \
    X(UNKNOWN, "unknown", 0, 0)     /* none of these, or not measured */       \
    X(ONE_CORE, "one core", 0, 0)   /* one CPU for both */                     \
    X(SIBLINGS, "siblings", 18, 66) /* two threads of one core */              \
    X(FAR, "far", 92, 420)          /* separate cores */

enum mr_placement {
#define MR_X(name, text, lo, hi) MR_PLACEMENT_##name,
    MR_PLACEMENTS(MR_X)
#undef MR_X
    MR_PLACEMENT_COUNT
};

struct mr_probe {
    double ns;          /* median round trip of a line; 0 = not measured */
    uint32_t samples;   /* that the median is of */
    uint32_t placement; /* enum mr_placement */
};

/* Measures how far CPUs `a` and `b` are from each other now, with a thread on
 * each: a few ms, at most 0.2 s when others keep the CPUs busy. Fills in *out.
 * Blocks the caller. Errors: EINVAL (a CPU that we may not use), EAGAIN (no
 * thread), ENOMEM. */
int mr_probe_cores(int a, int b, struct mr_probe *out);
/* Text of an enum mr_placement; NULL for any other number. */
const char *mr_placement_name(uint32_t placement);

/* ---- Tasks ------------------------------------------------------------ */

enum mr_task_state { MR_TASK_RUNNING, MR_TASK_DONE, MR_TASK_FAILED };

/* A worker thread with a Lua state of its own. */
struct mr_task;

/* Starts a thread on CPU `core` (-1 = not pinned) that loads `script` and calls
 * its global `entry` with the arguments packed in args[0..len) (format of
 * lua/moonring/pack.lua; copied). */
int mr_task_start(const char *script, const char *entry, const void *args,
                  uint32_t len, int core, struct mr_task **task);
int mr_task_state(const struct mr_task *task);
/* Asks the task to end: mr_running() is 0 for it from now on. */
void mr_task_stop(struct mr_task *task);
/* What the task returned, packed, or the error with its traceback; empty while
 * it runs. Valid until mr_task_free. */
const char *mr_task_result(const struct mr_task *task, uint32_t *len);
/* Waits for the end and frees it. EBUSY when it does not end within
 * timeout_us; the text tells the Lua line it is at. */
int mr_task_free(struct mr_task *task, uint64_t timeout_us);

#endif
