/* The stress program: every set of features in every mode, or those that are
 * asked for. A line a run; ends with status 1 at the first that fails. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress/run.h"
#include "unit/eal.h"

/* The features that change a path. X(name, bit). */
#define SWITCHES(X)                                                            \
    X(packed, RING_PACKED) X(mrg, MRG_RXBUF) X(inorder, IN_ORDER)              \
    X(event, EVENT_IDX) X(indirect, INDIRECT_DESC) X(platform, ORDER_PLATFORM)

static const struct {
    const char *name;
    uint64_t bit;
} switches[] = {
#define X(name, bit) {#name, MR_F(bit)},
    SWITCHES(X)
#undef X
};

static const char *const mode_name[] = {
#define X(name, text) #name,
    RUN_MODES(X)
#undef X
};

static void
usage(FILE *out)
{
    fprintf(out, "usage: stress [--packets N] [--mode MODE] [--features A,B] "
                 "[--ring N] [--one-mapping]\n"
                 "  N packets each way (1e8 is fine) a run; modes:\n");
#define X(name, text) fprintf(out, "    %-8s %s\n", #name, text);
    RUN_MODES(X)
#undef X
    fprintf(out, "  features, of which all sets are run unless one is named "
                 "(- = none):\n   ");
    for (uint32_t i = 0; i < MR_COUNT_OF(switches); i++)
        fprintf(out, " %s", switches[i].name);
    fprintf(out, "\n  --one-mapping: both sides use one mapping of the shared "
                 "memory, for race detectors\n");
}

/* What is asked for; mode and set -1 = all. */
struct wish {
    uint64_t packets;
    int mode;
    int set;
    uint32_t ring;
    bool one_mapping;
};

/* -1 = something unknown. */
static int
set_of(char *text)
{
    int set = 0;

    for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
        uint32_t i = 0;

        while (i < MR_COUNT_OF(switches) && strcmp(name, switches[i].name))
            i++;
        if (i < MR_COUNT_OF(switches))
            set |= 1 << i;
        else if (strcmp(name, "-"))
            return -1;
    }
    return set;
}

static int
mode_of(const char *text)
{
    for (int i = 0; i < RUN_MODE_COUNT; i++)
        if (!strcmp(text, mode_name[i]))
            return i;
    return -1;
}

/* False = wrong usage. */
static bool
parse(int argc, char **argv, struct wish *wish)
{
    static const struct option options[] = {
        {"packets", required_argument, NULL, 'p'},
        {"mode", required_argument, NULL, 'm'},
        {"features", required_argument, NULL, 'f'},
        {"ring", required_argument, NULL, 'r'},
        {"one-mapping", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    bool good = true;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'p')
            good &= (wish->packets = (uint64_t)strtod(optarg, NULL)) > 0;
        else if (c == 'm')
            good &= (wish->mode = mode_of(optarg)) >= 0;
        else if (c == 'f')
            good &= (wish->set = set_of(optarg)) >= 0;
        else if (c == 'r')
            good &= (wish->ring = (uint32_t)atoi(optarg)) > 0;
        else if (c == 'o')
            wish->one_mapping = true;
        else if (c == 'h')
            usage(stdout), exit(0);
        else
            good = false;
    }
    return good && optind == argc;
}

/* Packed rings of other sizes than lines come up too. */
static uint32_t
ring_size(const struct wish *wish, uint64_t features)
{
    bool odd = features & MR_F(RING_PACKED) && features & MR_F(EVENT_IDX);

    return wish->ring ? wish->ring : odd ? 251 : 256;
}

static bool
one(const struct wish *wish, int mode, int set)
{
    static struct run run;
    uint64_t begin = mr_now();
    bool good;

    run.setup = (struct pair_setup){
        .packets = 4096, .room = 512, .one_mapping = wish->one_mapping};
    run.mode = mode;
    run.packets = wish->packets;
    for (uint32_t i = 0; i < MR_COUNT_OF(switches); i++)
        if (set >> i & 1)
            run.setup.features |= switches[i].bit;
    run.setup.size = ring_size(wish, run.setup.features);
    printf("%-8s ring %u", mode_name[mode], run.setup.size);
    for (uint32_t i = 0; i < MR_COUNT_OF(switches); i++)
        if (set >> i & 1)
            printf(" %s", switches[i].name);
    fflush(stdout);
    good = run_all(&run);
    printf(": %s%s, %.1f s\n", good ? "ok" : "FAILED: ", good ? "" : run.error,
           (double)(mr_now() - begin) / 1e9);
    return good;
}

int
main(int argc, char **argv)
{
    struct wish wish = {.packets = 20000, .mode = -1, .set = -1};

    if (!parse(argc, argv, &wish)) {
        usage(stderr);
        return 2;
    }
    eal_start();
    for (int mode = 0; mode < RUN_MODE_COUNT; mode++)
        for (int set = 0; set < 1 << MR_COUNT_OF(switches); set++)
            if ((wish.mode < 0 || wish.mode == mode) &&
                (wish.set < 0 || wish.set == set) && !one(&wish, mode, set))
                return 1;
    return 0;
}
