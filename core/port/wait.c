#include "port/wait.h"

#include <sched.h>

#include "base/atomic.h"
#include "base/process.h"

enum {
    PAUSES = 64,
    /* By time, not by number: on a busy CPU one yield can cost a whole slice,
     * whereas a sleeper is soon woken. */
    YIELD_NS = 100000,
    SLEEP_US = 50,
};

struct mr_wait
mr_wait_for(uint64_t timeout_us)
{
    bool limited = timeout_us < UINT64_MAX / 1000;

    return (struct mr_wait){
        .timeout = limited ? timeout_us * 1000 : UINT64_MAX,
    };
}

bool
mr_wait_turn(struct mr_wait *w)
{
    uint64_t waited;

    if (!w->timeout || !mr_running())
        return false;
    if (w->turn++ < PAUSES) {
        mr_pause();
        return true;
    }
    if (w->turn == PAUSES + 1)
        w->begin = mr_now();
    waited = mr_now() - w->begin;
    if (waited >= w->timeout)
        return false;
    if (waited < YIELD_NS)
        sched_yield();
    else
        mr_sleep_us(MR_MIN((w->timeout - waited) / 1000 + 1,
                           (uint64_t)SLEEP_US));
    return true;
}
