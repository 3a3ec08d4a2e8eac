/* For tests of sockets: a session that writes down what happens to it, and
 * peers that are nothing but fds. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "loop/loop.h"
#include "loop/socket.h"
#include "unit/eal.h"
#include "unit/fds.h"

/* A session that writes down what happens to it. */
struct log {
    struct mr_socket *socket;
    int opened, closed, inputs, done;
    uint32_t last_request;
    uint32_t last_fds;
    int park;     /* times that input answers -EAGAIN */
    int park_end; /* the same for closed */
    int refuse;   /* what input answers, else 0 */
};

static char dir[64];
static char path[100];
static struct mr_port port = {.name = "test"};

static inline int
log_open(void *session, struct mr_socket *socket)
{
    struct log *l = session;

    l->socket = socket;
    l->opened++;
    return 0;
}

static inline int
log_input(void *session, struct mr_socket *socket, struct mr_frame *frame)
{
    struct log *l = session;

    (void)socket;
    l->last_request = frame->msg.request;
    l->last_fds = frame->nfds;
    if (l->park) {
        l->park--;
        return -EAGAIN;
    }
    l->inputs++;
    return l->refuse ? mr_error_set(l->refuse, "refused by the test") : 0;
}

static inline int
log_closed(void *session)
{
    struct log *l = session;

    if (l->park_end) {
        l->park_end--;
        return -EAGAIN;
    }
    l->closed++;
    return 0;
}

static inline void
log_done(void *session)
{
    ((struct log *)session)->done++;
}

static const struct mr_session_ops ops = {
    .open = log_open,
    .input = log_input,
    .closed = log_closed,
};

static struct mr_vhost_options
options(void)
{
    return (struct mr_vhost_options){
        .path = path, .mode = -1, .owner = -1, .group = -1, .retry_ms = 5};
}

static inline struct mr_socket *
server(struct log *l)
{
    struct mr_vhost_options o = options();
    struct mr_socket *s;

    memset(l, 0, sizeof(*l));
    assert_int_equal(mr_socket_open(&port, &o, &ops, l, false, &s), 0);
    return s;
}

#define TURN_UNTIL(condition)                                                  \
    for (int turns_ = 0; !(condition); turns_++) {                             \
        assert_true(turns_ < 2000);                                            \
        mr_loop_run(1000);                                                     \
    }

static inline void
end(struct mr_socket *s, struct log *l)
{
    mr_socket_close(s, log_done);
    TURN_UNTIL(l->done);
    assert_int_equal(l->opened, l->closed);
}

static inline int
try_connect(const char *to)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    strcpy(a.sun_path, to);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
        int rc = -errno;

        close(fd);
        return rc;
    }
    return fd;
}

static inline int
listener(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    strcpy(a.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* A header-only request with n copies of fd 2. */
static inline void
send_fds(int fd, uint32_t request, int n)
{
    uint32_t words[3] = {request, 1, 0};
    union {
        char bytes[CMSG_SPACE(64 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {words, sizeof(words)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        for (int i = 0; i < n; i++)
            memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &(int){2},
                   sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), sizeof(words));
}

static inline mode_t
file_mode(void)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    return st.st_mode & 07777;
}

static inline bool
left(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static inline int
setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/moonring-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s.1", dir);
    return mr_loop_open();
}

static inline int
teardown(void **state)
{
    (void)state;
    mr_loop_close();
    return rmdir(dir); /* empty: every socket file is gone */
}
