#include "stress/run.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <rte_lcore.h>

#include "base/error.h"
#include "burst/splice.h"
#include "stress/stamp.h"

enum { BURST = 32, CAP = 2, QUIET_S = 60 };

/* One side's thread. */
struct end {
    struct run *run;
    struct pair_side *side;
    bool driver;
    uint32_t most_tx, most_rx;
    uint64_t sent, got;
    struct mr_pkt *held[BURST]; /* made, not sent yet */
    uint32_t nheld;
};

bool
run_fail(struct run *run, const char *fmt, ...)
{
    uint32_t none = 0;
    va_list args;

    if (!__atomic_compare_exchange_n(&run->failed, &none, 1, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return false;
    va_start(args, fmt);
    vsnprintf(run->error, sizeof(run->error), fmt, args);
    va_end(args);
    return false;
}

bool
run_goes_on(const struct run *run)
{
    return !mr_load_acquire(&run->failed);
}

/* ---- One side ------------------------------------------------------------ */

/* Bursts of any size, also from one packet to the next. */
static uint32_t
burst_size(uint64_t seq)
{
    return 1 + (uint32_t)(seq * 2654435761u >> 7) % BURST;
}

/* Packets that may be sent now. The driver knows what is out once it has taken
 * back what is done. */
static uint32_t
allowed(struct end *e)
{
    const struct mr_ring *ring = &e->side->tx.ring;
    uint32_t out;

    if (!e->driver || e->run->mode != RUN_capped)
        return BURST;
    pair_burst(&e->side->tx, NULL, 0);
    out = (uint32_t)ring->size - ring->at.free;
    return out < CAP ? CAP - out : 0;
}

static bool
send(struct end *e)
{
    uint64_t next = e->sent + e->nheld;
    uint64_t left = e->run->packets - next;
    uint32_t n = (uint32_t)MR_MIN(left, (uint64_t)burst_size(next));
    uint32_t most, sent;

    if (!e->nheld)
        while (e->nheld < n) {
            struct mr_pkt *pkt =
                stamp_packet(e->side->pool, next + e->nheld, e->most_tx);

            if (!pkt)
                break;
            e->held[e->nheld++] = pkt;
        }
    most = allowed(e);
    n = MR_MIN(e->nheld, most);
    if (!n)
        return false;
    sent = pair_burst(&e->side->tx, e->held, n);
    e->sent += sent;
    e->nheld -= sent;
    for (uint32_t i = 0; i < e->nheld; i++)
        e->held[i] = e->held[i + sent];
    return sent;
}

static bool
receive(struct end *e)
{
    struct mr_pkt *pkts[BURST];
    uint32_t n = BURST;

    if (e->driver && e->run->mode == RUN_checked) {
        uint64_t ready = mr_load_acquire(&e->run->checked) - e->got;

        n = (uint32_t)MR_MIN(ready, (uint64_t)BURST);
        if (!n)
            return false;
    }
    n = pair_burst(&e->side->rx, pkts, n);
    for (uint32_t i = 0; i < n; i++, e->got++)
        if (!stamp_packet_same(pkts[i], e->got, e->most_rx)) {
            run_fail(e->run, "%s: packet %llu is wrong; it says %llu, and has "
                     "%u bytes in %u segments",
                     e->driver ? "driver" : "device",
                     (unsigned long long)e->got,
                     (unsigned long long)stamp_number(pkts[i]),
                     pkts[i]->pkt_len, pkts[i]->nb_segs);
            break;
        }
    mr_pkts_free(pkts, n);
    return n;
}

/* Everything goes straight back; a packet that must be taken as one does so
 * before those behind it. */
static bool
splice(struct end *e)
{
    int32_t n;

    if (e->nheld) {
        uint32_t sent = pair_burst(&e->side->tx, e->held, e->nheld);

        e->sent += sent;
        e->nheld -= sent;
        return sent;
    }
    n = mr_splice(&e->side->rx.ring, &e->side->tx.ring, BURST, NULL);
    if (n == MR_SPLICE_TAKE) {
        e->nheld = pair_burst(&e->side->rx, e->held, 1);
        e->got += e->nheld;
        return e->nheld;
    }
    if (n <= 0)
        return false;
    e->got += (uint32_t)n;
    e->sent += (uint32_t)n;
    return true;
}

/* One turn: false when there was nothing to do. */
static bool
turn(struct end *e)
{
    bool moved;

    if (!e->driver && e->run->mode == RUN_spliced)
        return splice(e);
    moved = receive(e);
    if (e->sent < e->run->packets)
        moved |= send(e);
    return moved;
}

/* The threads may share one CPU: who finds nothing to do lets others run. */
static void *
end_thread(void *arg)
{
    struct end *e = arg;
    struct run *run = e->run;

    if (rte_thread_register() < 0)
        run_fail(run, "no lcore for a thread");
    while (run_goes_on(run) &&
           (e->sent < run->packets || e->got < run->packets)) {
        bool moved = turn(e);

        if (e->side->rx.ring.fault || e->side->tx.ring.fault)
            run_fail(run, "%s: a ring broke: %s",
                     e->driver ? "driver" : "device",
                     mr_fault_row(MR_MAX(e->side->rx.ring.fault,
                                         e->side->tx.ring.fault))->name);
        if (!moved)
            sched_yield();
    }
    mr_pkts_free(e->held, e->nheld);
    mr_pools_flush();
    rte_thread_unregister();
    return NULL;
}

/* ---- The run ------------------------------------------------------------- */

/* What was sent is completed, though nothing follows it (T13a). */
static void
check_end(struct run *run)
{
    struct pair_queue *tx = &run->pair.driver.tx;

    if (!run_goes_on(run))
        return;
    pair_burst(tx, NULL, 0);
    if (tx->ring.at.free != tx->ring.size)
        run_fail(run, "%u descriptors of the last packets never came back",
                 tx->ring.size - tx->ring.at.free);
}

/* Joins, and says so when it takes suspiciously long. */
static void
join(pthread_t thread, const char *name)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    do
        until.tv_sec += QUIET_S;
    while (pthread_timedjoin_np(thread, NULL, &until) &&
           fprintf(stderr, "still waiting for the %s's thread\n", name));
}

static void
threads(struct run *run)
{
    struct end device = {.run = run, .side = &run->pair.device,
                         .most_tx = run->most_down, .most_rx = run->most_up};
    struct end driver = {.run = run, .side = &run->pair.driver, .driver = true,
                         .most_tx = run->most_up, .most_rx = run->most_down};
    bool checked = run->mode == RUN_checked;
    pthread_t thread[3];

    if (checked && pthread_create(&thread[2], NULL, run_checker, run))
        checked = run_fail(run, "no thread");
    if (pthread_create(&thread[0], NULL, end_thread, &device)) {
        run_fail(run, "no thread");
    } else {
        if (pthread_create(&thread[1], NULL, end_thread, &driver))
            run_fail(run, "no thread");
        else
            join(thread[1], "driver");
        join(thread[0], "device");
    }
    if (checked)
        join(thread[2], "checker");
}

bool
run_all(struct run *run)
{
    bool one_buffer = run->mode == RUN_checked ||
                      !(run->setup.features & MR_F(MRG_RXBUF));

    run->failed = 0;
    run->checked = 0;
    run->most_down = one_buffer ? run->setup.room : STAMP_MOST;
    run->most_up = run->mode == RUN_spliced ? run->most_down : STAMP_MOST;
    if (pair_open(&run->pair, &run->setup)) {
        threads(run);
        check_end(run);
    } else {
        run_fail(run, "%s", mr_error_text());
    }
    if (!pair_close(&run->pair))
        run_fail(run, "%s", mr_error_text());
    return run_goes_on(run);
}
