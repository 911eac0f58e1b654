/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capacity: layer after layer, until the card is full of this program's own memory.
 * Near miss: the refusal is coped with, by a smaller batch; the program dies later, by itself.
 */
#include <time.h>

#include "sample.h"

#define LAYERS 64
#define LOAD_NS 10000000 /* what a disk takes for a layer */

static void *layers[BUFFERS_MAX];

/* Does what an application does that can go on: it halves the batch. */
static int go_on_smaller(size_t count, size_t bytes)
{
    void *batch = NULL;
    sample_free(layers + count / 2, count - count / 2);
    hipError_t error = hipMalloc(&batch, bytes / 2);
    for (int step = 0; error == hipSuccess && step < 8; step++)
        error = hipMemset(batch, step, bytes / 2);
    if (error == hipSuccess)
        error = hipFree(batch);
    if (error != hipSuccess)
        return sample_refused("going on", bytes / 2, error);
    sample_say("did not fit, went on with half the batch");
    return sample_crash();
}

int main(int argc, char **argv)
{
    bool is_near_miss =
        sample_options(argc, argv, "fills the GPU until hipMalloc fails",
                       "copes with the refusal, and crashes on the CPU later (no capacity)");
    size_t bytes = sample_share(LAYERS);
    hipError_t error = hipSuccess;
    size_t count = 0;
    while (sample_fill(layers + count, 1, bytes, &error) == 1) {
        const struct timespec load = {0, LOAD_NS};
        (void)nanosleep(&load, NULL);
        count++;
    }
    if (is_near_miss)
        return go_on_smaller(count, bytes);
    return sample_refused("hipMalloc", bytes, error);
}
