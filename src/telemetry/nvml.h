/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's GPUs, so that the same report works for them: found below /proc/driver/nvidia, read
 * through NVML, which is loaded at run time. Runs in process M (the sampler), which may hang and is
 * replaced. Without the driver's folder it costs one failed opendir().
 */
#ifndef TELEMETRY_NVML_H
#define TELEMETRY_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "telemetry/machine.h"

struct sampler;

/* Append the GPUs of the NVIDIA driver after those of amdgpu. Opens no device. */
void nvml_add_gpus(struct machine *m);
/* Is it an NVIDIA GPU? */
bool nvml_is(const struct gpu_info *gpu);

/* Load the library and find each GPU in it. Call it after the first record: it takes seconds if the
 * driver has to wake the GPU. */
void nvml_open(struct sampler *s);
bool nvml_tried(void); /* nvml_open() was called, whether or not it worked */
/* The counterparts of the functions of sampler_gpu.c. True = a value changed. */
bool nvml_fast(struct sampler *s, uint32_t gpu);
void nvml_total(struct sampler *s, uint32_t gpu);
void nvml_slow(struct sampler *s, uint32_t gpu);
void nvml_errors(struct sampler *s, uint32_t gpu);

/* Read how much each process holds. Afterwards nvml_next_pid() lists the processes and nvml_bytes()
 * gives the bytes. */
void nvml_list(struct sampler *s);
/* *at starts at 0; 0 = no more. */
int32_t nvml_next_pid(uint32_t *at);
/* Could the processes of that GPU be listed? *ret = bytes of `pid`, 0 when it is not among them. */
bool nvml_bytes(int32_t pid, uint32_t gpu, uint64_t *ret);
/* Does the process hold memory of any of these GPUs? */
bool nvml_holds(int32_t pid);

#endif
