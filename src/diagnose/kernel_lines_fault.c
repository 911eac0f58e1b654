/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU page faults in the kernel log; each has several records.
 *
 * Pure. The records of one fault may come in any order with others between them, so a block is
 * filled piece by piece and closed by the next head or by another event. Shapes: gmc_v6_0.c to
 * gmc_v12_0.c, amdgpu_job.c of Linux 5.x to 7.1.
 */
#include <stdio.h>
#include <string.h>

#include "diagnose/kernel_lines.h"
#include "diagnose/rules.h"

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
                                    .permission = -1,
                                    .walker = -1,
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
    if (!f->unhandled) /* only a status of 0 and what follows from it */
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

static void head(struct klog *k, struct text line, const struct rule_takes *takes)
{
    struct fault_block *f = &k->fault;
    if (f->open && (f->has_head || f->has_status))
        klog_fault_close(k);
    open_block(k);
    f->has_head = true;
    f->vmid = rule_taken_integer(takes, "_vmid", -1);
    if (text_has(line, "for process "))
        (void)take_process(line, f->process, &f->pid);
}

/* Bits: 0 more, 1-3 walker, 4-7 permission, 8 mapping (not kept), 9-17 client, 18 write (the same on gfx9 to
 * gfx12; checked against the printed fields). */
static void status(struct klog *k, uint64_t value)
{
    open_block(k);
    struct fault_block *f = &k->fault;
    f->has_status = true;
    f->status = value;
    f->silent = value == 0;
    if (f->silent)
        return;
    f->walker = (int64_t)(value >> 1 & 7);
    f->permission = (int64_t)(value >> 4 & 15);
    f->rw = (int64_t)(value >> 18 & 1);
}

/* "Faulty UTCL2 client ID: TCP (0x8)", "WALKER_ERROR: 0x1", "PERMISSION_FAULTS: 0x3", "RW: 0x1" */
static bool detail(struct klog *k, const struct rule_takes *takes)
{
    struct fault_block *f = &k->fault;
    const struct rule_value *client = rule_taken(takes, "_client");
    int64_t permission = rule_taken_integer(takes, "_permission", -1);
    int64_t walker = rule_taken_integer(takes, "_walker", -1);
    if (client == NULL && !f->open && permission <= 0 && walker <= 0)
        return false;
    open_block(k);
    if (f->silent) /* the register had been read before, so CB/DB (0x0) is not the client */
        return true;
    if (client != NULL)
        (void)text_copy(text_trim(client->text), f->client, sizeof f->client);
    f->permission = permission >= 0 ? permission : f->permission;
    f->walker = walker >= 0 ? walker : f->walker;
    return true;
}

static void address(struct klog *k, struct text value)
{
    struct fault_block *f = &k->fault;
    if (f->open && (f->has_address || f->has_status))
        klog_fault_close(k);
    open_block(k);
    f->has_address = true;
    (void)text_copy(value, f->address, sizeof f->address);
}

/* "Process NAME pid N" before or after a fault, or of a ring timeout. */
static void process(struct klog *k, struct text line)
{
    struct fault_block *f = &k->fault;
    char name[64];
    int64_t pid;
    if (!take_process(line, name, &pid))
        return;
    if (k->timeout_open) {
        if (k->timeouts == 1) { /* keep the first ring that is named */
            scan_text(&k->s, "kmsg.ring_timeout_process", text_of(name));
            scan_integer(&k->s, "kmsg.ring_timeout_pid", pid);
        }
        k->timeout_open = false;
    } else if (f->open && f->pid < 0) {
        memcpy(f->process, name, sizeof name);
        f->pid = pid;
    } else if (!f->open) {
        memcpy(k->pending_process, name, sizeof name);
        k->pending_pid = pid;
        k->pending_line = k->s.line;
    }
}

static bool fault_piece(struct klog *k, enum rule_reader reader, struct text line,
                        const struct rule_takes *takes)
{
    switch (reader) {
    case READ_FAULT_HEAD:
        head(k, line, takes);
        return true;
    case READ_FAULT_ADDRESS:
        address(k, rule_taken_text(takes, "_address"));
        return true;
    case READ_FAULT_STATUS:
        status(k, (uint64_t)rule_taken_integer(takes, "_status", 0));
        return true;
    default:
        return reader == READ_FAULT_DETAIL && detail(k, takes);
    }
}

bool klog_fault_read(struct klog *k, enum rule_reader reader, struct text line,
                     const struct rule_takes *takes)
{
    const struct fault_block *f = &k->fault;
    if (k->piece_line == k->s.line)
        return true;
    if (reader == READ_PROCESS)
        process(k, line);
    if (!fault_piece(k, reader, line, takes))
        return true;
    k->piece_line = k->s.line;
    k->timeout_open = false;
    /* a fault of vmid 0 after another event waits for its address: see is_echo() */
    if (f->has_head || f->has_address || f->permission > 0 || f->walker > 0)
        note_event(k, line);
    return true;
}

static void put_integer(const struct scan *at, const char *name, int64_t value)
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
        scan_text(&at, "kmsg.page_fault_address", text_of(f->address));
    if (f->pid >= 0) {
        scan_text(&at, "kmsg.page_fault_process", text_of(f->process));
        scan_integer(&at, "kmsg.page_fault_pid", f->pid);
    }
    put_integer(&at, "kmsg.page_fault_vmid", f->vmid);
    put_integer(&at, "kmsg.page_fault_walker_error", f->walker);
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
                  text_of(k->first_client));
    }
}
