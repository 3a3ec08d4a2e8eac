/* One run of the stress: numbered packets both ways at once between our two
 * sides, a thread each, until `packets` went either way. What a run proves: no
 * packet is missing, doubled, out of order or changed; none is handed over
 * before it is whole; what was sent last is completed without further traffic.
 *
 * Owner: the thread that calls run_all; it starts and joins the others. */
#pragma once

#include "pair/pair.h"

/* How the sides behave. X(name, text). */
#define RUN_MODES(X)                                                           \
    X(plain, "both sides send what the rings hold")                            \
    X(capped, "the driver never has more than two packets out")                \
    X(checked, "a third thread reads every used buffer before the driver may") \
    X(spliced, "the device splices: the driver gets its own packets back")

enum run_mode {
#define X(name, text) RUN_##name,
    RUN_MODES(X)
#undef X
    RUN_MODE_COUNT
};

struct run {
    struct pair_setup setup;
    enum run_mode mode;
    uint64_t packets; /* each way */

    struct pair pair;
    uint32_t most_up;   /* longest packet, driver to device */
    uint32_t most_down; /* and back */
    uint64_t checked;   /* packets that the checker saw; any thread reads it */
    uint32_t failed;    /* set once: everybody ends */
    char error[256];    /* of whoever set it */
};

/* Carries out the run that setup, mode and packets describe. False, with
 * run->error, when it proved something wrong. */
bool run_all(struct run *run);

/* For the threads of a run. Keeps the first error and ends the run; returns
 * false. */
bool run_fail(struct run *run, const char *fmt, ...) MR_PRINTF(2, 3);
bool run_goes_on(const struct run *run);
/* The checker's thread (checker.c): arg is the run. */
void *run_checker(void *arg);
