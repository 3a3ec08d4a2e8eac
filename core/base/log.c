#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"

enum { LINES_A_SECOND = 10 };

static const char *const level_name[] = {"error", "warning", "info"};
static enum mr_log_level log_level = MR_LOG_WARN;

void
mr_log_level_set(enum mr_log_level level)
{
    mr_store(&log_level, level);
}

bool
mr_log_level_named(const char *name)
{
    for (size_t i = 0; i < MR_COUNT_OF(level_name); i++)
        if (!strcmp(name, level_name[i])) {
            mr_log_level_set((enum mr_log_level)i);
            return true;
        }
    return false;
}

static void
log_line(enum mr_log_level level, const char *fmt, va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof(text), fmt, args);
    /* One write a line: lines of several threads do not mix. */
    fprintf(stderr, "moonring: %s: %s\n", level_name[level], text);
}

void
mr_log(enum mr_log_level level, const char *fmt, ...)
{
    va_list args;

    if (level > mr_load(&log_level))
        return;
    va_start(args, fmt);
    log_line(level, fmt, args);
    va_end(args);
}

void
mr_log_limited(struct mr_log_limit *limit, enum mr_log_level level,
               const char *fmt, ...)
{
    struct timespec now;
    va_list args;

    if (level > mr_load(&log_level))
        return;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if ((uint64_t)now.tv_sec != limit->second) {
        limit->second = (uint64_t)now.tv_sec;
        limit->lines = 0;
        if (limit->dropped)
            mr_log(level, "(%u lines like the next dropped)", limit->dropped);
        limit->dropped = 0;
    }
    if (limit->lines >= LINES_A_SECOND) {
        limit->dropped++;
        return;
    }
    limit->lines++;
    va_start(args, fmt);
    log_line(level, fmt, args);
    va_end(args);
}
