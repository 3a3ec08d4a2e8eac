#include "port/gate.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

uint32_t mr_gate_asymmetric;

void
mr_gate_init(void)
{
#ifdef MR_TSAN
    mr_gate_asymmetric = 0; /* the race detector cannot see membarrier */
#else
    mr_gate_asymmetric =
        syscall(__NR_membarrier,
                MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

void
mr_gate_open(struct mr_gate *gate)
{
    mr_store_release(&gate->open, 1);
}

int
mr_gate_close(struct mr_gate *gate)
{
    __atomic_store_n(&gate->open, 0, __ATOMIC_SEQ_CST); /* B1 */
    if (mr_gate_asymmetric) /* B2 */
        syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    return __atomic_load_n(&gate->inside, __ATOMIC_SEQ_CST) ? -EAGAIN : 0;
}

void
mr_gate_close_wait(struct mr_gate *gate)
{
    while (mr_gate_close(gate))
        sched_yield();
}
