/* What happens when a peer breaks a rule: the fault is counted under its name
 * (MR_FAULTS in moonring.h); a broken ring also stops for good, until it is
 * set up anew. Both are cold and called by the ring's owner only. */
#pragma once

#include "ring/ring.h"

/* Counts a fault that costs the peer one buffer. */
void mr_ring_skip(struct mr_ring *ring, enum mr_fault fault);
/* Counts the fault and stops the ring. */
void mr_ring_break(struct mr_ring *ring, enum mr_fault fault);
