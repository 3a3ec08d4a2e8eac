#include "base/foreign.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool
mr_foreign_signal(int fd)
{
    static const char *const kinds[] = {"anon_inode:[eventfd]", "pipe:["};
    char path[32], name[24];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, name, sizeof(name) - 1);
    if (n < 0) /* without /proc there is no telling */
        return fd >= 0 && access("/proc/self", F_OK);
    name[n] = '\0';
    for (size_t i = 0; i < MR_COUNT_OF(kinds); i++)
        if (!strncmp(name, kinds[i], strlen(kinds[i])))
            return true;
    return false;
}

/* Files in memory are the ones that can be sealed; those served by a process
 * or over a network have no device. */
bool
mr_foreign_memory(int fd)
{
    struct statx st;

    if (fcntl(fd, F_GET_SEALS) >= 0)
        return true;
    return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
                  &st) &&
           S_ISREG(st.stx_mode) && st.stx_dev_major;
}

/* ---- The thread that closes ------------------------------------------- */

static int inbox[2]; /* a pipe of fd numbers; never closed */
static bool works;

static void *
closer(void *arg)
{
    int fd;

    (void)arg;
    while (read(inbox[0], &fd, sizeof(fd)) == sizeof(fd))
        close(fd);
    return NULL;
}

/* It takes no signals: they are for those who wait for them. */
static void
closer_start(void)
{
    sigset_t all, before;
    pthread_t thread;

    works = !pipe2(inbox, O_CLOEXEC);
    if (!works)
        return;
    fcntl(inbox[1], F_SETFL, O_NONBLOCK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&thread, NULL, closer, NULL))
        pthread_detach(thread);
    else
        works = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The pipe has room for more fds than a process usually may have. */
void
mr_foreign_close(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (fd < 0)
        return;
    if (mr_foreign_signal(fd) || mr_foreign_memory(fd)) {
        close(fd);
        return;
    }
    pthread_once(&once, closer_start);
    if (!works || write(inbox[1], &fd, sizeof(fd)) != sizeof(fd))
        close(fd);
}
