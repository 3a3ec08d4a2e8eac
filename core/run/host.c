/* Module "moonring.host": what Lua cannot do itself, none of it on a data
 * path. Every function runs on the thread of its state. */
#include "run/state.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <rte_version.h>

#include "base/error.h"
#include "loop/loop.h"
#include "run/eal.h"

/* nil, "NAME: what: why", "NAME" */
static int
push_errno(lua_State *L, const char *what)
{
    int code = errno;

    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s: %s", mr_error_name(-code), what,
                    strerror(code));
    lua_pushstring(L, mr_error_name(-code));
    return 3;
}

/* start() -> true | nil, text, name. Starts DPDK and the control loop, with its
 * signal handlers, once. */
static int
host_start(lua_State *L)
{
    int rc = mr_loop_open(); /* first: with it come the signal handlers */

    if (rc == 0)
        rc = mr_eal_start();
    if (rc == 0) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", mr_error_name(rc), mr_error_text());
    lua_pushstring(L, mr_error_name(rc));
    return 3;
}

/* cpus() -> list of the CPUs that this thread may run on. */
static int
host_cpus(lua_State *L)
{
    cpu_set_t set;
    int n = 0;

    lua_newtable(L);
    if (sched_getaffinity(0, sizeof(set), &set))
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        lua_pushinteger(L, cpu);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

/* share() -> directory of our Lua code. */
static int
host_share(lua_State *L)
{
    lua_pushstring(L, mr_state_share());
    return 1;
}

/* directory() -> directory of the program's file. */
static int
host_directory(lua_State *L)
{
    char dir[PATH_MAX];

    mr_state_program_dir(dir, sizeof(dir));
    lua_pushstring(L, dir);
    return 1;
}

/* build() -> compiler, DPDK: names and versions of what this is made with. */
static int
host_build(lua_State *L)
{
#if defined(__clang__)
    lua_pushliteral(L, "clang " __clang_version__);
#else
    lua_pushliteral(L, "gcc " __VERSION__);
#endif
    lua_pushstring(L, rte_version());
    return 2;
}

/* terminal(fd) -> whether a person reads what is written there. */
static int
host_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

/* tempdir() -> a fresh private directory. */
static int
host_tempdir(lua_State *L)
{
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/moonring-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(path))
        return push_errno(L, path);
    lua_pushstring(L, path);
    return 1;
}

/* files(dir) -> unsorted list of names, without "." and "..". */
static int
host_files(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    DIR *dir = opendir(path);
    struct dirent *entry;
    int n = 0;

    if (!dir)
        return push_errno(L, path);
    lua_newtable(L);
    while ((entry = readdir(dir)) != NULL) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        lua_pushstring(L, entry->d_name);
        lua_rawseti(L, -2, ++n);
    }
    closedir(dir);
    return 1;
}

/* may(path, "r" | "w" | "x" | "") -> true | nil, text, name. */
static int
host_may(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    const char *how = luaL_optstring(L, 2, "");
    int mode = F_OK;

    mode |= strchr(how, 'r') ? R_OK : 0;
    mode |= strchr(how, 'w') ? W_OK : 0;
    mode |= strchr(how, 'x') ? X_OK : 0;
    if (access(path, mode))
        return push_errno(L, path);
    lua_pushboolean(L, 1);
    return 1;
}

/* nap(seconds): sleeps, also when the process is to stop. */
static int
host_nap(lua_State *L)
{
    double seconds = luaL_checknumber(L, 1);
    struct timespec ts = {(time_t)seconds,
                          (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&ts, NULL);
    return 0;
}

/* quit(code): ends the process at once. For the one case in which it cannot
 * end well: a task that does not come back. */
static int
host_quit(lua_State *L)
{
    fflush(NULL);
    _exit((int)luaL_checkinteger(L, 1));
}

static int
host_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"start", host_start},     {"cpus", host_cpus},
        {"share", host_share},     {"terminal", host_terminal},
        {"tempdir", host_tempdir}, {"files", host_files},
        {"may", host_may},         {"nap", host_nap},
        {"quit", host_quit},       {"directory", host_directory},
        {"build", host_build},
        {NULL, NULL},
    };

    lua_newtable(L);
    luaL_register(L, NULL, functions);
    mr_child_register(L);
    return 1;
}

void
mr_host_preload(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, host_open);
    lua_setfield(L, -2, "moonring.host");
    lua_pop(L, 2);
}
