/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hang: one of some kernels never ends, until the driver resets the GPU. On a healthy card it ends.
 * Near miss: two threads of the CPU wait for each other; the GPU has nothing to do.
 */
#include <pthread.h>

#include "sample.h"

#define BYTES (16 * MIB)
#define STEPS 8
#define START_S 40
#define PATIENCE_S 6

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_have_one;

static void *take_in_the_other_order(void *unused)
{
    (void)pthread_mutex_lock(&second);
    (void)pthread_barrier_wait(&both_have_one);
    (void)pthread_mutex_lock(&first);
    return unused;
}

static void wait_for_each_other(void)
{
    pthread_t other;
    (void)pthread_barrier_init(&both_have_one, NULL, 2);
    (void)pthread_mutex_lock(&first);
    if (pthread_create(&other, NULL, take_in_the_other_order, NULL) != 0)
        return;
    (void)pthread_barrier_wait(&both_have_one);
    (void)pthread_mutex_lock(&second);
}

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "a kernel that does not end",
                                       "a deadlock on the CPU (no gpu-hang)");
    void *device = NULL;
    hipError_t error = hipMalloc(&device, BYTES);
    sample_watchdog(START_S, "the GPU did not start up");
    if (error == hipSuccess) /* starting up is not what the watchdog is for */
        error = hipMemset(device, 0, BYTES);
    if (error == hipSuccess)
        error = hipDeviceSynchronize();
    if (error != hipSuccess)
        return sample_refused("hipMalloc", BYTES, error);
    sample_watchdog(PATIENCE_S, "step 1 did not end");
    if (is_near_miss)
        wait_for_each_other();
    for (int step = 0; error == hipSuccess && step < STEPS; step++) {
        error = hipMemset(device, step, BYTES);
        if (error == hipSuccess)
            error = hipDeviceSynchronize();
    }
    return error == hipSuccess ? 0 : sample_refused("the kernel", BYTES, error);
}
