#include "ring/fault.h"

MR_COLD void
mr_ring_skip(struct mr_ring *ring, enum mr_fault fault)
{
    ring->counters->faults[fault]++;
    ring->counters->skipped++;
}

MR_COLD void
mr_ring_break(struct mr_ring *ring, enum mr_fault fault)
{
    ring->counters->faults[fault]++;
    ring->fault = fault;
}
