/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages_to_facts(): what a program printed, as facts.
 *
 * Pure; runs in the finisher over the kept stderr and stdout, and in `triage` over pasted text. One
 * pass goes over the lines, one over the whole text, because UIs wrap PyTorch's message. Garbage is
 * skipped and causes no error.
 */
#include "diagnose/messages.h"

#include <stdio.h>
#include <string.h>

#include "diagnose/verdict.h"
#include "diagnose/vocabulary.h"

/* Lines about one failure are neighbours. */
#define SAME_EVENT_LINES 5

static const struct {
    enum oom_field field;
    const char *fact;
} oom_facts[] = {
    {OOM_REQUESTED, "requested_bytes"},
    {OOM_TOTAL, "total_bytes"},
    {OOM_FREE, "free_bytes"},
    {OOM_ALLOCATED, "allocated_bytes"},
    {OOM_UNALLOCATED, "reserved_unallocated_bytes"},
    {OOM_ALLOWED, "allowed_bytes"},
    {OOM_PRIVATE, "private_pools_bytes"},
    {OOM_RESERVED, "reserved_bytes"},
    {OOM_HOLDER_PID, "holder_pid"},
    {OOM_HOLDER_BYTES, "holder_bytes"},
    {OOM_PROCESS_BYTES, "process_bytes"},
    {OOM_DESIRED, "desired_bytes"},
    {OOM_DEVICE, "device"},
};
#define OOM_FACTS (sizeof oom_facts / sizeof oom_facts[0])

struct reading {
    struct rules_run run;
    struct oom_log log;
    struct runtime_state runtime;
    struct engine_state engine;
};

void oom_take(struct oom *o, const struct rule_takes *takes)
{
    for (unsigned i = 0; i < takes->count; i++) {
        const char *name = rule_fact_names[takes->list[i].fact];
        for (size_t f = 0; strncmp(name, "oom.", 4) == 0 && f < OOM_FACTS; f++)
            if (strcmp(name + 4, oom_facts[f].fact) == 0 && !oom_has(o, oom_facts[f].field))
                oom_set(o, oom_facts[f].field, takes->list[i].value.integer);
    }
}

static bool same_event(const struct oom *old, const struct oom *o)
{
    return old->framework != NULL && strcmp(old->framework, o->framework) == 0 &&
           strcmp(o->framework, "llama.cpp") == 0 && o->line - old->line <= SAME_EVENT_LINES;
}

static void complete(struct oom *old, const struct oom *o)
{
    for (unsigned f = 0; f < OOM_FIELDS; f++)
        if (!oom_has(old, f) && oom_has(o, f))
            oom_set(old, f, o->value[f]);
}

void oom_log_add(struct oom_log *log, const struct oom *o)
{
    if (same_event(&log->last, o)) {
        complete(&log->last, o);
        if (log->first.line == log->last.line)
            complete(&log->first, o);
        return;
    }
    log->count++;
    if (log->first.framework == NULL || o->line < log->first.line)
        log->first = *o;
    if (log->last.framework == NULL || o->line >= log->last.line)
        log->last = *o;
}

static void emit(const struct scan *s, const char *prefix, const struct oom *o)
{
    struct scan at = *s;
    char name[SCAN_NAME_MAX];
    at.line = o->line;
    for (size_t i = 0; i < OOM_FACTS; i++) {
        if (!oom_has(o, oom_facts[i].field))
            continue;
        (void)snprintf(name, sizeof name, "%s%s", prefix, oom_facts[i].fact);
        scan_integer(&at, name, o->value[oom_facts[i].field]);
    }
    (void)snprintf(name, sizeof name, "%sframework", prefix);
    scan_text(&at, name, text_of(o->framework));
    if (o->headless) {
        (void)snprintf(name, sizeof name, "%snon_device", prefix);
        scan_boolean(&at, name, true);
    }
}

void oom_log_emit(const struct scan *s, const struct oom_log *log)
{
    if (log->count == 0)
        return;
    emit(s, "oom.", &log->last);
    if (log->first.line != log->last.line)
        emit(s, "oom.first.", &log->first);
    scan_integer_at(s, log->first.line, "oom.count", log->count);
    /* vLLM's check at start compares numbers; nothing has been refused yet */
    if (strcmp(log->last.framework, "vllm") != 0)
        scan_boolean_at(s, log->last.line, "oom.seen", true);
}

/* An out-of-memory message without any figure counts, too. */
static void seen_without_figures(const struct scan *s)
{
    static const struct {
        const char *fact, *framework;
    } signs[] = {
        {"msg.ggml_alloc_failed", "llama.cpp"}, {"msg.xla_oom", "jax"},
        {"msg.bfc_oom", "tensorflow"},          {"msg.directml_oom", "directml"},
        {"msg.hip_out_of_memory", "hip"},       {"msg.vulkan_oom", "vulkan"},
    };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const struct fact *f = facts_find(s->facts, signs[i].fact, FACT_LOG);
        if (f == NULL || facts_find(s->facts, "oom.seen", FACT_LOG) != NULL)
            continue;
        const char *source = f->source; /* `f` itself moves when the store grows */
        (void)facts_set_boolean(s->facts, "oom.seen", FACT_LOG, true, source);
        const char *framework = signs[i].framework;
        if (strcmp(framework, "hip") == 0 && facts_find(s->facts, "vendor.amd", FACT_LOG) == NULL)
            framework = "runtime";
        (void)facts_set_text(s->facts, "oom.framework", FACT_LOG, framework, source);
    }
}

/* A traceback echoes source text: raise RuntimeError("... out of memory ...") is no message. */
static bool is_source_echo(struct text previous, struct text line)
{
    return text_starts(line, "    ") && text_starts(text_trim(previous), "File \"") &&
           text_has(previous, ", line ");
}

/* "3.49GiB" after a line of the pool with "(rounded to 3752783616)": the same refusal, which the exception
 * repeats rounded to three digits. */
static bool is_repeated(const struct oom_log *log, const struct oom *o)
{
    int64_t exact = log->last.value[OOM_REQUESTED], size = o->value[OOM_REQUESTED];
    return log->count > 0 && strcmp(o->framework, "jax") == 0 &&
           strcmp(log->last.framework, "tensorflow") == 0 && !log->last.ladder &&
           oom_has(&log->last, OOM_REQUESTED) && size > exact - exact / 100 &&
           size < exact + exact / 100;
}

/* A refused allocation that a rule found. */
static void record(struct reading *r, const struct rule *rule, const struct rule_takes *takes)
{
    static const char first_step[] = "msg.allocation_ladder_first_bytes";
    const struct scan *s = r->run.s;
    struct oom o = {.framework = rule->record, .line = s->line, .ladder = rule->ladder};
    oom_take(&o, takes);
    int64_t size = o.value[OOM_REQUESTED], rounded = rule_taken_integer(takes, "_rounded", 0);
    if (o.known == 0)
        return;
    if (is_repeated(&r->log, &o))
        o.value[OOM_REQUESTED] = r->log.last.value[OOM_REQUESTED];
    if (!o.ladder && rounded > size - size / 100 && rounded < size + size / 100)
        o.value[OOM_REQUESTED] = rounded;
    if (!o.ladder || facts_find(s->facts, first_step, FACT_LOG) == NULL)
        oom_log_add(&r->log, &o);
    if (o.ladder)
        scan_integer(s, first_step, size);
}

/* Readers in C that rules name. */
static bool act(void *arg, const struct rule *rule, struct text line,
                const struct rule_takes *takes)
{
    struct reading *r = arg;
    if (rule->record != NULL)
        record(r, rule, takes);
    if (rule->reader == READ_GFX)
        scan_gfx_fact(r->run.s, line, "msg.gfx");
    if (rule->reader == READ_VLLM_DEVICE)
        return rule_taken_integer(takes, "msg.vllm_free_bytes", 0) <=
               rule_taken_integer(takes, "msg.vllm_total_bytes", 0);
    return engine_read(&r->run, &r->engine, rule->reader, takes) &&
           runtime_read(r->run.s, &r->runtime, rule->reader, line, takes);
}

void messages_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text all = text_tail(data, len, &before), rest = all, line;
    struct scan s = {.facts = facts, .source = source != NULL ? source : "text", .line = before};
    struct reading r = {.run = {.s = &s, .scope = SCOPE_MESSAGES, .act = act, .arg = &r}};

    for (struct text previous = {"", 0}; text_next_line(&rest, &line); previous = line) {
        s.line++;
        if (line.len < 4 || is_source_echo(previous, line))
            continue;
        const struct line_words words = line_words_of(line);
        runtime_line(&s, &r.runtime, &words);
        rules_line(&r.run, line);
    }
    torch_messages(&r.log, all, before + 1);
    if (r.log.count == 1 && r.log.last.ladder && runtime_ladder_ended(&r.runtime))
        r.log.count = 0;
    oom_log_emit(&s, &r.log);
    order_emit(&s, all, before + 1, &r.log, &r.runtime);
    rules_emit(&r.run);
    runtime_emit(&s, &r.runtime);
    engine_emit(&r.run, &r.engine);
    seen_without_figures(&s);
    warned_settle(&r.run);
    vocabulary_to_facts(facts, data, len, source);
}
