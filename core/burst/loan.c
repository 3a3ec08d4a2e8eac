#include "burst/loan.h"

#include "burst/device.h"
#include "mem/packet_loan.h"

enum {
    HEAD = 192,  /* bytes copied: the longest headers that mem/header.h follows,
                  * which must not change once they are looked at */
    /* Frames that are worth lending. On one core a copy is cheaper up to about
     * 1700 bytes; between two it costs the transfer of their lines, too. */
    LEAST = 1024,
};

static void
repay(struct mr_ring *r, struct mr_progress *p, struct mr_lent *lent,
      unsigned v)
{
    struct mr_list list = {.id = lent->id, .ndesc = 1};

    if (lent->owed && !r->fault)
        mr_device_use(r, &p->run, &list, 0, false, v);
    lent->owed = false;
}

void
mr_device_repay(struct mr_ring *r, bool all)
{
    struct mr_progress p = mr_device_progress(r);
    struct mr_loan *loan = r->loan;
    unsigned v = mr_variant(r);
    struct mr_lent *lent;

    while ((lent = mr_loan_back(loan)))
        repay(r, &p, lent, v);
    for (uint32_t i = 0; all && i < loan->n; i++)
        repay(r, &p, &loan->lent[i], v);
    mr_device_finish(r, &p, false, v);
}

/* A list ahead, and where it ends. */
struct ahead {
    struct mr_pos before;
    struct mr_pos after;
    uint16_t id;
    uint32_t len;
    uint8_t *bytes; /* NULL: to be copied */
};

/* Copies the next descriptor. False: there is none, or only the ordinary
 * function can tell what it is. */
MR_INLINE bool
peek(const struct mr_ring *r, struct ahead *a, struct mr_desc *d, unsigned v)
{
    struct mr_split_view view;
    struct mr_list list;

    if (v & MR_V_PACKED) {
        if (!mr_packed_head((struct mr_ring *)r, &a->after, d, &list,
                            v & MR_V_PLATFORM))
            return false;
        a->id = list.id;
        return true;
    }
    view = mr_split_view(r);
    if (!mr_split_peek(&view, a->after, &a->id, d))
        return false;
    a->after.pos++;
    return true;
}

/* Is the list, which is one descriptor, to be lent? */
static bool
worth(const struct mr_ring *r, struct mr_region *near, const struct mr_desc *d,
      struct ahead *a)
{
    uint8_t *ptr;

    if (d->len < LEAST + (uint32_t)r->header ||
        d->len > MR_FRAME_MAX + (uint32_t)r->header || !mr_loan_room(r->loan))
        return false;
    ptr = mr_device_direct(r, near, d, false);
    if (!ptr || mr_header_asks_offload(ptr))
        return false;
    a->bytes = ptr + r->header;
    a->len = d->len - r->header;
    return true;
}

/* How many of the next n lists go through the ordinary function before there
 * is one to lend; that is then *a. */
static uint32_t
look(const struct mr_ring *r, struct mr_region *near, uint32_t n,
     struct ahead *a, unsigned v)
{
    struct mr_desc d;

    *a = (struct ahead){.after = r->at.avail};
    for (uint32_t i = 0; i < n; i++) {
        a->before = a->after;
        if (!peek(r, a, &d, v))
            return v & MR_V_PACKED ? i : i + 1;
        if (worth(r, near, &d, a))
            return i;
        /* A packed list of several ends nobody knows where. */
        if (v & MR_V_PACKED && d.flags & MR_DESC_NEXT)
            return i + 1;
    }
    return n;
}

/* Is the ring where the look expected it to be? A driver that changes its
 * descriptors meanwhile gets its lists taken in another way. */
static bool
stands_at(const struct mr_ring *r, struct mr_pos at)
{
    return r->at.avail.pos == at.pos && r->at.avail.wrap == at.wrap;
}

/* The packet of a list: its head is a copy. NULL: no packet is left. */
static struct mr_pkt *
lend(struct mr_ring *r, const struct ahead *a)
{
    struct mr_pkt *head;
    struct mr_pkt *tail;

    if (!mr_pkts_alloc(r->pool, &head, 1))
        return NULL;
    tail = mr_loan_lend(r->loan, a->bytes + HEAD, a->len - HEAD, a->id);
    if (!tail) {
        mr_pkt_free(head);
        return NULL;
    }
    memcpy(mr_pkt_data(head), a->bytes, HEAD);
    head->data_len = HEAD;
    head->pkt_len = a->len;
    head->nb_segs = 2;
    head->next = tail;
    r->at.avail = a->after;
    return head;
}

uint32_t
mr_device_lend(void *ring, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_ring *r = ring;
    const unsigned v = mr_variant(r);
    const uint64_t bursts = r->counters->bursts;
    struct mr_region near = r->memory->region[0];
    uint64_t bytes = 0;
    uint32_t lent = 0;
    uint32_t got = 0;
    struct ahead a;

    if (mr_loan_pushed(r->loan))
        mr_device_repay(r, false);
    if (mr_unlikely(r->fault))
        return 0;
    n = mr_device_pending(r, r->at.avail, n, v);
    while (n) {
        uint32_t plain = look(r, &near, n, &a, v);
        uint32_t moved = plain ? r->loan->copy(r, &pkts[got], plain) : 0;

        got += moved;
        n -= plain;
        if (moved < plain || !a.bytes || !stands_at(r, a.before))
            break;
        pkts[got] = lend(r, &a);
        if (!pkts[got]) {
            mr_count(&r->counters->nobuf, 1);
            break;
        }
        bytes += pkts[got++]->pkt_len;
        lent++;
        n--;
    }
    if (lent) {
        mr_counters_moved(r->counters, lent, bytes);
        mr_count(&r->counters->lent, lent);
    }
    if (got)
        mr_store(&r->counters->bursts, bursts + 1);
    return got;
}
