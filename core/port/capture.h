/* A capture file being written: pcap with nanoseconds, or pcapng; Ethernet.
 * Packets carry no time of their own, so all packets of a burst get the time
 * at which it was written.
 *
 * Every call leaves whole records in the file: other programs can read it
 * while it grows, and a full disk cuts it between two packets.
 *
 * Owner: control thread opens and closes, the tx queue's worker writes. */
#pragma once

#include "base/attr.h"
#include "moonring.h"

struct mr_capture;

/* Creates `path`, or replaces its content. not: a file that it must not be
 * (the one that is read), or NULL. pcapng: 1 = pcapng, 0 = pcap. snap: bytes
 * kept of a packet, 0 = all. *capture belongs to the caller. Errors: EINVAL,
 * ENOMEM, and what open(2) and write(2) give. */
int mr_capture_open(const char *port, const char *path, const char *not,
                    int pcapng, uint32_t snap, struct mr_capture **capture);
/* Writes n packets; they stay the caller's. Returns how many are in the file;
 * after a failure always 0. */
uint32_t mr_capture_write(struct mr_capture *capture,
                          struct mr_pkt *const *pkts, uint32_t n);
/* Returns 0, or the negative errno value of the first write that failed. NULL
 * is allowed. */
int mr_capture_close(struct mr_capture *capture);
