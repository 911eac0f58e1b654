/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the relay process; private to watch/. One struct carrier lives in O, in
 * static memory.
 */
#ifndef WATCH_RELAY_INTERNAL_H
#define WATCH_RELAY_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "record/shared.h"
#include "watch/match.h"
#include "watch/relay.h"

#define CARRY_CHUNK_BYTES ((size_t)64 << 10)

#define REPORT_LINE_MAX 2048

/* Descriptors of ours lie above what shells and programs use by number. */
#define RELAY_FD_MIN 10

/*
 * Bytes that were carried but not looked at yet, in sampling. Two pipes in turn: while one fills,
 * the other keeps what came before, so that the last 32 KiB before a pause or the end are there.
 */
struct peek_pipe {
    int read_end;
    int write_end;
    size_t unread;
};

struct carrier {
    struct relay *relay;
    struct shared *shared;
    struct shared_helper *me;
    struct shared_carried *carried;
    bool lines_only; /* stdout: only lines about memory and failures are kept */
    struct matcher matcher;
    uint64_t published[MATCH_KINDS]; /* counts already added to the shared ones */

    /* A line of a report that has begun; whole lines only are kept. */
    char line[REPORT_LINE_MAX];
    size_t line_len;
    bool line_lost; /* its beginning is not there */
    uint64_t reports_seen;
    uint64_t report_window_ns, report_window_bytes; /* looked through for lines since */

    /* A failure and the lines around it, as offsets in the output: */
    uint64_t found_from, found_to; /* kept up to, and wanted up to */
    bool found_within_line;        /* it begins within a line */
    uint64_t found_window_ns, found_window_bytes; /* kept since */

    struct peek_pipe peek[2];
    unsigned peek_active;
    size_t ahead; /* bytes at the head of relay->from that were looked at or set aside already */

    bool blind;     /* nothing to look with: carried, and neither kept nor matched */
    bool sampling;  /* too fast to look at every byte */
    bool gives_way; /* is a batch task */
    bool skipped;   /* bytes were dropped unseen since the last look */
    bool resync;    /* keep nothing until a line begins: half a line hides what a secret is */
    uint64_t window_start_ns;
    uint64_t window_bytes;

    int null_fd; /* /dev/null, or -1 */

    /* waiting */
    bool something_waits; /* in relay->from, at the last look: bytes, or its end */
    int bell[2];          /* always empty; -1: waiting is by poll() */
    pthread_t main_thread;
    bool ticking; /* SIGALRM comes every 20 ms */

    /* terminal */
    bool no_master_splice; /* the pty cannot be spliced from (Linux 5.10 without read_iter) */
    bool no_down_splice;   /* nor the terminal to (opened for appending) */
    struct termios real_seen, pty_seen;
    uint64_t active_ns; /* when bytes last came */
    bool in_background; /* the target, when it was last looked at: its modes are not the terminal's
                         */
};

/* relay_look.c: what becomes of the bytes besides being carried. */
void look_init(struct carrier *c);
void look_at(struct carrier *c, const void *data, size_t len);
/* Copy what waits in relay->from and is new, without taking it. Returns the bytes that may be
 * carried now, 0 at end of file, -EAGAIN when there is nothing. */
ssize_t look_ahead(struct carrier *c);
/* While the caller's end is blocked: look at what came in behind `ahead`. */
void look_behind(struct carrier *c);
/* Look at what was set aside while sampling. */
void look_catch_up(struct carrier *c);
/* Bytes were skipped: nothing is kept until a line begins. */
void look_gap(struct carrier *c);
void look_rate(struct carrier *c, size_t carried);
/* All of `len` bytes that lie in a pipe. Returns how many were there. */
ssize_t look_read_all(int fd, char *data, size_t len);
/* Take `len` bytes out of a pipe unseen. */
void look_discard(struct carrier *c, int fd, size_t len);
/* relay_report.c: lines that tell how memory is used, and of stdout those about failures, into the
 * shared ring. After matcher_feed(). */
void report_look(struct carrier *c, const char *data, size_t len);
/* relay_found.c: messages of failure with the lines around them, into the shared ring. After the
 * bytes are in the output's ring. */
void found_look(struct carrier *c, size_t len);
/* The output is over. */
void report_end(struct carrier *c);
/* Bytes were skipped: what comes is the end of some line. */
void report_gap(struct carrier *c);
extern char look_buffer[CARRY_CHUNK_BYTES];

/* relay_carry.c */
void carry_turn(struct carrier *c);
void carry_idle(struct carrier *c);
_Noreturn void carry_done(struct carrier *c);
_Noreturn void carry_run(struct carrier *c);
/* The reader went away: without us the target's next write would fail, so let its pipe break. */
_Noreturn void carry_hung_up(struct carrier *c, int error);

/* relay_wait.c */
void wait_init(struct carrier *c);
/* Until something may be in relay->from, or the pty; looks at what was set aside when nothing
 * comes. */
void wait_for_bytes(struct carrier *c);
/* `refused`: how often in a row poll() said yes and the write EAGAIN. A terminal with room for one
 * byte does that when the byte is a newline to be written as two. */
void wait_for_room(struct carrier *c, unsigned *refused);

/* relay_terminal.c */
int terminal_plan(struct relay *relay, struct rc_err *err);
/* From the pty into relay->feed, which is empty. > 0 bytes, 0 = every slave is closed, -EAGAIN. */
ssize_t terminal_feed(struct carrier *c);
void terminal_modes_init(struct carrier *c);
void terminal_modes_sync(struct carrier *c);
int terminal_wait_ms(const struct carrier *c);
/* Write the head of relay->from where splice cannot; as splice(2). */
ssize_t terminal_copy(struct carrier *c, size_t len);

/* follow_file.c */
int file_plan(struct relay *relay, struct rc_err *err);
bool file_pending(const struct relay *relay, uint64_t read_bytes);
_Noreturn void file_run(struct carrier *c);

/* relay.c: move *fd out of the way of 0..9, close-on-exec. 0 or -errno. */
int relay_fd_high(int *fd);
void relay_close(int *fd);

#endif
