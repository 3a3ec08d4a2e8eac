/* Copies of packet bytes, inline for the short frames that a packet rate is
 * made of: a call to memcpy costs as much as the copy itself. Longer ones are
 * memcpy's, which chooses by CPU. */
#pragma once

#include <string.h>

#include "base/attr.h"

typedef uint8_t mr_bytes16 __attribute__((vector_size(16), aligned(1)));

/* 16..32 bytes as two halves that may overlap. */
MR_INLINE void
mr_copy_32(uint8_t *to, const uint8_t *from, size_t len)
{
    mr_bytes16 head = *(const mr_bytes16 *)from;
    mr_bytes16 tail = *(const mr_bytes16 *)(from + len - 16);

    *(mr_bytes16 *)to = head;
    *(mr_bytes16 *)(to + len - 16) = tail;
}

/* The same for 32..64. */
MR_INLINE void
mr_copy_64(uint8_t *to, const uint8_t *from, size_t len)
{
    const mr_bytes16 *last = (const mr_bytes16 *)(from + len - 32);
    mr_bytes16 a = ((const mr_bytes16 *)from)[0];
    mr_bytes16 b = ((const mr_bytes16 *)from)[1];
    mr_bytes16 c = last[0];
    mr_bytes16 d = last[1];

    ((mr_bytes16 *)to)[0] = a;
    ((mr_bytes16 *)to)[1] = b;
    ((mr_bytes16 *)(to + len - 32))[0] = c;
    ((mr_bytes16 *)(to + len - 32))[1] = d;
}

/* Copies len bytes between areas that do not overlap. */
MR_INLINE void
mr_copy(void *restrict to, const void *restrict from, size_t len)
{
    uint8_t *t = to;
    const uint8_t *f = from;

    if (mr_likely(len <= 64 && len >= 32)) {
        mr_copy_64(t, f, len);
    } else if (len > 64 && len <= 128) {
        mr_copy_64(t, f, 64);
        mr_copy_64(t + len - 64, f + len - 64, 64);
    } else if (len < 32 && len >= 16) {
        mr_copy_32(t, f, len);
    } else {
        memcpy(t, f, len);
    }
}
