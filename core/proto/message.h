/* The vhost-user wire: header, payloads, and the one list of requests.
 *
 * Both roles read this file. A row of MR_MESSAGES tells everything that can be
 * told about a request without knowing a session's state: its number, what it
 * carries, how many fds, how it is answered, and which features it needs.
 * Requests that are not in the list are unimplemented (V113).
 *
 * Everything is in host byte order (V1). No state, no owner. */
#pragma once

#include "base/attr.h"
#include "mem/memory.h"
#include "ring/layout.h"

/* ---- Features of the protocol ----------------------------------------- */

/* Protocol feature bits that the two ends agree on: X(name, bit, ours).
 * ours: 1 = we offer it as a back-end and accept it as a front-end. */
#define MR_PROTOCOL_FEATURES(X)                                                \
    X(MQ, 0, 1) X(LOG_SHMFD, 1, 0) X(RARP, 2, 0) X(REPLY_ACK, 3, 1)            \
    X(NET_MTU, 4, 0) X(BACKEND_REQ, 5, 0) X(CROSS_ENDIAN, 6, 0)                \
    X(CRYPTO_SESSION, 7, 0) X(PAGEFAULT, 8, 0) X(CONFIG, 9, 0)                 \
    X(BACKEND_SEND_FD, 10, 0) X(HOST_NOTIFIER, 11, 0)                          \
    X(INFLIGHT_SHMFD, 12, 0) X(RESET_DEVICE, 13, 0)                            \
    X(INBAND_NOTIFICATIONS, 14, 0) X(CONFIGURE_MEM_SLOTS, 15, 0)               \
    X(STATUS, 16, 0) X(XEN_MMAP, 17, 0) X(SHARED_OBJECT, 18, 0)                \
    X(DEVICE_STATE, 19, 0)

enum mr_protocol_bit {
#define MR_X(name, bit, ours) MR_P_##name = bit,
    MR_PROTOCOL_FEATURES(MR_X)
#undef MR_X
};

/* The mask of a protocol feature: MR_P(REPLY_ACK). */
#define MR_P(name) (1ull << MR_P_##name)

/* The protocol features that we implement, in either role. */
#define MR_X(name, bit, ours) | ((ours) << (bit))
enum { MR_PROTOCOL_OURS = 0 MR_PROTOCOL_FEATURES(MR_X) };
#undef MR_X

/* ---- Header and payloads ---------------------------------------------- */

enum {
    MR_MESSAGE_FDS = 8,        /* of one message (V45) */
    MR_MESSAGE_HEADER = 12,    /* bytes */
    MR_PAYLOAD_MAX = 2056,     /* bytes of the largest known payload (V110) */
    MR_MESSAGE_VERSION = 1,    /* flags: bits 0-1 */
    MR_MESSAGE_VERSION_MASK = 3,
    MR_MESSAGE_REPLY = 4,      /* flags: this is a reply */
    MR_MESSAGE_NEED_REPLY = 8, /* flags: an answer is wanted (V32) */
};

/* A ring and a number: size, base, or on/off. */
struct mr_vring_state {
    uint32_t index;
    uint32_t num;
};

/* The word of the fd messages: bits 0-7 ring, bit 8 no fd attached (V39). */
enum { MR_FD_WORD_INDEX = 0xff, MR_FD_WORD_NONE = 0x100 };

/* User addresses of a ring's parts. */
struct mr_vring_addr {
    uint32_t index;
    uint32_t flags; /* bit 0 = log the used ring; others ignored (V126) */
    uint64_t desc;
    uint64_t used;
    uint64_t avail;
    uint64_t log;
};

/* The whole of guest memory; mr_region_spec is laid out as on the wire. */
struct mr_memory_table {
    uint32_t n;
    uint32_t padding;
    struct mr_region_spec region[MR_MEMORY_REGIONS];
};

/* A message. It travels from `request` on; `unsent` keeps the payload's words
 * aligned. */
struct mr_message {
    uint32_t unsent;
    uint32_t request;
    uint32_t flags;
    uint32_t size; /* bytes of the payload */
    union {
        uint64_t u64;
        struct mr_vring_state state;
        struct mr_vring_addr addr;
        struct mr_memory_table table;
        uint8_t bytes[MR_PAYLOAD_MAX];
    } payload;
};

static_assert(offsetof(struct mr_message, payload) -
                      offsetof(struct mr_message, request) ==
                  MR_MESSAGE_HEADER, "wire layout");
static_assert(sizeof(struct mr_vring_state) == 8 &&
              sizeof(struct mr_vring_addr) == 40 &&
              offsetof(struct mr_vring_addr, desc) == 8 &&
              offsetof(struct mr_vring_addr, used) == 16 &&
              offsetof(struct mr_vring_addr, avail) == 24 &&
              offsetof(struct mr_vring_addr, log) == 32, "wire layout");
static_assert(sizeof(struct mr_region_spec) == 32 &&
              offsetof(struct mr_region_spec, guest) == 0 &&
              offsetof(struct mr_region_spec, size) == 8 &&
              offsetof(struct mr_region_spec, user) == 16 &&
              offsetof(struct mr_region_spec, offset) == 24 &&
              offsetof(struct mr_memory_table, region) == 8 &&
              sizeof(struct mr_memory_table) == 264, "wire layout");

/* Kinds of payload: X(name, min bytes, max bytes). A size outside is V111 or
 * V112. TABLE: the number of regions must fit as well (V19). */
#define MR_PAYLOADS(X)                                                         \
    X(NONE, 0, 0)                                                              \
    X(U64, 8, 8)                                                               \
    X(STATE, 8, 8)                                                             \
    X(FD_WORD, 8, 8)                                                           \
    X(ADDR, 40, 40)                                                            \
    X(TABLE, 8, 264)

enum mr_payload {
#define MR_X(name, min, max) MR_PAYLOAD_##name,
    MR_PAYLOADS(MR_X)
#undef MR_X
};

/* ---- Requests --------------------------------------------------------- */

/* Front-end to back-end:
 *   X(number, NAME, name, payload, fds min, fds max, reply,
 *     offered, agreed, protocol)
 * name: what a role calls its handler after. reply: payload of the answer;
 * NONE = answered by a u64 and only when asked for (V32). offered / agreed:
 * features that the back-end must have offered / that must not have been
 * declined by SET_FEATURES. protocol: protocol features set before (V13).
 *
 * SET_VRING_ENABLE may precede SET_FEATURES (QEMU does that), so bit 30 counts
 * as agreed until SET_FEATURES leaves it out. */
#define MR_MESSAGES(X)                                                         \
    X(1, GET_FEATURES, get_features, NONE, 0, 0, U64, 0, 0, 0)                 \
    X(2, SET_FEATURES, set_features, U64, 0, 0, NONE, 0, 0, 0)                 \
    X(3, SET_OWNER, set_owner, NONE, 0, 0, NONE, 0, 0, 0)                      \
    X(4, RESET_OWNER, reset_owner, NONE, 0, 0, NONE, 0, 0, 0)                  \
    X(5, SET_MEM_TABLE, set_mem_table, TABLE, 0, 8, NONE, 0, 0, 0)             \
    X(7, SET_LOG_FD, set_log_fd, NONE, 1, 1, NONE, 0, 0, 0)                    \
    X(8, SET_VRING_NUM, set_vring_num, STATE, 0, 0, NONE, 0, 0, 0)             \
    X(9, SET_VRING_ADDR, set_vring_addr, ADDR, 0, 0, NONE, 0, 0, 0)            \
    X(10, SET_VRING_BASE, set_vring_base, STATE, 0, 0, NONE, 0, 0, 0)          \
    X(11, GET_VRING_BASE, get_vring_base, STATE, 0, 0, STATE, 0, 0, 0)         \
    X(12, SET_VRING_KICK, set_vring_kick, FD_WORD, 0, 1, NONE, 0, 0, 0)        \
    X(13, SET_VRING_CALL, set_vring_call, FD_WORD, 0, 1, NONE, 0, 0, 0)        \
    X(14, SET_VRING_ERR, set_vring_err, FD_WORD, 0, 1, NONE, 0, 0, 0)          \
    X(15, GET_PROTOCOL_FEATURES, get_protocol_features, NONE, 0, 0, U64,       \
      MR_F(PROTOCOL_FEATURES), 0, 0)                                           \
    X(16, SET_PROTOCOL_FEATURES, set_protocol_features, U64, 0, 0, NONE,       \
      MR_F(PROTOCOL_FEATURES), 0, 0)                                           \
    X(17, GET_QUEUE_NUM, get_queue_num, NONE, 0, 0, U64, 0, 0, MR_P(MQ))       \
    X(18, SET_VRING_ENABLE, set_vring_enable, STATE, 0, 0, NONE,               \
      MR_F(PROTOCOL_FEATURES), MR_F(PROTOCOL_FEATURES), 0)

enum mr_request {
#define MR_X(number, NAME, ...) MR_REQ_##NAME = number,
    MR_MESSAGES(MR_X)
#undef MR_X
    MR_REQUEST_MAX = 18, /* the largest number in the list */
};

struct mr_message_row {
    const char *name; /* "GET_FEATURES"; NULL: not in the list */
    enum mr_payload payload;
    uint8_t fds_min;
    uint8_t fds_max;
    enum mr_payload reply;
    uint64_t offered;
    uint64_t agreed;
    uint64_t protocol;
};

/* The row of a request number, NULL when it is unimplemented (V113). */
const struct mr_message_row *mr_message_row(uint32_t request);
/* Its name for humans, "request <n>" when it has none; static storage of the
 * calling thread, valid until the next call. */
const char *mr_message_name(uint32_t request);

/* Checks a request that arrived with `nfds` fds against its row: size (V111,
 * V112, V19), number of fds (V115, V116, V118, V128), the fd word (V39, V117).
 * Ring indices are the session's to check. Errors: -EINVAL with the rule. */
int mr_message_check(const struct mr_message_row *row,
                     const struct mr_message *msg, uint32_t nfds);
/* Checks the answer to `request`: number, size, no fds. ack: the answer is the
 * u64 of REPLY_ACK. Errors: -EPROTO. */
int mr_message_check_reply(const struct mr_message *msg, uint32_t nfds,
                           uint32_t request, bool ack);

/* Begins a request / the reply to `request` with `size` (0..MR_PAYLOAD_MAX)
 * bytes of payload, zeroed, for the caller to fill. flags: 0 or
 * MR_MESSAGE_NEED_REPLY; a reply gets the flags of V2. */
void mr_message_request(struct mr_message *msg, enum mr_request request,
                        uint32_t flags, uint32_t size);
void mr_message_reply(struct mr_message *msg, uint32_t request, uint32_t size);

/* The message as it travels, and how many bytes that are. */
MR_INLINE const void *
mr_message_wire(const struct mr_message *msg)
{
    return &msg->request;
}

MR_INLINE uint32_t
mr_message_bytes(const struct mr_message *msg)
{
    return MR_MESSAGE_HEADER + msg->size;
}
