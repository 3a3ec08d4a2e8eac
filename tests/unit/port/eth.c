/* port/eth: DPDK devices come and go by their devargs and packets pass both
 * ways: net_null, net_ring and net_pcap anywhere, net_tap and net_af_packet
 * against a raw socket when the process may make interfaces. */
#include "unit/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

static struct mr_burst burst = {.cap = MR_BURST_MAX};

static int
open_device(const char *devargs, uint32_t pairs, struct mr_pool *pool,
            struct mr_port **port)
{
    struct mr_eth_options o = {
        .devargs = devargs, .pairs = pairs, .pool = pool};

    return mr_eth_open(&o, port);
}

static void
refused(const char *devargs, int code, const char *word)
{
    struct mr_port *port;

    assert_int_equal(open_device(devargs, 1, NULL, &port), code);
    assert_non_null(strstr(mr_error_text(), word));
}

static void
bad_devargs_are_errors_that_name_the_cure(void **state)
{
    char text[300];

    (void)state;
    refused(NULL, -EINVAL, "devargs");
    refused("", -EINVAL, "devargs");
    memset(text, 'x', 299);
    text[299] = 0;
    refused(text, -EINVAL, "devargs");
    refused("net_nosuch0", -ENODEV, "net_nosuch0");
    refused("nonsense", -ENODEV, "net_tap0");
    refused("net_null0,nosuch=1", geteuid() ? -EACCES : -ENODEV, "arguments");
}

static void
a_device_has_one_port_and_is_free_after_it(void **state)
{
    struct mr_port *a, *b;

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(open_device("net_null0", 1, NULL, &a), 0);
        assert_int_equal(open_device("net_null0,size=60", 1, NULL, &b),
                         -EBUSY);
        assert_int_equal(open_device("net_null1", 1, NULL, &b), 0);
        assert_int_equal(mr_port_close(b), 0);
        assert_int_equal(mr_port_close(a), 0);
    }
}

static void
more_queues_than_the_device_has_are_refused(void **state)
{
    struct mr_port *port;

    (void)state;
    assert_int_equal(open_device("net_pcap0,tx_pcap=/dev/null", 100, NULL,
                                 &port), -EINVAL);
    assert_non_null(strstr(mr_error_text(), "100"));
    /* And the device is not left plugged. */
    assert_int_equal(open_device("net_null0", 1, NULL, &port), 0);
    assert_int_equal(mr_port_close(port), 0);
}

static void
null_device_sends_receives_and_counts(void **state)
{
    struct mr_pool *pool = pool_new(4096, 2048);
    struct mr_port *port;
    struct mr_queue *rx, *tx;

    (void)state;
    assert_int_equal(open_device("net_null0,size=100", 1, pool, &port), 0);
    assert_ptr_equal(mr_port_pool(port), pool);
    assert_int_equal(mr_port_up(port), 1);
    rx = mr_port_queue(port, MR_RX, 0);
    tx = mr_port_queue(port, MR_TX, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mr_queue_recv(rx, &burst, 1000), MR_BURST_MAX);
        assert_int_equal(burst.pkt[255]->pkt_len, 100);
        assert_int_equal(mr_queue_send(tx, &burst, 1000), MR_BURST_MAX);
    }
    assert_int_equal(mr_queue_counters(rx)->packets, 25600);
    assert_int_equal(mr_queue_counters(rx)->bytes, 2560000);
    assert_int_equal(mr_queue_counters(tx)->packets, 25600);
    assert_int_equal(mr_queue_counters(tx)->bytes, 2560000);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(pool);
}

/* net_ring0 is wired to itself and passes packets on as they are. */
static void
ring_device_returns_the_packets_and_leaks_none(void **state)
{
    struct mr_pool *pool = pool_new(4096, 256);
    struct mr_port *port;
    struct mr_queue *rx, *tx;
    uint8_t bytes[1000];

    (void)state;
    for (int i = 0; i < 1000; i++)
        bytes[i] = (uint8_t)(i * 3);
    assert_int_equal(open_device("net_ring0", 1, pool, &port), 0);
    rx = mr_port_queue(port, MR_RX, 0);
    tx = mr_port_queue(port, MR_TX, 0);
    burst.pkt[0] = pkt_make(pool, bytes, 200, 255);
    burst.n = 1;
    assert_int_equal(mr_queue_send(tx, &burst, 0), 1);
    assert_int_equal(mr_queue_recv(rx, &burst, 1000000), 1);
    assert_pkt_equal(burst.pkt[0], bytes, 200);
    assert_int_equal(mr_queue_counters(tx)->bytes, 200);
    assert_int_equal(mr_pool_alloc(pool, &burst, 100), 100);
    assert_int_equal(mr_queue_send(tx, &burst, 0), 100);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(pool);
}

static void
what_the_device_does_not_take_stays_ours(void **state)
{
    struct mr_pool *pool = pool_new(4096, 64);
    struct mr_port *port;
    struct mr_queue *tx;
    uint64_t sent = 0;

    (void)state;
    assert_int_equal(open_device("net_ring0", 1, pool, &port), 0);
    tx = mr_port_queue(port, MR_TX, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(mr_pool_alloc(pool, &burst, 256), 256);
        for (int k = 0; k < 256; k++)
            mr_pkt_set_len(burst.pkt[k], 60);
        sent += mr_queue_send(tx, &burst, 0);
    }
    assert_in_range(sent, 256, 2559); /* its ring is shorter */
    assert_int_equal(mr_queue_counters(tx)->packets, sent);
    assert_int_equal(mr_queue_counters(tx)->bytes, sent * 60);
    assert_int_equal(mr_queue_counters(tx)->full, 2560 - sent);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(pool);
}

/* ---- Against the kernel ----------------------------------------------- */

static void
need_interfaces(void)
{
    if (geteuid() == 0 && access("/dev/net/tun", R_OK | W_OK) == 0)
        return;
    print_message("this process may not make network interfaces\n");
    skip();
}

static int
raw_socket(const char *name)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(0x88b5),
                             .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(0x88b5));

    assert_true(fd >= 0);
    assert_int_not_equal(at.sll_ifindex, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static uint32_t
numbered_frame(uint8_t *bytes, uint32_t i)
{
    uint32_t len = 60 + i * 37 % 1400;

    for (uint32_t k = 0; k < len; k++)
        bytes[k] = (uint8_t)(i + k);
    memset(bytes, 0xff, 6);
    memcpy(bytes + 6, "\2\0\0\0\0\1\x88\xb5", 8);
    memcpy(bytes + 14, &i, 4);
    return len;
}

/* Frames of ours among what else the kernel sends (router solicitations). */
static uint32_t
take_ours(struct mr_queue *rx, uint32_t want)
{
    uint8_t bytes[1514], got[1514];
    uint32_t next = 0;

    while (next < want && mr_queue_recv(rx, &burst, 2000000))
        for (uint32_t i = 0; i < burst.n; i++) {
            uint32_t len = numbered_frame(bytes, next);

            mr_pkt_read(burst.pkt[i], 0, got, sizeof(got));
            if (memcmp(got + 12, "\x88\xb5", 2))
                continue;
            assert_pkt_equal(burst.pkt[i], bytes, len);
            next++;
        }
    mr_burst_free(&burst);
    return next;
}

/* Both ways between the port and the far end of the interface. */
static void
traffic(struct mr_port *port, const char *far_end)
{
    enum { N = 500 };
    struct mr_pool *pool = pool_new(1024, 2048);
    struct mr_queue *tx = mr_port_queue(port, MR_TX, 0);
    int fd = raw_socket(far_end);
    uint8_t bytes[1514], got[2048];

    for (uint32_t i = 0; i < N; i += 50) {
        for (uint32_t k = i; k < i + 50; k++)
            burst.pkt[burst.n++] =
                pkt_make(pool, bytes, numbered_frame(bytes, k), 700);
        assert_int_equal(mr_queue_send(tx, &burst, 1000000), 50);
        for (uint32_t k = i; k < i + 50; k++) {
            struct pollfd p = {fd, POLLIN, 0};

            assert_int_equal(poll(&p, 1, 2000), 1);
            assert_int_equal(recv(fd, got, sizeof(got), 0),
                             numbered_frame(bytes, k));
            assert_memory_equal(got, bytes, numbered_frame(bytes, k));
        }
    }
    assert_int_equal(mr_queue_counters(tx)->packets, N);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t len = numbered_frame(bytes, i);

        assert_int_equal(send(fd, bytes, len, 0), len);
    }
    assert_int_equal(take_ours(mr_port_queue(port, MR_RX, 0), 100), 100);
    close(fd);
    pool_end(pool);
}

static void
tap_device_exchanges_packets_with_the_kernel(void **state)
{
    struct mr_port_info info;
    struct mr_port *port;

    (void)state;
    need_interfaces();
    assert_int_equal(
        open_device("net_tap0,iface=mrtest0", 1, NULL, &port), 0);
    assert_int_equal(mr_port_up(port), 1);
    assert_int_equal(mr_port_info(port, &info), 0);
    assert_int_not_equal(info.mac[0] | info.mac[1] | info.mac[5], 0);
    traffic(port, "mrtest0");
    assert_int_equal(mr_port_close(port), 0);
    assert_int_equal(if_nametoindex("mrtest0"), 0);
}

static void
af_packet_device_exchanges_packets_over_veth(void **state)
{
    struct mr_port *port;

    (void)state;
    need_interfaces();
    assert_int_equal(
        system("ip link del mrtest1 2>/dev/null; "
               "ip link add mrtest1 type veth peer name mrtest2 && "
               "ip link set mrtest1 up && ip link set mrtest2 up"), 0);
    assert_int_equal(
        open_device("net_af_packet0,iface=mrtest1", 1, NULL, &port), 0);
    assert_int_equal(mr_port_up(port), 1);
    traffic(port, "mrtest2");
    assert_int_equal(mr_port_close(port), 0);
    assert_int_equal(system("ip link del mrtest1"), 0);
    assert_int_equal(open_device("net_af_packet0,iface=mrtest1", 1, NULL,
                                 &port), -ENODEV);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_devargs_are_errors_that_name_the_cure),
        cmocka_unit_test(a_device_has_one_port_and_is_free_after_it),
        cmocka_unit_test(more_queues_than_the_device_has_are_refused),
        cmocka_unit_test(null_device_sends_receives_and_counts),
        cmocka_unit_test(ring_device_returns_the_packets_and_leaks_none),
        cmocka_unit_test(what_the_device_does_not_take_stays_ours),
        cmocka_unit_test(tap_device_exchanges_packets_with_the_kernel),
        cmocka_unit_test(af_packet_device_exchanges_packets_over_veth),
    };

    return cmocka_run_group_tests(tests, ports_setup, NULL);
}
