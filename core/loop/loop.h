/* The control loop: one libuv loop, run by the thread that opened the process.
 * mr_loop_run (moonring.h) gives it a turn.
 *
 * Owner: control thread, for everything but the wake-up, which mr_stop uses
 * from any thread and from the signal handler. SIGINT, SIGTERM and SIGHUP ask
 * the process to stop; the second of a kind ends it at once. SIGPIPE is
 * ignored: a dead peer is an error code (V41). */
#pragma once

#include <uv.h>

#include "base/attr.h"
#include "moonring.h"

/* Opens the loop and installs the signal handlers; done by the first call,
 * later ones have no effect. Errors: what libuv says. */
int mr_loop_open(void);
/* The loop, for handles of the files in this room; it is open. */
uv_loop_t *mr_loop_uv(void);
/* True in a callback of the loop, which must not be given another turn. */
bool mr_loop_inside(void);
/* Serves what is left until no handle is open, then closes the loop. Call at
 * exit, after all ports were closed. */
void mr_loop_close(void);
