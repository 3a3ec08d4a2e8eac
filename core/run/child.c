/* Child programs, for Lua: one process each, spoken to in lines over its
 * standard input and output, which are one socket. Its standard error is ours.
 *
 * Owner: the thread that spawned the child. It dies with that thread, and when
 * the handle is closed or collected.
 *
 * Invariants:
 *  1. pid is 0 once the process was waited for, fd is -1 once it is closed.
 *  2. in[0..len) came from the child and was not handed out; no line of it is
 *     ever waited for beyond the time that the caller gave. */
#include "run/state.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/error.h"
#include "moonring.h"

enum {
    ARGS_MAX = 63,
    LINE_MAX_BYTES = 1 << 16,
    END_MS = 2000, /* time that a child gets to end by itself */
    END_STEP_NS = 1000 * 1000,
};

static const char type_name[] = "moonring.child";

struct child {
    pid_t pid;
    int fd;
    int status; /* as waitpid gave it; of use once pid is 0 */
    uint32_t len;
    char name[64];
    char in[LINE_MAX_BYTES];
};

/* What the new process needs until it is another program. It runs in our
 * memory meanwhile, so nothing is changed there but `failed`. */
struct launch {
    char *argv[ARGS_MAX + 2];
    sigset_t mask;
    pid_t parent;
    int fd;
    int failed; /* errno of what did not work */
};

static int
fail(lua_State *L, int code, const char *what, const char *why)
{
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s: %s", mr_error_name(-code), what, why);
    lua_pushstring(L, mr_error_name(-code));
    return 3;
}

static struct child *
child_arg(lua_State *L)
{
    return luaL_checkudata(L, 1, type_name);
}

/* In the new process. Signals are blocked until no handler of ours is left;
 * those of the terminal go to us alone, who end the child. */
static void
become(struct launch *l)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};

    for (int i = 1; i < NSIG; i++)
        sigaction(i, &usual, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->parent)
        _exit(1);
    setpgid(0, 0);
    if (dup2(l->fd, STDIN_FILENO) >= 0 && dup2(l->fd, STDOUT_FILENO) >= 0 &&
        close_range(STDERR_FILENO + 1, ~0u, 0) == 0) {
        sigprocmask(SIG_SETMASK, &l->mask, NULL);
        execv(l->argv[0], l->argv);
    }
    l->failed = errno;
    _exit(127);
}

/* vfork: a copy of our page tables would cost us a fault for every page that
 * we write to afterwards. Returns the pid or -1. */
static pid_t
launch(struct launch *l)
{
    sigset_t all;
    pid_t pid;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &l->mask);
    l->parent = getpid();
    pid = vfork();
    if (pid == 0)
        become(l);
    pthread_sigmask(SIG_SETMASK, &l->mask, NULL);
    if (pid < 0)
        l->failed = errno;
    return pid;
}

/* argv from the path and the list at stack positions 1 and 2, whose strings
 * stay there. */
static void
read_args(lua_State *L, struct launch *l)
{
    int n = 0;

    l->argv[n++] = (char *)(uintptr_t)luaL_checkstring(L, 1);
    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        luaL_argcheck(L, lua_objlen(L, 2) <= ARGS_MAX, 2, "too many");
        for (size_t i = 1; i <= lua_objlen(L, 2); i++) {
            lua_rawgeti(L, 2, (int)i);
            luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, 2,
                          "a list of strings");
            l->argv[n++] = (char *)(uintptr_t)lua_tostring(L, -1);
            lua_pop(L, 1); /* the list keeps it */
        }
    }
    l->argv[n] = NULL;
}

static struct child *
child_push(lua_State *L, const char *path)
{
    struct child *c = lua_newuserdata(L, sizeof(*c));
    const char *slash = strrchr(path, '/');

    c->pid = 0;
    c->fd = -1;
    c->status = 0;
    c->len = 0;
    snprintf(c->name, sizeof(c->name), "%s", slash ? slash + 1 : path);
    luaL_getmetatable(L, type_name);
    lua_setmetatable(L, -2);
    return c;
}

/* spawn(path, args) -> child | nil, text, name. Starts the program of that
 * path with the list of strings as its arguments. */
static int
child_spawn(lua_State *L)
{
    struct launch l = {.failed = 0};
    struct child *c;
    int pair[2];

    read_args(L, &l);
    c = child_push(L, l.argv[0]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return fail(L, errno, l.argv[0], strerror(errno));
    c->fd = pair[0];
    l.fd = pair[1];
    c->pid = launch(&l);
    close(pair[1]);
    if (c->pid > 0 && l.failed)
        waitpid(c->pid, &c->status, 0);
    if (!l.failed)
        return 1;
    c->pid = 0;
    return fail(L, l.failed, l.argv[0], strerror(l.failed));
}

/* Looks whether the process has ended. */
static bool
ended(struct child *c)
{
    if (c->pid && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
        c->pid = 0;
    return !c->pid;
}

static bool
await_end(struct child *c)
{
    const struct timespec step = {0, END_STEP_NS};

    for (int i = 0; i < END_MS && !ended(c); i++)
        nanosleep(&step, NULL);
    return ended(c);
}

/* Ends the child: first by the end of its input, then with all of its process
 * group. */
static void
finish(struct child *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    if (await_end(c))
        return;
    kill(-c->pid, SIGKILL);
    if (waitpid(c->pid, &c->status, 0) == c->pid)
        c->pid = 0;
}

/* How it ended, as the error that whoever still spoke to it gets. */
static int
fail_ended(lua_State *L, struct child *c)
{
    char why[64];

    finish(c);
    if (WIFSIGNALED(c->status))
        snprintf(why, sizeof(why), "the program was ended by signal %d",
                 WTERMSIG(c->status));
    else
        snprintf(why, sizeof(why), "the program has ended with status %d",
                 WEXITSTATUS(c->status));
    return fail(L, EPIPE, c->name, why);
}

/* child:write(text) -> true | nil, text, name. All of the text or an error:
 * EPIPE (it has ended), EAGAIN (it does not read). */
static int
child_write(lua_State *L)
{
    struct child *c = child_arg(L);
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);

    while (len && c->fd >= 0) {
        ssize_t n = send(c->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return fail(L, EAGAIN, c->name, "it does not read what we say");
        if (n < 0)
            return fail_ended(L, c);
        text += n;
        len -= (size_t)n;
    }
    if (c->fd < 0)
        return fail_ended(L, c);
    lua_pushboolean(L, 1);
    return 1;
}

/* Pushes the first whole line there is, without its end. */
static bool
push_line(lua_State *L, struct child *c)
{
    char *end = memchr(c->in, '\n', c->len);

    if (!end)
        return false;
    lua_pushlstring(L, c->in, (size_t)(end - c->in));
    c->len -= (uint32_t)(end + 1 - c->in);
    memmove(c->in, end + 1, c->len);
    return true;
}

/* Takes in what the child said. Returns as recv. */
static ssize_t
take_in(struct child *c)
{
    ssize_t n =
        recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, MSG_DONTWAIT);

    if (n > 0)
        c->len += (uint32_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        return 0;
    return n;
}

/* child:read(seconds) -> line | nil, text, name. Waits so long for a line:
 * ETIMEDOUT; EPIPE (it has ended), EMSGSIZE (a line above 64 KiB). */
static int
child_read(lua_State *L)
{
    struct child *c = child_arg(L);
    double ms = luaL_checknumber(L, 2) * 1e3;
    uint64_t limit = mr_now() + (uint64_t)(ms * 1e6);
    uint64_t now;

    while (!push_line(L, c)) {
        struct pollfd wait = {c->fd, POLLIN, 0};

        if (c->fd < 0)
            return fail_ended(L, c);
        if (c->len == sizeof(c->in))
            return fail(L, EMSGSIZE, c->name, "a line above 64 KiB");
        now = mr_now();
        poll(&wait, 1, now < limit ? (int)((limit - now) / 1000000) + 1 : 0);
        if (take_in(c) == 0)
            return fail_ended(L, c);
        if (mr_now() >= limit && !memchr(c->in, '\n', c->len))
            return fail(L, ETIMEDOUT, c->name, "no answer in time");
    }
    return 1;
}

/* child:pid() -> its number while it runs, else nil. */
static int
child_pid(lua_State *L)
{
    struct child *c = child_arg(L);

    if (ended(c))
        return 0;
    lua_pushinteger(L, c->pid);
    return 1;
}

/* child:close() -> its exit status, 128 + the signal that ended it. Its input
 * ends; two seconds later it is killed. Closing twice is allowed. */
static int
child_close(lua_State *L)
{
    struct child *c = child_arg(L);

    finish(c);
    lua_pushinteger(L, WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status)
                                              : WEXITSTATUS(c->status));
    return 1;
}

void
mr_child_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"write", child_write}, {"read", child_read},  {"pid", child_pid},
        {"close", child_close}, {"__gc", child_close}, {NULL, NULL},
    };

    luaL_newmetatable(L, type_name);
    luaL_register(L, NULL, methods);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, child_spawn);
    lua_setfield(L, -2, "spawn");
}
