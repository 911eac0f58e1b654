/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU page faults and ring timeouts in the kernel log, told in several records each.
 *
 * Pure. The records of one fault may come in any order with others between them, so a block is
 * filled piece by piece and closed by the next head or by another event. Shapes: gmc_v9_0.c,
 * gmc_v10_0.c, gmc_v11_0.c, gmc_v12_0.c, amdgpu_job.c of Linux 5.x to 7.1.
 */
#include "diagnose/kernel_lines.h"

#include <stdio.h>
#include <string.h>

/* Records of one fault are at most this far apart; a later one belongs to another fault. */
#define BLOCK_LINES 24

/* "in process NAME pid N thread ...", "for process NAME pid N thread ...", "Process NAME pid N
 * thread ...", "Process information: process NAME pid N thread ...". NAME may hold spaces or be
 * empty (vmid 0); comm is at most 15 bytes. */
static bool take_process(struct text line, char name[64], int64_t *ret_pid)
{
    struct text t, before;
    uint64_t pid;
    if (!text_after(line, "Process information: process ", &t) &&
        !text_after(line, "for process ", &t) && !text_after(line, "in process ", &t) &&
        !text_after(line, " Process ", &t) && !text_after(line, "Process ", &t))
        return false;
    if (text_starts(t, "pid "))
        before = text_first(t, 0);
    else if (!text_before(t, " pid ", &before) || before.len > 40)
        return false;
    struct text rest = text_skip(t, before.len);
    (void)text_after(rest, "pid ", &rest); /* found above */
    if (!text_take_u64(&rest, &pid) || pid > INT32_MAX)
        return false;
    (void)text_copy(text_trim(before), name, 64);
    *ret_pid = (int64_t)pid;
    return true;
}

static int64_t number_behind(struct text line, const char *word)
{
    struct text t;
    uint64_t value;
    if (!text_after(line, word, &t) || !text_take_u64(&t, &value) || value > INT32_MAX)
        return -1;
    return (int64_t)value;
}

static int64_t hex_behind(struct text line, const char *word)
{
    struct text t;
    uint64_t value;
    if (!text_after(line, word, &t) || !text_take_hex(&t, &value) || value > INT32_MAX)
        return -1;
    return (int64_t)value;
}

static void open_block(struct klog *k)
{
    if (k->fault.open && k->s.line - k->fault.last_line > BLOCK_LINES)
        klog_fault_close(k);
    k->fault.last_line = k->s.line;
    if (k->fault.open)
        return;
    k->fault = (struct fault_block){.open = true,
                                    .line = k->s.line,
                                    .last_line = k->s.line,
                                    .pid = -1,
                                    .vmid = -1,
                                    .pasid = -1,
                                    .ring = -1,
                                    .permission = -1,
                                    .walker = -1,
                                    .mapping = -1,
                                    .rw = -1};
    if (k->pending_line > 0 && k->s.line - k->pending_line <= 2) {
        k->fault.line = k->pending_line;
        k->fault.pid = k->pending_pid;
        memcpy(k->fault.process, k->pending_process, sizeof k->fault.process);
    }
    k->pending_line = 0;
}

/* vmid 0 at address 0 right after a reset is the reset's echo, not a cause. */
static bool is_echo(const struct klog *k, const struct fault_block *f)
{
    bool zero = f->has_address && strspn(f->address, "0x") == strlen(f->address);
    return k->events_count > 0 && f->vmid == 0 && (zero || !f->has_address);
}

static void note_event(struct klog *k, struct text line)
{
    struct fault_block *f = &k->fault;
    if (f->unhandled || is_echo(k, f))
        return;
    f->unhandled = true;
    f->event =
        klog_bad(k, f->line, strncmp(f->client, "SDMA", 4) == 0 ? BAD_SDMA : BAD_PAGE_FAULT, line);
}

void klog_fault_close(struct klog *k)
{
    struct fault_block *f = &k->fault;
    if (!f->open)
        return;
    f->open = false;
    if (is_echo(k, f) && !f->unhandled) {
        k->echoes++;
        return;
    }
    if (!f->unhandled) /* only a status of 0 and its noise */
        return;
    k->faults++;
    bool sdma = strncmp(f->client, "SDMA", 4) == 0;
    if (sdma && f->event > 0)
        k->events[f->event - 1].class = BAD_SDMA;
    if (k->first_client_line == 0 && f->client[0] != '\0') {
        memcpy(k->first_client, f->client, sizeof k->first_client);
        k->first_client_line = f->line;
    }
    if (k->first_fault.line == 0)
        k->first_fault = *f;
}

/* "amdgpu 0000:5a:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3
 * pasid:33235)" */
static bool head(struct klog *k, struct text line)
{
    struct fault_block *f = &k->fault;
    struct text t;
    if (!text_has(line, "page fault (src_id:"))
        return false;
    if (f->open && (f->has_head || f->has_status))
        klog_fault_close(k);
    open_block(k);
    f->has_head = true;
    f->ring = number_behind(line, " ring:");
    f->vmid = number_behind(line, " vmid:");
    f->pasid = number_behind(line, " pasid:");
    if (text_after(line, "[gfxhub", &t) || text_after(line, "[mmhub", &t)) {
        t = (struct text){t.at - (t.at[-4] == 'm' ? 5 : 6), t.len};
        (void)text_copy(text_until(t, "]\n "), f->hub, sizeof f->hub);
    }
    if (text_has(line, "for process "))
        (void)take_process(line, f->process, &f->pid);
    return true;
}

/* "GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031"; bits: 0 more, 1-3 walker, 4-7 permission, 8
 * mapping, 9-17 client, 18 write (the same on gfx9 to gfx12; checked against the printed fields).
 */
static bool status(struct klog *k, struct text line)
{
    struct text t;
    uint64_t value;
    if (!text_after(line, "PROTECTION_FAULT_STATUS:", &t) || !text_take_hex(&t, &value))
        return false;
    open_block(k);
    struct fault_block *f = &k->fault;
    f->has_status = true;
    f->status = value;
    f->silent = value == 0;
    if (f->silent)
        return true;
    f->walker = (int64_t)(value >> 1 & 7);
    f->permission = (int64_t)(value >> 4 & 15);
    f->mapping = (int64_t)(value >> 8 & 1);
    f->rw = (int64_t)(value >> 18 & 1);
    return true;
}

/* "Faulty UTCL2 client ID: TCP (0x8)", "WALKER_ERROR: 0x1", "PERMISSION_FAULTS: 0x3", "RW: 0x1" */
static bool detail(struct klog *k, struct text line)
{
    struct fault_block *f = &k->fault;
    struct text t;
    int64_t permission = hex_behind(line, "PERMISSION_FAULTS: ");
    bool client = text_after(line, "Faulty UTCL2 client ID: ", &t);
    if (!client) {
        int64_t walker = hex_behind(line, "WALKER_ERROR: ");
        if (permission < 0 && walker < 0 && !text_has(line, "MAPPING_ERROR: "))
            return false;
        if (!f->open && permission <= 0 && walker <= 0)
            return false;
    }
    open_block(k);
    if (f->silent) /* printed from a register that had been read: CB/DB (0x0) is not a client */
        return true;
    if (client)
        (void)text_copy(text_trim(text_until(t, "(")), f->client, sizeof f->client);
    if (permission >= 0)
        f->permission = permission;
    if (hex_behind(line, "WALKER_ERROR: ") >= 0)
        f->walker = hex_behind(line, "WALKER_ERROR: ");
    if (hex_behind(line, "MAPPING_ERROR: ") >= 0)
        f->mapping = hex_behind(line, "MAPPING_ERROR: ");
    return true;
}

/* "  in page starting at address 0x00007fad9c43f000 from client 10" / "from IH client 0x1b (UTCL2)"
 */
static bool address(struct klog *k, struct text line)
{
    struct fault_block *f = &k->fault;
    struct text t;
    if (!text_after(line, "page starting at address ", &t))
        return false;
    if (f->open && (f->has_address || f->has_status))
        klog_fault_close(k);
    open_block(k);
    f->has_address = true;
    (void)text_copy(text_until(t, " \t"), f->address, sizeof f->address);
    return true;
}

void klog_fault_line(struct klog *k, struct text line)
{
    struct fault_block *f = &k->fault;
    char name[64];
    int64_t pid;
    bool piece = head(k, line) || address(k, line) || status(k, line) || detail(k, line);
    if (piece) {
        bool told = f->has_head || f->has_address || f->permission > 0 || f->walker > 0;
        if (told) /* one of vmid 0 after another event waits for its address: see is_echo() */
            note_event(k, line);
        k->timeout_open = false;
        return;
    }
    if (k->timeout_open || !take_process(line, name, &pid))
        return;
    if (f->open && f->pid < 0) {
        memcpy(f->process, name, sizeof name);
        f->pid = pid;
    } else if (!f->open) {
        memcpy(k->pending_process, name, sizeof name);
        k->pending_pid = pid;
        k->pending_line = k->s.line;
    }
}

static void say(const struct scan *at, const char *name, int64_t value)
{
    if (value >= 0)
        scan_integer(at, name, value);
}

static void say_permission(const struct scan *at, int64_t bits)
{
    static const char *const words[] = {"page not present", "no read permission",
                                        "no write permission", "no execute permission"};
    char text[128] = "";
    size_t len = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (bits < 0 || (bits >> i & 1) == 0)
            continue;
        int n = snprintf(text + len, sizeof text - len, "%s%s", len > 0 ? ", " : "", words[i]);
        len += n > 0 ? (size_t)n : 0;
    }
    if (len > 0)
        scan_text(at, "kmsg.page_fault_permission", (struct text){text, len});
}

void klog_fault_emit(struct klog *k)
{
    const struct fault_block *f = &k->first_fault;
    struct scan at = k->s;
    char status_text[24];
    if (k->echoes > 0)
        (void)facts_set_integer(at.facts, "kmsg.fault_echo", FACT_LOG, k->echoes, at.source);
    if (k->faults == 0)
        return;
    at.line = f->line;
    scan_integer(&at, "kmsg.page_fault", k->faults);
    if (f->has_address)
        scan_text(&at, "kmsg.page_fault_address", (struct text){f->address, strlen(f->address)});
    if (f->hub[0] != '\0')
        scan_text(&at, "kmsg.page_fault_hub", (struct text){f->hub, strlen(f->hub)});
    if (f->pid >= 0) {
        scan_text(&at, "kmsg.page_fault_process", (struct text){f->process, strlen(f->process)});
        scan_integer(&at, "kmsg.page_fault_pid", f->pid);
    }
    say(&at, "kmsg.page_fault_vmid", f->vmid);
    say(&at, "kmsg.page_fault_pasid", f->pasid);
    say(&at, "kmsg.page_fault_ring", f->ring);
    say(&at, "kmsg.page_fault_walker_error", f->walker);
    say(&at, "kmsg.page_fault_mapping_error", f->mapping);
    say_permission(&at, f->permission);
    if (f->rw >= 0)
        scan_boolean(&at, "kmsg.page_fault_is_write", f->rw == 1);
    if (f->has_status && !f->silent) {
        int n =
            snprintf(status_text, sizeof status_text, "0x%08llx", (unsigned long long)f->status);
        scan_text(&at, "kmsg.page_fault_status", (struct text){status_text, n > 0 ? (size_t)n : 0});
    }
    if (k->first_client_line > 0) {
        at.line = k->first_client_line;
        scan_text(&at, "kmsg.page_fault_client",
                  (struct text){k->first_client, strlen(k->first_client)});
    }
}

/* "ring gfx_0.0.0 timeout, signaled seq=167261, emitted seq=167263" / "... timeout, but soft
 * recovered" */
static bool ring_timeout(struct klog *k, struct text line)
{
    struct text t, ring;
    if (!text_like(line, "^ring * timeout, "))
        return false;
    (void)text_after(line, "ring ", &t);
    (void)text_next_word(&t, &ring);
    if (!text_starts(text_trim(t), "timeout"))
        return false;
    bool copies = text_starts(ring, "sdma") || text_starts(ring, "page");
    if (k->timeouts++ == 0)
        scan_text(&k->s, "kmsg.ring_timeout", ring);
    if (text_has(line, "soft recovered"))
        scan_boolean(&k->s, "kmsg.ring_soft_recovered", true);
    (void)klog_bad(k, k->s.line, copies ? BAD_SDMA : BAD_GPU_HANG, line);
    k->timeout_open = true;
    return true;
}

/* "IP block:sdma_v6_0 is hung!", "IB test failed on vpe (-110).",
 * "[drm:sdma_v6_0_ring_test_ib [amdgpu]] *ERROR* amdgpu: IB test timed out" */
static void blocks(struct klog *k, struct text line)
{
    struct text t, name;
    const char *fact = NULL;
    if (text_after(line, "IP block:", &t) && text_has(t, "is hung")) {
        fact = "kmsg.ip_block_hung";
    } else if (text_after(line, "IB test failed on ", &t)) {
        fact = "kmsg.ib_test_failed";
    } else if (text_has(line, "IB test timed out")) {
        fact = "kmsg.ib_test_failed";
        if (!text_after(line, "[drm:", &t))
            t = (struct text){"unknown", 7};
    }
    if (fact == NULL)
        return;
    name = text_until(t, " (\t");
    scan_text(&k->s, fact, name);
    (void)klog_bad(k, k->s.line, text_starts(name, "sdma") ? BAD_SDMA : BAD_GPU_HANG, line);
}

void klog_hang_line(struct klog *k, struct text line)
{
    static const char *const hangs[] = {
        "MES*failed to respon",
        "MES might be in unrecoverable",
        "fence wait loop timeout",
        "The cp might be in an unrecoverable state",
        "GPU reset begin",
        "queue * at pasid * is reset",
        "Starting * ring reset",
        "device wedged",
        "Waiting for fences timed out",
        "failed to suspend all gangs",
        "Ring * reset failed",
        "ueue preemption time out",
        "ueue preemption failed",
        "ailed to remove hardware queue",
        "resume of IP block * failed",
        "device_ip_resume failed",
        "job_timedout+0x", /* in a stack: the handler of a job that timed out */
    };
    char name[64];
    int64_t pid;
    if (ring_timeout(k, line))
        return;
    if (k->timeout_open && take_process(line, name, &pid)) {
        if (k->timeouts == 1) { /* the ring that is named is the first one */
            scan_text(&k->s, "kmsg.ring_timeout_process", (struct text){name, strlen(name)});
            scan_integer(&k->s, "kmsg.ring_timeout_pid", pid);
        }
        k->timeout_open = false;
        return;
    }
    for (size_t i = 0; i < sizeof hangs / sizeof hangs[0]; i++) {
        if (!text_like(line, hangs[i]))
            continue;
        (void)klog_bad(k, k->s.line, BAD_GPU_HANG, line);
        break;
    }
    blocks(k, line);
}
