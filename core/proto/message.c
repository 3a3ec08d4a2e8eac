#include "proto/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const struct {
    uint32_t min;
    uint32_t max;
} payload_size[] = {
#define MR_X(name, min, max) [MR_PAYLOAD_##name] = {min, max},
    MR_PAYLOADS(MR_X)
#undef MR_X
};

static const struct mr_message_row rows[] = {
#define MR_X(number, NAME, name, payload, fds_min, fds_max, reply, offered,    \
             agreed, protocol)                                                 \
    [number] = {#NAME, MR_PAYLOAD_##payload, fds_min, fds_max,                 \
                MR_PAYLOAD_##reply, offered, agreed, protocol},
    MR_MESSAGES(MR_X)
#undef MR_X
};

static_assert(MR_COUNT_OF(rows) == MR_REQUEST_MAX + 1, "list of requests");

const struct mr_message_row *
mr_message_row(uint32_t request)
{
    if (request > MR_REQUEST_MAX || !rows[request].name)
        return NULL;
    return &rows[request];
}

const char *
mr_message_name(uint32_t request)
{
    static _Thread_local char number[24];
    const struct mr_message_row *row = mr_message_row(request);

    if (row)
        return row->name;
    snprintf(number, sizeof(number), "request %u", request);
    return number;
}

/* V111, V112, V19. */
static int
size_check(enum mr_payload payload, const struct mr_message *msg)
{
    uint32_t min = payload_size[payload].min;
    uint32_t max = payload_size[payload].max;

    if (msg->size < min)
        return mr_error_set(-EINVAL, "payload of %u bytes, expected %u (V111)",
                            msg->size, min);
    if (msg->size > max)
        return mr_error_set(-EINVAL, "payload of %u bytes, expected %u (V112)",
                            msg->size, max);
    return 0;
}

/* V128, V19: compared before the number is used in a product. */
static int
table_check(const struct mr_message *msg, uint32_t nfds)
{
    uint32_t n = msg->payload.table.n;

    if (n > MR_MEMORY_REGIONS)
        return mr_error_set(-EINVAL, "%u memory regions, at most %u (V128)", n,
                            MR_MEMORY_REGIONS);
    if (msg->size < 8 + n * sizeof(struct mr_region_spec))
        return mr_error_set(-EINVAL, "payload of %u bytes for %u memory "
                            "regions (V19)", msg->size, n);
    if (nfds != n)
        return mr_error_set(-EINVAL, "%u memory regions with %u fds (V128)", n,
                            nfds);
    return 0;
}

/* V117. Bits 9-63 carry nothing; a word that has some set was not meant for
 * this field (a ring index beyond 255, for one). */
static int
fd_word_check(const struct mr_message *msg, uint32_t nfds)
{
    uint64_t word = msg->payload.u64;

    if (word & ~(uint64_t)(MR_FD_WORD_INDEX | MR_FD_WORD_NONE))
        return mr_error_set(-EINVAL, "ring %#llx does not fit its 8 bits "
                            "(V120)", (unsigned long long)word);
    if (!(word & MR_FD_WORD_NONE) != (nfds == 1))
        return mr_error_set(-EINVAL, "%u fds, but bit 8 says %s (V117)", nfds,
                            word & MR_FD_WORD_NONE ? "none" : "one");
    return 0;
}

int
mr_message_check(const struct mr_message_row *row,
                 const struct mr_message *msg, uint32_t nfds)
{
    int rc = size_check(row->payload, msg);

    if (rc)
        return rc;
    if (nfds < row->fds_min)
        return mr_error_set(-EINVAL, "%u fds, expected %u (V116)", nfds,
                            row->fds_min);
    if (nfds > row->fds_max)
        return mr_error_set(-EINVAL, "%u fds, expected %u (%s)", nfds,
                            row->fds_max, row->fds_max ? "V118" : "V115");
    if (row->payload == MR_PAYLOAD_TABLE)
        return table_check(msg, nfds);
    if (row->payload == MR_PAYLOAD_FD_WORD)
        return fd_word_check(msg, nfds);
    return 0;
}

int
mr_message_check_reply(const struct mr_message *msg, uint32_t nfds,
                       uint32_t request, bool ack)
{
    const struct mr_message_row *row = mr_message_row(request);
    enum mr_payload payload = MR_PAYLOAD_U64;

    if (msg->request != request)
        return mr_error_set(-EPROTO, "reply to request %u while waiting for "
                            "%s (V3)", msg->request, mr_message_name(request));
    if (row && !ack)
        payload = row->reply;
    if (size_check(payload, msg))
        return mr_error_set(-EPROTO, "reply to %s: %s",
                            mr_message_name(request), mr_error_text());
    if (nfds)
        return mr_error_set(-EPROTO, "reply to %s carries %u fds",
                            mr_message_name(request), nfds);
    return 0;
}

static void
message_begin(struct mr_message *msg, uint32_t request, uint32_t flags,
              uint32_t size)
{
    assert(size <= MR_PAYLOAD_MAX);
    msg->request = request;
    msg->flags = MR_MESSAGE_VERSION | flags;
    msg->size = size;
    memset(&msg->payload, 0, size);
}

void
mr_message_request(struct mr_message *msg, enum mr_request request,
                   uint32_t flags, uint32_t size)
{
    message_begin(msg, request, flags, size);
}

void
mr_message_reply(struct mr_message *msg, uint32_t request, uint32_t size)
{
    message_begin(msg, request, MR_MESSAGE_REPLY, size);
}
