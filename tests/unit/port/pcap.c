/* port/pcap: files that others wrote are played, files that we write are read
 * by libpcap, and files that are damaged are errors with a text. */
#include "unit/pool.h"
#include "unit/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "port/tape.h"

static struct mr_burst burst = {.cap = MR_BURST_MAX};
static char dir[] = "/tmp/moonring-pcap-XXXXXX";

static int
setup(void **state)
{
    ports_setup(state);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    return pool_setup(state);
}

static int
teardown(void **state)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    return pool_teardown(state) || chdir("/") || system(command);
}

/* ---- Files, byte by byte ---------------------------------------------- */

static FILE *file;
static bool big; /* byte order of what is written */

static void
u32(uint32_t v)
{
    if (big)
        v = __builtin_bswap32(v);
    fwrite(&v, 4, 1, file);
}

static void
u16(uint16_t v)
{
    if (big)
        v = __builtin_bswap16(v);
    fwrite(&v, 2, 1, file);
}

static uint8_t
pattern(uint32_t packet, uint32_t at)
{
    return (uint8_t)(packet * 31 + at * 7 + at / 256);
}

static const uint8_t *
frame(uint32_t packet, uint32_t len)
{
    static uint8_t bytes[1 << 17];

    for (uint32_t i = 0; i < len; i++)
        bytes[i] = pattern(packet, i);
    return bytes;
}

static void
pcap_begin(const char *name, uint32_t magic, uint32_t link)
{
    file = fopen(name, "wb");
    u32(magic);
    u16(2);
    u16(4);
    u32(0);
    u32(0);
    u32(262144);
    u32(link);
}

static void
pcap_packet(uint32_t i, uint32_t len)
{
    u32(1700000000 + i);
    u32(i);
    u32(len);
    u32(len);
    fwrite(frame(i, len), len, 1, file);
}

static void
ng_begin(const char *name, uint16_t link)
{
    file = fopen(name, "wb");
    u32(0x0a0d0d0a);
    u32(28);
    u32(0x1a2b3c4d);
    u16(1);
    u16(0);
    u32(UINT32_MAX);
    u32(UINT32_MAX);
    u32(28);
    u32(1); /* interface */
    u32(20);
    u16(link);
    u16(0);
    u32(0);
    u32(20);
}

/* simple: a block that has no time. */
static void
ng_packet(uint32_t i, uint32_t len, bool simple)
{
    uint32_t pad = -len & 3;
    uint32_t total = (simple ? 16 : 32) + len + pad;

    u32(simple ? 3 : 6);
    u32(total);
    if (!simple) {
        u32(0);
        u32(0x5e000);
        u32(i);
        u32(len);
    }
    u32(len);
    fwrite(frame(i, len), len, 1, file);
    fwrite("\0\0\0", pad, 1, file);
    u32(total);
}

static void
end(void)
{
    assert_int_equal(fclose(file), 0);
}

/* ---- Playing ---------------------------------------------------------- */

static struct mr_port *
play(const char *name, uint32_t loops)
{
    struct mr_pcap_options o = {.read = name, .loops = loops, .pool = pool};
    struct mr_port *port;

    assert_int_equal(mr_pcap_open(&o, &port), 0);
    return port;
}

static uint32_t
len_of(uint32_t i)
{
    static const uint32_t len[] = {60, 14, 1514, 256, 257, 9000, 65549};

    return len[i % 7];
}

/* Packets 0..n) of len_of bytes, `times` times, then nothing. */
static void
assert_plays(struct mr_port *port, uint32_t n, uint32_t times)
{
    struct mr_queue *q = mr_port_queue(port, MR_RX, 0);
    uint32_t at = 0;

    burst.cap = 5;
    while (mr_queue_try_recv(q, &burst))
        for (uint32_t i = 0; i < burst.n; i++, at++)
            assert_pkt_equal(burst.pkt[i], frame(at % n, len_of(at % n)),
                             len_of(at % n));
    assert_int_equal(at, n * times);
    assert_int_equal(mr_queue_counters(q)->packets, n * times);
    assert_int_equal(mr_queue_up(q), 0);
    assert_int_equal(mr_port_up(port), 0);
    burst.cap = MR_BURST_MAX;
}

static void
every_format_is_played(void **state)
{
    static const uint32_t magics[] = {0xa1b2c3d4, 0xa1b23c4d, 0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct mr_port *port;

        big = i & 1;
        if (magics[i / 2])
            pcap_begin("in", magics[i / 2], 1);
        else
            ng_begin("in", 1);
        for (uint32_t p = 0; p < 14; p++) {
            if (magics[i / 2])
                pcap_packet(p, len_of(p));
            else
                ng_packet(p, len_of(p), p & 1);
        }
        end();
        port = play("in", 0);
        assert_int_equal(mr_port_up(port), 1);
        assert_plays(port, 14, 1);
        assert_int_equal(mr_port_close(port), 0);
    }
    big = false;
}

static void
loops_play_it_again(void **state)
{
    struct mr_port *port;

    (void)state;
    pcap_begin("in", 0xa1b2c3d4, 1);
    for (uint32_t p = 0; p < 3; p++)
        pcap_packet(p, len_of(p));
    end();
    port = play("in", 1);
    assert_plays(port, 3, 1);
    assert_int_equal(mr_port_close(port), 0);
    port = play("in", 40);
    assert_plays(port, 3, 40);
    assert_int_equal(mr_port_close(port), 0);
    port = play("in", UINT32_MAX);
    for (int i = 0; i < 100; i++)
        assert_int_equal(
            mr_queue_try_recv(mr_port_queue(port, MR_RX, 0), &burst), 256);
    mr_burst_free(&burst);
    assert_int_equal(mr_port_close(port), 0);
}

/* A file that does not fit into memory is read as it plays. */
static void
long_files_are_streamed(void **state)
{
    enum { N = 1100, LEN = 65549 };
    struct mr_port *port;
    struct mr_queue *q;
    uint32_t at = 0;

    (void)state;
    pcap_begin("long", 0xa1b2c3d4, 1);
    for (uint32_t p = 0; p < N; p++)
        pcap_packet(p, LEN);
    end();
    assert_true((uint64_t)N * LEN > MR_TAPE_MEMORY);
    port = play("long", 2);
    q = mr_port_queue(port, MR_RX, 0);
    burst.cap = 3;
    while (mr_queue_try_recv(q, &burst))
        for (uint32_t i = 0; i < burst.n; i++, at++) {
            uint8_t last;

            mr_pkt_read(burst.pkt[i], LEN - 1, &last, 1);
            assert_int_equal(last, pattern(at % N, LEN - 1));
        }
    assert_int_equal(at, 2 * N);
    burst.cap = MR_BURST_MAX;
    assert_int_equal(mr_port_close(port), 0);

    port = play("long", UINT32_MAX); /* somebody cuts it while it plays */
    q = mr_port_queue(port, MR_RX, 0);
    burst.cap = 3;
    assert_int_equal(mr_queue_try_recv(q, &burst), 3);
    assert_int_equal(truncate("long", 1000000), 0);
    for (int i = 0; i < 100; i++)
        mr_queue_try_recv(q, &burst);
    assert_int_equal(burst.n, 0);
    assert_int_equal(mr_queue_up(q), 0);
    burst.cap = MR_BURST_MAX;
    assert_int_equal(mr_port_close(port), 0);
    unlink("long");
}

static void
frames_that_cannot_be_packets_are_counted(void **state)
{
    struct mr_port *port;
    struct mr_queue *q;

    (void)state;
    pcap_begin("in", 0xa1b2c3d4, 1);
    pcap_packet(0, 13);
    pcap_packet(1, 60);
    pcap_packet(2, 0);
    pcap_packet(3, MR_FRAME_MAX + 1);
    pcap_packet(4, MR_FRAME_MAX);
    end();
    port = play("in", UINT32_MAX);
    q = mr_port_queue(port, MR_RX, 0);
    burst.cap = 5;
    assert_int_equal(mr_queue_try_recv(q, &burst), 2);
    burst.cap = MR_BURST_MAX;
    assert_pkt_equal(burst.pkt[0], frame(1, 60), 60);
    assert_pkt_equal(burst.pkt[1], frame(4, MR_FRAME_MAX), MR_FRAME_MAX);
    mr_burst_free(&burst);
    assert_int_equal(mr_queue_counters(q)->skipped, 2);
    assert_int_equal(mr_queue_counters(q)->oversize, 1);
    assert_int_equal(mr_port_close(port), 0);
}

static void
a_short_pool_loses_no_frame(void **state)
{
    struct mr_pcap_options o = {.read = "in"};
    struct mr_port *port;
    struct mr_queue *q;

    (void)state;
    pcap_begin("in", 0xa1b2c3d4, 1);
    for (uint32_t p = 0; p < 14; p++)
        pcap_packet(p, len_of(p));
    end();
    o.pool = pool_new(40, 2048); /* the longest frame takes 33 of them */
    assert_int_equal(mr_pcap_open(&o, &port), 0);
    q = mr_port_queue(port, MR_RX, 0);
    assert_plays(port, 14, 1);
    assert_true(mr_queue_counters(q)->nobuf > 0);
    assert_int_equal(mr_port_close(port), 0);
    pool_end(o.pool);
}

static void
refused(const char *name, int code, const char *word)
{
    struct mr_pcap_options o = {.read = name, .pool = pool};
    struct mr_port *port;

    assert_int_equal(mr_pcap_open(&o, &port), code);
    assert_non_null(strstr(mr_error_text(), word));
    assert_non_null(strstr(mr_error_text(), name));
}

static void
bad_files_are_errors_with_a_text(void **state)
{
    static const char text[] = "this is no capture, whatever it is called";

    (void)state;
    refused("missing", -ENOENT, "ENOENT");
    refused(".", -EINVAL, "regular");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    refused("fifo", -EINVAL, "regular");
    refused("/dev/null", -EINVAL, "regular");
    file = fopen("bad", "wb");
    fwrite(text, sizeof(text), 1, file);
    end();
    refused("bad", -EINVAL, "no capture");
    file = fopen("bad", "wb");
    end();
    refused("bad", -EINVAL, "no capture");
    pcap_begin("bad", 0xa1b2c3d4, 113); /* Linux cooked */
    end();
    refused("bad", -EINVAL, "LINUX_SLL");
    ng_begin("bad", 101); /* raw IP */
    ng_packet(0, 60, false);
    end();
    refused("bad", -EINVAL, "Ethernet");
}

static void
truncated_files_are_errors_that_tell_where(void **state)
{
    (void)state;
    for (int ng = 0; ng < 2; ng++) {
        struct stat st;

        if (ng)
            ng_begin("bad", 1);
        else
            pcap_begin("bad", 0xa1b2c3d4, 1);
        for (uint32_t p = 0; p < 3; p++) {
            if (ng)
                ng_packet(p, 100, false);
            else
                pcap_packet(p, 100);
        }
        end();
        assert_int_equal(stat("bad", &st), 0);
        assert_int_equal(truncate("bad", st.st_size - 50), 0);
        refused("bad", -EINVAL, "after packet 2");
    }
}

static void
an_empty_capture_ends_at_once(void **state)
{
    struct mr_port *port;

    (void)state;
    pcap_begin("in", 0xa1b2c3d4, 1);
    end();
    port = play("in", UINT32_MAX);
    assert_plays(port, 1, 0);
    assert_int_equal(mr_port_close(port), 0);
}

/* ---- Recording -------------------------------------------------------- */

static struct mr_port *
record(const char *name, int pcapng, uint32_t snap)
{
    struct mr_pcap_options o = {.write = name, .pcapng = pcapng, .snap = snap};
    struct mr_port *port;

    assert_int_equal(mr_pcap_open(&o, &port), 0);
    return port;
}

static void
send_frames(struct mr_port *port, uint32_t first, uint32_t n)
{
    struct mr_queue *q = mr_port_queue(port, MR_TX, 0);

    for (uint32_t i = first; i < first + n; i++)
        burst.pkt[burst.n++] =
            pkt_make(pool, frame(i, len_of(i)), len_of(i), 255);
    assert_int_equal(mr_queue_send(q, &burst, 0), n);
}

static uint64_t
wall(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void
assert_recorded(const char *name, uint32_t n, uint32_t snap, uint64_t since)
{
    char error[PCAP_ERRBUF_SIZE];
    pcap_t *p = pcap_open_offline_with_tstamp_precision(
        name, PCAP_TSTAMP_PRECISION_NANO, error);
    struct pcap_pkthdr *h;
    const uint8_t *bytes;
    uint64_t now = wall();

    assert_non_null(p);
    assert_int_equal(pcap_datalink(p), DLT_EN10MB);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = len_of(i);
        uint64_t at;

        assert_int_equal(pcap_next_ex(p, &h, &bytes), 1);
        assert_int_equal(h->len, len);
        len = snap && len > snap ? snap : len;
        assert_int_equal(h->caplen, len);
        assert_memory_equal(bytes, frame(i, len_of(i)), len);
        at = (uint64_t)h->ts.tv_sec * 1000000000 + (uint64_t)h->ts.tv_usec;
        assert_in_range(at, since, now);
    }
    assert_int_equal(pcap_next_ex(p, &h, &bytes), PCAP_ERROR_BREAK);
    pcap_close(p);
}

static void
both_formats_are_written_whole_and_in_nanoseconds(void **state)
{
    (void)state;
    for (int ng = 0; ng < 2; ng++)
        for (uint32_t snap = 0; snap <= 100; snap += 50) {
            uint64_t since = wall();
            struct mr_port *port = record("out", ng, snap);
            struct mr_queue *q = mr_port_queue(port, MR_TX, 0);

            assert_null(mr_port_pool(port));
            assert_recorded("out", 0, snap, since);
            send_frames(port, 0, 7);
            assert_recorded("out", 7, snap, since); /* while it is open */
            send_frames(port, 7, 14);
            assert_int_equal(mr_queue_counters(q)->packets, 21);
            assert_int_equal(mr_port_close(port), 0);
            assert_recorded("out", 21, snap, since);
        }
}

static void
what_we_write_we_play(void **state)
{
    (void)state;
    for (int ng = 0; ng < 2; ng++) {
        struct mr_port *port = record("out", ng, 0);

        send_frames(port, 0, 14);
        assert_int_equal(mr_port_close(port), 0);
        port = play("out", 3);
        assert_plays(port, 14, 3);
        assert_int_equal(mr_port_close(port), 0);
    }
}

static void
a_full_disk_drops_and_is_counted(void **state)
{
    struct mr_pcap_options o = {.write = "/dev/full"};
    struct mr_port *port;
    struct mr_queue *q;

    (void)state;
    assert_int_equal(mr_pcap_open(&o, &port), -ENOSPC);
    /* A limit on the file's size, reached in the middle of a record. */
    port = record("out", 0, 0);
    q = mr_port_queue(port, MR_TX, 0);
    send_frames(port, 0, 2);
    {
        struct rlimit limit = {1000, RLIM_INFINITY};
        struct rlimit before;

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before);
        limit.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
        for (uint32_t i = 2; i < 5; i++)
            burst.pkt[burst.n++] =
                pkt_make(pool, frame(i, len_of(i)), len_of(i), 255);
        assert_int_equal(mr_queue_send(q, &burst, 0), 3);
        setrlimit(RLIMIT_FSIZE, &before);
    }
    assert_int_equal(mr_queue_counters(q)->packets, 2);
    assert_int_equal(mr_queue_counters(q)->full, 3);
    assert_int_equal(mr_port_close(port), 0);
    assert_recorded("out", 2, 0, 0); /* cut between two packets */
}

static void
the_file_that_is_read_is_not_overwritten(void **state)
{
    struct mr_pcap_options o = {.read = "in", .write = "link", .pool = pool};
    struct mr_port *port;

    (void)state;
    pcap_begin("in", 0xa1b2c3d4, 1);
    pcap_packet(0, 60);
    end();
    assert_int_equal(symlink("in", "link"), 0);
    assert_int_equal(mr_pcap_open(&o, &port), -EINVAL);
    o.write = "in";
    assert_int_equal(mr_pcap_open(&o, &port), -EINVAL);
    port = play("in", 0);
    assert_plays(port, 1, 1);
    assert_int_equal(mr_port_close(port), 0);
}

static void
bad_targets_are_errors(void **state)
{
    struct mr_pcap_options o = {0};
    struct mr_port *port;

    (void)state;
    assert_int_equal(mr_pcap_open(&o, &port), -EINVAL);
    o.write = "no/such/dir";
    assert_int_equal(mr_pcap_open(&o, &port), -ENOENT);
    o.write = ".";
    assert_int_equal(mr_pcap_open(&o, &port), -EISDIR);
    o.write = "fifo"; /* without a reader */
    assert_true(mr_pcap_open(&o, &port) < 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_played),
        cmocka_unit_test(loops_play_it_again),
        cmocka_unit_test(long_files_are_streamed),
        cmocka_unit_test(frames_that_cannot_be_packets_are_counted),
        cmocka_unit_test(a_short_pool_loses_no_frame),
        cmocka_unit_test(bad_files_are_errors_with_a_text),
        cmocka_unit_test(truncated_files_are_errors_that_tell_where),
        cmocka_unit_test(an_empty_capture_ends_at_once),
        cmocka_unit_test(both_formats_are_written_whole_and_in_nanoseconds),
        cmocka_unit_test(what_we_write_we_play),
        cmocka_unit_test(a_full_disk_drops_and_is_counted),
        cmocka_unit_test(the_file_that_is_read_is_not_overwritten),
        cmocka_unit_test(bad_targets_are_errors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
