/* Ordered access to words that two threads or two processes share (rules
 * C11, C21). Each macro is exactly one load or one store; a value that was
 * loaded is validated and used from the local copy only.
 *
 * The full fence stands only between publishing work and reading the peer's
 * suppression state, or between storing one's own suppression state and
 * looking at the ring again (C9, C10). */
#pragma once

#include "base/attr.h"

#define mr_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define mr_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define mr_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define mr_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* Adds to a counter that only this thread writes and that any may read. */
#define mr_count(p, n) mr_store((p), *(p) + (n))

#if defined(__SANITIZE_THREAD__)
#define MR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MR_TSAN 1
#endif
#endif

/* Loads with mr_load_fenced, of words that a peer published, act as acquire
 * loads once the fence stands behind them. A race detector does not know of
 * fences: it is shown acquire loads. */
#define mr_fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#if defined(MR_TSAN)
#define mr_load_fenced(p) mr_load_acquire(p)
#else
#define mr_load_fenced(p) mr_load(p)
#endif

/* Store-load barrier: everything before is visible before anything after is
 * read. On x86 a locked add on the stack is cheaper than mfence and enough
 * for ordinary (write-back) memory. */
MR_INLINE void
mr_fence_full(void)
{
#if defined(__x86_64__) && !defined(MR_TSAN)
    __asm__ volatile("lock addl $0, -128(%%rsp)" ::: "memory", "cc");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Barriers against a hardware device (feature 36): a store or load fence that
 * also orders write-combining memory. */
MR_INLINE void
mr_fence_io_write(void)
{
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb oshst" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

MR_INLINE void
mr_fence_io_read(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb oshld" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

MR_INLINE void
mr_fence_io_full(void)
{
#if defined(__x86_64__)
    __asm__ volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb osh" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Tells the processor that this thread spins. */
MR_INLINE void
mr_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
