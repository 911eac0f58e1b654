/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OOM killer and the hardware (RAS, PCIe, machine checks, NVIDIA Xid) in the kernel log.
 *
 * Pure; one record at a time, its sample above each parser.
 */
#include "diagnose/kernel_lines.h"

#include <stdio.h>
#include <string.h>

/* The kill is told twice, by the summary and by the "Killed process" record. */
static void note_kill(struct klog *k, uint64_t pid, struct text comm)
{
    size_t used = strlen(k->kill_pids);
    char word[16];
    int n = snprintf(word, sizeof word, " %u ", (unsigned)pid);
    if (strstr(k->kill_pids, word) != NULL)
        return;
    k->kills++;
    /* " 57630 99 ": each number has a space on both sides */
    if (used + (size_t)n < sizeof k->kill_pids)
        memcpy(k->kill_pids + (used > 0 ? used - 1 : 0), word, (size_t)n + 1);
    scan_integer(&k->s, "kmsg.oom_kill_pid", (int64_t)pid);
    if (comm.len > 0)
        scan_text(&k->s, "kmsg.oom_kill_comm", comm);
}

/* oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),...,task_memcg=/docker/b35,task=python,
 * pid=57630,uid=0 */
static void oom_summary(struct klog *k, struct text line)
{
    struct text t, comm = {"", 0};
    uint64_t pid;
    if (!text_after(line, "oom-kill:constraint=", &t))
        return;
    scan_boolean(&k->s, "kmsg.oom_kill_memcg", text_starts(t, "CONSTRAINT_MEMCG"));
    struct text rest;
    if (text_after(t, "oom_memcg=", &rest))
        scan_text(&k->s, "kmsg.oom_kill_cgroup", text_until(rest, ","));
    if (text_after(t, ",task=", &rest))
        comm = text_until(rest, ",");
    if (text_after(t, ",pid=", &rest)) {
        rest = text_trim(rest);
        if (text_take_u64(&rest, &pid) && pid <= INT32_MAX)
            note_kill(k, pid, comm);
    }
}

/* Out of memory: Killed process 2953 (python) total-vm:8142876kB, anon-rss:6719676kB, ...
 * Memory cgroup out of memory: Killed process 57630 (frigate.capture) total-vm:15373668kB, ... */
static void oom_killed(struct klog *k, struct text line)
{
    struct text t, rest, comm = {"", 0};
    uint64_t pid;
    int64_t size;
    if (!text_after(line, "ut of memory: ", &t) || !text_has(t, "rocess "))
        return;
    scan_boolean(&k->s, "kmsg.oom_kill_memcg", text_has(line, "Memory cgroup out of memory"));
    (void)text_after(t, "rocess ", &t);
    if (text_starts(t, "stopped "))
        t = text_skip(t, 8);
    if (!text_take_u64(&t, &pid) || pid > INT32_MAX)
        return;
    if (text_after(t, "(", &rest))
        comm = text_until(rest, ")");
    note_kill(k, pid, comm);
    if (text_after(t, "anon-rss:", &rest) &&
        text_take_size(&rest, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &size))
        scan_integer(&k->s, "kmsg.oom_kill_anon_rss_bytes", size);
}

void klog_host_line(struct klog *k, struct text line)
{
    struct text t, rest;
    int64_t usage, limit;
    bool invoked = text_has(line, "invoked oom-killer");
    if (invoked || text_has(line, "oom-kill:constraint=") ||
        (text_has(line, "ut of memory: ") && text_has(line, "rocess "))) {
        (void)klog_bad(k, k->s.line, BAD_HOST_OOM, line);
    }
    if (text_before(line, " invoked oom-killer", &t))
        scan_text(&k->s, "kmsg.oom_invoked_by", t);
    oom_summary(k, line);
    oom_killed(k, line);
    /* memory: usage 8388608kB, limit 8388608kB, failcnt 1234 */
    if (text_after(line, "memory: usage ", &t) &&
        text_take_size(&t, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &usage) &&
        text_after(t, "limit ", &rest) &&
        text_take_size(&rest, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &limit)) {
        scan_integer(&k->s, "kmsg.oom_memcg_usage_bytes", usage);
        scan_integer(&k->s, "kmsg.oom_memcg_limit_bytes", limit);
    }
}

static void uncorrectable(struct klog *k, struct text line)
{
    if (k->uncorrectable++ == 0)
        k->uncorrectable_line = k->s.line;
    (void)klog_bad(k, k->s.line, BAD_HW_RAS, line);
}

/* {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
 * socket: 0, die: 0 1 new uncorrectable hardware errors detected in umc block
 * no uncorrectable hardware errors detected in umc block      (healthy, and so is "0
 * uncorrectable") */
static void ras(struct klog *k, struct text line)
{
    struct text front, t;
    if (text_before(line, "uncorrectable hardware error", &front)) {
        front = text_trim(front);
        if (text_like(front, "^no") && front.at[front.len - 2] == 'n' &&
            front.at[front.len - 1] == 'o')
            return;
        if (front.len >= 3 && memcmp(front.at + front.len - 3, "new", 3) == 0)
            front = text_trim(text_first(front, front.len - 3));
        bool zero = front.len > 0 && front.at[front.len - 1] == '0' &&
                    (front.len == 1 || front.at[front.len - 2] == ' ');
        if (zero)
            return;
        if (text_after(line, "detected in ", &t)) {
            if (text_starts(t, "total in "))
                t = text_skip(t, 9);
            scan_text(&k->s, "kmsg.ras_block", text_until(t, " ,"));
        }
        uncorrectable(k, line);
        return;
    }
    if (text_like(line, "oison is consumed by") || text_like(line, "oison consumption"))
        uncorrectable(k, line);
    /* {1}[Hardware Error]: aca entry[00].STATUS=0xba00000000000000: bit 61 = uncorrected */
    uint64_t value;
    if (text_has(line, "aca entry[") && text_after(line, "STATUS=", &t) &&
        text_take_hex(&t, &value) && (value >> 61 & 1) == 1)
        uncorrectable(k, line);
}

/* NVRM: Xid (PCI:0000:4d:00): 79, pid=1234, GPU has fallen off the bus.
 * 144 to 150 are NVLink's. */
static void xid(struct klog *k, struct text line)
{
    static const unsigned char hardware[] = {48,  54,  56,  57,  58,  61,  62,  63,  64,
                                             74,  79,  92,  93,  94,  95,  110, 140, 143,
                                             144, 145, 146, 147, 148, 149, 150};
    static const unsigned char hangs[] = {8, 109, 119, 120};
    struct text t;
    uint64_t number;
    if (!text_after(line, "NVRM: Xid (", &t) || !text_after(t, "): ", &t) ||
        !text_take_u64(&t, &number) || number > 255)
        return;
    /* 45, pid=1818, name=python3, Ch 00000001 caused by previous Xid 149 */
    struct text cause;
    uint64_t before;
    if (number == 45 && text_after(t, "caused by previous Xid ", &cause) &&
        text_take_u64(&cause, &before) && before <= 255)
        number = before;
    scan_integer(&k->s, "kmsg.xid", (int64_t)number);
    enum bad_class class = BAD_NONE;
    if (memchr(hardware, (int)number, sizeof hardware) != NULL)
        class = BAD_HW_RAS;
    else if (memchr(hangs, (int)number, sizeof hangs) != NULL)
        class = BAD_GPU_HANG;
    else if (number == 31 || number == 13) /* MMU fault; engine exception of a kernel */
        class = BAD_PAGE_FAULT;
    if (class != BAD_NONE)
        (void)klog_bad(k, k->s.line, class, line);
}

/* pcieport 0000:6b:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:6b:03.0
 * (newer: "Uncorrectable (Fatal)") */
static void pcie(struct klog *k, struct text line)
{
    struct text t;
    if (!text_has(line, "Uncorrected (Fatal)") && !text_has(line, "Uncorrectable (Fatal)"))
        return;
    if (k->aer_fatal++ == 0)
        k->aer_fatal_line = k->s.line;
    if (text_after(line, "pcieport ", &t))
        scan_text(&k->s, "kmsg.pcie_aer_port", text_first(text_until(t, " "), 12));
    (void)klog_bad(k, k->s.line, BAD_HW_RAS, line);
}

void klog_hardware_line(struct klog *k, struct text line)
{
    ras(k, line);
    xid(k, line);
    pcie(k, line);
    /* amdgpu_device_bus_status_check(); the SMU's thermal trip (smu_v11_0.c and later) */
    if (text_has(line, "fallen off the bus") || text_has(line, "device lost from bus") ||
        text_has(line, "over temperature range(SW CTF)") ||
        (text_has(line, "[Hardware Error]: event severity: fatal"))) {
        (void)klog_bad(k, k->s.line, BAD_HW_RAS, line);
    }
}
