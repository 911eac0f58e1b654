/* SPDX-License-Identifier: Apache-2.0 */
#include "driver_log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fdinfo.h"
#include "journal.h"
#include "machine.h"

#define WARNING 4
#define ERROR 3
#define INFO 6

/* Bits 0 more, 4-7 permission (page not present, no read, no write), 9-16 client (8 = TCP), 18 write,
 * 20-23 vmid: "VM_L2_PROTECTION_FAULT_STATUS:0x00841031". */
static unsigned status_of(bool is_write)
{
    return 1u | 3u << 4 | 8u << 9 | (is_write ? 1u << 18 : 0u) | 8u << 20;
}

static void process_name(char name[16])
{
    ssize_t n = file_read("/proc/self/comm", name, 16);
    if (n > 0 && name[n - 1] == '\n')
        name[n - 1] = '\0';
}

void driver_log_page_fault(unsigned gpu, uint64_t address, bool is_write)
{
    const struct gpu *info = &machine.gpus[gpu];
    const char *pci = info->pci;
    char name[16] = "";
    process_name(name);
    int pid = getpid();
    bool is_gfx9 = info->gfx_version < 100000;
    unsigned status = status_of(is_write);
    if (is_gfx9) {
        kmsg(ERROR, "amdgpu %s: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 "
                    "pasid:%u)",
             pci, fdinfo_pasid(pid));
        kmsg(ERROR, "amdgpu %s: amdgpu:  for process %s pid %d thread %s pid %d)", pci, name, pid,
             name, pid);
        kmsg(ERROR, "amdgpu %s: amdgpu:   in page starting at address 0x%016llx from IH client "
                    "0x1b (UTCL2)",
             pci, (unsigned long long)address & ~4095ull);
        kmsg(ERROR, "amdgpu %s: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x%08X", pci, status);
    } else {
        kmsg(ERROR, "amdgpu %s: amdgpu: [gfxhub] page fault (src_id:0 ring:169 vmid:8 pasid:%u)",
             pci, fdinfo_pasid(pid));
        kmsg(ERROR, "amdgpu %s: amdgpu:  in process %s pid %d thread %s pid %d)", pci, name, pid,
             name, pid);
        kmsg(ERROR, "amdgpu %s: amdgpu:   in page starting at address 0x%016llx from client 10",
             pci, (unsigned long long)address & ~4095ull);
        kmsg(ERROR, "amdgpu %s: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x%08X", pci, status);
    }
    kmsg(ERROR, "amdgpu %s: amdgpu: \t Faulty UTCL2 client ID: TCP (0x8)", pci);
    kmsg(ERROR, "amdgpu %s: amdgpu: \t MORE_FAULTS: 0x1", pci);
    kmsg(ERROR, "amdgpu %s: amdgpu: \t WALKER_ERROR: 0x0", pci);
    kmsg(ERROR, "amdgpu %s: amdgpu: \t PERMISSION_FAULTS: 0x3", pci);
    kmsg(ERROR, "amdgpu %s: amdgpu: \t MAPPING_ERROR: 0x0", pci);
    kmsg(ERROR, "amdgpu %s: amdgpu: \t RW: 0x%x", pci, is_write ? 1u : 0u);
}

/* A copy engine that stands still also holds the kernel's own jobs, whose scheduler notices first:
 * amdgpu_job_timedout(), 6.12. */
static void log_copy_engine(const char *pci)
{
    kmsg(ERROR, "amdgpu %s: amdgpu: ring sdma0 timeout, signaled seq=1187, emitted seq=1189", pci);
}

void driver_log_reset(unsigned gpu, bool of_copies)
{
    const struct gpu *info = &machine.gpus[gpu];
    const char *pci = info->pci;
    if (of_copies) {
        log_copy_engine(pci);
    } else if (info->gfx_version >= 110000) { /* the MES firmware schedules */
        kmsg(ERROR, "amdgpu %s: amdgpu: MES failed to respond to msg=REMOVE_QUEUE", pci);
        kmsg(ERROR, "amdgpu %s: amdgpu: failed to remove hardware queue from MES, "
                    "doorbell=0x1000",
             pci);
        kmsg(ERROR, "amdgpu %s: amdgpu: MES might be in unrecoverable state, issue a GPU reset",
             pci);
    } else {
        kmsg(ERROR, "amdgpu %s: amdgpu: cp queue preemption time out", pci);
        kmsg(ERROR, "amdgpu %s: amdgpu: The cp might be in an unrecoverable state due to an "
                    "unsuccessful queues preemption",
             pci);
    }
    kmsg(INFO, "amdgpu %s: amdgpu: GPU reset begin!", pci);
    kmsg(WARNING, "amdgpu %s: amdgpu: Failed to evict process queues", pci);
    kmsg(INFO, "amdgpu %s: amdgpu: MODE1 reset", pci);
    kmsg(INFO, "amdgpu %s: amdgpu: GPU reset succeeded, trying to resume", pci);
    kmsg(INFO, "[drm] VRAM is lost due to GPU reset!");
    kmsg(INFO, "amdgpu %s: amdgpu: GPU reset(1) succeeded!", pci);
}
