/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program only warned of while it started, and went on without, stands for its failure where it
 * tells of no other one; never at high confidence. Else it is kept under another name, which no node
 * of the tree reads.
 */
#include <stdio.h>
#include <string.h>

#include "diagnose/messages.h"

void warned_mark(struct count_state *states)
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

/* Lines that were counted. */
static void settle_counts(const struct scan *s, const struct count_state *states, bool otherwise)
{
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
}

/* Names that the loader missed: outside of an exception, then in a warning. */
static void settle_names(const struct scan *s)
{
    static const struct {
        const char *from, *to, *why;
    } rows[] = {
        {"msg.aside.library_missing", "msg.library_missing", "msg.only_aside"},
        {"msg.aside.undefined_symbol", "msg.undefined_symbol", "msg.only_aside"},
        {"msg.warned.library_missing", "msg.library_missing", "msg.only_warned"},
        {"msg.warned.undefined_symbol", "msg.undefined_symbol", "msg.only_warned"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fact *f = facts_find(s->facts, rows[i].from, FACT_LOG);
        if (f == NULL || f->text == NULL || facts_find(s->facts, rows[i].to, FACT_LOG) != NULL)
            continue;
        const char *source = f->source; /* `f` itself moves when the store grows */
        (void)facts_set_text(s->facts, rows[i].to, FACT_LOG, f->text, source);
        (void)facts_set_boolean(s->facts, rows[i].why, FACT_LOG, true, source);
    }
}

void warned_settle(const struct scan *s, const struct count_state *states)
{
    bool otherwise = failed_otherwise(s->facts);
    for (size_t i = 0; !otherwise && i < message_rows_count; i++)
        otherwise = states[i].may_be_warned && states[i].count > 0;
    settle_counts(s, states, otherwise);
    if (!otherwise)
        settle_names(s);
}
