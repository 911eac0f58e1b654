/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leak: each step makes three buffers and gives two back, until nothing is left.
 * Near miss: many buffers of one size that are meant to stay (weights), then steps that give all
 * back, then one batch that is too large: never freed is not leaked.
 */
#include <time.h>

#include "sample.h"

#define STEPS_TO_THE_END 160
#define WEIGHTS 96
#define GOOD_STEPS 200

static void *kept[BUFFERS_MAX];

static void pause_a_little(void)
{
    const struct timespec pause = {0, 2000000};
    (void)nanosleep(&pause, NULL);
}

static size_t wanted_bytes; /* of the last hipMalloc */

static hipError_t get(void **buffer, size_t bytes)
{
    wanted_bytes = bytes;
    return hipMalloc(buffer, bytes);
}

/* The correct part of a step: two buffers that are freed. */
static hipError_t work(size_t bytes)
{
    void *activations[2] = {NULL, NULL};
    hipError_t error = get(&activations[0], bytes / 2);
    if (error == hipSuccess)
        error = get(&activations[1], bytes / 4);
    sample_free(activations, activations[1] != NULL ? 2 : activations[0] != NULL);
    pause_a_little();
    return error;
}

static int run_leaking(size_t bytes)
{
    hipError_t error = hipSuccess;
    size_t step = 0;
    for (; error == hipSuccess && step < BUFFERS_MAX; step++) {
        error = get(&kept[step], bytes); /* "loss history" that nobody empties */
        if (error == hipSuccess)
            error = work(bytes);
    }
    sample_say("failed in step %zu", step);
    return sample_refused("hipMalloc", wanted_bytes, error);
}

static int run_loaded(size_t bytes)
{
    hipError_t error = hipSuccess;
    size_t count = sample_fill(kept, WEIGHTS, bytes, &error);
    for (int step = 0; error == hipSuccess && step < GOOD_STEPS; step++)
        error = work(bytes);
    void *batch = NULL;
    size_t too_much = (STEPS_TO_THE_END - count + 16) * bytes;
    if (error == hipSuccess)
        error = hipMalloc(&batch, too_much);
    return sample_refused("hipMalloc", too_much, error);
}

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(
        argc, argv, "keeps one buffer a step until hipMalloc fails",
        "weights that stay, steps that give all back, one batch too large (capacity, no leak)");
    size_t bytes = sample_share(STEPS_TO_THE_END);
    return is_near_miss ? run_loaded(bytes) : run_leaking(bytes);
}
