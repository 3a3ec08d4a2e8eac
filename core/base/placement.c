/* See placement.h. Two threads hand one word, and with it one cache line, to
 * each other. The first counts up to odd numbers, the second answers with the
 * next even one. A handful of round trips make a sample; the median of many
 * samples is not moved by a few in which somebody else had a CPU. */
#include "base/placement.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/process.h"

enum {
    TRIPS = 16,     /* round trips in a sample */
    SAMPLES = 1024, /* about 2.5 ms between separate cores */
    SAMPLES_MIN = 64,
    SPINS = 1 << 12, /* looks at the word between two looks at the clock */
    ENOUGH_NS = 20 * 1000 * 1000, /* then the least number of samples will do */
    LIMIT_NS = 200 * 1000 * 1000,
    NAP_NS = 50 * 1000,
};

struct court {
    MR_LINE uint32_t word;
    MR_LINE uint32_t over; /* 1 = the first thread asks for no more */
    uint64_t begin;
    uint32_t n;
    uint64_t ticks[SAMPLES];
};

static const struct {
    const char *name;
    double lo, hi; /* ns; 0 = of no measured round trip */
} classes[] = {
#define MR_X(name, text, lo, hi) {text, lo, hi},
    MR_PLACEMENTS(MR_X)
#undef MR_X
};

const char *
mr_placement_name(uint32_t placement)
{
    return placement < MR_PLACEMENT_COUNT ? classes[placement].name : NULL;
}

enum mr_placement
mr_placement_of(double ns)
{
    for (int i = 0; i < MR_PLACEMENT_COUNT; i++)
        if (ns > 0 && ns >= classes[i].lo && ns <= classes[i].hi)
            return (enum mr_placement)i;
    return MR_PLACEMENT_UNKNOWN;
}

/* Waits until the word is `wanted`. False when there is no use in waiting. An
 * answer that is so late comes from a thread that others keep from its CPU:
 * who sleeps meanwhile has a CPU at once when it is that thread's turn. */
static bool
await(struct court *c, uint32_t wanted)
{
    const struct timespec nap = {0, NAP_NS};

    for (uint32_t spin = 1; mr_load_acquire(&c->word) != wanted; spin++) {
        if (spin % SPINS)
            continue;
        if (mr_load(&c->over) || mr_now() - c->begin > LIMIT_NS)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

static bool
enough(const struct court *c)
{
    return c->n == SAMPLES ||
           (c->n >= SAMPLES_MIN && mr_now() - c->begin > ENOUGH_NS);
}

static bool
sample(struct court *c, uint32_t *at)
{
    for (int i = 0; i < TRIPS; i++, *at += 2) {
        mr_store_release(&c->word, *at + 1);
        if (!await(c, *at + 2))
            return false;
    }
    return true;
}

static void *
serve(void *arg)
{
    struct court *c = arg;
    uint32_t at = 0;
    bool both = sample(c, &at); /* until both threads run */

    while (both && !enough(c)) {
        uint64_t begin = mr_tsc();

        both = sample(c, &at);
        if (both)
            c->ticks[c->n++] = mr_tsc() - begin;
    }
    mr_store(&c->over, 1);
    return NULL;
}

static void *
answer(void *arg)
{
    struct court *c = arg;

    for (uint32_t at = 1; await(c, at); at += 2)
        mr_store_release(&c->word, at + 1);
    return NULL;
}

static int
start(int cpu, void *(*run)(void *), struct court *c, pthread_t *thread)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int rc;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    rc = pthread_create(thread, &attr, run, c);
    pthread_attr_destroy(&attr);
    if (rc == EINVAL)
        mr_error_set(-rc, "probe: CPU %d is not among those allowed to us; see "
                          "'moonring doctor'", cpu);
    else if (rc)
        mr_error_set(-rc, "probe of CPU %d: no thread: %s", cpu, strerror(rc));
    return -rc;
}

static int
play(struct court *c, int a, int b)
{
    pthread_t first, second;
    int rc = start(b, answer, c, &second);

    if (rc)
        return rc;
    rc = start(a, serve, c, &first);
    if (rc)
        mr_store(&c->over, 1);
    else
        pthread_join(first, NULL);
    pthread_join(second, NULL);
    return rc;
}

static int
by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double
median_ns(struct court *c)
{
    if (c->n < SAMPLES_MIN)
        return 0;
    qsort(c->ticks, c->n, sizeof(c->ticks[0]), by_size);
    return (double)c->ticks[c->n / 2] / TRIPS * 1e9 / (double)mr_tsc_hz();
}

int
mr_probe_cores(int a, int b, struct mr_probe *out)
{
    struct court *c;
    int rc;

    memset(out, 0, sizeof(*out));
    if (a < 0 || b < 0 || a >= CPU_SETSIZE || b >= CPU_SETSIZE)
        return mr_error_set(-EINVAL, "probe: CPUs %d and %d: 0..%d", a, b,
                            CPU_SETSIZE - 1);
    if (a == b) {
        out->placement = MR_PLACEMENT_ONE_CORE;
        return 0;
    }
    c = aligned_alloc(MR_CACHE_LINE, sizeof(*c));
    if (!c)
        return mr_error_set(-ENOMEM, "probe: no memory");
    memset(c, 0, sizeof(*c));
    c->begin = mr_now();
    rc = play(c, a, b);
    out->samples = c->n;
    out->ns = rc ? 0 : median_ns(c);
    out->placement = mr_placement_of(out->ns);
    free(c);
    return rc;
}
