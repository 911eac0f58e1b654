/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay process: its set-up and the loop that carries bytes from relay->from to relay->down.
 * At any moment each byte is in exactly one of the kernel's buffers. S holds all these buffers, too.
 */
#include "watch/relay_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "record/shared.h"

#define COPY_BYTES 4096u
/* If the terminal cannot be reopened, a write may block. This much always fits after POLLOUT. */
#define BLOCKING_WRITE_BYTES 200u

void carry_turn(struct carrier *c)
{
    struct shared_helper *me = c->me;
    uint64_t now = clock_mono_ns();
    atomic_store(&me->heartbeat_ns, now);
    if (atomic_load(&me->work_pending_ns) == 0)
        atomic_store(&me->work_pending_ns, now);
}

void carry_idle(struct carrier *c)
{
    atomic_store(&c->me->work_pending_ns, 0);
}

_Noreturn void carry_done(struct carrier *c)
{
    look_catch_up(c);
    report_end(c);
    carry_idle(c);
    _exit(0);
}

_Noreturn void carry_hung_up(struct carrier *c, int error)
{
    atomic_store(&c->carried->downstream_closed, 1);
    shared_event(c->shared, "relay", "the reader of %s is gone (%s)",
                 c->lines_only ? "stdout" : "stderr", strerror(error));
    relay_drop(c->relay);
    carry_done(c);
}

static size_t copy_bytes_max(int down)
{
    bool may_block = (fcntl(down, F_GETFL) & O_NONBLOCK) == 0;
    return may_block ? BLOCKING_WRITE_BYTES : COPY_BYTES;
}

/* Does the work of move_some() where splice() cannot. A SIGKILL between write and discard makes the piece
 * appear twice. It is never lost. */
static ssize_t copy_some(struct carrier *c, size_t len)
{
    struct peek_pipe *p = &c->peek[c->peek_active ^ 1u];
    int down = c->relay->down;
    bool to_socket = c->relay->down_is_socket;
    size_t max = to_socket ? COPY_BYTES : copy_bytes_max(down);
    look_catch_up(c);
    ssize_t n = tee(c->relay->from, p->write_end, len < max ? len : max, SPLICE_F_NONBLOCK);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    n = look_read_all(p->read_end, look_buffer, (size_t)n);
    if (n > 0 && (size_t)n < len) /* others may write to the caller's end, too */
        n = (ssize_t)look_whole_lines(look_buffer, (size_t)n);
    ssize_t put = n;
    if (n > 0)
        put = to_socket ? send(down, look_buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) : write(down, look_buffer, (size_t)n);
    if (put < 0)
        return -errno;
    look_discard(c, c->relay->from, (size_t)put);
    return put;
}

/* Moves the head of relay->from to the caller's end. Returns the number of bytes, or -errno. */
static ssize_t move_some(struct carrier *c, size_t len)
{
    struct relay *relay = c->relay;
    if (!c->no_down_splice) {
        ssize_t n = splice(relay->from, NULL, relay->down, NULL, len, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n >= 0)
            return n;
        if (errno != EINVAL || relay->way != RELAY_TERMINAL)
            return -errno;
        c->no_down_splice = true;
    }
    return copy_some(c, len);
}

/* All bytes that were looked at but the last `stay`. */
static void move_ahead(struct carrier *c, size_t stay)
{
    unsigned refused = 0;
    while (c->ahead > stay) {
        ssize_t n = move_some(c, c->ahead - stay);
        if (n > 0) {
            c->ahead -= (size_t)n;
            refused = 0;
            (void)atomic_fetch_add(&c->carried->bytes, (uint64_t)n);
            look_rate(c, (size_t)n);
        } else if (n == -EAGAIN || n == -EINTR) {
            wait_for_room(c, &refused);
        } else {
            carry_hung_up(c, n == 0 ? EPIPE : (int)-n);
        }
    }
}

_Noreturn void carry_run(struct carrier *c)
{
    bool terminal = c->relay->way == RELAY_TERMINAL;
    for (;;) {
        carry_turn(c);
        ssize_t n = look_ahead(c);
        if (n > 0) {
            move_ahead(c, terminal ? terminal_finish_line(c) : 0);
            continue;
        }
        if (terminal) {
            int asked = terminal_asked(c);
            n = terminal_feed(c);
            c->something_waits = n > 0;
            terminal_modes_sync(c); /* before the bytes are carried: these modes apply to them */
            if (n == -EAGAIN)
                terminal_answer(c, asked); /* the pty and the pipe behind it are empty */
        }
        if (n == 0)
            carry_done(c);
        if (n == -EAGAIN)
            wait_for_bytes(c);
        else if (n < 0 && n != -EINTR)
            carry_hung_up(c, (int)-n);
    }
}

static int compare_int(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* O may outlive the target. It must not keep a lock file, a socket or somebody's pipe open. */
static void close_all_but(int *keep, size_t count)
{
    qsort(keep, count, sizeof *keep, compare_int);
    unsigned from = 0;
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < 0)
            continue;
        if ((unsigned)keep[i] > from)
            close_descriptors(from, (unsigned)keep[i] - 1);
        from = (unsigned)keep[i] + 1;
    }
    close_descriptors(from, ~0u);
}

static void leave_the_caller(struct carrier *c)
{
    struct relay *relay = c->relay;
    (void)setsid(); /* no signals from the terminal, and no SIGTTOU for tcsetattr() */
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL); /* O ends at end of file, and gets EPIPE, not SIGPIPE */
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    if (chdir("/") != 0) /* so that no file system stays busy */
        shared_event(c->shared, "relay", "cannot leave the working directory");
    relay_parent_after_fork(relay);
    int keep[] = {relay->down, relay->from, relay->feed, relay->master, relay->asked[0], relay->file};
    close_all_but(keep, sizeof keep / sizeof keep[0]);
    for (int fd = 0; fd < 3; fd++)
        (void)open("/dev/null", O_RDWR);
}

static struct carrier the_carrier;

_Noreturn void relay_run(struct relay *relay, struct shared *shared)
{
    struct carrier *c = &the_carrier;
    bool is_stdout = relay->stream == STDOUT_FILENO;
    *c = (struct carrier){
        .relay = relay,
        .shared = shared,
        .me = &shared->helpers[relay_helper(relay)],
        .carried = is_stdout ? &shared->stdout_carried : &shared->stderr_carried,
        .lines_only = is_stdout,
        .null_fd = -1,
        .no_down_splice = relay->down_is_socket,
    };
    if (relay->way == RELAY_FILE && relay->file_appends == false) {
        /* fd 2 and the target's fd 2 share one position. The target writes next at that
         * position. */
        relay->down = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, RELAY_FD_MIN);
    }
    leave_the_caller(c);
    c->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    carry_idle(c);
    carry_turn(c);
    if (relay->way == RELAY_NONE)
        _exit(0);
    match_words.room = relay->words;
    look_init(c);
    wait_init(c);
    if (relay->way == RELAY_FILE)
        file_run(c);
    if (relay->way == RELAY_TERMINAL)
        terminal_modes_init(c);
    carry_run(c);
}
