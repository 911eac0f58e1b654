/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stuck copy engine: a copy to the GPU that never ends, and ends with HSA_ENABLE_SDMA=0, where
 * shaders copy. On a healthy card it ends. Near miss: a kernel that never ends: no engine but the
 * compute queue stands still.
 */
#include <stdlib.h>

#include "sample.h"

#define BYTES (64 * MIB)
#define START_S 40
#define PATIENCE_S 6

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "a copy to the GPU that does not end",
                                       "a kernel that does not end (gpu-hang, no sdma)");
    void *device = NULL;
    void *host = NULL;
    hipError_t error = hipMalloc(&device, BYTES);
    if (error == hipSuccess)
        error = hipHostMalloc(&host, BYTES, 0);
    if (error != hipSuccess)
        return sample_refused("hipMalloc", BYTES, error);
    /* A kernel first: starting up is not what the watchdog is for. */
    sample_watchdog(START_S, "the GPU did not start up");
    if (!is_near_miss)
        error = hipMemset(device, 0, BYTES);
    if (error == hipSuccess)
        error = hipDeviceSynchronize();
    if (error != hipSuccess)
        return sample_refused("starting up", BYTES, error);
    sample_watchdog(is_near_miss ? 2 * PATIENCE_S : PATIENCE_S,
                    is_near_miss ? "the kernel did not end" : "the copy did not end");
    if (is_near_miss)
        error = hipMemset(device, 0, BYTES);
    else
        error = hipMemcpy(device, host, BYTES, hipMemcpyHostToDevice);
    if (error == hipSuccess)
        error = hipDeviceSynchronize();
    return error == hipSuccess ? 0 : sample_refused("the copy", BYTES, error);
}
