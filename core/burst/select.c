/* Picks the burst function for a ring: once, at negotiation, by the control
 * thread while the queue's gate is closed. */
#include "burst/variant.h"

#define NAME(arg, v, name) [v] = name,
static const char *const variant_name[MR_V_COUNT] = {MR_VARIANTS(NAME, )};
#undef NAME

mr_burst_fn
mr_burst_select(const struct mr_ring *r, const char **name)
{
    static const mr_burst_fn *const table[2][2] = {
        {mr_device_tx, mr_device_rx}, {mr_driver_tx, mr_driver_rx}};
    unsigned v = mr_variant(r);

    *name = variant_name[v];
    return table[r->driver][r->rx][v];
}
