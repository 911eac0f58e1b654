/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `export --trace BUNDLE`: the run as a trace for chrome://tracing and ui.perfetto.dev. Every
 * counter of telemetry.csv and of PyTorch's allocator becomes a track, every event of the run an
 * instant. `export --torch`: its allocator's snapshot for PyTorch's viewers. Finisher; the bundle may be a
 * stranger's.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/export_torch.h"
#include "cli/option.h"
#include "cli/outcome.h"
#include "cli/stage_places.h"
#include "cli/verbs.h"

#define FILE_MAX ((size_t)32 << 20)
#define TRACE_MAX ((size_t)512 << 20)
#define COLUMNS_MAX 4096
#define PID_HOST 1
#define PID_GPU 1000000000u /* above what Linux gives to processes */
#define PID_TORCH 1000001000u

struct export_line {
    bool trace, torch, json, help;
    const char *output;
};

struct track {
    char *name; /* as a JSON string; NULL = no counter */
    unsigned pid;
    double last;
    bool known;
};

struct export
{
    const char *bundle;
    struct buf out;
    double start_s; /* CLOCK_MONOTONIC at the start of the run */
    bool any;
};

static const struct option_def export_options[] = {
    {"trace", 't', NULL, "for chrome://tracing and ui.perfetto.dev",
     option_on, offsetof(struct export_line, trace)},
    {"torch", 0, NULL, "PyTorch's allocator, for its viewer (memory_viz)",
     option_on, offsetof(struct export_line, torch)},
    {"output", 'o', "FILE", "write there instead of to stdout",
     option_text, offsetof(struct export_line, output)},
    {"json", 0, NULL, "with -o: print what was written as a JSON object",
     option_on, offsetof(struct export_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct export_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* --- pieces of the trace --- */

/* Bytes that are no UTF-8, as a cut leaves them, are written as \xNN: JSON has no others. */
static char *json_string(const char *text, size_t len)
{
    struct buf clean = BUF_INIT;
    say_clean(&clean, text, len);
    cJSON *item = buf_failed(&clean) ? NULL : cJSON_CreateString(buf_str(&clean));
    char *printed = item != NULL ? cJSON_PrintUnformatted(item) : NULL;
    cJSON_Delete(item);
    buf_release(&clean);
    return printed;
}

static void separate(struct export *e)
{
    buf_puts(&e->out, e->any ? ",\n" : "\n");
    e->any = true;
}

static void put_process(struct export *e, unsigned pid, const char *name)
{
    separate(e);
    buf_printf(&e->out,
               "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"%s\"}}",
               pid, name);
}

/* Finite in microseconds as well: JSON has no infinity. */
static bool is_time(double time_s)
{
    return fabs(time_s) < 1e15;
}

static void put_instant(struct export *e, double time_s, const char *category, const char *text,
                        size_t len)
{
    RC_AUTO_FREE char *name = json_string(text, len < 400 ? len : 400);
    if (name == NULL || !is_time(time_s))
        return;
    separate(e);
    buf_printf(
        &e->out,
        "{\"ph\":\"i\",\"s\":\"g\",\"pid\":%u,\"tid\":0,\"ts\":%.3f,\"cat\":\"%s\",\"name\":%s}",
        PID_HOST, time_s * 1e6, category, name);
}

/* --- tables --- */

/* "gpu.0.vram.used_bytes" -> process "GPU 0", counter "vram.used_bytes" */
static void place_track(const char *name, struct track *ret, char *process, size_t size)
{
    char *end;
    const char *rest = name;
    ret->pid = PID_HOST;
    (void)snprintf(process, size, "host");
    if (strncmp(name, "gpu.", 4) == 0 || strncmp(name, "proc.", 5) == 0) {
        bool gpu = name[0] == 'g';
        unsigned long number = strtoul(name + (gpu ? 4 : 5), &end, 10);
        if (*end != '.' || number >= PID_GPU)
            return;
        ret->pid = gpu ? PID_GPU + (unsigned)(number % 1000) : (unsigned)number;
        (void)snprintf(process, size, gpu ? "GPU %lu" : "process %lu", number);
        rest = end + 1;
    } else if (strncmp(name, "host.", 5) == 0) {
        rest = name + 5;
    }
    ret->name = json_string(rest, strlen(rest));
}

static void name_once(struct export *e, const struct track *tracks, size_t count, const char *name)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (tracks[i].name != NULL && tracks[i].pid == tracks[count - 1].pid)
            return;
    put_process(e, tracks[count - 1].pid, name);
}

static size_t read_header(struct export *e, char *line, struct track *tracks, bool torch)
{
    size_t count = 0;
    char *rest = line;
    for (char *name; count < COLUMNS_MAX && (name = strsep(&rest, ",")) != NULL;) {
        char process[64];
        tracks[count] = (struct track){.name = NULL};
        bool counter = count > 0 && strcmp(name, "flags") != 0 && strlen(name) < 256;
        if (counter)
            place_track(name, &tracks[count], process, sizeof process);
        count++;
        if (counter && !torch && tracks[count - 1].name != NULL &&
            tracks[count - 1].pid != PID_HOST)
            name_once(e, tracks, count, process);
    }
    return count;
}

static void put_counter(struct export *e, struct track *track, unsigned pid, double time_s,
                        const char *cell)
{
    char *end;
    double value = strtod(cell, &end);
    if (end == cell || *end != '\0' || !isfinite(value) ||
        (track->known && track->pid == pid && track->last == value))
        return;
    track->known = true;
    track->pid = pid;
    track->last = value;
    separate(e);
    buf_printf(&e->out,
               "{\"ph\":\"C\",\"pid\":%u,\"ts\":%.3f,\"name\":%s,\"args\":{\"value\":%.17g}}", pid,
               time_s * 1e6, track->name, value);
}

/* A row of telemetry.csv; one of PyTorch's has the device in the second column. */
static void read_row(struct export *e, char *line, struct track *tracks, size_t count, bool torch)
{
    char *rest = line;
    char *end;
    char *cell = strsep(&rest, ",");
    double time_s = strtod(cell, &end);
    if (end == cell || *end != '\0' || !is_time(time_s))
        return;
    unsigned device = 0;
    for (size_t i = 1; i < count && (cell = strsep(&rest, ",")) != NULL; i++) {
        if (i == 1 && torch)
            device = (unsigned)strtoul(cell, NULL, 10) % 1000;
        else if (i == 1 && cell[0] != '\0')
            put_instant(e, time_s, "telemetry", cell, strlen(cell));
        else if (tracks[i].name != NULL)
            put_counter(e, &tracks[i], torch ? PID_TORCH + device : tracks[i].pid, time_s, cell);
    }
}

static void read_table(struct export *e, const char *name, bool torch)
{
    RC_AUTO_FREE char *text = NULL;
    RC_AUTO_FREE struct track *tracks = calloc(COLUMNS_MAX, sizeof *tracks);
    if (tracks == NULL || stage_read_table(e->bundle, name, FILE_MAX, &text) <= 0)
        return;
    char *rest = text;
    char *line = strsep(&rest, "\n");
    if (torch)
        put_process(e, PID_TORCH, "PyTorch's allocator");
    size_t count = read_header(e, line, tracks, torch);
    while ((line = strsep(&rest, "\n")) != NULL)
        read_row(e, line, tracks, count, torch);
    for (size_t i = 0; i < count; i++)
        free(tracks[i].name);
}

/* --- events --- */

/* "124998754838 sampler period of ..." */
static void read_events(struct export *e)
{
    RC_AUTO_FREE char *text = NULL;
    struct rc_err err = {""};
    if (bundle_read_file(e->bundle, "run/events.txt", FILE_MAX, &text, &err) <= 0)
        return;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *end;
        double time_ns = strtod(line, &end);
        if (end != line && *end == ' ')
            put_instant(e, time_ns / 1e9 - e->start_s, "rocmcrash", end + 1, strlen(end + 1));
    }
}

/* A number, or one in a string: 64-bit values are written so. NAN = neither. */
static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (cJSON_IsNumber(item))
        return item->valuedouble;
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    char *end;
    double value = strtod(text, &end);
    return end == text || *end != '\0' ? NAN : value;
}

static const char *string_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

static void put_hook_event(struct export *e, const cJSON *event)
{
    char text[512];
    const char *what = string_of(event, "what");
    const cJSON *head = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(event, "chain"), 0);
    int n = head != NULL ? snprintf(text, sizeof text, "%s: %s", string_of(head, "type"),
                                    string_of(head, "message"))
                         : snprintf(text, sizeof text, "%s %s%s", what, string_of(event, "version"),
                                    string_of(event, "error"));
    if (n > 0)
        put_instant(e, number_of(event, "t") / 1e9 - e->start_s, "python", text, strlen(text));
}

static void read_hook_events(struct export *e)
{
    RC_AUTO_FREE char *text = NULL;
    struct rc_err err = {""};
    if (bundle_read_file(e->bundle, "hook/events.jsonl", FILE_MAX, &text, &err) <= 0)
        return;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        cJSON *event = cJSON_Parse(line);
        if (cJSON_IsObject(event))
            put_hook_event(e, event);
        cJSON_Delete(event);
    }
}

static void read_oom(struct export *e, const char *file)
{
    RC_AUTO_FREE char *text = NULL;
    struct rc_err err = {""};
    char line[128];
    if (bundle_read_file(e->bundle, file, FILE_MAX, &text, &err) <= 0)
        return;
    cJSON *record = cJSON_Parse(text);
    double requested = number_of(record, "requested");
    double available = number_of(record, "free");
    int n = snprintf(line, sizeof line, "out of memory");
    if (isfinite(requested))
        n += snprintf(line + n, sizeof line - (size_t)n, ": %.0f bytes asked for", requested);
    if (isfinite(requested) && isfinite(available) && (size_t)n < sizeof line)
        (void)snprintf(line + n, sizeof line - (size_t)n, ", %.0f free", available);
    put_instant(e, number_of(record, "t") / 1e9 - e->start_s, "python", line, strlen(line));
    cJSON_Delete(record);
}

/* --- the verb --- */

static int read_start(struct export *e, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = bundle_read_file(e->bundle, "run/run.json", FILE_MAX, &text, err);
    if (len < 0)
        return (int)len;
    cJSON *run = cJSON_Parse(text);
    double start_ns = number_of(run, "start_mono_ns");
    cJSON_Delete(run);
    if (!isfinite(start_ns))
        return rc_err_set(err, -EBADMSG, "run/run.json does not say when the run started");
    e->start_s = start_ns / 1e9;
    return 0;
}

static int make_trace(struct export *e, struct rc_err *err)
{
    buf_init(&e->out, TRACE_MAX);
    int r = read_start(e, err);
    if (r < 0)
        return r;
    buf_puts(&e->out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    put_process(e, PID_HOST, "host");
    read_table(e, "telemetry.csv", false);
    read_table(e, "torch-stats.csv", true);
    read_events(e);
    read_hook_events(e);
    read_oom(e, "hook/oom-first.json");
    read_oom(e, "hook/oom-last.json");
    buf_puts(&e->out, "\n]}\n");
    return buf_failed(&e->out) ? rc_err_set(err, -ENOMEM, "the trace is too large") : 0;
}

static int write_out(const struct export *e, const char *path, struct rc_err *err)
{
    /* It holds what the bundle holds, so only its owner may read it. */
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    FILE *file = path == NULL ? stdout : fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL)
        return rc_err_errno(err, -errno, "cannot write '%s'", path != NULL ? path : "-");
    bool good = fwrite(e->out.data, 1, e->out.len, file) == e->out.len && fflush(file) == 0;
    int code = good ? 0 : -errno;
    if (path != NULL && fclose(file) != 0 && code == 0)
        code = -errno;
    return code < 0 && path != NULL ? rc_err_errno(err, code, "cannot write '%s'", path) : code;
}

static int parse(int argc, char *argv[], struct export_line *line, const char **ret_bundle,
                 struct rc_err *err)
{
    int at = options_parse_around(export_options, line, argc, argv, err);
    if (at < 0 || line->help)
        return at;
    if (argc - at != 1)
        return rc_err_set(err, -EINVAL, at < argc ? "export takes one bundle" : "export needs a bundle");
    if (line->trace && line->torch)
        return rc_err_set(err, -EINVAL, "--trace and --torch are alternatives");
    if (line->json && line->output == NULL)
        return rc_err_set(err, -EINVAL, "--json needs --output: stdout cannot have both");
    *ret_bundle = argv[at];
    return 0;
}

static int make_torch(struct export *e, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    unsigned lumped = 0;
    buf_init(&e->out, TRACE_MAX);
    ssize_t len = bundle_read_file(e->bundle, "hook/snapshot.json", FILE_MAX, &text, err);
    if (len == -ENOENT && access(e->bundle, R_OK) == 0)
        return rc_err_set(err, -ENOENT, "the run has no snapshot of PyTorch's allocator");
    if (len < 0)
        return (int)len;
    int r = export_torch(text, &e->out, &lumped, err);
    if (r == 0 && lumped > 0)
        (void)say_line(stderr, "rocmcrash: of %u segments the bundle has no blocks, only their sums: each has "
                               "one block in use and one idle", lumped);
    return r;
}

int verb_export(int argc, char *argv[])
{
    struct export_line line = {.trace = false};
    struct export e = {.bundle = NULL};
    struct rc_err err = {""};
    if (parse(argc, argv, &line, &e.bundle, &err) < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return VERB_EXIT_USAGE;
    }
    if (line.help) {
        help_text("Usage: rocmcrash export [OPTIONS] BUNDLE\n\n"
                  "Writes the run as a trace for ui.perfetto.dev (the default), or PyTorch's\n"
                  "allocator as a snapshot for docs.pytorch.org/memory_viz.\n\nOptions:\n");
        options_help(export_options);
        return VERB_EXIT_OK;
    }
    struct outcome outcome;
    outcome_begin(&outcome, "export", line.json);
    int r = line.torch ? make_torch(&e, &err) : make_trace(&e, &err);
    if (r == 0 && line.output == NULL && isatty(STDOUT_FILENO))
        r = rc_err_set(&err, -EINVAL, line.torch ? "a pickle is not text: name a file with -o"
                                                 : "a trace is for a viewer, not for a terminal: name a file with -o");
    if (r == 0)
        r = write_out(&e, line.output, &err);
    if (r == 0) {
        verb_tell_damage(e.bundle);
        outcome_text(&outcome, "output", line.output);
        outcome_number(&outcome, "bytes", (double)e.out.len);
    }
    outcome_bundle(&outcome, e.bundle);
    buf_release(&e.out);
    return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, e.bundle, &err);
}
