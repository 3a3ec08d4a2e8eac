/* Where the headers of a packet are: Ethernet, up to two VLAN tags, IPv4 or
 * IPv6 with the extension headers that do not change where the packet goes.
 * Every offset that a parse returns was checked against the packet's length.
 *
 * Headers are read and written at `bytes`: in the packet when its first
 * segment holds them, else in a copy that mr_headers_store puts back. */
#pragma once

#include "base/attr.h"
#include "moonring.h"

/* Room for the longest headers that are followed. */
enum { MR_HEADERS = 192 };

enum {
    MR_ETHER_IP4 = 0x0800,
    MR_ETHER_ARP = 0x0806,
    MR_ETHER_IP6 = 0x86dd,
    MR_ETHER_TAG = 0x8100,
    MR_ETHER_TAG_OUTER = 0x88a8,
    MR_IP_ICMP = 1,
    MR_IP_TCP = 6,
    MR_IP_UDP = 17,
    MR_IP_ICMP6 = 58,
};

struct mr_headers {
    uint8_t *bytes;
    uint32_t len;     /* of `bytes` */
    uint16_t type;    /* Ethernet type behind the tags */
    uint16_t l3;      /* offset of what `type` names */
    uint16_t l4;      /* offset of the IP payload, 0 = no valid IP header */
    uint16_t ip_len;  /* bytes of the IPv4 header, 0 for IPv6 */
    uint32_t l4_len;  /* bytes of the IP payload, without Ethernet padding */
    uint8_t protocol; /* of the IP payload */
    bool fragment;    /* one of several fragments */
    bool later;       /* a fragment without the payload's start */
    uint8_t copy[MR_HEADERS];
};

/* False when the packet is shorter than its Ethernet header and tags. */
bool mr_headers_parse(struct mr_pkt *pkt, struct mr_headers *h);
/* After a change of h->bytes. */
void mr_headers_store(struct mr_pkt *pkt, const struct mr_headers *h);

MR_INLINE uint16_t
mr_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

MR_INLINE void
mr_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

MR_INLINE uint32_t
mr_get32(const uint8_t *p)
{
    return (uint32_t)mr_get16(p) << 16 | mr_get16(p + 2);
}
