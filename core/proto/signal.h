/* The fds by which two processes wake each other: eventfds, or pipes (V40).
 * A peer gave them to us, so nothing is known about them: every call here may
 * fail without consequence, and none of them blocks on what a peer can do to
 * an eventfd. No state, control thread. */
#pragma once

/* Takes a fresh fd of a peer over and makes it non-blocking (V41). In place of
 * one that is no signal, and that could make us wait, comes one that takes no
 * notification, so that each is counted as an error (V146). Returns the fd to
 * use, -1 for -1, which is allowed everywhere. */
int mr_signal_adopt(int fd);
/* Wakes the other end. */
void mr_signal_raise(int fd);
/* Takes what the other end wrote, so that it never finds the fd full. */
void mr_signal_drain(int fd);
/* Replaces *slot by fd and closes what was there (V42). */
void mr_signal_replace(int *slot, int fd);
