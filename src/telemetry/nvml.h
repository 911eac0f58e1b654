/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's GPUs, so that the same report works on both: found below /proc/driver/nvidia, read
 * through NVML, which is looked for at run time. Process M (the sampler), which may hang and is
 * replaced; where the driver's folder is not there, one failed opendir() is all it costs.
 */
#ifndef TELEMETRY_NVML_H
#define TELEMETRY_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "telemetry/machine.h"

struct sampler;

/* Append the GPUs of the NVIDIA driver, behind those of amdgpu. Opens nothing of them. */
void nvml_add_gpus(struct machine *m);
/* Is it one of those? */
bool nvml_is(const struct gpu_info *gpu);

/* Load the library and find each GPU in it. Not before the first record: it may take seconds where
 * the driver has to wake the GPU. */
void nvml_open(struct sampler *s);
bool nvml_tried(void); /* or was tried in vain */
/* The same three as of sampler_gpu.c. True = something changed. */
bool nvml_fast(struct sampler *s, uint32_t gpu);
void nvml_total(struct sampler *s, uint32_t gpu);
void nvml_slow(struct sampler *s, uint32_t gpu);
void nvml_errors(struct sampler *s, uint32_t gpu);

/* Read which process holds how much; then nvml_next_pid() lists them and nvml_bytes() tells. */
void nvml_list(struct sampler *s);
/* *at starts at 0; 0 = no more. */
int32_t nvml_next_pid(uint32_t *at);
/* Could the processes of that GPU be listed? *ret = bytes of `pid`, 0 when it is not among them. */
bool nvml_bytes(int32_t pid, uint32_t gpu, uint64_t *ret);
/* Is the process among them? */
bool nvml_holds(int32_t pid);

#endif
