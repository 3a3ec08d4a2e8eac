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
/* Directory of the program's file, without the last slash, into out[0..size);
 * empty when it cannot be known. */
void mr_state_program_dir(char *out, size_t size);
/* Preloads "moonring.host" (host.c). */
void mr_host_preload(lua_State *L);
/* Adds spawn(path, args) to the table on top of the stack: child programs, with
 * methods write, read, pid and close (child.c). */
void mr_child_register(lua_State *L);
