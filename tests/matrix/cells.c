/* The lists that the matrix multiplies. To test one more shape, size or count,
 * add a row. */
#include "matrix/matrix.h"

enum {
    DEVICE = SHAPE_DEVICE,
    DRIVER = SHAPE_DRIVER,
    BOTH = SHAPE_DEVICE | SHAPE_DRIVER,
    INDIRECT = SHAPE_INDIRECT,
    BIG = 65535,
};

#define CUT(name) {PEER_CUT_##name, PEER_CHAIN}
#define TABLE(name) {PEER_CUT_##name, PEER_TABLE}
#define TAIL(name) {PEER_CUT_##name, PEER_TAIL_TABLE}

static const struct shape shapes[] = {
    {"plain", BOTH | SHAPE_LARGE, CUT(whole), 0, 1514},
    {"jumbo", DEVICE, CUT(whole), 0, BIG},
    {"chains", BOTH, CUT(chain), 0, BIG},
    {"short-chains", DRIVER | SHAPE_LARGE, CUT(chain), 64, 1514},
    {"random-chains", DEVICE | SHAPE_LARGE, CUT(random), 0, 9000},
    {"indirect", BOTH | INDIRECT, TABLE(chain), 0, BIG},
    {"short-indirect", DRIVER | INDIRECT, TABLE(chain), 64, 1514},
    {"random-indirect", DEVICE | INDIRECT, TABLE(random), 0, 9000},
    {"tail-table", DEVICE | INDIRECT | SHAPE_SPLIT, TAIL(random), 0, 9000},
    {"mixed", DEVICE | INDIRECT | SHAPE_MIXED, CUT(random), 0, 9000},
    {"header-alone", DEVICE, CUT(header), 0, 1514},
    {"header-few", DEVICE, CUT(few), 0, 1514},
    {"header-straddle", DEVICE, CUT(straddle), 0, 1514},
    {"header-bytes", DEVICE, CUT(bytes), 0, 1514},
    {"header-bytes-indirect", DEVICE | INDIRECT, TABLE(bytes), 0, 1514},
    {"empty-parts", DEVICE, CUT(empty), 0, 1514},
    {"crossing", DEVICE | SHAPE_CROSSING, CUT(whole), 0, 9000},
    {"crossing-chains", DEVICE | SHAPE_CROSSING, CUT(random), 0, 9000},
    {"crossing-indirect", DEVICE | INDIRECT | SHAPE_CROSSING, TABLE(random), 0,
     9000},
    {"spans", BOTH | SHAPE_SPANS, CUT(whole), 64, 9000},
    {"spans-chains", DEVICE | SHAPE_SPANS, CUT(header), 0, 9000},
    {"spans-crossing", DEVICE | SHAPE_SPANS | SHAPE_CROSSING, CUT(few), 0,
     1514},
    {"shuffled", BOTH | SHAPE_SHUFFLE, CUT(random), 0, 1514},
    {"shuffled-spans", BOTH | SHAPE_SHUFFLE | SHAPE_SPANS, CUT(random), 64,
     1514},
    {"batch", DRIVER | SHAPE_BATCH | SHAPE_LARGE, CUT(whole), 0, 2048},
    {"batch-chains", DRIVER | SHAPE_BATCH, CUT(whole), 64, 1514},
    {"legacy", BOTH | SHAPE_LEGACY, CUT(random), 0, 9000},
    {"legacy-indirect", BOTH | INDIRECT | SHAPE_LEGACY, TABLE(header), 0,
     9000},
    {"any-layout", BOTH | SHAPE_LEGACY | SHAPE_ANY_LAYOUT, CUT(random), 0,
     1514},
    {"foreign", DRIVER | SHAPE_FOREIGN, CUT(whole), 512, 9000},
    {"foreign-indirect", DRIVER | INDIRECT | SHAPE_FOREIGN, CUT(whole), 512,
     9000},
    {"partial", BOTH | SHAPE_PARTIAL, CUT(header), 0, 1514},
    {"partial-spans", BOTH | SHAPE_PARTIAL | SHAPE_SPANS, CUT(header), 64,
     1514},
};

static const uint32_t split_sizes[] = {1, 2, 4, 256, 1024, 32768};
static const uint32_t packed_sizes[] = {1, 3, 5, 256, 1000, 32768};
static const uint32_t counts[] = {1, 3, 32, 255};

/* Ways to be notified; cells take them in turn. */
static const struct {
    enum peer_notify notify;
    bool event_idx;
    const char *name;
} wakes[] = {
    {PEER_QUIET, false, "quiet"},
    {PEER_LOUD, false, "loud"},
    {PEER_EVENT, true, "event"},
    {PEER_QUIET, true, "event-quiet"},
    {PEER_LOUD, true, "event-loud"},
};

/* Does the combination exist? Each line says why not. */
static bool
exists(const struct cell *c)
{
    uint32_t f = c->shape->flags;
    bool to_driver = c->driver == c->rx;
    bool own_header = (f & SHAPE_LEGACY) && !(f & SHAPE_ANY_LAYOUT);

    if (!(f & (c->driver ? SHAPE_DRIVER : SHAPE_DEVICE)))
        return false;
    if (c->packed && (f & (SHAPE_LEGACY | SHAPE_SPLIT)))
        return false; /* packed rings are modern; no table ends a chain, P29 */
    if ((f & SHAPE_SPANS) && !(to_driver && c->mergeable))
        return false; /* N36 */
    if ((f & SHAPE_TO_DRIVER) && !to_driver)
        return false;
    if ((f & SHAPE_SHUFFLE) && c->in_order && (c->driver || !c->packed))
        return false; /* C19, S38 */
    if ((f & SHAPE_BATCH) && !c->in_order)
        return false; /* S40 */
    if ((f & SHAPE_FOREIGN) && c->rx)
        return false;
    if (c->spliced && (c->driver || c->size == 32768))
        return false;
    if (c->size == 1 && own_header && (c->driver || !(f & INDIRECT)))
        return false; /* N19: two descriptors */
    return true;
}

/* Cells that take long, as their rings wrap late, and have smaller sisters. */
static bool
is_long(const struct cell *c)
{
    return (c->size == 32768 &&
            (!(c->shape->flags & SHAPE_LARGE) || c->count < 32)) ||
           (c->size >= 1000 && c->count == 3);
}

struct walk {
    void (*fn)(const struct cell *cell, void *arg);
    void *arg;
    bool all;
    uint32_t turn;
};

static void
visit(struct walk *w, struct cell *c)
{
    for (uint32_t i = 0; i < MR_COUNT_OF(counts); i++) {
        uint32_t wake = w->turn % MR_COUNT_OF(wakes);

        c->count = counts[i];
        if (!exists(c) || (!w->all && is_long(c)))
            continue;
        c->notify = wakes[wake].notify;
        c->event_idx = wakes[wake].event_idx;
        w->turn++;
        w->fn(c, w->arg);
    }
}

void
cells_each(void (*fn)(const struct cell *cell, void *arg), void *arg, bool all)
{
    struct walk w = {fn, arg, all, 0};

    for (uint32_t bits = 0; bits < 64; bits++)
        for (uint32_t s = 0; s < MR_COUNT_OF(shapes); s++)
            for (uint32_t i = 0; i < MR_COUNT_OF(split_sizes); i++) {
                struct cell c = {
                    .shape = &shapes[s],
                    .packed = bits & 32,
                    .driver = bits & 16,
                    .rx = bits & 8,
                    .mergeable = bits & 4,
                    .in_order = bits & 2,
                    .platform = bits & 1,
                    .size = bits & 32 ? packed_sizes[i] : split_sizes[i],
                };

                visit(&w, &c);
                c.spliced = true;
                visit(&w, &c);
            }
}

void
cell_name(const struct cell *c, char *out, size_t size)
{
    const char *wake = "";

    for (uint32_t i = 0; i < MR_COUNT_OF(wakes); i++)
        if (wakes[i].notify == c->notify && wakes[i].event_idx == c->event_idx)
            wake = wakes[i].name;
    snprintf(out, size, "%s%s%s%s %s %s%s, size %u, %u a burst, %s, %s",
             c->packed ? "packed" : "split", c->mergeable ? "-mrg" : "",
             c->in_order ? "-inorder" : "", c->platform ? "-platform" : "",
             c->driver ? "driver" : "device", c->rx ? "rx" : "tx",
             c->spliced ? " spliced" : "", c->size,
             c->count, c->shape->name, wake);
}
