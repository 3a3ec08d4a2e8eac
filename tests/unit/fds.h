/* How many file descriptors this process has open: a test compares before and
 * after (V38). */
#pragma once

#include <dirent.h>

static inline int
fds_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}
