/* Writes to fds that a peer gave us or got from us. Such a peer shares the
 * file status flags, so it can make the fd blocking again at any moment, fill
 * it, and have whoever writes next wait for as long as it likes (V41).
 *
 * The cure costs the data path nothing: a wait in write(2) ends when its
 * thread gets a signal. The signal is SIGURG, whose usual effect is none; a
 * handler without SA_RESTART makes the call return EINTR.
 *
 * Any thread may call these. */
#pragma once

#include <sys/types.h>

#include "base/attr.h"

/* Makes an fd non-blocking. -1 is allowed. */
void mr_unblock_fd(int fd);
/* True when a write to the fd would wait now: it is blocking, and full. */
bool mr_unblock_needed(int fd);
/* Ends the system call that thread `tid` (gettid(2); 0 = none) waits in. */
void mr_unblock_thread(pid_t tid);
/* write(2) that waits for a few milliseconds at most, whatever the peer does
 * to the fd meanwhile. For control paths: a handful of system calls. Returns
 * what write returns; -1 is allowed as an fd. */
ssize_t mr_unblock_write(int fd, const void *bytes, size_t len);
