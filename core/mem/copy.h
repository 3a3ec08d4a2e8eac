/* Copies of packet bytes, inline for the short frames that a packet rate is
 * made of: a call costs as much as the copy itself. Longer ones are the C
 * library's, which chooses by CPU. */
#pragma once

#include <string.h>

#include "base/attr.h"

/* Compilers take such a vector apart where the CPU level has none so wide. */
#define MR_BYTES(n)                                                            \
    typedef uint8_t mr_bytes##n __attribute__((vector_size(n), aligned(1)))
MR_BYTES(16);
MR_BYTES(32);
MR_BYTES(64);

/* n..2n bytes as two vectors of n that may overlap. */
#define MR_COPY_ENDS(n, to, from, len)                                         \
    do {                                                                       \
        mr_bytes##n head = *(const mr_bytes##n *)(from);                       \
        mr_bytes##n tail = *(const mr_bytes##n *)((from) + (len) - (n));       \
                                                                               \
        *(mr_bytes##n *)(to) = head;                                           \
        *(mr_bytes##n *)((to) + (len) - (n)) = tail;                           \
    } while (0)

/* Lengths that are copied without a call. */
enum { MR_COPY_LEAST = 16, MR_COPY_MOST = 128 };

/* Copies len bytes. Where the areas overlap, as only a driver arranges it that
 * has its packets sent into themselves, the result is any bytes. */
MR_INLINE void
mr_copy(void *to, const void *from, size_t len)
{
    uint8_t *t = to;
    const uint8_t *f = from;

    if (!MR_HAS(COPY_INLINE))
        memmove(t, f, len);
    else if (mr_likely(len <= 64 && len >= 32))
        MR_COPY_ENDS(32, t, f, len);
    else if (len > 64 && len <= MR_COPY_MOST)
        MR_COPY_ENDS(64, t, f, len);
    else if (len < 32 && len >= MR_COPY_LEAST)
        MR_COPY_ENDS(16, t, f, len);
    else
        memmove(t, f, len);
}
