#include "mem/packet_loan.h"

#include <errno.h>
#include <rte_errno.h>
#include <rte_mbuf_dyn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

enum { CACHE = 32 };

/* Marks a lent segment, which must not be taken for one of an ordinary pool:
 * mr_pkts_free would not tell us. */
static uint64_t lent_flag;

static int
flag_register(void)
{
    static const struct rte_mbuf_dynflag flag = {.name = "mr_lent"};
    int bit = rte_mbuf_dynflag_register(&flag);

    if (bit < 0)
        return mr_error_set(-rte_errno, "no mbuf flag is left for loans");
    lent_flag = 1ull << bit;
    return 0;
}

int
mr_loan_pool_create(uint32_t packets, struct mr_pool **out)
{
    static uint32_t serial;
    struct mr_pool *pool;
    char name[RTE_MEMPOOL_NAMESIZE];
    int rc = flag_register();

    if (rc)
        return rc;
    pool = calloc(1, sizeof(*pool));
    snprintf(name, sizeof(name), "mr_loan_%u", serial++);
    if (pool)
        pool->mp = rte_pktmbuf_pool_create(name, packets, CACHE, 0, 0,
                                           SOCKET_ID_ANY);
    if (!pool || !pool->mp) {
        free(pool);
        return mr_error_set(-ENOMEM, "no memory for %u packets to lend",
                            packets);
    }
    pool->packets = packets;
    *out = pool;
    return 0;
}

int
mr_loan_open(struct mr_memory *memory, struct mr_pool *pool, uint32_t n,
             struct mr_loan **out)
{
    size_t bytes = sizeof(struct mr_loan) + n * sizeof(struct mr_lent);
    struct mr_loan *loan;

    bytes = (bytes + MR_CACHE_LINE - 1) & -(size_t)MR_CACHE_LINE;
    loan = aligned_alloc(MR_CACHE_LINE, bytes);
    if (!loan)
        return mr_error_set(-ENOMEM, "no memory for a loan of %u buffers", n);
    memset(loan, 0, bytes);
    loan->pool = pool;
    loan->n = n;
    loan->memory = memory;
    mr_memory_hold(memory);
    for (uint32_t i = 0; i < n; i++) {
        loan->lent[i].loan = loan;
        loan->lent[i].next = loan->free;
        loan->free = &loan->lent[i];
    }
    *out = loan;
    return 0;
}

bool
mr_loan_close(struct mr_loan *loan)
{
    while (mr_loan_back(loan))
        ;
    if (loan->out)
        return false;
    mr_memory_destroy(loan->memory);
    free(loan);
    return true;
}

/* Any thread, once a buffer. The release makes what was done with the bytes
 * come before the driver gets them back. */
static void
push(void *bytes, void *opaque)
{
    struct mr_lent *lent = opaque;
    struct mr_lent **back = &lent->loan->back;

    (void)bytes;
    lent->next = mr_load(back);
    while (!__atomic_compare_exchange_n(back, &lent->next, lent, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

struct mr_pkt *
mr_loan_lend(struct mr_loan *loan, uint8_t *bytes, uint32_t len, uint16_t id)
{
    struct mr_lent *lent = loan->free;
    struct rte_mbuf *m = rte_pktmbuf_alloc(loan->pool->mp);

    if (!m)
        return NULL;
    loan->free = lent->next;
    loan->out++;
    lent->id = id;
    lent->owed = true;
    lent->shared.free_cb = push;
    lent->shared.fcb_opaque = lent;
    rte_mbuf_ext_refcnt_set(&lent->shared, 1);
    rte_pktmbuf_attach_extbuf(m, bytes, (uintptr_t)bytes, (uint16_t)len,
                              &lent->shared);
    m->ol_flags |= lent_flag;
    m->data_len = (uint16_t)len;
    return (struct mr_pkt *)m;
}

struct mr_lent *
mr_loan_back(struct mr_loan *loan)
{
    struct mr_lent *lent;

    if (!loan->taken)
        loan->taken = __atomic_exchange_n(&loan->back, NULL, __ATOMIC_ACQUIRE);
    lent = loan->taken;
    if (!lent)
        return NULL;
    loan->taken = lent->next;
    lent->next = loan->free;
    loan->free = lent;
    loan->out--;
    return lent;
}
