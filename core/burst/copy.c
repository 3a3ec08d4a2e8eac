#include "burst/copy.h"

/* Done with n bytes of the piece, which has them. */
static void
cursor_step(struct mr_cursor *c, uint32_t n)
{
    c->at += n;
    if (c->at == c->seg->len) {
        c->seg++;
        c->left--;
        c->at = 0;
    }
}

/* One body for both directions; `out` is a constant at each call. */
MR_INLINE bool
cursor_move(struct mr_cursor *c, uint8_t *bytes, uint32_t len, bool out)
{
    while (len) {
        uint32_t n;

        if (!c->left)
            return false;
        n = MR_MIN(len, c->seg->len - c->at);
        if (out)
            memcpy(c->seg->ptr + c->at, bytes, n);
        else
            memcpy(bytes, c->seg->ptr + c->at, n);
        bytes += n;
        len -= n;
        cursor_step(c, n);
    }
    return true;
}

bool
mr_cursor_write(struct mr_cursor *to, const void *from, uint32_t len)
{
    return cursor_move(to, (uint8_t *)(uintptr_t)from, len, true);
}

bool
mr_cursor_read(struct mr_cursor *from, void *to, uint32_t len)
{
    return cursor_move(from, to, len, false);
}

void
mr_cursor_pass(struct mr_cursor *to, struct mr_cursor *from, uint32_t len)
{
    while (len && to->left && from->left) {
        uint32_t n = MR_MIN(to->seg->len - to->at, from->seg->len - from->at);

        n = MR_MIN(n, len);
        memmove(to->seg->ptr + to->at, from->seg->ptr + from->at, n);
        cursor_step(to, n);
        cursor_step(from, n);
        len -= n;
    }
}
