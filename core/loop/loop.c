#include "loop/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/process.h"

enum { CLOSE_MS = 2000 };

static uv_loop_t *loop;
static uv_async_t waker;  /* wakes the loop from elsewhere */
static uv_timer_t budget; /* ends a turn of mr_loop_run */
static bool inside;       /* a turn runs */

/* Both calls are safe in a signal handler. */
static void
wake(void)
{
    uv_async_send(&waker);
}

static void
on_signal(int signal)
{
    int saved = errno;

    (void)signal;
    mr_stop();
    errno = saved;
}

static void
on_wake(uv_async_t *async)
{
    (void)async;
}

static void
on_budget(uv_timer_t *timer)
{
    (void)timer;
}

/* SIGXFSZ: a file as large as it may be is an error code, too. */
static void
signals_install(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    /* SA_RESETHAND: whoever asks twice is obeyed at once. */
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
    struct sigaction hangup;

    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, NULL, &hangup);
    if (hangup.sa_handler != SIG_IGN) /* nohup(1) */
        sigaction(SIGHUP, &stop, NULL);
}

int
mr_loop_open(void)
{
    uv_loop_t *l = uv_default_loop();
    int rc;

    if (loop)
        return 0;
    if (!l)
        return mr_error_set(-ENOMEM, "no memory for the control loop");
    rc = uv_async_init(l, &waker, on_wake);
    if (rc)
        return mr_error_set(rc, "control loop: %s", uv_strerror(rc));
    uv_timer_init(l, &budget);
    loop = l;
    mr_stop_hook(wake);
    signals_install();
    return 0;
}

uv_loop_t *
mr_loop_uv(void)
{
    return loop;
}

bool
mr_loop_inside(void)
{
    return inside;
}

static void
turn(uv_run_mode mode)
{
    inside = true;
    uv_run(loop, mode);
    inside = false;
}

int
mr_loop_run(uint64_t timeout_us)
{
    uint64_t ms = timeout_us / 1000 + (timeout_us % 1000 != 0);
    int rc = mr_loop_open();

    if (rc)
        return rc;
    if (!timeout_us || !mr_running()) {
        turn(UV_RUN_NOWAIT);
        return 0;
    }
    uv_update_time(loop);
    /* Without a limit the waker alone keeps the turn going. The timer repeats:
     * libuv runs those that are due before it waits, and a single shot that
     * fell due by then would leave it waiting for ever. */
    if (timeout_us != UINT64_MAX)
        uv_timer_start(&budget, on_budget, ms, ms);
    turn(UV_RUN_ONCE);
    uv_timer_stop(&budget);
    return 0;
}

/* What is left now keeps nobody waiting for ever: a handle that its owner
 * never closed is closed here. */
static void
handle_close(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void
mr_loop_close(void)
{
    uint64_t end = mr_now() + CLOSE_MS * 1000000ull;

    if (!loop)
        return;
    mr_stop_hook(NULL);
    uv_unref((uv_handle_t *)&waker);
    uv_unref((uv_handle_t *)&budget);
    while (mr_now() < end && uv_run(loop, UV_RUN_NOWAIT))
        mr_sleep_us(1000);
    uv_walk(loop, handle_close, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    loop = NULL;
}
