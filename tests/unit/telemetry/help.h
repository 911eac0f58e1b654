/* SPDX-License-Identifier: Apache-2.0 */
/* For the telemetry tests: folders, fake machines, samples in memory. */
#ifndef TEST_TELEMETRY_HELP_H
#define TEST_TELEMETRY_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "telemetry/series.h"

struct shared;

/* A fresh folder below $TMPDIR, removed by help_remove(). */
void help_make_dir(char *out, size_t size);
void help_remove(const char *dir);
/* Write a file below root, with its folders. */
void help_write(const char *root, const char *path, const char *text);
void help_write_u64(const char *root, const char *path, uint64_t value);
/* Independent of the code under test: the number at the start of a file; false when none. */
bool help_read_u64(const char *root, const char *path, uint64_t *ret);
/* Makes so many amdgpu cards with every counter, and a KFD node for each. GPU i: VRAM used = base + i. */
void help_fake_machine(const char *root, unsigned gpus, uint64_t used_base);
/* The root of a recorded machine. */
void help_machine_path(const char *name, char *out, size_t size);
/* The sampler's records so far, as series. */
void help_ring_to_series(struct shared *shared, struct series_set *ret);
/* One record; entries as {metric, instance, status, value} quadruples. Returns its bytes. */
struct help_value {
    enum metric metric;
    uint32_t instance;
    enum value_status status;
    uint64_t value;
};
size_t help_record(unsigned char *out, uint64_t time_ns, uint16_t flags,
                   const struct help_value *values, size_t count);
/* xorshift, seeded; the seed is printed by the caller. */
uint32_t help_random(uint64_t *state);
uint64_t help_seed(void);

#endif
