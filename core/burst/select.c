/* Picks the burst function for a ring: once, at negotiation, by the control
 * thread while the queue's gate is closed. Splice, which has two rings, is
 * picked burst by burst. */
#include "burst/loan.h"
#include "burst/splice.h"
#include "burst/variant.h"
#include "mem/packet_loan.h"

#define NAME(arg, v, name) [v] = name,
static const char *const variant_name[MR_V_COUNT] = {MR_VARIANTS(NAME, )};
#undef NAME

mr_burst_fn
mr_burst_select(const struct mr_ring *r, const char **name)
{
#define MR_X(level, text)                                                      \
    [MR_CPU_##level] = {{mr_device_tx_##level, mr_device_rx_##level},          \
                        {mr_driver_tx_##level, mr_driver_rx_##level}},
    static const mr_burst_fn *const table[MR_CPU_COUNT][2][2] = {
        MR_LEVELS(MR_X)};
#undef MR_X
    unsigned v = mr_variant(r);
    mr_burst_fn fn = table[r->cpu][r->driver][r->rx][v];

    *name = variant_name[v];
    if (!r->loan)
        return fn;
    r->loan->copy = fn;
    return mr_device_lend;
}

int32_t
mr_splice(struct mr_ring *from, struct mr_ring *to, uint32_t n,
          const uint8_t *turn)
{
#define MR_X(level, text) [MR_CPU_##level] = mr_splice_##level,
    static const mr_splice_fn table[MR_CPU_COUNT] = {MR_LEVELS(MR_X)};
#undef MR_X

    if (mr_unlikely(from->loan && mr_loan_pushed(from->loan)))
        mr_device_repay(from, false);
    return table[from->cpu](from, to, n, turn);
}
