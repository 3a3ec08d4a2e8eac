/* fds that a peer sent us. They may be anything, also something that makes us
 * wait as long as the peer likes and that no signal ends: a file of a file
 * system that the peer serves itself (FUSE) holds whoever stats, reads,
 * writes, maps and touches, or even closes it; a socket that lingers holds
 * who closes it, and so does a Unix socket with such an fd under way in it.
 *
 * So an fd is asked what it is by ways that no peer takes part in, only kinds
 * that never wait for another process are used, and all others are closed by
 * threads that have nothing else to do.
 *
 * Any thread may call these. */
#pragma once

#include "base/attr.h"

/* True for what wakes a process: an eventfd or a pipe (V40). */
bool mr_foreign_signal(int fd);
/* True for a file whose pages come from memory or from a disk of ours: tmpfs,
 * memfd and hugetlbfs files, and files of file systems that this kernel serves
 * from block devices, overlays of them included. */
bool mr_foreign_memory(int fd);
/* Closes an fd of any kind without waiting, perhaps a moment later. -1 is
 * allowed. */
void mr_foreign_close(int fd);
/* True while some of them are still to be closed. */
bool mr_foreign_closing(void);
