/* The virtio-net header of a packet without offloads. */
#pragma once

#include <string.h>

#include "ring/layout.h"

/* The bits of the header's last four bytes that are num_buffers. */
#define MR_HEADER_BUFFERS 0xffff0000u

/* Writes it at `at`, `bytes` (10 or 12) long. Most often the same header lies
 * there from the buffer's last use: it is read first and written only where
 * it differs, so that a clean cache line stays clean (N22, N35). Of the last
 * four bytes, bits that are in `any` may be as they are. */
MR_INLINE void
mr_header_put(uint8_t *at, uint32_t bytes, uint16_t buffers, uint32_t any)
{
    uint32_t tail = bytes == MR_HEADER ? (uint32_t)buffers << 16 : 0;
    uint32_t seen = 0;
    uint64_t head;

    memcpy(&head, at, sizeof(head));
    if (head || !MR_HAS(HEADER_LOOK))
        memset(at, 0, sizeof(head));
    if (mr_likely(bytes == MR_HEADER)) {
        memcpy(&seen, at + 8, 4);
        if ((seen ^ tail) & ~any || !MR_HAS(HEADER_LOOK))
            memcpy(at + 8, &tail, 4);
    } else {
        memcpy(&seen, at + 8, 2);
        if (seen || !MR_HAS(HEADER_LOOK))
            memcpy(at + 8, &tail, 2);
    }
}
