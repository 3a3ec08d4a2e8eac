/* Faults that the control thread meets: a ring that cannot be set up, and guest
 * memory whose file shrinks while bursts run (V62). */
#include "unit/burst/hostile.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static struct mr_pkt *pkts[MR_BURST_MAX];

/* n good buffers for the core. */
static void
offer(struct rig *rig, uint32_t n)
{
    uint8_t frame[60];

    frame_fill(frame, 60, 0);
    while (n--)
        assert_int_equal(rig->setup.rx
                             ? peer_send(&rig->peer, &WHOLE, frame, 60)
                             : peer_post(&rig->peer, &WHOLE, 1600), 1);
}

static void
RING_SETUP_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct row row = {0};
        struct trial t = {&row, i & 1, true, false};
        struct mr_ring ring = {0};
        struct rig rig;

        open_trial(&rig, &t, false);
        rig.config.part[0] = (uint8_t *)rig.config.part[0] + 8;
        assert_int_equal(mr_ring_start(&ring, &rig.config), -EINVAL);
        close_trial(&rig);
    }
}

/* The handler that the guard installed; cmocka puts its own over it. */
static struct sigaction guard;

static int
setup(void **state)
{
    struct mr_memory *none;

    if (mr_memory_create(NULL, NULL, 0, &none))
        return -1;
    mr_memory_destroy(none);
    return sigaction(SIGBUS, NULL, &guard) || eal_setup(state);
}

/* V62: the file shrinks under us; the burst reads zeros and goes on. */
static void
MEMORY_LOST_is_survived_and_told(void **state)
{
    (void)state;
    sigaction(SIGBUS, &guard, NULL);
    for (int i = 0; i < 4; i++) {
        struct row row = {.slab = 65536};
        struct trial t = {&row, i & 1, i & 2, false};
        struct rig rig;

        open_trial(&rig, &t, false);
        offer(&rig, 4);
        assert_int_equal(rig.memory->lost, 0);
        assert_int_equal(ftruncate(rig.guest.fd, 0), 0);
        rig.torn = true;
        for (int k = 0; k < 4; k++) {
            uint32_t n = 4;

            if (t.rx) {
                n = rig.burst(&rig.ring, pkts, n);
                mr_pkts_free(pkts, n);
                continue;
            }
            for (uint32_t j = 0; j < n; j++)
                pkts[j] = frame_packet(rig.pool, 60, 0);
            n = rig.burst(&rig.ring, pkts, 4);
            mr_pkts_free(pkts + n, 4 - n);
        }
        assert_int_equal(rig.memory->lost, 1);
        close_trial(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(RING_SETUP_is_refused),
        cmocka_unit_test(MEMORY_LOST_is_survived_and_told),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
