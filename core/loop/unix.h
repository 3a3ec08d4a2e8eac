/* Unix stream sockets in the file system: listening, connecting, and the
 * care that their files need.
 *
 * A file is never more open than asked for, not even for a moment: it is made
 * without any permission for others, and nobody can connect before owner and
 * mode are set. A file left behind by a dead process is replaced, a live
 * listener is never disturbed.
 *
 * Owner: control thread. Nothing here blocks. */
#pragma once

#include <sys/types.h>

#include "base/attr.h"

/* A file of ours, so that only ours is removed. */
struct mr_unix_file {
    char path[108];
    dev_t dev;
    ino_t ino;
};

struct mr_unix_options {
    const char *path;
    int32_t mode;  /* permission bits, -1 = 0600 */
    int32_t owner; /* -1 = ours */
    int32_t group;
};

/* Listens on a path; returns a non-blocking fd and fills in *file. Errors:
 * EINVAL (path empty or above 107 bytes), EADDRINUSE (a live listener, or
 * something that is no socket), EACCES, ENOENT, EPERM (owner). */
int mr_unix_listen(const struct mr_unix_options *options,
                   struct mr_unix_file *file);
/* Connects; returns a non-blocking fd. Errors: as connect(2) says, EAGAIN when
 * the listener's backlog is full. No text is set: callers try again. */
int mr_unix_connect(const char *path);
/* 0 when `path` can be a socket's, else EINVAL. */
int mr_unix_path_check(const char *path);
/* Removes the file unless somebody else's stands there now. */
void mr_unix_unlink(struct mr_unix_file *file);
