/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying the target's stderr past us, so that what it says can be matched and kept, without the
 * target or the reader noticing; and its stdout by a second relay, where that is asked for and it is
 * a pipe of its own. Of that one only lines about memory and failures are kept.
 *
 *   pipe      target -> [pipe] -> relay process O -> the caller's pipe
 *   terminal  target -> [pty]  -> O -> [pipe] -> the caller's terminal
 *   file      target -> the file itself; O reads the file
 *   else      nothing is interposed
 *
 * The supervisor S plans before it forks anything, and keeps the read ends as long as it lives: the
 * death of O breaks nothing and S forks another O with the same struct. Bytes move by splice(2)
 * between kernel buffers only, so SIGKILL of O at any moment loses or doubles none of them (the
 * copy that is matched may double up to 64 KiB then). Who calls what:
 *
 *   S  relay_plan                           then forks the tracer T, which forks the target C
 *   C  relay_child_setup                    between fork and exec
 *   T  relay_drop                           after it forked C; so do all other children of S but O
 *   S  relay_parent_after_fork              when C holds its ends
 *   S  fork O -> relay_run                  again when O died with another status than 0
 *   S  relay_resize, relay_supervise, relay_stuck, relay_drained, at the end relay_drop
 *
 * O leaves with status 0 when its work is done: every process of the tree closed its end, or the
 * caller's end is gone. It then need not be replaced. Before S forks a replacement, the old O must
 * have been reaped: two of them would break the order.
 */
#ifndef WATCH_RELAY_H
#define WATCH_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "watch/stream.h"

struct rc_err;
struct shared;

enum follow_mode { FOLLOW_NONE, FOLLOW_STDERR, FOLLOW_ALL };

enum relay_way { RELAY_NONE, RELAY_PIPE, RELAY_TERMINAL, RELAY_FILE };

struct relay {
    enum relay_way way;
    int stream; /* STDERR_FILENO, or STDOUT_FILENO of the second relay */
    enum stream_kind stderr_kind, stdout_kind;
    bool both;         /* stdout is the same object as stderr and gets the same replacement */
    int down;          /* the caller's end */
    int from;          /* read end of the pipe whose bytes go to `down` */
    int feed;          /* terminal: write end of that pipe, filled from the pty's master */
    int master;        /* terminal: the pty; slave is the replacement */
    int replacement;        /* what becomes `stream` of the target */
    int replacement_stdout; /* both: what becomes fd 1; equal unless their flags differ */
    int file;          /* followed file, our own description */
    bool file_appends; /* fd 2 has O_APPEND: the file's size tells where the target is, else fd 2 */
    uint64_t file_start;
    struct termios planned;     /* the terminal's modes when we started */
    struct termios planned_pty; /* and the pty's, made from them */

    bool ended; /* S only: its work was done; it needs no replacement */
    /* S only: what relay_stuck() saw last. */
    uint64_t stuck_heartbeat_ns;
    uint64_t stuck_since_ns; /* 0 = was not stuck */
};

/* A run has two: of stderr, then of stdout. */
#define RELAYS 2

/* A relay that does nothing. */
#define RELAY_INIT                                                                                 \
    {                                                                                              \
        .stream = 2, .down = -1, .from = -1, .feed = -1, .master = -1, .replacement = -1,          \
        .replacement_stdout = -1, .file = -1                                                       \
    }

/*
 * Looks at fds 1 and 2 of the calling process and makes what is to come in between. Always leaves a
 * valid relay. 0, or -errno when a step failed: then nothing is interposed and *err says why.
 * Streams that are left alone on purpose (socket, device, closed) are no failure.
 */
int relay_plan(struct relay *relay, enum follow_mode mode, struct rc_err *err);
/* The same for fd 1, where it is a pipe and not the one that fd 2 is; else nothing is interposed. */
int relay_plan_stdout(struct relay *relay, struct rc_err *err);

/* Which helper carries for it (enum helper_id of record/shared.h). */
int relay_helper(const struct relay *relay);

/* Async-signal-safe; needs no memory. */
void relay_child_setup(const struct relay *relay);

/* S no longer holds the target's ends, so that end of file arrives. */
void relay_parent_after_fork(struct relay *relay);

/* Let go of everything in this process, of RELAYS of them. */
void relays_drop(struct relay *relays);
/* Close all that the relay holds in this process; every process of ours but S, C and O calls it
 * first (a tracer that keeps the read end would keep SIGPIPE from the target). */
void relay_drop(struct relay *relay);

/*
 * The relay process. Own session, blocks signals, closes every descriptor it does not need (also
 * 0, 1 and 2), allocates nothing but the stack of a thread. Never returns.
 */
_Noreturn void relay_run(struct relay *relay, struct shared *shared);

/*
 * S copies the terminal's size to the pty, on SIGWINCH. True when it changed: the target got its
 * SIGWINCH at the same moment as S and may have asked too early, so S sends the target one more.
 */
bool relay_resize(struct relay *relay);

/* S, when O ended or a timer fired: lets go of the read end when the caller's end is gone, so that
 * the target gets SIGPIPE (EIO of a terminal) as without us. True when it let go now. */
bool relay_supervise(struct relay *relay, const struct shared *shared);

/* Nothing is left between the target and the caller's end, and O is waiting. Does not block. */
bool relay_drained(const struct relay *relay, const struct shared *shared);

/* No writer is left, and nothing is pending. If O still lives, it is about to leave. Do not call this while
 * the target runs: it polls the pipe (relay_wait.c says why). */
bool relay_over(const struct relay *relay);

/*
 * S, at least every 100 ms while it cares: bytes are pending, the caller's end takes bytes, and O
 * made no turn for 200 ms *of such observations*. (A heartbeat alone would not do: O sleeps while
 * nothing comes.) S then kills O, reaps it and forks another.
 */
bool relay_stuck(struct relay *relay, const struct shared *shared);

#endif
