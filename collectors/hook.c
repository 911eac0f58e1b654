/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collector "hook": what the Python hook (inject/python) wrote below the run directory while the
 * program ran: PyTorch's allocator at the failure and over time, uncaught exceptions, Python's
 * stacks. Perishable phase, so that its exact figures come before those of messages and samples.
 */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/hook.h"
#include "collectors/lib/torch_snapshot.h"
#include "diagnose/text.h"

extern const struct collector collector_hook;

#define EVENTS_MAX ((size_t)5 << 20)
#define RECORD_MAX ((size_t)2 << 20)
#define SNAPSHOT_MAX ((size_t)9 << 20)
#define SERIES_MAX ((size_t)2 << 20)
#define MARKS_MAX ((size_t)1 << 20)
#define FAULTS_MAX ((size_t)1 << 20)
#define HISTORY_MAX ((size_t)17 << 20)
#define FILES_MAX 4096
#define OTHERS_MAX 8
/* If no exception names the cause, an out-of-memory at most this long before the end is the cause. */
#define OOM_TO_END_NS INT64_C(30000000000)

struct hook {
    const struct collect_ctx *ctx;
    struct collect_out *out;
    char dir[FS_PATH_MAX];
    int64_t pid;                /* the process of the facts, 0 = none used PyTorch */
    int64_t others[OTHERS_MAX]; /* more processes that have a series */
    int other_count;
    struct hook_events events;
    cJSON *record;           /* record of the failure: last (else first) out-of-memory, else exit */
    const char *record_name; /* "oom.last", "oom.first", "exit" */
};

static ssize_t read_file(const struct hook *h, const char *name, size_t max, char **ret)
{
    char path[FS_PATH_MAX + 80];
    (void)snprintf(path, sizeof path, "%s/%s", h->dir, name);
    ssize_t len = fs_read_all(path, max, ret);
    if (len == -EFBIG && *ret != NULL)
        len = (ssize_t)strlen(*ret);
    return len;
}

static ssize_t read_of(const struct hook *h, int64_t pid, const char *what, size_t max, char **ret)
{
    char name[80];
    (void)snprintf(name, sizeof name, "%lld.%s", (long long)pid, what);
    return read_file(h, name, max, ret);
}

static void copy_of(const struct hook *h, int64_t pid, const char *what, const char *as, size_t max)
{
    RC_AUTO_FREE char *data = NULL;
    ssize_t len = read_of(h, pid, what, max, &data);
    if (len > 0)
        (void)collect_write(h->out, as, data, (size_t)len);
}

/* --- which process --- */

static cJSON *read_record(const struct hook *h, int64_t pid, const char *what)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = read_of(h, pid, what, RECORD_MAX, &text);
    return len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
}

/* "4711.oom.first.json" */
static int64_t pid_of_name(const char *name, const char **ret_rest)
{
    char *end;
    long long pid = strtoll(name, &end, 10);
    *ret_rest = *end == '.' ? end + 1 : "";
    return end != name && *end == '.' && pid > 0 ? pid : 0;
}

struct choice {
    int64_t pid;
    /* Prefer a process that ran out of memory to one with only a series, and among these the failed
     * process. A launcher may fail because of a worker that was too young to be noticed. */
    int rank;
    int64_t time_ns;
};

static void consider(struct hook *h, struct choice *best, const char *name)
{
    const char *rest;
    int64_t pid = pid_of_name(name, &rest);
    bool oom = strcmp(rest, "oom.first.json") == 0;
    bool series = strcmp(rest, "torch.csv") == 0;
    if (pid == 0 || (!oom && !series))
        return;
    struct choice c = {.pid = pid, .rank = (oom ? 2 : 0) + (pid == h->ctx->failed_pid ? 1 : 0)};
    if (oom) {
        cJSON *record = read_record(h, pid, "oom.first.json");
        c.time_ns = hook_number(record, "t");
        cJSON_Delete(record);
    }
    if (series && h->other_count < OTHERS_MAX)
        h->others[h->other_count++] = pid;
    /* If several ran out of memory, take the first. It may have caused the others. */
    if (best->pid == 0 || c.rank > best->rank ||
        (c.rank == best->rank && oom && best->time_ns > c.time_ns))
        *best = c;
}

static bool choose_process(struct hook *h)
{
    struct choice best = {0};
    RC_AUTO_CLOSEDIR DIR *dir = opendir(h->dir);
    const struct dirent *entry;
    if (dir == NULL)
        return false;
    for (int i = 0; i < FILES_MAX && (entry = readdir(dir)) != NULL; i++)
        consider(h, &best, entry->d_name);
    h->pid = best.pid;
    return true;
}

static bool is_of_exception(const struct hook *h)
{
    return hook_exception_requested(h->events.exception, hook_number(h->record, "requested")) ==
           HOOK_ASKED_SAME;
}

/* PyTorch swallows some refusals (a convolution's workspace). Take the record that matches the size
 * in the message of the raised exception, else the last record. */
static void choose_record(struct hook *h)
{
    static const char *const names[] = {"oom.last", "oom.first", "exit"};
    bool told = hook_exception_requested(h->events.exception, -1) == HOOK_ASKED_OTHER;
    for (size_t i = 0; i < 3 && h->record == NULL && h->pid != 0; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s.json", names[i]);
        h->record = read_record(h, h->pid, name);
        h->record_name = names[i];
        if (i < 2 && told && !is_of_exception(h)) {
            cJSON_Delete(h->record);
            h->record = NULL;
        }
    }
}

/* --- why it failed --- */

static bool oom_is_the_cause(const struct hook *h)
{
    if (h->record == NULL || strncmp(h->record_name, "oom", 3) != 0)
        return false;
    if (h->events.exception != NULL)
        return hook_exception_is_oom(h->events.exception);
    if (h->events.thread_exception != NULL && hook_exception_is_oom(h->events.thread_exception))
        return true;
    int64_t end_ns = (int64_t)h->ctx->end_mono_ns;
    return end_ns == 0 || end_ns - hook_number(h->record, "t") < OOM_TO_END_NS;
}

static void put_exception(const struct hook *h)
{
    static const char source[] = "Python hook: excepthook";
    bool main_thread = h->events.exception != NULL;
    const cJSON *exception = main_thread ? h->events.exception : h->events.thread_exception;
    const cJSON *chain = cJSON_GetObjectItemCaseSensitive(exception, "chain");
    const cJSON *head = cJSON_GetArrayItem(chain, 0);
    struct buf text = BUF_INIT;
    if (head == NULL)
        return;
    collect_text(h->out, "hook.exception_type", FACT_LOG, hook_string(head, "type"), source);
    collect_text(h->out, "hook.exception_message", FACT_LOG, hook_string(head, "message"), source);
    collect_boolean(h->out, "hook.exception_of_memory", FACT_LOG, hook_exception_is_oom(exception), source);
    if (!main_thread)
        collect_text(h->out, "hook.exception_thread", FACT_LOG, hook_string(exception, "thread"),
                     source);
    hook_exception_text(exception, &text);
    if (!buf_failed(&text) && text.len > 0)
        (void)collect_write(h->out, "exception.txt", text.data, text.len);
    buf_release(&text);
}

/* --- figures --- */

static void put_record(const struct hook *h, int64_t device)
{
    char source[96];
    struct buf text = BUF_INIT;
    bool oom = strncmp(h->record_name, "oom", 3) == 0;
    (void)snprintf(source, sizeof source, "PyTorch in process %lld, at the %s", (long long)h->pid,
                   oom ? "out-of-memory observer" : "uncaught exception");
    if (oom)
        hook_facts_of_oom(h->record, oom_is_the_cause(h), source, h->out);
    hook_facts_of_stats(h->record, device, source, h->out);
    hook_stacks_text(h->record, &text);
    if (!buf_failed(&text) && text.len > 0)
        (void)collect_write(h->out, "stacks.txt", text.data, text.len);
    buf_release(&text);
}

static const char series_columns[] =
    "time_s,device,allocated_bytes,reserved_bytes,active_bytes,inactive_split_bytes,"
    "requested_bytes,allocated_peak_bytes,reserved_peak_bytes,allocated_total_bytes,"
    "freed_total_bytes,segments,inactive_splits,retries,ooms,took_us,small_pool_bytes,blocks\n";

/* One clock: seconds since the start of the run, as in telemetry.csv. */
static void write_table(const struct hook *h, const char *as, const char *columns, const char *text)
{
    struct buf csv = BUF_INIT;
    buf_puts(&csv, columns);
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        char *rest;
        unsigned long long t_ns = strtoull(text, &rest, 10);
        if (*rest == ',' && t_ns >= h->ctx->start_mono_ns)
            buf_printf(&csv, "%.6f%.*s\n", (double)(t_ns - h->ctx->start_mono_ns) / 1e9,
                       (int)(end - rest), rest);
    }
    if (!buf_failed(&csv))
        (void)collect_write(h->out, as, csv.data, csv.len);
    buf_release(&csv);
}

static void put_live(const struct hook *h, int64_t device, struct hook_text snapshot)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = read_of(h, h->pid, "live.csv", MARKS_MAX, &text);
    if (len <= 0)
        return;
    hook_facts_of_live((struct hook_text){text, (size_t)len}, snapshot, hook_number(h->record, "t"),
                       device, h->out);
    write_table(h, "live.csv", "time_s,device,size_class,bytes,blocks,site\n", text);
}

static void put_snapshot(const struct hook *h, int64_t device)
{
    char name[48];
    char source[64];
    RC_AUTO_FREE char *text = NULL;
    struct torch_snapshot snapshot;
    const char *which = strncmp(h->record_name, "oom", 3) == 0 ? h->record_name + 4 : "exit";
    (void)snprintf(name, sizeof name, "snapshot.%s.json", which);
    ssize_t len = h->record != NULL ? read_of(h, h->pid, name, SNAPSHOT_MAX, &text) : 0;
    put_live(h, device, (struct hook_text){text, len > 0 ? (size_t)len : 0});
    if (len <= 0)
        return;
    (void)snprintf(source, sizeof source, "hook/snapshot.json");
    if (torch_snapshot_read(text, (size_t)len, (int)device, &snapshot) == 0)
        hook_facts_of_snapshot(&snapshot, source, h->out);
    hook_facts_of_kept(h->record, (struct hook_text){text, (size_t)len}, device, source, h->out);
    (void)collect_write(h->out, "snapshot.json", text, (size_t)len);
}

/* Memory freed while the exception unwinds does not mark the end of a step. */
static void drop_after_failure(const struct hook *h, struct torch_series *series)
{
    int64_t failed_ns = hook_number(h->record, "t");
    if (failed_ns < 0 || strncmp(h->record_name, "oom", 3) != 0 || !oom_is_the_cause(h))
        return;
    while (series->count > 1 && series->points[series->count - 1].time_ns > (uint64_t)failed_ns)
        series->count--;
}

static void put_series(const struct hook *h, int64_t device)
{
    RC_AUTO_FREE char *text = NULL;
    struct torch_series series;
    ssize_t len = read_of(h, h->pid, "torch.csv", SERIES_MAX, &text);
    if (len <= 0) {
        series = (struct torch_series){0};
        hook_facts_of_moments(&series, h->record, h->events.device, device, h->pid, h->out);
        return;
    }
    if (torch_series_read(text, (size_t)len, (int)device, &series) == 0) {
        drop_after_failure(h, &series);
        hook_facts_of_series(&series, "telemetry/torch-stats.csv", h->out);
        hook_facts_of_moments(&series, h->record, h->events.device, device, h->pid, h->out);
        collect_integer(h->out, "hook.slowest_sample_us", FACT_STATIC, series.slowest_us,
                        "telemetry/torch-stats.csv");
    }
    torch_series_release(&series);
    if (torch_series_read(text, (size_t)len, -1, &series) == 0)
        hook_facts_of_gap(&series, h->pid, h->ctx->run_dir, h->out);
    torch_series_release(&series);
    write_table(h, "torch-stats.csv", series_columns, text);
}

static void put_others(const struct hook *h)
{
    for (int i = 0; i < h->other_count; i++) {
        RC_AUTO_FREE char *text = NULL;
        char name[48];
        if (h->others[i] == h->pid || read_of(h, h->others[i], "torch.csv", SERIES_MAX, &text) <= 0)
            continue;
        (void)snprintf(name, sizeof name, "torch-stats.%lld.csv", (long long)h->others[i]);
        write_table(h, name, series_columns, text);
    }
}

/* Without a record (the process was killed): the first device of its series. */
static int64_t device_of_series(const struct hook *h)
{
    RC_AUTO_FREE char *text = NULL;
    if (read_of(h, h->pid, "torch.csv", SERIES_MAX, &text) <= 0)
        return 0;
    const char *comma = strchr(text, ',');
    return comma != NULL ? strtoll(comma + 1, NULL, 10) : 0;
}

static int64_t device_of(const struct hook *h)
{
    int64_t device = hook_number(h->record, "device");
    const cJSON *stats = cJSON_GetObjectItemCaseSensitive(h->record, "stats");
    if (device < 0 && stats != NULL && stats->child != NULL)
        device = strtoll(stats->child->string, NULL, 10); /* an exit: the first device that it
                                                           * used */
    else if (device < 0)
        device = device_of_series(h);
    return device >= 0 ? device : 0;
}

static void put_torch(struct hook *h)
{
    choose_record(h);
    int64_t device = device_of(h);
    if (h->pid == 0)
        return;
    collect_integer(h->out, "hook.torch_pid", FACT_STATIC, h->pid, "name of its files");
    if (h->record != NULL)
        put_record(h, device);
    put_series(h, device);
    put_others(h);
    copy_of(h, h->pid, "oom.first.json", "oom-first.json", RECORD_MAX);
    copy_of(h, h->pid, "oom.last.json", "oom-last.json", RECORD_MAX);
    copy_of(h, h->pid, "exit.json", "exit.json", RECORD_MAX);
    put_snapshot(h, device);
    copy_of(h, h->pid, "history.pickle", "torch-history.pickle", HISTORY_MAX);
}

/* "4711.trouble.snapshot: OSError: Too many open files": an empty file with that name, made when no
 * file could be opened for writing. */
static void add_named_troubles(struct hook *h)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(h->dir);
    const struct dirent *entry;
    for (int i = 0; dir != NULL && i < FILES_MAX && (entry = readdir(dir)) != NULL; i++) {
        const char *rest;
        if (pid_of_name(entry->d_name, &rest) != 0 && strncmp(rest, "trouble.", 8) == 0)
            hook_add_trouble(&h->events, rest + 8);
    }
}

/* "Current thread 0x7f01 (most recent call first):\n  File \"/home/a/train.py\", line 12 in step" -> "train.py:12 in step",
 * of the innermost frame outside libraries. */
static void put_fault_place(struct hook *h, const char *faults)
{
    const char *line = strstr(faults, "Current thread ");
    while (line != NULL && (line = strchr(line, '\n')) != NULL && strncmp(++line, "  File \"", 8) == 0) {
        char place[256];
        char file[200] = "";
        char function[100] = "";
        char number[12] = "";
        bool fits = sscanf(line, "  File \"%199[^\"]\", line %11[0-9] in %99[^\n]", file, number, function) == 3;
        if (!fits || text_is_of_python_library((struct text){file, strlen(file)}))
            continue;
        const char *slash = strrchr(file, '/');
        (void)snprintf(place, sizeof place, "%s:%s in %s", slash != NULL ? slash + 1 : file, number, function);
        collect_text(h->out, "hook.fault_place", FACT_LOG, place, "hook/faults.txt");
        return;
    }
}

static enum collect_status read_all(struct hook *h)
{
    RC_AUTO_FREE char *text = NULL;
    RC_AUTO_FREE char *faults = NULL;
    int64_t pid = h->pid != 0 ? h->pid : h->ctx->failed_pid;
    ssize_t len = read_file(h, "events", EVENTS_MAX, &text);
    if (len > 0)
        (void)collect_write(h->out, "events.jsonl", text, (size_t)len);
    if (hook_events_read(text != NULL ? text : (char[]){""}, pid, &h->events) < 0)
        return collect_reason(h->out, COLLECT_FAILED, "out of memory");
    if (h->events.version[0] != '\0')
        collect_text(h->out, "hook.torch_build", FACT_STATIC, h->events.build, "hook/events.jsonl");
    put_exception(h);
    put_torch(h);
    hook_pools(h->ctx, h->dir, &h->events, h->out);
    hook_onnx(h->ctx, h->dir, h->out);
    len = read_file(h, "faults", FAULTS_MAX, &faults);
    if (len > 0) {
        (void)collect_write(h->out, "faults.txt", faults, (size_t)len);
        put_fault_place(h, faults);
    }
    add_named_troubles(h);
    if (h->ctx->hook_trouble != NULL)
        hook_add_trouble(&h->events, h->ctx->hook_trouble);
    if (h->events.trouble[0] != '\0')
        return collect_reason(h->out, COLLECT_PARTIAL, "%s", h->events.trouble);
    return COLLECT_OK;
}

static enum collect_status nothing_there(const struct hook *h)
{
    /* Was a file with the name of an interpreter or of its library mapped? */
    if (h->ctx->hook_trouble != NULL && h->ctx->hook_trouble[0] != '\0')
        return collect_reason(h->out, COLLECT_FAILED, "%s", h->ctx->hook_trouble);
    bool python =
        strstr(h->ctx->maps, "/libpython") != NULL || strstr(h->ctx->maps, "/bin/python") != NULL;
    if (python)
        return collect_reason(h->out, COLLECT_SKIPPED,
                              "the Python hook wrote nothing: no uncaught exception and no PyTorch "
                              "on a device; or -I, -E, -S, --inject, or nowhere to write");
    return collect_reason(h->out, COLLECT_SKIPPED, "no Python with the hook has written anything");
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct hook h = {.ctx = ctx, .out = out, .record_name = ""};
    int n = snprintf(h.dir, sizeof h.dir, "%s/hook", ctx->run_dir);
    if (n < 0 || (size_t)n >= sizeof h.dir)
        return collect_reason(out, COLLECT_FAILED, "the run directory's name is too long");
    if (!choose_process(&h))
        return nothing_there(&h);
    enum collect_status status = read_all(&h);
    cJSON_Delete(h.record);
    hook_events_release(&h.events);
    return status;
}

const struct collector collector_hook = {
    .name = "hook",
    .describe = "Python and PyTorch from inside the process: allocator, exceptions, stacks",
    .phase = COLLECT_PERISHABLE,
    .needs_run = true,
    .deadline_ms = 2000,
    .max_bytes = (uint64_t)40 << 20,
    .run = run,
};
