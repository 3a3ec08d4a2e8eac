#include "port/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum {
    BUFFER = 1 << 18, /* several times the largest record */
    SNAP_MAX = BUFFER / 2,
    LINK_ETHERNET = 1,
    NSEC = 1000000000,
};

struct mr_capture {
    int fd;
    int error; /* first failure, sticky */
    bool pcapng;
    uint32_t snap;
    off_t written; /* whole records */
    uint32_t used;
    uint8_t buffer[BUFFER];
};

/* pcap, with nanoseconds: a header, then a head before each packet. */
struct pcap_file_head {
    uint32_t magic;
    uint16_t major, minor;
    int32_t zone;
    uint32_t accuracy;
    uint32_t snap;
    uint32_t link;
};

struct pcap_head {
    uint32_t sec;
    uint32_t nsec;
    uint32_t captured;
    uint32_t len;
};

/* pcapng: blocks that begin and end with their length. */
struct ng_section {
    uint32_t type;
    uint32_t length;
    uint32_t magic;
    uint16_t major, minor;
    uint32_t section_length[2]; /* -1: not told */
    uint32_t end;
};

struct ng_interface {
    uint32_t type;
    uint32_t length;
    uint16_t link, reserved;
    uint32_t snap;
    uint16_t resolution, resolution_len; /* if_tsresol */
    uint8_t exponent, pad[3];
    uint32_t options_end;
    uint32_t end;
};

struct ng_packet {
    uint32_t type;
    uint32_t length;
    uint32_t interface;
    uint32_t high, low; /* ns since 1970 */
    uint32_t captured;
    uint32_t len;
};

static void
put(struct mr_capture *c, const void *bytes, uint32_t len)
{
    memcpy(c->buffer + c->used, bytes, len);
    c->used += len;
}

/* Writes what is buffered, which is whole records; takes back a part of one
 * that the disk had no room for. Returns success. */
static bool
flush(struct mr_capture *c)
{
    uint32_t done = 0;

    while (done < c->used && !c->error) {
        ssize_t n = write(c->fd, c->buffer + done, c->used - done);

        if (n < 0 && errno != EINTR)
            c->error = -errno;
        else if (n > 0)
            done += (uint32_t)n;
    }
    if (!c->error)
        c->written += done;
    else if (done && ftruncate(c->fd, c->written))
        c->error = -errno;
    c->used = 0;
    return !c->error;
}

static void
put_file_head(struct mr_capture *c)
{
    struct pcap_file_head pcap = {.magic = 0xa1b23c4d, .major = 2, .minor = 4,
                                  .snap = c->snap, .link = LINK_ETHERNET};
    struct ng_section section = {.type = 0x0a0d0d0a,
                                 .length = sizeof(section),
                                 .magic = 0x1a2b3c4d, .major = 1,
                                 .section_length = {UINT32_MAX, UINT32_MAX},
                                 .end = sizeof(section)};
    struct ng_interface interface = {.type = 1, .length = sizeof(interface),
                                     .link = LINK_ETHERNET, .snap = c->snap,
                                     .resolution = 9, .resolution_len = 1,
                                     .exponent = 9, .end = sizeof(interface)};

    if (!c->pcapng) {
        put(c, &pcap, sizeof(pcap));
        return;
    }
    put(c, &section, sizeof(section));
    put(c, &interface, sizeof(interface));
}

static void
put_packet(struct mr_capture *c, const struct mr_pkt *pkt, uint64_t now)
{
    uint32_t len = MR_MIN(pkt->pkt_len, c->snap);
    uint32_t pad = c->pcapng ? -len & 3 : 0;
    uint32_t total = (uint32_t)sizeof(struct ng_packet) + len + pad + 4;
    struct pcap_head pcap = {(uint32_t)(now / NSEC), (uint32_t)(now % NSEC),
                             len, pkt->pkt_len};
    struct ng_packet ng = {6, total, 0, (uint32_t)(now >> 32), (uint32_t)now,
                           len, pkt->pkt_len};

    if (c->pcapng)
        put(c, &ng, sizeof(ng));
    else
        put(c, &pcap, sizeof(pcap));
    mr_pkt_read(pkt, 0, c->buffer + c->used, len);
    c->used += len;
    memset(c->buffer + c->used, 0, pad);
    c->used += pad;
    if (c->pcapng)
        put(c, &total, sizeof(total));
}

static uint64_t
wall_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * NSEC + (uint64_t)ts.tv_nsec;
}

uint32_t
mr_capture_write(struct mr_capture *c, struct mr_pkt *const *pkts, uint32_t n)
{
    uint64_t now = wall_clock();
    uint32_t safe = 0; /* packets that are in the file */

    for (uint32_t i = 0; i < n && !c->error; i++) {
        uint32_t len = MR_MIN(pkts[i]->pkt_len, c->snap);

        if (c->used + len + 64 > BUFFER && flush(c))
            safe = i;
        if (!c->error)
            put_packet(c, pkts[i], now);
    }
    return !c->error && flush(c) ? n : safe;
}

static bool
same_file(int fd, const char *path)
{
    struct stat a, b;

    return path && fstat(fd, &a) == 0 && stat(path, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A pipe could block the worker; devices such as /dev/null do not. */
static int
file_make(struct mr_capture *c, const char *port, const char *path,
          const char *not)
{
    struct stat st;

    c->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                 0644);
    if (c->fd < 0)
        return mr_error_set(-errno, "%s: cannot write '%s' (%s)", port, path,
                            mr_error_name(errno));
    if (fstat(c->fd, &st) || !(S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)))
        return mr_error_set(-EINVAL, "%s: '%s' is no regular file: choose "
                            "another name", port, path);
    if (same_file(c->fd, not))
        return mr_error_set(-EINVAL, "%s: '%s' is the file that is read: "
                            "write to another one", port, path);
    if (S_ISREG(st.st_mode) && ftruncate(c->fd, 0))
        return mr_error_set(-errno, "%s: cannot empty '%s' (%s)", port, path,
                            mr_error_name(errno));
    put_file_head(c);
    if (!flush(c))
        return mr_error_set(c->error, "%s: cannot write '%s' (%s)", port, path,
                            mr_error_name(c->error));
    return 0;
}

int
mr_capture_open(const char *port, const char *path, const char *not,
                int pcapng, uint32_t snap, struct mr_capture **out)
{
    struct mr_capture *c = malloc(sizeof(*c));
    int rc;

    if (!c)
        return mr_error_set(-ENOMEM, "%s: no memory to write '%s'", port,
                            path);
    c->error = 0;
    c->pcapng = pcapng != 0;
    c->snap = snap && snap < SNAP_MAX ? snap : SNAP_MAX;
    c->written = 0;
    c->used = 0;
    rc = file_make(c, port, path, not);
    if (rc) {
        mr_capture_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

int
mr_capture_close(struct mr_capture *c)
{
    int rc;

    if (!c)
        return 0;
    rc = c->error;
    if (c->fd >= 0)
        close(c->fd);
    free(c);
    return rc;
}
