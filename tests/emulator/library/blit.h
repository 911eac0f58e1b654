/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only kernel that is run: HIP's copy. ROCm 7.2 uses it to copy from a gfx90a, because the engine
 * that it asks for there takes no copies from the device.
 */
#ifndef EMULATOR_BLIT_H
#define EMULATOR_BLIT_H

#include <stdint.h>

struct queue;

/* Does nothing if the arguments are not those of that kernel, or name memory that is not mapped. */
void blit_run(const struct queue *queue, uint64_t kernarg);

#endif
