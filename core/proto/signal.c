#include "proto/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/unblock.h"

/* Reads of one drain: whoever writes faster is read again next time. */
enum { READS = 4, READ_BYTES = 4096 };

int
mr_signal_adopt(int fd)
{
    if (fd >= 0 && !mr_foreign_signal(fd)) {
        mr_foreign_close(fd);
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    mr_unblock_fd(fd);
    return fd;
}

void
mr_signal_raise(int fd)
{
    uint64_t one = 1;

    /* EAGAIN: it is raised already. Anything else: it is no signal fd, which
     * is the peer's loss (V146). */
    if (fd >= 0 && mr_unblock_write(fd, &one, sizeof(one)) < 0)
        return;
}

static int
is_pipe(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* The peer shares the file status flags and may have made the fd blocking
 * again, so the read says itself that it must not wait. Pipes of older kernels
 * cannot be asked that way. */
static ssize_t
read_now(int fd, void *to, size_t len)
{
    struct iovec iov = {to, len};
    ssize_t got = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

    if (got < 0 && errno == EOPNOTSUPP && is_pipe(fd)) {
        mr_unblock_fd(fd);
        got = read(fd, to, len);
    }
    return got;
}

void
mr_signal_drain(int fd)
{
    char bytes[READ_BYTES];

    for (int i = 0; fd >= 0 && i < READS; i++)
        if (read_now(fd, bytes, sizeof(bytes)) <= 0)
            return;
}

void
mr_signal_replace(int *slot, int fd)
{
    int old = *slot;

    *slot = fd;
    if (old >= 0)
        close(old);
}
