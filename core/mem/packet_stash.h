/* The packets of a pool that this thread keeps at hand: DPDK's per-thread
 * cache, taken from and given to in place, so that a packet costs one load or
 * one store instead of a copy through an array and a call.
 *
 * While a stash is open its thread must use the pool by no other way: whoever
 * allocates or frees packets in between closes it first and opens it again
 * afterwards. Nothing is held beyond close. */
#pragma once

#include "mem/packet.h"

struct mr_stash {
    struct rte_mempool *mp;
    struct rte_mempool_cache *cache;
    struct mr_pkt **top; /* behind the last packet in the cache: the burst's
                          * copy of cache->len */
};

/* The cold halves. They work on values, not on the stash, which stays in
 * registers: each returns the new top. */
struct mr_pkt **mr_stash_fetch(struct mr_stash stash, uint32_t n);
struct mr_pkt **mr_stash_shed(struct mr_stash stash);
struct rte_mempool_cache *mr_stash_spare(void);

MR_INLINE struct mr_pkt **
mr_stash_slot(const struct mr_stash *s, uint32_t n)
{
    return (struct mr_pkt **)(void *)s->cache->objs + n;
}

MR_INLINE void
mr_stash_open(struct mr_stash *s, struct rte_mempool *mp)
{
    s->mp = mp;
    s->cache = rte_mempool_default_cache(mp, rte_lcore_id());
    /* Threads and pools without a cache borrow one for the burst. */
    if (mr_unlikely(!s->cache))
        s->cache = mr_stash_spare();
    s->top = mr_stash_slot(s, s->cache->len);
}

MR_INLINE void
mr_stash_close(struct mr_stash *s)
{
    if (mr_unlikely(s->top > mr_stash_slot(s, s->cache->flushthresh)))
        s->top = mr_stash_shed(*s);
    s->cache->len = (uint32_t)(s->top - mr_stash_slot(s, 0));
}

/* Sees to it that n packets (at most MR_BURST_MAX) can be taken. Returns how
 * many can: fewer when the pool is short. */
MR_INLINE uint32_t
mr_stash_want(struct mr_stash *s, uint32_t n)
{
    uint32_t len;

    if (mr_unlikely(s->top < mr_stash_slot(s, n)))
        s->top = mr_stash_fetch(*s, n);
    len = (uint32_t)(s->top - mr_stash_slot(s, 0));
    return MR_MIN(len, n);
}

/* What the stash stands for: a call to the pool for a packet, and one back. */
MR_INLINE struct mr_pkt *
mr_stash_call_take(struct mr_stash *s)
{
    void *pkt = NULL; /* the cache has some: nothing can fail */

    s->cache->len = (uint32_t)(s->top - mr_stash_slot(s, 0));
    rte_mempool_generic_get(s->mp, &pkt, 1, s->cache);
    s->top = mr_stash_slot(s, s->cache->len);
    return pkt;
}

MR_INLINE void
mr_stash_call_put(struct mr_stash *s, struct mr_pkt *pkt)
{
    void *object = pkt;

    s->cache->len = (uint32_t)(s->top - mr_stash_slot(s, 0));
    rte_mempool_generic_put(s->mp, &object, 1, s->cache);
    s->top = mr_stash_slot(s, s->cache->len);
}

/* One of the packets wanted, as it was put: mr_pkt_refresh is the caller's. */
MR_INLINE struct mr_pkt *
mr_stash_take_stale(struct mr_stash *s)
{
    return MR_HAS(STASH) ? *--s->top : mr_stash_call_take(s);
}

/* One of the packets wanted, fresh; the caller sets both lengths. */
MR_INLINE struct mr_pkt *
mr_stash_take(struct mr_stash *s)
{
    struct mr_pkt *pkt = mr_stash_take_stale(s);

    mr_pkt_refresh(pkt);
    return pkt;
}

/* Makes place for n packets (at most MR_BURST_MAX) to be put. */
MR_INLINE void
mr_stash_room(struct mr_stash *s, uint32_t n)
{
    if (mr_unlikely(s->top + n > mr_stash_slot(s, MR_COUNT_OF(s->cache->objs))))
        s->top = mr_stash_shed(*s);
}

/* Gives a packet back that is the pool's own, of one segment and held by
 * nobody else: without a look at it. */
MR_INLINE void
mr_stash_put(struct mr_stash *s, struct mr_pkt *pkt)
{
    if (!MR_HAS(PLAIN_HOME))
        rte_pktmbuf_prefree_seg((struct rte_mbuf *)pkt);
    if (MR_HAS(STASH))
        *s->top++ = pkt;
    else
        mr_stash_call_put(s, pkt);
}
