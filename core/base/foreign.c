#include "base/foreign.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* Is the mount with that id of a kind that the kernel serves by itself, though
 * it shows no device? */
static bool
mount_is_local(uint64_t id)
{
    static const char *const kinds[] = {" - overlay ", " - btrfs ", " - zfs ",
                                        " - bcachefs "};
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool local = false;

    while (mounts && getline(&line, &size, mounts) > 0) {
        if (strtoull(line, NULL, 10) != id)
            continue;
        for (size_t i = 0; i < MR_COUNT_OF(kinds); i++)
            local |= strstr(line, kinds[i]) != NULL;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return local;
}

/* Files in memory are the ones that can be sealed. Of the others, those served
 * by a process or over a network have no device. */
bool
mr_foreign_memory(int fd)
{
    struct statx st;

    if (fcntl(fd, F_GET_SEALS) >= 0)
        return true;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
              STATX_TYPE | STATX_MNT_ID, &st) ||
        !S_ISREG(st.stx_mode))
        return false;
    return st.stx_dev_major ||
           (st.stx_mask & STATX_MNT_ID && mount_is_local(st.stx_mnt_id));
}

/* ---- Threads that close ----------------------------------------------- */

enum { CLOSERS = 4, QUEUE = 4096 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint32_t threads;
    uint32_t idle;
    uint32_t n; /* fds that wait */
    int fd[QUEUE];
} backlog = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .more = PTHREAD_COND_INITIALIZER,
};

static void *
closer(void *arg)
{
    pthread_mutex_lock(&backlog.lock);
    for (;;) {
        int fd;

        backlog.idle++;
        while (!backlog.n)
            pthread_cond_wait(&backlog.more, &backlog.lock);
        backlog.idle--;
        fd = backlog.fd[--backlog.n];
        pthread_mutex_unlock(&backlog.lock);
        close(fd);
        pthread_mutex_lock(&backlog.lock);
    }
    return arg;
}

/* It takes no signals: they are for those who wait for them. */
static void
closer_start(void)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&thread, NULL, closer, NULL)) {
        pthread_detach(thread);
        backlog.threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* False when there is nobody to close it, or no room. */
static bool
hand_over(int fd)
{
    bool taken;

    pthread_mutex_lock(&backlog.lock);
    if (backlog.idle <= backlog.n && backlog.threads < CLOSERS)
        closer_start();
    taken = backlog.threads && backlog.n < QUEUE;
    if (taken)
        backlog.fd[backlog.n++] = fd;
    pthread_cond_signal(&backlog.more);
    pthread_mutex_unlock(&backlog.lock);
    return taken;
}

/* A socket is told not to linger, so that mostly there is nothing to wait for:
 * what waits are the fds that are under way in it. */
void
mr_foreign_close(int fd)
{
    static const struct linger off;

    if (fd < 0)
        return;
    if (mr_foreign_signal(fd) || mr_foreign_memory(fd)) {
        close(fd);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
    if (!hand_over(fd))
        close(fd);
}

bool
mr_foreign_closing(void)
{
    bool busy;

    pthread_mutex_lock(&backlog.lock);
    busy = backlog.n || backlog.idle < backlog.threads;
    pthread_mutex_unlock(&backlog.lock);
    return busy;
}
