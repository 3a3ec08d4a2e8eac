/* The moonring program: a Lua state on the control thread that runs the
 * command line (lua/moonring/cli). Everything else follows from there.
 * $MOONRING_LOG names the log level, "warning" unless it is set, $MR_CPU_LEVEL
 * the highest CPU level to use.
 *
 * Owner: control thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/cpu.h"
#include "base/log.h"
#include "loop/loop.h"
#include "port/gate.h"
#include "run/eal.h"
#include "run/state.h"

/* main(args) of moonring.cli -> exit status */
static int
run_cli(lua_State *L)
{
    char **argv = lua_touserdata(L, 1);

    lua_settop(L, 0);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moonring.cli");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "main");
    lua_newtable(L);
    for (int i = 0; argv[i]; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 1, 1);
    return 1;
}

static void
log_level_choose(void)
{
    const char *name = getenv("MOONRING_LOG");

    if (name && !mr_log_level_named(name))
        mr_log(MR_LOG_WARN, "MOONRING_LOG is '%s': error, warning or info",
               name);
}

static void
cpu_level_check(void)
{
    const char *name = getenv("MR_CPU_LEVEL");

    if (name && mr_cpu_named(name) < 0)
        mr_log(MR_LOG_WARN, "MR_CPU_LEVEL is '%s': baseline, avx2 or avx512",
               name);
}

/* A standard stream that was closed would be the next file that we open, and
 * get our output. In its place comes one that fails. */
static void
streams_keep(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* At exit, however it comes about: results that were not written are no
 * success. */
static void
streams_check(void)
{
    bool failed = ferror(stdout);

    if (!fflush(stdout) && !failed)
        return;
    fprintf(stderr, "moonring: standard output cannot be written (%s)\n",
            strerror(errno));
    _exit(1);
}

int
main(int argc, char **argv)
{
    lua_State *L;
    int status = 1;

    (void)argc;
    streams_keep();
    atexit(streams_check);
    L = mr_state_open();
    if (!L)
        return 1;
    log_level_choose();
    cpu_level_check();
    mr_gate_init();
    lua_pushcfunction(L, mr_state_traceback);
    lua_pushcfunction(L, run_cli);
    lua_pushlightuserdata(L, argv);
    if (lua_pcall(L, 1, 1, 1) == 0)
        status = (int)lua_tointeger(L, -1);
    else
        fprintf(stderr, "moonring: error: %s\n", lua_tostring(L, -1));
    lua_close(L);
    mr_loop_close();
    mr_eal_stop();
    return status;
}
