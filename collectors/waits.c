/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a live process at the time of a snapshot: the system call in which each waits and for what,
 * the CPU time that each used between two looks, and the stacks of Python. Read from the snapshot's copies
 * in the run directory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/waits_text.h"
#include "diagnose/text.h"
#include "record/impact_record.h"

#define TEXT_MAX ((size_t)1 << 20)
#define PYTHON_FRAMES 8 /* of the main thread, for a fact */
#define PYTHON_PLACES 4 /* of all threads */

/* One process of the snapshot; texts are owned. */
struct process {
    struct impact_record record;
    struct wait_threads first, again;
    char *fds, *maps, *python;
    uint64_t interval_ns, used_ns;
    bool uses_gpu;
};

struct waits_run {
    struct collect_out *out;
    struct process list[SHARED_IMPACTS_MAX];
    unsigned numbers[SHARED_IMPACTS_MAX]; /* of impact.N */
    size_t count;
    int64_t subject_pid;
};

static const char *text_or_none(const char *text)
{
    return text != NULL ? text : "";
}

/* --- reading --- */

static bool parse_chunk(const struct impact_record *record, enum impact_chunk_type type,
                        struct wait_threads *ret)
{
    RC_AUTO_FREE char *text = impact_record_text(record, type);
    return waits_parse(text_or_none(text), ret);
}

static bool read_process(struct process *p, const char *path)
{
    if (impact_record_read(&p->record, path, NULL) < 0)
        return false;
    if (p->record.header.kind != IMPACT_SNAPSHOT)
        return false;
    uint64_t from_ns = impact_record_arg(&p->record, CHUNK_TASKS);
    uint64_t to_ns = impact_record_arg(&p->record, CHUNK_TASKS_AGAIN);
    p->interval_ns = to_ns > from_ns && from_ns > 0 ? to_ns - from_ns : 0;
    p->fds = impact_record_text(&p->record, CHUNK_FDS);
    p->maps = impact_record_text(&p->record, CHUNK_MAPS);
    p->python = impact_record_text(&p->record, CHUNK_PYTHON);
    p->uses_gpu = impact_fds_have_gpu(text_or_none(p->fds));
    if (!parse_chunk(&p->record, CHUNK_TASKS, &p->first) ||
        !parse_chunk(&p->record, CHUNK_TASKS_AGAIN, &p->again))
        return false;
    p->used_ns = waits_used_ns(&p->first, &p->again);
    return p->again.count > 0;
}

static void release_process(struct process *p)
{
    impact_record_release(&p->record);
    free(p->first.list);
    free(p->again.list);
    free(p->fds);
    free(p->maps);
    free(p->python);
    *p = (struct process){.interval_ns = 0};
}

static void read_all(struct waits_run *run, const struct collect_ctx *ctx)
{
    for (unsigned i = 0; i < SHARED_IMPACTS_MAX; i++) {
        char path[FS_PATH_MAX];
        if (snprintf(path, sizeof path, "%s/impact.%u", ctx->run_dir, i) >= (int)sizeof path)
            return;
        run->numbers[run->count] = i;
        if (read_process(&run->list[run->count], path))
            run->count++;
        else
            release_process(&run->list[run->count]);
    }
}

/* --- files --- */

static void write_threads(struct waits_run *run, size_t index)
{
    const struct process *p = &run->list[index];
    struct buf text;
    char name[32];
    buf_init(&text, TEXT_MAX);
    buf_printf(&text, "Process %d \"%.16s\": CPU time of each thread in %llu ms, and what it does\n",
               p->record.header.pid, p->record.header.comm,
               (unsigned long long)(p->interval_ns / 1000000u));
    for (size_t i = 0; i < p->again.count; i++) {
        const struct wait_thread *t = &p->again.list[i];
        const struct wait_thread *before = waits_find(&p->first, t->tid);
        char phrase[WAITS_PHRASE_MAX];
        waits_phrase(t, text_or_none(p->fds), phrase, sizeof phrase);
        uint64_t used_ns = before != NULL && t->cpu_ns > before->cpu_ns ? t->cpu_ns - before->cpu_ns : 0;
        buf_printf(&text, "Thread %d \"%s\": %.1f ms, %s\n", t->tid, t->name, (double)used_ns / 1e6,
                   phrase);
    }
    (void)snprintf(name, sizeof name, "threads.%u.txt", run->numbers[index]);
    (void)collect_write(run->out, name, buf_str(&text), text.len);
    buf_release(&text);
    if (p->python != NULL) {
        (void)snprintf(name, sizeof name, "python.%u.txt", run->numbers[index]);
        (void)collect_write(run->out, name, p->python, strlen(p->python));
    }
}

/* --- facts --- */

static const struct process *subject_of(const struct waits_run *run)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->list[i].record.header.pid == run->subject_pid)
            return &run->list[i];
    return &run->list[0];
}

static int64_t cpu_percent(const struct process *p)
{
    return p->interval_ns > 0 ? (int64_t)(p->used_ns * 100 / p->interval_ns) : 0;
}

/* "NSpid:\t4711\t2": the number that the process itself has, in its own PID namespace. */
static int own_number(const struct process *p)
{
    RC_AUTO_FREE char *status = impact_record_text(&p->record, CHUNK_STATUS);
    const char *line = status != NULL ? strstr(status, "\nNSpid:") : NULL;
    int number = p->record.header.pid;
    if (line == NULL)
        return number;
    for (line += strlen("\nNSpid:"); *line == '\t'; line += strcspn(line + 1, "\t\n") + 1)
        number = (int)strtol(line + 1, NULL, 10);
    return number;
}

/* Why the text has no stack of a thread; a reading that was stopped early says nothing about it. */
static const char *why_no_stack(const char *python)
{
    static const char *const words[] = {"no stacks: ", "incomplete: "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *why = strstr(python, words[i]);
        if (why != NULL)
            return why + strlen(words[i]);
    }
    return "the main thread has none";
}

static bool is_own_line(const char *frame)
{
    return strstr(frame, "<string>") == NULL && strchr(frame, ':') != NULL &&
           !text_is_of_python_library((struct text){frame, strlen(frame)});
}

/* "  /home/a/train.py:12 in step" -> "train.py:12 in step", of the innermost frame that is of no library. Code of
 * `python -c` is a "<string>", as is some that libraries make. */
static bool own_line(const char *lines, char *out, size_t size)
{
    char frame[256] = "";
    char last[256] = "";
    for (const char *line = lines; line[0] == ' '; line += strcspn(line, "\n"), line += line[0] == '\n') {
        (void)snprintf(frame, sizeof frame, "%.*s", (int)strcspn(line, "\n"), line);
        if (is_own_line(frame)) {
            const char *slash = strrchr(frame, '/');
            (void)snprintf(out, size, "%s", slash != NULL ? slash + 1 : frame + strspn(frame, " "));
            return true;
        }
        if (strstr(frame, "<string>:") != NULL && last[0] == '\0')
            memcpy(last, frame, sizeof last);
    }
    (void)snprintf(out, size, "%s", last + strspn(last, " "));
    return out[0] != '\0';
}

/* "abba.py:6 in one, abba.py:10 in two": each once, where several threads of Python stand. */
static void python_places_fact(struct waits_run *run, const char *python, const char *source)
{
    char places[PYTHON_PLACES][128];
    struct buf text;
    size_t count = 0;
    buf_init(&text, 1024);
    for (const char *thread = python; count < PYTHON_PLACES && thread != NULL; thread = strstr(thread + 1, "\nThread ")) {
        const char *lines = strchr(thread + (*thread == '\n'), '\n');
        bool known = lines == NULL || !own_line(lines + 1, places[count], sizeof places[count]);
        for (size_t i = 0; !known && i < count; i++)
            known = strcmp(places[i], places[count]) == 0;
        if (known)
            continue;
        buf_printf(&text, "%s%s", count > 0 ? ", " : "", places[count]);
        count++;
    }
    if (count > 1)
        collect_text(run->out, "snap.python_places", FACT_IMPACT, buf_str(&text), source);
    buf_release(&text);
}

/* The frames of the main thread, which is the one whose number is the process' own:
 * "train.py:12 in step < train.py:40 in <module>". */
static void python_fact(struct waits_run *run, const struct process *p)
{
    char source[48];
    char key[32];
    char place[256];
    char frames[1024] = "";
    size_t n = 0;
    if (p->python == NULL)
        return;
    (void)snprintf(source, sizeof source, "waits/python.%u.txt", run->numbers[p - run->list]);
    python_places_fact(run, p->python, source);
    (void)snprintf(key, sizeof key, "Thread %d:\n", own_number(p));
    const char *line = strstr(p->python, key);
    if (line == NULL) {
        char reason[160];
        const char *text = why_no_stack(p->python);
        (void)snprintf(reason, sizeof reason, "%.*s", (int)strcspn(text, "\n"), text);
        collect_missing(run->out, "snap.python_stack", FACT_IMPACT, FACT_UNREADABLE, reason, source);
        return;
    }
    line += strlen(key);
    if (own_line(line, place, sizeof place))
        collect_text(run->out, "snap.python_place", FACT_IMPACT, place, source);
    for (int i = 0; i < PYTHON_FRAMES && line[0] == ' ' && n < sizeof frames; i++) {
        size_t length = strcspn(line, "\n");
        n += (size_t)snprintf(frames + n, sizeof frames - n, "%s%.*s", i > 0 ? " < " : "",
                              (int)(length > 2 ? length - 2 : 0), line + 2);
        line += length + (line[length] == '\n');
    }
    collect_text(run->out, "snap.python_stack", FACT_IMPACT, frames, source);
}

static void deadlock_fact(struct waits_run *run, const struct process *p)
{
    static const char source[] = "futex(2) waits of its threads, seen twice";
    char text[400];
    switch (waits_deadlock(&p->first, &p->again, text_or_none(p->maps), text, sizeof text)) {
    case DEADLOCK_CIRCLE:
        collect_text(run->out, "snap.deadlock", FACT_IMPACT, text, source);
        break;
    case DEADLOCK_INSIDE:
        collect_text(run->out, "snap.self_wait", FACT_IMPACT, text, source);
        break;
    default:
        break;
    }
}

/* A thread that was in the kernel in both looks: one look alone may have met a short read. */
static const struct wait_thread *blocked_thread(const struct process *p)
{
    for (size_t i = 0; i < p->again.count; i++) {
        const struct wait_thread *t = &p->again.list[i];
        const struct wait_thread *before = waits_find(&p->first, t->tid);
        if (t->state == 'D' && before != NULL && before->state == 'D' &&
            before->cpu_ns == t->cpu_ns && strcmp(before->wchan, t->wchan) == 0)
            return t;
    }
    return NULL;
}

static void thread_facts(struct waits_run *run, const struct process *p)
{
    static const char source[] = "/proc/PID/task at the snapshot";
    char phrase[WAITS_PHRASE_MAX];
    const struct wait_thread *main_thread = waits_find(&p->again, p->record.header.pid);
    const struct wait_thread *blocked = blocked_thread(p);
    if (blocked != NULL) {
        waits_phrase(blocked, text_or_none(p->fds), phrase, sizeof phrase);
        collect_text(run->out, "snap.blocked", FACT_IMPACT, phrase, source);
    }
    if (main_thread == NULL)
        return;
    waits_phrase(main_thread, text_or_none(p->fds), phrase, sizeof phrase);
    collect_text(run->out, "snap.main_does", FACT_IMPACT, phrase, source);
    collect_text(run->out, "snap.main_wait", FACT_IMPACT,
                 waits_word(waits_kind(main_thread, text_or_none(p->fds))), source);
}

/* Workers of a compilation, of a data loader: "clang-17 4711 (98 %), ld.lld 4712 (40 %)". */
static void others_fact(struct waits_run *run, const struct process *subject)
{
    char text[400] = "";
    size_t n = 0;
    for (size_t i = 0; i < run->count && n < sizeof text; i++) {
        const struct process *p = &run->list[i];
        if (p != subject && waits_are_at_work(&p->first, &p->again, p->interval_ns))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.15s %d (%d %%)", n > 0 ? ", " : "",
                                  p->record.header.comm, p->record.header.pid, (int)cpu_percent(p));
    }
    if (n > 0)
        collect_text(run->out, "snap.others_run", FACT_IMPACT, text, "/proc/PID/task of the tree");
}

/* NCCL and RCCL name their threads: a communicator exists. */
static void communicator_fact(struct waits_run *run, const struct process *p)
{
    static const char *const parts[] = {"nccl", "NCCL", "rccl", "RCCL"};
    for (size_t i = 0; i < p->again.count; i++)
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
            if (strstr(p->again.list[i].name, parts[k]) != NULL) {
                collect_text(run->out, "snap.communicator", FACT_IMPACT, p->again.list[i].name,
                             "names of its threads");
                return;
            }
}

static void write_facts(struct waits_run *run)
{
    static const char source[] = "/proc/PID/task, two looks";
    const struct process *p = subject_of(run);
    char comm[17];
    (void)snprintf(comm, sizeof comm, "%.16s", p->record.header.comm);
    collect_text(run->out, "snap.comm", FACT_IMPACT, comm, source);
    collect_integer(run->out, "snap.pid", FACT_IMPACT, p->record.header.pid, source);
    collect_integer(run->out, "snap.processes_count", FACT_IMPACT, (int64_t)run->count, source);
    collect_integer(run->out, "snap.threads_count", FACT_IMPACT, (int64_t)p->again.count, source);
    if (p->interval_ns > 0)
        collect_integer(run->out, "snap.cpu_percent", FACT_IMPACT, cpu_percent(p), source);
    collect_boolean(run->out, "snap.uses_gpu", FACT_IMPACT, p->uses_gpu, "/proc/PID/fd");
    thread_facts(run, p);
    deadlock_fact(run, p);
    communicator_fact(run, p);
    others_fact(run, p);
    python_fact(run, p);
}

static enum collect_status run_waits(const struct collect_ctx *ctx, struct collect_out *out)
{
    static struct waits_run run;
    run = (struct waits_run){.out = out, .subject_pid = ctx->failed_pid};
    if (ctx->run_dir[0] == '\0')
        return collect_reason(out, COLLECT_SKIPPED, "no run directory");
    read_all(&run, ctx);
    if (run.count == 0)
        return collect_reason(out, COLLECT_SKIPPED, "no snapshot of a live process was made");
    for (size_t i = 0; i < run.count; i++)
        write_threads(&run, i);
    write_facts(&run);
    bool all_told = true;
    for (size_t i = 0; i < run.count; i++) {
        const struct process *p = &run.list[i];
        for (size_t k = 0; k < p->again.count; k++)
            all_told = all_told && waits_kind(&p->again.list[k], text_or_none(p->fds)) != WAIT_UNKNOWN;
    }
    for (size_t i = 0; i < run.count; i++)
        release_process(&run.list[i]);
    return all_told ? COLLECT_OK
                    : collect_reason(out, COLLECT_PARTIAL,
                                     "in which system calls threads wait may be read by root, or by "
                                     "who may trace the process");
}

const struct collector collector_waits = {
    .name = "waits",
    .describe = "what the threads of a live process wait for, and its Python stacks, at a snapshot",
    .phase = COLLECT_QUICK,
    .needs_run = true,
    .max_bytes = 16u << 20,
    .run = run_waits,
};
