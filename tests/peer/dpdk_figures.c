#include "peer/dpdk_figures.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const step_names[] = {"driver_rx", "driver_tx", "device_rx",
                                         "device_tx", "total"};

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* As moonring.trial has it: between two values in proportion. */
static double
quantile(const double *sorted, long n, double q)
{
    double at = (double)(n - 1) * q;
    long low = (long)at;
    double part = at - (double)low;

    return part > 0 ? sorted[low] * (1 - part) + sorted[low + 1] * part
                    : sorted[low];
}

static void
say_spread(const char *name, double *values, long n)
{
    qsort(values, (size_t)n, sizeof(values[0]), compare);
    printf(", \"%s\": {\"min\": %.3f, \"lo\": %.3f, \"median\": %.3f, "
           "\"hi\": %.3f, \"n\": %ld}",
           name, values[0], quantile(values, n, 0.25), quantile(values, n, 0.5),
           quantile(values, n, 0.75), n);
}

static double
sum_of_steps(const struct dpdk_figures *f, long i)
{
    double sum = 0;

    for (int s = 0; s < STEPS; s++)
        sum += f->row[s][i];
    return sum;
}

/* The best total, and the steps where they took least together. */
static void
say_best(const struct dpdk_figures *f)
{
    const double *total = f->row[STEPS];
    long best = 0, steps = 0;

    for (long i = 1; i < f->chunks; i++) {
        if (total[i] < total[best])
            best = i;
        if (sum_of_steps(f, i) < sum_of_steps(f, steps))
            steps = i;
    }
    printf(", \"best\": {\"total\": %.3f", total[best]);
    for (int s = 0; s < STEPS; s++)
        printf(", \"%s\": %.3f", step_names[s], f->row[s][steps]);
    printf("}");
}

void
dpdk_figures_say(struct dpdk_figures *f, uint64_t packets, uint64_t lost)
{
    printf("{\"packets\": %llu, \"lost\": %llu", (unsigned long long)packets,
           (unsigned long long)lost);
    say_best(f); /* before the values are sorted */
    for (int s = 0; s <= STEPS; s++)
        say_spread(step_names[s], f->row[s], f->chunks);
    printf("}\n");
    fflush(stdout);
}
