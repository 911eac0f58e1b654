/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping limit: a program that maps a great many small files leaves the runtime no mapping for its
 * buffers (vm.max_map_count). Near miss: a quarter of the mappings, and then the GPU is full.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "sample.h"

static void *buffers[BUFFERS_MAX];

/* Pages of alternating rights cannot be merged: each is a mapping. True when the kernel refused. */
static bool map_pages(size_t most)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < most; i++) {
        int rights = i % 2 == 0 ? PROT_READ : PROT_NONE;
        if (mmap(NULL, page, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "maps pages until the kernel refuses, then asks",
                                       "maps a few, then fills the GPU (capacity)");
    size_t bytes = sample_share(is_near_miss ? 32 : 64);
    if (!is_near_miss && !map_pages(1u << 22)) {
        sample_say("vm.max_map_count is too high for this sample");
        return 3;
    }
    if (is_near_miss)
        (void)map_pages(16384);
    hipError_t error = hipSuccess;
    (void)sample_fill(buffers, BUFFERS_MAX, bytes, &error);
    return sample_refused("hipMalloc", bytes, error);
}
