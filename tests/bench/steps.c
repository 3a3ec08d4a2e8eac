/* Every step of every path, for an instruction counter: both ends on one
 * thread pass a burst round in a steady state, and one step at a time goes
 * through steps_measured; steps_cell_end tells that a cell is complete.
 * instructions.sh runs this under callgrind, which collects inside the first
 * and writes its count when the second is entered.
 *
 *   steps          prints a line a cell: LEVEL PATH STEP PACKETS
 *   steps --build  prints the compiler, and the CPU level that is counted
 *                  first; every lower one follows */
#include <stdio.h>
#include <string.h>

#include "burst/splice.h"
#include "pair/pair.h"
#include "unit/eal.h"

enum { RING = 256, BURST = 32, FRAME = 60, WARM = 64, ROUNDS = 64 };

/* The steps, and how a burst goes round in them: as packets, or spliced. */
enum step { DRIVER_RX, DRIVER_TX, DEVICE_RX, DEVICE_TX, SPLICE, STEP_COUNT };

static const char *const step_name[] = {"driver_rx", "driver_tx", "device_rx",
                                        "device_tx", "splice"};

static const enum step packets_round[] = {DRIVER_RX, DRIVER_TX, DEVICE_RX,
                                          DEVICE_TX, STEP_COUNT};
static const enum step splice_round[] = {DRIVER_RX, DRIVER_TX, SPLICE,
                                         STEP_COUNT};

MR_INLINE uint32_t
step_take(struct pair *pair, enum step step, struct mr_pkt **pkts)
{
    switch (step) {
    case DRIVER_RX:
        return pair_burst(&pair->driver.rx, pkts, BURST);
    case DRIVER_TX:
        return pair_burst(&pair->driver.tx, pkts, BURST);
    case DEVICE_RX:
        return pair_burst(&pair->device.rx, pkts, BURST);
    case DEVICE_TX:
        return pair_burst(&pair->device.tx, pkts, BURST);
    default:
        return (uint32_t)mr_splice(&pair->device.rx.ring,
                                   &pair->device.tx.ring, BURST, NULL);
    }
}

uint32_t steps_measured(struct pair *, enum step, struct mr_pkt **);
void steps_cell_end(void);

__attribute__((noinline)) uint32_t
steps_measured(struct pair *pair, enum step step, struct mr_pkt **pkts)
{
    return step_take(pair, step, pkts);
}

__attribute__((noinline)) void
steps_cell_end(void)
{
    __asm__ volatile("");
}

/* Takes the burst round `rounds` times. False when a packet stays behind. */
static bool
run(struct pair *pair, const enum step *round, enum step measured,
    uint32_t rounds)
{
    struct mr_pkt *pkts[BURST];

    for (uint32_t i = 0; i < rounds; i++)
        for (const enum step *at = round; *at != STEP_COUNT; at++) {
            uint32_t n = *at == measured ? steps_measured(pair, *at, pkts)
                                         : step_take(pair, *at, pkts);

            if (n != BURST)
                return false;
        }
    return true;
}

/* Puts two bursts in, so that there is always one to take. */
static bool
prime(struct pair *pair)
{
    struct mr_pkt *pkts[BURST];

    for (int i = 0; i < 2; i++) {
        if (!mr_pkts_alloc(pair->device.pool, pkts, BURST))
            return false;
        for (int k = 0; k < BURST; k++) {
            memset(mr_pkt_data(pkts[k]), 0, FRAME);
            mr_pkt_set_len(pkts[k], FRAME);
        }
        if (pair_burst(&pair->device.tx, pkts, BURST) != BURST)
            return false;
    }
    return true;
}

static const char *
step_variant(const struct pair *pair, enum step step)
{
    const char *const variant[] = {
        pair->driver.rx.variant, pair->driver.tx.variant,
        pair->device.rx.variant, pair->device.tx.variant,
        pair->device.rx.variant};

    return variant[step];
}

/* Counts the steps of a round from `first` on. */
static bool
count(struct pair *pair, const enum step *round, enum step first)
{
    if (!run(pair, round, STEP_COUNT, WARM))
        return false;
    for (const enum step *at = round; *at != STEP_COUNT; at++) {
        if (*at < first)
            continue;
        if (!run(pair, round, *at, ROUNDS))
            return false;
        steps_cell_end();
        printf("%s %s %s %d\n", mr_cpu_name(mr_cpu_level()),
               step_variant(pair, *at), step_name[*at], ROUNDS * BURST);
    }
    return true;
}

static bool
path(uint64_t features)
{
    struct pair_setup setup = {
        .features = features, .size = RING, .packets = 2048, .room = 2048};
    struct pair pair;
    bool open = pair_open(&pair, &setup);
    bool good = open && prime(&pair) &&
                count(&pair, packets_round, DRIVER_RX) &&
                count(&pair, splice_round, SPLICE);

    if (open && !good)
        fprintf(stderr, "steps: a packet stayed behind, features %#llx\n",
                (unsigned long long)features);
    if (!pair_close(&pair) || !open) {
        fprintf(stderr, "steps: %s\n", mr_error_text());
        return false;
    }
    return good;
}

static bool
paths(void)
{
    static const uint64_t bit[] = {MR_F(RING_PACKED), MR_F(MRG_RXBUF),
                                   MR_F(IN_ORDER), MR_F(ORDER_PLATFORM)};

    for (uint32_t set = 0; set < 1u << MR_COUNT_OF(bit); set++) {
        uint64_t features = 0;

        for (uint32_t i = 0; i < MR_COUNT_OF(bit); i++)
            features |= set >> i & 1 ? bit[i] : 0;
        if (!path(features))
            return false;
    }
    return true;
}

static void
print_build(void)
{
#if defined(__clang__)
    printf("clang %s", __clang_version__);
#else
    printf("gcc %s", __VERSION__);
#endif
    printf(", CPU level %s\n", mr_cpu_name(mr_cpu_level()));
}

int
main(int argc, char **argv)
{
    int level = mr_cpu_level();

    if (argc > 1 && !strcmp(argv[1], "--build")) {
        print_build();
        return 0;
    }
    eal_start();
    for (; level >= 0; level--)
        if (mr_cpu_cap(mr_cpu_name(level)) || !paths())
            return 1;
    return 0;
}
