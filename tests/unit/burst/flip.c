/* A driver that changes descriptors, tables, headers and heads while a burst
 * reads them (hostile-inputs C13, D2, F2, J8; rules C11, S75): a second thread
 * flips fields between good and hostile values, for a bounded number of
 * rounds. What arrives may be any bytes, but every packet must be well formed,
 * nothing may be written outside buffers and regions, and every packet must
 * come home. Worth most under the address sanitizer. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "burst/loan.h"
#include "mem/packet_loan.h"
#include "peer/rig.h"
#include "unit/eal.h"

enum { SIZE = 64, CROSSING = 6, ROUNDS = 3000, TABLE_ENTRIES = 8 };

static const uint64_t OUTSIDE = 0x7fff00000000;

struct flipper {
    struct rig *rig;
    uint32_t stop;
    uint64_t random;
};

static uint32_t
any(struct flipper *f, uint32_t n)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return (uint32_t)((f->random >> 33) % n);
}

static uint64_t
slab(const struct rig *rig, uint32_t i)
{
    return rig->slabs_guest + (uint64_t)i * rig->setup.slab;
}

static uint64_t
some_address(struct flipper *f)
{
    const struct rig *rig = f->rig;
    const uint64_t good = slab(rig, any(f, SIZE));
    const uint64_t list[] = {good, good + 1, OUTSIDE, UINT64_MAX - 20,
                             slab(rig, rig->setup.slabs) - 30,
                             rig->slabs_guest + 3};

    return list[any(f, MR_COUNT_OF(list))];
}

static uint32_t
some_length(struct flipper *f)
{
    static const uint32_t list[] = {72, 100, 60000, 0, 11, 13, 1500, 2112,
                                    UINT32_MAX, 16 * TABLE_ENTRIES};

    return list[any(f, MR_COUNT_OF(list))];
}

/* One field of a 16-byte descriptor. The last two words hold flags and next,
 * or id and flags: either way good and bad bits. */
static void
flip_descriptor(struct flipper *f, uint8_t *desc)
{
    static const uint16_t bits[] = {0, 1, 2, 4, 5, 6, 3, 0x80, 0x81, 0x82,
                                    0x84, 0x85, 0xffff};
    uint16_t word = bits[any(f, MR_COUNT_OF(bits))];

    switch (any(f, 4)) {
    case 0:
        __atomic_store_n((uint64_t *)(void *)desc, some_address(f),
                         __ATOMIC_RELAXED);
        break;
    case 1:
        __atomic_store_n((uint32_t *)(void *)(desc + 8), some_length(f),
                         __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((uint16_t *)(void *)(desc + 12), word,
                         __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n((uint16_t *)(void *)(desc + 14), word,
                         __ATOMIC_RELAXED);
    }
}

/* Descriptors mostly, tables and headers often (in slabs that are of one
 * piece), heads seldom: those stop the ring. */
static void *
flip(void *arg)
{
    struct flipper *f = arg;
    struct peer *p = &f->rig->peer;
    struct mr_split_avail *avail = p->part[1];
    uint64_t room;

    while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
        uint32_t i = any(f, SIZE), what = any(f, 64);
        uint32_t inner = CROSSING + any(f, SIZE - CROSSING);
        uint8_t *at = peer_memory_at(p->memory, slab(f->rig, inner), &room);

        if (what < 32)
            flip_descriptor(f, (uint8_t *)p->part[0] + 16 * i);
        else if (what < 50)
            flip_descriptor(f, at + 1024 + 16 * any(f, TABLE_ENTRIES));
        else if (what < 63)
            __atomic_store_n(at + any(f, 12), (uint8_t)any(f, 256),
                             __ATOMIC_RELAXED);
        else if (!p->packed)
            __atomic_store_n(&avail->ring[i], (uint16_t)any(f, SIZE + 1),
                             __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Descriptor i: a frame in its slab, directly or through a table there. */
static void
write_descriptor(struct rig *rig, uint32_t i)
{
    struct peer *p = &rig->peer;
    uint16_t write = rig->setup.rx ? 0 : MR_DESC_WRITE;
    bool table = i % 3 == 0;
    uint64_t addr = slab(rig, i) + (table ? 1024 : 0);
    uint32_t len = table ? 16 * TABLE_ENTRIES : i % 3 == 1 ? 1500 : 100;
    uint16_t flags = table ? MR_DESC_INDIRECT : write;
    struct mr_split_desc s = {addr, len, flags, 0};
    struct mr_packed_desc d = {addr, len, (uint16_t)i,
                               (uint16_t)(flags | MR_DESC_AVAIL)};

    for (uint32_t k = 0; k < TABLE_ENTRIES; k++) {
        uint16_t next = k + 1 < TABLE_ENTRIES && !p->packed ? MR_DESC_NEXT : 0;
        struct mr_split_desc e = {slab(rig, i) + 16 * k, 16,
                                  (uint16_t)(write | next),
                                  (uint16_t)(k + 1)};

        if (p->packed) {
            e.next = e.flags;
            e.flags = 0;
        }
        peer_memory_write(p->memory, slab(rig, i) + 1024 + 16 * k, &e, 16);
    }
    peer_memory_fill(p->memory, slab(rig, i), 0, 128);
    memcpy((uint8_t *)p->part[0] + 16 * i, p->packed ? (void *)&d : (void *)&s,
           16);
}

/* A fresh ring, all of it available. */
static void
prepare(struct rig *rig)
{
    struct mr_split_avail *avail = rig->peer.part[1];
    struct mr_split_used *used = rig->peer.part[2];

    for (uint32_t i = 0; i < SIZE; i++)
        write_descriptor(rig, i);
    if (rig->peer.packed)
        return;
    for (uint32_t i = 0; i < SIZE; i++)
        avail->ring[i] = (uint16_t)i;
    avail->idx = SIZE;
    used->idx = 0;
}

/* Headroom and the bytes behind each buffer: no burst receives there. */
static uint8_t *
pool_gap(const struct mr_pool *pool, uint32_t i, bool behind, size_t *len)
{
    uint8_t *at = pool->bytes + i * pool->stride;

    *len = behind ? pool->stride - MR_HEADROOM - pool->room : MR_HEADROOM;
    return behind ? at + MR_HEADROOM + pool->room : at;
}

static void
check_gaps(const struct mr_pool *pool)
{
    for (uint32_t i = 0; i < 2 * pool->packets; i++) {
        size_t len;
        const uint8_t *at = pool_gap(pool, i / 2, i & 1, &len);

        while (len--)
            assert_int_equal(at[len], PEER_CANARY);
    }
}

static void
fill_gaps(const struct mr_pool *pool)
{
    for (uint32_t i = 0; i < 2 * pool->packets; i++) {
        size_t len;
        uint8_t *at = pool_gap(pool, i / 2, i & 1, &len);

        memset(at, PEER_CANARY, len);
    }
}

static void
check_packet(const struct mr_pkt *pkt)
{
    uint32_t left = pkt->pkt_len, segs = 0;

    assert_in_range(pkt->pkt_len, MR_FRAME_MIN, MR_FRAME_MAX);
    for (const struct mr_pkt *s = pkt; s; s = s->next, segs++) {
        if (s->data_off) /* else lent: no room around it */
            assert_int_equal(s->data_off, MR_HEADROOM);
        else
            assert_int_equal(s->data_len, s->buf_len);
        assert_true(s->data_len <= s->buf_len - s->data_off);
        assert_true(s->data_len <= left);
        left -= s->data_len;
    }
    assert_int_equal(left, 0);
    assert_int_equal(segs, pkt->nb_segs);
}

static uint32_t
burst(struct rig *rig)
{
    struct mr_pkt *pkts[SIZE];
    uint32_t n = rig->setup.rx ? SIZE : 16, done;

    for (uint32_t i = 0; !rig->setup.rx && i < n; i++)
        pkts[i] = frame_packet(rig->pool, i % 5 ? 60 : 1500, i);
    done = rig->burst(&rig->ring, pkts, n);
    assert_true(done <= n);
    for (uint32_t i = 0; rig->setup.rx && i < done; i++)
        check_packet(pkts[i]);
    if (rig->setup.rx)
        mr_pkts_free(pkts, done);
    else
        mr_pkts_free(pkts + done, n - done);
    return done;
}

struct variant {
    bool packed, rx;
    uint64_t features;
    bool spliced, lent;
};

/* Starts the ring, which has stopped and lends, if there is a loan. */
static void
start(struct rig *rig, struct mr_loan *loan)
{
    assert_int_equal(mr_ring_start(&rig->ring, &rig->config), 0);
    if (!loan)
        return;
    rig->ring.loan = loan;
    rig->burst = mr_burst_select(&rig->ring, &rig->variant);
}

static void
run(const struct variant *v)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | MR_F(INDIRECT_DESC) | v->features |
                    (v->packed ? MR_F(RING_PACKED) : 0),
        .size = SIZE,
        .rx = v->rx,
        .slabs = SIZE,
        .crossing = true,
    };
    struct mr_pool *lender;
    struct mr_loan *loan = NULL;
    struct rig rig;
    struct flipper f = {&rig, 0, 0x2545f4914f6cdd1d};
    uint64_t packets = 0;
    pthread_t thread;

    assert_true(rig_open(&rig, &s));
    fill_gaps(rig.pool);
    if (v->spliced && !rig_splice(&rig, v->packed ? 0 : MR_F(RING_PACKED)))
        fail_msg("%s", rig.error);
    if (v->lent) {
        assert_int_equal(mr_loan_pool_create(SIZE, &lender), 0);
        assert_int_equal(mr_loan_open(rig.memory, lender, SIZE / 2, &loan), 0);
    }
    prepare(&rig);
    assert_int_equal(pthread_create(&thread, NULL, flip, &f), 0);
    for (int i = 0; i < ROUNDS; i++) {
        if (rig.ring.loan)
            mr_device_repay(&rig.ring, true);
        mr_ring_stop(&rig.ring);
        prepare(&rig);
        start(&rig, loan);
        for (int k = 0; k < 4; k++)
            packets += burst(&rig);
    }
    __atomic_store_n(&f.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    if (v->rx)
        check_gaps(rig.pool);
    assert_true(packets > 0);
    assert_true(rig.counters.skipped > 0);
    if (v->lent) {
        assert_true(rig.counters.lent > 0);
        assert_true(mr_loan_close(loan));
        assert_int_equal(mr_pool_free(lender), 0);
    }
    if (!rig_close(&rig))
        fail_msg("%s", rig.error);
}

/* Alone, as one end of a splice, and where there are loans with one. */
static void
run_all(bool packed, bool rx, uint64_t features)
{
    run(&(struct variant){packed, rx, features, false, false});
    run(&(struct variant){packed, rx, features, true, false});
    if (rx && !(features & MR_F(IN_ORDER)))
        run(&(struct variant){packed, rx, features, false, true});
}

static void
C13_split_rx(void **state)
{
    (void)state;
    run_all(false, true, 0);
}

static void
C13_split_tx(void **state)
{
    (void)state;
    run_all(false, false, 0);
    run_all(false, false, MR_F(MRG_RXBUF));
}

static void
D2_packed_rx(void **state)
{
    (void)state;
    run_all(true, true, 0);
    run_all(true, true, MR_F(IN_ORDER));
}

static void
D2_packed_tx(void **state)
{
    (void)state;
    run_all(true, false, 0);
    run_all(true, false, MR_F(MRG_RXBUF));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C13_split_rx),
        cmocka_unit_test(C13_split_tx),
        cmocka_unit_test(D2_packed_rx),
        cmocka_unit_test(D2_packed_tx),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
