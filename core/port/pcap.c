/* A pcap port: rx plays a capture file, tx records one. Queue pair 0 only.
 *
 * Owner: the control thread opens, checks and closes the files; in between
 * each belongs to its queue's worker, rx to tape.c, tx to capture.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "port/capture.h"
#include "port/port.h"
#include "port/tape.h"

struct pcap_port {
    struct mr_port port;
    struct mr_tape *tape;       /* NULL: rx is empty */
    struct mr_capture *capture; /* NULL: tx discards */
};

static struct pcap_port *
pcap_of(const struct mr_port *port)
{
    return MR_CONTAINER(port, struct pcap_port, port);
}

static struct mr_pkt *
packet_make(struct mr_pool *pool, const struct mr_frame *frame)
{
    struct mr_pkt *pkt = mr_pkt_chain(pool, frame->len);
    const uint8_t *from = frame->bytes;

    for (struct mr_pkt *seg = pkt; seg; seg = seg->next) {
        memcpy(mr_pkt_data(seg), from, seg->data_len);
        from += seg->data_len;
    }
    return pkt;
}

/* A frame for which there is no buffer waits in the tape for the next call. */
static uint32_t
pcap_rx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    struct pcap_port *p = pcap_of(q->port);
    struct mr_frame frame;
    uint32_t done = 0;

    for (uint32_t i = 0; i < n && mr_tape_peek(p->tape, &frame); i++) {
        if (frame.len < MR_FRAME_MIN) {
            mr_count(&q->counters.skipped, 1);
        } else if (frame.len > MR_FRAME_MAX) {
            mr_count(&q->counters.oversize, 1);
        } else {
            pkts[done] = packet_make(q->port->pool, &frame);
            if (!pkts[done]) {
                mr_count(&q->counters.nobuf, 1);
                break;
            }
            done++;
        }
        mr_tape_next(p->tape);
    }
    mr_queue_count(q, done, mr_pkts_bytes(pkts, done));
    return done;
}

static uint32_t
pcap_none(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    (void)ctx;
    (void)pkts;
    (void)n;
    return 0;
}

/* A full disk is a peer without room. */
static uint32_t
pcap_tx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;
    uint32_t done = mr_capture_write(pcap_of(q->port)->capture, pkts, n);

    mr_queue_count(q, done, mr_pkts_bytes(pkts, done));
    if (done < n)
        mr_count(&q->counters.full, n - done);
    mr_pkts_free(pkts, n);
    return n;
}

static void
pcap_close(struct mr_port *port)
{
    struct pcap_port *p = pcap_of(port);
    int rc = mr_capture_close(p->capture);

    if (rc)
        mr_log(MR_LOG_WARN, "%s: the written file lacks packets (%s)",
               port->name, mr_error_name(rc));
    mr_tape_close(p->tape);
    mr_port_fini(port);
    free(p);
}

/* rx is up while the file lasts. */
static int
pcap_queue_up(const struct mr_queue *queue)
{
    const struct pcap_port *p = pcap_of(queue->port);

    return queue->direction == MR_TX || (p->tape && !mr_tape_ended(p->tape));
}

static int
pcap_up(const struct mr_port *port)
{
    const struct pcap_port *p = pcap_of(port);

    return p->capture || (p->tape && !mr_tape_ended(p->tape));
}

static const struct mr_port_ops pcap_ops = {
    .kind = MR_PORT_pcap,
    .close = pcap_close,
    .up = pcap_up,
    .queue_up = pcap_queue_up,
};

static int
files_open(struct pcap_port *p, const struct mr_pcap_options *o)
{
    struct mr_pool_options pool = {0};
    int rc = 0;

    if (!o->read && !o->write)
        return mr_error_set(-EINVAL, "%s: give a file to read, or one to "
                            "write, or both", p->port.name);
    if (o->read) {
        rc = mr_tape_open(p->port.name, o->read, o->loops, &p->tape);
        if (!rc)
            rc = mr_port_set_pool(&p->port, o->pool, &pool);
    }
    if (!rc && o->write)
        rc = mr_capture_open(p->port.name, o->write, o->read, o->pcapng,
                             o->snap, &p->capture);
    return rc;
}

int
mr_pcap_open(const struct mr_pcap_options *options, struct mr_port **out)
{
    struct pcap_port *p = calloc(1, sizeof(*p));
    mr_burst_fn burst[] = {
        [MR_RX] = options->read ? pcap_rx : pcap_none,
        [MR_TX] = options->write ? pcap_tx : mr_queue_discard,
    };
    int rc;

    if (!p)
        return mr_error_set(-ENOMEM, "no memory for a pcap port");
    rc = mr_port_init(&p->port, &pcap_ops, options->name, 1);
    if (rc) {
        free(p);
        return rc;
    }
    rc = files_open(p, options);
    if (rc) {
        pcap_close(&p->port);
        return rc;
    }
    mr_port_queues_open(&p->port, burst);
    *out = &p->port;
    return 0;
}
