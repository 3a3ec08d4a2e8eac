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
    uint32_t packets;
    uint32_t room;      /* data bytes of a fresh packet */
    uint32_t template_len;
    uint8_t *bytes;     /* first buffer; */
    size_t span;        /* all buffers, */
    size_t stride;      /* and one */
    void *headers;      /* private mapping behind the mempool */
    size_t headers_size;
    void *own_bytes;    /* private mapping behind `bytes`, NULL in an arena */
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

/* n packets, all or none (returns n or 0). Fresh; the caller sets both
 * lengths. */
MR_INLINE uint32_t
mr_pkts_alloc(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n)
{
    if (mr_unlikely(rte_mempool_get_bulk(pool->mp, (void **)pkts, n)))
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&pkts[i]->data_off, &(uint64_t){MR_PKT_FRESH}, 8);
        if (mr_unlikely(pkts[i]->ol_flags != RTE_MBUF_F_EXTERNAL))
            pkts[i]->ol_flags = RTE_MBUF_F_EXTERNAL;
    }
    return n;
}

/* As above, with the pool's template in each packet and both lengths set. */
uint32_t mr_pkts_fill(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n);

/* Gives the packets that this thread keeps in its caches back to their pools.
 * Before a thread leaves the EAL: nobody else could take them. */
void mr_pools_flush(void);

/* Gives n packets back that are known to be the pool's own, of one segment and
 * held by nobody else: without a look at them. */
MR_INLINE void
mr_pkts_put(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n)
{
    rte_mempool_put_bulk(pool->mp, (void **)pkts, n);
}

/* Frees n packets, chains included. */
void mr_pkts_free(struct mr_pkt **pkts, uint32_t n);

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
