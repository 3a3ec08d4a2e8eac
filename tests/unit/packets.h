/* Packets for tests, cut into segments at will, and the slow sum of RFC 1071
 * that the fast one is judged by. Include after eal.h. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "mem/packet.h"

/* A small repeatable random number generator. */
static inline uint32_t
dice(uint32_t below)
{
    static uint64_t state = 88172645463325252ull;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % below);
}

static inline struct mr_pool *
pool_new(uint32_t packets, uint32_t size)
{
    struct mr_pool_options o = {.packets = packets, .size = size};
    struct mr_pool *pool = NULL;

    assert_int_equal(mr_pool_create(&o, &pool), 0);
    return pool;
}

/* Fails when a packet of the pool is still out. */
static inline void
pool_end(struct mr_pool *pool)
{
    assert_int_equal(mr_pool_free(pool), 0);
}

/* The bytes as a packet of segments of `cut` bytes; 0 = of 1..9 at random. */
static inline struct mr_pkt *
pkt_make(struct mr_pool *pool, const void *bytes, uint32_t len, uint32_t cut)
{
    struct mr_pkt *head = NULL;
    struct mr_pkt **link = &head;
    uint32_t at = 0;
    uint16_t segs = 0;

    do {
        uint32_t n = cut ? cut : 1 + dice(9);

        n = MR_MIN(n, len - at);
        assert_int_equal(mr_pkts_alloc(pool, link, 1), 1);
        mr_pkt_set_len(*link, n);
        memcpy(mr_pkt_data(*link), (const uint8_t *)bytes + at, n);
        link = &(*link)->next;
        at += n;
        segs++;
    } while (at < len);
    head->nb_segs = segs;
    head->pkt_len = len;
    return head;
}

/* Fails unless the packet holds exactly these bytes. */
static inline void
assert_pkt_equal(const struct mr_pkt *pkt, const void *bytes, uint32_t len)
{
    static uint8_t got[1 << 17];

    assert_int_equal(pkt->pkt_len, len);
    assert_int_equal(mr_pkt_read(pkt, 0, got, sizeof(got)), len);
    assert_memory_equal(got, bytes, len);
}

/* Folded sum as a number, one byte at a time. */
static inline uint16_t
slow_sum(const uint8_t *p, uint32_t len, uint32_t start)
{
    uint64_t sum = start;

    for (uint32_t i = 0; i < len; i++)
        sum += i & 1 ? p[i] : p[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}
