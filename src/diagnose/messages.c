/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages_to_facts(): what a program printed, as facts.
 *
 * Pure; runs in the finisher over the kept stderr and stdout and in `triage` over pasted text. One
 * pass by lines for what stands on a line, one over the whole for PyTorch's message, which UIs
 * wrap. Never fails on garbage: what is not understood says nothing.
 */
#include "diagnose/messages.h"

#include <stdio.h>
#include <string.h>

#include "diagnose/verdict.h"

/* Lines that tell of one failure stand next to each other. */
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
    for (size_t i = 0; i < sizeof oom_facts / sizeof oom_facts[0]; i++) {
        if (!oom_has(o, oom_facts[i].field))
            continue;
        (void)snprintf(name, sizeof name, "%s%s", prefix, oom_facts[i].fact);
        scan_integer(&at, name, o->value[oom_facts[i].field]);
    }
    (void)snprintf(name, sizeof name, "%sframework", prefix);
    scan_text(&at, name, (struct text){o->framework, strlen(o->framework)});
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
    /* vLLM's check at start compares numbers, nothing has been refused yet */
    if (strcmp(log->last.framework, "vllm") != 0)
        scan_boolean_at(s, log->last.line, "oom.seen", true);
}

/* An out-of-memory without any figure is still one. */
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
        (void)facts_set_boolean(s->facts, "oom.seen", FACT_LOG, true, f->source);
        const char *framework = signs[i].framework;
        if (strcmp(framework, "hip") == 0 && facts_find(s->facts, "vendor.amd", FACT_LOG) == NULL)
            framework = "runtime";
        (void)facts_set_text(s->facts, "oom.framework", FACT_LOG, framework, f->source);
    }
}

/* What programs also say while they start, and go on without. */
static void mark_rows(struct count_state *states)
{
    static const char *const rows[] = {
        "msg.not_supported_gpu", "msg.bitsandbytes_binary", "msg.lds_limit", "msg.symbol_version",
        "msg.no_device", "msg.emfile", "msg.rocblaslt_library_missing", "msg.shape_mismatch",
        "msg.device_ordinal", NULL};
    for (size_t i = 0; i < message_rows_count; i++)
        for (size_t k = 0; rows[k] != NULL; k++)
            states[i].may_be_warned |= strcmp(message_rows[i].fact, rows[k]) == 0;
}

/* Failures that leave no doubt that the program did not end by what it had warned of. */
static bool failed_otherwise(const struct facts *facts)
{
    static const char *const signs[] = {
        "oom.seen", "msg.memory_access_fault", "msg.hw_exception", "msg.hsa_status",
        "msg.illegal_address", "msg.launch_failure", "msg.device_timeout", "msg.device_assert",
        "msg.collective_timeout", "msg.remote_process_exited", "msg.collective_error",
        "msg.segfault", "msg.app_assertion", "msg.panic", "msg.heap_corruption", "msg.double_free",
        "msg.cpu_alloc_failed", "msg.bad_alloc", "msg.oom_kill_told", "msg.kv_cache_too_small",
        "msg.startup_free_low", "msg.shape_mismatch", "msg.tensor_misuse", "msg.library_missing",
        "msg.undefined_symbol", "msg.no_kernel_image", "msg.invalid_device_function",
        "msg.no_binary_for_gpu", "msg.rocblas_library_missing", "msg.driver_mismatch",
        "msg.build_without_gpu", "msg.thread_limit", "msg.no_space", NULL};
    /* those of the loader itself, and those that tell of a child's end */
    static const char *const by_loading[] = {"Import",        "ModuleNotFound", "OSError",
                                             "Attribute",     "CalledProcess",  "ChildFailed",
                                             "ProcessExited", "ProcessRaised",  NULL};
    for (size_t i = 0; signs[i] != NULL; i++)
        if (facts_find(facts, signs[i], FACT_LOG) != NULL)
            return true;
    const struct fact *raised = facts_find(facts, "msg.python_exception", FACT_LOG);
    for (size_t i = 0; raised != NULL && by_loading[i] != NULL; i++)
        if (raised->text != NULL && strstr(raised->text, by_loading[i]) != NULL)
            return false;
    return raised != NULL;
}

/* What a program only warned of is its failure where it tells of no other. */
static void settle_warnings(const struct scan *s, const struct count_state *states)
{
    static const char *const texts[] = {"library_missing", "undefined_symbol"};
    bool otherwise = failed_otherwise(s->facts);
    for (size_t i = 0; !otherwise && i < message_rows_count; i++)
        otherwise = states[i].may_be_warned && states[i].count > 0;
    char name[SCAN_NAME_MAX];
    for (size_t i = 0; i < message_rows_count; i++) {
        if (states[i].warned == 0 || states[i].count > 0)
            continue;
        (void)snprintf(name, sizeof name, "msg.%s%s", otherwise ? "warned." : "",
                       message_rows[i].fact + strlen("msg."));
        scan_integer_at(s, states[i].first_warned_line, name, states[i].warned);
        if (!otherwise)
            scan_boolean_at(s, states[i].first_warned_line, "msg.only_warned", true);
    }
    for (size_t i = 0; !otherwise && i < 4; i++) {
        (void)snprintf(name, sizeof name, "msg.%s.%s", i < 2 ? "aside" : "warned", texts[i % 2]);
        const struct fact *f = facts_find(s->facts, name, FACT_LOG);
        (void)snprintf(name, sizeof name, "msg.%s", texts[i % 2]);
        if (f == NULL || f->text == NULL || facts_find(s->facts, name, FACT_LOG) != NULL)
            continue;
        (void)facts_set_text(s->facts, name, FACT_LOG, f->text, f->source);
        (void)facts_set_boolean(s->facts, i < 2 ? "msg.only_aside" : "msg.only_warned", FACT_LOG,
                                true, f->source);
    }
}

/* A traceback echoes source text: raise RuntimeError("... out of memory ...") has not happened. */
static bool is_source_echo(struct text previous, struct text line)
{
    return text_starts(line, "    ") && text_starts(text_trim(previous), "File \"") &&
           text_has(previous, ", line ");
}

void messages_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text all = text_tail(data, len, &before), rest = all, line;
    struct scan s = {.facts = facts, .source = source != NULL ? source : "text", .line = before};
    struct count_state states[MESSAGE_ROWS_MAX] = {{0}};
    struct runtime_state runtime = {0};
    struct usage_state usage = {.readings = 0};
    struct engine_state engine = {.loads = 0};
    struct bfc_state bfc = {.allocator_line = 0};
    struct oom_log log = {.count = 0};

    mark_rows(states);
    for (struct text previous = {"", 0}; text_next_line(&rest, &line); previous = line) {
        s.line++;
        if (line.len < 4 || is_source_echo(previous, line))
            continue;
        scan_count(message_rows, states, message_rows_count, s.line, line);
        runtime_line(&s, &runtime, line);
        framework_line(&s, &log, line);
        engine_line(&s, &engine, line);
        bfc_line(&s, &bfc, line);
        usage_line(&s, &usage, line);
        scan_vendor(&s, line);
    }
    torch_messages(&log, all, before + 1);
    if (log.count == 1 && log.last.ladder && runtime_ladder_ended(&runtime))
        log.count = 0;
    oom_log_emit(&s, &log);
    order_emit(&s, all, before + 1, &log, &runtime);
    scan_count_emit(&s, message_rows, states, message_rows_count);
    runtime_emit(&s, &runtime);
    usage_emit(&s, &usage);
    engine_emit(&s, &engine);
    bfc_emit(&s, &bfc);
    seen_without_figures(&s);
    settle_warnings(&s, states);
}
