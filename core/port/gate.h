/* The gate: how the control thread stops a queue between two bursts.
 *
 * The worker marks itself inside, then looks whether the gate is open; the
 * control thread closes the gate, then looks whether somebody is inside. Each
 * side stores before it loads, which needs a full fence on both sides. The
 * worker's fence would cost every burst, so the control thread pays for both:
 * membarrier(2) runs a fence on every CPU that runs a thread of ours. Where
 * the kernel has none, the worker fences.
 *
 * A queue that nobody is inside of is stopped by definition, whatever its task
 * does meanwhile: control never waits for Lua, only for the end of one burst.
 *
 *   worker                          control
 *   A1 inside = 1                   B1 open = 0
 *   (compiler barrier or fence)     B2 membarrier / fence
 *   A2 load open                    B3 load inside
 *
 * Invariant: while `open` is 0 and `inside` was seen 0 after B2, only the
 * control thread touches what the gate protects. Publication both ways goes
 * through release stores of the same words. */
#pragma once

#include "base/atomic.h"

/* A line lies between the two, so that each can stand among what has the same
 * writer. */
struct mr_gate {
    uint32_t open; /* writer: the control thread */
    uint8_t apart[MR_CACHE_LINE - sizeof(uint32_t)];
    uint32_t inside; /* writer: the worker */
};

/* 1 when membarrier serves, set once before the first gate is used. */
extern uint32_t mr_gate_asymmetric;
/* Chooses the mechanism. Call once, before threads are started. */
void mr_gate_init(void);

/* Worker: true when the burst may run; then mr_gate_leave must follow. */
MR_INLINE bool
mr_gate_enter(struct mr_gate *gate)
{
    if (mr_likely(mr_gate_asymmetric)) {
        mr_store(&gate->inside, 1);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        __atomic_exchange_n(&gate->inside, 1, __ATOMIC_SEQ_CST);
    }
    if (mr_likely(mr_load_acquire(&gate->open)))
        return true;
    mr_store_release(&gate->inside, 0);
    return false;
}

MR_INLINE void
mr_gate_leave(struct mr_gate *gate)
{
    mr_store_release(&gate->inside, 0);
}

/* Control: opens the gate; everything stored before is visible inside. */
void mr_gate_open(struct mr_gate *gate);
/* Control: closes the gate (again, when it is closed already). Returns 0 when
 * nobody is inside and the protected state is the caller's, -EAGAIN while a
 * burst still runs: ask again later. */
int mr_gate_close(struct mr_gate *gate);
/* Closes and waits. Only where a burst's length may be waited for: at exit and
 * in mr_port_close. */
void mr_gate_close_wait(struct mr_gate *gate);
