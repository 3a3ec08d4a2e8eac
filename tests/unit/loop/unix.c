/* The files of sockets: who may connect, whose file is replaced or removed. */
#include "unit/loop/session.h"

static void
file_is_0600_whatever_the_umask(void **state)
{
    static const mode_t masks[] = {0, 022, 077, 0777};
    mode_t old = umask(0);

    (void)state;
    for (size_t i = 0; i < MR_COUNT_OF(masks); i++) {
        struct log l;
        struct mr_socket *s;

        umask(masks[i]);
        s = server(&l);
        assert_int_equal(file_mode(), 0600);
        end(s, &l);
        assert_int_equal(access(path, F_OK), -1);
    }
    umask(old);
}

static void
file_has_the_mode_and_owner_asked_for(void **state)
{
    struct mr_vhost_options o = options();
    struct mr_socket *s;
    struct log l = {0};
    struct stat st;

    (void)state;
    o.mode = 0666;
    o.owner = (int32_t)getuid();
    o.group = (int32_t)getgid();
    assert_int_equal(mr_socket_open(&port, &o, &ops, &l, false, &s), 0);
    assert_int_equal(file_mode(), 0666);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, getuid());
    end(s, &l);
}

static int
open_fails(const char *at)
{
    struct mr_vhost_options o = options();
    struct mr_socket *s;
    struct log l;
    int before = fds_open();
    int rc;

    o.path = at;
    rc = mr_socket_open(&port, &o, &ops, &l, false, &s);
    assert_true(rc < 0);
    assert_int_equal(fds_open(), before);
    return rc;
}

static void
a_live_listener_is_not_disturbed(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd;

    (void)state;
    assert_int_equal(open_fails(path), -EADDRINUSE);
    assert_non_null(strstr(mr_error_text(), path));
    fd = try_connect(path);
    assert_true(fd >= 0);
    /* The test of the refused one was a visit; ours is next. */
    TURN_UNTIL(l.opened == 2);
    close(fd);
    TURN_UNTIL(l.closed == 2);
    end(s, &l);
}

static void
v87_a_stale_file_is_replaced(void **state)
{
    struct log l;
    struct mr_socket *s;
    int fd;

    (void)state;
    close(listener());
    assert_int_equal(access(path, F_OK), 0);
    s = server(&l);
    fd = try_connect(path);
    assert_true(fd >= 0);
    close(fd);
    end(s, &l);
}

static void
what_is_no_socket_stays(void **state)
{
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

    (void)state;
    close(fd);
    assert_int_equal(open_fails(path), -EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    assert_int_equal(symlink("/nowhere", path), 0);
    assert_int_equal(open_fails(path), -EADDRINUSE);
    unlink(path);
}

static void
impossible_paths_are_errors(void **state)
{
    char long_path[200];

    (void)state;
    memset(long_path, 'x', sizeof(long_path));
    long_path[108] = 0;
    assert_int_equal(open_fails(long_path), -EINVAL);
    assert_int_equal(open_fails(""), -EINVAL);
    assert_int_equal(open_fails(NULL), -EINVAL);
    assert_int_equal(open_fails("/nowhere/at/all.sock"), -ENOENT);
}

static void
only_our_own_file_is_removed(void **state)
{
    struct log l;
    struct mr_socket *s = server(&l);
    int fd;

    (void)state;
    unlink(path);
    fd = listener();
    end(s, &l);
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_0600_whatever_the_umask),
        cmocka_unit_test(file_has_the_mode_and_owner_asked_for),
        cmocka_unit_test(a_live_listener_is_not_disturbed),
        cmocka_unit_test(v87_a_stale_file_is_replaced),
        cmocka_unit_test(what_is_no_socket_stays),
        cmocka_unit_test(impossible_paths_are_errors),
        cmocka_unit_test(only_our_own_file_is_removed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
