#include "mem/packet.h"

#include <errno.h>
#include <rte_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/error.h"
#include "mem/arena.h"
#include "mem/packet_stash.h"

#define SAME_OFFSET(ours, theirs)                                              \
    static_assert(offsetof(struct mr_pkt, ours) ==                             \
                      offsetof(struct rte_mbuf, theirs),                       \
                  "mirror of rte_mbuf")

SAME_OFFSET(buf_addr, buf_addr);
SAME_OFFSET(buf_iova, buf_iova);
SAME_OFFSET(data_off, data_off);
SAME_OFFSET(refcnt, refcnt);
SAME_OFFSET(nb_segs, nb_segs);
SAME_OFFSET(port, port);
SAME_OFFSET(ol_flags, ol_flags);
SAME_OFFSET(packet_type, packet_type);
SAME_OFFSET(pkt_len, pkt_len);
SAME_OFFSET(data_len, data_len);
SAME_OFFSET(vlan_tci, vlan_tci);
SAME_OFFSET(hash, hash);
SAME_OFFSET(vlan_tci_outer, vlan_tci_outer);
SAME_OFFSET(buf_len, buf_len);
SAME_OFFSET(pool, pool);
SAME_OFFSET(next, next);
SAME_OFFSET(tx_offload, tx_offload);
SAME_OFFSET(shinfo, shinfo);
SAME_OFFSET(priv_size, priv_size);
SAME_OFFSET(timesync, timesync);
SAME_OFFSET(dynfield1, dynfield1);
static_assert(sizeof(struct mr_pkt) == sizeof(struct rte_mbuf),
              "mirror of rte_mbuf");
static_assert(MR_HEADROOM == RTE_PKTMBUF_HEADROOM, "one headroom");

enum {
    POOL_PACKETS = 8192,
    POOL_PACKETS_MAX = 1 << 22,
    ROOM = 2048,
    ROOM_MIN = 64,
    ROOM_MAX = 32768,
    CACHE = 256,
};

/* Buffers an odd number of cache lines apart. */
static size_t
pool_stride(uint32_t room)
{
    size_t lines = (MR_HEADROOM + room + MR_CACHE_LINE - 1) / MR_CACHE_LINE;

    if (!MR_HAS(ODD_STRIDE))
        return rte_align32pow2((uint32_t)lines * MR_CACHE_LINE);
    return (lines | 1) * MR_CACHE_LINE;
}

size_t
mr_pool_bytes(uint32_t packets, uint32_t room)
{
    return packets * pool_stride(room ? room : ROOM) + MR_CACHE_LINE;
}

static int
options_check(const struct mr_pool_options *o)
{
    if (o->packets > POOL_PACKETS_MAX)
        return mr_error_set(-EINVAL, "pool of %u packets: at most %u",
                            o->packets, POOL_PACKETS_MAX);
    if (o->size && (o->size < ROOM_MIN || o->size > ROOM_MAX))
        return mr_error_set(-EINVAL, "pool with buffers of %u bytes: %u..%u",
                            o->size, ROOM_MIN, ROOM_MAX);
    if (o->cache > RTE_MEMPOOL_CACHE_MAX_SIZE)
        return mr_error_set(-EINVAL, "pool with a cache of %u packets: 0..%u",
                            o->cache, RTE_MEMPOOL_CACHE_MAX_SIZE);
    return 0;
}

/* Runs once a packet while the pool is built. */
static void
packet_init(struct rte_mempool *mp, void *opaque, void *object, unsigned i)
{
    struct mr_pool *pool = opaque;
    struct rte_mbuf *m = object;
    struct rte_mbuf_ext_shared_info *shared = (void *)(m + 1);

    if (i == 0)
        pool->first = object;
    memset(m, 0, sizeof(*m));
    m->buf_addr = pool->bytes + i * pool->stride;
    m->buf_iova = (uintptr_t)m->buf_addr;
    m->buf_len = (uint16_t)(MR_HEADROOM + pool->room);
    m->pool = mp;
    mr_pkt_refresh((struct mr_pkt *)m);
    m->shinfo = shared;
    memset(shared, 0, sizeof(*shared));
    rte_mbuf_ext_refcnt_set(shared, 1);
}

static void *
map_private(size_t size)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return NULL;
    if (MR_HAS(HUGE_PAGES))
        madvise(map, size, MADV_HUGEPAGE);
    return map;
}

static int
pool_bytes_get(struct mr_pool *pool, struct mr_arena *arena)
{
    size_t size = mr_pool_bytes(pool->packets, pool->room);

    if (arena) {
        pool->bytes = mr_arena_alloc(arena, size, MR_CACHE_LINE);
    } else {
        pool->own_bytes_size = size;
        pool->own_bytes = map_private(size);
        pool->bytes = pool->own_bytes;
    }
    return pool->bytes ? 0 : -ENOMEM;
}

/* The mempool's objects (packet headers) lie in a mapping of ours, so pools
 * are not bounded by the memory that the EAL was started with. */
static int
pool_headers_get(struct mr_pool *pool, uint32_t cache)
{
    static uint32_t serial;
    struct rte_pktmbuf_pool_private priv = {
        .mbuf_data_room_size = (uint16_t)(MR_HEADROOM + pool->room),
        .flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
    };
    uint32_t element =
        sizeof(struct rte_mbuf) + sizeof(struct rte_mbuf_ext_shared_info);
    uint32_t total = rte_mempool_calc_obj_size(element, 0, NULL);
    const size_t page = MR_HUGE_PAGE;
    char name[RTE_MEMPOOL_NAMESIZE];
    int n;

    snprintf(name, sizeof(name), "mr_%u",
             __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
    pool->mp = rte_mempool_create_empty(name, pool->packets, element, cache,
                                        sizeof(priv), SOCKET_ID_ANY,
                                        RTE_MEMPOOL_F_NO_IOVA_CONTIG);
    if (!pool->mp)
        return -rte_errno;
    if (rte_mempool_set_ops_byname(pool->mp, "ring_mp_mc", NULL))
        return -ENOTSUP;
    rte_pktmbuf_pool_init(pool->mp, &priv);
    pool->headers_size =
        ((size_t)total * pool->packets + MR_PAGE + page - 1) / page * page;
    pool->headers = map_private(pool->headers_size);
    if (!pool->headers)
        return -ENOMEM;
    n = rte_mempool_populate_virt(pool->mp, pool->headers, pool->headers_size,
                                  MR_PAGE, NULL, NULL);
    if (n != (int)pool->packets)
        return n < 0 ? n : -ENOMEM;
    pool->per_line = (1ull << 32) / (total / MR_CACHE_LINE) + 1;
    rte_mempool_obj_iter(pool->mp, packet_init, pool);
    return 0;
}

static void
pool_destroy(struct mr_pool *pool)
{
    rte_mempool_free(pool->mp);
    if (pool->headers)
        munmap(pool->headers, pool->headers_size);
    if (pool->own_bytes)
        munmap(pool->own_bytes, pool->own_bytes_size);
    free(pool);
}

int
mr_pool_create_in(struct mr_arena *arena, const struct mr_pool_options *options,
                  struct mr_pool **out)
{
    struct mr_pool *pool;
    uint32_t cache;
    int rc = options_check(options);

    if (rc)
        return rc;
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return mr_error_set(-ENOMEM, "no memory for a packet pool");
    pool->packets = options->packets ? options->packets : POOL_PACKETS;
    pool->room = options->size ? options->size : ROOM;
    pool->stride = pool_stride(pool->room);
    pool->span = pool->stride * pool->packets;
    /* DPDK wants caches well below the pool's size. */
    cache =
        MR_MIN(options->cache ? options->cache : CACHE, pool->packets * 2 / 3);
    rc = pool_bytes_get(pool, arena);
    if (!rc)
        rc = pool_headers_get(pool, cache);
    if (rc) {
        pool_destroy(pool);
        return mr_error_set(rc,
                            "cannot make a pool of %u packets (%s): ask "
                            "for fewer",
                            options->packets, mr_error_name(rc));
    }
    *out = pool;
    return 0;
}

int
mr_pool_create(const struct mr_pool_options *options, struct mr_pool **pool)
{
    return mr_pool_create_in(NULL, options, pool);
}

int
mr_pool_free(struct mr_pool *pool)
{
    uint32_t home = mr_pool_available(pool);

    if (home < pool->packets)
        return mr_error_set(-EBUSY,
                            "%u packets of the pool are still out: "
                            "free bursts and close ports first",
                            pool->packets - home);
    pool_destroy(pool);
    return 0;
}

static void
pool_flush(struct rte_mempool *mp, void *opaque)
{
    struct rte_mempool_cache *cache =
        rte_mempool_default_cache(mp, rte_lcore_id());

    (void)opaque;
    if (cache)
        rte_mempool_cache_flush(cache, mp);
}

void
mr_pools_flush(void)
{
    rte_mempool_walk(pool_flush, NULL);
}

uint32_t
mr_pool_size(const struct mr_pool *pool)
{
    return pool->packets;
}

uint32_t
mr_pool_available(const struct mr_pool *pool)
{
    return rte_mempool_avail_count(pool->mp);
}

uint32_t
mr_pool_buffer(const struct mr_pool *pool)
{
    return pool->room;
}

int
mr_pool_template(struct mr_pool *pool, const void *bytes, uint32_t len)
{
    if (len > pool->room || len > sizeof(pool->template))
        return mr_error_set(
            -EINVAL, "template of %u bytes: at most %u", len,
            MR_MIN(pool->room, (uint32_t)sizeof(pool->template)));
    memcpy(pool->template, bytes, len);
    pool->template_len = len;
    return 0;
}

/* The cache of threads that have none: empty between bursts. */
struct rte_mempool_cache *
mr_stash_spare(void)
{
    static _Thread_local struct rte_mempool_cache spare;

    return &spare;
}

/* Takes as many as refill the cache, or what the pool has. */
MR_COLD struct mr_pkt **
mr_stash_fetch(struct mr_stash s, uint32_t n)
{
    struct mr_pkt **end = mr_stash_slot(&s, n);
    uint32_t more = (uint32_t)(end - s.top) + s.cache->size;

    while (s.top < end && more) {
        uint32_t least = (uint32_t)(end - s.top);

        if (!rte_mempool_ops_dequeue_bulk(s.mp, (void **)s.top, more))
            s.top += more;
        else
            more = more > least ? least : more / 2;
    }
    return s.top;
}

/* Leaves as many as the cache is made for. */
MR_COLD struct mr_pkt **
mr_stash_shed(struct mr_stash s)
{
    struct mr_pkt **keep = mr_stash_slot(&s, s.cache->size);

    rte_mempool_ops_enqueue_bulk(s.mp, (void **)keep, (unsigned)(s.top - keep));
    return keep;
}

uint32_t
mr_pkts_alloc(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n)
{
    uint32_t got = 0;
    struct mr_stash s;

    mr_stash_open(&s, pool->mp);
    if (mr_stash_want(&s, n) == n)
        for (; got < n; got++)
            pkts[got] = mr_stash_take(&s);
    mr_stash_close(&s);
    return got;
}

uint32_t
mr_pkts_fill(struct mr_pool *pool, struct mr_pkt **pkts, uint32_t n)
{
    n = mr_pkts_alloc(pool, pkts, n);
    for (uint32_t i = 0; i < n; i++) {
        mr_pkt_set_len(pkts[i], pool->template_len);
        memcpy(mr_pkt_data(pkts[i]), pool->template, pool->template_len);
    }
    return n;
}

uint32_t
mr_pool_alloc(struct mr_pool *pool, struct mr_burst *burst, uint32_t n)
{
    mr_burst_free(burst);
    n = MR_MIN(n ? n : burst->cap, burst->cap);
    burst->n = mr_pkts_fill(pool, burst->pkt, n);
    return burst->n;
}

/* One segment, held by nobody else, in its own pool's buffer. */
static bool
is_plain(const struct mr_pkt *pkt)
{
    return mr_pkt_single(pkt) && pkt->ol_flags == RTE_MBUF_F_EXTERNAL;
}

/* How many packets from the first on are plain and of one pool. */
static uint32_t
plain_run(struct mr_pkt *const *pkts, uint32_t n)
{
    const void *pool = pkts[0]->pool;
    uint32_t i = 0;

    while (i < n && pkts[i]->pool == pool && is_plain(pkts[i]))
        i++;
    return i;
}

void
mr_pkts_free(struct mr_pkt **pkts, uint32_t n)
{
    while (n) {
        uint32_t run = plain_run(pkts, MR_MIN(n, (uint32_t)MR_BURST_MAX));
        struct mr_stash s;

        if (run) {
            mr_stash_open(&s, pkts[0]->pool);
            mr_stash_room(&s, run);
            memcpy(s.top, pkts, run * sizeof(*pkts));
            s.top += run;
            mr_stash_close(&s);
        } else {
            rte_pktmbuf_free((struct rte_mbuf *)pkts[0]);
            run = 1;
        }
        pkts += run;
        n -= run;
    }
}

void
mr_burst_free(struct mr_burst *burst)
{
    mr_pkts_free(burst->pkt, MR_MIN(burst->n, (uint32_t)MR_BURST_MAX));
    burst->n = 0;
}

void
mr_pkt_free(struct mr_pkt *pkt)
{
    if (pkt)
        mr_pkts_free(&pkt, 1);
}

static struct mr_pkt *
last_segment(struct mr_pkt *pkt)
{
    while (pkt->next)
        pkt = pkt->next;
    return pkt;
}

uint8_t *
mr_pkt_append(struct mr_pkt *pkt, uint32_t len)
{
    struct mr_pkt *last = last_segment(pkt);
    uint8_t *end = mr_pkt_data(last) + last->data_len;

    if (len > mr_pkt_tailroom(last)) {
        mr_error_set(-EINVAL,
                     "cannot append %u bytes: the last buffer has "
                     "room for %u",
                     len, mr_pkt_tailroom(last));
        return NULL;
    }
    last->data_len = (uint16_t)(last->data_len + len);
    pkt->pkt_len += len;
    return end;
}

int
mr_pkt_trim(struct mr_pkt *pkt, uint32_t len)
{
    struct mr_pkt *last = last_segment(pkt);

    if (len > last->data_len)
        return mr_error_set(-EINVAL,
                            "cannot trim %u bytes: the last segment "
                            "has %u",
                            len, last->data_len);
    last->data_len = (uint16_t)(last->data_len - len);
    pkt->pkt_len -= len;
    return 0;
}

uint8_t *
mr_pkt_prepend(struct mr_pkt *pkt, uint32_t len)
{
    if (len > pkt->data_off) {
        mr_error_set(-EINVAL, "cannot prepend %u bytes: the headroom is %u",
                     len, pkt->data_off);
        return NULL;
    }
    pkt->data_off = (uint16_t)(pkt->data_off - len);
    pkt->data_len = (uint16_t)(pkt->data_len + len);
    pkt->pkt_len += len;
    return mr_pkt_data(pkt);
}

int
mr_pkt_adj(struct mr_pkt *pkt, uint32_t len)
{
    if (len > pkt->data_len)
        return mr_error_set(-EINVAL,
                            "cannot take %u bytes off the front: the "
                            "first segment has %u",
                            len, pkt->data_len);
    pkt->data_off = (uint16_t)(pkt->data_off + len);
    pkt->data_len = (uint16_t)(pkt->data_len - len);
    pkt->pkt_len -= len;
    return 0;
}

uint32_t
mr_pkt_read(const struct mr_pkt *pkt, uint32_t offset, void *out, uint32_t len)
{
    uint32_t done = 0;

    for (; pkt && done < len; pkt = pkt->next) {
        uint32_t n;

        if (offset >= pkt->data_len) {
            offset -= pkt->data_len;
            continue;
        }
        n = MR_MIN(len - done, pkt->data_len - offset);
        memcpy((uint8_t *)out + done, mr_pkt_data(pkt) + offset, n);
        done += n;
        offset = 0;
    }
    return done;
}

struct mr_pkt *
mr_pkt_chain(struct mr_pool *pool, uint32_t len)
{
    uint32_t left = len;
    struct mr_pkt *head = NULL;
    struct mr_pkt **link = &head;
    uint16_t segs = 0;

    do {
        struct mr_pkt *seg;

        if (!mr_pkts_alloc(pool, &seg, 1)) {
            if (head)
                head->nb_segs = segs;
            mr_pkt_free(head);
            return NULL;
        }
        mr_pkt_set_len(seg, MR_MIN(left, pool->room));
        left -= seg->data_len;
        *link = seg;
        link = &seg->next;
        segs++;
    } while (left);
    head->nb_segs = segs;
    head->pkt_len = len;
    return head;
}

struct mr_pkt *
mr_pkt_copy(struct mr_pool *pool, const struct mr_pkt *pkt)
{
    struct mr_pkt *copy = mr_pkt_chain(pool, pkt->pkt_len);
    uint32_t at = 0;

    for (struct mr_pkt *seg = copy; seg; seg = seg->next) {
        mr_pkt_read(pkt, at, mr_pkt_data(seg), seg->data_len);
        at += seg->data_len;
    }
    return copy;
}
