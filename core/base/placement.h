/* Placement: how far two CPUs are from each other now. A hypervisor may move
 * virtual CPUs between cores of their own and the two threads of one core,
 * and a ring's rate follows; so a measurement on two CPUs is worth something
 * only beside the class that it was taken in.
 *
 * mr_probe_cores and mr_placement_name are declared in moonring.h. A probe
 * makes two threads of its own and ends them; it keeps no state. */
#pragma once

#include "base/attr.h"
#include "moonring.h"

/* Class of a round trip of `ns` nanoseconds between two different CPUs; 0 =
 * not known how long. Never MR_PLACEMENT_ONE_CORE. */
enum mr_placement mr_placement_of(double ns);
