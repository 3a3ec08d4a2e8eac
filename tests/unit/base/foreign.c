/* base/foreign: fds of a peer are told apart, and closing one never waits. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/process.h"
#include "unit/fds.h"

static void
only_eventfds_and_pipes_are_signals(void **state)
{
    int other[] = {
        open("/dev/null", O_RDWR | O_CLOEXEC),
        open("/", O_RDONLY | O_CLOEXEC),
        memfd_create("guest", MFD_CLOEXEC),
        epoll_create1(EPOLL_CLOEXEC),
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
    };
    int event = eventfd(0, EFD_CLOEXEC);
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(mr_foreign_signal(event));
    assert_true(mr_foreign_signal(ends[0]) && mr_foreign_signal(ends[1]));
    for (size_t i = 0; i < MR_COUNT_OF(other); i++) {
        assert_true(other[i] >= 0);
        assert_false(mr_foreign_signal(other[i]));
        close(other[i]);
    }
    close(event);
    close(ends[0]);
    close(ends[1]);
    assert_false(mr_foreign_signal(event)); /* closed */
    assert_false(mr_foreign_signal(-1));
}

static void
only_files_that_nobody_serves_are_memory(void **state)
{
    int memory = memfd_create("guest", MFD_CLOEXEC);
    int other[] = {
        open("/proc/self/status", O_RDONLY | O_CLOEXEC),
        open("/dev/zero", O_RDWR | O_CLOEXEC),
        open("/", O_RDONLY | O_CLOEXEC),
        eventfd(0, EFD_CLOEXEC),
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
    };

    (void)state;
    assert_true(mr_foreign_memory(memory));
    for (size_t i = 0; i < MR_COUNT_OF(other); i++) {
        assert_true(other[i] >= 0);
        assert_false(mr_foreign_memory(other[i]));
        close(other[i]);
    }
    close(memory);
    assert_false(mr_foreign_memory(memory)); /* closed */
    assert_false(mr_foreign_memory(-1));
}

/* In a child with mounts of its own: an overlay over two folders in memory.
 * Exit status: 0 = its files count as memory, 1 = they do not, 77 = none. */
static int
overlay_child(void)
{
    int fd;

    if (unshare(CLONE_NEWNS) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/mnt", "tmpfs", 0, NULL) || mkdir("/mnt/l", 0700) ||
        mkdir("/mnt/u", 0700) || mkdir("/mnt/w", 0700) ||
        mkdir("/mnt/all", 0700) ||
        mount("none", "/mnt/all", "overlay", 0,
              "lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w"))
        return 77;
    fd = open("/mnt/all/file", O_CREAT | O_RDWR, 0600);
    return fd < 0 ? 77 : !mr_foreign_memory(fd);
}

static void
a_file_of_an_overlay_is_memory(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    if (!child)
        _exit(overlay_child());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: this user or kernel may not mount overlays\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A TCP socket whose close waits half a minute for a peer that does not
 * read. */
static int
lingering(int *peer)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {1, 30};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char bytes[4096] = {0};

    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
    if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&at, &len) ||
        connect(fd, (struct sockaddr *)&at, len))
        return -1;
    *peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        continue;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    return fd;
}

/* The socket is under way in another one, whose close then waits for it. */
static int
carrier(int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {"x", 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    int ends[2];

    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(sendmsg(ends[0], &msg, 0), 1);
    close(ends[0]);
    close(fd);
    return ends[1];
}

static void
a_close_does_not_wait(void **state)
{
    int before = fds_open();
    uint64_t begin = mr_now();
    int peer[2] = {-1, -1};
    int plain = lingering(&peer[0]);
    int carried = lingering(&peer[1]);

    (void)state;
    if (plain < 0 || carried < 0) {
        print_message("no network here\n");
        skip();
    }
    mr_foreign_close(-1);
    mr_foreign_close(carrier(carried));
    mr_foreign_close(plain);
    for (int i = 0; i < 1000; i++) {
        mr_foreign_close(memfd_create("guest", MFD_CLOEXEC));
        mr_foreign_close(eventfd(0, EFD_CLOEXEC));
        mr_foreign_close(open("/", O_RDONLY | O_CLOEXEC));
    }
    assert_true(mr_now() - begin < 10000000000ull);
    assert_true(mr_foreign_closing());
    close(peer[0]);
    close(peer[1]); /* ends the wait */
    assert_int_equal(fds_open(), before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_an_overlay_is_memory),
        cmocka_unit_test(only_eventfds_and_pipes_are_signals),
        cmocka_unit_test(only_files_that_nobody_serves_are_memory),
        cmocka_unit_test(a_close_does_not_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
