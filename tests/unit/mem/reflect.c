/* mem/reflect: what a host answers (RFC 826, 792, 4443, 4861), in the packet,
 * whatever way it is cut into segments, and with its VLAN tags kept. */
#include "unit/pool.h"

#include "mem/checksum.h"

static const uint8_t ours[6] = {0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee};
static const uint8_t peer[6] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
static const uint8_t everyone[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

enum { OUR_IP = 0x0a000001, PEER_IP = 0x0a000002 };

struct frame {
    uint8_t bytes[70000];
    uint32_t len;
};

static uint8_t *
put(struct frame *f, const void *bytes, uint32_t len)
{
    uint8_t *at = f->bytes + f->len;

    if (bytes)
        memcpy(at, bytes, len);
    else
        memset(at, 0, len);
    f->len += len;
    return at;
}

static void
put32(uint8_t *p, uint32_t v)
{
    mr_put16(p, (uint16_t)(v >> 16));
    mr_put16(p + 2, (uint16_t)v);
}

static uint32_t l3, l4; /* of the frame made last */

static void
ether(struct frame *f, const uint8_t *to, int tags, uint16_t type)
{
    f->len = 0;
    put(f, to, 6);
    put(f, peer, 6);
    for (int i = 0; i < tags; i++)
        put(f, i ? "\x81\x00\x60\x07" : "\x81\x00\x00\x03", 4);
    mr_put16(put(f, NULL, 2), type);
    l3 = f->len;
}

static void
arp(struct frame *f, int tags, uint16_t op, uint32_t from, uint32_t target)
{
    uint8_t *p;

    ether(f, everyone, tags, MR_ETHER_ARP);
    p = put(f, NULL, 28);
    memcpy(p, "\0\1\10\0\6\4", 6);
    mr_put16(p + 6, op);
    memcpy(p + 8, peer, 6);
    put32(p + 14, from);
    memset(p + 18, 0, 6);
    put32(p + 24, target);
}

/* offset in bytes; payload: all bytes behind the IP header. */
static void
ip4(struct frame *f, int tags, uint8_t protocol, uint32_t to, uint32_t offset,
    bool more, const void *payload, uint32_t len)
{
    uint8_t *p;

    ether(f, ours, tags, MR_ETHER_IP4);
    p = put(f, NULL, 20);
    l4 = f->len;
    p[0] = 0x45;
    mr_put16(p + 2, (uint16_t)(20 + len));
    mr_put16(p + 4, 77);
    mr_put16(p + 6, (uint16_t)(offset / 8 | (more ? 0x2000 : 0)));
    p[8] = 64;
    p[9] = protocol;
    put32(p + 12, PEER_IP);
    put32(p + 16, to);
    mr_put16(p + 10, (uint16_t)~slow_sum(p, 20, 0));
    put(f, payload, len);
}

/* An ICMP message with a right checksum. */
static void
icmp(uint8_t *p, uint8_t type, uint32_t len)
{
    for (uint32_t i = 4; i < len; i++)
        p[i] = (uint8_t)dice(256);
    p[0] = type;
    p[1] = 0;
    mr_put16(p + 2, 0);
    mr_put16(p + 2, (uint16_t)~slow_sum(p, len, 0));
}

static void
ip6(struct frame *f, const uint8_t *from, const uint8_t *to, uint8_t type,
    const void *body, uint32_t len)
{
    uint8_t *p, *q;

    ether(f, ours, 0, MR_ETHER_IP6);
    p = put(f, NULL, 40);
    p[0] = 0x60;
    mr_put16(p + 4, (uint16_t)(4 + len));
    p[6] = MR_IP_ICMP6;
    p[7] = 255;
    memcpy(p + 8, from, 16);
    memcpy(p + 24, to, 16);
    l4 = f->len;
    q = put(f, NULL, 4);
    q[0] = type;
    put(f, body, len);
    mr_put16(q + 2, (uint16_t)~slow_sum(q, 4 + len,
                                        slow_sum(p + 8, 32, 58 + 4 + len)));
}

static uint32_t
reflect(struct frame *f, uint32_t cut, uint32_t ip)
{
    struct mr_burst burst = {.n = 1, .cap = 1};
    uint32_t n;

    burst.pkt[0] = pkt_make(pool, f->bytes, f->len, cut);
    n = mr_burst_reflect(&burst, ours, ip);
    assert_int_equal(burst.pkt[0]->pkt_len, f->len);
    assert_int_equal(mr_pkt_read(burst.pkt[0], 0, f->bytes, f->len), f->len);
    mr_burst_free(&burst);
    return n;
}

static uint32_t
any_cut(void)
{
    static const uint32_t cuts[] = {0, 1, 3, 13, 41, 255};

    return cuts[dice(6)];
}

static void
assert_macs(const struct frame *f, const uint8_t *to, const uint8_t *from)
{
    assert_memory_equal(f->bytes, to, 6);
    assert_memory_equal(f->bytes + 6, from, 6);
}

static void
arp_request_becomes_a_reply_and_keeps_its_tags(void **state)
{
    static struct frame f, before;

    (void)state;
    for (int round = 0; round < 200; round++) {
        arp(&f, round % 3, 1, PEER_IP, OUR_IP);
        before = f;
        assert_int_equal(reflect(&f, any_cut(), round & 1 ? OUR_IP : 0), 1);
        assert_macs(&f, peer, ours);
        assert_memory_equal(f.bytes + 12, before.bytes + 12, l3 - 12);
        assert_int_equal(mr_get16(f.bytes + l3 + 6), 2);
        assert_memory_equal(f.bytes + l3 + 8, ours, 6);
        assert_int_equal(mr_get32(f.bytes + l3 + 14), OUR_IP);
        assert_memory_equal(f.bytes + l3 + 18, peer, 6);
        assert_int_equal(mr_get32(f.bytes + l3 + 24), PEER_IP);
    }
}

static void
arp_for_others_and_claims_are_not_answered(void **state)
{
    static struct frame f;

    (void)state;
    arp(&f, 0, 1, PEER_IP, OUR_IP + 7);
    assert_int_equal(reflect(&f, 255, OUR_IP), 0);
    arp(&f, 0, 2, PEER_IP, OUR_IP);
    assert_int_equal(reflect(&f, 255, 0), 0);
    arp(&f, 0, 1, PEER_IP, PEER_IP); /* announcement */
    assert_int_equal(reflect(&f, 255, 0), 0);
    arp(&f, 0, 1, 0, PEER_IP); /* probe (RFC 5227) */
    assert_int_equal(reflect(&f, 255, 0), 0);
    assert_macs(&f, peer, ours); /* not from everyone */
    arp(&f, 0, 1, 0, OUR_IP); /* somebody else tries our address */
    assert_int_equal(reflect(&f, 255, OUR_IP), 1);
}

static void
echo_request_of_any_length_becomes_a_valid_reply(void **state)
{
    static const uint32_t sizes[] = {8, 9, 64, 1480, 9000, 65515};
    static uint8_t message[65515];
    static struct frame f, before;

    (void)state;
    for (int round = 0; round < 300; round++) {
        uint32_t len = sizes[dice(6)];
        uint32_t cut = len > 2000 ? 255 - dice(2) : any_cut();

        icmp(message, 8, len);
        ip4(&f, round % 3, MR_IP_ICMP, OUR_IP, 0, false, message, len);
        before = f;
        assert_int_equal(reflect(&f, cut, round & 1 ? OUR_IP : 0), 1);
        assert_macs(&f, peer, ours);
        assert_int_equal(mr_get32(f.bytes + l3 + 12), OUR_IP);
        assert_int_equal(mr_get32(f.bytes + l3 + 16), PEER_IP);
        assert_int_equal(slow_sum(f.bytes + l3, 20, 0), 0xffff);
        assert_int_equal(f.bytes[l4], 0);
        assert_int_equal(slow_sum(f.bytes + l4, len, 0), 0xffff);
        assert_memory_equal(f.bytes + l4 + 4, before.bytes + l4 + 4, len - 4);
    }
}

/* What is put together at the peer must be a reply with a right checksum. */
static void
all_fragments_of_an_echo_request_are_answered(void **state)
{
    enum { LEN = 4000, PART = 1480 };
    static uint8_t message[LEN], reply[LEN];
    static struct frame f;

    (void)state;
    icmp(message, 8, LEN);
    for (uint32_t at = 0; at < LEN; at += PART) {
        uint32_t n = MR_MIN(LEN - at, (uint32_t)PART);

        ip4(&f, 1, MR_IP_ICMP, OUR_IP, at, at + n < LEN, message + at, n);
        assert_int_equal(reflect(&f, 100, OUR_IP), 1);
        assert_int_equal(slow_sum(f.bytes + l3, 20, 0), 0xffff);
        assert_int_equal(mr_get32(f.bytes + l3 + 12), OUR_IP);
        memcpy(reply + at, f.bytes + l4, n);
    }
    assert_int_equal(reply[0], 0);
    assert_int_equal(slow_sum(reply, LEN, 0), 0xffff);
    assert_memory_equal(reply + 4, message + 4, LEN - 4);
}

static void
swapped(struct frame *f, uint32_t ip)
{
    static struct frame before;

    before = *f;
    assert_int_equal(reflect(f, any_cut(), ip), 0);
    assert_macs(f, before.bytes + 6, before.bytes);
    assert_memory_equal(f->bytes + 12, before.bytes + 12, f->len - 12);
}

static void
the_rest_goes_back_with_macs_swapped(void **state)
{
    static struct frame f;
    uint8_t message[100];

    (void)state;
    icmp(message, 8, sizeof(message));
    for (int round = 0; round < 50; round++) {
        ip4(&f, 0, MR_IP_UDP, OUR_IP, 0, false, message, 100);
        swapped(&f, OUR_IP);
        ip4(&f, 0, MR_IP_ICMP, OUR_IP + 1, 0, false, message, 100);
        swapped(&f, OUR_IP);
        ip4(&f, 0, MR_IP_ICMP, 0xe0000001, 0, false, message, 100);
        swapped(&f, 0); /* multicast */
        ip4(&f, 0, MR_IP_ICMP, OUR_IP, 0, false, message, 3);
        swapped(&f, OUR_IP); /* no room for an ICMP header */
        ip4(&f, 0, MR_IP_ICMP, OUR_IP, 0, false, message, 100);
        f.len -= 1; /* IP says more than there is */
        swapped(&f, OUR_IP);
        ether(&f, ours, 2, 0x88b5);
        swapped(&f, 0);
    }
}

static void
a_packet_without_a_whole_ethernet_header_is_left_alone(void **state)
{
    static struct frame f;
    uint8_t before[14];

    (void)state;
    ether(&f, ours, 0, MR_ETHER_IP4);
    f.len = 13;
    memcpy(before, f.bytes, 13);
    assert_int_equal(reflect(&f, 5, 0), 0);
    assert_memory_equal(f.bytes, before, 13);
}

static const uint8_t peer6[16] = {0xfe, 0x80, [15] = 2};
static const uint8_t any6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 9};
static const uint8_t link6[16] = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                                  0x00, 0xaa, 0xbb, 0xff, 0xfe, 0xcc, 0xdd,
                                  0xee};

static uint16_t
icmp6_sum(const struct frame *f)
{
    uint32_t len = f->len - l4;

    return slow_sum(f->bytes + l4, len,
                    slow_sum(f->bytes + l3 + 8, 32, 58 + len));
}

static void
RFC4443_echo_request_becomes_a_valid_reply(void **state)
{
    static struct frame f;
    uint8_t body[101] = {1, 2, 3};

    (void)state;
    for (int round = 0; round < 100; round++) {
        bool strict = round & 1;

        ip6(&f, peer6, strict ? link6 : any6, 128, body, 4 + dice(98));
        assert_int_equal(reflect(&f, any_cut(), strict ? OUR_IP : 0), 1);
        assert_int_equal(f.bytes[l4], 129);
        assert_memory_equal(f.bytes + l3 + 8, strict ? link6 : any6, 16);
        assert_memory_equal(f.bytes + l3 + 24, peer6, 16);
        assert_int_equal(icmp6_sum(&f), 0xffff);
        assert_macs(&f, peer, ours);
    }
    ip6(&f, peer6, any6, 128, body, 20);
    swapped(&f, OUR_IP);
}

static void
RFC4861_solicitation_becomes_an_advertisement(void **state)
{
    static struct frame f;
    static const uint8_t nobody[16];
    uint8_t group[16] = {0xff, 2, [11] = 1, 0xff, 0, 0, 9};
    uint8_t body[28] = {0};

    (void)state;
    memcpy(body + 4, any6, 16);
    body[20] = 1;
    body[21] = 1;
    memcpy(body + 22, peer, 6);
    for (int round = 0; round < 100; round++) {
        ip6(&f, peer6, group, 135, body, round & 1 ? 28 : 20);
        assert_int_equal(reflect(&f, any_cut(), 0), 1);
        assert_int_equal(f.bytes[l4], 136);
        assert_int_equal(f.bytes[l4 + 4], 0x60);
        assert_memory_equal(f.bytes + l4 + 8, any6, 16);
        assert_memory_equal(f.bytes + l3 + 8, any6, 16);
        assert_memory_equal(f.bytes + l3 + 24, peer6, 16);
        assert_int_equal(icmp6_sum(&f), 0xffff);
        assert_macs(&f, peer, ours);
        if (round & 1) {
            assert_int_equal(f.bytes[l4 + 24], 2);
            assert_memory_equal(f.bytes + l4 + 26, ours, 6);
        }
    }
    ip6(&f, nobody, group, 135, body, 20); /* duplicate detection */
    swapped(&f, 0);
    ip6(&f, peer6, group, 135, body, 20); /* not our address */
    swapped(&f, OUR_IP);
}

/* For the sanitizers. */
static void
hostile_bytes_stay_inside_the_packet(void **state)
{
    static struct frame f;
    uint8_t message[64];

    (void)state;
    for (int round = 0; round < 30000; round++) {
        icmp(message, 8, sizeof(message));
        switch (dice(3)) {
        case 0:
            arp(&f, (int)dice(3), 1, PEER_IP, OUR_IP);
            break;
        case 1:
            ip4(&f, (int)dice(3), MR_IP_ICMP, OUR_IP, 0, false, message, 64);
            break;
        default:
            ip6(&f, peer6, any6, dice(2) ? 128 : 135, message, 64);
        }
        for (uint32_t i = dice(6); i; i--)
            f.bytes[12 + dice(60)] = (uint8_t)dice(256);
        f.len = 1 + dice(f.len);
        reflect(&f, dice(3) ? 0 : 255, dice(2) ? OUR_IP : 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arp_request_becomes_a_reply_and_keeps_its_tags),
        cmocka_unit_test(arp_for_others_and_claims_are_not_answered),
        cmocka_unit_test(echo_request_of_any_length_becomes_a_valid_reply),
        cmocka_unit_test(all_fragments_of_an_echo_request_are_answered),
        cmocka_unit_test(the_rest_goes_back_with_macs_swapped),
        cmocka_unit_test(
            a_packet_without_a_whole_ethernet_header_is_left_alone),
        cmocka_unit_test(RFC4443_echo_request_becomes_a_valid_reply),
        cmocka_unit_test(RFC4861_solicitation_becomes_an_advertisement),
        cmocka_unit_test(hostile_bytes_stay_inside_the_packet),
    };

    return cmocka_run_group_tests(tests, pool_setup, pool_teardown);
}
