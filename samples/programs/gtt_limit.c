/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TTM/GTT limit of an APU: hipMalloc() until ttm.pages_limit refuses, while the machine has RAM.
 * Near miss: most of the limit is used, and then the CPU's own memory fails (RLIMIT_AS).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "sample.h"

#define PARTS 32

static void *layers[BUFFERS_MAX];

/* Bytes of address space in use. */
static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%lu", &pages) != 1)
            pages = 0;
        (void)fclose(file);
    }
    return pages * 4096;
}

/* The host's side of an application: buffers of its own, until malloc() fails. */
static int fail_on_the_host(void)
{
    size_t most = address_space() + 256 * MIB;
    struct rlimit limit = {most, most};
    (void)setrlimit(RLIMIT_AS, &limit);
    for (int i = 0; i < 64; i++) {
        char *volatile rows = malloc(16 * MIB); /* clang leaves out what is not used */
        if (rows == NULL) {
            sample_say("std::bad_alloc: the host has no memory for 16 MiB of rows");
            return 1;
        }
        memset(rows, 1, 4096);
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "an APU: fills what the GPU may use of the RAM",
                                       "an APU: most of it, then the host's memory fails");
    size_t bytes = sample_share(PARTS);
    hipError_t error = hipSuccess;
    size_t count = sample_fill(layers, is_near_miss ? PARTS * 7 / 10 : BUFFERS_MAX, bytes, &error);
    if (error != hipSuccess) {
        sample_say("%zu layers fitted", count);
        return sample_refused("hipMalloc", bytes, error);
    }
    return fail_on_the_host();
}
