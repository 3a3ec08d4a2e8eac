#include "loop/unix.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

enum { BACKLOG = 8, MODE = 0600 };

static struct sockaddr_un
address(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    return a;
}

static int
socket_new(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

int
mr_unix_path_check(const char *path)
{
    struct sockaddr_un a;

    if (!path || !*path)
        return mr_error_set(-EINVAL, "a socket needs a path");
    if (strlen(path) >= sizeof(a.sun_path))
        return mr_error_set(-EINVAL, "%s: a socket's path has at most %zu "
                            "bytes: use a shorter one", path,
                            sizeof(a.sun_path) - 1);
    return 0;
}

int
mr_unix_connect(const char *path)
{
    struct sockaddr_un a = address(path);
    int fd = socket_new();
    int rc;

    if (fd < 0)
        return fd;
    if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
        return fd;
    rc = -errno;
    close(fd);
    return rc;
}

/* 0 = the path is free now. */
static int
stale_remove(const char *path)
{
    struct stat st;
    int fd;

    if (lstat(path, &st))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return mr_error_set(-EADDRINUSE, "%s exists and is no socket: choose "
                            "another path or remove it", path);
    fd = mr_unix_connect(path);
    if (fd >= 0)
        close(fd);
    if (fd != -ECONNREFUSED)
        return mr_error_set(-EADDRINUSE, "%s: somebody listens there%s: stop "
                            "that process or choose another path", path,
                            fd == -EACCES ? " (or it is another user's)" : "");
    return unlink(path) && errno != ENOENT ? -errno : 0;
}

/* The kernel takes the mode of the socket, less the umask, for the file. */
static int
bind_closed(int fd, const char *path)
{
    struct sockaddr_un a = address(path);

    fchmod(fd, MODE);
    return bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
}

static int
permissions_set(const struct mr_unix_options *o)
{
    mode_t mode = o->mode < 0 ? MODE : (mode_t)o->mode & 07777;

    if ((o->owner >= 0 || o->group >= 0) &&
        lchown(o->path, (uid_t)o->owner, (gid_t)o->group))
        return -errno;
    return chmod(o->path, mode) ? -errno : 0;
}

static int
listen_on(int fd, const struct mr_unix_options *o, struct mr_unix_file *file)
{
    struct stat st;
    int rc = bind_closed(fd, o->path);

    if (rc == -EADDRINUSE) {
        rc = stale_remove(o->path);
        if (rc)
            return rc;
        rc = bind_closed(fd, o->path);
    }
    if (rc)
        return mr_error_set(rc, "%s: cannot listen (%s)%s", o->path,
                            mr_error_name(rc),
                            rc == -ENOENT ? ": make its directory first" : "");
    snprintf(file->path, sizeof(file->path), "%s", o->path);
    if (!lstat(o->path, &st)) {
        file->dev = st.st_dev;
        file->ino = st.st_ino;
    }
    rc = permissions_set(o);
    if (!rc && listen(fd, BACKLOG))
        rc = -errno;
    if (rc) {
        mr_unix_unlink(file);
        return mr_error_set(rc, "%s: cannot set owner and mode, or listen "
                            "(%s)", o->path, mr_error_name(rc));
    }
    return 0;
}

int
mr_unix_listen(const struct mr_unix_options *o, struct mr_unix_file *file)
{
    int rc = mr_unix_path_check(o->path);
    int fd;

    memset(file, 0, sizeof(*file));
    if (rc)
        return rc;
    fd = socket_new();
    if (fd < 0)
        return mr_error_set(fd, "%s: no socket (%s)", o->path,
                            mr_error_name(fd));
    rc = listen_on(fd, o, file);
    if (rc)
        close(fd);
    return rc ? rc : fd;
}

void
mr_unix_unlink(struct mr_unix_file *file)
{
    struct stat st;

    if (file->path[0] && !lstat(file->path, &st) && st.st_dev == file->dev &&
        st.st_ino == file->ino)
        unlink(file->path);
    file->path[0] = 0;
}
