#include "port/feature.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"

/* N5: a feature and what it needs. Bits from 32 up exist for VERSION_1 drivers
 * only. MQ's CTRL_VQ is not here: front-ends serve that queue themselves
 * (N102, N103). */
static const struct {
    uint8_t bit;
    uint64_t needs;
} needs[] = {
    {MR_F_RING_PACKED, MR_F(VERSION_1)},
    {MR_F_IN_ORDER, MR_F(VERSION_1)},
    {MR_F_ORDER_PLATFORM, MR_F(VERSION_1)},
};

uint64_t
mr_feature_closure(uint64_t features)
{
    uint64_t before;

    do {
        before = features;
        for (size_t i = 0; i < MR_COUNT_OF(needs); i++)
            if ((features & needs[i].needs) != needs[i].needs)
                features &= ~(1ull << needs[i].bit);
    } while (features != before);
    return features;
}

int
mr_feature_wishes_read(const struct mr_vhost_options *o, const char *port,
                       struct mr_feature_wishes *w)
{
    const struct {
        const char *name;
        int32_t wish;
        uint64_t bit;
    } option[] = {
#define MR_X(field, NAME) {#field, o->field, MR_F(NAME)},
        MR_FEATURE_OPTIONS(MR_X)
#undef MR_X
    };

    *w = (struct mr_feature_wishes){0};
    for (size_t i = 0; i < MR_COUNT_OF(option); i++) {
        if (option[i].wish < -1 || option[i].wish > 1)
            return mr_error_set(-EINVAL, "%s: %s is %d: -1 (as the peer "
                                "likes), 0 (off) or 1 (on)", port,
                                option[i].name, option[i].wish);
        if (option[i].wish < 0)
            w->any |= option[i].bit;
        else if (option[i].wish)
            w->on |= option[i].bit;
    }
    w->any &= ~MR_F(ORDER_PLATFORM);
    if (w->on & ~mr_feature_closure(w->on | w->any))
        return mr_error_set(-EINVAL, "%s: packed rings, in-order use and "
                            "platform ordering need VERSION_1: leave it on",
                            port);
    return 0;
}

const char *
mr_feature_name(uint32_t bit)
{
    static const char *const name[64] = {
#define MR_X(n, b) [b] = #n,
        MR_FEATURES(MR_X)
#undef MR_X
    };

    return bit < 64 && name[bit] ? name[bit] : "?";
}

void
mr_feature_info(uint64_t features, const char *const variant[2],
                struct mr_port_info *info)
{
    info->features = features;
    if (!features)
        return;
    info->header = mr_net_header_bytes(features);
#define MR_X(field, NAME) info->field = !!(features & MR_F(NAME));
    MR_FEATURE_OPTIONS(MR_X)
#undef MR_X
    for (int d = 0; d < 2; d++)
        if (variant[d])
            snprintf(info->variant[d], sizeof(info->variant[d]), "%s",
                     variant[d]);
}
