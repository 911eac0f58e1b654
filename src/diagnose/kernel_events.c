/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/kernel_events.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "diagnose/text_facts.h"

#define LINE_KEPT 160
#define LINE_MAX_BYTES 2048
#define TASK_NUMBERS 8

static const char *const kind_facts[KERNEL_EVENTS] = {
    "event.hang",     "event.sdma",       "event.queue_refused", "event.sdma_queue_refused",
    "event.fault",    "event.hardware",   "event.start_failed",  "event.firmware",
    "event.host_oom", "event.parameter",  "event.memory_refused",
};

static bool has(struct text line, const char *word)
{
    return text_find(line, word) >= 0; /* lines are in small letters here */
}

static bool has_any(struct text line, const char *const *words)
{
    for (; *words != NULL; words++)
        if (has(line, *words))
            return true;
    return false;
}

static bool has_word(struct text line, const char *word)
{
    size_t n = strlen(word);
    for (struct text t = line; t.len >= n;) {
        ptrdiff_t at = text_find(t, word);
        if (at < 0)
            return false;
        const char *p = t.at + at, *end = line.at + line.len;
        bool begins = p == line.at || !isalnum((unsigned char)p[-1]);
        bool ends = p + n == end || !isalpha((unsigned char)p[n]);
        if (begins && ends)
            return true;
        t = text_skip(t, (size_t)at + 1);
    }
    return false;
}

static bool has_any_word(struct text line, const char *const *words)
{
    for (; *words != NULL; words++)
        if (has_word(line, *words))
            return true;
    return false;
}

static bool is_of_driver(struct text line)
{
    static const char *const words[] = {"amdgpu", "kfd", "drm", "radeon", "ttm", "gfxhub", "mmhub", NULL};
    return has_any(line, words);
}

static bool fails(struct text line)
{
    static const char *const words[] = {"fail", "error", "refus", "unable", "cannot", "could not", "couldn't",
                                        "exceed", "no more", "denied", "-12", "-110", "-62", "-22", NULL};
    return has_any(line, words);
}

/* What comes of a hang or a fault: it is never the first. */
static bool is_aftermath(struct text line)
{
    static const char *const always[] = {"wedged", "device lost", "vram is lost", "soft recovered", "unrecoverable",
                                         "guilty", "test failed", NULL};
    static const char *const of_queue[] = {"update", "unmap", "evict", "destroy", "preempt", "remove", "restore",
                                           "halt", "quiesce", "suspend", "resume", NULL};
    static const char *const reset[] = {"begin", "succe", "fail", "start", "trigger", "done", "complete", "source",
                                        "try", "trying", "recover", "required", NULL};
    static const char *const resets[] = {"mode1 reset", "mode2 reset", "baco reset", NULL};
    return has_any(line, always) || has_any(line, resets) || (has_word(line, "reset") && has_any(line, reset)) ||
           (has_any(line, of_queue) && fails(line));
}

static bool is_stopped(struct text line)
{
    static const char *const words[] = {"timeout", "timed out", "time out", "hung", "not respond", "no response",
                                        "didn't respond", "failed to respond", "stuck", "lockup", "stalled",
                                        "hang detected", "sq_intr: error", NULL};
    return has_any(line, words) || is_aftermath(line);
}

static const char *const copy_engines[] = {"sdma", "sdma0", "sdma1", "page0", "page1", NULL};

static enum kernel_event kind_of_driver(struct text line)
{
    static const char *const engines[] = {"ring", "queue", "queues", "hiq", "mes", "cp", "gfx", "comp", "vcn", "jpeg",
                                          "ib", "job", "fence", "dqm", "hqd", "scheduler", "gpu", "vmid", "block", "mode1", "mode2", "baco", "sq_intr",
                                          "wave", "waves", "pasid", "kiq", "uvd", "vce", "device", "process", NULL};
    static const char *const faults[] = {"page fault", "protection_fault", "protection fault", "vm_l2", "vm fault",
                                         "permission_faults", "invalid page", NULL};
    static const char *const hardware[] = {"uncorrectable", "uncorrected", "ecc error", "poison", "athub", "fatal error",
                                           "hardware error", "bad page", "ras error", NULL};
    static const char *const starts[] = {"gpu init", "probe", "hw_init", "hw init", "post error", "early_init",
                                         "init failed", "failed to init", "load failed", "skipped device",
                                         "rejects atomics", "not supported in kfd", NULL};
    static const char *const denials[] = {"shows no ", "no amdgpu message", "no vm fault", "no page fault", "no gpu reset",
                                          "no queue reset", "no ring timeout", NULL};
    bool copy = has(line, "sdma") || has_any_word(line, copy_engines);
    bool refused = has(line, "queue") && fails(line) && (has(line, "creat") || has(line, "alloc") || has(line, "no more") ||
                                                        has(line, "exceed") || has(line, "oversubscri"));
    refused |= has(line, "map bo") && fails(line); /* mappings, not memory */
    if (has_any(line, denials)) /* a person tells what is not there */
        return KERNEL_EVENTS;
    if (has(line, "parameter") && (has(line, "ignored") || has(line, "unknown") || has(line, "deprecated") || has(line, "invalid")))
        return EVENT_PARAMETER;
    if (has_any(line, faults))
        return EVENT_FAULT;
    if (has_any(line, hardware) && !has(line, " no ") && !has(line, " 0 new") && !has(line, "initial"))
        return has(line, "gpu init") ? EVENT_START : EVENT_HARDWARE;
    if (has(line, "firmware") && fails(line))
        return EVENT_FIRMWARE;
    if (refused)
        return copy ? EVENT_SDMA_QUEUE_REFUSED : EVENT_QUEUE_REFUSED;
    if (has_any(line, starts) && fails(line))
        return EVENT_START;
    if (is_stopped(line) && (copy || has_any_word(line, engines) || has(line, "ring")))
        return copy ? EVENT_SDMA : EVENT_HANG;
    if ((has(line, "memory") || has(line, "pin") || has(line, "-12") || has(line, "enomem")) && fails(line))
        return EVENT_MEMORY;
    return KERNEL_EVENTS;
}

/* A row of the OOM killer's table: "[  5123]  1001  5123  2097152  523190  9437184  81920  0 blender". */
static bool is_task_row(struct text line)
{
    const char *open = memrchr(line.at, '[', line.len);
    if (open == NULL)
        return false;
    struct text t = text_skip(line, (size_t)(open + 1 - line.at)), word;
    uint64_t first = 0, tgid = 0, value = 0;
    t = text_trim(t);
    if (!text_take_u64(&t, &first) || !text_starts(t, "]"))
        return false;
    t = text_skip(t, 1);
    unsigned numbers = 0;
    for (; text_next_word(&t, &word); numbers++) {
        struct text digits = text_starts(word, "-") ? text_skip(word, 1) : word;
        if (!text_take_u64(&digits, &value) || digits.len > 0)
            break;
        tgid = numbers == 1 ? value : tgid;
    }
    return numbers >= 6 && numbers <= TASK_NUMBERS && tgid == first && word.len > 0;
}

/* "TOTAL_UNCORRECTABLE_COUNT: 41": a counter of errors above 0. */
static bool counts_errors(struct text line)
{
    if (!has(line, "uncorrect") && !has(line, "retired page") && !has(line, "bad page"))
        return false;
    struct text t = line;
    uint64_t count = 0;
    (void)(text_after(line, "uncorrect", &t) || text_after(line, "page", &t));
    size_t n = 0; /* the first number behind it, of that name and no other */
    while (n < t.len && !isdigit((unsigned char)t.at[n]) && t.at[n] != ',' && t.at[n] != ';')
        n++;
    struct text digits = text_skip(t, n);
    bool alone = n > 0 && n < t.len && strchr(" :=\t", t.at[n - 1]) != NULL;
    return alone && text_take_u64(&digits, &count) && count > 0 && text_trim(digits).len == 0;
}

/* Counters of a cgroup: a number above 0 behind one of these names. */
static bool counts_oom(struct text line)
{
    static const char *const names[] = {"oom_kill ", "oom_group_kill ", "oom ", "failcnt ", NULL};
    if (!has(line, "memory.events") && !has(line, "low ") && !has(line, "failcnt") && !text_starts(line, "oom"))
        return false;
    for (size_t i = 0; names[i] != NULL; i++) {
        struct text t;
        uint64_t n = 0;
        if (text_after(line, names[i], &t) && text_take_u64(&t, &n) && n > 0)
            return true;
    }
    return false;
}

static void read_cgroup(struct kernel_events *e, struct text line, unsigned number)
{
    static const char *const now[] = {"memory.current", "memory.usage_in_bytes", NULL};
    static const char *const most[] = {"memory.max", "memory.limit_in_bytes", NULL};
    bool is_now = has_any(line, now);
    struct text t = line, word;
    uint64_t n = 0;
    if ((!is_now && !has_any(line, most)) || has(line, "memory.max_usage"))
        return;
    while (text_next_word(&t, &word))
        if (isdigit((unsigned char)word.at[0]) && text_take_u64(&word, &n))
            *(is_now ? &e->cgroup_current : &e->cgroup_max) = (int64_t)n;
    e->cgroup_line = number;
}

static enum kernel_event kind_of_host(struct text line)
{
    static const char *const words[] = {"oom-kill", "oom_reaper", "oom killer", "oom_kill_process", "invoked oom",
                                        "memory cgroup out of memory", "out of memory: kill", "mem-info:",
                                        "systemd-oomd", "oomkilled", "memory limit of the cgroup", "oom-killed", NULL};
    static const char *const hardware[] = {"machine check", "[hardware error]", "aer: uncorrected", "severity=uncorrected",
                                           "fatal error received", "edac ue", "fallen off the bus", NULL};
    if (has_any(line, words) || is_task_row(line) || counts_oom(line))
        return EVENT_HOST_OOM;
    if (counts_errors(line))
        return EVENT_HARDWARE;
    if (has_any(line, hardware) && !has(line, "severity: corrected") && !has(line, "(nonfatal)"))
        return EVENT_HARDWARE;
    return KERNEL_EVENTS;
}

enum kernel_event kernel_event_read(struct kernel_events *e, const struct scan *s, struct text record,
                                    bool *ret_follows)
{
    char letters[LINE_MAX_BYTES];
    *ret_follows = false;
    if (record.len < 8 || record.len > LINE_MAX_BYTES)
        return KERNEL_EVENTS;
    struct text low = text_lower(record, letters);
    enum kernel_event kind = is_of_driver(low) ? kind_of_driver(low) : KERNEL_EVENTS;
    if (kind == KERNEL_EVENTS)
        kind = kind_of_host(low);
    read_cgroup(e, low, s->line);
    *ret_follows = (kind == EVENT_HANG || kind == EVENT_SDMA) && is_aftermath(low);
    return kind;
}

void kernel_event_emit(const struct scan *s, enum kernel_event kind, struct text record)
{
    if (facts_find(s->facts, kind_facts[kind], FACT_LOG) == NULL)
        scan_text(s, kind_facts[kind], text_first(text_trim(record), LINE_KEPT));
    if (kind == EVENT_HANG || kind == EVENT_SDMA || kind == EVENT_FAULT || kind == EVENT_HARDWARE)
        scan_text(s, "event.first", (struct text){kind_facts[kind], strlen(kind_facts[kind])});
}

void kernel_events_end(const struct kernel_events *e, const struct scan *s)
{
    struct scan at = *s;
    if (e->cgroup_max == 0 || e->cgroup_current < e->cgroup_max - e->cgroup_max / 100)
        return;
    at.line = e->cgroup_line;
    scan_text(&at, "event.host_oom", (struct text){"the cgroup's memory is at its limit", 35});
}
