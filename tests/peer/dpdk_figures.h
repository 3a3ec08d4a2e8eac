/* Figures of one run of dpdk_onecore: ticks a packet of every chunk, for each
 * step and in total. Filled in and said by the one thread there is. */
#pragma once

#include <stdint.h>

/* The steps of a burst, in their order. */
enum step { DRIVER_RX, DRIVER_TX, DEVICE_RX, DEVICE_TX, STEPS };

/* One value a chunk: the steps, then the total. The rows are the caller's. */
struct dpdk_figures {
    double *row[STEPS + 1];
    long chunks; /* values in each row, at least 1 */
};

/* Writes one line of JSON with the number of packets, of those lost, the best
 * chunks, and for each row the least and the quartiles. Sorts the rows. */
void dpdk_figures_say(struct dpdk_figures *f, uint64_t packets, uint64_t lost);
