/* SPDX-License-Identifier: Apache-2.0 */
/* `run` and `record`: started by the supervisor (or the recorder) on the shared memory of a run. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "cli/job.h"
#include "cli/option.h"
#include "cli/outcome.h"
#include "cli/rank_record.h"
#include "cli/verbs.h"
#include "record/rundir.h"
#include "record/shared.h"
#include "recorder/flush.h"
#include "recorder/ledger_copy.h"
#include "telemetry/segment.h"

#define CLAIM_GRACE_MS 10000u
#define CLAIM_LOOK_MS 20

struct run_line {
    struct job_options job;
    const char *json_of; /* the verb that prints an object; NULL = none */
    unsigned shared_fd;
};

static int cancel_write_fd = -1;

/* The user has enough: the slow collectors end, the bundle is still made. */
static void on_cancel(int signo)
{
    (void)signo;
    int saved = errno;
    uint64_t one = 1;
    (void)!write(cancel_write_fd, &one, sizeof one);
    errno = saved;
}

static int set_number(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    return option_number(option, field, value, 0, INT32_MAX, err);
}

/* As the verbs get it from rocmcrash.c. */
static int set_site(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option;
    (void)field;
    (void)err;
    return setenv("ROCMCRASH_SITE", value, 1) == 0 ? 0 : -errno;
}

static const struct option_def option_table[] = {
    {"shared-fd", 0, "N", "descriptor of the run's shared memory",
     set_number, offsetof(struct run_line, shared_fd)},
    {"finish-within-ms", 0, "N", "time for the bundle",
     set_number, offsetof(struct run_line, job.finish_within_ms)},
    {"hash-budget-ms", 0, "N", "further time for hashing",
     set_number, offsetof(struct run_line, job.hash_budget_ms)},
    {"full-bundles", 0, "N", "of ranks that fail alike; 0 = all",
     set_number, offsetof(struct run_line, job.full_bundles)},
    {"event-to", 0, "PROG", "the program that is told of the failure",
     option_text, offsetof(struct run_line, job.event_to)},
    {"quiet", 'q', NULL, "print nothing", option_on, offsetof(struct run_line, job.quiet)},
    {"json", 0, "VERB", "an object on stdout", option_text, offsetof(struct run_line, json_of)},
    {"color", 0, "WHEN", "auto, always or never",
     option_text, offsetof(struct run_line, job.colour)},
    {"keep", 0, "KINDS", "what is not redacted",
     option_text, offsetof(struct run_line, job.privacy.keep)},
    {"include", 0, "NAMES", "files that are not text and stay",
     option_text, offsetof(struct run_line, job.privacy.include)},
    {"preview", 0, NULL, "show each change",
     option_on, offsetof(struct run_line, job.privacy.preview)},
    {"site", 0, "DIR", "the site's own rules and collectors", set_site, 0},
    {"output-dir", 0, "DIR", "where the bundle goes, byte for byte",
     option_text, offsetof(struct run_line, job.output_dir)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static struct shared *open_run(int argc, char *argv[], struct run_line *line, struct rc_err *err)
{
    if (options_parse(option_table, line, argc, argv, err) < 0)
        return NULL;
    (void)fcntl((int)line->shared_fd, F_SETFD, FD_CLOEXEC);
    return shared_map((int)line->shared_fd, err);
}

/*
 * Whether this finisher does the work. When the supervisor is killed, the recorder starts a finisher, too: it cannot
 * know whether the first one lives. Both would work in one folder, and leave two bundles. Linux gives back the lock
 * of a finisher that dies; the one that has waited for it goes on then. Where there are no such locks, nobody waits.
 */
static bool take_run(const struct run_line *line, const struct shared *shared)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    uint64_t patience_ms = (uint64_t)line->job.finish_within_ms + line->job.hash_budget_ms + CLAIM_GRACE_MS;
    uint64_t give_up_ns = clock_mono_ns() + patience_ms * NS_PER_MS;
    while (fcntl((int)line->shared_fd, F_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES)) {
        if (clock_mono_ns() > give_up_ns) /* it hangs; `recover` finds the run */
            return false;
        (void)poll(NULL, 0, CLAIM_LOOK_MS);
    }
    return shared->finished == 0;
}

static void remove_run_dir(const struct shared *shared)
{
    if (shared->run.run_dir[0] != '\0')
        (void)fs_remove_tree(AT_FDCWD, shared->run.run_dir);
}

/* The other one may have been killed before it could remove the folder. */
static int leave_run(const struct shared *shared)
{
    if (shared->finished == 0)
        return VERB_EXIT_FAILED;
    remove_run_dir(shared);
    return VERB_EXIT_OK;
}

/* The target, or somebody else, took the directory away, or laid links in place of its files. What is
 * in memory is written once more. */
static int begin_again(struct shared *shared, struct rc_err *err)
{
    struct shared_run *run = &shared->run;
    shared->progress = (struct record_progress){0};
    shared_event(shared, "finisher", "the run directory was removed or its files were exchanged");
    (void)fs_remove_tree(AT_FDCWD, run->run_dir);
    int r = rundir_create(run->run_dir, sizeof run->run_dir, run->start_wall_ns, run->supervisor_pid,
                          err);
    if (r < 0) {
        run->run_dir[0] = '\0';
        return r;
    }
    return recorder_flush(shared, run->run_dir, err);
}

/* The recorder may have made no directory yet. Or its disk has failed since: then the shared memory is
 * written elsewhere, with what can be read of the rest. */
static int settle_run_dir(struct shared *shared, struct rc_err *err)
{
    struct shared_run *run = &shared->run;
    char first[sizeof run->run_dir];
    unsigned place = 0;
    int r = 0;
    if (run->run_dir[0] == '\0')
        r = rundir_create(run->run_dir, sizeof run->run_dir, run->start_wall_ns,
                          run->supervisor_pid, err);
    memcpy(first, run->run_dir, sizeof first);
    if (r == 0)
        r = recorder_flush(shared, run->run_dir, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        r = begin_again(shared, err);
    while (r < 0 && run->run_dir[0] != '\0' && rundir_is_disk_error(r)) {
        struct rc_err nowhere = {""};
        segment_close(false);
        if (rundir_move(run->run_dir, sizeof run->run_dir, &place, &nowhere) < 0)
            return r;
        r = recorder_flush(shared, run->run_dir, err);
    }
    if (r == 0)
        (void)ledger_copy_late(shared, run->run_dir);
    if (r == 0 && run->hook_dir[0] != '\0')
        rundir_take_hook(run->hook_dir, run->run_dir);
    if (r == 0 && strcmp(first, run->run_dir) != 0)
        (void)fs_remove_tree(AT_FDCWD, first);
    return r;
}

int verb_run(int argc, char *argv[])
{
    struct run_line line = {.job = {.finish_within_ms = 5000, .hash_budget_ms = 60000}};
    struct rc_err err = {""};
    struct outcome outcome;
    char path[FS_PATH_MAX];
    struct shared *shared = open_run(argc, argv, &line, &err);
    outcome_begin(&outcome, line.json_of, line.json_of != NULL);
    if (shared == NULL) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return VERB_EXIT_USAGE;
    }
    cancel_write_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    line.job.cancel_fd = cancel_write_fd;
    struct sigaction cancel = {.sa_handler = on_cancel, .sa_flags = SA_RESTART};
    (void)sigaction(SIGTERM, &cancel, NULL);
    (void)sigaction(SIGINT, &cancel, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* the reader of our last lines may be gone */
    if (!take_run(&line, shared))
        return leave_run(shared);
    fs_set_sysroot(shared->run.sysroot);
    int r = settle_run_dir(shared, &err);
    if (r == 0)
        r = job_run(shared->run.run_dir, shared, &line.job, path, sizeof path, &err);
    if (line.json_of != NULL) {
        if (r == 0)
            outcome_bundle(&outcome, path);
        return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, NULL, &err);
    }
    if (r < 0 && !line.job.quiet) {
        bool kept = shared->run.run_dir[0] != '\0';
        (void)say_line(stdout, "rocmcrash: no bundle: %s", err.msg);
        (void)say_line(stdout, "rocmcrash: %s%s",
                       kept ? "what was recorded is kept in " : "nothing of the run could be kept",
                       shared->run.run_dir);
    }
    return r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}

/* One line a run: time, program, number of messages; beside the runs, bounded. */
static int write_swallowed(const struct shared *shared, struct rc_err *err)
{
    char folder[FS_PATH_MAX];
    char path[FS_PATH_MAX + 32];
    char text[512];
    int r = rundir_base(folder, sizeof folder, err);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof path, "%s/../swallowed-oom.log", folder);
    RC_AUTO_CLOSE int fd = fs_open_write(AT_FDCWD, path, O_WRONLY | O_APPEND);
    if (fd < 0)
        return fd;
    if (lseek(fd, 0, SEEK_END) > (off_t)1 << 20)
        return 0;
    const char *program = strrchr(shared->run.argv, '/');
    int n = snprintf(text, sizeof text, "%llu %.200s: %u out-of-memory messages, exit 0\n",
                     (unsigned long long)(shared->run.start_wall_ns / 1000000000u),
                     program != NULL ? program + 1 : shared->run.argv, shared->oom_matches);
    return fs_write_all(fd, text, (size_t)n);
}

/* No bundle, no word: a job of 10,000 ranks is ended often, and each of them would say the same. */
int verb_ended(int argc, char *argv[])
{
    struct run_line line = {.shared_fd = 0};
    struct rc_err err = {""};
    /* Schedulers signal all processes of a job, some of them twice; this takes milliseconds. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    struct shared *shared = open_run(argc, argv, &line, &err);
    if (shared == NULL)
        return VERB_EXIT_USAGE;
    if (!take_run(&line, shared))
        return leave_run(shared);
    fs_set_sysroot(shared->run.sysroot);
    int r = settle_run_dir(shared, &err);
    if (r == 0)
        r = rank_record_write(shared->run.run_dir, line.job.output_dir, &err);
    if (shared->oom_matches > 0 && shared->status_unknown == 0 && shared->target_status == 0)
        (void)write_swallowed(shared, &err);
    shared->finished = 1;
    remove_run_dir(shared);
    return r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}

int verb_record(int argc, char *argv[])
{
    struct run_line line = {.shared_fd = 0};
    struct rc_err err = {""};
    struct shared *shared = open_run(argc, argv, &line, &err);
    if (shared == NULL)
        return VERB_EXIT_FAILED;
    if (!take_run(&line, shared))
        return leave_run(shared);
    int r = write_swallowed(shared, &err);
    shared->finished = 1;
    remove_run_dir(shared);
    return r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}
