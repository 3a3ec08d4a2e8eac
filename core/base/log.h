/* The log: one line per event on stderr, for the control thread and for
 * start and stop of workers. Never called inside a burst. A line that a peer
 * can provoke goes through a rate limit, so a hostile peer cannot fill a
 * disk; the number of lines that were dropped is told with the next one. */
#pragma once

#include "base/attr.h"

enum mr_log_level { MR_LOG_ERROR, MR_LOG_WARN, MR_LOG_INFO };

/* At most 10 lines a second for one limit. Zero-initialise. */
struct mr_log_limit {
    uint64_t second;
    uint32_t lines;
    uint32_t dropped;
};

/* Lines above this level are not written. Default: warnings. */
void mr_log_level_set(enum mr_log_level level);
/* The same by name: "error", "warning" or "info". False for any other. */
bool mr_log_level_named(const char *name);

/* Writes one line: "moonring: <level>: <text>". */
void mr_log(enum mr_log_level level, const char *fmt, ...) MR_PRINTF(2, 3);

/* As mr_log, within the limit of its source (a port, a session). */
void mr_log_limited(struct mr_log_limit *limit, enum mr_log_level level,
                    const char *fmt, ...) MR_PRINTF(3, 4);
