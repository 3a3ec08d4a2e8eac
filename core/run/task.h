/* Tasks: worker threads that run one global function of a script in a Lua
 * state of their own. The calls are declared in moonring.h (mr_task_*).
 *
 * Owner: the control thread starts, asks, waits and frees. Between start and
 * end everything in the state is the worker's; two words cross: `state`
 * (written by the worker, last of all) and `stop` (written by control). */
#pragma once

#include "moonring.h"
