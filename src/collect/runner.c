/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll loop over the children of a phase. A job goes RUNNING -> TERMED -> KILLED -> done, each
 * step at its own deadline. The loop never blocks on a child.
 */
#include "collect/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/names.h"
#include "collect/child.h"
#include "collect/folder.h"
#include "collect/frame.h"

#define PARALLEL_DEFAULT 3u
#define PARALLEL_MAX 16u
#define TICK_MS 50       /* how often the folders of running children are measured */
#define TICK_BLIND_MS 10 /* without pidfd: how often we ask whether a child has ended */

enum job_state { JOB_WAITING, JOB_RUNNING, JOB_TERMED, JOB_KILLED, JOB_DONE };

struct job {
    const struct collector *collector;
    enum job_state state;
    pid_t pid;
    int pid_fd;    /* -1 = none */
    int status_fd; /* -1 = closed */
    int dir_fd;
    uint64_t max_bytes;
    uint64_t start_ns, deadline_ns, next_step_ns;
    const char *why;   /* ended by us: the reason, else NULL */
    struct buf stream; /* what came through the pipe */
    bool stream_over;  /* more came than we keep */
    /* The row. */
    enum collect_status status;
    char reason[FRAME_WORDS_MAX + 128];
    uint64_t ms, bytes;
    bool for_lack_of_time;
};

struct runner {
    const struct collect_ctx *ctx;
    const struct runner_options *options;
    struct facts *facts;
    runner_row_callback on_row;
    int stage_fd;
    struct job *jobs;
    size_t count, next, released, running;
    bool cancelled;
};

static int signal_group(const struct runner *r, const struct job *job, int signo)
{
    if (r->options->kill_group != NULL)
        return r->options->kill_group(job->pid, signo);
    return kill(-job->pid, signo);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* --- start --- */

static void skip(struct job *job, enum collect_status status, const char *reason)
{
    job->status = status;
    (void)snprintf(job->reason, sizeof job->reason, "%s", reason);
    job->state = JOB_DONE;
}

static int open_folder(const struct runner *r, const char *name)
{
    if (mkdirat(r->stage_fd, name, 0700) != 0 && errno != EEXIST)
        return -errno;
    int fd = openat(r->stage_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int job_fork(const struct runner *r, struct job *job)
{
    int status[2];
    if (pipe2(status, O_CLOEXEC) != 0)
        return -errno;
    pid_t parent = getpid();
    job->pid = fork();
    if (job->pid == 0)
        child_run(job->collector, r->ctx, parent, job->dir_fd, status[1], job->deadline_ns,
                  job->max_bytes);
    int e = errno;
    (void)close(status[1]);
    if (job->pid < 0) {
        (void)close(status[0]);
        return -e;
    }
    (void)setpgid(job->pid, job->pid); /* in both processes, to win the race */
    job->status_fd = status[0];
    (void)fcntl(job->status_fd, F_SETFL, O_NONBLOCK);
    if (!r->options->without_pidfd)
        job->pid_fd = (int)syscall(SYS_pidfd_open, job->pid, 0u);
    return 0;
}

static void job_start(struct runner *r, struct job *job)
{
    const struct collector *c = job->collector;
    uint64_t now = clock_mono_ns();
    uint64_t total = r->options->total_deadline_mono_ns;
    if (r->cancelled) {
        skip(job, COLLECT_SKIPPED, "cancelled");
        return;
    }
    if (total != 0 && now >= total) {
        skip(job, COLLECT_SKIPPED, "no time left");
        job->for_lack_of_time = true;
        return;
    }
    job->max_bytes = c->max_bytes != 0 ? c->max_bytes : RUNNER_MAX_BYTES;
    job->start_ns = now;
    job->deadline_ns = now + (c->deadline_ms != 0 ? c->deadline_ms : RUNNER_DEADLINE_MS) * NS_PER_MS;
    if (total != 0 && job->deadline_ns > total)
        job->deadline_ns = total;
    job->next_step_ns = job->deadline_ns;
    int e = job->dir_fd = open_folder(r, c->name);
    if (e >= 0)
        e = job_fork(r, job);
    if (e < 0) {
        close_fd(&job->dir_fd);
        skip(job, COLLECT_FAILED, "");
        (void)snprintf(job->reason, sizeof job->reason, "cannot start: %s", strerror(-e));
        return;
    }
    job->state = JOB_RUNNING;
    r->running++;
}

/* --- end --- */

/* Reads what is there, at most the size of one stream a call: a child may write for ever. */
static void job_drain(struct job *job)
{
    char chunk[16384];
    for (size_t total = 0; job->status_fd >= 0 && total < FRAME_STREAM_MAX;) {
        ssize_t n = read(job->status_fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || (n < 0 && errno != EAGAIN))
            close_fd(&job->status_fd);
        if (n <= 0)
            return;
        total += (size_t)n;
        size_t room = FRAME_STREAM_MAX - job->stream.len;
        if ((size_t)n > room) {
            job->stream_over = true;
            n = (ssize_t)room;
        }
        buf_append(&job->stream, chunk, (size_t)n);
    }
}

static void add_fact(struct facts *facts, const struct fact *f)
{
    if (facts == NULL)
        return;
    if (f->status != FACT_PRESENT)
        (void)facts_set_missing(facts, f->name, f->when, f->status, f->reason, f->source);
    else if (f->type == FACT_INTEGER)
        (void)facts_set_integer(facts, f->name, f->when, f->integer, f->source);
    else if (f->type == FACT_REAL)
        (void)facts_set_real(facts, f->name, f->when, f->real, f->source);
    else if (f->type == FACT_BOOLEAN)
        (void)facts_set_boolean(facts, f->name, f->when, f->integer != 0, f->source);
    else
        (void)facts_set_text(facts, f->name, f->when, f->text, f->source);
}

struct stream_result {
    char reason[FRAME_WORDS_MAX];
    enum collect_status status;
    bool done, cut, bad;
};

/* Takes the facts of the valid frames. Ignores everything after the first bad or the last
 * frame. */
static void read_stream(const struct job *job, struct facts *facts, struct stream_result *ret)
{
    const unsigned char *p = (const unsigned char *)job->stream.data;
    size_t left = job->stream.len;
    while (left > 0 && !ret->done) {
        struct frame frame;
        int n = frame_decode(p, left, &frame);
        ret->bad = n < 0;
        if (n <= 0)
            return;
        if (frame.type == FRAME_FACT)
            add_fact(facts, &frame.fact);
        if (frame.type == FRAME_REASON)
            (void)snprintf(ret->reason, sizeof ret->reason, "%s", frame.reason);
        if (frame.type == FRAME_DONE) {
            ret->done = true;
            ret->status = frame.status;
            ret->cut = frame.cut;
        }
        p += n;
        left -= (size_t)n;
    }
}

static void describe_death(struct job *job, int wait_status, const struct stream_result *s)
{
    job->status = COLLECT_CRASHED;
    if (s->bad || job->stream_over)
        (void)snprintf(job->reason, sizeof job->reason, "wrote garbage to the status pipe");
    else if (WIFSIGNALED(wait_status))
        (void)snprintf(
            job->reason, sizeof job->reason, "killed by signal %d (SIG%s)", WTERMSIG(wait_status),
            name_of_signal(WTERMSIG(wait_status)) != NULL ? name_of_signal(WTERMSIG(wait_status))
                                                        : "?");
    else
        (void)snprintf(job->reason, sizeof job->reason, "exited with %d before it was done",
                       WEXITSTATUS(wait_status));
}

static void append_reason(struct job *job, const char *text)
{
    size_t len = strlen(job->reason);
    (void)snprintf(job->reason + len, sizeof job->reason - len, "%s%s", len > 0 ? "; " : "", text);
}

/* Fills the row. `ended` is false for a child that did not die. */
static void job_finish(struct runner *r, struct job *job, bool ended, int wait_status)
{
    job_drain(job);
    close_fd(&job->status_fd);
    close_fd(&job->pid_fd);
    struct stream_result s = {.done = false};
    read_stream(job, NULL, &s);
    bool clean =
        ended && s.done && !s.bad && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    if (!ended) {
        job->status = COLLECT_STUCK;
        (void)snprintf(job->reason, sizeof job->reason,
                       "%s; did not die when it was killed (uninterruptible sleep?); abandoned",
                       job->why);
    } else if (clean) {
        /* Also if it finished while our signal was under way. */
        job->status = s.status;
        (void)snprintf(job->reason, sizeof job->reason, "%s", s.reason);
    } else if (buf_failed(&job->stream)) {
        job->status = COLLECT_FAILED;
        (void)snprintf(job->reason, sizeof job->reason, "no memory for what it found");
    } else if (job->why != NULL) {
        job->status = COLLECT_TIMED_OUT;
        job->for_lack_of_time = job->deadline_ns == r->options->total_deadline_mono_ns;
        (void)snprintf(job->reason, sizeof job->reason, "%s%s%s", job->why,
                       s.reason[0] != '\0' ? "; " : "", s.reason);
    } else {
        describe_death(job, wait_status, &s);
    }
    int cut = 0;
    job->bytes = folder_tidy(job->dir_fd, job->max_bytes, &cut);
    close_fd(&job->dir_fd);
    if (cut || s.cut) {
        if (job->status == COLLECT_OK)
            job->status = COLLECT_PARTIAL;
        char text[96];
        (void)snprintf(text, sizeof text, "output was cut at its limit of %llu bytes",
                       (unsigned long long)job->max_bytes);
        append_reason(job, text);
    }
    (void)unlinkat(r->stage_fd, job->collector->name, AT_REMOVEDIR); /* only when it is empty */
    job->ms = (clock_mono_ns() - job->start_ns) / NS_PER_MS;
    job->state = JOB_DONE;
    r->running--;
}

/* True if the child has ended and was reaped. Its group is killed before it is reaped, while its
 * pid cannot be reused. */
static bool job_reap(struct runner *r, struct job *job)
{
    siginfo_t info = {.si_pid = 0};
    int e = waitid(P_PID, (id_t)job->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if ((e == 0 && info.si_pid == 0) || (e != 0 && errno == EINTR))
        return false;
    int wait_status = 0; /* stays 0 if another process reaped the child: then only the frames say
                          * how it ended */
    if (e == 0) {
        (void)signal_group(r, job, SIGKILL);
        while (waitpid(job->pid, &wait_status, 0) < 0 && errno == EINTR)
            ; /* it has ended: this does not wait */
    }
    job_finish(r, job, true, wait_status);
    return true;
}

static void job_end(struct runner *r, struct job *job, const char *why)
{
    job->why = why;
    (void)signal_group(r, job, SIGTERM);
    job->state = JOB_TERMED;
    job->next_step_ns = clock_mono_ns() + RUNNER_TERM_GRACE_MS * NS_PER_MS;
}

/* One turn for a child that is alive. */
static void job_step(struct runner *r, struct job *job, bool measure)
{
    uint64_t now = clock_mono_ns();
    if (job->state == JOB_RUNNING) {
        if (r->cancelled)
            job_end(r, job, "cancelled");
        else if (now >= job->next_step_ns)
            job_end(r, job, "deadline passed");
        else if (job->stream_over)
            job_end(r, job, "wrote garbage to the status pipe");
        else if (measure && folder_bytes(job->dir_fd) > 2 * job->max_bytes)
            job_end(r, job, "wrote more than twice its limit");
        return;
    }
    if (now < job->next_step_ns)
        return;
    if (job->state == JOB_KILLED) {
        job_finish(r, job, false, 0);
        return;
    }
    (void)signal_group(r, job, SIGKILL);
    job->state = JOB_KILLED;
    job->next_step_ns = now + RUNNER_KILL_GRACE_MS * NS_PER_MS;
}

/* --- the loop --- */

static bool job_is_alive(const struct job *job)
{
    return job->state == JOB_RUNNING || job->state == JOB_TERMED || job->state == JOB_KILLED;
}

static int next_timeout_ms(const struct runner *r)
{
    uint64_t now = clock_mono_ns();
    uint64_t best = TICK_MS;
    for (size_t i = 0; i < r->next; i++) {
        const struct job *job = &r->jobs[i];
        if (!job_is_alive(job))
            continue;
        uint64_t ms = job->next_step_ns > now ? (job->next_step_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
        if (job->pid_fd < 0 && ms > TICK_BLIND_MS)
            ms = TICK_BLIND_MS;
        best = ms < best ? ms : best;
    }
    return (int)best;
}

static void wait_for_something(struct runner *r)
{
    struct pollfd fds[2 * PARALLEL_MAX + 1];
    nfds_t n = 0;
    if (r->options->cancel_fd >= 0 && !r->cancelled)
        fds[n++] = (struct pollfd){.fd = r->options->cancel_fd, .events = POLLIN};
    nfds_t first_job = n;
    for (size_t i = 0; i < r->next && n + 2 <= sizeof fds / sizeof fds[0]; i++) {
        const struct job *job = &r->jobs[i];
        if (!job_is_alive(job))
            continue;
        if (job->pid_fd >= 0)
            fds[n++] = (struct pollfd){.fd = job->pid_fd, .events = POLLIN};
        if (job->status_fd >= 0)
            fds[n++] = (struct pollfd){.fd = job->status_fd, .events = POLLIN};
    }
    if (poll(fds, n, next_timeout_ms(r)) > 0 && first_job == 1 && fds[0].revents != 0)
        r->cancelled = true;
}

static void release_rows(struct runner *r)
{
    for (; r->released < r->count && r->jobs[r->released].state == JOB_DONE; r->released++) {
        struct job *job = &r->jobs[r->released];
        struct stream_result s = {.done = false};
        read_stream(job, r->facts, &s);
        buf_release(&job->stream);
        struct runner_row row = {.name = job->collector->name,
                                 .status = job->status,
                                 .reason = job->reason,
                                 .ms = job->ms,
                                 .bytes = job->bytes,
                                 .for_lack_of_time = job->for_lack_of_time};
        if (r->on_row != NULL)
            r->on_row(&row, r->options->callback_arg);
    }
}

static void turn_all(struct runner *r, bool measure)
{
    for (size_t i = 0; i < r->next; i++) {
        struct job *job = &r->jobs[i];
        if (!job_is_alive(job))
            continue;
        job_drain(job);
        if (!job_reap(r, job))
            job_step(r, job, measure);
    }
}

static void run_jobs(struct runner *r)
{
    size_t parallel = r->options->parallel != 0 ? r->options->parallel : PARALLEL_DEFAULT;
    if (parallel > PARALLEL_MAX)
        parallel = PARALLEL_MAX;
    uint64_t measured_ns = clock_mono_ns();
    while (r->released < r->count) {
        while (r->next < r->count && r->running < parallel)
            job_start(r, &r->jobs[r->next++]);
        if (r->running > 0) {
            wait_for_something(r);
            uint64_t now = clock_mono_ns();
            bool measure = now - measured_ns >= TICK_MS * NS_PER_MS;
            if (measure)
                measured_ns = now;
            turn_all(r, measure);
        }
        release_rows(r);
    }
}

static size_t count_phase(const struct collector *const *list, enum collect_phase phase)
{
    size_t n = 0;
    for (; *list != NULL; list++)
        n += (*list)->phase == phase;
    return n;
}

static void give_rows_without_running(struct runner *r, const char *reason)
{
    for (size_t i = 0; i < r->count; i++)
        skip(&r->jobs[i], COLLECT_FAILED, reason);
    release_rows(r);
}

int runner_run(const struct collector *const *list, enum collect_phase phase,
               const struct collect_ctx *ctx, const struct runner_options *options,
               struct facts *facts, runner_row_callback on_row, struct rc_err *err)
{
    size_t count = count_phase(list, phase);
    RC_AUTO_FREE struct job *jobs = calloc(count != 0 ? count : 1, sizeof *jobs);
    if (jobs == NULL)
        return rc_err_set(err, -ENOMEM, "cannot run collectors: out of memory");
    struct runner r = {
        .ctx = ctx, .options = options, .facts = facts, .on_row = on_row, .jobs = jobs};
    for (; *list != NULL && r.count < count; list++) {
        if ((*list)->phase != phase)
            continue;
        struct job *job = &jobs[r.count++];
        *job = (struct job){.collector = *list, .pid_fd = -1, .status_fd = -1, .dir_fd = -1};
        buf_init(&job->stream, FRAME_STREAM_MAX);
    }
    RC_AUTO_CLOSE int stage_fd =
        open(options->stage_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (stage_fd < 0) {
        int e = -errno;
        give_rows_without_running(&r, "no staging folder");
        return rc_err_errno(err, e, "cannot open '%s'", options->stage_dir);
    }
    r.stage_fd = stage_fd;
    run_jobs(&r);
    return 0;
}
