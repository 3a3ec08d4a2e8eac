/* The process: whether it is to stop, and its clocks.
 *
 * mr_running, mr_stop, mr_sleep_us, mr_now, mr_tsc, mr_tsc_hz and mr_version
 * are declared in moonring.h. Any thread may call them; mr_stop may be called
 * from a signal handler. The stop flag goes from running to stopping once and
 * never back. */
#pragma once

#include "base/attr.h"
#include "moonring.h"

/* Function that mr_stop calls after it set the flag, to wake whoever waits in
 * a way that this file does not know (the control loop). It must be safe in a
 * signal handler. NULL = none. One hook; control thread. */
void mr_stop_hook(void (*wake)(void));

/* Gives the calling thread a stop flag of its own: once *word is not 0,
 * mr_running returns 0 in this thread alone. The word outlives the thread's
 * use of mr_running. NULL = none. */
void mr_thread_stop_word(const uint32_t *word);
/* True once the process, and not this thread alone, was asked to stop. */
bool mr_process_stops(void);
/* Makes every mr_sleep_us look again whether it is to go on; call it after a
 * stop flag was set. Any thread, also in a signal handler. */
void mr_wake_sleepers(void);
