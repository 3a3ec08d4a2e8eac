/* Tasks: worker threads that run one global function of a script in a Lua
 * state of their own. mr_task_* is declared in moonring.h.
 *
 * lua/moonring/task.lua (`enter`) does what can be done in Lua: it loads the
 * script, unpacks the arguments, catches errors, releases the queues that the
 * task claimed and packs the result.
 *
 * Owner: the control thread starts, asks, waits and frees. Between start and
 * end everything in the state is the worker's; two words cross: `state`
 * (written by the worker, last of all) and `stop` (written by control).
 *
 * Invariants:
 *  1. `state` leaves MR_TASK_RUNNING after the Lua state is closed and the
 *     thread has left DPDK, so the packets and queues of an ended task are
 *     free.
 *  2. `L` is the state only while `lock` is held and `L` is not NULL; the hook
 *     is the one thing another thread does to it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lauxlib.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/process.h"
#include "run/eal.h"
#include "run/state.h"

/* How long a task that is asked for its line may take to reach one. */
enum { WHERE_TRIES = 50, WHERE_STEP_NS = 1000 * 1000 };

struct mr_task {
    pthread_t thread;
    char *script;
    char *entry;
    void *args;
    uint32_t args_len;
    int core;
    uint32_t state; /* enum mr_task_state */
    uint32_t stop;  /* 1 = the task is asked to end */
    char *result;
    uint32_t result_len;
    pthread_mutex_t lock;
    lua_State *L;
    uint32_t where_set;
    char where[160];
};

static _Thread_local struct mr_task *current;

static void
set_result(struct mr_task *task, const char *bytes, size_t len)
{
    free(task->result);
    task->result_len = 0;
    task->result = malloc(len + 1);
    if (!task->result)
        return;
    memcpy(task->result, bytes, len);
    task->result[len] = '\0';
    task->result_len = (uint32_t)len;
}

/* enter(script, entry, args) -> ok, packed result or text */
static int
call_enter(lua_State *L)
{
    struct mr_task *task = lua_touserdata(L, 1);

    lua_settop(L, 0);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moonring.task");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "enter");
    lua_pushstring(L, task->script);
    lua_pushstring(L, task->entry);
    lua_pushlstring(L, task->args, task->args_len);
    lua_call(L, 3, 2);
    return 2;
}

/* Runs the task in its state. Returns how it ended. */
static enum mr_task_state
run_state(struct mr_task *task, lua_State *L)
{
    size_t len;
    const char *bytes;
    bool ok;

    lua_pushcfunction(L, mr_state_traceback);
    lua_pushcfunction(L, call_enter);
    lua_pushlightuserdata(L, task);
    ok = lua_pcall(L, 1, 2, 1) == 0 && lua_toboolean(L, -2);
    bytes = lua_tolstring(L, -1, &len);
    if (!bytes) {
        bytes = "the task ended without a text";
        len = strlen(bytes);
    }
    set_result(task, bytes, len);
    return ok ? MR_TASK_DONE : MR_TASK_FAILED;
}

static void
publish_state(struct mr_task *task, lua_State *L)
{
    pthread_mutex_lock(&task->lock);
    task->L = L;
    pthread_mutex_unlock(&task->lock);
}

static enum mr_task_state
run_joined(struct mr_task *task)
{
    static const char text[] = "ENOMEM: no memory for a Lua state";
    lua_State *L = mr_state_open();
    enum mr_task_state end;

    if (!L) {
        set_result(task, text, sizeof(text) - 1);
        return MR_TASK_FAILED;
    }
    publish_state(task, L);
    end = run_state(task, L);
    publish_state(task, NULL);
    lua_close(L);
    return end;
}

static void *
task_main(void *arg)
{
    struct mr_task *task = arg;
    enum mr_task_state end = MR_TASK_FAILED;

    current = task;
    mr_thread_stop_word(&task->stop);
    if (mr_eal_join() == 0) {
        end = run_joined(task);
        mr_eal_leave();
    } else {
        set_result(task, mr_error_text(), strlen(mr_error_text()));
    }
    mr_store_release(&task->state, end);
    return NULL;
}

static void
task_free(struct mr_task *task)
{
    if (!task)
        return;
    pthread_mutex_destroy(&task->lock);
    free(task->script);
    free(task->entry);
    free(task->args);
    free(task->result);
    free(task);
}

static struct mr_task *
task_new(const char *script, const char *entry, const void *args, uint32_t len,
         int core)
{
    struct mr_task *task = calloc(1, sizeof(*task));

    if (!task)
        return NULL;
    pthread_mutex_init(&task->lock, NULL);
    task->script = strdup(script);
    task->entry = strdup(entry);
    task->args = malloc((size_t)len + 1);
    task->core = core;
    if (!task->script || !task->entry || !task->args) {
        task_free(task);
        return NULL;
    }
    if (len)
        memcpy(task->args, args, len);
    task->args_len = len;
    return task;
}

static int
start_thread(struct mr_task *task)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int rc;

    pthread_attr_init(&attr);
    CPU_ZERO(&set);
    if (task->core >= 0) {
        CPU_SET(task->core, &set);
        pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    }
    rc = pthread_create(&task->thread, &attr, task_main, task);
    pthread_attr_destroy(&attr);
    return -rc;
}

/* Linux takes names of up to 15 bytes, enough to find a task in top -H. */
static void
name_thread(struct mr_task *task)
{
    char name[16];

    snprintf(name, sizeof(name), "mr:%.12s", task->entry);
    pthread_setname_np(task->thread, name);
}

int
mr_task_start(const char *script, const char *entry, const void *args,
              uint32_t len, int core, struct mr_task **task)
{
    struct mr_task *t;
    int rc;

    if (core >= CPU_SETSIZE)
        return mr_error_set(-EINVAL, "task %s: there is no core %d", entry,
                            core);
    t = task_new(script, entry, args, len, core);
    if (!t)
        return mr_error_set(-ENOMEM, "task %s: no memory", entry);
    rc = start_thread(t);
    if (rc == -EINVAL)
        mr_error_set(rc,
                     "task %s: core %d is not among those allowed to "
                     "us; see 'moonring doctor'",
                     entry, core);
    else if (rc)
        mr_error_set(rc, "task %s: no thread: %s", entry, strerror(-rc));
    if (rc) {
        task_free(t);
        return rc;
    }
    name_thread(t);
    *task = t;
    return 0;
}

int
mr_task_state(const struct mr_task *task)
{
    return (int)mr_load_acquire(&task->state);
}

void
mr_task_stop(struct mr_task *task)
{
    mr_store(&task->stop, 1);
    mr_wake_sleepers();
}

const char *
mr_task_result(const struct mr_task *task, uint32_t *len)
{
    if (mr_task_state(task) == MR_TASK_RUNNING || !task->result) {
        *len = 0;
        return "";
    }
    *len = task->result_len;
    return task->result;
}

/* The innermost line that is the script's: ours say nothing to its author. */
static bool
script_line(lua_State *L, lua_Debug *ar)
{
    const char *share = mr_state_share();
    size_t len = strlen(share);

    for (int level = 0; lua_getstack(L, level, ar); level++)
        if (lua_getinfo(L, "Sl", ar) && ar->currentline > 0 &&
            strncmp(ar->source + 1, share, len))
            return true;
    return false;
}

/* Runs in the worker, at its next Lua instruction outside compiled code. A
 * process that ends does not wait for the task's own good will. */
static void
where_hook(lua_State *L, lua_Debug *ar)
{
    struct mr_task *task = current;

    lua_sethook(L, NULL, 0, 0);
    if (!task)
        return;
    if (script_line(L, ar))
        snprintf(task->where, sizeof(task->where), "at %s:%d", ar->short_src,
                 ar->currentline);
    mr_store_release(&task->where_set, 1);
    if (mr_process_stops())
        luaL_error(L, "task %s was ended: it did not look at mr.running()",
                   task->entry);
}

static void
find_line(struct mr_task *task)
{
    const struct timespec step = {0, WHERE_STEP_NS};

    snprintf(task->where, sizeof(task->where),
             "inside a C call or a compiled loop of %s", task->script);
    mr_store_release(&task->where_set, 0);
    pthread_mutex_lock(&task->lock);
    if (task->L)
        lua_sethook(task->L, where_hook, LUA_MASKCOUNT | LUA_MASKLINE, 1);
    pthread_mutex_unlock(&task->lock);
    for (int i = 0; i < WHERE_TRIES; i++) {
        if (mr_load_acquire(&task->where_set) ||
            mr_task_state(task) != MR_TASK_RUNNING)
            return;
        nanosleep(&step, NULL);
    }
}

static struct timespec
deadline_after(uint64_t us)
{
    struct timespec ts;
    uint64_t ns;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    us = MR_MIN(us, UINT64_C(1000000) * 86400 * 365);
    ns = (uint64_t)ts.tv_nsec + us % 1000000 * 1000;
    ts.tv_sec += (time_t)(us / 1000000 + ns / 1000000000);
    ts.tv_nsec = (long)(ns % 1000000000);
    return ts;
}

int
mr_task_free(struct mr_task *task, uint64_t timeout_us)
{
    struct timespec until = deadline_after(timeout_us);

    if (pthread_clockjoin_np(task->thread, NULL, CLOCK_MONOTONIC, &until)) {
        find_line(task);
        return mr_error_set(-EBUSY, "task %s does not end: it is %s",
                            task->entry, task->where);
    }
    task_free(task);
    return 0;
}
