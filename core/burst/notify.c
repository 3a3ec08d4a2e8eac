#include "burst/notify.h"

#include <errno.h>
#include <unistd.h>

void
mr_notify(struct mr_ring *ring)
{
    static const uint64_t one = 1;

    if (ring->notify_fd < 0)
        return;
    /* EAGAIN: the eventfd's counter is full, so it is signalled already. */
    if (write(ring->notify_fd, &one, sizeof(one)) == sizeof(one) ||
        errno == EAGAIN)
        mr_count(&ring->counters->notified, 1);
    else
        mr_count(&ring->counters->notify_errors, 1);
}
