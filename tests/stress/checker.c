/* The checker: reads the driver's receive ring beside the driver. The moment a
 * buffer is used it must hold its packet, all of it: the device publishes
 * nothing before its copies are complete (C8, P20, S16; T60). The driver takes
 * no buffer that was not checked, so none changes under the checker.
 *
 * Owner: the checker's thread. Invariant: it only reads, and knows of the ring
 * what the virtio document says. Every packet fits into one buffer. */
#include <sched.h>

#include "ring/packed.h"
#include "stress/run.h"
#include "stress/stamp.h"

struct view {
    const struct mr_ring *ring; /* only what never changes: addresses, size */
    struct mr_pos at;           /* next used entry */
};

/* The buffer behind the next used entry and its used length. */
static bool
split_next(struct view *v, uint64_t *addr, uint32_t *len)
{
    const struct mr_split_used *used = v->ring->used.split;
    uint32_t slot = v->at.pos & (v->ring->size - 1u);
    uint32_t id;

    if (mr_load_acquire(&used->idx) == v->at.pos)
        return false;
    id = mr_load(&used->ring[slot].id);
    *len = mr_load(&used->ring[slot].len);
    *addr = mr_load(&v->ring->desc.split[id].addr);
    v->at.pos++;
    return true;
}

static bool
packed_next(struct view *v, uint64_t *addr, uint32_t *len)
{
    const struct mr_packed_desc *d = &v->ring->desc.packed[v->at.pos];

    if (!mr_packed_is_used(mr_load_acquire(&d->flags), v->at.wrap))
        return false;
    *len = mr_load(&d->len);
    *addr = mr_load(&d->addr);
    mr_packed_advance(v->ring, &v->at, 1);
    return true;
}

void *
run_checker(void *arg)
{
    struct run *run = arg;
    bool packed = run->setup.features & MR_F(RING_PACKED);
    struct view v = {&run->pair.driver.rx.ring, {0, 1}};
    uint32_t header = v.ring->header;
    uint64_t seq = 0;

    while (seq < run->packets && run_goes_on(run)) {
        uint64_t addr;
        uint32_t len;

        if (!(packed ? packed_next(&v, &addr, &len)
                     : split_next(&v, &addr, &len))) {
            sched_yield();
            continue;
        }
        addr += v.ring->delta + header;
        if (len < header || !stamp_same((const uint8_t *)(uintptr_t)addr,
                                        len - header, seq, run->most_down)) {
            run_fail(run, "packet %llu is not whole where it is used",
                     (unsigned long long)seq);
            break;
        }
        __atomic_store_n(&run->checked, ++seq, __ATOMIC_RELEASE);
    }
    return NULL;
}
