/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/forward.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/tracer.h"
#include "record/shared.h"

/* A group signal reaches the target at most this long before it reaches us. */
#define SEEN_BEFORE_NS 50000000u

/* False = try again: its queue is full. */
static bool send_now(struct forwarder *f, int signo, bool queued, uint64_t value)
{
    pid_t target = f->shared->target_pid;
    if (target <= 0 || f->shared->target_state != TARGET_RUNNING)
        return true;
    if (!queued)
        return kill(target, signo) == 0 || errno != EAGAIN;
    union sigval word = {.sival_ptr = (void *)(uintptr_t)value};
    return sigqueue(target, signo, word) == 0 || errno != EAGAIN;
}

/* The terminal sends its signals to the whole foreground group, so the target gets them too. It
 * sends a hangup only to the leader of the session. Other signals of the kernel are meant for
 * one process, such as the alarm(2) of a program that then executed rocmcrash. */
static bool is_terminals(int signo)
{
    switch (signo) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGWINCH:
        return true;
    case SIGHUP:
    case SIGCONT: /* with the hangup */
        return getsid(0) != getpid();
    default:
        return false;
    }
}

/* Our own doing (a write of ours that failed, a new size of the terminal), or a helper's notice that the
 * target goes on. */
static bool is_ours(const struct forwarder *f, const struct signalfd_siginfo *info)
{
    if ((pid_t)info->ssi_pid == getpid())
        return info->ssi_signo == SIGPIPE || info->ssi_signo == SIGXFSZ || info->ssi_signo == SIGWINCH;
    const struct shared_helper *helpers = f->shared->helpers;
    return info->ssi_signo == SIGCONT &&
           ((int32_t)info->ssi_pid == helpers[HELPER_TRACER].pid ||
            (int32_t)info->ssi_pid == helpers[HELPER_RECORDER].pid);
}

static bool keep_signal(struct forwarder *f, const struct signalfd_siginfo *info, uint64_t due_ns)
{
    for (int i = 0; i < FORWARD_PENDING_MAX; i++) {
        if (f->pending[i].signo != 0)
            continue;
        f->pending[i].signo = (int)info->ssi_signo;
        f->pending[i].sender = (int32_t)info->ssi_pid;
        f->pending[i].value = info->ssi_ptr;
        f->pending[i].queued = info->ssi_code == SI_QUEUE;
        f->pending[i].arrived_ns = clock_mono_ns();
        f->pending[i].due_ns = due_ns;
        return true;
    }
    return false;
}

bool forward_is_full(const struct forwarder *f)
{
    for (int i = 0; i < FORWARD_PENDING_MAX; i++)
        if (f->pending[i].signo >= SIGRTMIN)
            return true;
    return false;
}

static bool is_stop(int signo)
{
    return signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
}

/* As the kernel does where both are for one process. The target has the later one already, or gets it next. */
static void cancel(struct forwarder *f, bool stops)
{
    for (int i = 0; i < FORWARD_PENDING_MAX; i++)
        if (stops ? is_stop(f->pending[i].signo) : f->pending[i].signo == SIGCONT)
            f->pending[i].signo = 0;
}

void forward_take(struct forwarder *f, const struct signalfd_siginfo *info)
{
    int signo = (int)info->ssi_signo;
    if (is_stop(signo))
        cancel(f, false);
    if ((info->ssi_code == SI_KERNEL && is_terminals(signo)) || is_ours(f, info))
        return;
    if (signo == SIGCONT)
        cancel(f, true);
    bool queued = info->ssi_code == SI_QUEUE;
    uint64_t now_ns = clock_mono_ns();
    bool may_be_seen = f->shared->trace_state == TRACE_STATE_TRACING && signo < SIGRTMIN &&
                       info->ssi_code != SI_KERNEL;
    if (may_be_seen && keep_signal(f, info, now_ns + FORWARD_WAIT_MS * NS_PER_MS))
        return;
    if (!send_now(f, signo, queued, info->ssi_ptr))
        (void)keep_signal(f, info, now_ns);
}

static bool target_took_it(struct forwarder *f, int signo, int32_t sender, uint64_t arrived_ns)
{
    for (int i = 0; i < SHARED_SIGNALS_SEEN; i++) {
        const struct signal_seen *seen = &f->shared->signals_seen[i];
        uint64_t time_ns = seen->time_ns;
        if (seen->signo == signo && seen->sender_pid == sender && time_ns != f->matched_ns[i] &&
            time_ns + SEEN_BEFORE_NS >= arrived_ns) {
            f->matched_ns[i] = time_ns;
            return true;
        }
    }
    return false;
}

int forward_due(struct forwarder *f)
{
    uint64_t now_ns = clock_mono_ns();
    int next_ms = -1;
    for (int i = 0; i < FORWARD_PENDING_MAX; i++) {
        int signo = f->pending[i].signo;
        int left_ms = 1;
        if (signo == 0)
            continue;
        bool done = signo < SIGRTMIN &&
                    target_took_it(f, signo, f->pending[i].sender, f->pending[i].arrived_ns);
        if (!done && now_ns >= f->pending[i].due_ns)
            done = send_now(f, signo, f->pending[i].queued, f->pending[i].value);
        else if (!done)
            left_ms = (int)((f->pending[i].due_ns - now_ns) / 1000000u) + 1;
        if (done)
            f->pending[i].signo = 0;
        else
            next_ms = next_ms < 0 || left_ms < next_ms ? left_ms : next_ms;
    }
    return next_ms;
}
