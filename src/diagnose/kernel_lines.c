/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_log_to_facts(): the kernel log of the run's window, as facts.
 *
 * Pure; runs in the finisher over the collected window and in `triage` over pasted text. Records
 * keep their order: the first bad one decides, the later ones are its consequences.
 */
#include "diagnose/kernel_lines.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/rules.h"
#include "diagnose/verdict.h"

static const char *const class_names[] = {
    [BAD_NONE] = "",
    [BAD_HW_RAS] = "hw-ras",
    [BAD_SDMA] = "sdma",
    [BAD_PAGE_FAULT] = "page-fault",
    [BAD_GPU_HANG] = "gpu-hang",
    [BAD_HOST_OOM] = "host-oom",
};

/* Bad records this far apart belong to two incidents. The verdict is about the last one. */
#define INCIDENT_GAP_S 600.0
/* One date has a year and the other has none. */
#define OTHER_ORIGIN_S 3e9
/* A failure that is reported a day later may be another one. */
#define LONG_BEFORE_S 86400.0

/* "[  781.680189] text", "6,1234,5678901,-;text", "May 02 15:06:23 host kernel: [ 2237.9] text" */
double klog_stamp(struct text record)
{
    struct text t = record;
    uint64_t skipped, usec;
    double seconds = -1;
    if (text_take_u64(&t, &skipped) && text_starts(t, ",")) {
        t = text_skip(t, 1);
        if (text_take_u64(&t, &skipped) && text_starts(t, ",")) {
            t = text_skip(t, 1);
            if (text_take_u64(&t, &usec) && text_starts(t, ","))
                return (double)usec / 1e6;
        }
    }
    t = text_first(record, 120);
    if (!text_starts(t, "[") && !text_after(t, "kernel: ", &t))
        return -1;
    t = text_trim(t);
    if (!text_starts(t, "["))
        return -1;
    t = text_trim(text_skip(t, 1));
    struct text digits = t;
    if (!text_take_u64(&digits, &skipped) || !text_starts(digits, "."))
        return -1;
    (void)text_take_real(&t, &seconds); /* begins with a digit */
    if (!text_starts(t, "]"))
        return -1;
    return seconds;
}

/* Seconds since boot or, if dated, by the calendar; -1 = none. */
static double stamp_of(struct text record, bool *ret_dated)
{
    double seconds = klog_stamp(record);
    *ret_dated = seconds < 0;
    return *ret_dated ? klog_date(record) : seconds;
}

/* Reads the stamp only when an event needs it. */
static void read_clock(struct klog *k)
{
    if (k->stamped.len > 0)
        k->now = stamp_of(k->stamped, &k->dated);
    k->stamped.len = 0;
}

/* The events before this line are of an earlier incident. */
static void begin_incident(struct klog *k, unsigned line)
{
    k->before = k->events[0].class;
    k->incident = line;
    k->incidents++;
    k->events_count = 0;
}

/* A reboot sets the clock back. A hardware error stays the cause, however long ago it was. A ring that has recovered
 * (amdgpu_job_timedout(): only the waves of its job are killed) does not make a later job fault; a log without times tells no more than the order.
 */
static void note_incident(struct klog *k, unsigned line, enum bad_class class)
{
    read_clock(k);
    double step = k->now - k->last_bad;
    bool comparable = k->now >= 0 && k->last_bad >= 0 && k->dated == k->last_dated &&
                      step < OTHER_ORIGIN_S && step > -OTHER_ORIGIN_S;
    bool rebooted = k->booted || (comparable && k->last_bad > k->now + 1);
    bool apart = comparable && step > INCIDENT_GAP_S;
    bool hardware = k->events_count > 0 && k->events[0].class == BAD_HW_RAS;
    bool recovered = k->recovered && !comparable && class == BAD_PAGE_FAULT;
    if (k->events_count > 0 && (rebooted || recovered || (apart && !hardware)))
        begin_incident(k, line);
    k->booted = false;
    if (k->now >= 0) {
        k->last_bad = k->now;
        k->last_dated = k->dated;
    }
}

/* Two rules that match one line are one event. */
static bool is_noted(struct klog *k, unsigned line, enum bad_class class)
{
    if (k->noted_line != line)
        k->noted = 0;
    k->noted_line = line;
    bool before = (k->noted >> class & 1) == 1;
    k->noted |= 1u << class;
    return before;
}

static void add_to_timeline(struct klog *k, unsigned line, enum bad_class class, struct text text)
{
    read_clock(k);
    timeline_add(&k->timeline, &(struct timeline_event){.class_name = class_names[class],
                                                        .text = text,
                                                        .line = line,
                                                        .at = k->dated ? -1 : k->now,
                                                        .follows = k->follows});
}

unsigned klog_bad(struct klog *k, unsigned line, enum bad_class class, struct text text)
{
    if (is_noted(k, line, class))
        return 0;
    note_incident(k, line, class);
    k->bad_count++;
    k->recovered = text_has(text, "soft recovered");
    add_to_timeline(k, line, class, text);
    struct scan at = k->s;
    at.line = line;
    scan_vendor(&at, text);
    if (k->events_count > 0 && k->events[k->events_count - 1].class == class)
        return 0;
    if (k->events_count == BAD_EVENTS_MAX)
        return 0;
    struct bad_event *e = &k->events[k->events_count++];
    e->line = line;
    e->class = class;
    (void)text_copy(text_trim(text), e->text, sizeof e->text);
    return k->events_count;
}

/* "6,1234,5678901,-;text" or "6,1234,5678901,-,caller=T123;text" (/dev/kmsg) */
static bool strip_kmsg(struct text *t)
{
    struct text r = *t;
    uint64_t n;
    for (unsigned i = 0; i < 3; i++) {
        if (!text_take_u64(&r, &n) || !text_starts(r, ","))
            return false;
        r = text_skip(r, 1);
    }
    struct text flags = text_until(r, ";");
    if (flags.len == r.len || flags.len == 0 || flags.len > 64 || text_has(flags, " "))
        return false;
    *t = text_skip(r, flags.len + 1);
    return true;
}

/* "[  781.680189] ", "[Sat Jan  7 14:25:56 2023] ", "[Dez26 08:58] ", "[  +0,000007] "; with
 * "[T1234]" or "[    C3]" of CONFIG_PRINTK_CALLER after it; but not "[drm:...", "[gfxhub]", "[12]".
 */
static bool strip_bracket(struct text *t)
{
    if (!text_starts(*t, "["))
        return false;
    struct text inside = text_until(text_skip(*t, 1), "]");
    if (inside.len + 1 >= t->len || inside.len == 0 || inside.len > 40)
        return false;
    bool digit = false, mark = false, other = false;
    for (size_t i = 0; i < inside.len; i++) {
        char c = inside.at[i];
        digit = digit || isdigit((unsigned char)c);
        mark = mark || (i > 0 && i + 1 < inside.len && strchr(".,:", c) != NULL &&
                        isdigit((unsigned char)inside.at[i - 1]) &&
                        isdigit((unsigned char)inside.at[i + 1]));
        other = other || c == '[' || c == '_' || c == '(';
    }
    bool caller = inside.len >= 2 && inside.len <= 12 && digit && !mark &&
                  (text_trim(inside).at[0] == 'T' || text_trim(inside).at[0] == 'C') &&
                  isdigit((unsigned char)inside.at[inside.len - 1]);
    if (!((digit && mark && !other) || caller))
        return false;
    *t = text_trim(text_skip(*t, inside.len + 2));
    return true;
}

/* "kern  :warn  : ..." (dmesg -x) */
static bool strip_facility(struct text *t)
{
    static const char *const names[] = {"kern", "user", "daemon", "syslog"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct text r;
        if (!text_starts(*t, names[i]))
            continue;
        r = text_trim(text_skip(*t, strlen(names[i])));
        if (!text_starts(r, ":"))
            continue;
        r = text_until(text_skip(r, 1), ":");
        size_t used = (size_t)(r.at - t->at) + r.len + 1;
        if (r.len > 8 || used >= t->len)
            continue;
        *t = text_trim(text_skip(*t, used));
        return true;
    }
    return false;
}

/* "2026-01-07T10:00:00,123456-06:00 text" (dmesg --time-format iso, journalctl -o short-iso) */
static bool strip_iso(struct text *t)
{
    struct text r = *t, word;
    if (!text_next_word(&r, &word) || word.len < 19 || word.len > 40 || word.at[4] != '-' ||
        word.at[7] != '-' || (word.at[10] != 'T' && word.at[10] != '_') ||
        !isdigit((unsigned char)word.at[0]))
        return false;
    *t = text_trim(r);
    return true;
}

/* "May 02 15:06:23 host kernel: text"; a line of another program has "name[123]: " instead. */
static bool strip_syslog(struct text *t, bool *ret_foreign)
{
    struct text head = text_first(*t, 160);
    ptrdiff_t at = text_find(head, "kernel: ");
    if (at == 0 || (at > 0 && head.at[at - 1] == ' ')) {
        *t = text_skip(*t, (size_t)at + 8);
        return true;
    }
    const char *end = head.at + head.len, *open = head.at;
    while (end - open > 3 && (open = memchr(open + 1, '[', (size_t)(end - open) - 3)) != NULL) {
        const char *close = open + 1;
        while (close < end && isdigit((unsigned char)*close))
            close++;
        if (isalnum((unsigned char)open[-1]) && close > open + 1 && end - close > 1 && close[0] == ']' && close[1] == ':')
            *ret_foreign = true;
    }
    return false;
}

bool klog_strip(struct text record, struct text *ret)
{
    struct text t = record;
    /* " SUBSYSTEM=pci", " DEVICE=+pci:0000:03:00.0" after a /dev/kmsg record */
    if (text_starts(t, " ")) {
        size_t n = 1;
        while (n < t.len && (isupper((unsigned char)t.at[n]) || t.at[n] == '_'))
            n++;
        if (n > 3 && n < t.len && t.at[n] == '=')
            return false;
    }
    (void)strip_kmsg(&t);
    t = text_trim(t);
    bool foreign = false;
    for (unsigned i = 0; i < 6; i++)
        if (!strip_bracket(&t) && !strip_facility(&t) && !strip_iso(&t) &&
            !strip_syslog(&t, &foreign))
            break;
    *ret = t;
    return !foreign;
}

static void emit_order(const struct klog *k)
{
    char sequence[BAD_EVENTS_MAX * 16] = "";
    size_t len = 0;
    if (k->events_count == 0)
        return;
    for (unsigned i = 0; i < k->events_count; i++) {
        int n = snprintf(sequence + len, sizeof sequence - len, "%s%s", i > 0 ? " " : "",
                         class_names[k->events[i].class]);
        len += n > 0 ? (size_t)n : 0;
    }
    struct scan at = k->s;
    at.line = k->events[0].line;
    const char *name = class_names[k->events[0].class];
    scan_text(&at, "kmsg.first_bad", text_of(name));
    scan_text(&at, "kmsg.first_bad_text",
              text_of(k->events[0].text));
    scan_text(&at, "kmsg.bad_sequence", (struct text){sequence, len});
    scan_integer(&at, "kmsg.count_bad", k->bad_count);
}

/* "ring gfx_0.0.0 timeout, ...": the copy ring is the SDMA's. */
static void ring_timeout(struct klog *k, struct text ring, struct text line)
{
    bool copies = text_starts(ring, "sdma") || text_starts(ring, "page");
    if (k->timeouts++ == 0)
        scan_text(&k->s, "kmsg.ring_timeout", ring);
    (void)klog_bad(k, k->s.line, copies ? BAD_SDMA : BAD_GPU_HANG, line);
    k->noted |= 1u << BAD_GPU_HANG; /* other signs of a hang on this line mean this event */
    k->timeout_open = true;
}

/* Readers in C that rules name. */
static bool act(void *arg, const struct rule *rule, struct text line,
                const struct rule_takes *takes)
{
    struct klog *k = arg;
    if (rule->reader == READ_RING_TIMEOUT)
        ring_timeout(k, rule_taken_text(takes, "_ring"), line);
    if (rule->reader == READ_BLOCK) {
        struct text name = takes->count > 0 ? takes->list[0].value.text : (struct text){"", 0};
        (void)klog_bad(k, k->s.line, text_starts(name, "sdma") ? BAD_SDMA : BAD_GPU_HANG, line);
    }
    if (!klog_fault_read(k, rule->reader, line, takes) ||
        !klog_host_read(k, rule->reader, line, takes))
        return false;
    if (rule->bad != BAD_NONE)
        (void)klog_bad(k, k->s.line, rule->bad, line);
    return true;
}

/* "Process python3 pid 4711 thread ...": is it the run's own process, and which device is named with
 * it? */
static void look_for_target(struct klog *k, struct text line)
{
    struct text t;
    uint64_t pid = 0;
    if (k->device[0] == '\0' && text_after(line, " pid ", &t) && text_take_u64(&t, &pid) &&
        (int64_t)pid == k->target_pid && !timeline_device_of(line, k->device) && k->timeline.last_line > 0)
        memcpy(k->device, k->timeline.device[k->timeline.last].name, sizeof k->device);
}

static bool is_of_another_device(const struct klog *k, struct text line)
{
    char name[DEVICE_NAME_SIZE];
    return k->device[0] != '\0' && timeline_device_of(line, name) && strcmp(name, k->device) != 0;
}

static void add_event(struct klog *k, enum kernel_event event, struct text record)
{
    static const enum bad_class classes[KERNEL_EVENTS + 1] = {
        [EVENT_HANG] = BAD_GPU_HANG,    [EVENT_SDMA] = BAD_SDMA,         [EVENT_FAULT] = BAD_PAGE_FAULT,
        [EVENT_HARDWARE] = BAD_HW_RAS,  [EVENT_HOST_OOM] = BAD_HOST_OOM,
    };
    /* the prefix of every report of the hardware, of a corrected error too */
    bool is_report = event == EVENT_HARDWARE && text_has(record, "[Hardware Error]");
    if (classes[event] != BAD_NONE && k->noted_line != k->s.line && !is_report) /* no rule took it for a
                                                                                 * bad event */
        add_to_timeline(k, k->s.line, classes[event], record);
}

/* A start of the machine ends an incident. A program's own crash long after the GPU has recovered begins one. */
static void note_end(struct klog *k, struct text record, struct text line)
{
    if (text_starts(record, "-- Boot ") || text_starts(record, "-- Reboot --") || text_starts(line, "Linux version "))
        k->booted = k->events_count > 0;
    if (k->events_count == 0 || !text_has(line, "]: segfault at "))
        return;
    bool dated;
    double at = stamp_of(record, &dated), step = at - k->last_bad;
    if (at < 0 || k->last_bad < 0 || dated != k->last_dated || step <= INCIDENT_GAP_S || step > OTHER_ORIGIN_S)
        return;
    k->last_crash = at;
    if (k->recovered)
        begin_incident(k, k->s.line);
}

/* The second pass asks rules only if the first pass found one that applies. */
static void read_record(struct klog *k, struct rules_run *run, struct text record, bool is_first_pass)
{
    struct text line = record;
    enum kernel_event event = KERNEL_EVENTS;
    bool of_kernel = klog_strip(record, &line) && line.len >= 4;
    bool of_another = of_kernel && !is_first_pass && is_of_another_device(k, line);
    if (of_kernel && !run->context_only)
        k->stamped = record;
    note_end(k, record, line);
    if (!is_first_pass && !run->context_only)
        event = kernel_event_read(of_kernel ? line : record, &k->follows);
    if (of_kernel && !of_another && (is_first_pass || k->any_rule))
        rules_line(run, line);
    if (of_kernel && is_first_pass && k->target_pid >= 0)
        look_for_target(k, line);
    add_event(k, event, of_kernel ? line : record);
    if (event != KERNEL_EVENTS && !of_another)
        kernel_event_emit(&k->s, event, record);
}

/* One pass. Records before line `from` are read only for their context. */
static void read_log(struct klog *k, struct rules_run *run, struct text rest, unsigned from)
{
    struct text record;
    while (text_next_line(&rest, &record)) {
        k->s.line++;
        run->context_only = k->s.line < from;
        read_record(k, run, record, from == 0);
    }
    klog_fault_close(k);
}

static struct klog begin(struct facts *facts, const char *source, unsigned before)
{
    return (struct klog){
        .s = {.facts = facts, .source = source != NULL ? source : "kernel log", .line = before},
        .now = -1,
        .last_bad = -1,
        .last_crash = -1,
        .incident = 1,
        .target_pid = -1};
}

bool klog_is_event(const char *fact)
{
    return strncmp(fact, "kmsg.", 5) == 0 || strncmp(fact, "event.", 6) == 0;
}

/* The last record that has a time; -1 = none. */
static double last_stamp(struct text all, bool *ret_dated)
{
    double at = -1;
    while (all.len > 0 && at < 0) {
        const char *end = memrchr(all.at, '\n', all.len);
        size_t from = end != NULL ? (size_t)(end - all.at) : 0;
        at = stamp_of(text_skip(all, end != NULL ? from + 1 : 0), ret_dated);
        all.len = from;
    }
    return at;
}

/* The log goes on for a day or more, or a program crashed long after. A hardware error stays the cause. */
static bool is_long_before(const struct klog *k, struct text all)
{
    bool dated = false;
    if (k->last_bad < 0 || k->events[0].class == BAD_HW_RAS)
        return false;
    double step = last_stamp(all, &dated) - k->last_bad;
    return k->last_crash > k->last_bad || (dated == k->last_dated && step >= LONG_BEFORE_S && step <= OTHER_ORIGIN_S);
}

/* The last bad record may be of an earlier failure. */
static void doubt_old_events(const struct klog *k, struct text all, size_t from)
{
    if (k->events_count == 0 || !(k->booted || is_long_before(k, all)))
        return;
    for (size_t i = from; i < facts_count(k->s.facts); i++)
        if (klog_is_event(facts_at(k->s.facts, i)->name))
            facts_mark(k->s.facts, i, FACT_MARK_LONG_BEFORE);
}

/* A first pass, whose facts are discarded: finds where the last incident begins, and which device is named
 * with the run's own process. */
static struct klog find_incident(const struct facts *facts, struct text all, unsigned before)
{
    struct facts *scratch = facts_new();
    struct klog k = begin(scratch, NULL, before);
    (void)facts_get_integer(facts, "target.failed_pid", &k.target_pid);
    struct rules_run run = {.s = &k.s, .scope = SCOPE_KERNEL, .act = act, .arg = &k};
    if (scratch != NULL)
        read_log(&k, &run, all, 0);
    k.any_rule = run.any || scratch == NULL;
    facts_free(scratch);
    return k;
}

void kernel_log_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    size_t known = facts_count(facts);
    struct text all = text_tail(data, len, &before);
    struct klog found = find_incident(facts, all, before);
    struct klog k = begin(facts, source, before);
    memcpy(k.device, found.device, sizeof k.device);
    k.any_rule = found.any_rule;
    struct rules_run run = {.s = &k.s, .scope = SCOPE_KERNEL, .act = act, .arg = &k};
    read_log(&k, &run, all, found.incident);
    klog_fault_emit(&k);
    emit_order(&k);
    if (k.timeouts > 0)
        (void)facts_set_integer(facts, "kmsg.ring_timeouts", FACT_LOG, k.timeouts, k.s.source);
    if (found.incidents > 0) {
        const char *name = class_names[found.before];
        (void)facts_set_text(facts, "kmsg.earlier_bad", FACT_LOG, name, k.s.source);
    }
    rules_emit(&run);
    timeline_emit(&k.timeline, &k.s);
    doubt_old_events(&k, all, known);
}
