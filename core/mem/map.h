/* Mappings that huge pages can serve: the kernel maps a huge page as one only
 * where address and file offset agree modulo its size, and does not see to it
 * by itself everywhere.
 *
 * Any thread; no state. */
#pragma once

#include "base/attr.h"

/* As mmap of `size` bytes from the file's start, readable and writable, with
 * `flags` (MAP_SHARED, ...). From a huge page on the address is aligned to
 * MR_HUGE_PAGE if it can be. fd: -1 with MAP_ANONYMOUS. To be undone by munmap.
 * NULL with errno when it cannot be mapped. */
void *mr_map_huge(size_t size, int flags, int fd);
