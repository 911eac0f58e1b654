/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that reach the supervisor: which of them the target must get from us.
 *
 * The target is in our process group, so what the terminal or killpg() sends it has already got.
 * A signal of the terminal says so (SI_KERNEL), and a timer's or a hangup of the session that we
 * lead, which say the same, are known by their number; for another one we wait FORWARD_WAIT_MS whether the
 * tracer sees the target take the same number from the same sender, and forward it otherwise. A
 * standard signal that is still pending in the target collapses with ours. Untraced, a signal sent
 * to the whole group arrives twice (README). A stop cancels a SIGCONT that still waits, and
 * a SIGCONT cancels a stop.
 */
#ifndef LAUNCH_FORWARD_H
#define LAUNCH_FORWARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>

#include "record/shared.h"

#define FORWARD_WAIT_MS 20
#define FORWARD_PENDING_MAX 32

struct forwarder {
    struct shared *shared;
    struct {
        int signo; /* 0 = free */
        int32_t sender;
        uint64_t value;
        bool queued; /* sigqueue(): keep the value */
        uint64_t arrived_ns, due_ns;
    } pending[FORWARD_PENDING_MAX];
    uint64_t matched_ns[SHARED_SIGNALS_SEEN]; /* a signal that the target took stands for one */
};

/* No more can be taken now: the target's queue (RLIMIT_SIGPENDING) is full. Real-time signals must
 * then wait in ours, in their order. */
bool forward_is_full(const struct forwarder *f);
/* One signal was read from the signalfd. */
void forward_take(struct forwarder *f, const struct signalfd_siginfo *info);
/* Send what is due. Returns milliseconds until the next is due, -1 = nothing pending. */
int forward_due(struct forwarder *f);

#endif
