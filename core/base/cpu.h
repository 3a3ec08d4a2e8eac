/* The CPU's level: mr_cpu_level, mr_cpu_cap and mr_cpu_name are declared in
 * moonring.h. Found once; constant but for mr_cpu_cap, which the control
 * thread calls before rings start. */
#pragma once

#include "base/attr.h"
#include "moonring.h"

/* What the CPU and the kernel offer, whatever caps it (enum mr_cpu). */
int mr_cpu_offered(void);
/* The level of that name, -1 for none. */
int mr_cpu_named(const char *name);
