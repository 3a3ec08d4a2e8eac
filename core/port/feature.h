/* Which virtio features a vhost-user port offers or takes: the wishes of its
 * options, what features need of each other, and what was agreed, as the
 * port's information tells it. One list serves both roles.
 *
 * Owner: control thread. */
#pragma once

#include "moonring.h"
#include "ring/layout.h"

/* Options that stand for a feature: X(option, FEATURE). */
#define MR_FEATURE_OPTIONS(X)                                                  \
    X(packed, RING_PACKED) X(mergeable, MRG_RXBUF) X(in_order, IN_ORDER)       \
    X(indirect, INDIRECT_DESC) X(event_idx, EVENT_IDX)                         \
    X(order_platform, ORDER_PLATFORM) X(version_1, VERSION_1)

struct mr_feature_wishes {
    uint64_t any; /* left to the peer (-1), except ORDER_PLATFORM: a software
                   * peer is ordered by the CPUs that both of us run on, so
                   * that is off unless asked for (S60) */
    uint64_t on;  /* asked for (1) */
};

/* Reads the tri-state options; `port` names it in errors. Errors: EINVAL (no
 * tri-state, or a wish whose requirement is switched off). */
int mr_feature_wishes_read(const struct mr_vhost_options *options,
                           const char *port, struct mr_feature_wishes *wishes);
/* Without the bits that lack what they need (N5). */
uint64_t mr_feature_closure(uint64_t features);
/* Name of a bit, 0..63; "?" for one that Moonring has no name for. */
const char *mr_feature_name(uint32_t bit);
/* Fills the fields of `info` that follow from the agreed features and from the
 * burst functions' names (NULL = none yet). */
void mr_feature_info(uint64_t features, const char *const variant[2],
                     struct mr_port_info *info);
