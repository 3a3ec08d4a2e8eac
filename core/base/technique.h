/* Techniques that a build can do without, so that each can be measured: cmake
 * -DMR_WITHOUT="lines;stash" leaves out what it names, moonring bench ablation
 * compares such programs with this one (T70). The list here is the only one:
 * the build, the bench and its report read it.
 *
 * MR_HAS is a constant, in C and in #if, so the default build holds neither a
 * test nor what would take a technique's place. */
#pragma once

/* X(NAME, rows of the tick list, what it is). */
#define MR_TECHNIQUES(X)                                                       \
    X(LINES, "T4 T6 T7 T8", "packed descriptors by the cache line")            \
    X(UNROLLED, "T3", "loops over a line as straight-line code")               \
    X(HOLD_FIRST, "T9", "a burst's first used entry is written last")          \
    X(ONE_FENCE, "T20", "device: one fence and look at suppression a burst")   \
    X(CONSTANT_HEADER, "T13h", "the net header's length is a constant")        \
    X(LAYOUT, "T23 T24 T25 T26 T28 T30", "a ring's hot fields in few lines")   \
    X(REFILL_BATCH, "T50", "receive buffers are posted in batches")            \
    X(STASH, "T13j", "packets from the thread's cache without a call each")    \
    X(KEPT_FRESH, "", "packets stay initialised while they are free")          \
    X(PLAIN_HOME, "", "sent packets are freed without a look at them")         \
    X(WRITE_PREFETCH, "", "lines about to be written are asked for early")     \
    X(READ_AHEAD, "", "frames about to be read are asked for early")           \
    X(BUFFER_INDEX, "", "receive buffers are posted without a look at packets")\
    X(NEAR_REGION, "", "the last buffer's region is tried first")              \
    X(HEADER_LOOK, "", "net headers are written only where they differ")       \
    X(COPY_INLINE, "", "short frames are copied inline")                       \
    X(ODD_STRIDE, "", "buffers an odd number of cache lines apart")            \
    X(HUGE_PAGES, "T72", "packets and rings in huge pages")                    \
    X(SCALAR, "", "bursts compiled without vectors of ring positions")

/* A technique that is not in the list does not compile. */
enum mr_technique {
#define MR_X(name, rows, text) MR_TECHNIQUE_##name,
    MR_TECHNIQUES(MR_X)
#undef MR_X
};

/* 1, or 0 in a build with -DMR_WITHOUT_<NAME>=1. */
#define MR_HAS(name)                                                           \
    (MR_TECHNIQUE_##name >= 0 && MR_HAS_UNLESS(MR_WITHOUT_##name))
#define MR_HAS_UNLESS(without) MR_HAS_PASTE(without)
#define MR_HAS_PASTE(without) MR_HAS_PICK(MR_HAS_##without 0, 1, 0)
#define MR_HAS_1 0,
#define MR_HAS_PICK(...) MR_HAS_SECOND(__VA_ARGS__)
#define MR_HAS_SECOND(first, second, ...) second
