/* Packets and their pools.
 *
 * A packet is an rte_mbuf (struct mr_pkt mirrors it). Headers of packets are
 * private memory of this process; the bytes lie in a separate block, which is
 * a part of the port's arena when a peer reads and writes them in place. In
 * DPDK's terms every pool is a pinned external-buffer pool.
 *
 * A packet that was just allocated is fresh: refcnt 1, one segment, data_off
 * MR_HEADROOM, no flags beyond the external-buffer one. Lengths are whatever
 * they were: whoever allocates sets pkt_len and data_len.
 *
 * Buffers are an odd number of cache lines apart, so that equal offsets do not
 * fall into the same cache set. Pools are made and freed by the control thread;
 * alloc and free may be called by every thread that is registered with the
 * EAL and are cheap there. */
#pragma once

#include <rte_mbuf.h>
#include <string.h>

#include "base/attr.h"
#include "moonring.h"

struct mr_arena;

/* Moves up to n packets between pkts and whatever ctx is. rx: fills pkts and
 * returns how many; they are the caller's. tx: takes packets from the front of
 * pkts and returns how many are no longer the caller's (sent, or dropped and
 * counted). */
typedef uint32_t (*mr_burst_fn)(void *ctx, struct mr_pkt **pkts, uint32_t n);

struct mr_pool {
    struct rte_mempool *mp;
    void *headers; /* private mapping behind the mempool */
    size_t headers_size;
    uint8_t *first;    /* first packet in it; */
    uint64_t per_line; /* packets in a cache line of it, times 2^32 */
    uint8_t *bytes;    /* first buffer; */
    size_t span;       /* all buffers, */
    size_t stride;     /* and one */
    uint32_t room;     /* data bytes of a fresh packet */
    uint32_t packets;
    uint32_t template_len;
    void *own_bytes; /* private mapping behind `bytes`, NULL in an arena */
    size_t own_bytes_size;
    uint8_t template[2048];
};

/* Bytes that a pool of `packets` buffers with `room` data bytes takes from an
 * arena. */
size_t mr_pool_bytes(uint32_t packets, uint32_t room);
/* As mr_pool_create, with the bytes in `arena` (NULL = private memory). */
int mr_pool_create_in(struct mr_arena *arena,
                      const struct mr_pool_options *options,
                      struct mr_pool **pool);

/* data_off, refcnt, nb_segs and port of a fresh packet, as one word. */
#define MR_PKT_FRESH                                                           \
    ((uint64_t)MR_HEADROOM | 1ull << 16 | 1ull << 32 | 0xffffull << 48)

/* Makes a packet of a pool fresh, but for its lengths: the word above and the
 * flags behind it in one store. */
MR_INLINE void
mr_pkt_refresh(struct mr_pkt *pkt)
{
    typedef uint64_t two __attribute__((vector_size(16), aligned(8)));

    static_assert(offsetof(struct mr_pkt, ol_flags) ==
                      offsetof(struct mr_pkt, data_off) + 8,
                  "side by side");
    if (!MR_HAS(KEPT_FRESH))
        rte_pktmbuf_reset((struct rte_mbuf *)pkt);
    *(two *)(void *)&pkt->data_off = (two){MR_PKT_FRESH, RTE_MBUF_F_EXTERNAL};
}

/* n packets, all or none (returns n or 0). Fresh; the caller sets both
 * lengths. */
uint32_t mr_pkts_alloc(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n);

/* As above, with the pool's template in each packet and both lengths set. */
uint32_t mr_pkts_fill(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n);

/* Gives the packets that this thread keeps in its caches back to their pools.
 * Before a thread leaves the EAL: nobody else could take them. */
void mr_pools_flush(void);

/* Frees n packets, chains included. */
void mr_pkts_free(struct mr_pkt **pkts, uint32_t n);

/* One segment, held by nobody else? */
MR_INLINE bool
mr_pkt_single(const struct mr_pkt *pkt)
{
    uint32_t both; /* refcnt and nb_segs */

    static_assert(offsetof(struct mr_pkt, nb_segs) ==
                      offsetof(struct mr_pkt, refcnt) + 2,
                  "one word");
    memcpy(&both, &pkt->refcnt, sizeof(both));
    return both == 0x10001;
}

/* The buffer of a packet of the pool, found by the packet's number: posting a
 * receive buffer costs no look at a packet that nobody touched for a lap. */
MR_INLINE uint8_t *
mr_pkt_buffer(const struct mr_pool *pool, const struct mr_pkt *pkt)
{
    uint64_t line =
        (uint64_t)((const uint8_t *)pkt - pool->first) / MR_CACHE_LINE;

    if (!MR_HAS(BUFFER_INDEX))
        return pkt->buf_addr;
    return pool->bytes + (line * pool->per_line >> 32) * pool->stride;
}

/* Is it one of the pool's own packets, its bytes among the pool's? */
MR_INLINE bool
mr_pkt_of(const struct mr_pool *pool, const struct mr_pkt *pkt)
{
    return (size_t)((const uint8_t *)pkt - (const uint8_t *)pool->headers) <
           pool->headers_size;
}

MR_INLINE uint8_t *
mr_pkt_data(const struct mr_pkt *pkt)
{
    return pkt->buf_addr + pkt->data_off;
}

/* Bytes after the data in this segment's buffer. */
MR_INLINE uint32_t
mr_pkt_tailroom(const struct mr_pkt *pkt)
{
    return (uint32_t)pkt->buf_len - pkt->data_off - pkt->data_len;
}

MR_INLINE void
mr_pkt_set_len(struct mr_pkt *pkt, uint32_t len)
{
    pkt->data_len = (uint16_t)len;
    pkt->pkt_len = len;
}

/* A packet of as many segments as `len` bytes need, lengths set, bytes
 * undefined; NULL when the pool is short. */
struct mr_pkt *mr_pkt_chain(struct mr_pool *pool, uint32_t len);
/* A copy of `pkt` with buffers of `pool`, NULL when the pool is short. */
struct mr_pkt *mr_pkt_copy(struct mr_pool *pool, const struct mr_pkt *pkt);
