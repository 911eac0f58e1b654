/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/run_json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "record/shared.h"

struct text {
    char *out;
    size_t size;
    size_t len;
    bool overflow;
};

static void text_add(struct text *t, const char *bytes, size_t len)
{
    if (t->overflow || t->size - t->len <= len) {
        t->overflow = true;
        return;
    }
    memcpy(t->out + t->len, bytes, len);
    t->len += len;
    t->out[t->len] = '\0';
}

static void text_puts(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

static void text_string(struct text *t, const char *s, size_t len)
{
    text_puts(t, "\"");
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)s[i];
        size_t n = utf8_length((const unsigned char *)s + i, len - i);
        char escaped[8];
        if (n == 0) {
            text_puts(t, "\\ufffd");
            n = 1;
        } else if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            text_add(t, escaped, 2);
        } else if (c < 0x20 || c == 0x7f) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
            text_add(t, escaped, 6);
        } else {
            text_add(t, s + i, n);
        }
        i += n;
    }
    text_puts(t, "\"");
}

static void field_string(struct text *t, const char *key, const char *value)
{
    text_puts(t, "  \"");
    text_puts(t, key);
    text_puts(t, "\": ");
    text_string(t, value, strlen(value));
    text_puts(t, ",\n");
}

static void field_number(struct text *t, const char *key, int64_t value)
{
    char line[128];
    int n = snprintf(line, sizeof line, "  \"%s\": %" PRId64 ",\n", key, value);
    text_add(t, line, (size_t)n);
}

/* Nanoseconds do not fit a JSON double, so they are strings. */
static void field_u64(struct text *t, const char *key, uint64_t value)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    field_string(t, key, digits);
}

static void field_argv(struct text *t, const struct shared_run *run)
{
    text_puts(t, "  \"argv\": [");
    uint32_t bytes = run->argv_bytes < sizeof run->argv ? run->argv_bytes : sizeof run->argv;
    for (uint32_t at = 0; at < bytes;) {
        size_t len = strnlen(run->argv + at, bytes - at);
        if (at > 0)
            text_puts(t, ", ");
        text_string(t, run->argv + at, len);
        at += (uint32_t)len + 1;
    }
    text_puts(t, "],\n");
}

static void render_target(struct text *t, const struct shared *s)
{
    field_number(t, "target_state", s->target_state);
    field_number(t, "target_pid", s->target_pid);
    field_number(t, "target_status", s->target_status);
    field_number(t, "status_unknown", s->status_unknown);
    field_number(t, "exec_errno", s->exec_errno);
    field_u64(t, "target_end_ns", s->target_end_ns);
    field_number(t, "supervisor_killed", s->supervisor_killed);
    field_u64(t, "still_began_ns", s->still_began_ns);
    field_u64(t, "still_asked_ns", s->still_asked_ns);
    field_number(t, "still_signal", s->still_signal);
}

static void render_tracing(struct text *t, const struct shared *s)
{
    field_number(t, "trace_mode", s->run.trace_mode);
    field_number(t, "trace_state", s->trace_state);
    field_number(t, "trace_errno", s->trace_errno);
    field_number(t, "processes_seen", s->processes_seen);
    field_number(t, "processes_traced", s->processes_traced);
    field_number(t, "processes_released_busy", s->processes_released_busy);
    field_number(t, "processes_sanitized", s->processes_sanitized);
    field_number(t, "children_late", s->children_late);
    field_number(t, "watchdog_kills", s->watchdog_kills);
    field_number(t, "impacts", s->impacts_used);
    field_number(t, "impacts_dropped", s->impacts_dropped);
}

static void render_helpers(struct text *t, const struct shared *s)
{
    static const char *const names[HELPER_MAX] = {"tracer", "sampler", "relay", "recorder",
                                            "stdout_relay"};
    for (int i = 0; i < HELPER_MAX; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s_generation", names[i]);
        field_number(t, key, s->helpers[i].generation);
    }
}

static void render_evidence(struct text *t, const struct shared *s)
{
    field_number(t, "stderr_kind", s->run.stderr_kind);
    field_number(t, "stdout_kind", s->run.stdout_kind);
    field_u64(t, "output_bytes", s->stderr_carried.bytes);
    field_number(t, "oom_matches", s->oom_matches);
    field_number(t, "fault_matches", s->fault_matches);
    field_number(t, "hang_matches", s->hang_matches);
    field_number(t, "error_matches", s->error_matches);
    field_number(t, "plain_matches", s->plain_matches);
    field_u64(t, "first_match_ns", s->first_match_ns);
    field_u64(t, "samples_lost_bytes", s->progress.samples_lost);
    field_u64(t, "output_lost_bytes", s->progress.output_lost);
}

/* The target may write anything there, so bound each slot. */
static void field_hook_trouble(struct text *t, const struct shared *s)
{
    text_puts(t, "  \"hook_trouble\": [");
    for (size_t i = 0, n = 0; i < SHARED_HOOK_SLOTS; i++) {
        char slot[SHARED_HOOK_TEXT];
        memcpy(slot, s->hook_trouble[i], sizeof slot);
        size_t len = strnlen(slot, sizeof slot);
        if (len > 0 && n++ > 0)
            text_puts(t, ", ");
        if (len > 0)
            text_string(t, slot, len);
    }
    text_puts(t, "],\n");
}

size_t run_json_render(const struct shared *shared, char *out, size_t size)
{
    struct text t = {.out = out, .size = size};
    const struct shared_run *run = &shared->run;
    text_puts(&t, "{\n");
    field_u64(&t, "start_mono_ns", run->start_mono_ns);
    field_u64(&t, "start_wall_ns", run->start_wall_ns);
    field_number(&t, "supervisor_pid", run->supervisor_pid);
    field_argv(&t, run);
    field_number(&t, "argv_cut", run->argv_cut);
    field_string(&t, "cwd", run->cwd);
    field_string(&t, "output_dir", run->output_dir);
    field_string(&t, "sysroot", run->sysroot);
    field_u64(&t, "kmsg_start_seq", run->kmsg_start_seq);
    field_string(&t, "kmsg_error", run->kmsg_error);
    field_string(&t, "follow_error", run->follow_error);
    field_string(&t, "stdout_path", run->stdout_path);
    field_u64(&t, "stdout_inode", run->stdout_inode);
    field_u64(&t, "stdout_start", run->stdout_start);
    field_number(&t, "follows_stdout", run->follows_stdout);
    field_string(&t, "stdout_error", run->stdout_error);
    field_string(&t, "ledger_error", run->ledger_error);
    field_u64(&t, "attached_wall_ns", run->attached_wall_ns);
    field_u64(&t, "snapshot_wall_ns", run->snapshot_wall_ns);
    field_string(&t, "snapshot_why", run->snapshot_why);
    field_hook_trouble(&t, shared);
    render_target(&t, shared);
    render_tracing(&t, shared);
    render_helpers(&t, shared);
    render_evidence(&t, shared);
    text_puts(&t, "  \"format\": 1\n}\n");
    if (t.overflow) {
        out[0] = '\0';
        return 0;
    }
    return t.len;
}
