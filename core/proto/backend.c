#include "proto/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "proto/signal.h"

/* A request that is being served: it passed its row of the table, and the ring
 * that it names exists. A handler does all of its work or nothing: -EAGAIN and
 * errors leave fds and state alone. */
struct call {
    struct mr_backend *b;
    struct mr_frame *frame;
    const struct mr_message *msg; /* the frame's */
    uint32_t r;                   /* ring, for requests that name one */
    struct mr_vring *ring;
    struct mr_message *reply;
};

typedef int (*handler_fn)(struct call *c);

/* ---- Device ----------------------------------------------------------- */

static int
reply_u64(struct mr_message *reply, uint64_t value)
{
    mr_message_reply(reply, reply->request, sizeof(value));
    reply->payload.u64 = value;
    return 0;
}

static int
on_get_features(struct call *c)
{
    return reply_u64(c->reply, c->b->vhost->offered);
}

static int
on_set_features(struct call *c)
{
    struct mr_backend *b = c->b;
    uint64_t features = c->msg->payload.u64;
    uint64_t changed = features ^ b->vhost->features;
    int rc = mr_vhost_features_check(b->vhost, features);

    if (!rc && changed && mr_vrings_running(b->rings))
        rc = mr_error_set(-EBUSY, "feature bits %#llx change while rings run "
                          "(V132)", (unsigned long long)changed);
    if (rc)
        return rc;
    b->vhost->features = features;
    b->agreed = true;
    if (!(features & MR_F(PROTOCOL_FEATURES))) /* V50 */
        for (uint32_t r = 0; r < b->rings->n; r++)
            b->rings->ring[r].enabled = true;
    mr_vrings_try(b->rings);
    return 0;
}

/* A claim that nothing depends on: front-ends differ in where they put it. */
static int
on_set_owner(struct call *c)
{
    (void)c;
    return 0;
}

/* Deprecated: of the two readings that the protocol allows, the one after
 * which the peer can rely on its memory being left alone. */
static int
on_reset_owner(struct call *c)
{
    struct mr_vrings *rings = c->b->rings;
    int rc = mr_vrings_stop(rings);

    for (uint32_t r = 0; !rc && r < rings->n; r++) {
        rings->ring[r].enabled = false;
        rings->ring[r].live = false;
        rings->ring[r].broken = MR_FAULT_NONE;
    }
    return rc;
}

static int
on_get_protocol_features(struct call *c)
{
    return reply_u64(c->reply, MR_PROTOCOL_OURS);
}

static int
on_set_protocol_features(struct call *c)
{
    uint64_t features = c->msg->payload.u64;
    uint64_t beyond = features & ~(uint64_t)MR_PROTOCOL_OURS;

    if (beyond)
        return mr_error_set(-EINVAL, "protocol feature bits %#llx were not "
                            "offered (V133)", (unsigned long long)beyond);
    c->b->vhost->protocol_features = features;
    return 0;
}

/* V21: in pairs. */
static int
on_get_queue_num(struct call *c)
{
    return reply_u64(c->reply, c->b->vhost->port.pairs);
}

/* ---- Memory ----------------------------------------------------------- */

/* V63: the new table is complete before the rings are touched; the message may
 * be parked in between. The mappings hold the files, the fds go with the
 * frame. */
static int
on_set_mem_table(struct call *c)
{
    const struct mr_memory_table *table = &c->msg->payload.table;
    struct mr_backend *b = c->b;
    int rc = 0;

    if (!b->pending)
        rc = mr_memory_create(table->region, c->frame->fds, table->n,
                              &b->pending);
    if (!rc)
        rc = mr_vrings_stop(b->rings);
    if (rc)
        return rc;
    mr_vhost_set_memory(b->vhost, b->pending);
    b->pending = NULL;
    for (uint32_t r = 0; r < b->rings->n; r++)
        if (b->rings->ring[r].broken == MR_FAULT_MEMORY_LOST)
            b->rings->ring[r].broken = MR_FAULT_NONE;
    mr_vrings_try(b->rings);
    return 0;
}

/* There is no dirty log, so nobody would ever be told: the fd goes with the
 * frame. */
static int
on_set_log_fd(struct call *c)
{
    (void)c;
    return 0;
}

/* ---- Rings ------------------------------------------------------------ */

static int
live_check(const struct mr_vring *ring, const char *what)
{
    if (ring->live)
        return mr_error_set(-EBUSY, "the %s of a started ring is fixed (V49)",
                            what);
    return 0;
}

/* V121: before it is stored in anything narrower. Before SET_FEATURES the
 * layout is not known; the start looks again (S1, P1). */
static int
on_set_vring_num(struct call *c)
{
    bool split = c->b->agreed && !(c->b->vhost->features & MR_F(RING_PACKED));
    uint32_t num = c->msg->payload.state.num;
    int rc = live_check(c->ring, "size");

    if (rc)
        return rc;
    if (!num || num > MR_RING_MAX || (split && num & (num - 1)))
        return mr_error_set(-EINVAL, "ring size %u: 1..%u%s (V121)", num,
                            MR_RING_MAX, split ? ", a power of two" : "");
    c->ring->setup.size = num;
    mr_vring_try(c->b->rings, c->r);
    return 0;
}

/* V124. */
static int
alignment_check(const struct mr_vhost *vhost, const struct mr_vring_addr *a)
{
    unsigned avail = vhost->features & MR_F(RING_PACKED) ? 4 : 2;

    if (a->desc % 16 || a->avail % avail || a->used % 4)
        return mr_error_set(-EINVAL, "ring parts at %#llx, %#llx, %#llx are "
                            "not aligned to 16, %u, 4 (V124)",
                            (unsigned long long)a->desc,
                            (unsigned long long)a->avail,
                            (unsigned long long)a->used, avail);
    return 0;
}

/* On a running ring the log flag may change without a stop (V48). */
static int
on_set_vring_addr(struct call *c)
{
    const struct mr_vring_addr *a = &c->msg->payload.addr;
    uint64_t part[3] = {a->desc, a->avail, a->used};
    int rc;

    if (!c->b->vhost->memory)
        return mr_error_set(-EINVAL, "ring addresses before any memory (V127)");
    rc = alignment_check(c->b->vhost, a);
    if (!rc && memcmp(c->ring->setup.part, part, sizeof(part)))
        rc = mr_vring_stop(c->b->rings, c->r);
    if (rc)
        return rc;
    memcpy(c->ring->setup.part, part, sizeof(part));
    c->ring->addressed = true;
    mr_vring_try(c->b->rings, c->r);
    return 0;
}

/* Which positions the number holds depends on the layout: virtqueues 5. */
static int
on_set_vring_base(struct call *c)
{
    int rc = live_check(c->ring, "base");

    if (rc)
        return rc;
    c->ring->setup.base = c->msg->payload.state.num;
    c->ring->based = true;
    mr_vring_try(c->b->rings, c->r);
    return 0;
}

/* V56: the ring is out of the data path before it is described. It keeps its
 * setup; a new kick message starts it again. */
static int
on_get_vring_base(struct call *c)
{
    int rc = mr_vring_stop(c->b->rings, c->r);

    if (rc)
        return rc;
    c->ring->kicked = c->ring->live = false;
    c->ring->broken = MR_FAULT_NONE;
    mr_signal_replace(&c->ring->kick_fd, -1);
    mr_signal_replace(&c->ring->setup.call_fd, -1);
    mr_message_reply(c->reply, c->msg->request, sizeof(struct mr_vring_state));
    c->reply->payload.state.index = c->r;
    c->reply->payload.state.num = mr_vring_base(c->b->rings, c->r);
    return 0;
}

/* The fd of the message, ready for use, or -1: it has none (V39). It stays the
 * frame's. */
static int
signal_fd(struct call *c)
{
    if (!c->frame->nfds)
        return -1;
    c->frame->fds[0] = mr_signal_adopt(c->frame->fds[0]);
    return c->frame->fds[0];
}

static int
signal_take(struct call *c)
{
    signal_fd(c);
    return mr_frame_fd(c->frame, 0);
}

/* The message itself starts the ring, as the field has it: a driver that
 * expects to be polled never writes the fd. */
static int
on_set_vring_kick(struct call *c)
{
    mr_signal_replace(&c->ring->kick_fd, signal_take(c));
    c->ring->kicked = true;
    mr_vring_try(c->b->rings, c->r);
    return 0;
}

/* V44: may come at any time. The new fd is raised once: what was owed to the
 * old one is not lost. */
static int
on_set_vring_call(struct call *c)
{
    int fd = signal_fd(c);
    int rc = mr_vhost_ring_call(c->b->vhost, c->r, fd);

    if (rc)
        return rc;
    mr_signal_replace(&c->ring->setup.call_fd, mr_frame_fd(c->frame, 0));
    if (c->ring->running)
        mr_signal_raise(fd);
    return 0;
}

static int
on_set_vring_err(struct call *c)
{
    mr_signal_replace(&c->ring->err_fd, signal_take(c));
    return 0;
}

static int
on_set_vring_enable(struct call *c)
{
    uint32_t num = c->msg->payload.state.num;
    int rc = 0;

    if (num > 1)
        return mr_error_set(-EINVAL, "enable is %u: 0 or 1 (V134)", num);
    if (!num)
        rc = mr_vring_stop(c->b->rings, c->r);
    if (rc)
        return rc;
    c->ring->enabled = num;
    mr_vring_try(c->b->rings, c->r);
    return 0;
}

/* ---- Dispatch --------------------------------------------------------- */

static const handler_fn handlers[] = {
#define MR_X(number, NAME, name, ...) [number] = on_##name,
    MR_MESSAGES(MR_X)
#undef MR_X
};

/* V114, V13. */
static int
gate_check(const struct mr_backend *b, const struct mr_message_row *row)
{
    uint64_t agreed = b->agreed ? b->vhost->features : b->vhost->offered;

    if (row->offered & ~b->vhost->offered || row->agreed & ~agreed ||
        row->protocol & ~b->vhost->protocol_features)
        return mr_error_set(-EINVAL, "its feature was not agreed on (V114)");
    return 0;
}

/* V120: unsigned, and all 32 bits of it. */
static int
ring_find(struct call *c, enum mr_payload payload)
{
    struct mr_vrings *rings = c->b->rings;

    switch (payload) {
    case MR_PAYLOAD_STATE: c->r = c->msg->payload.state.index; break;
    case MR_PAYLOAD_ADDR: c->r = c->msg->payload.addr.index; break;
    case MR_PAYLOAD_FD_WORD:
        c->r = c->msg->payload.u64 & MR_FD_WORD_INDEX;
        break;
    default: return 0;
    }
    if (c->r >= rings->n)
        return mr_error_set(-EINVAL, "ring %u, this port has %u (V120)", c->r,
                            rings->n);
    c->ring = &rings->ring[c->r];
    return 0;
}

static int
serve(struct call *c, const struct mr_message_row *row)
{
    int rc;

    if (!row)
        return mr_error_set(-ENOTSUP, "no such request here (V113)");
    rc = mr_message_check(row, c->msg, c->frame->nfds);
    if (!rc)
        rc = gate_check(c->b, row);
    if (!rc)
        rc = ring_find(c, row->payload);
    if (!rc)
        rc = handlers[c->msg->request](c);
    return rc;
}

/* V32-V35: an explicit answer is the only one; else 0 or 1 if it was asked
 * for, whether or not REPLY_ACK was agreed on (V33). */
static int
answer(const struct call *c, const struct mr_message_row *row, int rc)
{
    if (row && row->reply != MR_PAYLOAD_NONE)
        return rc ? rc : 1;
    if (!(c->msg->flags & MR_MESSAGE_NEED_REPLY))
        return rc;
    reply_u64(c->reply, rc != 0);
    return 1;
}

int
mr_backend_input(struct mr_backend *b, struct mr_frame *frame,
                 struct mr_message *reply)
{
    const struct mr_message_row *row = mr_message_row(frame->msg.request);
    const char *name = b->vhost->port.name;
    struct call c = {
        .b = b,
        .frame = frame,
        .msg = &frame->msg,
        .reply = reply,
    };
    int rc;

    reply->request = frame->msg.request;
    rc = serve(&c, row);
    if (rc == -EAGAIN)
        return rc;
    if (rc) {
        mr_error_set(rc, "%s: %s", mr_message_name(frame->msg.request),
                     mr_error_text());
        mr_log_limited(&b->vhost->port.limit, MR_LOG_WARN, "%s: refused %s",
                       name, mr_error_text());
    }
    return answer(&c, row, rc);
}

/* ---- Life ------------------------------------------------------------- */

int
mr_backend_create(struct mr_vhost *vhost, struct mr_backend **out)
{
    struct mr_backend *b = calloc(1, sizeof(*b));

    if (b) {
        b->vhost = vhost;
        b->rings = mr_vrings_create(vhost);
    }
    if (!b || !b->rings) {
        free(b);
        return mr_error_set(-ENOMEM, "%s: no memory for a session",
                            vhost->port.name);
    }
    *out = b;
    return 0;
}

void
mr_backend_destroy(struct mr_backend *b)
{
    if (!b)
        return;
    mr_vrings_destroy(b->rings);
    free(b);
}

void
mr_backend_open(struct mr_backend *b)
{
    b->vhost->connected = true;
    b->vhost->connects++;
}

int
mr_backend_close(struct mr_backend *b)
{
    struct mr_vhost *v = b->vhost;
    int rc = mr_vrings_stop(b->rings);

    if (rc)
        return rc;
    mr_vrings_forget(b->rings);
    mr_memory_destroy(b->pending);
    b->pending = NULL;
    mr_vhost_set_memory(v, NULL);
    v->connected = false;
    v->features = v->protocol_features = 0;
    v->variant[MR_RX] = v->variant[MR_TX] = NULL;
    b->agreed = false;
    return 0;
}

int
mr_backend_tick(struct mr_backend *b)
{
    return mr_vrings_tick(b->rings);
}
