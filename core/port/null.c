/* A null port: rx makes packets out of a pool, as its template says, without
 * end; tx swallows what it gets. The cheapest peer there is, so it also tells
 * what the rest of a path costs.
 *
 * Owner: as port.h says; it has no state of its own. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "port/port.h"

static uint32_t
null_rx(void *ctx, struct mr_pkt **pkts, uint32_t n)
{
    struct mr_queue *q = ctx;

    if (!q->port->pool)
        return 0;
    n = mr_pkts_fill(q->port->pool, pkts, n);
    if (!n)
        mr_count(&q->counters.nobuf, 1);
    mr_queue_count(q, n, mr_pkts_bytes(pkts, n));
    return n;
}

static void
null_close(struct mr_port *port)
{
    mr_port_fini(port);
    free(port);
}

static const struct mr_port_ops null_ops = {
    .kind = MR_PORT_null,
    .close = null_close,
};

int
mr_null_open(const struct mr_null_options *options, struct mr_port **out)
{
    static const mr_burst_fn burst[] = {[MR_RX] = null_rx,
                                        [MR_TX] = mr_queue_discard};
    struct mr_port *port = malloc(sizeof(*port));
    int rc;

    if (!port)
        return mr_error_set(-ENOMEM, "no memory for a null port");
    rc = mr_port_init(port, &null_ops, options->name,
                      options->pairs ? options->pairs : 1);
    if (rc) {
        free(port);
        return rc;
    }
    port->pool = options->pool;
    mr_port_queues_open(port, burst);
    *out = port;
    return 0;
}
