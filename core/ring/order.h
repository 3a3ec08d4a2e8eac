/* The two barrier classes, chosen by feature 36 (ORDER_PLATFORM) at
 * negotiation and passed as a constant: never tested per packet (T22).
 *
 * Without it both ends are CPUs of one coherent system: a release store
 * publishes, an acquire load observes. With it the peer may be a device
 * behind a bus: the same accesses with I/O fences around them. On x86 the
 * first class costs nothing but the compiler's freedom. */
#pragma once

#include "base/atomic.h"

#if defined(MR_ORDER_BUILD) /* a build that only measures (seeds 2.3) */
#include "ring/order_builds.h"
#else

/* Stores a word (16 or 64 bits) that makes everything before it the peer's:
 * avail.idx, used.idx, the second half of a packed descriptor with its flags
 * (S50, S52, P56, P58). */
#define mr_order_publish(word, value, platform)                                \
    do {                                                                       \
        if (platform)                                                          \
            mr_fence_io_write();                                               \
        mr_store_release((word), (value));                                     \
    } while (0)

/* Loads such a word into `value`; what it covers may be read afterwards (S51,
 * S53, P57, P59). Pairs with the peer's publish. */
#define mr_order_observe(value, word, platform)                                \
    do {                                                                       \
        (value) = mr_load_acquire(word);                                       \
        if (platform)                                                          \
            mr_fence_io_read();                                                \
    } while (0)

/* After loads of such words with mr_load_fenced: one fence for all (T20). */
MR_INLINE void
mr_order_observed(bool platform)
{
    if (platform)
        mr_fence_io_read();
    else
        mr_fence_acquire();
}

/* Between a publish and reading the peer's suppression state (C9; S54, S55,
 * P61, P62). */
MR_INLINE void
mr_order_before_suppression(bool platform)
{
    if (platform)
        mr_fence_io_full();
    else
        mr_fence_full();
}

#endif
