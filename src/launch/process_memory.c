/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/process_memory.h"

#include <sys/uio.h>

bool process_memory_read(pid_t pid, uint64_t address, void *out, size_t length)
{
    struct iovec here = {out, length};
    struct iovec there = {(void *)(uintptr_t)address, length};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)length;
}
