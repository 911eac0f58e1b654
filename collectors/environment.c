/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment of the failed process: the variables that steer ROCm, frameworks and launchers, by
 * allow-list (env_secret.c); everything else is only counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "collect/collector.h"
#include "collectors/env_secret.h"
#include "diagnose/env_names.h"

#define VARIABLES_MAX 8192
#define VALUE_MAX 2048
#define NAME_MAX_BYTES 128

static int compare_entries(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct totals {
    const char *source;
    size_t shown, others;
};

static void put_fact(struct collect_out *out, const char *name, size_t len, const char *value,
                     const char *source)
{
    char fact[NAME_MAX_BYTES + 8] = "env.";
    memcpy(fact + 4, name, len);
    fact[4 + len] = '\0';
    collect_text(out, fact, FACT_STATIC, value, source);
}

/* PATH tells which ROCm's tools come first; its other parts are private. */
static bool put_rocm_of_path(struct buf *text, const char *value)
{
    bool any = false;
    while (*value != '\0') {
        size_t len = strcspn(value, ":");
        if (memmem(value, len, "rocm", 4) != NULL && *value == '/' && len < 256 &&
            memmem(value, len, "/home/", 6) == NULL) {
            buf_puts(text, any ? ":" : "");
            char part[257];
            memcpy(part, value, len);
            part[len] = '\0';
            (void)env_append_value(text, part, VALUE_MAX);
            any = true;
        }
        value += len + (value[len] == ':');
    }
    return any;
}

static void put_entry(struct collect_out *out, struct buf *text, const char *entry,
                      struct totals *totals)
{
    const char *equals = strchr(entry, '=');
    size_t len = equals != NULL ? (size_t)(equals - entry) : 0;
    enum env_rule rule = len > 0 && len <= NAME_MAX_BYTES ? env_rule_of(entry, len) : ENV_HIDE;
    struct buf value = BUF_INIT;
    bool is_path = len == 4 && memcmp(entry, "PATH", 4) == 0;
    if (is_path && put_rocm_of_path(&value, equals + 1)) {
        buf_puts(&value, " (other entries not shown)");
    } else if (rule == ENV_SHOW) {
        (void)env_append_value(&value, equals + 1, VALUE_MAX);
    } else if (rule == ENV_SECRET) {
        buf_puts(&value, "<redacted>");
    } else if (rule == ENV_NAME_ONLY) {
        buf_puts(&value, "<set>");
    } else {
        totals->others++;
        buf_release(&value);
        return;
    }
    totals->shown++;
    buf_append(text, entry, len);
    buf_printf(text, "=%s\n", buf_str(&value));
    put_fact(out, entry, len, buf_str(&value), totals->source);
    buf_release(&value);
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    size_t count = 0;
    while (ctx->environ_at_impact != NULL && count < VARIABLES_MAX &&
           ctx->environ_at_impact[count] != NULL)
        count++;
    if (count == 0)
        return collect_reason(out, COLLECT_SKIPPED, "the environment of the process is not known");
    RC_AUTO_FREE const char **sorted = calloc(count, sizeof *sorted);
    if (sorted == NULL)
        return collect_reason(out, COLLECT_FAILED, "%s", strerror(ENOMEM));
    memcpy(sorted, ctx->environ_at_impact, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_entries);
    struct buf text = BUF_INIT;
    struct totals totals = {
        .source = ctx->environ_source != NULL ? ctx->environ_source : "environment of the process"};
    for (size_t i = 0; i < count; i++)
        put_entry(out, &text, sorted[i], &totals);
    buf_printf(&text,
               "# %zu variables shown, %zu others only counted\n", totals.shown, totals.others);
    int r =
        buf_failed(&text) ? -ENOMEM : collect_write(out, "environment.txt", text.data, text.len);
    buf_release(&text);
    if (r < 0)
        return collect_reason(out, COLLECT_FAILED, "cannot write: %s", strerror(-r));
    return COLLECT_OK;
}

const struct collector collector_environment = {
    .name = "environment",
    .describe = "environment variables of the failed process, by allow-list",
    .phase = COLLECT_QUICK,
    .deadline_ms = 1000,
    .max_bytes = 512u << 10,
    .run = run,
};
