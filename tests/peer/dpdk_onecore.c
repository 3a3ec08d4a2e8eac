/* DPDK's two ends on one core: librte_vhost as the device, net_virtio_user as
 * the driver, one socket between them, one thread that serves both in turn.
 * What `moonring bench onecore --peer dpdk` compares with.
 *
 *   dpdk_onecore [packed=0|1] [mrg=0|1] [in_order=0|1] [vec=0|1] [ring=256]
 *                [burst=32] [frame=64] [count=BURST] [huge=0|1]
 *
 * First it says what it got, one JSON object: the functions that the driver
 * chose and the features. Then it answers each line of its
 * input with one of JSON; what fails is {"error": text}, and its end.
 *
 *   run chunks=40 bursts=512    ticks of the time stamp counter a packet, in
 *                               total and, from chunks of their own, for each
 *                               step: the least and the quartiles over the
 *                               chunks, and the best; packets moved and lost
 *   quit                        ends it, as the end of input does
 *
 * `count` packets circle: driver rx, driver tx, device rx, device tx. They are
 * packets as DPDK's applications have them: dequeue allocates, after enqueue
 * they are freed, the driver refills its ring from a pool.
 *
 * Owner: the main thread. DPDK's own vhost thread answers the handshake and
 * sleeps afterwards; `ready` is how it tells that the rings run. */
#include <errno.h>
#include <linux/virtio_net.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_version.h>
#include <rte_vhost.h>

#include "peer/dpdk_figures.h"

enum {
    BURST_MAX = 256,
    CHUNKS_MAX = 100000,
    POOL_LEAST = 8192,
    POOL_CACHE = 250,
    PACKET_BYTES = 2560, /* in a pool, everything included */
    SPARE_MB = 64,
    TO_DRIVER = 0, /* receiveq */
    TO_DEVICE = 1, /* transmitq */
    READY_MS = 10000,
    PLAIN_MTU = 1500,
};

/* What the command line may say. X(name, default, least, most). */
#define OPTIONS(X)                                                             \
    X(packed, 0, 0, 1)                                                         \
    X(mrg, 0, 0, 1)                                                            \
    X(in_order, 0, 0, 1)                                                       \
    X(vec, 0, 0, 1)                                                            \
    X(ring, 256, 4, 32768)                                                     \
    X(burst, 32, 1, BURST_MAX)                                                 \
    X(frame, 64, 60, 9000)                                                     \
    X(count, 0, 0, 32768)                                                      \
    X(huge, 0, 0, 1)

/* What `run` may say. */
#define RUN_OPTIONS(X)                                                         \
    X(chunks, 40, 1, CHUNKS_MAX)                                               \
    X(bursts, 512, 1, 10000000)

#define MEMBER(name, usual, least, most) long name;
struct options {
    OPTIONS(MEMBER)
};
struct run_options {
    RUN_OPTIONS(MEMBER)
};

struct word {
    const char *name;
    size_t offset;
    long usual, least, most;
};

#define WORD(type, name, usual, least, most)                                   \
    {#name, offsetof(type, name), usual, least, most},
#define OPTION_WORD(...) WORD(struct options, __VA_ARGS__)
#define RUN_WORD(...)    WORD(struct run_options, __VA_ARGS__)
static const struct word option_words[] = {OPTIONS(OPTION_WORD){0}};
static const struct word run_words[] = {RUN_OPTIONS(RUN_WORD){0}};

static struct {
    struct options o;
    char dir[64], path[96];
    char *log; /* of DPDK, for what the driver chose and for errors */
    size_t log_len;
    FILE *log_file;
    uint16_t port;
    struct rte_mempool *driver_pool, *device_pool;
    int vid;
    int ready;                        /* 1 once the device may be used */
    struct rte_mbuf *held[BURST_MAX]; /* for driver tx: nheld of them */
    uint32_t nheld;
    uint64_t lost;
} it;

static void
clean_up(void)
{
    if (it.path[0])
        unlink(it.path);
    if (it.dir[0])
        rmdir(it.dir);
    it.path[0] = it.dir[0] = '\0';
}

/* Says what went wrong, DPDK's own words on stderr, and ends. */
static __rte_noreturn void
die(const char *format, ...)
{
    va_list args;

    printf("{\"error\": \"");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\"}\n");
    fflush(stdout);
    if (it.log_file && !fflush(it.log_file) && it.log)
        fputs(it.log, stderr);
    exit(1);
}

static bool
word_set(const struct word *words, void *values, const char *text)
{
    size_t len = strcspn(text, "=");
    char *end;
    long v;

    if (text[len] != '=')
        return false;
    v = strtol(text + len + 1, &end, 10);
    for (; words->name; words++) {
        if (strlen(words->name) != len || strncmp(words->name, text, len))
            continue;
        if (*end || v < words->least || v > words->most)
            return false;
        *(long *)((char *)values + words->offset) = v;
        return true;
    }
    return false;
}

static void
words_usual(const struct word *words, void *values)
{
    for (; words->name; words++)
        *(long *)((char *)values + words->offset) = words->usual;
}

static void
read_options(int argc, char **argv)
{
    words_usual(option_words, &it.o);
    for (int i = 1; i < argc; i++)
        if (!word_set(option_words, &it.o, argv[i]))
            die("'%s' is no option, or out of range", argv[i]);
    if (!it.o.count)
        it.o.count = it.o.burst;
    if (it.o.count > it.o.ring)
        die("%ld packets do not fit a ring of %ld", it.o.count, it.o.ring);
}

/* ---- DPDK's environment ----------------------------------------------- */

static int
first_cpu(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set))
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            return cpu;
    return 0;
}

/* Of each pool: both rings full, and some in the hands of whoever works. */
static unsigned
pool_packets(void)
{
    return (unsigned)RTE_MAX(POOL_LEAST, 2 * it.o.ring + 4096);
}

static unsigned
megabytes(void)
{
    return SPARE_MB +
           2 * (unsigned)(((size_t)pool_packets() * PACKET_BYTES) >> 20);
}

static void
start_eal(void)
{
    static char lcores[32], memory[32];
    char *argv[16] = {"dpdk_onecore",
                      lcores,
                      "--no-pci",
                      "--no-telemetry",
                      "--iova-mode=va",
                      "--single-file-segments",
                      "--log-level=lib.*:error",
                      "--log-level=pmd.net.virtio.init:info",
                      "-m",
                      memory};
    int n = 10;

    if (it.o.huge) {
        argv[n++] = "--in-memory";
    } else {
        argv[n++] = "--no-huge";
        argv[n++] = "--no-shconf";
    }
    if (it.o.vec)
        argv[n++] = "--force-max-simd-bitwidth=512";
    snprintf(memory, sizeof(memory), "%u", megabytes());
    snprintf(lcores, sizeof(lcores), "--lcores=0@%d", first_cpu());
    it.log_file = open_memstream(&it.log, &it.log_len);
    if (!it.log_file || rte_openlog_stream(it.log_file))
        die("no log");
    if (rte_eal_init(n, argv) < 0)
        die("DPDK does not start: %s", rte_strerror(rte_errno));
}

/* As rte_pktmbuf_pool_create, but for NO_IOVA_CONTIG: nothing here needs
 * addresses of a bus. Without it and without huge pages each packet has a page
 * of its own, all of them in the same cache sets, and takes 1.4 times as
 * long. */
static struct rte_mempool *
make_pool(const char *name)
{
    struct rte_pktmbuf_pool_private data = {.mbuf_data_room_size =
                                                RTE_MBUF_DEFAULT_BUF_SIZE};
    struct rte_mempool *pool = rte_mempool_create_empty(
        name, pool_packets(),
        sizeof(struct rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE, POOL_CACHE,
        sizeof(data), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);

    if (!pool ||
        rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL))
        die("no pool: %s", rte_strerror(rte_errno));
    rte_pktmbuf_pool_init(pool, &data);
    if (rte_mempool_populate_default(pool) < 0)
        die("no memory for %u packets: %s", pool_packets(),
            rte_strerror(rte_errno));
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
    return pool;
}

/* ---- Both ends --------------------------------------------------------- */

/* In DPDK's vhost thread. */
static int
on_device(int vid)
{
    it.vid = vid;
    __atomic_store_n(&it.ready, 1, __ATOMIC_RELEASE);
    return 0;
}

static void
on_gone(int vid)
{
    (void)vid;
    __atomic_store_n(&it.ready, 0, __ATOMIC_RELEASE);
}

static const struct rte_vhost_device_ops device_ops = {
    .new_device = on_device,
    .destroy_device = on_gone,
};

/* As net_vhost sets up its device: no segmentation offloads. */
static void
start_device(void)
{
    const uint64_t off =
        1ull << VIRTIO_NET_F_HOST_TSO4 | 1ull << VIRTIO_NET_F_HOST_TSO6 |
        1ull << VIRTIO_NET_F_HOST_UFO | 1ull << VIRTIO_NET_F_GUEST_TSO4 |
        1ull << VIRTIO_NET_F_GUEST_TSO6 | 1ull << VIRTIO_NET_F_GUEST_UFO;

    snprintf(it.dir, sizeof(it.dir), "/tmp/dpdk-onecore-XXXXXX");
    if (!mkdtemp(it.dir))
        die("%s: %s", it.dir, strerror(errno));
    snprintf(it.path, sizeof(it.path), "%s/vhost.sock", it.dir);
    if (rte_vhost_driver_register(it.path,
                                  RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS) ||
        rte_vhost_driver_disable_features(it.path, off) ||
        rte_vhost_driver_callback_register(it.path, &device_ops) ||
        rte_vhost_driver_start(it.path))
        die("no vhost device at %s", it.path);
}

static void
start_driver(void)
{
    struct rte_eth_conf conf = {0};
    /* 0 is a quarter of the ring, at most 32; it must be a multiple of 4. */
    struct rte_eth_rxconf rx = {.rx_free_thresh =
                                    it.o.ring < 128 ? it.o.ring / 16 * 4 : 0};
    char args[256];
    uint16_t size = (uint16_t)it.o.ring;

    snprintf(args, sizeof(args),
             "path=%s,queues=1,queue_size=%ld,packed_vq=%ld,mrg_rxbuf=%ld,"
             "in_order=%ld,vectorized=%ld",
             it.path, it.o.ring, it.o.packed, it.o.mrg, it.o.in_order,
             it.o.vec);
    if (rte_eal_hotplug_add("vdev", "net_virtio_user0", args) ||
        rte_eth_dev_get_port_by_name("net_virtio_user0", &it.port))
        die("no driver with %s", args);
    conf.rxmode.mtu =
        (uint32_t)RTE_MAX(it.o.frame - RTE_ETHER_HDR_LEN, PLAIN_MTU);
    if (conf.rxmode.mtu > PLAIN_MTU) {
        conf.rxmode.offloads = rx.offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
        conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    }
    if (rte_eth_dev_configure(it.port, 1, 1, &conf) ||
        rte_eth_rx_queue_setup(it.port, 0, size, SOCKET_ID_ANY, &rx,
                               it.driver_pool) ||
        rte_eth_tx_queue_setup(it.port, 0, size, SOCKET_ID_ANY, NULL) ||
        rte_eth_dev_start(it.port))
        die("the driver does not start with %s", args);
}

static void
await_device(void)
{
    for (int i = 0; i < READY_MS; i++) {
        if (__atomic_load_n(&it.ready, __ATOMIC_ACQUIRE)) {
            rte_vhost_enable_guest_notification(it.vid, TO_DRIVER, 0);
            rte_vhost_enable_guest_notification(it.vid, TO_DEVICE, 0);
            return;
        }
        usleep(1000);
    }
    die("the rings did not start within %d s", READY_MS / 1000);
}

/* The driver's words on which function it uses, "standard Rx path" and so on:
 * the last in the log after `what`. */
static void
say_path(const char *key, const char *what)
{
    static const char before[] = "virtio: using ";
    char text[96] = "";

    fflush(it.log_file);
    for (const char *at = it.log; (at = strstr(at, before)) != NULL;) {
        size_t len;

        at += strlen(before);
        len = strcspn(at, "\n");
        if (len < sizeof(text) && memmem(at, len, what, strlen(what)))
            snprintf(text, sizeof(text), "%.*s",
                     (int)((const char *)memmem(at, len, what, strlen(what)) -
                           at - 1),
                     at);
    }
    printf(", \"%s\": \"%s\"", key, text);
}

static void
say_ready(void)
{
    uint64_t features = 0;

    rte_vhost_get_negotiated_features(it.vid, &features);
    printf("{\"ready\": true, \"version\": \"%s\", \"features\": \"0x%llx\"",
           rte_version(), (unsigned long long)features);
    say_path("rx_path", "Rx path");
    say_path("tx_path", "Tx path");
    printf("}\n");
    fflush(stdout);
}

/* ---- Measuring --------------------------------------------------------- */

/* A numbered broadcast frame of a type for experiments, in as many segments as
 * it takes. */
static struct rte_mbuf *
make_packet(uint32_t number)
{
    static const uint8_t ether[RTE_ETHER_HDR_LEN] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
    struct rte_mbuf *head = rte_pktmbuf_alloc(it.driver_pool), *m = head;

    for (long left = it.o.frame; m; m = rte_pktmbuf_alloc(it.driver_pool)) {
        long n = RTE_MIN(left, (long)rte_pktmbuf_tailroom(m));

        memset(rte_pktmbuf_append(m, (uint16_t)n), 0, (size_t)n);
        if (m == head) {
            memcpy(rte_pktmbuf_mtod(m, char *), ether, sizeof(ether));
            memcpy(rte_pktmbuf_mtod(m, char *) + sizeof(ether), &number,
                   sizeof(number));
        } else if (rte_pktmbuf_chain(head, m)) {
            break;
        }
        left -= n;
        if (!left)
            return head;
    }
    die("no packet of %ld bytes", it.o.frame);
}

/* Puts the packets that circle into the driver's hands. */
static void
make_packets(void)
{
    for (long i = 0; i < it.o.count; i++) {
        struct rte_mbuf *m = make_packet((uint32_t)i);

        if (!rte_eth_tx_burst(it.port, 0, &m, 1))
            die("the driver does not take %ld packets", it.o.count);
    }
}

/* The clock, where steps are timed. */
static inline uint64_t
tick(bool steps)
{
    return steps ? rte_rdtsc() : 0;
}

/* One burst through all steps. Adds the ticks of each to ticks[], if `steps`.
 * Returns the packets that the device received. */
static __rte_always_inline uint32_t
turn(bool steps, uint64_t ticks[STEPS])
{
    struct rte_mbuf *m[BURST_MAX];
    const uint16_t burst = (uint16_t)it.o.burst;
    uint64_t t0 = tick(steps), t1, t2, t3, t4;
    uint16_t sent, got, given;

    if (!it.nheld)
        it.nheld = rte_eth_rx_burst(it.port, 0, it.held, burst);
    t1 = tick(steps);
    sent = rte_eth_tx_burst(it.port, 0, it.held, (uint16_t)it.nheld);
    it.nheld -= sent;
    if (it.nheld)
        memmove(it.held, it.held + sent, it.nheld * sizeof(it.held[0]));
    t2 = tick(steps);
    got = rte_vhost_dequeue_burst(it.vid, TO_DEVICE, it.device_pool, m, burst);
    t3 = tick(steps);
    given = rte_vhost_enqueue_burst(it.vid, TO_DRIVER, m, got);
    rte_pktmbuf_free_bulk(m, got);
    t4 = tick(steps);
    it.lost += got - given;
    ticks[DRIVER_RX] += t1 - t0;
    ticks[DRIVER_TX] += t2 - t1;
    ticks[DEVICE_RX] += t3 - t2;
    ticks[DEVICE_TX] += t4 - t3;
    return got;
}

/* So many bursts without a look at the clock. Returns the packets. */
static uint64_t
chunk_total(long bursts, double *total)
{
    uint64_t none[STEPS] = {0}, packets = 0, start = rte_rdtsc();

    for (long k = 0; k < bursts; k++)
        packets += turn(false, none);
    *total = (double)(rte_rdtsc() - start) / (double)packets;
    return packets;
}

/* The same with each step timed, into column `i`. */
static uint64_t
chunk_steps(long bursts, struct dpdk_figures *t, long i)
{
    uint64_t ticks[STEPS] = {0}, packets = 0;

    for (long k = 0; k < bursts; k++)
        packets += turn(true, ticks);
    for (int s = 0; s < STEPS; s++)
        t->row[s][i] = (double)ticks[s] / (double)packets;
    return packets;
}

static void
run(const struct run_options *o)
{
    double *values = calloc((size_t)o->chunks * (STEPS + 1), sizeof(*values));
    struct dpdk_figures t = {.chunks = o->chunks};
    uint64_t packets = 0, lost = it.lost, one, two;

    if (!values)
        die("no memory for %ld chunks", o->chunks);
    for (int s = 0; s <= STEPS; s++)
        t.row[s] = values + s * o->chunks;
    for (long i = 0; i < o->chunks; i++) {
        one = chunk_total(o->bursts, &t.row[STEPS][i]);
        two = chunk_steps(o->bursts, &t, i);
        if (!one || !two)
            die("no packet moved in a chunk");
        packets += one + two;
    }
    dpdk_figures_say(&t, packets, it.lost - lost);
    free(values);
}

static void
obey(char *line)
{
    struct run_options o;
    char *rest, *word = strtok_r(line, " \n", &rest);

    if (!word || strcmp(word, "run"))
        die("'%s' is neither run nor quit", word ? word : "");
    words_usual(run_words, &o);
    while ((word = strtok_r(NULL, " \n", &rest)) != NULL)
        if (!word_set(run_words, &o, word))
            die("'%s' is no option of run, or out of range", word);
    run(&o);
}

int
main(int argc, char **argv)
{
    char line[256];

    atexit(clean_up);
    read_options(argc, argv);
    start_eal();
    it.driver_pool = make_pool("driver");
    it.device_pool = make_pool("device");
    start_device();
    start_driver();
    await_device();
    clean_up(); /* the socket's file has served */
    say_ready();
    make_packets();
    while (fgets(line, sizeof(line), stdin) && strncmp(line, "quit", 4))
        obey(line);
    return 0;
}
