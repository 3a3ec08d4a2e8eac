/* mem/checksum: N59, N58, RFC 1071 and RFC 1624. The judge is a sum of one
 * byte at a time. */
#include "unit/pool.h"

#include <arpa/inet.h>

#include "mem/checksum.h"


static uint16_t
number(uint16_t wire)
{
    return ntohs(wire);
}

/* 0 and 0xffff are the same in ones' complement. */
static uint16_t
one_zero(uint16_t sum)
{
    return sum == 0xffff ? 0 : sum;
}

static void
random_bytes(uint8_t *p, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        p[i] = (uint8_t)dice(256);
}

static void
N59_sum_over_odd_segments_equals_flat_sum(void **state)
{
    uint8_t bytes[700];

    (void)state;
    for (int round = 0; round < 3000; round++) {
        uint32_t len = 1 + dice(sizeof(bytes));
        uint32_t from = dice(len);
        uint32_t n = dice(len - from + 1);
        struct mr_pkt *pkt;

        random_bytes(bytes, len);
        pkt = pkt_make(pool, bytes, len, round % 12);
        assert_int_equal(one_zero(number(mr_pkt_sum(pkt, from, n))),
                         one_zero(slow_sum(bytes + from, n, 0)));
        mr_pkt_free(pkt);
    }
}

static void
sum_past_the_end_takes_what_is_there(void **state)
{
    uint8_t bytes[5] = {1, 2, 3, 4, 5};
    struct mr_pkt *pkt = pkt_make(pool, bytes, 5, 2);

    (void)state;
    assert_int_equal(number(mr_pkt_sum(pkt, 0, 1000)), slow_sum(bytes, 5, 0));
    assert_int_equal(mr_pkt_sum(pkt, 6, 10), 0);
    assert_int_equal(mr_pkt_sum(pkt, 0, 0), 0);
    mr_pkt_free(pkt);
}

static void
sum_of_all_ones_does_not_lose_carries(void **state)
{
    static uint8_t bytes[65535];
    struct mr_pkt *pkt;

    (void)state;
    memset(bytes, 0xff, sizeof(bytes));
    pkt = pkt_make(pool, bytes, sizeof(bytes), 255);
    assert_int_equal(number(mr_pkt_sum(pkt, 0, sizeof(bytes))),
                     slow_sum(bytes, sizeof(bytes), 0));
    mr_pkt_free(pkt);
}

static void
RFC1624_replaced_word_equals_new_sum(void **state)
{
    uint8_t bytes[40];

    (void)state;
    for (int round = 0; round < 100000; round++) {
        uint32_t at = 2 + 2 * dice(19);
        uint8_t was[2], is[2];
        uint16_t a, b, sum;

        random_bytes(bytes, sizeof(bytes));
        if (round & 1)
            memset(bytes + at, round & 2 ? 0xff : 0, 2);
        memset(bytes, 0, 2);
        sum = htons((uint16_t)~slow_sum(bytes, sizeof(bytes), 0));
        memcpy(bytes, &sum, 2);
        memcpy(was, bytes + at, 2);
        random_bytes(is, 2);
        memcpy(bytes + at, is, 2);
        memcpy(&a, was, 2);
        memcpy(&b, is, 2);
        mr_checksum_replace(bytes, a, b);
        assert_int_equal(slow_sum(bytes, sizeof(bytes), 0), 0xffff);
    }
}

/* ---- Whole packets ---------------------------------------------------- */

struct frame {
    uint8_t bytes[2000];
    uint32_t len;
    uint32_t l3, l4;
    uint32_t l4_len;
    uint8_t protocol;
    bool ip6;
};

static void
put(struct frame *f, const void *bytes, uint32_t len)
{
    memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
}

/* A frame with garbage where checksums belong. options: bytes of IPv4 options
 * or of an IPv6 hop-by-hop header, a multiple of 8. */
static struct frame
frame_make(bool ip6, int tags, uint8_t protocol, uint32_t options,
           uint32_t l4_len, uint32_t padding)
{
    struct frame f = {.protocol = protocol, .ip6 = ip6, .l4_len = l4_len};
    uint8_t ip[40];

    random_bytes(f.bytes, sizeof(f.bytes));
    f.len = 12;
    for (int i = 0; i < tags; i++)
        put(&f, i ? "\x81\x00\x00\x07" : "\x88\xa8\x00\x03", 4);
    put(&f, ip6 ? "\x86\xdd" : "\x08\x00", 2);
    f.l3 = f.len;
    random_bytes(ip, sizeof(ip));
    if (ip6) {
        ip[0] = 0x60;
        mr_put16(ip + 4, (uint16_t)(options + l4_len));
        ip[6] = options ? 0 : protocol;
        put(&f, ip, 40);
    } else {
        ip[0] = (uint8_t)(0x45 + options / 4);
        mr_put16(ip + 2, (uint16_t)(20 + options + l4_len));
        mr_put16(ip + 6, 0x4000);
        ip[9] = protocol;
        put(&f, ip, 20);
    }
    if (ip6 && options) {
        f.bytes[f.len] = protocol;
        f.bytes[f.len + 1] = (uint8_t)(options / 8 - 1);
    }
    f.len += options;
    f.l4 = f.len;
    if (protocol == MR_IP_UDP)
        mr_put16(f.bytes + f.l4 + 4, (uint16_t)l4_len);
    f.len += l4_len + padding;
    return f;
}

static uint16_t
frame_l4_sum(const struct frame *f)
{
    uint32_t start = 0;

    if (f->protocol != MR_IP_ICMP) {
        start = f->protocol + f->l4_len;
        start += f->ip6 ? slow_sum(f->bytes + f->l3 + 8, 32, 0)
                        : slow_sum(f->bytes + f->l3 + 12, 8, 0);
    }
    return slow_sum(f->bytes + f->l4, f->l4_len, start);
}

static uint32_t
checksum(struct frame *f, uint32_t cut, uint32_t what)
{
    struct mr_burst burst = {.n = 1, .cap = 1};
    uint32_t n;

    burst.pkt[0] = pkt_make(pool, f->bytes, f->len, cut);
    n = mr_burst_checksum(&burst, what);
    assert_int_equal(mr_pkt_read(burst.pkt[0], 0, f->bytes, f->len), f->len);
    mr_burst_free(&burst);
    return n;
}

static void
every_protocol_tag_and_cut_gets_valid_checksums(void **state)
{
    static const uint8_t protocols[] = {MR_IP_TCP, MR_IP_UDP, MR_IP_ICMP,
                                        MR_IP_ICMP6};

    (void)state;
    for (int round = 0; round < 4000; round++) {
        uint8_t protocol = protocols[dice(4)];
        bool ip6 = protocol == MR_IP_ICMP6 ||
                   (protocol != MR_IP_ICMP && dice(2));
        struct frame f = frame_make(ip6, (int)dice(3), protocol, 8 * dice(3),
                                    20 + dice(600), dice(7));
        uint32_t cut = dice(2) ? dice(40) : 255;

        assert_int_equal(
            checksum(&f, cut, MR_CHECKSUM_IP4 | MR_CHECKSUM_L4), 1);
        assert_int_equal(frame_l4_sum(&f), 0xffff);
        if (!ip6)
            assert_int_equal(slow_sum(f.bytes + f.l3, f.l4 - f.l3, 0),
                             0xffff);
    }
}

static void
RFC768_udp_sum_of_zero_is_sent_as_ffff(void **state)
{
    struct frame f = frame_make(false, 0, MR_IP_UDP, 0, 10, 0);
    uint16_t sum;

    (void)state;
    /* Choose the payload so that the field becomes zero. */
    memset(f.bytes + f.l4 + 6, 0, 4);
    sum = (uint16_t)~frame_l4_sum(&f);
    mr_put16(f.bytes + f.l4 + 8, sum);
    assert_int_equal(checksum(&f, 255, MR_CHECKSUM_L4), 1);
    assert_int_equal(mr_get16(f.bytes + f.l4 + 6), 0xffff);
}

static void
only_what_is_asked_for_is_written(void **state)
{
    struct frame f = frame_make(false, 1, MR_IP_TCP, 0, 60, 0);
    struct frame g = f;
    struct frame h = f;

    (void)state;
    assert_int_equal(checksum(&g, 255, MR_CHECKSUM_IP4), 1);
    assert_memory_equal(g.bytes + g.l4, f.bytes + f.l4, f.l4_len);
    assert_int_equal(checksum(&h, 255, MR_CHECKSUM_L4), 1);
    assert_memory_equal(h.bytes, f.bytes, f.l4);
    assert_int_equal(checksum(&f, 255, 0), 0);
}

static void
untouched(struct frame *f)
{
    struct frame before = *f;

    assert_int_equal(checksum(f, dice(2) ? 255 : 7,
                              MR_CHECKSUM_IP4 | MR_CHECKSUM_L4), 0);
    assert_memory_equal(f->bytes, before.bytes, f->len);
}

static void
fragments_are_left_alone(void **state)
{
    static const uint16_t fields[] = {0x2000, 0x0001, 0x3fff};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct frame f = frame_make(false, 0, MR_IP_UDP, 0, 100, 0);

        mr_put16(f.bytes + f.l3 + 6, fields[i]);
        untouched(&f);
    }
    for (int i = 0; i < 2; i++) {
        struct frame f = frame_make(true, 0, MR_IP_UDP, 8, 100, 0);

        f.bytes[f.l3 + 6] = 44;
        mr_put16(f.bytes + f.l3 + 42, i ? 8 : 1);
        untouched(&f);
    }
}

static void
headers_that_lie_are_left_alone(void **state)
{
    struct frame ok = frame_make(false, 0, MR_IP_UDP, 0, 30, 0);
    struct frame f;

    (void)state;
    f = ok;
    mr_put16(f.bytes + f.l3 + 2, (uint16_t)(20 + 31)); /* beyond the packet */
    untouched(&f);
    f = ok;
    f.bytes[f.l3] = 0x44; /* header below 20 bytes */
    untouched(&f);
    f = ok;
    f.bytes[f.l3] = 0x4f; /* header longer than the packet says */
    untouched(&f);
    f = ok;
    f.bytes[f.l3] = 0x55;
    untouched(&f);
    f = frame_make(true, 0, MR_IP_TCP, 8, 30, 0);
    f.bytes[f.l4 - 7] = 255; /* extension header beyond the packet */
    untouched(&f);
}

static void
N58_sctp_gets_no_internet_checksum(void **state)
{
    struct frame f = frame_make(true, 0, 132, 0, 60, 0);

    (void)state;
    untouched(&f);
}

/* For the sanitizers: any bytes, any cut, any length. */
static void
hostile_bytes_stay_inside_the_packet(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct frame f =
            frame_make(dice(2), (int)dice(3), (uint8_t)dice(64), 8 * dice(4),
                       dice(100), 0);

        for (uint32_t i = dice(5); i; i--)
            f.bytes[12 + dice(60)] = (uint8_t)dice(256);
        f.len = dice(f.len + 1);
        checksum(&f, dice(3) ? 0 : 200, MR_CHECKSUM_IP4 | MR_CHECKSUM_L4);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(N59_sum_over_odd_segments_equals_flat_sum),
        cmocka_unit_test(sum_past_the_end_takes_what_is_there),
        cmocka_unit_test(sum_of_all_ones_does_not_lose_carries),
        cmocka_unit_test(RFC1624_replaced_word_equals_new_sum),
        cmocka_unit_test(every_protocol_tag_and_cut_gets_valid_checksums),
        cmocka_unit_test(RFC768_udp_sum_of_zero_is_sent_as_ffff),
        cmocka_unit_test(only_what_is_asked_for_is_written),
        cmocka_unit_test(fragments_are_left_alone),
        cmocka_unit_test(headers_that_lie_are_left_alone),
        cmocka_unit_test(N58_sctp_gets_no_internet_checksum),
        cmocka_unit_test(hostile_bytes_stay_inside_the_packet),
    };

    return cmocka_run_group_tests(tests, pool_setup, pool_teardown);
}
