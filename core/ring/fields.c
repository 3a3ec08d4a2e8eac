/* The fields of struct mr_ring as a table (mr_field_row of moonring.h), and
 * what the struct promises about cache lines (T23-T31). */
#include "ring/ring.h"

#define SIZE(field) sizeof(((struct mr_ring *)NULL)->field)
#define LINE(field) (offsetof(struct mr_ring, field) / MR_CACHE_LINE)
#define LAST_LINE(field)                                                       \
    ((offsetof(struct mr_ring, field) + SIZE(field) - 1) / MR_CACHE_LINE)

#if MR_HAS(LAYOUT)
/* No field lies across lines; those that the data path writes, and no others,
 * are on the line of the state. */
enum { WRITER_start, WRITER_gate, WRITER_data };
#define PLACED(field, writer)                                                  \
    static_assert(LINE(field) == LAST_LINE(field) &&                           \
                      (LINE(field) == LINE(at)) ==                             \
                          (WRITER_##writer == WRITER_data), #field);
MR_RING_FIELDS(PLACED)

/* Every burst needs the first two lines, the driver side the third; there is no
 * other. */
static_assert(LINE(desc) == 0 && LINE(size) == 0 && LINE(notify_fd) == 0 &&
              LINE(at) == 1 && LINE(out) == 2 &&
              sizeof(struct mr_ring) == 3 * MR_CACHE_LINE, "three lines");
#endif
static_assert(MR_RING_MAX <= UINT16_MAX && SIZE(size) == 2, "T26, T27");

#define TEXT_start "control, before the start"
#define TEXT_gate "control, behind the gate"
#define TEXT_data "data path"
#define ROW(field, writer)                                                     \
    {#field, TEXT_##writer, offsetof(struct mr_ring, field), SIZE(field),      \
     LINE(field)},

const struct mr_field_row *
mr_field_row(uint32_t i)
{
    static const struct mr_field_row rows[] = {MR_RING_FIELDS(ROW){0}};

    return &rows[MR_MIN(i, (uint32_t)MR_COUNT_OF(rows) - 1)];
}
