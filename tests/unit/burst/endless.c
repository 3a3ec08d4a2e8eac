/* A driver that never runs out of bad buffers (C15, C17): while one burst runs,
 * a second thread gives every buffer that comes back unused to the core again.
 * The burst must end all the same, after about a ring's worth of them. */
#include "unit/burst/hostile.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { SIZE = 32768, SECONDS = 3 };

struct feeder {
    struct rig *rig;
    bool first;
    uint32_t running, stop;
};

static struct mr_pkt *pkts[MR_BURST_MAX];

/* A buffer that has the wrong direction, available in the lap after the one
 * that the used entry belongs to. */
static void
feed_packed(struct feeder *f, uint32_t *at, bool *lap)
{
    struct mr_packed_desc *ring = f->rig->peer.part[0];
    uint16_t write = f->rig->setup.rx ? MR_DESC_WRITE : 0;
    bool first = f->first && !*at;
    uint16_t flags = mr_load_acquire(&ring[*at + first].flags);
    uint16_t used = *lap ? MR_DESC_AVAIL | MR_DESC_USED : 0;

    /* The burst withholds its first entry until its end; the second tells. */
    if ((flags & (MR_DESC_AVAIL | MR_DESC_USED)) != used)
        return;
    f->first = false;
    __atomic_store_n(&ring[*at].flags,
                     (uint16_t)(write | (*lap ? MR_DESC_USED : MR_DESC_AVAIL)),
                     __ATOMIC_RELEASE);
    if (++*at == SIZE) {
        *at = 0;
        *lap = !*lap;
    }
}

static void
feed_split(struct feeder *f)
{
    struct mr_split_avail *avail = f->rig->peer.part[1];
    struct mr_split_used *used = f->rig->peer.part[2];

    __atomic_store_n(&avail->idx,
                     (uint16_t)(mr_load_acquire(&used->idx) + SIZE),
                     __ATOMIC_RELEASE);
}

static void *
feed(void *arg)
{
    struct feeder *f = arg;
    time_t end = time(NULL) + SECONDS;
    uint32_t at = 0;
    bool lap = true;

    mr_store_release(&f->running, 1);
    while (!mr_load_acquire(&f->stop) && time(NULL) < end)
        for (int i = 0; i < 1000; i++)
            if (f->rig->peer.packed)
                feed_packed(f, &at, &lap);
            else
                feed_split(f);
    return NULL;
}

static void
prepare(struct rig *rig)
{
    struct mr_split_desc bad = element(rig, scratch(rig), 100);

    bad.flags ^= MR_DESC_WRITE;
    for (uint32_t i = 0; i < SIZE; i++)
        expose(rig, &bad, 1);
}

static void
one_burst(bool packed, bool rx, uint64_t features, bool spliced)
{
    struct row row = {.features = features, .size = SIZE, .slab = 256};
    struct trial t = {&row, packed, rx, spliced};
    struct rig rig;
    struct feeder f = {&rig, true, 0, 0};
    pthread_t thread;
    uint32_t n;

    open_trial(&rig, &t, false);
    prepare(&rig);
    if (!rx)
        pkts[0] = frame_packet(rig.pool, 60, 0);
    assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
    while (!mr_load_acquire(&f.running))
        sched_yield();
    n = rig.burst(&rig.ring, pkts, rx ? MR_BURST_MAX : 1);
    mr_store_release(&f.stop, 1);
    pthread_join(thread, NULL);
    assert_int_equal(n, 0);
    if (!rx)
        mr_pkts_free(pkts, 1);
    if (rig.counters.skipped > 2 * SIZE)
        fail_msg("one burst went through %lu buffers of a ring of %u",
                 rig.counters.skipped, SIZE);
    assert_true(rig.counters.skipped > 0);
    close_trial(&rig);
}

static void
C17_split_burst_ends(void **state)
{
    (void)state;
    one_burst(false, true, 0, false);
    one_burst(false, true, 0, true);
    one_burst(false, false, 0, false);
    one_burst(false, false, 0, true);
    one_burst(false, false, MR_F(MRG_RXBUF), false);
    one_burst(false, false, MR_F(MRG_RXBUF), true);
}

static void
C17_packed_burst_ends(void **state)
{
    (void)state;
    one_burst(true, true, 0, false);
    one_burst(true, true, 0, true);
    one_burst(true, false, 0, false);
    one_burst(true, false, 0, true);
    one_burst(true, false, MR_F(MRG_RXBUF), false);
    one_burst(true, false, MR_F(MRG_RXBUF), true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C17_split_burst_ends),
        cmocka_unit_test(C17_packed_burst_ends),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
