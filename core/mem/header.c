#include "mem/header.h"

#include <string.h>

#include "mem/packet.h"

enum {
    TAGS = 2,
    EXTENSIONS = 8,
    IP4_MIN = 20,
    IP6 = 40,
    IP6_HOP_BY_HOP = 0,
    IP6_FRAGMENT = 44,
    IP6_OPTIONS = 60,
};

static bool
is_tag(uint16_t type)
{
    return type == MR_ETHER_TAG || type == MR_ETHER_TAG_OUTER;
}

/* A packet in one segment is used in place however short it is. */
static void
locate(struct mr_pkt *pkt, struct mr_headers *h)
{
    if (pkt->nb_segs == 1 || pkt->data_len >= MR_HEADERS) {
        h->bytes = mr_pkt_data(pkt);
        h->len = pkt->data_len;
        return;
    }
    h->bytes = h->copy;
    h->len = mr_pkt_read(pkt, 0, h->copy, MR_HEADERS);
}

void
mr_headers_store(struct mr_pkt *pkt, const struct mr_headers *h)
{
    uint32_t at = 0;

    if (h->bytes != h->copy)
        return;
    for (; pkt && at < h->len; pkt = pkt->next) {
        uint32_t n = MR_MIN(h->len - at, (uint32_t)pkt->data_len);

        memcpy(mr_pkt_data(pkt), h->copy + at, n);
        at += n;
    }
}

/* left: bytes of the packet from h->l3 on. */
static void
parse_ip4(struct mr_headers *h, uint32_t left)
{
    const uint8_t *ip = h->bytes + h->l3;
    uint32_t header;
    uint32_t total;
    uint16_t fragment;

    if (h->len < (uint32_t)h->l3 + IP4_MIN || ip[0] >> 4 != 4)
        return;
    header = (ip[0] & 15) * 4u;
    total = mr_get16(ip + 2);
    if (header < IP4_MIN || header > total || total > left ||
        h->len < h->l3 + header)
        return;
    fragment = mr_get16(ip + 6);
    h->fragment = (fragment & 0x3fff) != 0;
    h->later = (fragment & 0x1fff) != 0;
    h->protocol = ip[9];
    h->ip_len = (uint16_t)header;
    h->l4 = (uint16_t)(h->l3 + header);
    h->l4_len = total - header;
}

/* Steps over one extension header; false when there is none to step over. */
static bool
extension(struct mr_headers *h, uint32_t *at, uint32_t end)
{
    const uint8_t *ext = h->bytes + *at;
    uint32_t len;

    if (*at + 8 > end || *at + 8 > h->len || h->later)
        return false;
    if (h->protocol == IP6_FRAGMENT) {
        uint16_t fragment = mr_get16(ext + 2);

        len = 8;
        h->fragment = (fragment & 0xfff9) != 0;
        h->later = (fragment & 0xfff8) != 0;
    } else if (h->protocol == IP6_HOP_BY_HOP ||
               h->protocol == IP6_OPTIONS) {
        len = 8 + ext[1] * 8u;
    } else {
        return false;
    }
    h->protocol = ext[0];
    *at += len;
    return true;
}

static void
parse_ip6(struct mr_headers *h, uint32_t left)
{
    const uint8_t *ip = h->bytes + h->l3;
    uint32_t at = h->l3 + IP6;
    uint32_t end;

    if (h->len < at || ip[0] >> 4 != 6)
        return;
    end = at + mr_get16(ip + 4);
    if (end - h->l3 > left)
        return;
    h->protocol = ip[6];
    for (int i = 0; i < EXTENSIONS && extension(h, &at, end); i++)
        ;
    if (at > end || at > h->len)
        return;
    h->l4 = (uint16_t)at;
    h->l4_len = end - at;
}

bool
mr_headers_parse(struct mr_pkt *pkt, struct mr_headers *h)
{
    uint32_t at = 12;

    locate(pkt, h);
    h->l4 = 0;
    h->ip_len = 0;
    h->l4_len = 0;
    h->protocol = 0;
    h->fragment = false;
    h->later = false;
    for (int tags = 0;; tags++, at += 4) {
        if (h->len < at + 2)
            return false;
        h->type = mr_get16(h->bytes + at);
        if (tags == TAGS || !is_tag(h->type))
            break;
    }
    h->l3 = (uint16_t)(at + 2);
    if (h->type == MR_ETHER_IP4)
        parse_ip4(h, pkt->pkt_len - h->l3);
    else if (h->type == MR_ETHER_IP6)
        parse_ip6(h, pkt->pkt_len - h->l3);
    return true;
}
