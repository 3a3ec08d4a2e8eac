/* The barrier classes chosen at run time, for measurement only: what order.h
 * offers, as three builds that seed B compares with the default (T16; cmake
 * -DMR_ORDER_BUILD=...). Without feature 36 every ordered access tests a flag,
 * then takes its software or its hardware arm:
 *
 *             software arm               hardware arm
 *   merged    plain, compiler barrier    the same: compilers join the arms
 *   c11       acquire, release           plain, compiler barrier
 *   control   plain, compiler barrier    I/O fences: the branch stays, C11
 *                                        plays no part
 *
 * Variants with feature 36 take the hardware arm without a test. Plain
 * accesses are right on x86-64 only, and for peers that are CPUs: only control
 * serves real devices. */
#pragma once

#if !defined(__x86_64__)
#error "MR_ORDER_BUILD compares builds for x86-64"
#endif

#define MR_ORDER_MERGED 1
#define MR_ORDER_C11 2
#define MR_ORDER_CONTROL 3

/* Never set, which no compiler can know. */
extern bool mr_order_hardware;

#define mr_order_compiler() __asm__ volatile("" ::: "memory")

/* The two arms of a publication and of an observation. */
#define mr_order_publish_plain(word, value)                                    \
    do {                                                                       \
        mr_order_compiler();                                                   \
        mr_store((word), (value));                                             \
    } while (0)
#define mr_order_observe_plain(value, word)                                    \
    do {                                                                       \
        (value) = mr_load(word);                                               \
        mr_order_compiler();                                                   \
    } while (0)

#if MR_ORDER_BUILD == MR_ORDER_MERGED
#define mr_order_publish_software mr_order_publish_plain
#define mr_order_publish_hardware mr_order_publish_plain
#define mr_order_observe_software mr_order_observe_plain
#define mr_order_observe_hardware mr_order_observe_plain
#define mr_order_observed_software mr_order_compiler
#define mr_order_observed_hardware mr_order_compiler
#elif MR_ORDER_BUILD == MR_ORDER_C11
#define mr_order_publish_software mr_store_release
#define mr_order_publish_hardware mr_order_publish_plain
#define mr_order_observe_software(value, word) ((value) = mr_load_acquire(word))
#define mr_order_observe_hardware mr_order_observe_plain
#define mr_order_observed_software mr_fence_acquire
#define mr_order_observed_hardware mr_order_compiler
#elif MR_ORDER_BUILD == MR_ORDER_CONTROL
#define mr_order_publish_software mr_order_publish_plain
#define mr_order_publish_hardware(word, value)                                 \
    do {                                                                       \
        mr_fence_io_write();                                                   \
        mr_store((word), (value));                                             \
    } while (0)
#define mr_order_observe_software mr_order_observe_plain
#define mr_order_observe_hardware(value, word)                                 \
    do {                                                                       \
        (value) = mr_load(word);                                               \
        mr_fence_io_read();                                                    \
    } while (0)
#define mr_order_observed_software mr_order_compiler
#define mr_order_observed_hardware mr_fence_io_read
#else
#error "MR_ORDER_BUILD names no build"
#endif

#define mr_order_publish(word, value, platform)                                \
    do {                                                                       \
        if ((platform) || mr_order_hardware)                                   \
            mr_order_publish_hardware((word), (value));                        \
        else                                                                   \
            mr_order_publish_software((word), (value));                        \
    } while (0)

#define mr_order_observe(value, word, platform)                                \
    do {                                                                       \
        if ((platform) || mr_order_hardware)                                   \
            mr_order_observe_hardware(value, (word));                          \
        else                                                                   \
            mr_order_observe_software(value, (word));                          \
    } while (0)

#define mr_order_observed(platform)                                            \
    do {                                                                       \
        if ((platform) || mr_order_hardware)                                   \
            mr_order_observed_hardware();                                      \
        else                                                                   \
            mr_order_observed_software();                                      \
    } while (0)

/* Once a burst, in all three. */
#define mr_order_before_suppression(platform)                                  \
    do {                                                                       \
        if ((platform) || mr_order_hardware)                                   \
            mr_fence_io_full();                                                \
        else                                                                   \
            mr_fence_full();                                                   \
    } while (0)
