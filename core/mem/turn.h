/* Sending a frame back to where it came from, decided on a private copy of its
 * first bytes: those of a guest's buffer may change at any time (rule C11).
 *
 * The copy lives in registers: words, no array of bytes. No state; any thread.
 */
#pragma once

#include <string.h>

#include "base/attr.h"
#include "mem/header.h"

/* The first MR_HEAD bytes of a frame, as they lie there. */
struct mr_head {
    uint64_t first; /* destination, two bytes of the source */
    uint32_t rest;  /* of the source */
    uint32_t type;  /* Ethernet type, two bytes behind it */
    uint64_t third;
    uint64_t fourth;
};

enum { MR_HEAD = 32 };

static_assert(sizeof(struct mr_head) == MR_HEAD, "no holes");

typedef uint64_t mr_any64 __attribute__((aligned(1)));
typedef uint32_t mr_any32 __attribute__((aligned(1)));

/* Each word is loaded once, whatever the compiler thinks of it later. */
MR_INLINE struct mr_head
mr_head_load(const uint8_t *frame)
{
    return (struct mr_head){
        *(const volatile mr_any64 *)frame,
        *(const volatile mr_any32 *)(frame + 8),
        *(const volatile mr_any32 *)(frame + 12),
        *(const volatile mr_any64 *)(frame + 16),
        *(const volatile mr_any64 *)(frame + 24),
    };
}

/* Word by word, as the copy is held: as a block it would have to be written to
 * memory first. */
MR_INLINE void
mr_head_store(uint8_t *frame, const struct mr_head *h)
{
    *(mr_any64 *)frame = h->first;
    *(mr_any32 *)(frame + 8) = h->rest;
    *(mr_any32 *)(frame + 12) = h->type;
    *(mr_any64 *)(frame + 16) = h->third;
    *(mr_any64 *)(frame + 24) = h->fourth;
}

/* A MAC address as the low bytes of a word. */
MR_INLINE uint64_t
mr_mac_word(const uint8_t mac[6])
{
    uint64_t word = 0;

    memcpy(&word, mac, 6);
    return word;
}

/* Swaps the addresses in the first twelve bytes of a frame. A group address is
 * nobody's source: `mac` then takes its place. */
MR_INLINE void
mr_turn(uint64_t *first, uint32_t *rest, uint64_t mac)
{
    uint64_t destination = *first & 0xffffffffffff;
    uint64_t source = *first >> 48 | (uint64_t)*rest << 16;

    if (mr_unlikely(destination & 1))
        destination = mac;
    *first = source | destination << 48;
    *rest = (uint32_t)(destination >> 16);
}

/* Ethernet type as it lies in memory. */
#define MR_TYPE_WORD(type) ((uint16_t)((type) >> 8 | (type) << 8))

/* Is turning all that mr_burst_reflect would do to the frame, whatever its
 * other bytes are? False also when only a full parse could tell. */
MR_INLINE bool
mr_head_turns(const struct mr_head *h)
{
    uint8_t next;

    switch ((uint16_t)h->type) {
    case MR_TYPE_WORD(MR_ETHER_IP4):
        return h->third >> 56 != MR_IP_ICMP;
    case MR_TYPE_WORD(MR_ETHER_IP6):
        next = (uint8_t)(h->third >> 32);
        return next == MR_IP_TCP || next == MR_IP_UDP;
    case MR_TYPE_WORD(MR_ETHER_ARP):
    case MR_TYPE_WORD(MR_ETHER_TAG):
    case MR_TYPE_WORD(MR_ETHER_TAG_OUTER):
        return false;
    default:
        return true;
    }
}
