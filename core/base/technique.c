/* The list of techniques as rows (mr_technique_row of moonring.h). Constant;
 * any thread. */
#include "base/attr.h"
#include "moonring.h"

const struct mr_technique_row *
mr_technique_row(uint32_t i)
{
    static const struct mr_technique_row rows[] = {
#define MR_X(name, rows, text) {#name, rows, text, MR_HAS(name)},
        MR_TECHNIQUES(MR_X)
#undef MR_X
        {0},
    };

    return &rows[MR_MIN(i, MR_COUNT_OF(rows) - 1)];
}
