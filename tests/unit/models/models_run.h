/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the collector "models" on files that a test writes below temp_dir() (sink.h). */
#ifndef TEST_MODELS_RUN_H
#define TEST_MODELS_RUN_H

#include <stdint.h>

#include "sink.h"

#define MIB ((uint64_t)1 << 20)

struct run {
    const char *run_dir;
    const char *argv[16];
    const char *environment[4];
    const char *fds, *maps;
    uint64_t budget_ms;
    uint64_t start_wall_ns;
    struct collect_out *out;
    enum collect_status status;
};

/* Fills `out` and `status`; the caller frees `out` with sink_free(). */
void run_models(struct run *run);

/* Files with an old time of change, so that their hash may be cached. */
void tiny_gguf(const char *path);
void tiny_safetensors(const char *path);
void fill(const char *path, uint64_t size, unsigned seed);

/* The expected hash, from another program: the first `len` characters of its output, and a NUL. */
void sha256sum(const char *program, const char *path, char *out, size_t len);

/* For a group of tests: a cache of its own, and the removal of temp_dir(). */
int models_set_up(void **state);
int models_tear_down(void **state);

#endif
