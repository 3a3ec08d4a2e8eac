/* Vocabulary of the core: attributes, branch hints and compile-time helpers.
 * No state, no owner. Everything else may include this file. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/technique.h"

/* Page sizes that memory is mapped in, and the unit of the CPU's caches. */
enum { MR_PAGE = 4096, MR_HUGE_PAGE = 2 << 20 };
#define MR_CACHE_LINE 64
#define MR_ALIGNED(n) __attribute__((aligned(n)))
#define MR_LINE       MR_ALIGNED(MR_CACHE_LINE)

/* A body that is specialised by constant arguments. */
#define MR_INLINE static inline __attribute__((always_inline))
/* Rare work: kept out of the instruction lines of the burst. */
#define MR_COLD         __attribute__((noinline, cold))
#define MR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* for (int i = 0; i < n; i++) with a small constant n, as straight-line code
 * (T3). */
#if !MR_HAS(UNROLLED)
#define MR_UNROLLED(i, n) for (int i = 0; i < (n); i++)
#elif defined(__clang__)
#define MR_UNROLLED(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define MR_UNROLLED(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif

/* Asks for the line of `p` to read it. Any address is allowed. */
MR_INLINE void
mr_prefetch(const void *p)
{
    __builtin_prefetch(p);
}

/* Asks for the line of `p` to write to: one transfer from the CPU that has it
 * instead of one to read and another to write. Any address is allowed. */
MR_INLINE void
mr_prefetch_write(const void *p)
{
#if !MR_HAS(WRITE_PREFETCH)
    (void)p;
#elif defined(__x86_64__)
    /* A CPU without the instruction takes it for a no-op. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

#define mr_likely(x)   __builtin_expect(!!(x), 1)
#define mr_unlikely(x) __builtin_expect(!!(x), 0)

/* `value`, which most often is `guess`: a predicted branch instead of a data
 * dependency, so what follows need not wait for the load behind `value`. The
 * empty asm keeps the compiler from merging the two arms again. */
MR_INLINE uint32_t
mr_predict(uint32_t value, uint32_t guess)
{
    if (mr_likely(value == guess)) {
        value = guess;
        __asm__("" : "+r"(value));
    }
    return value;
}

#define MR_MIN(a, b)   ((a) < (b) ? (a) : (b))
#define MR_MAX(a, b)   ((a) > (b) ? (a) : (b))
#define MR_COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define MR_CONTAINER(p, type, member)                                          \
    ((type *)(void *)((char *)(p)-offsetof(type, member)))
