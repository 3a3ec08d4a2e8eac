/* The fds by which two processes wake each other: eventfds, or pipes (V40).
 * A peer gave them to us, so nothing is known about them: every call here may
 * fail without consequence, and none of them blocks on what a peer can do to
 * an eventfd. No state, control thread. */
#pragma once

/* Makes a fresh fd non-blocking (V41). -1 is allowed everywhere. */
void mr_signal_prepare(int fd);
/* Wakes the other end. */
void mr_signal_raise(int fd);
/* Takes what the other end wrote, so that it never finds the fd full. */
void mr_signal_drain(int fd);
/* Replaces *slot by fd and closes what was there (V42). */
void mr_signal_replace(int *slot, int fd);
