/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the failed process (/proc/PID/limits at impact). Without an impact record our own
 * limits are used, because a child inherits them unless it changes them. The source says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/number.h"
#include "base/target_change.h"
#include "collect/collector.h"
#include "collectors/machine.h"

/* Max locked memory         8388608              8388608              bytes
 * The name is padded to 26 columns (fs/proc/base.c, proc_pid_limits), the soft limit to 21. */
#define NAME_COLUMNS 26

static const struct wanted {
    const char *line;
    const char *fact;
} wanted[] = {
    {"Max locked memory", "proc.0.memlock_limit_bytes"},
    {"Max address space", "proc.0.address_space_limit_bytes"},
    {"Max data size", "proc.0.data_limit_bytes"},
    {"Max stack size", "proc.0.stack_limit_bytes"},
    {"Max resident set", "proc.0.rss_limit_bytes"},
    {"Max core file size", "proc.0.core_limit_bytes"},
    {"Max file size", "proc.0.file_size_limit_bytes"},
    {"Max open files", "proc.0.fds_limit"},
    {"Max processes", "proc.0.processes_limit"},
};

static void give_fact(struct collect_out *out, const struct wanted *w, const char *line,
                      const char *source)
{
    const char *value = line + NAME_COLUMNS;
    uint64_t number = 0;
    if (strncmp(value, "unlimited", 9) == 0)
        collect_missing(out, w->fact, FACT_IMPACT, FACT_ABSENT, "unlimited", source);
    else if (number_of_field(value, &number) && number <= INT64_MAX)
        collect_integer(out, w->fact, FACT_IMPACT, (int64_t)number, source);
}

static int give_facts(struct collect_out *out, const char *text, const char *source)
{
    int found = 0;
    for (const char *line = text; line != NULL && *line != '\0';) {
        size_t len = strcspn(line, "\n");
        for (size_t i = 0; len > NAME_COLUMNS && i < sizeof wanted / sizeof wanted[0]; i++) {
            size_t name = strlen(wanted[i].line);
            if (strncmp(line, wanted[i].line, name) == 0 && line[name] == ' ') {
                give_fact(out, &wanted[i], line, source);
                found++;
            }
        }
        line = line[len] == '\n' ? line + len + 1 : NULL;
    }
    return found;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    char text[4096];
    const char *source = "/proc/PID/limits at impact";
    ssize_t n = impact_text(ctx, CHUNK_LIMITS, text, sizeof text);
    bool is_of_impact = n > 0;
    const char *substitute = NULL;
    if (n <= 0) {
        char path[64];
        int64_t pid = ctx->failed_pid > 0 ? ctx->failed_pid : ctx->target_pid;
        (void)snprintf(path, sizeof path, "/proc/%lld/limits", (long long)pid);
        n = pid > 0 ? fs_read_text(path, text, sizeof text) : -1;
        source = "/proc/PID/limits after the failure";
    }
    if (n <= 0 && !target_change_is_limit()) {
        /* Not /proc/self: the runner lowered CPU time, file and core size of this child. */
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%ld/limits", (long)getppid());
        n = fs_read_text(path, text, sizeof text);
        source = "limits of rocmcrash itself, which the target inherited";
        substitute = "no impact record: these are our own limits, which the target inherited";
    }
    if (n <= 0)
        return collect_reason(out, COLLECT_FAILED, target_change_is_limit() ? "no /proc/PID/limits; ours are not those of the program"
                                                                              : "no /proc/PID/limits");
    int found = give_facts(out, text, source);
    if (found == 0)
        return collect_reason(out, COLLECT_FAILED, "%s: no line was understood", source);
    if (!is_of_impact) /* else the text is in impact/ */
        (void)collect_write(out, "limits.txt", text, strlen(text));
    return substitute != NULL ? collect_reason(out, COLLECT_PARTIAL, "%s", substitute) : COLLECT_OK;
}

const struct collector collector_limits = {
    .name = "limits",
    .describe = "resource limits of the failed process",
    .phase = COLLECT_QUICK,
    .deadline_ms = 1000,
    .max_bytes = 64u << 10,
    .run = run,
};
