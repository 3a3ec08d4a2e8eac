/* Internet checksums (RFC 1071, RFC 1624) over packets of any number of
 * segments. mr_pkt_sum and mr_burst_checksum are declared in moonring.h.
 *
 * Sums are kept as the checksum fields are, in the byte order of the wire, so
 * nothing is ever swapped: a sum is stored and loaded by memcpy. */
#pragma once

#include <string.h>

#include "mem/header.h"

/* a + b in ones' complement. */
MR_INLINE uint16_t
mr_sum_add(uint16_t a, uint16_t b)
{
    uint32_t sum = (uint32_t)a + b;

    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* The sum of `len` bytes, the last one padded with zero. */
uint16_t mr_sum(const void *bytes, uint32_t len);

/* Corrects the checksum field at `field` for a 16-bit word of the summed
 * bytes that changes from `was` to `is`, all in wire order (RFC 1624, eqn. 3):
 * no pass over the packet. */
MR_INLINE void
mr_checksum_replace(uint8_t *field, uint16_t was, uint16_t is)
{
    uint16_t sum;

    memcpy(&sum, field, 2);
    sum = mr_sum_add(mr_sum_add((uint16_t)~sum, (uint16_t)~was), is);
    sum = (uint16_t)~sum;
    memcpy(field, &sum, 2);
}

/* Fills in the checksum of the IP payload at h->l4, if it is TCP, UDP, ICMP
 * or ICMPv6 and no fragment: in h->bytes, which is what pkt's headers are to
 * be; it needs no earlier store. False when it is something else. */
bool mr_checksum_l4(const struct mr_pkt *pkt, struct mr_headers *h);
