/* The two barrier classes, chosen by feature 36 (ORDER_PLATFORM) at
 * negotiation and passed as a constant (seed B: never tested per packet).
 *
 * Without it both ends are CPUs of one coherent system: a release store
 * publishes, an acquire load observes. With it the peer may be a device
 * behind a bus: the same accesses with I/O fences around them. On x86 the
 * first class costs nothing but the compiler's freedom. */
#pragma once

#include "base/atomic.h"

/* Stores a 16-bit word that makes everything before it the peer's: avail.idx,
 * used.idx, the flags of a packed head (S50, S52, P56, P58). */
MR_INLINE void
mr_order_publish(uint16_t *word, uint16_t value, bool platform)
{
    if (platform) {
        mr_fence_io_write();
        mr_store(word, value);
    } else {
        mr_store_release(word, value);
    }
}

/* Loads such a word; what it covers may be read afterwards (S51, S53, P57,
 * P59). Pairs with the peer's publish. */
MR_INLINE uint16_t
mr_order_observe(const uint16_t *word, bool platform)
{
    uint16_t value;

    if (!platform)
        return mr_load_acquire(word);
    value = mr_load(word);
    mr_fence_io_read();
    return value;
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
