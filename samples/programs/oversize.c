/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Over-size request: one buffer of twice the card. HIP refuses it before it asks the driver.
 * Near miss: a request that the card could hold, were the rest of it not in use.
 */
#include "sample.h"

static void *layers[BUFFERS_MAX];

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "asks for twice the GPU's memory at once",
                                       "asks for half of it while more than half is in use");
    size_t total = sample_total();
    size_t bytes = is_near_miss ? sample_share(2) : 2 * total;
    void *buffer = NULL;
    if (is_near_miss)
        (void)sample_fill(layers, 10, sample_share(16), NULL);
    return sample_refused("hipMalloc", bytes, hipMalloc(&buffer, bytes));
}
