/* An eth port: any device that DPDK has a driver for, named by its devargs
 * ("net_tap0", "net_af_packet0,iface=veth0", "0000:03:00.0"). The device is
 * plugged when the port opens and unplugged when it closes, so a process owns
 * no device that no script asked for.
 *
 * Owner: control thread plugs, configures, starts and stops; a worker calls
 * the driver's burst functions behind the gate. Queue i of the port is queue i
 * of the device, both ways.
 *
 * net_af_packet asks the kernel to put IPv4 fragments together, so frames
 * longer than the interface's MTU arrive there, and cannot leave again. */
#include <rte_dev.h>
#include <rte_ethdev.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "port/port.h"

enum { ETH_SIZE = 512, DRAIN = 4096 };

struct eth_port {
    struct mr_port port;
    uint16_t id;           /* of the device */
    bool chains;           /* the device sends packets of several segments */
    struct rte_device *device;
    char devargs[256];
};

static uint32_t
eth_rx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    struct eth_port *e = MR_CONTAINER(q->port, struct eth_port, port);

    n = rte_eth_rx_burst(e->id, q->index, (struct rte_mbuf **)pkts,
                         (uint16_t)n);
    mr_queue_count(q, n, mr_pkts_bytes(pkts, n));
    return n;
}

/* What was sent may be gone already; what was not is still ours. */
static uint32_t
send_plain(struct eth_port *e, struct mr_queue *q, struct mr_pkt **pkts,
           uint32_t n)
{
    uint64_t bytes = mr_pkts_bytes(pkts, n);
    uint32_t sent = rte_eth_tx_burst(e->id, q->index, (struct rte_mbuf **)pkts,
                                     (uint16_t)n);

    bytes -= mr_pkts_bytes(pkts + sent, n - sent);
    mr_queue_count(q, sent, bytes);
    return sent;
}

/* Packets in front that go as they are. */
static uint32_t
plain_run(const struct eth_port *e, struct mr_pkt **pkts, uint32_t n)
{
    uint32_t run = 0;

    while (run < n && (e->chains || pkts[run]->nb_segs == 1))
        run++;
    return run;
}

/* A driver without chains would send a chain's first segment alone. */
static uint32_t
eth_tx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    struct eth_port *e = MR_CONTAINER(q->port, struct eth_port, port);
    uint32_t done = 0;

    while (done < n) {
        uint32_t run = plain_run(e, pkts + done, n - done);
        uint32_t sent = run ? send_plain(e, q, pkts + done, run) : 0;

        done += sent;
        if (sent < run || done == n)
            break;
        mr_count(&q->counters.oversize, 1);
        mr_pkt_free(pkts[done++]);
    }
    return done;
}

static int
eth_up(const struct mr_port *port)
{
    const struct eth_port *e = MR_CONTAINER(port, struct eth_port, port);
    struct rte_eth_link link;

    return rte_eth_link_get_nowait(e->id, &link) == 0 &&
           link.link_status == RTE_ETH_LINK_UP;
}

static void
eth_info(const struct mr_port *port, struct mr_port_info *info)
{
    const struct eth_port *e = MR_CONTAINER(port, struct eth_port, port);
    struct rte_ether_addr mac;

    if (rte_eth_macaddr_get(e->id, &mac) == 0)
        memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
    info->connected = 1;
}

/* Some drivers (net_ring) keep what nobody received. */
static void
drain(struct eth_port *e)
{
    struct rte_mbuf *m[32];

    for (uint32_t q = 0; q < e->port.pairs; q++)
        for (int i = 0; i < DRAIN; i++) {
            uint16_t n = rte_eth_rx_burst(e->id, (uint16_t)q, m, 32);

            if (!n)
                break;
            mr_pkts_free((struct mr_pkt **)m, n);
        }
}

/* Undoes eth_plug. */
static void
eth_unplug(struct eth_port *e)
{
    rte_eth_dev_close(e->id);
    if (rte_dev_remove(e->device))
        mr_log(MR_LOG_WARN, "%s: DPDK keeps device '%s'", e->port.name,
               e->devargs);
}

static void
eth_close(struct mr_port *port)
{
    struct eth_port *e = MR_CONTAINER(port, struct eth_port, port);

    drain(e);
    rte_eth_dev_stop(e->id);
    eth_unplug(e);
    mr_port_fini(port);
    free(e);
}

static const struct mr_port_ops eth_ops = {
    .kind = MR_PORT_eth,
    .close = eth_close,
    .up = eth_up,
    .info = eth_info,
};

/* The device that the text names, RTE_MAX_ETHPORTS while it is not plugged. */
static uint16_t
find_device(const struct eth_port *e)
{
    struct rte_dev_iterator it;
    uint16_t id;

    if (rte_eth_iterator_init(&it, e->devargs))
        return RTE_MAX_ETHPORTS;
    id = rte_eth_iterator_next(&it);
    if (id != RTE_MAX_ETHPORTS)
        rte_eth_iterator_cleanup(&it); /* else done by the iterator */
    return id;
}

/* Drivers return a plain -1 as often as an errno; EFAULT is DPDK's word for a
 * text that no driver knows. */
static int
plug_error(const struct eth_port *e, int rc)
{
    bool root = geteuid() == 0;

    if (rc == -EFAULT)
        return mr_error_set(-ENODEV, "%s: no DPDK driver takes '%s': a device "
                            "is named like net_tap0, "
                            "net_af_packet0,iface=NAME or 0000:03:00.0",
                            e->port.name, e->devargs);
    if (rc >= 0 || rc == -1 || !root)
        rc = root ? -ENODEV : -EACCES;
    return mr_error_set(rc, "%s: DPDK cannot start device '%s' (%s): check "
                        "its arguments and that the interface exists%s",
                        e->port.name, e->devargs, mr_error_name(rc),
                        root ? "" : "; most devices need root");
}

static int
eth_plug(struct eth_port *e)
{
    struct rte_eth_dev_info info;
    int rc;

    if (find_device(e) != RTE_MAX_ETHPORTS)
        return mr_error_set(-EBUSY, "%s: device '%s' is in use by another "
                            "port: close that one or take another number",
                            e->port.name, e->devargs);
    rc = rte_dev_probe(e->devargs);
    if (rc)
        return plug_error(e, rc);
    e->id = find_device(e);
    if (e->id == RTE_MAX_ETHPORTS)
        return mr_error_set(-ENODEV, "%s: device '%s' is no network device",
                            e->port.name, e->devargs);
    rc = rte_eth_dev_info_get(e->id, &info);
    if (rc)
        return plug_error(e, rc);
    e->device = info.device;
    return 0;
}

/* Wishes of ours that the device has. */
static void
conf_make(struct eth_port *e, const struct rte_eth_dev_info *info,
          struct rte_eth_conf *conf)
{
    memset(conf, 0, sizeof(*conf));
    conf->rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
    conf->txmode.offloads =
        info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    e->chains = conf->txmode.offloads != 0;
    if (e->port.pairs > 1 &&
        (info->flow_type_rss_offloads & RTE_ETH_RSS_IP)) {
        conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf->rx_adv_conf.rss_conf.rss_hf =
            info->flow_type_rss_offloads & RTE_ETH_RSS_IP;
    }
}

static int
setup_error(const struct eth_port *e, const char *what, int rc)
{
    return mr_error_set(rc, "%s: device '%s' refuses %s (%s)", e->port.name,
                        e->devargs, what, mr_error_name(rc));
}

static int
queues_setup(struct eth_port *e, uint32_t size)
{
    int socket = rte_eth_dev_socket_id(e->id);
    uint16_t rx = (uint16_t)size;
    uint16_t tx = (uint16_t)size;
    int rc = rte_eth_dev_adjust_nb_rx_tx_desc(e->id, &rx, &tx);

    if (rc)
        return setup_error(e, "that queue size", rc);
    for (uint16_t q = 0; q < e->port.pairs; q++) {
        rc = rte_eth_rx_queue_setup(e->id, q, rx, (unsigned)socket, NULL,
                                    e->port.pool->mp);
        if (rc)
            return setup_error(e, "a receive queue", rc);
        rc = rte_eth_tx_queue_setup(e->id, q, tx, (unsigned)socket, NULL);
        if (rc)
            return setup_error(e, "a transmit queue", rc);
    }
    return 0;
}

static int
eth_start(struct eth_port *e, uint32_t size)
{
    struct rte_eth_dev_info info;
    struct rte_eth_conf conf;
    uint16_t pairs = (uint16_t)e->port.pairs;
    int rc = rte_eth_dev_info_get(e->id, &info);

    if (rc)
        return setup_error(e, "to be asked", rc);
    if (pairs > info.max_rx_queues || pairs > info.max_tx_queues)
        return mr_error_set(-EINVAL, "%s: device '%s' has %u rx and %u tx "
                            "queues: ask for fewer pairs than %u",
                            e->port.name, e->devargs, info.max_rx_queues,
                            info.max_tx_queues, pairs);
    conf_make(e, &info, &conf);
    rc = rte_eth_dev_configure(e->id, pairs, pairs, &conf);
    if (rc)
        return setup_error(e, "its configuration", rc);
    rc = queues_setup(e, size);
    if (rc)
        return rc;
    rc = rte_eth_dev_start(e->id);
    if (rc)
        return setup_error(e, "to start", rc);
    /* Without it a forwarder would see only what is sent to the device. */
    rte_eth_promiscuous_enable(e->id);
    return 0;
}

/* Ports of their own pool can fill every rx descriptor and still receive. */
static int
eth_make(struct eth_port *e, const struct mr_eth_options *o)
{
    static const mr_burst_fn burst[] = {[MR_RX] = eth_rx, [MR_TX] = eth_tx};
    uint32_t size = o->size ? o->size : ETH_SIZE;
    struct mr_pool_options pool = {0};
    int rc;

    if (size > UINT16_MAX)
        return mr_error_set(-EINVAL, "%s: queues of %u descriptors: at most "
                            "%u", e->port.name, size, UINT16_MAX);
    rc = eth_plug(e);
    if (rc)
        return rc;
    pool.packets = MR_MAX(8192, 2 * size * e->port.pairs);
    rc = mr_port_set_pool(&e->port, o->pool, &pool);
    if (!rc)
        rc = eth_start(e, size);
    if (rc) {
        eth_unplug(e);
        return rc;
    }
    mr_port_queues_open(&e->port, burst);
    return 0;
}

int
mr_eth_open(const struct mr_eth_options *options, struct mr_port **out)
{
    size_t len = options->devargs ? strlen(options->devargs) : 0;
    struct eth_port *e = calloc(1, sizeof(*e));
    int rc;

    if (!e)
        return mr_error_set(-ENOMEM, "no memory for an eth port");
    rc = mr_port_init(&e->port, &eth_ops, options->name,
                      options->pairs ? options->pairs : 1);
    if (rc) {
        free(e);
        return rc;
    }
    if (!len || len >= sizeof(e->devargs)) {
        rc = mr_error_set(-EINVAL, "%s: devargs of %zu bytes: 1..%zu",
                          e->port.name, len, sizeof(e->devargs) - 1);
    } else {
        memcpy(e->devargs, options->devargs, len + 1);
        rc = eth_make(e, options);
    }
    if (rc) {
        mr_port_fini(&e->port);
        free(e);
        return rc;
    }
    *out = &e->port;
    return 0;
}
