/* What a host answers, done in the packet itself: the reply leaves in the
 * buffers that the request came in. mr_burst_reflect is declared in
 * moonring.h.
 *
 * A header is trusted only as far as mem/header.h checked it. What is not
 * answered goes back with its MAC addresses swapped. No state: any thread, on
 * packets that it owns. */
#include <string.h>

#include "mem/checksum.h"
#include "mem/packet.h"
#include "mem/turn.h"

enum {
    MAC = 6,
    ARP_LEN = 28,
    ICMP_ECHO = 8,
    ICMP_ECHO_REPLY = 0,
    ICMP6_ECHO = 128,
    ICMP6_ECHO_REPLY = 129,
    ICMP6_SOLICIT = 135,
    ICMP6_ADVERTISE = 136,
    IP6_SOURCE = 8,
    IP6_DESTINATION = 24,
    SOLICIT_LEN = 24,
    OPTION_MAC = 2,
};

/* Who answers. */
struct self {
    const uint8_t *mac;
    uint32_t ip4; /* 0 = every address */
    uint8_t link_local[16];
};

static void
swap(uint8_t *a, uint8_t *b, uint32_t len)
{
    uint8_t t[16];

    memcpy(t, a, len);
    memcpy(a, b, len);
    memcpy(b, t, len);
}

/* Back to the sender. */
static void
turn(uint8_t *ether, const struct self *self)
{
    uint64_t first;
    uint32_t rest;

    memcpy(&first, ether, sizeof(first));
    memcpy(&rest, ether + sizeof(first), sizeof(rest));
    mr_turn(&first, &rest, mr_mac_word(self->mac));
    memcpy(ether, &first, sizeof(first));
    memcpy(ether + sizeof(first), &rest, sizeof(rest));
}

/* An ARP for its sender's own address claims or probes it: whoever answers for
 * every address must not dispute that. */
static bool
arp_wanted(const uint8_t *arp, const struct self *self)
{
    static const uint8_t request[] = {0, 1, 8, 0, MAC, 4, 0, 1};
    uint32_t sender = mr_get32(arp + 14);
    uint32_t target = mr_get32(arp + 24);

    if (memcmp(arp, request, sizeof(request)) || sender == target)
        return false;
    return self->ip4 ? target == self->ip4 : sender != 0;
}

static bool
answer_arp(struct mr_headers *h, const struct self *self)
{
    uint8_t *arp = h->bytes + h->l3;

    if (h->len < (uint32_t)h->l3 + ARP_LEN || !arp_wanted(arp, self))
        return false;
    arp[7] = 2;
    swap(arp + 8, arp + 18, MAC + 4);
    memcpy(arp + 8, self->mac, MAC);
    memcpy(h->bytes + MAC, self->mac, MAC);
    memcpy(h->bytes, arp + 18, MAC);
    return true;
}

/* The word of type and code, in wire order. */
static uint16_t
icmp_word(uint8_t type, uint8_t code)
{
    uint8_t bytes[2] = {type, code};
    uint16_t word;

    memcpy(&word, bytes, 2);
    return word;
}

/* Turns an echo request of either family; later fragments have no header to
 * turn and follow the first, which is known by its id. */
static bool
turn_echo(struct mr_headers *h, uint8_t request, uint8_t reply)
{
    uint8_t *icmp = h->bytes + h->l4;

    if (h->later)
        return true;
    if (h->len < h->l4 + 4u || h->l4_len < 4 || icmp[0] != request)
        return false;
    mr_checksum_replace(icmp + 2, icmp_word(request, icmp[1]),
                        icmp_word(reply, icmp[1]));
    icmp[0] = reply;
    return true;
}

static bool
answer_ip4(struct mr_headers *h, const struct self *self)
{
    uint8_t *ip = h->bytes + h->l3;
    uint32_t to = mr_get32(ip + 16);

    if (!h->l4 || h->protocol != MR_IP_ICMP || to >= 0xe0000000 ||
        (self->ip4 && to != self->ip4) ||
        !turn_echo(h, ICMP_ECHO, ICMP_ECHO_REPLY))
        return false;
    swap(ip + 12, ip + 16, 4);
    turn(h->bytes, self);
    return true;
}

/* A host that has one IPv4 address has one IPv6 address too, that of its MAC
 * on the link. */
static bool
is_ours(const uint8_t *ip6, const struct self *self)
{
    if (self->ip4)
        return memcmp(ip6, self->link_local, 16) == 0;
    return ip6[0] != 0xff;
}

/* RFC 4861, 7.2.4. A question without a source is a probe: see arp_wanted. */
static bool
answer_solicit(const struct mr_pkt *pkt, struct mr_headers *h,
               const struct self *self)
{
    static const uint8_t nobody[16];
    uint8_t *ip = h->bytes + h->l3;
    uint8_t *icmp = h->bytes + h->l4;
    uint8_t *target = icmp + 8;
    uint8_t *option = icmp + SOLICIT_LEN;

    if (h->fragment || h->l4_len < SOLICIT_LEN ||
        h->len < (uint32_t)h->l4 + SOLICIT_LEN || icmp[0] != ICMP6_SOLICIT ||
        icmp[1] != 0 || ip[7] != 255 || !is_ours(target, self) ||
        memcmp(ip + IP6_SOURCE, nobody, 16) == 0)
        return false;
    icmp[0] = ICMP6_ADVERTISE;
    memset(icmp + 4, 0, 4);
    icmp[4] = 0x60; /* solicited, override */
    memcpy(ip + IP6_DESTINATION, ip + IP6_SOURCE, 16);
    memcpy(ip + IP6_SOURCE, target, 16);
    if (h->l4_len >= SOLICIT_LEN + 8 && h->len >= h->l4 + SOLICIT_LEN + 8u &&
        option[0] == 1 && option[1] == 1) {
        option[0] = OPTION_MAC;
        memcpy(option + 2, self->mac, MAC);
    }
    memcpy(h->bytes, h->bytes + MAC, MAC);
    memcpy(h->bytes + MAC, self->mac, MAC);
    return mr_checksum_l4(pkt, h);
}

static bool
answer_ip6(const struct mr_pkt *pkt, struct mr_headers *h,
           const struct self *self)
{
    uint8_t *ip = h->bytes + h->l3;

    if (!h->l4 || h->protocol != MR_IP_ICMP6)
        return false;
    if (answer_solicit(pkt, h, self))
        return true;
    if (!is_ours(ip + IP6_DESTINATION, self) ||
        !turn_echo(h, ICMP6_ECHO, ICMP6_ECHO_REPLY))
        return false;
    swap(ip + IP6_SOURCE, ip + IP6_DESTINATION, 16);
    turn(h->bytes, self);
    return true;
}

static bool
answer(const struct mr_pkt *pkt, struct mr_headers *h, const struct self *self)
{
    switch (h->type) {
    case MR_ETHER_ARP:
        return answer_arp(h, self);
    case MR_ETHER_IP4:
        return answer_ip4(h, self);
    case MR_ETHER_IP6:
        return answer_ip6(pkt, h, self);
    default:
        return false;
    }
}

static struct self
self_make(const uint8_t mac[MAC], uint32_t ip4)
{
    struct self self = {
        .mac = mac,
        .ip4 = ip4,
        .link_local = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1],
                       mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]},
    };

    return self;
}

uint32_t
mr_burst_reflect(struct mr_burst *burst, const uint8_t mac[6], uint32_t ip4)
{
    struct self self = self_make(mac, ip4);
    uint32_t answered = 0;

    for (uint32_t i = 0; i < burst->n; i++) {
        struct mr_headers h;

        if (!mr_headers_parse(burst->pkt[i], &h))
            continue;
        if (answer(burst->pkt[i], &h, &self))
            answered++;
        else
            turn(h.bytes, &self);
        mr_headers_store(burst->pkt[i], &h);
    }
    return answered;
}
