/* ring/fields: the table of struct mr_ring's fields is the struct (T23-T31).
 * That it lacks none of them is shown by tests/lua/layout.lua. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "ring/ring.h"

static void
rows_are_in_order_and_do_not_overlap(void **state)
{
    const struct mr_field_row *row = mr_field_row(0);
    uint32_t end = 0;

    (void)state;
    for (uint32_t i = 0; row->name; row = mr_field_row(++i)) {
        assert_true(row->offset >= end);
        assert_true(row->offset - end < MR_CACHE_LINE);
        assert_int_equal(row->line, row->offset / MR_CACHE_LINE);
        assert_int_equal(row->line, (row->offset + row->size - 1) /
                                        MR_CACHE_LINE);
        end = row->offset + row->size;
    }
    assert_true(end <= sizeof(struct mr_ring));
    assert_true(end > sizeof(struct mr_ring) - MR_CACHE_LINE);
}

static void
past_the_last_row_there_is_none(void **state)
{
    uint32_t n = 0;

    (void)state;
    while (mr_field_row(n)->name)
        n++;
    assert_true(n > 10);
    assert_null(mr_field_row(n + 1)->name);
    assert_null(mr_field_row(UINT32_MAX)->name);
}

/* What a burst stores to shares no line with what others store to. */
static void
T31_the_data_path_has_a_line_of_its_own(void **state)
{
    struct mr_ring before = {0}, after;
    const uint8_t *a = (const uint8_t *)&before;
    const uint8_t *b = (const uint8_t *)&after;
    uint32_t data_line = 0;

    (void)state;
    memcpy(&after, &before, sizeof(after));
    memset(&after.at, 1, sizeof(after.at));
    after.fault = 1;
    after.signalled.pos = 1;
    after.signalled_valid = true;
    after.partial_left = 1;
    after.partial = (struct mr_pkt *)&before;
    for (uint32_t i = 0; i < sizeof(before); i++)
        if (a[i] != b[i]) {
            assert_true(!data_line || i / MR_CACHE_LINE == data_line);
            data_line = i / MR_CACHE_LINE;
        }
    assert_int_equal(data_line, 1);
    for (uint32_t i = 0; mr_field_row(i)->name; i++)
        assert_int_equal(mr_field_row(i)->line == data_line,
                         strcmp(mr_field_row(i)->writer, "data path") == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_in_order_and_do_not_overlap),
        cmocka_unit_test(past_the_last_row_there_is_none),
        cmocka_unit_test(T31_the_data_path_has_a_line_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
