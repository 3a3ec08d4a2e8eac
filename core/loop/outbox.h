/* What a peer's socket had no room for yet: messages in order, each with its
 * fds, sent by sendmsg with the fds on the first byte (V4, V9).
 *
 * Owner: control thread. The outbox keeps copies, of fds as well, so a caller
 * may forget both at once. It is bounded: a peer that does not read costs us
 * at most 1 MiB and 4096 messages. */
#pragma once

#include "base/attr.h"

struct mr_outbox_entry;

/* Zero-initialise. */
struct mr_outbox {
    struct mr_outbox_entry *first;
    struct mr_outbox_entry **last; /* NULL while empty */
    size_t bytes;
    uint32_t entries;
};

MR_INLINE bool
mr_outbox_empty(const struct mr_outbox *out)
{
    return !out->first;
}

/* Sends now what socket `fd` takes and keeps the rest. nfds: 0..8. Errors:
 * ENOBUFS, ENOMEM, EMFILE, what sendmsg(2) says; nothing more can be sent on
 * that connection. */
int mr_outbox_send(struct mr_outbox *out, int fd, const void *bytes,
                   size_t len, const int *fds, uint32_t nfds);
/* Sends more of what is kept; the same errors. */
int mr_outbox_flush(struct mr_outbox *out, int fd);
/* Forgets everything. */
void mr_outbox_clear(struct mr_outbox *out);
