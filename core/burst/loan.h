/* Receiving on the device side without a copy (T11), for rings with a loan
 * (mem/packet_loan.h): of a long frame in one buffer only the headers are
 * copied, and the rest of the packet lies where the driver put it.
 *
 * Owner: the worker inside the queue's gate; the control thread while it is
 * closed. */
#pragma once

#include "burst/variant.h"

/* Burst function of such a ring. What is not worth lending, or beyond what may
 * be out, goes through the ring's ordinary function, which loan->copy names. */
uint32_t mr_device_lend(void *ring, struct mr_pkt **pkts, uint32_t n);
/* Gives the driver back what packets returned. `all`: also what they did not
 * yet, whose bytes then are no longer the packets' to rely on. */
void mr_device_repay(struct mr_ring *ring, bool all);
