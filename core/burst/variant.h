/* Variants: what differs between two burst functions of the same side and
 * direction, as constant bits. Each body is written once and instantiated for
 * every combination that MR_VARIANTS lists; negotiation picks one. */
#pragma once

#include "ring/ring.h"

enum {
    MR_V_PACKED = 1,    /* RING_PACKED */
    MR_V_MERGEABLE = 2, /* MRG_RXBUF; matters towards the driver only */
    MR_V_IN_ORDER = 4,  /* IN_ORDER */
    MR_V_PLATFORM = 8,  /* ORDER_PLATFORM */
    MR_V_COUNT = 16,
};

MR_INLINE unsigned
mr_variant(const struct mr_ring *r)
{
    return (r->features & MR_F(RING_PACKED) ? MR_V_PACKED : 0) |
           (r->features & MR_F(MRG_RXBUF) ? MR_V_MERGEABLE : 0) |
           (r->features & MR_F(IN_ORDER) ? MR_V_IN_ORDER : 0) |
           (r->features & MR_F(ORDER_PLATFORM) ? MR_V_PLATFORM : 0);
}

/* X(arg, number, name) of every combination of the bits above. */
#define MR_VARIANTS(X, arg)                                                    \
    X(arg, 0, "split") X(arg, 1, "packed")                                     \
    X(arg, 2, "split-mrg") X(arg, 3, "packed-mrg")                             \
    X(arg, 4, "split-inorder") X(arg, 5, "packed-inorder")                     \
    X(arg, 6, "split-mrg-inorder") X(arg, 7, "packed-mrg-inorder")             \
    X(arg, 8, "split-platform") X(arg, 9, "packed-platform")                   \
    X(arg, 10, "split-mrg-platform") X(arg, 11, "packed-mrg-platform")         \
    X(arg, 12, "split-inorder-platform")                                       \
    X(arg, 13, "packed-inorder-platform")                                      \
    X(arg, 14, "split-mrg-inorder-platform")                                   \
    X(arg, 15, "packed-mrg-inorder-platform")

/* The files that instantiate variants are compiled once for each CPU level
 * (enum mr_cpu), with MR_LEVEL its name; what they export ends in it. */
#ifndef MR_LEVEL
#define MR_LEVEL baseline
#endif
#define MR_JOIN(a, b) a##_##b
#define MR_JOINED(a, b) MR_JOIN(a, b)
#define MR_LEVELED(name) MR_JOINED(name, MR_LEVEL)

/* X(name, text) of every level that there is code for. */
#if defined(__x86_64__)
#define MR_LEVELS(X) MR_CPU_LEVELS(X)
#else
#define MR_LEVELS(X) X(baseline, )
#endif

/* Instantiates `body`, an always-inline function of (ring, pkts, n, variant),
 * for every variant, and the table mr_<body>_<level> of the instances. */
#define MR_VARIANT_TABLE(body)                                                 \
    MR_VARIANTS(MR_VARIANT_FUNCTION, body)                                     \
    const mr_burst_fn MR_LEVELED(mr_##body)[MR_V_COUNT] = {                    \
        MR_VARIANTS(MR_VARIANT_ROW, body)};
#define MR_VARIANT_FUNCTION(body, v, name)                                     \
    static uint32_t body##_##v(void *ring, struct mr_pkt **pkts, uint32_t n)   \
    {                                                                          \
        return body(ring, pkts, n, v);                                         \
    }
#define MR_VARIANT_ROW(body, v, name) [v] = body##_##v,

/* One table a side, direction and level, indexed by variant. */
#define MR_X(level, text)                                                      \
    extern const mr_burst_fn mr_device_rx_##level[MR_V_COUNT];                 \
    extern const mr_burst_fn mr_device_tx_##level[MR_V_COUNT];                 \
    extern const mr_burst_fn mr_driver_rx_##level[MR_V_COUNT];                 \
    extern const mr_burst_fn mr_driver_tx_##level[MR_V_COUNT];
MR_LEVELS(MR_X)
#undef MR_X
