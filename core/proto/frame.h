/* Framing: cuts the byte stream of a vhost-user connection into messages.
 *
 * The frame opens no socket. Its owner asks where the next bytes go and how
 * many (first exactly the header's 12, then exactly the payload's, so that
 * no fd of the next message is ever swallowed, V5), receives them, and tells
 * what came. A complete message stays in the frame until mr_frame_next.
 *
 *   want -> receive -> take -> 0: again
 *                           -> 1: frame->msg and its fds are complete
 *                           -> negative: close the connection
 *
 * Owner: control thread. Invariants: the frame owns every fd it was given
 * until mr_frame_fd hands it over; mr_frame_next and mr_frame_fini close what
 * is left, so each is closed exactly once (V38). Fds may come only with the
 * first byte of a header (V4, V119). */
#pragma once

#include "proto/message.h"

struct mr_frame {
    struct mr_message msg; /* payload zeroed before it is read (V6) */
    uint32_t have;         /* bytes of it that are here */
    uint32_t nfds;
    int fds[MR_MESSAGE_FDS]; /* -1 once handed over */
    bool replies;
};

/* replies: true = the peer answers us (front-end), so headers must be replies;
 * false = the peer sends requests (V2, V108). */
void mr_frame_init(struct mr_frame *frame, bool replies);
/* Closes fds that the frame still owns. */
void mr_frame_fini(struct mr_frame *frame);
/* Forgets the message, closes the fds that nobody took, and waits for the next
 * header. */
void mr_frame_next(struct mr_frame *frame);
/* Where the next bytes go; *len (> 0) is how many may be received at most. */
void *mr_frame_want(struct mr_frame *frame, size_t *len);
/* Tells that `got` bytes (1..*len) were put there, together with nfds fds,
 * which the frame owns from now on, whatever it returns. truncated: the kernel
 * dropped fds or data (V106). Returns 1 when the message is complete, 0 when
 * bytes are missing, -EPROTO to close the connection (V106-V110, V119). */
int mr_frame_take(struct mr_frame *frame, size_t got, const int *fds,
                  uint32_t nfds, bool truncated);
/* True when nothing of a message has arrived: the peer may leave here without
 * having broken a rule (V105). */
bool mr_frame_idle(const struct mr_frame *frame);
/* Hands over fd i (0..nfds-1): the caller's from now on. -1 when there is none
 * or it was taken before. */
int mr_frame_fd(struct mr_frame *frame, uint32_t i);
