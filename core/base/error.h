/* Errors of the control path: a negative errno value (libuv uses the same
 * numbers on Linux) plus one line of text per thread that names the object,
 * the cause and the cure. The data path never sets a text. mr_error_text and
 * mr_error_name, which read them, are declared in moonring.h. */
#pragma once

#include "base/attr.h"
#include "moonring.h"

/* Records the text for `code` on this thread and returns `code`.
 * code: negative errno value. fmt: printf format, without newline; longer
 * texts than 511 bytes are cut. */
int mr_error_set(int code, const char *fmt, ...) MR_PRINTF(2, 3);
