/* Errors of the control path: a negative errno value (libuv uses the same
 * numbers on Linux) plus one line of text per thread that names the object,
 * the cause and the cure. The data path never sets a text. */
#pragma once

#include "base/attr.h"

/* Records the text for `code` on this thread and returns `code`.
 * code: negative errno value. fmt: printf format, without newline; longer
 * texts than 511 bytes are cut. */
int mr_error_set(int code, const char *fmt, ...) MR_PRINTF(2, 3);

/* Text of the last failed call on this thread; "" if none. Owned by the
 * thread, overwritten by its next failure. */
const char *mr_error_text(void);

/* Symbolic name of a code ("EINVAL"), or "EUNKNOWN". */
const char *mr_error_name(int code);
