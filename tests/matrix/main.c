/* The matrix's command line: `matrix [--all] [--list] [WORD...]` runs, or with
 * --list names, the cells whose name holds every word; --all takes the long
 * ones in. Exit status 0 when all of them pass.
 *
 * The cells take the CPU levels in turn, so that neighbours, which differ in
 * one respect, run at different ones; MR_CPU_LEVEL=NAME runs all at one. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "matrix/matrix.h"
#include "unit/eal.h"

enum { FAILURES_SHOWN = 20 };

struct tally {
    char **word;
    int words;
    bool list;
    bool all;
    bool one_level;
    uint32_t cells;
    uint32_t failed;
    uint64_t packets;
};

/* Words match whole: "split" is not found in "split-mrg", "mrg" neither. */
static bool
holds(const char *name, const char *word)
{
    size_t len = strlen(word);
    const char *at = name;

    while ((at = strstr(at, word)) != NULL) {
        bool start = at == name || at[-1] == ' ';
        bool end = !at[len] || at[len] == ' ' || at[len] == ',';

        if (start && end)
            return true;
        at++;
    }
    return false;
}

/* A layout word stands for all of its variants. */
static bool
wanted(const struct tally *t, const struct cell *c, const char *name)
{
    for (int i = 0; i < t->words; i++) {
        const char *word = t->word[i];

        if (strcmp(word, "packed") == 0 || strcmp(word, "split") == 0) {
            if (c->packed != (word[0] == 'p'))
                return false;
        } else if (!holds(name, word)) {
            return false;
        }
    }
    return true;
}

static void
visit(const struct cell *c, void *arg)
{
    struct tally *t = arg;
    char name[160], why[600];
    uint32_t n;

    cell_name(c, name, sizeof(name));
    if (!wanted(t, c, name))
        return;
    t->cells++;
    if (t->list) {
        puts(name);
        return;
    }
    if (!t->one_level)
        mr_cpu_cap(mr_cpu_name((int)(t->cells % MR_CPU_COUNT)));
    n = cell_run(c, why, sizeof(why));
    t->packets += n;
    if (!n && t->failed++ < FAILURES_SHOWN)
        printf("FAILED %s, %s\n       %s\n", name,
               mr_cpu_name(mr_cpu_level()), why);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    struct tally t = {.word = argv + 1, .words = argc - 1};

    for (; t.words && t.word[0][0] == '-'; t.word++, t.words--) {
        t.list |= strcmp(t.word[0], "--list") == 0;
        t.all |= strcmp(t.word[0], "--all") == 0;
    }
    t.one_level = getenv("MR_CPU_LEVEL") != NULL;
    if (!t.list)
        eal_start();
    cells_each(visit, &t, t.all);
    printf("%u cells, %u failed, %lu packets\n", t.cells, t.failed, t.packets);
    return t.failed || !t.cells;
}
