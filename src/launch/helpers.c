/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/proc_stat.h"
#include "launch/finish.h"
#include "record/shared.h"
#include "telemetry/sampler.h"

#define WORK_MAX_MS 1000u
#define REAP_WAIT_MS 200
#define SUSPECT_MS 50u
#define FORK_AGAIN_NS 100000000u

static const char *const helper_names[HELPER_MAX] = {"tracer", "sampler", "relay", "recorder",
                                                     "relay of stdout"};

/* For ps(1). The tracer names itself when it has forked the target. */
static void name_process(int id)
{
    static const char *const names[HELPER_MAX] = {NULL, "rocmcrash-M", "rocmcrash-O", "rocmcrash-R",
                                                  "rocmcrash-O1"};
    if (names[id] != NULL)
        (void)prctl(PR_SET_NAME, names[id]);
}

struct relay *helpers_relay(struct helpers *h, int id)
{
    for (int i = 0; i < RELAYS; i++)
        if (relay_helper(&h->relays[i]) == id)
            return &h->relays[i];
    return NULL;
}

/* The relay needs the descriptors and leaves the caller itself; the tracer after it forked the target. */
static _Noreturn void helper_main(struct helpers *h, int id)
{
    struct shared *s = h->shared;
    name_process(id);
    switch (id) {
    case HELPER_TRACER:
        tracer_run(s, &h->tracer);
    case HELPER_RELAY:
    case HELPER_STDOUT_RELAY:
        relay_run(helpers_relay(h, id), s);
    case HELPER_SAMPLER:
        relays_drop(h->relays);
        leave_caller();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != shared_supervisor()) /* the supervisor was killed before the prctl() */
            _exit(0);
        sampler_run(s);
    default:
        (void)umask(077); /* the caller's mask may deny even us access to what we create */
        relays_drop(h->relays);
        leave_caller();
        finish_lift_limits();
        recorder_run(s, &h->recorder);
    }
}

static void set_pid(struct helpers *h, int id, pid_t pid)
{
    h->pids[id] = pid;
    h->shared->helpers[id].pid = pid;
}

bool helper_start(struct helpers *h, int id)
{
    struct shared_helper *slot = &h->shared->helpers[id];
    if (slot->generation > HELPER_RESTARTS_MAX && helpers_relay(h, id) == NULL)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        helper_main(h, id);
    if (pid < 0) {
        shared_event(h->shared, "supervisor", "cannot fork the %s", helper_names[id]);
        return false;
    }
    slot->generation++;
    set_pid(h, id, pid);
    if (id == HELPER_SAMPLER)
        h->sampler_started_ns = clock_mono_ns();
    return true;
}

static int helper_of(const struct helpers *h, pid_t pid)
{
    for (int id = 0; id < HELPER_MAX; id++)
        if (h->pids[id] == pid)
            return id;
    return -1;
}

static void replace(struct helpers *h, int id, int status)
{
    struct shared *s = h->shared;
    shared_event(s, "supervisor", "the %s ended (wait status %#x)", helper_names[id], status);
    struct relay *relay = helpers_relay(h, id);
    if (s->target_state == TARGET_ENDED && relay == NULL)
        return;
    if (relay != NULL) {
        (void)relay_supervise(relay, s);
        relay->ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (relay->ended)
            return;
    }
    (void)helper_start(h, id);
}

bool helper_ended(struct helpers *h, pid_t pid, int status)
{
    int id = helper_of(h, pid);
    if (id < 0)
        return false;
    set_pid(h, id, 0);
    if (id != HELPER_TRACER) {
        replace(h, id, status);
        return true;
    }
    /* A new tracer would not be an ancestor of the target; go on by the wait status alone. */
    h->shared->held_since_ns = 0;
    uint32_t state = h->shared->trace_state;
    bool traced = state != TRACE_STATE_REFUSED && state != TRACE_STATE_OFF;
    if (h->shared->target_state != TARGET_ENDED && (traced || h->tracer.attach_pid == 0)) {
        h->shared->trace_state = TRACE_STATE_LOST;
        shared_event(h->shared, "supervisor", "the tracer ended (wait status %#x)", status);
    }
    return true;
}

bool helper_stopped(struct helpers *h, pid_t pid)
{
    int id = helper_of(h, pid);
    if (id < 0)
        return false;
    shared_event(h->shared, "supervisor", "the %s was stopped: killing it", helper_names[id]);
    (void)kill(pid, SIGKILL);
    return true;
}

void helper_trapped(pid_t pid)
{
    (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
}

void helper_reap(struct helpers *h, int id)
{
    pid_t pid = h->pids[id];
    for (int waited_ms = 0; pid > 0 && waited_ms < REAP_WAIT_MS; waited_ms++) {
        pid_t reaped = waitpid(pid, NULL, WNOHANG);
        if (reaped == pid || (reaped < 0 && errno == ECHILD)) {
            set_pid(h, id, 0);
            return;
        }
        (void)poll(NULL, 0, 1);
    }
    helper_kill(h, id);
}

void helper_kill(struct helpers *h, int id)
{
    pid_t pid = h->pids[id];
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    for (int waited_ms = 0; waited_ms < REAP_WAIT_MS; waited_ms++) {
        pid_t reaped = waitpid(pid, NULL, WNOHANG);
        if (reaped == pid || (reaped < 0 && errno == ECHILD))
            break;
        (void)poll(NULL, 0, 1);
    }
    set_pid(h, id, 0);
}

/* True if it was late twice. After a freeze of the machine or the cgroup everything looks late
 * once. */
static bool stays_late(struct suspect *suspect, uint64_t since_ns, uint64_t budget_ns,
                       uint64_t now_ns)
{
    if (since_ns == 0 || now_ns <= since_ns || now_ns - since_ns <= budget_ns) {
        suspect->since_ns = 0;
        return false;
    }
    if (suspect->since_ns != since_ns)
        *suspect = (struct suspect){.since_ns = since_ns, .seen_ns = now_ns};
    if (now_ns - suspect->seen_ns < SUSPECT_MS * NS_PER_MS)
        return false;
    suspect->since_ns = 0;
    return true;
}

static void watch_tracer(struct helpers *h, uint64_t now_ns)
{
    struct shared *s = h->shared;
    pid_t pid = h->pids[HELPER_TRACER];
    bool holds = stays_late(&h->tracer_holds, s->held_since_ns,
                            s->held_budget_ms * NS_PER_MS, now_ns);
    bool hangs = stays_late(&h->tracer_hangs, s->helpers[HELPER_TRACER].work_pending_ns,
                            WORK_MAX_MS * NS_PER_MS, now_ns);
    /* A program may trace our tracer (ptrace), and stop it. Nobody is told of such a stop but that program. */
    bool held = pid > 0 && proc_stays_held(&h->tracer_look, pid, now_ns);
    if (pid <= 0 || (!holds && !hangs && !held))
        return;
    s->watchdog_kills++;
    shared_event(s, "supervisor", held ? "the tracer is held by another: killing it"
                                       : "the tracer held the target too long: killing it");
    (void)kill(pid, SIGKILL);
}

/*
 * The recorder kills a tracer that the target holds, if we are held, too. A process has one tracer: the target does
 * not get the recorder, which we trace. Not before our tracer could trace: a filter of system calls may kill the
 * caller of ptrace(2).
 */
static void keep_recorder_free(struct helpers *h)
{
    pid_t pid = h->pids[HELPER_RECORDER];
    if (pid <= 0 || pid == h->traced_recorder || h->shared->trace_state != TRACE_STATE_TRACING)
        return;
    h->traced_recorder = pid;
    (void)ptrace(PTRACE_SEIZE, pid, NULL, NULL);
}

static void watch_sampler(struct helpers *h, uint64_t now_ns)
{
    const struct shared_helper *sampler = &h->shared->helpers[HELPER_SAMPLER];
    uint64_t since_ns = sampler->work_pending_ns;
    /* Until a replacement has begun, this names the read in which its predecessor hung. */
    if (since_ns != 0 && since_ns < h->sampler_started_ns)
        since_ns = h->sampler_started_ns;
    if (!stays_late(&h->sampler_hangs, since_ns, WORK_MAX_MS * NS_PER_MS, now_ns) ||
        h->pids[HELPER_SAMPLER] <= 0)
        return;
    shared_event(h->shared, "supervisor", "a counter does not answer: replacing the sampler");
    (void)kill(h->pids[HELPER_SAMPLER], SIGKILL);
    /* A process in D state does not die: forget it. The shared memory names what it was reading,
     * and its replacement leaves that file out. */
    set_pid(h, HELPER_SAMPLER, 0);
    (void)helper_start(h, HELPER_SAMPLER);
}

static bool lacks_process(const struct helpers *h, const struct relay *relay)
{
    return relay->way != RELAY_NONE && !relay->ended &&
           h->pids[relay_helper(relay)] == 0;
}

static void watch_relay(struct helpers *h, struct relay *relay)
{
    int id = relay_helper(relay);
    /* It could not be forked, or was killed too often in a row for its replacement to be at work. */
    if (lacks_process(h, relay))
        (void)helper_start(h, id);
    pid_t pid = h->pids[id];
    if (pid > 0 && relay_stuck(relay, h->shared)) {
        shared_event(h->shared, "supervisor", "the %s does not carry: replacing it", helper_names[id]);
        (void)kill(pid, SIGKILL); /* SIGCHLD replaces it */
    }
}

void helpers_watch(struct helpers *h)
{
    uint64_t now_ns = clock_mono_ns();
    watch_tracer(h, now_ns);
    keep_recorder_free(h);
    if (h->shared->target_state != TARGET_ENDED)
        watch_sampler(h, now_ns);
    /* fork() failed earlier. It may succeed now. */
    if (h->shared->target_state != TARGET_ENDED && now_ns - h->forked_again_ns > FORK_AGAIN_NS) {
        h->forked_again_ns = now_ns;
        for (int id = 0; id < HELPER_MAX; id++)
            if ((id == HELPER_SAMPLER || id == HELPER_RECORDER) && h->pids[id] == 0)
                (void)helper_start(h, id);
    }
    for (int i = 0; i < RELAYS; i++)
        watch_relay(h, &h->relays[i]);
}

bool helpers_calm(const struct helpers *h)
{
    const struct shared *s = h->shared;
    if (s->held_since_ns != 0)
        return false;
    for (int i = 0; i < RELAYS; i++)
        if (h->relays[i].stuck_since_ns != 0 || lacks_process(h, &h->relays[i]))
            return false;
    for (int id = 0; id < HELPER_MAX; id++)
        if (s->helpers[id].work_pending_ns != 0)
            return false;
    return true;
}
