#include "proto/frame.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/foreign.h"

void
mr_frame_init(struct mr_frame *frame, bool replies)
{
    memset(frame, 0, sizeof(*frame));
    frame->replies = replies;
}

static void
fds_close(const int *fds, uint32_t nfds)
{
    for (uint32_t i = 0; i < nfds; i++)
        mr_foreign_close(fds[i]);
}

void
mr_frame_fini(struct mr_frame *frame)
{
    fds_close(frame->fds, frame->nfds);
    frame->nfds = 0;
    frame->have = 0;
}

void
mr_frame_next(struct mr_frame *frame)
{
    mr_frame_fini(frame);
    memset(&frame->msg, 0, sizeof(frame->msg)); /* V6 */
}

bool
mr_frame_idle(const struct mr_frame *frame)
{
    return !frame->have;
}

void *
mr_frame_want(struct mr_frame *frame, size_t *len)
{
    uint32_t end = frame->have < MR_MESSAGE_HEADER
                       ? MR_MESSAGE_HEADER
                       : mr_message_bytes(&frame->msg);

    *len = end - frame->have;
    return (uint8_t *)&frame->msg.request + frame->have;
}

/* V107, V108, V110, V2: a stream that fails here cannot be followed. Unknown
 * flag bits are ignored (V109). */
static int
header_check(const struct mr_frame *frame)
{
    const struct mr_message *msg = &frame->msg;
    bool reply = msg->flags & MR_MESSAGE_REPLY;

    if ((msg->flags & MR_MESSAGE_VERSION_MASK) != MR_MESSAGE_VERSION)
        return mr_error_set(-EPROTO, "%s: flags %#x say version %u (V107)",
                            mr_message_name(msg->request), msg->flags,
                            msg->flags & MR_MESSAGE_VERSION_MASK);
    if (reply != frame->replies)
        return mr_error_set(-EPROTO, "%s: flags %#x, expected a %s (V108)",
                            mr_message_name(msg->request), msg->flags,
                            frame->replies ? "reply" : "request");
    if (reply && msg->flags & MR_MESSAGE_NEED_REPLY)
        return mr_error_set(-EPROTO, "%s: a reply that asks for a reply (V2)",
                            mr_message_name(msg->request));
    if (msg->size > MR_PAYLOAD_MAX)
        return mr_error_set(-EPROTO, "%s: payload of %u bytes (V110)",
                            mr_message_name(msg->request), msg->size);
    return 0;
}

int
mr_frame_take(struct mr_frame *frame, size_t got, const int *fds,
              uint32_t nfds, bool truncated)
{
    bool first = !frame->have;

    if (truncated || nfds > MR_MESSAGE_FDS || (nfds && !first)) {
        fds_close(fds, nfds);
        if (first || truncated)
            return mr_error_set(-EPROTO, "more than %u fds (V106)",
                                MR_MESSAGE_FDS);
        return mr_error_set(-EPROTO, "fds in the middle of a message (V119)");
    }
    for (uint32_t i = 0; i < nfds; i++)
        frame->fds[frame->nfds++] = fds[i];
    frame->have += (uint32_t)got;
    if (frame->have < MR_MESSAGE_HEADER)
        return 0;
    if (frame->have - got < MR_MESSAGE_HEADER) {
        int rc = header_check(frame);

        if (rc)
            return rc;
    }
    return frame->have == mr_message_bytes(&frame->msg);
}

int
mr_frame_fd(struct mr_frame *frame, uint32_t i)
{
    int fd = -1;

    if (i < frame->nfds) {
        fd = frame->fds[i];
        frame->fds[i] = -1;
    }
    return fd;
}
