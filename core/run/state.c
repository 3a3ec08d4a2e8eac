/* See state.h. */
#include "run/state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

static const char cdef[] =
#include "moonring_cdef.h"
    ;

/* Scripts are many small traces; LuaJIT's own limits are for interactive
 * programs of the 2010s. */
static const char setup[] =
    "local share = ...\n"
    "package.path = share .. '/lua/?.lua;' .. share .. '/lua/?/init.lua;'\n"
    "    .. package.path\n"
    "jit.opt.start('maxtrace=8000', 'maxrecord=16000', 'maxirconst=4000',\n"
    "    'maxside=400', 'maxsnap=2000', 'sizemcode=64', 'maxmcode=16384')\n";

void
mr_state_program_dir(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
}

const char *
mr_state_share(void)
{
    static _Thread_local char share[PATH_MAX + 32];
    const char *given = getenv("MOONRING_SHARE");
    char dir[PATH_MAX], real[PATH_MAX];

    if (share[0])
        return share;
    if (given && given[0]) {
        snprintf(share, sizeof(share), "%s", given);
        return share;
    }
    mr_state_program_dir(dir, sizeof(dir));
    snprintf(share, sizeof(share), "%s/../share/moonring", dir);
    if (realpath(share, real))
        snprintf(share, sizeof(share), "%s", real);
    return share;
}

static int
load_cdef(lua_State *L)
{
    lua_pushlstring(L, cdef, sizeof(cdef) - 1);
    return 1;
}

static int
prepare(lua_State *L)
{
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, load_cdef);
    lua_setfield(L, -2, "moonring.cdef");
    lua_pop(L, 2);
    mr_host_preload(L);
    if (luaL_loadbuffer(L, setup, sizeof(setup) - 1, "=setup"))
        return lua_error(L);
    lua_pushstring(L, mr_state_share());
    lua_call(L, 1, 0);
    return 0;
}

lua_State *
mr_state_open(void)
{
    lua_State *L = luaL_newstate();

    if (!L)
        return NULL;
    if (lua_cpcall(L, prepare, NULL) == 0)
        return L;
    fprintf(stderr, "moonring: error: no Lua state: %s\n", lua_tostring(L, -1));
    lua_close(L);
    return NULL;
}

int
mr_state_traceback(lua_State *L)
{
    if (!lua_isstring(L, 1))
        return 1;
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}
