/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that amdgpu and amdkfd print into the kernel log, by chip generation (gmc_v9_0.c,
 * gmc_v11_0.c, kfd_device_queue_manager.c, amdgpu_device.c). With the state lock held.
 */
#ifndef EMULATOR_DRIVER_LOG_H
#define EMULATOR_DRIVER_LOG_H

#include <stdbool.h>
#include <stdint.h>

void driver_log_page_fault(unsigned gpu, uint64_t address, bool is_write);
/* of_copies: a copy engine hung, else the compute queues. */
void driver_log_reset(unsigned gpu, bool of_copies);

#endif
