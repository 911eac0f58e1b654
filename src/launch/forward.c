/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/forward.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/tracer.h"
#include "record/shared.h"

/* A group signal reaches the target at most this long before it reaches us. */
#define SEEN_BEFORE_NS 50000000u

static void send_now(struct forwarder *f, int signo, bool queued, int32_t value)
{
    pid_t target = f->shared->target_pid;
    if (target <= 0 || f->shared->target_state != TARGET_RUNNING)
        return;
    if (queued)
        (void)sigqueue(target, signo, (union sigval){.sival_int = value});
    else
        (void)kill(target, signo);
}

void forward_take(struct forwarder *f, const struct signalfd_siginfo *info)
{
    int signo = (int)info->ssi_signo;
    if (info->ssi_code == SI_KERNEL)
        return;
    bool queued = info->ssi_code == SI_QUEUE;
    uint64_t now_ns = clock_mono_ns();
    if (f->shared->trace_state != TRACE_STATE_TRACING || signo >= SIGRTMIN) {
        send_now(f, signo, queued, info->ssi_int);
        return;
    }
    for (int i = 0; i < FORWARD_PENDING_MAX; i++) {
        if (f->pending[i].signo != 0)
            continue;
        f->pending[i].signo = signo;
        f->pending[i].sender = (int32_t)info->ssi_pid;
        f->pending[i].value = info->ssi_int;
        f->pending[i].queued = queued;
        f->pending[i].arrived_ns = now_ns;
        f->pending[i].due_ns = now_ns + FORWARD_WAIT_MS * 1000000u;
        return;
    }
    send_now(f, signo, queued, info->ssi_int);
}

static bool target_took_it(const struct shared *s, int signo, int32_t sender, uint64_t arrived_ns)
{
    for (int i = 0; i < SHARED_SIGNALS_SEEN; i++) {
        const struct signal_seen *seen = &s->signals_seen[i];
        if (seen->signo == signo && seen->sender_pid == sender &&
            seen->time_ns + SEEN_BEFORE_NS >= arrived_ns)
            return true;
    }
    return false;
}

int forward_due(struct forwarder *f)
{
    uint64_t now_ns = clock_mono_ns();
    int next_ms = -1;
    for (int i = 0; i < FORWARD_PENDING_MAX; i++) {
        int signo = f->pending[i].signo;
        if (signo == 0)
            continue;
        if (target_took_it(f->shared, signo, f->pending[i].sender, f->pending[i].arrived_ns)) {
            f->pending[i].signo = 0;
        } else if (now_ns >= f->pending[i].due_ns) {
            f->pending[i].signo = 0;
            send_now(f, signo, f->pending[i].queued, f->pending[i].value);
        } else {
            int left_ms = (int)((f->pending[i].due_ns - now_ns) / 1000000u) + 1;
            next_ms = next_ms < 0 || left_ms < next_ms ? left_ms : next_ms;
        }
    }
    return next_ms;
}
