#include "mem/guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/error.h"
#include "mem/memory.h"

enum { SLOTS = 1024 };

/* Sizes of pages, ordinary and huge. */
static const size_t pages[] = {4096, 2 << 20, 1 << 30};

static struct mr_memory *slot[SLOTS];
static struct sigaction before;

static bool
zeros(uintptr_t start, uintptr_t end)
{
    return mmap((void *)start, end - start, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                0) != MAP_FAILED;
}

/* Maps zeros over the page at `at`, a huge one as a whole, and over all that
 * follows: what is behind a file's end is lost as well, and one mapping a page
 * would soon be more than a process may have. Where so much is refused the
 * page alone has to do. */
static bool
patch(uint8_t *at, const uint8_t *map, size_t map_size)
{
    uintptr_t limit = (uintptr_t)map + map_size;

    for (size_t i = 0; i < MR_COUNT_OF(pages); i++) {
        uintptr_t start = (uintptr_t)at & ~(pages[i] - 1);
        uintptr_t end = start + pages[i];

        if (start < (uintptr_t)map)
            continue;
        if (zeros(start, limit) || zeros(start, MR_MIN(end, limit)))
            return true;
    }
    return false;
}

static bool
mend(uint8_t *at)
{
    for (int i = 0; i < SLOTS; i++) {
        struct mr_memory *m = mr_load_acquire(&slot[i]);

        for (uint32_t r = 0; m && r < m->n; r++) {
            uint8_t *map = m->origin[r].map;

            if ((size_t)(at - map) >= m->origin[r].map_size)
                continue;
            mr_store(&m->lost, 1);
            return patch(at, map, m->origin[r].map_size);
        }
    }
    return false;
}

static void
on_sigbus(int sig, siginfo_t *info, void *context)
{
    int saved = errno;

    (void)context;
    if (info->si_code <= 0 || !mend(info->si_addr)) {
        /* Not ours: a touch happens again, for real; one that was sent must
         * be sent again. */
        sigaction(SIGBUS, &before, NULL);
        if (info->si_code <= 0)
            raise(sig);
    }
    errno = saved;
}

static void
install(void)
{
    static bool done;
    struct sigaction action = {.sa_sigaction = on_sigbus,
                               .sa_flags = SA_SIGINFO | SA_NODEFER};

    if (done)
        return;
    sigemptyset(&action.sa_mask);
    done = sigaction(SIGBUS, &action, &before) == 0;
}

int
mr_guard_add(struct mr_memory *memory)
{
    install();
    for (int i = 0; i < SLOTS; i++) {
        if (slot[i])
            continue;
        mr_store_release(&slot[i], memory);
        return 0;
    }
    return mr_error_set(-ENOMEM, "more than %d peers share memory with this "
                        "process: close some ports", SLOTS);
}

void
mr_guard_remove(struct mr_memory *memory)
{
    for (int i = 0; i < SLOTS; i++)
        if (slot[i] == memory)
            mr_store_release(&slot[i], NULL);
}
