/* What can be counted, as data: the lists of moonring.h turned into rows that
 * Lua, the control socket and /metrics walk. Constant; any thread. */
#include "base/attr.h"
#include "moonring.h"

static const struct mr_counter_row counter_row[] = {
#define MR_X(name, text) {#name, text, offsetof(struct mr_counters, name)},
    MR_COUNTERS(MR_X)
#undef MR_X
    {NULL, NULL, 0},
};

/* The two effects that MR_FAULTS names. */
enum { skip, broken };

static const struct mr_fault_row fault_row[] = {
    {"NONE", "", "no fault", skip},
#define MR_X(name, rules, effect, text) {#name, rules, text, effect},
    MR_FAULTS(MR_X)
#undef MR_X
    {NULL, NULL, NULL, skip},
};

static_assert(MR_COUNT_OF(fault_row) == MR_FAULT_COUNT + 1,
              "a row for every fault, and the last");

const struct mr_counter_row *
mr_counter_row(uint32_t i)
{
    return &counter_row[MR_MIN(i, MR_COUNT_OF(counter_row) - 1)];
}

const struct mr_fault_row *
mr_fault_row(uint32_t i)
{
    return &fault_row[MR_MIN(i, MR_COUNT_OF(fault_row) - 1)];
}
