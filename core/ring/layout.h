/* Wire layouts of the two virtqueue formats and of the virtio-net header, for
 * both sides (virtqueues 3.1 and 4.1, virtio-net 4). Little-endian; the core
 * supports little-endian hosts only, where no conversion is needed.
 *
 * Everything here lies in memory that the peer can change at any time: fields
 * are read once, into a local (C11). */
#pragma once

#include "base/attr.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "ring fields are used without conversion");

/* Feature bits: X(name, bit). */
#define MR_FEATURES(X)                                                         \
    X(CSUM, 0) X(GUEST_CSUM, 1) X(CTRL_GUEST_OFFLOADS, 2) X(MTU, 3)            \
    X(MAC, 5) X(GUEST_TSO4, 7) X(GUEST_TSO6, 8) X(GUEST_ECN, 9)                \
    X(GUEST_UFO, 10) X(HOST_TSO4, 11) X(HOST_TSO6, 12) X(HOST_ECN, 13)         \
    X(HOST_UFO, 14) X(MRG_RXBUF, 15) X(STATUS, 16) X(CTRL_VQ, 17)              \
    X(CTRL_RX, 18) X(CTRL_VLAN, 19) X(CTRL_RX_EXTRA, 20)                       \
    X(GUEST_ANNOUNCE, 21) X(MQ, 22) X(CTRL_MAC_ADDR, 23)                       \
    X(NOTIFY_ON_EMPTY, 24) X(LOG_ALL, 26) X(ANY_LAYOUT, 27)                    \
    X(INDIRECT_DESC, 28) X(EVENT_IDX, 29) X(PROTOCOL_FEATURES, 30)             \
    X(VERSION_1, 32) X(ACCESS_PLATFORM, 33) X(RING_PACKED, 34)                 \
    X(IN_ORDER, 35) X(ORDER_PLATFORM, 36) X(NOTIFICATION_DATA, 38)             \
    X(RING_RESET, 40)

enum mr_feature_bit {
#define MR_X(name, bit) MR_F_##name = bit,
    MR_FEATURES(MR_X)
#undef MR_X
};

/* The mask of a feature: MR_F(EVENT_IDX). */
#define MR_F(name) (1ull << MR_F_##name)

enum { MR_RING_MAX = 32768 };

/* Descriptor flags, both layouts. */
enum {
    MR_DESC_NEXT = 1,
    MR_DESC_WRITE = 2,
    MR_DESC_INDIRECT = 4,
    MR_DESC_AVAIL = 0x0080, /* packed */
    MR_DESC_USED = 0x8000,
};

/* Split ring. */
enum { MR_AVAIL_NO_INTERRUPT = 1, MR_USED_NO_NOTIFY = 1 };

struct mr_split_desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags;
    uint16_t next;
};

struct mr_split_avail {
    uint16_t flags;
    uint16_t idx;
    uint16_t ring[]; /* N heads, then used_event */
};

struct mr_split_used_elem {
    uint32_t id;
    uint32_t len;
};

struct mr_split_used {
    uint16_t flags;
    uint16_t idx;
    struct mr_split_used_elem ring[]; /* N elements, then avail_event */
};

/* Packed ring. */
enum { MR_EVENT_ENABLE, MR_EVENT_DISABLE, MR_EVENT_DESC };

struct mr_packed_desc {
    uint64_t addr;
    uint32_t len;
    uint16_t id;
    uint16_t flags;
};

struct mr_packed_event {
    uint16_t offset; /* bits 0-14, wrap in bit 15 */
    uint16_t flags;
};

static_assert(sizeof(struct mr_split_desc) == 16 &&
              sizeof(struct mr_packed_desc) == 16 &&
              sizeof(struct mr_split_used_elem) == 8 &&
              sizeof(struct mr_packed_event) == 4, "wire layout");

/* Bytes that each ring part occupies; event words only with EVENT_IDX (S3). */
MR_INLINE uint64_t
mr_ring_part_bytes(bool packed, bool event_idx, uint32_t size, int part)
{
    static const uint8_t split_entry[3] = {16, 2, 8};

    if (packed)
        return part == 0 ? 16ull * size : 4;
    return (uint64_t)split_entry[part] * size +
           (part == 0 ? 0 : event_idx ? 6 : 4);
}

/* The virtio-net header. 10 bytes on the wire for a legacy driver without
 * mergeable buffers, else 12 (virtio-net 4). */
struct mr_net_header {
    uint8_t flags;
    uint8_t gso_type;
    uint16_t hdr_len;
    uint16_t gso_size;
    uint16_t csum_start;
    uint16_t csum_offset;
    uint16_t num_buffers;
};

static_assert(sizeof(struct mr_net_header) == 12, "wire layout");

enum { MR_HEADER_LEGACY = 10, MR_HEADER = 12 };

/* N16: depends on the negotiated features only. */
MR_INLINE uint8_t
mr_net_header_bytes(uint64_t features)
{
    return features & (MR_F(VERSION_1) | MR_F(MRG_RXBUF) | MR_F(RING_PACKED))
               ? MR_HEADER
               : MR_HEADER_LEGACY;
}
