/* Both ends at once, each on a thread of its own: what one publishes the other
 * may see only whole (S50-S53, P56-P60), the buffers of one packet only
 * together (N37, P24), and a peer that sleeps until it is notified must always
 * be woken (C9, C10, S54-S56, P61-P63). The core polls; the peer sleeps on its
 * eventfd whenever it has nothing to do. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "peer/rig.h"
#include "unit/eal.h"

enum { PACKETS = 12000, LENGTH_MAX = 400, ROOM = 128, PATIENCE_MS = 5000 };

struct pair {
    struct rig rig;
    uint32_t done;    /* the peer's count of frames */
    uint32_t stop;    /* the core's thread gave up */
    bool good;
};

static const struct peer_shape WHOLE = {PEER_CUT_whole, PEER_CHAIN};

static uint32_t
length(uint32_t seq)
{
    return MR_FRAME_MIN + seq * 2654435761u % (LENGTH_MAX - MR_FRAME_MIN);
}

/* ---- The peer's thread ------------------------------------------------- */

/* Each does what it can now: 1 = something, 0 = nothing, -1 = failed. */
static int
as_sender(struct pair *pair)
{
    struct peer *p = &pair->rig.peer;
    uint8_t frame[LENGTH_MAX];
    int moved = 0, back;

    while (pair->done < PACKETS) {
        frame_fill(frame, length(pair->done), pair->done);
        if (peer_send(p, &WHOLE, frame, length(pair->done)) != 1)
            break;
        pair->done++;
        moved = 1;
    }
    back = peer_sent(p);
    return back < 0 ? -1 : moved || back;
}

static int
as_receiver(struct pair *pair)
{
    struct peer *p = &pair->rig.peer;
    static uint8_t frame[PEER_FRAME_MAX];
    uint32_t len, unused = 0;
    int moved = 0, rc;

    while ((rc = peer_receive(p, frame, &len, &unused)) == 1) {
        if (len != length(pair->done) || !frame_same(frame, len, pair->done))
            return peer_fail(p, "frame %u is wrong", pair->done);
        pair->done++;
        moved = 1;
    }
    while (peer_post(p, &WHOLE, p->features >> MR_F_MRG_RXBUF & 1
                                    ? ROOM
                                    : 12 + LENGTH_MAX) == 1)
        moved = 1;
    return rc < 0 ? -1 : moved;
}

static int
as_giver(struct pair *pair)
{
    struct peer *p = &pair->rig.peer;
    struct peer_list list;
    uint8_t frame[LENGTH_MAX];
    int moved = 0, rc;
    uint16_t id;

    while ((rc = peer_take(p, &list, &id)) == 1)
        moved = 1;
    while (rc == 0 && pair->done < PACKETS) {
        frame_fill(frame, length(pair->done), pair->done);
        if (peer_give(p, frame, length(pair->done)) != 1)
            break;
        pair->done++;
        moved = 1;
    }
    return p->error[0] ? -1 : moved;
}

static int
as_taker(struct pair *pair)
{
    struct peer *p = &pair->rig.peer;
    static uint8_t frame[PEER_FRAME_MAX];
    struct peer_list list;
    uint32_t len, zero = 0;
    int moved = 0;
    uint16_t id;

    while (peer_take(p, &list, &id) == 1) {
        if (peer_frame_read(p, id, frame, &len))
            return -1;
        if (len != length(pair->done) || !frame_same(frame, len, pair->done))
            return peer_fail(p, "frame %u is wrong", pair->done);
        pair->done++;
        peer_complete(p, &id, &zero, 1);
        moved = 1;
    }
    return p->error[0] ? -1 : moved;
}

static int
turn(struct pair *pair)
{
    static int (*const role[2][2])(struct pair *) = {{as_giver, as_taker},
                                                     {as_receiver, as_sender}};
    const struct peer *p = &pair->rig.peer;

    return role[p->driver][!p->to_driver](pair);
}

/* Is there anything that the peer still waits for? A sender waits for its
 * buffers, the others for frames; a giver is done when it gave all. */
static bool
waits(const struct pair *pair)
{
    const struct peer *p = &pair->rig.peer;

    if (p->driver && !p->to_driver)
        return pair->done < PACKETS || peer_outstanding(p);
    return pair->done < PACKETS;
}

/* C10: asks to be notified, looks once more, sleeps. */
static bool
sleep_until_notified(struct pair *pair)
{
    struct peer *p = &pair->rig.peer;
    struct pollfd fd = {pair->rig.event, POLLIN, 0};
    int rc;

    for (uint32_t i = peer_random(p, 200); i; i--)
        __asm__ volatile("" ::: "memory"); /* meets the core at any point */
    peer_notify_set(p, PEER_EVENT, p->driver ? p->used : p->avail, 0);
    rc = turn(pair);
    if (rc)
        return rc > 0;
    rc = poll(&fd, 1, PATIENCE_MS);
    if (rc <= 0 && !__atomic_load_n(&pair->stop, __ATOMIC_ACQUIRE))
        return peer_fail(p, "C9 C10: not woken at frame %u, position %u/%u",
                         pair->done, p->event.pos, p->event.wrap), false;
    rig_notified(&pair->rig);
    peer_notify_set(p, PEER_QUIET, p->driver ? p->used : p->avail, 0);
    return rc > 0;
}

static void *
peer_thread(void *arg)
{
    struct pair *pair = arg;
    int rc = 0;

    while (rc >= 0 && waits(pair)) {
        rc = turn(pair);
        if (rc == 0 && waits(pair))
            rc = sleep_until_notified(pair) ? 1 : -1;
    }
    pair->good = rc >= 0;
    __atomic_store_n(&pair->stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- The core's thread ------------------------------------------------- */

static uint32_t
receive(struct pair *pair, uint32_t seq)
{
    struct mr_pkt *pkts[32];
    uint32_t n = pair->rig.burst(&pair->rig.ring, pkts,
                                 1 + rig_random(&pair->rig, 32));

    for (uint32_t i = 0; i < n; i++)
        if (!frame_packet_same(pkts[i], length(seq + i), seq + i))
            rig_fail(&pair->rig, "packet %u is wrong", seq + i);
    mr_pkts_free(pkts, n);
    return n;
}

static uint32_t
transmit(struct pair *pair, uint32_t seq)
{
    struct mr_pkt *pkts[32];
    uint32_t n = 1 + rig_random(&pair->rig, 32), sent;

    n = MR_MIN(n, PACKETS - seq);
    for (uint32_t i = 0; i < n; i++)
        pkts[i] = frame_packet(pair->rig.pool, length(seq + i), seq + i);
    sent = pair->rig.burst(&pair->rig.ring, pkts, n);
    mr_pkts_free(pkts + sent, n - sent);
    return sent;
}

/* Both threads may share one CPU: whoever finds nothing to do lets the other
 * run. */
static void
core_thread(struct pair *pair)
{
    struct rig *rig = &pair->rig;
    uint32_t seq = 0, n;

    while (seq < PACKETS && !rig->error[0] &&
           !__atomic_load_n(&pair->stop, __ATOMIC_ACQUIRE)) {
        n = rig->setup.rx ? receive(pair, seq) : transmit(pair, seq);
        seq += n;
        if (!n)
            sched_yield();
    }
    while (seq < PACKETS && rig->setup.rx && !rig->error[0] && pair->good) {
        n = receive(pair, seq);
        seq += n;
        if (!n)
            break;
    }
    if (seq < PACKETS)
        rig_fail(rig, "%u of %u packets crossed", seq, PACKETS);
}

static void
run(bool driver, bool rx, uint64_t features, uint32_t size, bool spliced)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | MR_F(EVENT_IDX) | features,
        .size = size,
        .driver = driver,
        .rx = rx,
        .room = driver && rx && size > 8 && features & MR_F(MRG_RXBUF) ? 64
                                                                       : 512,
        .slab = 1024,
    };
    static struct pair pair;
    pthread_t thread;

    pair = (struct pair){0};
    assert_true(rig_open(&pair.rig, &s));
    if (spliced && !rig_splice(&pair.rig, features & MR_F(RING_PACKED)))
        fail_msg("%s", pair.rig.error);
    peer_notify_set(&pair.rig.peer, PEER_QUIET, pair.rig.peer.used, 0);
    if (driver && rx)
        pair.rig.burst(&pair.rig.ring, NULL, 0);
    assert_int_equal(pthread_create(&thread, NULL, peer_thread, &pair), 0);
    core_thread(&pair);
    if (pair.rig.error[0])
        __atomic_store_n(&pair.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (!pair.good)
        fail_msg("peer: %s; %s", pair.rig.peer.error, pair.rig.error);
    assert_int_equal(pair.done, PACKETS);
    if (!rig_close(&pair.rig))
        fail_msg("%s", pair.rig.error);
}

static void
run_all(bool driver, bool rx, bool spliced)
{
    for (int i = 0; i < 16; i++)
        run(driver, rx,
            (i & 1 ? MR_F(RING_PACKED) : 0) | (i & 2 ? MR_F(IN_ORDER) : 0) |
                (i & 4 ? MR_F(MRG_RXBUF) : 0) |
                (i & 8 ? MR_F(ORDER_PLATFORM) : 0),
            i & 1 ? 13 : 16, spliced);
}

/* With one buffer in the ring each packet is a race between "publish, look for
 * the event" and "name the event, look at the ring". */
static void
C9_C10_no_wake_up_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++)
        run(i & 1, i & 2,
            (i & 4 ? MR_F(RING_PACKED) : 0) |
                (i & 8 ? MR_F(ORDER_PLATFORM) : 0),
            1, false);
}

static void
S50_P56_device_rx(void **state)
{
    (void)state;
    run_all(false, true, false);
}

static void
N37_P24_device_tx(void **state)
{
    (void)state;
    run_all(false, false, false);
}

static void
S50_P56_splice_from(void **state)
{
    (void)state;
    run_all(false, true, true);
}

static void
N37_P24_splice_to(void **state)
{
    (void)state;
    run_all(false, false, true);
}

static void
S53_P59_driver_rx(void **state)
{
    (void)state;
    run_all(true, true, false);
}

static void
S50_P56_driver_tx(void **state)
{
    (void)state;
    run_all(true, false, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S50_P56_device_rx),
        cmocka_unit_test(N37_P24_device_tx),
        cmocka_unit_test(S50_P56_splice_from),
        cmocka_unit_test(N37_P24_splice_to),
        cmocka_unit_test(S53_P59_driver_rx),
        cmocka_unit_test(S50_P56_driver_tx),
        cmocka_unit_test(C9_C10_no_wake_up_is_lost),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
