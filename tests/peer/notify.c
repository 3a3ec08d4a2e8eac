/* Who must be woken, told the long way: an event is due when the publication
 * walks over the position that was named (S31, P38). */
#include "peer/peer.h"

static bool
event_idx(const struct peer *p)
{
    return p->features >> MR_F_EVENT_IDX & 1;
}

/* The words that we write: S29, S30, S32. */
static void
set_split(struct peer *p)
{
    struct mr_split_avail *avail = p->part[1];
    struct mr_split_used *used = p->part[2];
    uint16_t *flags = p->driver ? &avail->flags : &used->flags;
    uint16_t *event = p->driver ? &avail->ring[p->size]
                                : (uint16_t *)(void *)&used->ring[p->size];
    uint16_t quiet = p->notify == PEER_QUIET && !event_idx(p);

    if (event_idx(p))
        __atomic_store_n(event, p->event.pos, __ATOMIC_RELAXED);
    __atomic_store_n(flags, quiet, __ATOMIC_RELAXED);
}

/* P35, P39. */
static void
set_packed(struct peer *p)
{
    static const uint16_t flags[PEER_NOTIFY_COUNT] = {
        [PEER_QUIET] = MR_EVENT_DISABLE,
        [PEER_LOUD] = MR_EVENT_ENABLE,
        [PEER_EVENT] = MR_EVENT_DESC,
    };
    struct mr_packed_event *e = p->part[p->driver ? 1 : 2];

    __atomic_store_n(&e->offset,
                     (uint16_t)(p->event.pos | p->event.wrap << 15),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&e->flags, flags[p->notify], __ATOMIC_RELEASE);
}

void
peer_notify_set(struct peer *p, enum peer_notify mode, struct peer_pos from,
                uint32_t ahead)
{
    if (mode == PEER_EVENT && !event_idx(p))
        mode = PEER_LOUD;
    p->notify = mode;
    p->event = from;
    if (mode == PEER_EVENT)
        p->layout->advance(p, &p->event, ahead);
    else if (mode == PEER_QUIET && !p->packed)
        p->event.pos ^= 0x8000; /* S35: half of the index space away */
    if (p->packed)
        set_packed(p);
    else
        set_split(p);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool
same(struct peer_pos a, struct peer_pos b)
{
    return a.pos == b.pos && a.wrap == b.wrap;
}

bool
peer_notify_due(struct peer *p, struct peer_pos old, struct peer_pos new)
{
    bool first = !p->decided;
    bool by_event = !p->packed ? event_idx(p) : p->notify == PEER_EVENT;

    if (same(old, new))
        return false;
    p->decided = true;
    if (!by_event)
        return p->notify != PEER_QUIET;
    if (first)
        return true;
    for (; !same(old, new); p->layout->advance(p, &old, 1))
        if (same(old, p->event))
            return true;
    return false;
}

int
peer_notify_check(struct peer *p)
{
    const struct mr_split_avail *avail = p->part[1];
    const struct mr_split_used *used = p->part[2];
    const struct mr_packed_event *e = p->part[p->driver ? 2 : 1];
    uint16_t flags = p->driver ? used->flags : avail->flags;

    if (p->packed && (e->flags > MR_EVENT_DESC ||
                      (e->flags == MR_EVENT_DESC && !event_idx(p))))
        return peer_fail(p, "P35 P36: event flags %#x", e->flags);
    if (!p->packed && (flags > 1 || (flags && event_idx(p))))
        return peer_fail(p, "S29 S30: suppression flags %#x", flags);
    return 0;
}
