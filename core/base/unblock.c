#include "base/unblock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 2 * 1000 * 1000 };

static void
on_signal(int signal)
{
    (void)signal;
}

static void
handler_install(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGURG, &action, NULL);
}

static void
prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, handler_install);
}

void
mr_unblock_fd(int fd)
{
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

    if (flags >= 0 && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

bool
mr_unblock_needed(int fd)
{
    struct pollfd full = {.fd = fd, .events = POLLOUT};
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

    return flags >= 0 && !(flags & O_NONBLOCK) && poll(&full, 1, 0) == 0;
}

void
mr_unblock_thread(pid_t tid)
{
    prepare();
    if (tid > 0)
        tgkill(getpid(), tid, SIGURG);
}

/* The thread's own alarm clock; false without one. */
static bool
timer_mine(timer_t *timer)
{
    static _Thread_local timer_t mine;
    static _Thread_local bool made;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = SIGURG};

    event._sigev_un._tid = gettid();
    if (!made)
        made = timer_create(CLOCK_MONOTONIC, &event, &mine) == 0;
    *timer = mine;
    return made;
}

/* It rings again and again: the first time may be before the write begins. */
ssize_t
mr_unblock_write(int fd, const void *bytes, size_t len)
{
    static const struct itimerspec on = {{0, WAIT_NS}, {0, WAIT_NS}};
    static const struct itimerspec off;
    timer_t timer;
    ssize_t done;
    int error;

    prepare();
    mr_unblock_fd(fd);
    if (!timer_mine(&timer))
        return write(fd, bytes, len);
    timer_settime(timer, 0, &on, NULL);
    done = write(fd, bytes, len);
    error = errno;
    timer_settime(timer, 0, &off, NULL);
    errno = error;
    return done;
}
