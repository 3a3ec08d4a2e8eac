#include "port/tape.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

struct mr_tape {
    /* Streaming. */
    int fd;       /* -1 when the tape is in memory */
    pcap_t *file; /* NULL before the first and after the last frame */
    struct mr_frame head;
    bool loaded; /* head is the frame to give */
    /* In memory: length, bytes, length, bytes, ... */
    uint8_t *memory;
    size_t size;
    size_t at;
    /* Both. */
    uint64_t frames; /* of one pass */
    uint64_t left;   /* frames to play, ~0 = no end */
    uint64_t passed; /* frames of this pass; streaming */
    /* For error texts, while opening; NULL afterwards. */
    const char *port;
    const char *path;
};

/* A libpcap handle that reads the file from its start. */
static pcap_t *
file_rewind(struct mr_tape *t, char *error)
{
    int fd = lseek(t->fd, 0, SEEK_SET) ? -1 : dup(t->fd);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
    pcap_t *file;

    if (!f) {
        snprintf(error, PCAP_ERRBUF_SIZE, "%s", mr_error_name(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    file = pcap_fopen_offline_with_tstamp_precision(
        f, PCAP_TSTAMP_PRECISION_NANO, error);
    if (!file)
        fclose(f);
    return file;
}

static int
file_open(struct mr_tape *t)
{
    char error[PCAP_ERRBUF_SIZE];
    struct stat st;

    t->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (t->fd < 0)
        return mr_error_set(-errno, "%s: cannot read '%s' (%s)", t->port,
                            t->path, mr_error_name(errno));
    if (fstat(t->fd, &st) || !S_ISREG(st.st_mode))
        return mr_error_set(-EINVAL, "%s: '%s' is no regular file: copy the "
                            "capture into one", t->port, t->path);
    t->file = file_rewind(t, error);
    if (!t->file)
        return mr_error_set(-EINVAL, "%s: '%s' is no capture file: %s",
                            t->port, t->path, error);
    if (pcap_datalink(t->file) != DLT_EN10MB) {
        const char *name = pcap_datalink_val_to_name(pcap_datalink(t->file));

        return mr_error_set(-EINVAL, "%s: '%s' holds %s frames: only Ethernet "
                            "(EN10MB) can be played", t->port, t->path,
                            name ? name : "unknown");
    }
    return 0;
}

/* Reads the next frame; 1, 0 at the end of the file, -1 when it is damaged. */
static int
file_read(pcap_t *file, struct mr_frame *frame)
{
    struct pcap_pkthdr *header;
    int rc = pcap_next_ex(file, &header, &frame->bytes);

    if (rc == 1)
        frame->len = header->caplen;
    return rc == 1 ? 1 : rc == PCAP_ERROR_BREAK ? 0 : -1;
}

static void
memory_drop(struct mr_tape *t)
{
    free(t->memory);
    t->memory = NULL;
    t->size = 0;
}

/* Appends a frame; drops the memory when the tape grows too long. */
static void
memory_add(struct mr_tape *t, const struct mr_frame *frame, size_t *room)
{
    size_t need = t->size + sizeof(frame->len) + frame->len;

    if (need > *room) {
        size_t grown = MR_MAX(2 * *room, need);
        uint8_t *memory =
            grown > MR_TAPE_MEMORY ? NULL : realloc(t->memory, grown);

        if (!memory) {
            memory_drop(t);
            return;
        }
        t->memory = memory;
        *room = grown;
    }
    memcpy(t->memory + t->size, &frame->len, sizeof(frame->len));
    memcpy(t->memory + t->size + sizeof(frame->len), frame->bytes, frame->len);
    t->size = need;
}

/* The pass that checks, counts and, if it can, loads. */
static int
load(struct mr_tape *t)
{
    size_t room = 1 << 16;
    struct mr_frame frame;
    int rc;

    t->memory = malloc(room);
    while ((rc = file_read(t->file, &frame)) == 1) {
        t->frames++;
        if (t->memory)
            memory_add(t, &frame, &room);
    }
    if (rc)
        return mr_error_set(-EINVAL, "%s: '%s' is damaged after packet %llu: "
                            "%s", t->port, t->path,
                            (unsigned long long)t->frames,
                            pcap_geterr(t->file));
    return 0;
}

static void
file_close(struct mr_tape *t)
{
    if (t->file)
        pcap_close(t->file);
    t->file = NULL;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

int
mr_tape_open(const char *port, const char *path, uint32_t loops,
             struct mr_tape **out)
{
    struct mr_tape *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return mr_error_set(-ENOMEM, "%s: no memory to read '%s'", port, path);
    t->port = port;
    t->path = path;
    rc = file_open(t);
    if (!rc)
        rc = load(t);
    if (rc) {
        mr_tape_close(t);
        return rc;
    }
    t->left = t->frames * (loops ? loops : 1);
    if (loops == UINT32_MAX && t->frames)
        t->left = UINT64_MAX;
    if (t->memory)
        file_close(t);
    t->passed = t->frames; /* streaming: the next read starts at the front */
    t->port = t->path = NULL;
    *out = t;
    return 0;
}

void
mr_tape_close(struct mr_tape *t)
{
    if (!t)
        return;
    file_close(t);
    free(t->memory);
    free(t);
}

/* The only allocation while playing: a new handle where a pass begins. */
static bool
stream_load(struct mr_tape *t)
{
    char error[PCAP_ERRBUF_SIZE];

    if (t->passed == t->frames) {
        if (t->file)
            pcap_close(t->file);
        t->file = file_rewind(t, error);
        t->passed = 0;
    }
    t->loaded = t->file && file_read(t->file, &t->head) == 1;
    return t->loaded;
}

bool
mr_tape_peek(struct mr_tape *t, struct mr_frame *frame)
{
    if (!t->left)
        return false;
    if (t->memory) {
        memcpy(&frame->len, t->memory + t->at, sizeof(frame->len));
        frame->bytes = t->memory + t->at + sizeof(frame->len);
        return true;
    }
    if (!t->loaded && !stream_load(t)) {
        mr_store(&t->left, 0); /* the file changed under us */
        return false;
    }
    *frame = t->head;
    return true;
}

void
mr_tape_next(struct mr_tape *t)
{
    if (t->memory) {
        uint32_t len;

        memcpy(&len, t->memory + t->at, sizeof(len));
        t->at += sizeof(len) + len;
        if (t->at == t->size)
            t->at = 0;
    }
    t->loaded = false;
    t->passed++;
    if (t->left != UINT64_MAX)
        mr_store(&t->left, t->left - 1);
}

bool
mr_tape_ended(const struct mr_tape *t)
{
    return mr_load(&t->left) == 0;
}
