/* Lua states: one for the control thread, one for each worker. All are made
 * alike: the standard libraries, `require` that finds our modules first, the
 * FFI declaration as module "moonring.cdef" and what only C can tell as module
 * "moonring.host".
 *
 * Owner: the thread that opened it. States share nothing. */
#pragma once

#include <lua.h>

#include "base/attr.h"

/* A state, or NULL when there is no memory for one. The caller closes it. */
lua_State *mr_state_open(void);
/* Directory of our Lua code and scripts: $MOONRING_SHARE, else
 * ../share/moonring beside the program's own directory. */
const char *mr_state_share(void);
/* Pushes the handler that xpcall wants: message plus traceback, tables kept
 * as they are. */
int mr_state_traceback(lua_State *L);
/* Preloads "moonring.host" (host.c). */
void mr_host_preload(lua_State *L);
