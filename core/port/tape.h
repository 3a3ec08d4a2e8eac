/* A tape: a capture file to be played. pcap and pcapng, microseconds or
 * nanoseconds, either byte order; Ethernet only.
 *
 * Opening it reads the file from end to end, so that a truncated or foreign
 * file is an error with a text and not a surprise in a burst. What fits into
 * MR_TAPE_MEMORY stays in memory and is played from there, without a system
 * call; a longer file is read again as it plays.
 *
 * Owner: control thread opens and closes, the rx queue's worker plays. */
#pragma once

#include "base/atomic.h"
#include "base/attr.h"

enum { MR_TAPE_MEMORY = 64 << 20 };

struct mr_tape;

struct mr_frame {
    const uint8_t *bytes; /* the tape's, until mr_tape_next */
    uint32_t len;         /* as captured */
};

/* Opens `path` to be played `loops` times (0 = once, ~0 = for ever). port: the
 * name for error texts. *tape belongs to the caller. Errors: EINVAL (no
 * regular file, no capture, truncated, not Ethernet), ENOMEM, and what open(2)
 * gives. */
int mr_tape_open(const char *port, const char *path, uint32_t loops,
                 struct mr_tape **tape);
/* NULL is allowed. */
void mr_tape_close(struct mr_tape *tape);
/* The frame under the head; false when the last one was played, or when the
 * file changed meanwhile and cannot be read any more. */
bool mr_tape_peek(struct mr_tape *tape, struct mr_frame *frame);
/* Moves on. Only after a successful peek. */
void mr_tape_next(struct mr_tape *tape);
/* Whether the last frame was played. Any thread. */
bool mr_tape_ended(const struct mr_tape *tape);
