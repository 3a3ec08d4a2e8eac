/* Frames of a seeded pattern: a stretch of one random string, from a place
 * that follows from the frame's number, so that any byte that is lost, doubled
 * or moved shows. */
#include <string.h>

#include "peer/rig.h"

enum { STRING = 1 << 17, STEP = 7919 };

static const uint8_t *
pattern(uint32_t seq)
{
    static uint8_t string[STRING + PEER_FRAME_MAX];
    static bool done;
    uint64_t x = 88172645463325252;

    for (uint32_t i = 0; !done && i < sizeof(string); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        string[i] = (uint8_t)(x >> 32);
    }
    done = true;
    return string + (uint64_t)seq * STEP % STRING;
}

void
frame_fill(uint8_t *frame, uint32_t len, uint32_t seq)
{
    memcpy(frame, pattern(seq), len);
}

bool
frame_same(const uint8_t *frame, uint32_t len, uint32_t seq)
{
    return memcmp(frame, pattern(seq), len) == 0;
}

uint32_t
frame_length(uint32_t seq, uint32_t max)
{
    static const uint32_t fixed[] = {14, 60, 64, 1514, 9000, 65535};
    uint32_t len = fixed[seq % MR_COUNT_OF(fixed)];

    if (len <= max)
        return len;
    return MR_FRAME_MIN + seq * 2654435761u % (max - MR_FRAME_MIN + 1);
}

struct mr_pkt *
frame_packet(struct mr_pool *pool, uint32_t len, uint32_t seq)
{
    struct mr_pkt *pkt = mr_pkt_chain(pool, len);
    const uint8_t *from = pattern(seq);

    for (struct mr_pkt *s = pkt; s; s = s->next) {
        memcpy(mr_pkt_data(s), from, s->data_len);
        from += s->data_len;
    }
    return pkt;
}

bool
frame_packet_same(const struct mr_pkt *pkt, uint32_t len, uint32_t seq)
{
    const uint8_t *want = pattern(seq);
    const struct mr_pkt *s;
    uint32_t segs = 0, left = len;

    if (pkt->pkt_len != len || pkt->refcnt != 1)
        return false;
    for (s = pkt; s; s = s->next) {
        if (!s->data_len || s->data_len > left ||
            s->data_off + s->data_len > s->buf_len ||
            memcmp(mr_pkt_data(s), want, s->data_len))
            return false;
        want += s->data_len;
        left -= s->data_len;
        segs++;
    }
    return !left && segs == pkt->nb_segs;
}
