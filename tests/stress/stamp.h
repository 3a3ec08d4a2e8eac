/* Numbered packets: the number, 0, 1, 2 ..., decides the length and every byte,
 * so whoever gets one can tell whether it is the next and whole. The first
 * eight bytes are the number itself. */
#pragma once

#include "mem/packet.h"

enum { STAMP_LEAST = 16, STAMP_MOST = 1400 };

/* A length for packet `seq`, STAMP_LEAST..most: seven of eight are short. */
uint32_t stamp_length(uint64_t seq, uint32_t most);
/* Packet `seq`, in as many segments as it takes; NULL when the pool is short.
 */
struct mr_pkt *stamp_packet(struct mr_pool *pool, uint64_t seq, uint32_t most);
/* Is this packet `seq`, all of it? */
bool stamp_same(const uint8_t *bytes, uint32_t len, uint64_t seq,
                uint32_t most);
bool stamp_packet_same(const struct mr_pkt *pkt, uint64_t seq, uint32_t most);
/* The number that the packet says it has. */
uint64_t stamp_number(const struct mr_pkt *pkt);
