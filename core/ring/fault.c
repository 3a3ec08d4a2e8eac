#include "ring/fault.h"

MR_COLD void
mr_ring_skip(struct mr_ring *ring, enum mr_fault fault)
{
    mr_count(&ring->counters->faults[fault], 1);
    mr_count(&ring->counters->skipped, 1);
}

MR_COLD void
mr_ring_break(struct mr_ring *ring, enum mr_fault fault)
{
    mr_count(&ring->counters->faults[fault], 1);
    ring->fault = fault;
}
