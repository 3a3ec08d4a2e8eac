#include "mem/checksum.h"

#include "mem/packet.h"

enum { IP4_CHECKSUM = 10, IP6_ADDRESSES = 8 };

static uint16_t
fold(uint64_t sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* Words of 32 bits into 64: the carries of 16 GiB fit, and the loop is one
 * that compilers vectorise. */
uint16_t
mr_sum(const void *bytes, uint32_t len)
{
    const uint8_t *p = bytes;
    uint64_t sum = 0;
    uint32_t tail = 0;
    uint32_t word;

    for (; len >= sizeof(word); len -= sizeof(word), p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        sum += word;
    }
    memcpy(&tail, p, len);
    return fold(sum + tail);
}

/* N59: a segment that begins at an odd position has its bytes in the other
 * halves of the words. */
uint16_t
mr_pkt_sum(const struct mr_pkt *pkt, uint32_t offset, uint32_t len)
{
    uint16_t sum = 0;
    bool odd = false;

    for (; pkt && len; pkt = pkt->next) {
        uint16_t part;
        uint32_t n;

        if (offset >= pkt->data_len) {
            offset -= pkt->data_len;
            continue;
        }
        n = MR_MIN(len, pkt->data_len - offset);
        part = mr_sum(mr_pkt_data(pkt) + offset, n);
        sum = mr_sum_add(sum, odd ? __builtin_bswap16(part) : part);
        odd ^= n & 1;
        len -= n;
        offset = 0;
    }
    return sum;
}

/* As mr_pkt_sum from h->l4 on, with the headers as they are in h. */
static uint16_t
sum_l4(const struct mr_pkt *pkt, const struct mr_headers *h, uint32_t len)
{
    uint32_t head = h->bytes == h->copy ? MR_MIN(h->len - h->l4, len) : 0;
    uint16_t rest = mr_pkt_sum(pkt, h->l4 + head, len - head);
    uint16_t sum = mr_sum(h->bytes + h->l4, head);

    return mr_sum_add(sum, head & 1 ? __builtin_bswap16(rest) : rest);
}

/* Addresses, length and protocol; where they stand in which order does not
 * matter to a sum. */
static uint16_t
sum_pseudo(const struct mr_headers *h, uint32_t len)
{
    const uint8_t *ip = h->bytes + h->l3;
    uint8_t rest[8] = {[3] = h->protocol, [5] = (uint8_t)(len >> 16),
                       [6] = (uint8_t)(len >> 8), [7] = (uint8_t)len};
    uint16_t sum = mr_sum(rest, sizeof(rest));

    if (h->ip_len)
        return mr_sum_add(sum, mr_sum(ip + 12, 8));
    return mr_sum_add(sum, mr_sum(ip + IP6_ADDRESSES, 32));
}

/* Where the checksum stands in the IP payload, 0 = none that we know; N58:
 * SCTP has another kind. *len is cut to what the checksum covers. */
static uint32_t
field_offset(const struct mr_headers *h, uint32_t *len)
{
    uint32_t udp;

    switch (h->protocol) {
    case MR_IP_TCP:
        return *len >= 20 ? 16 : 0;
    case MR_IP_UDP:
        if (*len < 8 || h->len < h->l4 + 8u)
            return 0;
        udp = mr_get16(h->bytes + h->l4 + 4);
        if (udp < 8 || udp > *len)
            return 0;
        *len = udp;
        return 6;
    case MR_IP_ICMP:
        return h->ip_len && *len >= 4 ? 2 : 0;
    case MR_IP_ICMP6:
        return !h->ip_len && *len >= 4 ? 2 : 0;
    default:
        return 0;
    }
}

bool
mr_checksum_l4(const struct mr_pkt *pkt, struct mr_headers *h)
{
    uint32_t len = h->l4_len;
    uint32_t offset = h->l4 && !h->fragment ? field_offset(h, &len) : 0;
    uint8_t *field = h->bytes + h->l4 + offset;
    uint16_t sum;

    if (!offset || h->l4 + offset + 2 > h->len)
        return false;
    memset(field, 0, 2);
    sum = sum_l4(pkt, h, len);
    if (h->protocol != MR_IP_ICMP)
        sum = mr_sum_add(sum, sum_pseudo(h, len));
    sum = (uint16_t)~sum;
    if (h->protocol == MR_IP_UDP && !sum)
        sum = 0xffff; /* 0 means "none" (RFC 768) */
    memcpy(field, &sum, 2);
    return true;
}

static void
checksum_ip4(struct mr_headers *h)
{
    uint8_t *ip = h->bytes + h->l3;
    uint16_t sum;

    memset(ip + IP4_CHECKSUM, 0, 2);
    sum = (uint16_t)~mr_sum(ip, h->ip_len);
    memcpy(ip + IP4_CHECKSUM, &sum, 2);
}

static bool
checksum_pkt(struct mr_pkt *pkt, uint32_t what)
{
    struct mr_headers h;
    bool changed = false;

    if (!mr_headers_parse(pkt, &h) || !h.l4 || h.fragment)
        return false;
    if ((what & MR_CHECKSUM_IP4) && h.ip_len) {
        checksum_ip4(&h);
        changed = true;
    }
    if ((what & MR_CHECKSUM_L4) && mr_checksum_l4(pkt, &h))
        changed = true;
    if (changed)
        mr_headers_store(pkt, &h);
    return changed;
}

uint32_t
mr_burst_checksum(struct mr_burst *burst, uint32_t what)
{
    uint32_t changed = 0;

    for (uint32_t i = 0; i < burst->n; i++)
        changed += checksum_pkt(burst->pkt[i], what);
    return changed;
}
