/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one kernel that is run: HIP's copy. ROCm 7.2 copies from a gfx90a with it, since the engine that
 * it asks for there takes no copies from the device.
 */
#ifndef EMULATOR_BLIT_H
#define EMULATOR_BLIT_H

#include <stdint.h>

struct queue;

/* Nothing happens where the arguments are not those of that kernel, or name memory that is not mapped. */
void blit_run(const struct queue *queue, uint64_t kernarg);

#endif
