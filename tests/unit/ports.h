/* The fixture of tests that open ports. */
#pragma once

#include "unit/eal.h"
#include "unit/packets.h"

#include "port/port.h"

/* cmocka group setup. */
static inline int
ports_setup(void **state)
{
    eal_setup(state);
    mr_gate_init();
    return 0;
}
