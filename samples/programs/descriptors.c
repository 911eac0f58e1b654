/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File-descriptor limit: many small buffers under a low RLIMIT_NOFILE. A runtime that keeps one
 * descriptor a buffer (ROCm 7.14; on the emulator the rule "fds") then fails with most of the GPU
 * free. With other runtimes it fills the card instead. Near miss: it has the limit too, and large
 * buffers.
 */
#include <sys/resource.h>

#include "sample.h"

#define LIMIT 256

static void *buffers[BUFFERS_MAX];

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "small buffers until no descriptor is left",
                                       "large buffers until the GPU is full (capacity)");
    struct rlimit limit = {LIMIT, LIMIT};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 3;
    size_t bytes = is_near_miss ? sample_share(32) : 2 * MIB;
    hipError_t error = hipSuccess;
    (void)sample_fill(buffers, BUFFERS_MAX, bytes, &error);
    return sample_refused("hipMalloc", bytes, error);
}
