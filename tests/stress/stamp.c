#include "stress/stamp.h"

#include <string.h>

/* Mixes all bits of x into all bits. */
static uint64_t
mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

static uint64_t
word(uint64_t seq, uint32_t i)
{
    return i ? mix(seq + i * 0x9e3779b97f4a7c15ull) : seq;
}

uint32_t
stamp_length(uint64_t seq, uint32_t most)
{
    uint64_t dice = mix(~seq);
    uint32_t range = dice % 8 ? MR_MIN(most, 128u) : most;

    return STAMP_LEAST + (uint32_t)((dice >> 8) % (range - STAMP_LEAST + 1));
}

static void
fill(uint8_t *bytes, uint32_t len, uint64_t seq)
{
    for (uint32_t at = 0; at < len; at += 8) {
        uint64_t w = word(seq, at / 8);

        memcpy(bytes + at, &w, MR_MIN(len - at, 8u));
    }
}

struct mr_pkt *
stamp_packet(struct mr_pool *pool, uint64_t seq, uint32_t most)
{
    uint32_t len = stamp_length(seq, most);
    struct mr_pkt *pkt = mr_pkt_chain(pool, len);
    uint8_t bytes[STAMP_MOST];
    uint32_t at = 0;

    if (!pkt)
        return NULL;
    if (!pkt->next) {
        fill(mr_pkt_data(pkt), len, seq);
        return pkt;
    }
    fill(bytes, len, seq);
    for (struct mr_pkt *seg = pkt; seg; seg = seg->next) {
        memcpy(mr_pkt_data(seg), bytes + at, seg->data_len);
        at += seg->data_len;
    }
    return pkt;
}

bool
stamp_same(const uint8_t *bytes, uint32_t len, uint64_t seq, uint32_t most)
{
    uint64_t differ = 0;

    if (len != stamp_length(seq, most))
        return false;
    for (uint32_t at = 0; at < len; at += 8) {
        uint64_t want = word(seq, at / 8);
        uint64_t w = want;

        memcpy(&w, bytes + at, MR_MIN(len - at, 8u));
        differ |= w ^ want;
    }
    return !differ;
}

bool
stamp_packet_same(const struct mr_pkt *pkt, uint64_t seq, uint32_t most)
{
    uint8_t bytes[STAMP_MOST];

    if (!pkt->next)
        return pkt->data_len == pkt->pkt_len &&
               stamp_same(mr_pkt_data(pkt), pkt->pkt_len, seq, most);
    return pkt->pkt_len <= sizeof(bytes) &&
           mr_pkt_read(pkt, 0, bytes, sizeof(bytes)) == pkt->pkt_len &&
           stamp_same(bytes, pkt->pkt_len, seq, most);
}

uint64_t
stamp_number(const struct mr_pkt *pkt)
{
    uint64_t seq = 0;

    mr_pkt_read(pkt, 0, &seq, sizeof(seq));
    return seq;
}
