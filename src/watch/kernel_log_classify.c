/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one kernel-log record is about. Texts of Linux 5.15 to 7.1, see the table; the order of the
 * table decides, the negated and harmless forms stand first. Whether a line is a cause or a
 * consequence is not decided here: that needs the order of all of them.
 */
#include "watch/kernel_log.h"

#include <string.h>

struct kernel_pattern {
    enum kernel_line line;
    const char *text;
    const char *also; /* must occur too; NULL = no condition */
};

static const struct kernel_pattern patterns[] = {
    /* "no uncorrectable hardware errors detected in gfx block", "0 uncorrectable ..." are health */
    {KERNEL_LINE_AMDGPU, "no uncorrectable hardware errors", NULL},
    {KERNEL_LINE_AMDGPU, " 0 uncorrectable hardware errors", NULL},
    {KERNEL_LINE_AMDGPU, "but soft recovered", NULL},
    /* mm/oom_kill.c, mm/memcontrol.c */
    {KERNEL_LINE_OOM, "oom-kill:constraint=", NULL},
    {KERNEL_LINE_OOM, "invoked oom-killer", NULL},
    {KERNEL_LINE_OOM, "emory: Killed process", NULL},
    {KERNEL_LINE_OOM, "ut of memory: Killed process", NULL},
    /* "[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Not enough memory for command submission!" */
    {KERNEL_LINE_OOM, "Not enough memory for command submission", NULL},
    {KERNEL_LINE_OOM, "SVM mapping failed, exceeds resident system memory limit", NULL},
    {KERNEL_LINE_OOM, "Failed to pin framebuffer with error -12", NULL},
    {KERNEL_LINE_OOM, "page allocation failure", NULL},
    /* "[gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32772)" */
    {KERNEL_LINE_FAULT, "page fault (src_id:", NULL},
    {KERNEL_LINE_FAULT, "VM_L2_PROTECTION_FAULT_STATUS", NULL},
    {KERNEL_LINE_FAULT, "in page starting at address", NULL},
    {KERNEL_LINE_FAULT, "sq_intr: error", NULL},
    {KERNEL_LINE_FAULT, "uncorrectable hardware error", NULL},
    {KERNEL_LINE_FAULT, "poison is consumed", NULL},
    {KERNEL_LINE_FAULT, "Uncorrected (Fatal)", NULL},
    {KERNEL_LINE_FAULT, "Uncorrected (Non-Fatal)", NULL},
    {KERNEL_LINE_FAULT, "Accelerator Check Architecture", NULL},
    /* "NVRM: Xid (PCI:0000:4d:00): 31, pid=1234, name=python3, Ch 00000010, intr 00000000. MMU Fault" */
    {KERNEL_LINE_FAULT, "NVRM: Xid (", NULL},
    {KERNEL_LINE_FAULT, "unable to handle kernel paging request", NULL},
    /* "ring sdma0 timeout, signaled seq=12, emitted seq=14" */
    {KERNEL_LINE_HANG, " timeout, signaled seq=", NULL},
    {KERNEL_LINE_HANG, "MES failed to resp", NULL},
    {KERNEL_LINE_HANG, "MES might be in unrecoverable state", NULL},
    {KERNEL_LINE_HANG, "GPU reset begin", NULL},
    {KERNEL_LINE_HANG, " ring reset", "amdgpu"},
    {KERNEL_LINE_HANG, "device wedged", NULL},
    {KERNEL_LINE_HANG, "fence wait loop timeout expired", NULL},
    {KERNEL_LINE_HANG, "unsuccessful queues preemption", NULL},
    {KERNEL_LINE_HANG, "Failed to evict process queues", NULL},
    {KERNEL_LINE_HANG, "Failed to quiesce KFD", NULL},
    {KERNEL_LINE_HANG, "IB test timed out", NULL},
    {KERNEL_LINE_HANG, "IB test failed on", NULL},
    {KERNEL_LINE_HANG, " is hung!", "IP block"},
    {KERNEL_LINE_HANG, "VRAM is lost due to GPU reset", NULL},
    {KERNEL_LINE_AMDGPU, "amdgpu", NULL},
    {KERNEL_LINE_AMDGPU, "kfd", NULL},
    {KERNEL_LINE_AMDGPU, "[drm", NULL},
    {KERNEL_LINE_AMDGPU, "AER:", NULL},
    {KERNEL_LINE_AMDGPU, "PCIe Bus Error", NULL},
    {KERNEL_LINE_AMDGPU, "[Hardware Error]", NULL},
};

enum kernel_line kernel_log_classify(const char *record)
{
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        const struct kernel_pattern *p = &patterns[i];
        if (strstr(record, p->text) != NULL && (p->also == NULL || strstr(record, p->also) != NULL))
            return p->line;
    }
    return KERNEL_LINE_OTHER;
}
