#include "base/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/atomic.h"
#include "base/error.h"

static const char *const level_name[] = {
#define MR_X(name, text) #name,
    MR_CPU_LEVELS(MR_X)
#undef MR_X
};

const char *
mr_cpu_name(int level)
{
    return level >= 0 && level < MR_CPU_COUNT ? level_name[level] : NULL;
}

int
mr_cpu_named(const char *name)
{
    for (int i = 0; i < MR_CPU_COUNT; i++)
        if (!strcmp(name, level_name[i]))
            return i;
    return -1;
}

#if defined(__x86_64__)

/* Bits of cpuid that a level needs, and of XCR0: register files that the
 * kernel saves. */
struct need {
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t extended1_ecx;
    uint32_t xcr0;
};

static const struct need need[MR_CPU_COUNT] = {
    [MR_CPU_avx2] = {bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C,
                     bit_BMI | bit_AVX2 | bit_BMI2, bit_LZCNT, 0x6},
    [MR_CPU_avx512] = {0, bit_AVX512F | bit_AVX512DQ | bit_AVX512CD |
                              bit_AVX512BW | bit_AVX512VL, 0, 0xe6},
};

static uint32_t
xcr0(void)
{
    uint32_t low, high;

    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static struct need
have(void)
{
    struct need out = {0};
    uint32_t eax, ebx, ecx, edx;

    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        out.leaf1_ecx = ecx;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        out.leaf7_ebx = ebx;
    if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx))
        out.extended1_ecx = ecx;
    if (out.leaf1_ecx & bit_OSXSAVE)
        out.xcr0 = xcr0();
    return out;
}

int
mr_cpu_offered(void)
{
    const struct need got = have();
    int level = 0;

    while (level + 1 < MR_CPU_COUNT) {
        const struct need *next = &need[level + 1];

        if (next->leaf1_ecx & ~got.leaf1_ecx ||
            next->leaf7_ebx & ~got.leaf7_ebx ||
            next->extended1_ecx & ~got.extended1_ecx ||
            next->xcr0 & ~got.xcr0)
            break;
        level++;
    }
    return level;
}

#else

int
mr_cpu_offered(void)
{
    return MR_CPU_baseline;
}

#endif

static int in_use = -1; /* not asked for yet */

int
mr_cpu_level(void)
{
    int level = mr_load(&in_use);
    const char *name;
    int most;

    if (level >= 0)
        return level;
    name = getenv("MR_CPU_LEVEL");
    most = name ? mr_cpu_named(name) : -1;
    level = mr_cpu_offered();
    level = most < 0 ? level : MR_MIN(level, most);
    mr_store(&in_use, level);
    return level;
}

int
mr_cpu_cap(const char *name)
{
    int most = mr_cpu_named(name);

    if (most < 0)
        return mr_error_set(-EINVAL, "CPU level '%s': baseline, avx2 or "
                            "avx512", name);
    mr_store(&in_use, MR_MIN(mr_cpu_offered(), most));
    return 0;
}
