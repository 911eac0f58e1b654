/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries the target's stderr, so that its messages can be matched and kept. Neither the target nor the
 * reader notices. On request a second relay carries stdout, if that is a pipe of its own; only lines
 * about memory and failures are kept from it.
 *
 *   pipe      target -> [pipe] -> relay process O -> the caller's pipe
 *   terminal  target -> [pty]  -> O -> [pipe] -> the caller's terminal
 *   file      target -> the file itself; O reads the file
 *   else      nothing is interposed
 *
 * The supervisor S plans before it forks any process, and keeps the read ends open while it lives. So
 * the death of O breaks nothing: S forks another O with the same struct. Bytes move between kernel
 * buffers by splice(2), so a SIGKILL of O neither loses nor doubles any (up to 64 KiB of the copy
 * that is matched may then be doubled). Where splice(2) cannot, as to some terminals and sockets, a piece
 * is written and then discarded: a SIGKILL in between doubles it. The calls of each process:
 *
 *   S  relay_plan                           then forks the tracer T, which forks the target C
 *   C  relay_child_setup                    between fork and exec
 *   T  relay_drop                           after it forked C; so do all other children of S but O
 *   S  relay_parent_after_fork              when C holds its ends
 *   S  fork O -> relay_run                  again when O died with another status than 0
 *   S  relay_resize, relay_supervise, relay_stuck, relay_drained, at the end relay_drop
 *
 * O exits with status 0 when its work is done: all processes of the tree have closed their ends, or the
 * caller's end is gone. Then no replacement is needed. S reaps an O before it forks the next one: two
 * of them would break the order of the bytes.
 */
#ifndef WATCH_RELAY_H
#define WATCH_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "watch/stream.h"

struct rc_err;
struct shared;

enum follow_mode { FOLLOW_NONE, FOLLOW_STDERR, FOLLOW_ALL };

enum relay_way { RELAY_NONE, RELAY_PIPE, RELAY_TERMINAL, RELAY_FILE };

struct relay {
    enum relay_way way;
    int stream; /* STDERR_FILENO, or STDOUT_FILENO for the second relay */
    enum stream_kind stderr_kind, stdout_kind;
    bool both;         /* stdout is the same object as stderr and gets the same replacement */
    int down;          /* the caller's end */
    bool down_is_socket;
    int from;          /* read end of the pipe whose bytes go to `down` */
    int feed;          /* terminal: write end of that pipe, filled from the pty's master */
    int master;             /* terminal: the pty's master; its slave is `replacement` */
    dev_t terminal;         /* terminal: the device of that slave */
    int asked[2];           /* terminal: a pipe. The library in the target puts a byte in; O takes it when all output is carried */
    int keys;               /* terminal: the real terminal, opened for reading; -1 = it may not be read */
    int replacement;        /* becomes `stream` of the target */
    int replacement_stdout; /* both: becomes fd 1; the same as `replacement` unless the flags differ */
    int file;               /* RELAY_FILE: the file, opened by us */
    bool file_appends;      /* fd 2 has O_APPEND: the target writes at the file's end */
    uint64_t file_start;    /* the offset at which the target's output begins */
    struct termios planned;     /* the terminal's modes when we started */
    struct termios planned_pty; /* the pty's modes, made from them */

    uint16_t *words; /* room for the table of match_words: O gets it before memory is short, and makes the table at the first byte */

    bool ended; /* S only: O has done its work and needs no replacement */
    /* S only: the last observation of relay_stuck(). */
    uint64_t stuck_heartbeat_ns;
    uint64_t stuck_since_ns; /* 0 = not stuck */
};

/* A run has two relays: first that of stderr, then that of stdout. */
#define RELAYS 2

/* A relay that does nothing. */
#define RELAY_INIT                                                                                 \
    {                                                                                              \
        .stream = 2, .down = -1, .from = -1, .feed = -1, .master = -1, .replacement = -1,          \
        .asked = {-1, -1}, .keys = -1, .replacement_stdout = -1, .file = -1                                                       \
    }

/*
 * Looks at fds 1 and 2 of the calling process and makes the pipe or pty to put in between. *relay is
 * always valid afterwards. 0, or -errno when a step failed: then nothing is interposed, and *err says
 * why. To leave a stream alone on purpose (a network socket, a device, a closed fd) is no failure.
 */
int relay_plan(struct relay *relay, enum follow_mode mode, struct rc_err *err);
/* The same for fd 1, if it is a pipe and a different one from fd 2. Otherwise nothing is interposed. */
int relay_plan_stdout(struct relay *relay, struct rc_err *err);

/* The helper process of this relay (enum helper_id of record/shared.h). */
int relay_helper(const struct relay *relay);

/* Puts the replacements in place, in the target's child. Async-signal-safe; allocates nothing. */
void relay_child_setup(const struct relay *relay);

/* S closes the target's ends, because end of file comes only when no process holds them. */
void relay_parent_after_fork(struct relay *relay);

/* relay_drop() for an array of RELAYS. */
void relays_drop(struct relay *relays);
/* Closes all descriptors of the relay in this process. Each of our processes except S, C and O calls it
 * first: while a tracer held the read end, the target would get no SIGPIPE. */
void relay_drop(struct relay *relay);

/*
 * The main function of the relay process; never returns. It makes a session of its own, blocks signals,
 * closes all descriptors that it does not need (0, 1 and 2 too), and allocates only a thread's stack.
 */
_Noreturn void relay_run(struct relay *relay, struct shared *shared);

/*
 * S calls it on SIGWINCH and SIGCONT: copies the terminal's size to the pty. True when the size changed. The
 * target got SIGWINCH at the same moment as S and may have read the old size. While it was stopped it got
 * none. So S sends another one to its group.
 */
bool relay_resize(struct relay *relay);

/* S calls it when O ended or a timer fired. If the caller's end is gone, it closes the read end, so that
 * the target gets SIGPIPE (for a terminal: EIO) as without us. True when it closed the read end now. */
bool relay_supervise(struct relay *relay, const struct shared *shared);

/* True when no bytes are left between the target and the caller's end and O waits. Does not block. */
bool relay_drained(const struct relay *relay, const struct shared *shared);

/* True when no writer and no bytes are left. An O that still lives is about to exit. Do not call it while
 * the target runs: it polls the pipe, which slows the target down (relay_wait.c). */
bool relay_over(const struct relay *relay);

/*
 * S calls it at least every 100 ms. True when for 200 ms each call saw that bytes were pending, that the
 * caller's end would take them, and that O had made no turn. (An old heartbeat alone is not enough: O
 * sleeps while no bytes come.) S then kills O, reaps it and forks another one.
 */
bool relay_stuck(struct relay *relay, const struct shared *shared);

#endif
