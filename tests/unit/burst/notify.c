/* The notification decision, on both sides and in both layouts: the worked
 * values of S31 and P38, the modes (S29, S30, P35, P36), the first decision
 * (S33, P42), and that nothing is sent for nothing (S48, C8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "peer/rig.h"
#include "unit/eal.h"

static const struct peer_shape WHOLE = {PEER_CUT_whole, PEER_CHAIN};
static const uint64_t PACKED = MR_F(RING_PACKED);
static const uint64_t EVENT = MR_F(EVENT_IDX);

/* On each side the direction in which the core publishes n buffers by moving n
 * packets: device rx, driver tx. */
static void
open_rig(struct rig *rig, bool driver, uint64_t features, uint32_t size,
         uint32_t base)
{
    struct rig_setup s = {
        .features = MR_F(VERSION_1) | features,
        .size = size,
        .base = base,
        .driver = driver,
        .rx = !driver,
        .slab = 256,
    };

    if (!rig_open(rig, &s))
        fail_msg("%s", rig->error);
}

static void
close_rig(struct rig *rig)
{
    if (!rig_close(rig))
        fail_msg("%s", rig->error);
}

static void
move_device(struct rig *rig, uint32_t n)
{
    struct mr_pkt *pkts[MR_BURST_MAX];
    uint8_t frame[60];

    frame_fill(frame, sizeof(frame), 1);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(peer_send(&rig->peer, &WHOLE, frame, 60), 1);
    assert_int_equal(rig->burst(&rig->ring, pkts, MR_BURST_MAX), n);
    mr_pkts_free(pkts, n);
    assert_int_equal(peer_sent(&rig->peer), n);
}

static void
move_driver(struct rig *rig, uint32_t n)
{
    struct mr_pkt *pkts[MR_BURST_MAX];
    struct peer_list list;
    uint16_t id;
    uint32_t zero = 0;

    for (uint32_t i = 0; i < n; i++)
        pkts[i] = frame_packet(rig->pool, 60, 1);
    assert_int_equal(rig->burst(&rig->ring, pkts, n), n);
    while (peer_take(&rig->peer, &list, &id) == 1)
        peer_complete(&rig->peer, &id, &zero, 1);
    assert_string_equal(rig->peer.error, "");
}

/* Publishes n buffers in one burst; returns the notifications. */
static uint32_t
move(struct rig *rig, uint32_t n)
{
    if (rig->setup.driver)
        move_driver(rig, n);
    else
        move_device(rig, n);
    return rig_notified(rig);
}

static void
name_event(struct rig *rig, uint16_t pos, bool wrap)
{
    peer_notify_set(&rig->peer, PEER_EVENT, (struct peer_pos){pos, wrap}, 0);
}

static void
S31_worked_values(void **state)
{
    static const struct {
        uint16_t event, old, new;
        uint32_t due;
    } row[] = {
        {0, 0, 1, 1},         {5, 0, 5, 0}, {5, 0, 6, 1},
        {65535, 65534, 2, 1}, {3, 4, 9, 0}, {4, 4, 5, 1},
        {8, 4, 9, 1},         {9, 4, 9, 0},
    };

    (void)state;
    for (size_t i = 0; i < 2 * MR_COUNT_OF(row); i++) {
        uint16_t old = row[i / 2].old;
        struct rig rig;

        open_rig(&rig, i & 1, EVENT, 16, (uint16_t)(old - 1));
        move(&rig, 1); /* the first decision is unconditional */
        name_event(&rig, row[i / 2].event, false);
        assert_int_equal(move(&rig, (uint16_t)(row[i / 2].new - old)),
                         row[i / 2].due);
        close_rig(&rig);
    }
}

/* N 256, from position 250 of lap 1 to position 4 of lap 0. */
static void
P38_worked_values(void **state)
{
    static const struct {
        uint16_t off;
        bool wrap;
        uint32_t due;
    } row[] = {
        {252, true, 1}, {10, false, 0}, {3, false, 1},  {250, true, 1},
        {249, true, 0}, {4, false, 0},  {0, false, 1},  {255, true, 1},
        {252, false, 0}, {3, true, 0},
    };

    (void)state;
    for (size_t i = 0; i < 2 * MR_COUNT_OF(row); i++) {
        struct rig rig;

        open_rig(&rig, i & 1, PACKED | EVENT, 256, 0x80f980f9);
        move(&rig, 1);
        name_event(&rig, row[i / 2].off, row[i / 2].wrap);
        assert_int_equal(move(&rig, 10), row[i / 2].due);
        close_rig(&rig);
    }
}

/* P38 against the long way round, at every position of small rings. */
static void
P38_every_event_position_of_small_rings(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 7; size += 2) {
        struct rig rig;

        open_rig(&rig, size & 2, PACKED | EVENT, size, 0);
        for (uint32_t turn = 0; turn < 12 * size; turn++) {
            struct peer_pos *at =
                rig.setup.driver ? &rig.peer.avail : &rig.peer.used;
            struct peer_pos old = *at;
            uint32_t got;

            peer_notify_set(&rig.peer, PEER_EVENT, old, turn % size);
            got = move(&rig, 1 + turn / 3 % size);
            assert_int_equal(got, peer_notify_due(&rig.peer, old, *at));
        }
        close_rig(&rig);
    }
}

static void
S29_flags_decide_without_event_idx(void **state)
{
    (void)state;
    for (int driver = 0; driver < 2; driver++) {
        struct rig rig;

        open_rig(&rig, driver, 0, 16, 0);
        peer_notify_set(&rig.peer, PEER_QUIET, rig.peer.used, 0);
        assert_int_equal(move(&rig, 3), 0);
        peer_notify_set(&rig.peer, PEER_LOUD, rig.peer.used, 0);
        assert_int_equal(move(&rig, 3), 1);
        assert_int_equal(move(&rig, 1), 1);
        peer_notify_set(&rig.peer, PEER_QUIET, rig.peer.used, 0);
        assert_int_equal(move(&rig, 16), 0);
        close_rig(&rig);
    }
}

/* The flag that means nothing with EVENT_IDX. */
static void
S30_event_idx_ignores_the_flags(void **state)
{
    (void)state;
    for (int driver = 0; driver < 2; driver++) {
        struct rig rig;
        uint16_t *flags;

        open_rig(&rig, driver, EVENT, 16, 0);
        move(&rig, 1);
        name_event(&rig, 1, false);
        flags = rig.peer.part[driver ? 2 : 1];
        *flags = 1;
        assert_int_equal(move(&rig, 1), 1);
        *flags = 0;
        assert_int_equal(move(&rig, 1), 0); /* 1 lies behind */
        close_rig(&rig);
    }
}

static void
P35_enable_and_disable(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig rig;

        open_rig(&rig, i & 1, PACKED | (i & 2 ? EVENT : 0), 5, 0);
        peer_notify_set(&rig.peer, PEER_QUIET, rig.peer.used, 0);
        for (int lap = 0; lap < 4; lap++) /* P43: it does stay silent */
            assert_int_equal(move(&rig, 3), 0);
        peer_notify_set(&rig.peer, PEER_LOUD, rig.peer.used, 0);
        for (int lap = 0; lap < 4; lap++)
            assert_int_equal(move(&rig, 3), 1);
        close_rig(&rig);
    }
}

static void
set_event_words(struct rig *rig, uint16_t offset, uint16_t flags)
{
    struct mr_packed_event *e = rig->peer.part[rig->setup.driver ? 2 : 1];

    e->offset = offset;
    e->flags = flags;
}

static void
P36_P76_garbage_in_the_event_structure_means_enable(void **state)
{
    (void)state;
    for (int driver = 0; driver < 2; driver++) {
        struct rig rig;

        open_rig(&rig, driver, PACKED | EVENT, 16, 0);
        move(&rig, 1);
        set_event_words(&rig, 0x7777, 3);
        assert_int_equal(move(&rig, 1), 1);
        set_event_words(&rig, 0xffff, 2); /* an offset outside the ring */
        move(&rig, 16);
        close_rig(&rig);
        open_rig(&rig, driver, PACKED, 16, 0);
        move(&rig, 1);
        set_event_words(&rig, 0x800f, 2); /* DESC is not negotiated */
        assert_int_equal(move(&rig, 1), 1);
        close_rig(&rig);
    }
}

static void
S33_P42_first_decision_notifies(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rig rig;

        open_rig(&rig, i & 1, EVENT | (i & 2 ? PACKED : 0), 16, 0);
        name_event(&rig, 9, true);
        assert_int_equal(move(&rig, 1), 1);
        assert_int_equal(move(&rig, 1), 0);
        close_rig(&rig);
    }
}

static void
S33_first_decision_after_a_restart_notifies(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        struct rig rig;

        open_rig(&rig, false, EVENT | (packed ? PACKED : 0), 16, 0);
        name_event(&rig, 9, true);
        move(&rig, 1);
        rig.config.base = mr_ring_base(&rig.ring);
        mr_ring_stop(&rig.ring);
        assert_int_equal(mr_ring_start(&rig.ring, &rig.config), 0);
        assert_int_equal(move(&rig, 1), 1);
        assert_int_equal(move(&rig, 1), 0);
        close_rig(&rig);
    }
}

static void
S48_C8_nothing_published_means_no_notification(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct mr_pkt *pkts[1];
        struct rig rig;

        open_rig(&rig, i & 1, i & 2 ? PACKED : 0, 16, 0);
        peer_notify_set(&rig.peer, PEER_LOUD, rig.peer.used, 0);
        assert_int_equal(move(&rig, 2), 1);
        for (int k = 0; k < 3; k++)
            assert_int_equal(rig.burst(&rig.ring, pkts, i & 1 ? 0 : 1), 0);
        assert_int_equal(rig_notified(&rig), 0);
        assert_int_equal(rig.counters.notified, 1);
        close_rig(&rig);
    }
}

static void
V41_no_eventfd_is_not_an_error(void **state)
{
    (void)state;
    for (int driver = 0; driver < 2; driver++) {
        struct rig rig;

        open_rig(&rig, driver, 0, 16, 0);
        rig.ring.notify_fd = -1;
        assert_int_equal(move(&rig, 2), 0);
        assert_int_equal(rig.counters.notify_errors, 0);
        close_rig(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S31_worked_values),
        cmocka_unit_test(P38_worked_values),
        cmocka_unit_test(P38_every_event_position_of_small_rings),
        cmocka_unit_test(S29_flags_decide_without_event_idx),
        cmocka_unit_test(S30_event_idx_ignores_the_flags),
        cmocka_unit_test(P35_enable_and_disable),
        cmocka_unit_test(P36_P76_garbage_in_the_event_structure_means_enable),
        cmocka_unit_test(S33_P42_first_decision_notifies),
        cmocka_unit_test(S33_first_decision_after_a_restart_notifies),
        cmocka_unit_test(S48_C8_nothing_published_means_no_notification),
        cmocka_unit_test(V41_no_eventfd_is_not_an_error),
    };

    return cmocka_run_group_tests(tests, eal_setup, NULL);
}
