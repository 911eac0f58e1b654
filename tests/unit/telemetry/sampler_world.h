/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the sampler: a made-up machine of 8 GPUs, a sampler on it, and processes to sample. */
#ifndef TEST_TELEMETRY_SAMPLER_WORLD_H
#define TEST_TELEMETRY_SAMPLER_WORLD_H

#include <stdint.h>
#include <sys/types.h>

struct world {
    char root[256];
    struct shared *shared;
    int fd;
    struct sampler *sampler;
};

/* Set-up and tear-down of a test; *state is a struct world. */
int world_set_up(void **state);
int world_tear_down(void **state);

void world_begin(struct world *w);
/* One turn of the sampler, `ns` later. */
void world_turn_after(struct world *w, uint64_t ns);

/* A child that sleeps until it is killed, with `depth` descendants below each other; *ret_deepest = pid of the last. */
pid_t start_sleeper(int depth, pid_t *ret_deepest);
void end_sleeper(pid_t pid);

#endif
