/* Loans: packets whose bytes stay in the guest's buffers instead of being
 * copied out (T11). A buffer that was lent goes back to the driver when the
 * last packet that refers to it is freed.
 *
 * A loan belongs to one device-side rx ring. Whoever is inside that queue's
 * gate lends and takes back; the packets are freed by any thread, which pushes
 * the buffer on a stack and does no more: the ring is its owner's. At most n
 * buffers are out at once, so the others keep the ring going.
 *
 * Invariants:
 *  1. The memory table lives as long as a buffer is out, whatever becomes of
 *     the ring and its peer: the loan holds it.
 *  2. A buffer is `owed` to the driver from the moment it is lent until it is
 *     used in the ring, once.
 *  3. The bytes are the guest's: they may change at any moment. */
#pragma once

#include <rte_mbuf.h>

#include "mem/memory.h"
#include "mem/packet.h"

/* A buffer that can be lent. */
struct mr_lent {
    struct rte_mbuf_ext_shared_info shared;
    struct mr_lent *next; /* of the free ones, or of those pushed */
    struct mr_loan *loan;
    uint16_t id; /* of the list, in the ring */
    bool owed;
};

struct mr_loan {
    /* The owner's. */
    MR_LINE struct mr_pool *pool;
    mr_burst_fn copy;      /* burst function for what is not lent */
    struct mr_lent *free;
    struct mr_lent *taken; /* off the stack, not looked at yet */
    uint32_t out;          /* lent and not back */
    uint32_t n;
    /* Pushed by any thread. */
    MR_LINE struct mr_lent *back;
    /* Control. */
    MR_LINE struct mr_memory *memory;
    struct mr_loan *next; /* in a list of its keeper */
    uint64_t patience;    /* until when a stop waits (ns), 0 = no stop yet */
    struct mr_lent lent[];
};

/* A pool of packets without buffers, for loans; ends by mr_pool_free. Errors:
 * ENOMEM. */
int mr_loan_pool_create(uint32_t packets, struct mr_pool **pool);
/* A loan of at most n buffers of that memory. Errors: ENOMEM. */
int mr_loan_open(struct mr_memory *memory, struct mr_pool *pool, uint32_t n,
                 struct mr_loan **loan);
/* Frees the loan if every buffer is back; false otherwise: ask again. No one
 * lends any more. */
bool mr_loan_close(struct mr_loan *loan);

/* Can a buffer be lent now? */
MR_INLINE bool
mr_loan_room(const struct mr_loan *loan)
{
    return loan->free != NULL;
}

/* The bytes as a segment of its own, with data_len set; they are owed to the
 * driver under `id`. There is room; NULL when the pool is short. */
struct mr_pkt *mr_loan_lend(struct mr_loan *loan, uint8_t *bytes, uint32_t len,
                            uint16_t id);
/* The next buffer that is back, NULL = none; it can be lent again. */
struct mr_lent *mr_loan_back(struct mr_loan *loan);

/* Is there one? A look that costs a load. */
MR_INLINE bool
mr_loan_pushed(const struct mr_loan *loan)
{
    return mr_load(&loan->back) != NULL;
}
