/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Held by another process: a small model that would fit, were another process not there.
 * `held --hold PERCENT` is that process: it takes so much of the card, says "ready" and waits until
 * its input is closed. Near miss: the other one holds little; the request does not fit by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sample.h"

#define PARTS 50 /* a buffer is 2 % */

static void *layers[BUFFERS_MAX];

static int hold(const char *percent)
{
    char end = 0;
    (void)prctl(PR_SET_NAME, "model-server");
    size_t count = strtoul(percent, NULL, 10) * PARTS / 100;
    hipError_t error = hipSuccess;
    if (sample_fill(layers, count, sample_share(PARTS), &error) < count)
        return sample_refused("hipMalloc", sample_share(PARTS), error);
    (void)puts("ready");
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &end, 1) > 0)
        continue;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--hold") == 0)
        return hold(argv[2]);
    bool is_near_miss = sample_options(
        argc, argv, "asks for 40 % of the GPU, while held --hold 80 runs in another terminal",
        "asks for the whole GPU, while held --hold 10 does (capacity)");
    size_t most = (is_near_miss ? 100 : 40) * PARTS / 100;
    size_t bytes = sample_share(PARTS);
    hipError_t error = hipSuccess;
    if (sample_fill(layers, most, bytes, &error) == most) {
        sample_say("nobody holds the memory: it fitted");
        return 0;
    }
    return sample_refused("hipMalloc", bytes, error);
}
