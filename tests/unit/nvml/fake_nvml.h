/* SPDX-License-Identifier: Apache-2.0 */
/* The fake library's answers: a file with this struct, named by FAKE_NVML. */
#ifndef TEST_FAKE_NVML_H
#define TEST_FAKE_NVML_H

#include <stdint.h>

#define FAKE_GPUS 2
#define FAKE_PROCESSES 8

struct fake_answers {
    int init_result, memory_result, process_result;
    int inits; /* counted by the library */
    uint64_t total[FAKE_GPUS], free_bytes[FAKE_GPUS], used[FAKE_GPUS];
    unsigned busy, celsius, milliwatt, sm_mhz, memory_mhz;
    uint64_t throttle, ecc;
    unsigned process_count[FAKE_GPUS];
    struct {
        unsigned pid;
        uint64_t bytes;
    } processes[FAKE_GPUS][FAKE_PROCESSES];
};

#endif
