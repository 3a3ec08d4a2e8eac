#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[512];

int
mr_error_set(int code, const char *fmt, ...)
{
    /* Arguments may contain the previous text. */
    char text[sizeof(error_text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memcpy(error_text, text, sizeof(text));
    return code;
}

const char *
mr_error_text(void)
{
    return error_text;
}

const char *
mr_error_name(int code)
{
    const char *name = strerrorname_np(code < 0 ? -code : code);

    return name && code ? name : "EUNKNOWN";
}
