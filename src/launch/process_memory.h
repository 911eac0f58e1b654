/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process. Needs the right to trace it; does not stop it. */
#ifndef LAUNCH_PROCESS_MEMORY_H
#define LAUNCH_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* True when all `length` bytes at `address` of the process were read. */
bool process_memory_read(pid_t pid, uint64_t address, void *out, size_t length);

#endif
