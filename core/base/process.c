#include "base/process.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"

enum { CALIBRATE_NS = 20 * 1000 * 1000 };

static uint32_t stopped;
static uint32_t wakes; /* sleepers wait for this word to change */
static _Thread_local const uint32_t *thread_stop;
static void (*stop_wake)(void);
static uint64_t tsc_hz;

const char *
mr_version(void)
{
    return MR_VERSION;
}

bool
mr_process_stops(void)
{
    return mr_load(&stopped);
}

int
mr_running(void)
{
    return !mr_process_stops() && !(thread_stop && mr_load(thread_stop));
}

void
mr_thread_stop_word(const uint32_t *word)
{
    thread_stop = word;
}

void
mr_wake_sleepers(void)
{
    __atomic_fetch_add(&wakes, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void
mr_stop_hook(void (*wake)(void))
{
    mr_store_release(&stop_wake, wake);
}

void
mr_stop(void)
{
    void (*wake)(void) = mr_load_acquire(&stop_wake);

    mr_store_release(&stopped, 1);
    mr_wake_sleepers();
    if (wake)
        wake();
}

uint64_t
mr_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void
mr_sleep_us(uint64_t us)
{
    uint64_t now = mr_now();
    uint64_t end = us > (UINT64_MAX - now) / 1000 ? UINT64_MAX
                                                  : now + us * 1000;

    if (!us)
        sched_yield();
    /* A signal ends a wait early without stopping the process. */
    for (; now < end; now = mr_now()) {
        uint32_t seen = __atomic_load_n(&wakes, __ATOMIC_SEQ_CST);
        uint64_t left = MR_MIN(end - now, 3600ull * 1000000000ull);
        struct timespec timeout = {(time_t)(left / 1000000000ull),
                                   (long)(left % 1000000000ull)};

        if (!mr_running())
            return;
        syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL,
                0);
    }
}

uint64_t
mr_tsc(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return mr_now();
#endif
}

/* Ticks a second, against the monotonic clock. Two threads that measure at the
 * same time find the same value within noise; either may stay. */
static uint64_t
tsc_measure(void)
{
    uint64_t begin = mr_now(), ticks = mr_tsc(), now;

    do
        now = mr_now();
    while (now - begin < CALIBRATE_NS);
    return (uint64_t)((double)(mr_tsc() - ticks) * 1e9 / (double)(now - begin));
}

uint64_t
mr_tsc_hz(void)
{
    uint64_t hz = mr_load(&tsc_hz);

    if (!hz) {
        hz = tsc_measure();
        mr_store(&tsc_hz, hz);
    }
    return hz;
}
