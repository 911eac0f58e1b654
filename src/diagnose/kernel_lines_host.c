/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hardware (RAS, NVIDIA Xid) in the kernel log: readers in C that rules
 * name.
 *
 * Pure; one record at a time.
 */
#include <string.h>

#include "diagnose/kernel_lines.h"
#include "diagnose/rules.h"

/* "pid=1484, name=python3": some drivers print "pid='<unknown>'". */
static void note_faulting(struct klog *k, const struct rule_takes *takes)
{
    int64_t pid = rule_taken_integer(takes, "_pid", -1);
    struct text comm = rule_taken_text(takes, "_comm");
    if (pid < 0 || comm.len == 0)
        return;
    scan_integer(&k->s, "kmsg.page_fault_pid", pid);
    scan_text(&k->s, "kmsg.page_fault_process", comm);
}

/* 144 to 150 are NVLink errors. 45 is a channel that was removed because of another Xid. */
static void xid(struct klog *k, struct text line, const struct rule_takes *takes)
{
    static const unsigned char hardware[] = {48,  54,  56,  57,  58,  63,  64,
                                             74,  79,  92,  93,  94,  95,  110, 140, 143,
                                             144, 145, 146, 147, 148, 149, 150};
    static const unsigned char hangs[] = {8, 61, 62, 109, 119, 120}; /* 61 and 62: a controller on the chip stopped */
    int number = (int)rule_taken_integer(takes, "_xid", 0);
    if (number == 45)
        number = (int)rule_taken_integer(takes, "_cause", 45);
    scan_integer(&k->s, "kmsg.xid", number);
    enum bad_class class = BAD_NONE;
    if (memchr(hardware, number, sizeof hardware) != NULL)
        class = BAD_HW_RAS;
    else if (memchr(hangs, number, sizeof hangs) != NULL)
        class = BAD_GPU_HANG;
    else if (number == 31 || number == 13) /* MMU fault; engine exception of a kernel */
        class = BAD_PAGE_FAULT;
    if (class == BAD_PAGE_FAULT)
        note_faulting(k, takes);
    if (class != BAD_NONE)
        (void)klog_bad(k, k->s.line, class, line);
}

bool klog_host_read(struct klog *k, enum rule_reader reader, struct text line,
                    const struct rule_takes *takes)
{
    if (reader == READ_XID)
        xid(k, line, takes);
    /* bit 61 = uncorrected */
    return reader != READ_ACA || ((uint64_t)rule_taken_integer(takes, "_status", 0) >> 61 & 1) == 1;
}
