/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host limit: hipHostMalloc() until the driver's limit on system memory refuses, while the
 * GPU is empty. It takes nearly all of the machine's RAM: on a real machine, nothing else should
 * run. Near miss: some pinned memory, and then the GPU is full.
 */
#include <fcntl.h>
#include <unistd.h>

#include "sample.h"

#define STAGING (64 * MIB)

static void *host[BUFFERS_MAX];
static void *layers[BUFFERS_MAX];

/* If the machine runs out before the driver says no, let it be this program that dies. */
static void be_the_victim(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, "1000", 4);
    (void)close(fd);
}

static hipError_t pin(size_t most)
{
    hipError_t error = hipSuccess;
    for (size_t i = 0; i < most && error == hipSuccess; i++)
        error = hipHostMalloc(&host[i], STAGING, 0);
    return error;
}

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "pins host memory until hipHostMalloc fails",
                                       "pins a little, then fills the GPU (capacity)");
    be_the_victim();
    hipError_t error = pin(is_near_miss ? 4 : BUFFERS_MAX);
    if (!is_near_miss || error != hipSuccess)
        return sample_refused("hipHostMalloc", STAGING, error);
    size_t bytes = sample_share(64);
    (void)sample_fill(layers, BUFFERS_MAX, bytes, &error);
    return sample_refused("hipMalloc", bytes, error);
}
