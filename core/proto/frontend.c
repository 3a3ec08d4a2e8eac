#include "proto/frontend.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

struct step {
    enum mr_request request;
    bool per_ring;
    bool effect; /* the data path relies on it: wait for its effect */
    bool (*applies)(const struct mr_frontend *fe); /* NULL = always */
    int (*fill)(struct mr_frontend *fe, struct mr_frontend_out *out);
    int (*answer)(struct mr_frontend *fe, const struct mr_message *msg);
};

/* ---- What steps are for ----------------------------------------------- */

static bool
has_protocol(const struct mr_frontend *fe)
{
    return fe->offered & MR_F(PROTOCOL_FEATURES); /* V12 */
}

static bool
has_queue_num(const struct mr_frontend *fe)
{
    return fe->virtio->protocol_features & MR_P(MQ); /* V13 */
}

static bool
enables_rings(const struct mr_frontend *fe)
{
    return fe->virtio->features & MR_F(PROTOCOL_FEATURES); /* V50 */
}

/* ---- What steps say --------------------------------------------------- */

static int
fill_features(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    out->msg.payload.u64 = fe->virtio->features;
    return 0;
}

static int
fill_protocol_features(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    out->msg.payload.u64 = fe->virtio->protocol_features;
    return 0;
}

static int
fill_memory(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    struct mr_memory_table *table = &out->msg.payload.table;

    table->n = 1;
    mr_virtio_region(fe->virtio, &table->region[0], &out->fds[0]);
    out->nfds = 1;
    return 0;
}

static void
state_set(const struct mr_frontend *fe, struct mr_frontend_out *out,
          uint32_t num)
{
    out->msg.payload.state.index = fe->ring;
    out->msg.payload.state.num = num;
}

static void
fd_set_word(const struct mr_frontend *fe, struct mr_frontend_out *out, int fd)
{
    out->msg.payload.u64 = fe->ring;
    out->fds[0] = fd;
    out->nfds = 1;
}

/* The first message about a ring: it gets ready here, as features and number
 * of rings are known from now on. */
static int
fill_call(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    int rc = mr_virtio_ring_prepare(fe->virtio, fe->ring);

    if (rc)
        return rc;
    fe->prepared = fe->ring + 1;
    fd_set_word(fe, out, fe->virtio->parts[fe->ring].call_fd);
    return 0;
}

static int
fill_num(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    state_set(fe, out, fe->virtio->size);
    return 0;
}

static int
fill_base(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    state_set(fe, out, mr_virtio_ring_base(fe->virtio));
    return 0;
}

static int
fill_addr(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    struct mr_vring_addr *addr = &out->msg.payload.addr;

    addr->index = fe->ring;
    addr->desc = mr_virtio_ring_part(fe->virtio, fe->ring, 0);
    addr->avail = mr_virtio_ring_part(fe->virtio, fe->ring, 1);
    addr->used = mr_virtio_ring_part(fe->virtio, fe->ring, 2);
    return 0;
}

static int
fill_kick(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    fd_set_word(fe, out, fe->virtio->parts[fe->ring].kick_fd);
    return 0;
}

static int
fill_on(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    state_set(fe, out, 1);
    return 0;
}

static int
fill_off(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    state_set(fe, out, 0);
    return 0;
}

/* ---- What answers mean ------------------------------------------------ */

/* A peer without multiqueue serves one pair, whatever else it says. */
static void
pairs_choose(struct mr_frontend *fe, uint64_t most)
{
    struct mr_virtio *v = fe->virtio;

    v->active = (uint32_t)MR_MIN(most, (uint64_t)v->port.pairs);
    if (v->active < v->port.pairs)
        mr_log_limited(&v->port.limit, MR_LOG_WARN, "%s: the peer serves %u "
                       "of %u queue pairs: the others stay down",
                       v->port.name, v->active, v->port.pairs);
}

static int
take_features(struct mr_frontend *fe, const struct mr_message *msg)
{
    int rc;

    fe->offered = msg->payload.u64;
    rc = mr_virtio_negotiate(fe->virtio, fe->offered);
    if (rc || has_protocol(fe))
        return rc;
    pairs_choose(fe, 1);
    return 0;
}

static int
take_protocol_features(struct mr_frontend *fe, const struct mr_message *msg)
{
    fe->virtio->protocol_features = msg->payload.u64 & MR_PROTOCOL_OURS;
    if (!has_queue_num(fe))
        pairs_choose(fe, 1);
    return 0;
}

/* V21: pairs, in practice. */
static int
take_queue_num(struct mr_frontend *fe, const struct mr_message *msg)
{
    bool many = fe->virtio->features & MR_F(MQ);

    if (!msg->payload.u64)
        return mr_error_set(-EPROTO, "the peer has no queue at all (V21)");
    pairs_choose(fe, many ? msg->payload.u64 : 1);
    return 0;
}

static int
take_base(struct mr_frontend *fe, const struct mr_message *msg)
{
    if (msg->payload.state.index != fe->ring)
        return mr_error_set(-EPROTO, "GET_VRING_BASE of ring %u answered for "
                            "ring %u (V3)", fe->ring,
                            msg->payload.state.index);
    return 0;
}

/* ---- The lists -------------------------------------------------------- */

static const struct step setup_steps[] = {
    {MR_REQ_SET_OWNER, false, false, NULL, NULL, NULL},
    {MR_REQ_GET_FEATURES, false, false, NULL, NULL, take_features},
    {MR_REQ_GET_PROTOCOL_FEATURES, false, false, has_protocol, NULL,
     take_protocol_features},
    {MR_REQ_SET_PROTOCOL_FEATURES, false, false, has_protocol,
     fill_protocol_features, NULL},
    {MR_REQ_GET_QUEUE_NUM, false, false, has_queue_num, NULL, take_queue_num},
    {MR_REQ_SET_VRING_CALL, true, false, NULL, fill_call, NULL},
    {MR_REQ_SET_FEATURES, false, true, NULL, fill_features, NULL},
    {MR_REQ_SET_MEM_TABLE, false, true, NULL, fill_memory, NULL},
    {MR_REQ_SET_VRING_NUM, true, false, NULL, fill_num, NULL},
    {MR_REQ_SET_VRING_BASE, true, false, NULL, fill_base, NULL},
    {MR_REQ_SET_VRING_ADDR, true, false, NULL, fill_addr, NULL},
    {MR_REQ_SET_VRING_KICK, true, false, NULL, fill_kick, NULL},
    {MR_REQ_SET_VRING_ENABLE, true, true, enables_rings, fill_on, NULL},
    {0},
};

static const struct step stop_steps[] = {
    {MR_REQ_SET_VRING_ENABLE, true, false, enables_rings, fill_off, NULL},
    {MR_REQ_GET_VRING_BASE, true, false, NULL, fill_off, take_base},
    {0},
};

static const struct step *
step_of(const struct mr_frontend *fe)
{
    return &(fe->state == MR_FRONTEND_SETUP ? setup_steps
                                            : stop_steps)[fe->step];
}

static bool
in_steps(const struct mr_frontend *fe)
{
    return fe->state == MR_FRONTEND_SETUP || fe->state == MR_FRONTEND_STOPPING;
}

/* ---- The machine ------------------------------------------------------ */

void
mr_frontend_init(struct mr_frontend *fe, struct mr_virtio *virtio)
{
    *fe = (struct mr_frontend){.virtio = virtio};
}

static void
deadline_set(struct mr_frontend *fe, uint64_t now, uint32_t ms)
{
    fe->deadline = now + ms * 1000000ull;
}

void
mr_frontend_connected(struct mr_frontend *fe, uint64_t now)
{
    struct mr_virtio *v = fe->virtio;

    mr_frontend_init(fe, v);
    fe->state = MR_FRONTEND_SETUP;
    deadline_set(fe, now, MR_FRONTEND_ANSWER_MS);
    v->active = v->port.pairs;
    v->connected = true;
    v->connects++;
}

/* To the next ring of the step, or the next step. */
static void
step_next(struct mr_frontend *fe)
{
    if (step_of(fe)->per_ring && ++fe->ring < 2 * fe->virtio->active)
        return;
    fe->ring = 0;
    fe->step++;
}

static int
rings_close(struct mr_frontend *fe)
{
    for (uint32_t r = 0; r < fe->prepared; r++) {
        int rc = mr_virtio_ring_close(fe->virtio, r);

        if (rc)
            return rc;
    }
    return 0;
}

static void
steps_done(struct mr_frontend *fe)
{
    if (fe->state == MR_FRONTEND_STOPPING) {
        fe->state = MR_FRONTEND_STOPPED;
        return;
    }
    fe->state = MR_FRONTEND_UP;
    for (uint32_t r = 0; r < fe->prepared; r++)
        mr_virtio_ring_open(fe->virtio, r);
}

static uint32_t
payload_bytes(enum mr_payload payload)
{
    static const uint32_t least[] = {
#define MR_X(name, min, max) min,
        MR_PAYLOADS(MR_X)
#undef MR_X
    };

    if (payload == MR_PAYLOAD_TABLE) /* ours has one region (V19) */
        return least[payload] + sizeof(struct mr_region_spec);
    return least[payload];
}

static void
answer_await(struct mr_frontend *fe, uint32_t request, bool ack)
{
    fe->request = request;
    fe->ack = ack;
}

static int
step_send(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    const struct step *step = step_of(fe);
    const struct mr_message_row *row = mr_message_row(step->request);
    bool ack = step->effect && row->reply == MR_PAYLOAD_NONE;
    int rc = 0;

    fe->sync = ack && !(fe->virtio->protocol_features & MR_P(REPLY_ACK));
    ack = ack && !fe->sync;
    mr_message_request(&out->msg, step->request,
                       ack ? MR_MESSAGE_NEED_REPLY : 0,
                       payload_bytes(row->payload));
    out->nfds = 0;
    if (step->fill)
        rc = step->fill(fe, out);
    if (rc)
        return rc;
    if (ack || row->reply != MR_PAYLOAD_NONE)
        answer_await(fe, step->request, ack);
    else if (!fe->sync)
        step_next(fe);
    return 1;
}

/* V23: a request that every peer answers, in order, in every state. */
static int
sync_send(struct mr_frontend *fe, struct mr_frontend_out *out)
{
    mr_message_request(&out->msg, MR_REQ_GET_FEATURES, 0, 0);
    out->nfds = 0;
    answer_await(fe, MR_REQ_GET_FEATURES, false);
    return 1;
}

int
mr_frontend_next(struct mr_frontend *fe, uint64_t now,
                 struct mr_frontend_out *out)
{
    int rc;

    if (!in_steps(fe) || fe->request)
        return 0;
    if (fe->state == MR_FRONTEND_SETUP)
        deadline_set(fe, now, MR_FRONTEND_ANSWER_MS);
    else if ((rc = rings_close(fe)))
        return rc;
    if (fe->sync)
        return sync_send(fe, out);
    while (step_of(fe)->request && step_of(fe)->applies &&
           !step_of(fe)->applies(fe))
        fe->step++;
    if (step_of(fe)->request)
        return step_send(fe, out);
    steps_done(fe);
    return 0;
}

int
mr_frontend_receive(struct mr_frontend *fe, const struct mr_message *msg,
                    uint32_t nfds)
{
    const struct step *step;
    int rc;

    if (!fe->request)
        return mr_error_set(-EPROTO, "an answer to request %u that nobody "
                            "asked for (V3)", msg->request);
    rc = mr_message_check_reply(msg, nfds, fe->request, fe->ack);
    if (rc)
        return rc;
    step = step_of(fe);
    if (fe->ack && msg->payload.u64) /* V32 */
        return mr_error_set(-EPROTO, "the peer refuses %s: its log tells why",
                            mr_message_name(step->request));
    fe->request = 0;
    if (!fe->sync && step->answer)
        rc = step->answer(fe, msg);
    fe->sync = false;
    if (!rc)
        step_next(fe);
    return rc;
}

int
mr_frontend_tick(const struct mr_frontend *fe, uint64_t now)
{
    if (!in_steps(fe) || now < fe->deadline)
        return 0;
    if (!fe->request)
        return mr_error_set(-ETIMEDOUT, "the peer takes no messages, or a "
                            "burst does not end");
    return mr_error_set(-ETIMEDOUT, "no answer to %s: is the peer stopped or "
                        "overloaded?", mr_message_name(fe->request));
}

void
mr_frontend_stop(struct mr_frontend *fe, uint64_t now)
{
    if (fe->state != MR_FRONTEND_UP) {
        fe->state = MR_FRONTEND_STOPPED;
        return;
    }
    fe->state = MR_FRONTEND_STOPPING;
    fe->step = fe->ring = 0;
    deadline_set(fe, now, MR_FRONTEND_STOP_MS);
}

int
mr_frontend_disconnected(struct mr_frontend *fe)
{
    struct mr_virtio *v = fe->virtio;
    int rc = rings_close(fe);

    if (rc)
        return rc;
    for (uint32_t r = 0; r < fe->prepared; r++)
        mr_virtio_ring_release(v, r);
    v->features = v->protocol_features = 0;
    v->active = 0;
    v->connected = false;
    mr_frontend_init(fe, v);
    return 0;
}
