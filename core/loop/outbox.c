#include "loop/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

enum { BYTES_MAX = 1 << 20, ENTRIES_MAX = 4096, FDS_MAX = 8 };

struct mr_outbox_entry {
    struct mr_outbox_entry *next;
    size_t sent;
    size_t len;
    uint32_t nfds;
    int fds[FDS_MAX];
    uint8_t bytes[];
};

/* Bytes sent, or a negative code; -EAGAIN = no room. */
static ssize_t
send_some(int fd, const void *bytes, size_t len, const int *fds, uint32_t nfds)
{
    union {
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {(void *)bytes, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (nfds) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
    }
    do
        sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0 || errno == EAGAIN)
        return sent < 0 ? -EAGAIN : sent;
    return mr_error_set(-errno, "send: %s", mr_error_name(errno));
}

static void
entry_free(struct mr_outbox_entry *e)
{
    for (uint32_t i = 0; i < e->nfds; i++)
        close(e->fds[i]);
    free(e);
}

static int
keep(struct mr_outbox *out, const void *bytes, size_t len, const int *fds,
     uint32_t nfds)
{
    struct mr_outbox_entry *e;

    if (out->bytes + len > BYTES_MAX || out->entries >= ENTRIES_MAX)
        return mr_error_set(-ENOBUFS, "the peer does not read: %zu bytes wait",
                            out->bytes);
    e = calloc(1, sizeof(*e) + len);
    if (!e)
        return mr_error_set(-ENOMEM, "no memory for a message");
    memcpy(e->bytes, bytes, len);
    e->len = len;
    for (; e->nfds < nfds; e->nfds++) {
        e->fds[e->nfds] = fcntl(fds[e->nfds], F_DUPFD_CLOEXEC, 0);
        if (e->fds[e->nfds] < 0) {
            entry_free(e);
            return mr_error_set(-EMFILE, "no fd for a message: raise the limit "
                                "of open files");
        }
    }
    if (!out->first)
        out->last = &out->first;
    *out->last = e;
    out->last = &e->next;
    out->bytes += len;
    out->entries++;
    return 0;
}

int
mr_outbox_send(struct mr_outbox *out, int fd, const void *bytes, size_t len,
               const int *fds, uint32_t nfds)
{
    ssize_t sent = 0;

    if (nfds > FDS_MAX)
        return mr_error_set(-EINVAL, "%u fds in a message, at most %u (V45)",
                            nfds, FDS_MAX);
    if (!out->first) {
        sent = send_some(fd, bytes, len, fds, nfds);
        if (sent < 0 && sent != -EAGAIN)
            return (int)sent;
        sent = MR_MAX(sent, 0);
    }
    if ((size_t)sent == len)
        return 0;
    /* The fds went with the first byte. */
    return keep(out, (const uint8_t *)bytes + sent, len - (size_t)sent, fds,
                sent ? 0 : nfds);
}

int
mr_outbox_flush(struct mr_outbox *out, int fd)
{
    while (out->first) {
        struct mr_outbox_entry *e = out->first;
        ssize_t sent = send_some(fd, e->bytes + e->sent, e->len - e->sent,
                                 e->fds, e->sent ? 0 : e->nfds);

        if (sent < 0)
            return sent == -EAGAIN ? 0 : (int)sent;
        e->sent += (size_t)sent;
        out->bytes -= (size_t)sent;
        if (e->sent < e->len)
            return 0;
        out->first = e->next;
        out->entries--;
        entry_free(e);
    }
    return 0;
}

void
mr_outbox_clear(struct mr_outbox *out)
{
    while (out->first) {
        struct mr_outbox_entry *e = out->first;

        out->first = e->next;
        entry_free(e);
    }
    out->bytes = 0;
    out->entries = 0;
}
