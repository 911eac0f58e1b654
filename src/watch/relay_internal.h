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

/* Our descriptors have numbers above those that shells and programs name themselves. */
#define RELAY_FD_MIN 10

/*
 * While sampling: bytes that were carried, but not looked at yet. Two pipes take turns. While one
 * fills, the other keeps the bytes before, so that the last 32 KiB before a pause or the end are kept.
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
    uint64_t published[MATCH_KINDS]; /* matches that the shared counts include already */

    /* The current line of a report. Only whole lines are kept. */
    char line[REPORT_LINE_MAX];
    size_t line_len;
    bool line_lost; /* its beginning was skipped, or it is too long */
    uint64_t reports_seen;
    uint64_t report_window_ns;    /* start of the current second ... */
    uint64_t report_window_bytes; /* ... and the bytes searched for lines in it */

    /* A failure and the lines around it, as offsets in the output. */
    uint64_t found_from;         /* everything before this offset is kept already */
    uint64_t found_to;           /* keep the output up to this offset */
    bool found_within_line;      /* found_from lies within a line */
    uint64_t found_window_ns;    /* start of the current second ... */
    uint64_t found_window_bytes; /* ... and the bytes kept in it */

    struct peek_pipe peek[2];
    unsigned peek_active;
    size_t ahead; /* bytes at the head of relay->from that were looked at or set aside already */
    size_t since_newline; /* bytes that were looked at since the last newline */

    bool blind;     /* no pipes to look with: the bytes are carried, but neither kept nor matched */
    bool sampling;  /* the output is too fast to look at every byte */
    bool gives_way; /* this process runs as SCHED_BATCH */
    bool skipped;   /* bytes were dropped unseen since the last look */
    bool resync;    /* keep nothing until a line begins: redaction may miss a secret in half a line */
    uint64_t window_start_ns;
    uint64_t window_bytes;

    int null_fd; /* /dev/null, or -1 */
    /* splice() cannot write to a terminal that is open for appending, and waits for a socket in spite of
     * SPLICE_F_NONBLOCK before Linux 6.5. */
    bool no_down_splice;

    /* relay_wait.c */
    bool something_waits; /* at the last look relay->from had bytes, or was at its end */
    int bell[2];          /* a pipe that is always empty; -1: poll() is used instead */
    pthread_t main_thread;
    bool ticking; /* SIGALRM comes every 20 ms */

    /* relay_terminal.c */
    bool no_master_splice; /* splice() cannot read this pty (Linux 5.10 without read_iter) */
    struct termios real_seen, pty_seen;
    uint64_t active_ns; /* when bytes last came */
    size_t burst;       /* bytes that came since the pty was last seen empty, with no write() that goes on */
    bool in_background; /* the target was a background job at the last look: ignore its modes */
};

/* relay_look.c: matches and keeps the bytes that are carried. */
void look_init(struct carrier *c);
void look_at(struct carrier *c, const void *data, size_t len);
/* Copies the new bytes of relay->from and leaves them in the pipe. Returns the number of bytes that
 * may be carried now (of a terminal some may have stayed from before), 0 at end of file, -EAGAIN when the pipe is empty. */
ssize_t look_ahead(struct carrier *c);
/* While the caller's end is blocked: look at the bytes that came after `ahead`. */
void look_behind(struct carrier *c);
/* Look at the bytes that were set aside while sampling. */
void look_catch_up(struct carrier *c);
/* Call it when bytes were skipped. Nothing is kept until the next line begins. */
void look_gap(struct carrier *c);
void look_rate(struct carrier *c, size_t carried);
/* Reads `len` bytes from a pipe that holds them. Returns how many it read. */
ssize_t look_read_all(int fd, char *data, size_t len);
/* How many bytes there are up to the last newline; without one all. */
size_t look_whole_lines(const char *data, size_t len);
/* Takes `len` bytes out of a pipe without looking at them. */
void look_discard(struct carrier *c, int fd, size_t len);
extern char look_buffer[CARRY_CHUNK_BYTES];

/* relay_report.c: writes lines about the use of memory (for stdout: also lines about failures) into
 * the shared ring. Call it after matcher_feed(). */
void report_look(struct carrier *c, const char *data, size_t len);
/* Call it at the end of the output. */
void report_end(struct carrier *c);
/* Call it when bytes were skipped: the next bytes are the rest of some line. */
void report_gap(struct carrier *c);

/* relay_found.c: writes failure messages and the lines around them into the shared ring. Call it when
 * the last `len` bytes of the output's ring are new. */
void found_look(struct carrier *c, size_t len);

/* relay_carry.c */
void carry_turn(struct carrier *c);
void carry_idle(struct carrier *c);
_Noreturn void carry_done(struct carrier *c);
_Noreturn void carry_run(struct carrier *c);
/* The reader has gone. Without us the target's next write would fail, so close the pipe's read end. */
_Noreturn void carry_hung_up(struct carrier *c, int error);

/* relay_wait.c */
void wait_init(struct carrier *c);
/* Waits until relay->from or the pty may have bytes. If none come for a while, it looks at the bytes
 * that were set aside. */
void wait_for_bytes(struct carrier *c);
/* `refused`: how often in a row the write failed with EAGAIN although poll() reported room. A terminal
 * with room for one byte does that if the byte is a newline, which it writes as two. */
void wait_for_room(struct carrier *c, unsigned *refused);

/* relay_terminal.c */
int terminal_plan(struct relay *relay, struct rc_err *err);
/* Moves bytes from the pty into relay->feed, as many as fit; that must be empty if no_master_splice. Returns the number of
 * bytes, 0 when every slave is closed, or -EAGAIN. */
ssize_t terminal_feed(struct carrier *c);
/* While a program's write() of a line goes on, takes more of it. Returns how many of the last bytes of relay->from should
 * stay there until the rest of their line comes. */
size_t terminal_finish_line(struct carrier *c);
void terminal_modes_init(struct carrier *c);
void terminal_modes_sync(struct carrier *c);
/* How many bytes of relay->asked wait, and taking so many out: programs wait until all output of before is carried. */
int terminal_asked(const struct carrier *c);
void terminal_answer(const struct carrier *c, int asked);
int terminal_wait_ms(const struct carrier *c);

/* follow_file.c */
int file_plan(struct relay *relay, struct rc_err *err);
bool file_pending(const struct relay *relay, uint64_t read_bytes);
_Noreturn void file_run(struct carrier *c);

/* relay.c: moves *fd to RELAY_FD_MIN or above, close-on-exec. 0 or -errno. */
int relay_fd_high(int *fd);
/* pipe2() with both ends there. */
int relay_pipe_high(int ends[2], int flags);
void relay_close(int *fd);

#endif
