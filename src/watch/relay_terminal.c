/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal as stderr: the target gets a pty, its bytes go on to the real terminal unchanged.
 *
 * The pty does no output processing (OPOST off), because the real terminal does it. Modes that the
 * program changes on the pty are changed on the real terminal, too, bit by bit. The other direction
 * is needed as well: programs also change modes of the real terminal through fd 0.
 *
 * A shell at a prompt and a program that draws get the real terminal (inject/terminal_need.h). For all others these
 * differences remain: ttyname(2) names the pty; tcgetpgrp(2) fails with ENOTTY; OPOST reads as
 * off; tcdrain() returns before the real terminal has all bytes; `stty tostop` does not stop a
 * background target; a change of modes takes effect up to one chunk or 50 ms late where the library
 * in the target does not make it on both (inject/terminal.h).
 */
#include "watch/relay_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/proc_stat.h"
#include "record/shared.h"

#define FEED_BYTES (32 << 10)
/* A write() of so many bytes comes in one piece, if the pty has room for it. */
#define WHOLE_WRITE_BYTES 2048
/* More is carried up to the last newline without a wait for the rest: as much as the pty gives at once. */
#define TOGETHER_BYTES 4095
/* Longer lines are carried in pieces. On a busy machine the program may have to wait for its turn between two pieces. */
#define LINE_BYTES ((size_t)16 << 10)
#define LINE_WAIT_MS 1
#define LINE_WAITS 50
#define BUSY_WAIT_MS 50
#define QUIET_WAIT_MS 250
#define QUIET_AFTER_NS 1000000000u

/* Opens the real terminal again. So our O_NONBLOCK affects nobody else, and an inherited O_APPEND
 * (2>>/dev/tty), with which splice(2) fails, does not apply. */
static int open_real(int mode)
{
    RC_AUTO_CLOSE int fd = open("/proc/self/fd/2", mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 && stream_same(fd, STDERR_FILENO) ? rc_take_fd(&fd) : -1;
}

/* If it cannot be opened: a copy of fd 2. O waits within its write, as the program would: the kernel lets nobody else write
 * in between, so that lines of several programs stay whole where the terminal is slow. */
static int open_down(void)
{
    int fd = open_real(O_WRONLY);
    if (fd < 0)
        return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, RELAY_FD_MIN);
    (void)fcntl(fd, F_SETFL, 0);
    return fd;
}

/* Without O_CLOEXEC: fcntl(F_GETFL) would show it to the target. No thread of ours forks in between. */
static int open_slave(int master)
{
    int fd = -1;
#ifdef TIOCGPTPEER
    fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY); /* Linux 4.13 */
#endif
    char name[64];
    if (fd < 0 && ptsname_r(master, name, sizeof name) == 0)
        fd = open(name, O_RDWR | O_NOCTTY);
    return fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ? -errno : fd;
}

static int open_pty(struct relay *relay)
{
    relay->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (relay->master < 0)
        return -errno;
    int r = relay_fd_high(&relay->master);
    if (r == 0 && (unlockpt(relay->master) != 0 || fcntl(relay->master, F_SETFL, O_NONBLOCK) != 0))
        r = -errno;
    if (r != 0)
        return r;
    relay->replacement = open_slave(relay->master);
    return relay->replacement < 0 ? relay->replacement : relay_fd_high(&relay->replacement);
}

/* Gives the pty the modes, size, owner and mode bits of the real terminal, and the flags of fd 2. */
static int dress_slave(struct relay *relay)
{
    int slave = relay->replacement;
    if (tcgetattr(relay->down, &relay->planned) != 0)
        return -errno;
    struct termios modes = relay->planned;
    modes.c_oflag &= ~(tcflag_t)OPOST;
    struct winsize size;
    if (tcsetattr(slave, TCSANOW, &modes) != 0 || tcgetattr(slave, &relay->planned_pty) != 0)
        return -errno;
    if (ioctl(relay->down, TIOCGWINSZ, &size) == 0)
        (void)ioctl(slave, TIOCSWINSZ, &size);
    /* A program that changed its user may open /dev/stderr again. It gets EACCES if fchown() fails. */
    struct stat st;
    if (fstat(slave, &st) == 0)
        relay->terminal = st.st_rdev;
    if (fstat(relay->down, &st) == 0 && fchown(slave, st.st_uid, st.st_gid) == 0)
        (void)fchmod(slave, st.st_mode & 0777);
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    return fcntl(slave, F_SETFL, flags & (O_NONBLOCK | O_APPEND)) == 0 ? 0 : -errno;
}

int terminal_plan(struct relay *relay, struct rc_err *err)
{
    relay->down = open_down();
    int r = relay->down < 0 ? -errno : relay_fd_high(&relay->down);
    if (r == 0)
        r = open_pty(relay);
    if (r == 0)
        r = dress_slave(relay);
    if (r != 0)
        return rc_err_errno(err, r, "cannot put a pty in front of the terminal");
    relay->keys = open_real(O_RDONLY);
    r = relay->keys < 0 ? 0 : relay_fd_high(&relay->keys);
    if (r != 0)
        return rc_err_errno(err, r, "cannot place the terminal");
    relay->replacement_stdout = relay->replacement;
    int ends[2] = {-1, -1};
    r = relay_pipe_high(ends, O_NONBLOCK);
    relay->from = ends[0];
    relay->feed = ends[1];
    r = r != 0 ? r : relay_pipe_high(relay->asked, O_NONBLOCK);
    return r == 0 ? 0 : rc_err_errno(err, r, "cannot make a pipe");
}

/* For kernels that cannot splice from a pty. A SIGKILL between read and write loses a chunk. */
static ssize_t feed_by_copy(struct carrier *c)
{
    ssize_t n = read(c->relay->master, look_buffer, 4096);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    ssize_t put = write(c->relay->feed, look_buffer, (size_t)n); /* it was empty: 4096 bytes fit */
    return put < 0 ? -errno : put;
}

/* A slave that takes no bytes although the master has none: a program is within a write(), which lets nobody else write. Opened
 * for this look only: as long as we had it open, the end of the last program would not be seen. */
static bool is_written_to(const struct relay *relay)
{
    RC_AUTO_CLOSE int slave = open_slave(relay->master);
    struct pollfd p = {.fd = slave, .events = POLLOUT};
    return slave >= 0 && poll(&p, 1, 0) == 0;
}

ssize_t terminal_feed(struct carrier *c)
{
    ssize_t n = -EINVAL;
    if (!c->no_master_splice) {
        n = splice(c->relay->master, NULL, c->relay->feed, NULL, FEED_BYTES,
                   SPLICE_F_NONBLOCK);
        n = n < 0 ? -errno : n;
        c->no_master_splice = n == -EINVAL;
    }
    if (c->no_master_splice)
        n = feed_by_copy(c);
    if (n > 0) {
        c->active_ns = clock_mono_ns();
        c->burst += (size_t)n;
    } else if (c->burst < WHOLE_WRITE_BYTES || !is_written_to(c->relay)) {
        c->burst = 0;
    }
    return n == -EIO ? 0 : n; /* EIO: the last slave was closed and everything was read */
}

static size_t unfinished(const struct carrier *c)
{
    return c->since_newline < c->ahead ? c->since_newline : c->ahead;
}

static bool feed_more(struct carrier *c)
{
    if (terminal_feed(c) <= 0)
        return false;
    terminal_modes_sync(c);
    look_behind(c);
    return true;
}

/* False if the line was written so, as a prompt or a progress bar, or if no more of it came in time. */
static bool take_more(struct carrier *c)
{
    struct pollfd p = {.fd = c->relay->master, .events = POLLIN};
    for (int waits = 0; waits < LINE_WAITS; waits++) {
        if (feed_more(c))
            return true;
        if (c->burst == 0)
            return feed_more(c); /* what came before we saw that nobody writes */
        (void)poll(&p, 1, LINE_WAIT_MS);
    }
    return false;
}

size_t terminal_finish_line(struct carrier *c)
{
    while (unfinished(c) > 0 && !c->no_master_splice) { /* a copy is only made into an empty pipe */
        bool has_lines = unfinished(c) < c->ahead;
        if (has_lines && c->ahead >= TOGETHER_BYTES)
            return unfinished(c);
        if (c->since_newline >= LINE_BYTES || !take_more(c))
            return 0;
    }
    return 0;
}

/* "123 (name) S 1 PGRP SESSION TTY TPGID ...". False if the target is a background job: without us,
 * its tcsetattr() would have stopped it. An ended target (Z, X) has TPGID -1: the last answer stays. */
static bool target_in_foreground(struct carrier *c)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)atomic_load(&c->shared->target_pid));
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n <= 0)
        return !c->in_background;
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL || strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0)
        return !c->in_background;
    int pgrp = (int)proc_stat_field(text, 5);
    int tpgid = (int)proc_stat_field(text, 8);
    c->in_background = tpgid > 0 && tpgid != pgrp;
    return !c->in_background;
}

/* The modes that cfmakeraw() sets. It also clears OPOST, which we cannot see: the pty has it off. */
static bool is_made_raw(const struct termios *t)
{
    tcflag_t input = IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON;
    tcflag_t local = ECHO | ECHONL | ICANON | ISIG | IEXTEN;
    return (t->c_iflag & input) == 0 && (t->c_lflag & local) == 0;
}

/* Changes in `to` the bits that differ between `before` and `now`, except OPOST and the line speed. */
static void apply_changes(struct termios *to, const struct termios *before,
                          const struct termios *now)
{
    tcflag_t in = before->c_iflag ^ now->c_iflag;
    tcflag_t out = (before->c_oflag ^ now->c_oflag) & ~(tcflag_t)OPOST;
    tcflag_t control = (before->c_cflag ^ now->c_cflag) & ~(tcflag_t)CBAUD;
    tcflag_t local = before->c_lflag ^ now->c_lflag;
    to->c_iflag = (to->c_iflag & ~in) | (now->c_iflag & in);
    to->c_oflag = (to->c_oflag & ~out) | (now->c_oflag & out);
    to->c_cflag = (to->c_cflag & ~control) | (now->c_cflag & control);
    to->c_lflag = (to->c_lflag & ~local) | (now->c_lflag & local);
    for (size_t i = 0; i < NCCS; i++) {
        if (before->c_cc[i] != now->c_cc[i])
            to->c_cc[i] = now->c_cc[i];
    }
}

static bool same_modes(const struct termios *a, const struct termios *b)
{
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

/* A replacement O also starts from the plan. It sets known changes once more, which has no effect. */
void terminal_modes_init(struct carrier *c)
{
    c->real_seen = c->relay->planned;
    c->pty_seen = c->relay->planned_pty;
    c->active_ns = clock_mono_ns();
}

/* Asks for the modes of the real terminal again: the look into /proc takes as long as getpass(3) needs to change them. Such
 * a change goes first, in the next turn. */
static void push_to_real(struct carrier *c, struct termios *real, const struct termios *pty)
{
    if (tcgetattr(c->relay->down, real) != 0 || !same_modes(real, &c->real_seen))
        return;
    bool was_raw = is_made_raw(&c->pty_seen);
    bool is_raw = is_made_raw(pty);
    apply_changes(real, &c->pty_seen, pty);
    if (is_raw && !was_raw)
        real->c_oflag &= ~(tcflag_t)OPOST;
    if (!is_raw && was_raw)
        real->c_oflag |= c->relay->planned.c_oflag & OPOST;
    if (tcsetattr(c->relay->down, TCSANOW, real) == 0)
        c->pty_seen = *pty;
    if (tcgetattr(c->relay->down, real) == 0)
        c->real_seen = *real;
}

void terminal_modes_sync(struct carrier *c)
{
    struct termios pty, real;
    /* On a master, tcgetattr gives the slave's modes. The pty is asked first: the library in the target (inject/terminal.h)
     * changes the real one first. So its changes are seen on the real one, and are not pushed once more. */
    if (tcgetattr(c->relay->master, &pty) != 0 || tcgetattr(c->relay->down, &real) != 0)
        return;
    if (!same_modes(&real, &c->real_seen)) {
        apply_changes(&pty, &c->real_seen, &real);
        (void)tcsetattr(c->relay->master, TCSANOW, &pty);
        (void)tcgetattr(c->relay->master, &pty);
        /* pty_seen gets the same changes, so that only the program's own changes count as new. */
        apply_changes(&c->pty_seen, &c->real_seen, &real);
        c->real_seen = real;
    }
    if (!same_modes(&pty, &c->pty_seen) && target_in_foreground(c))
        push_to_real(c, &real, &pty);
}

int terminal_asked(const struct carrier *c)
{
    int bytes = 0;
    return ioctl(c->relay->asked[0], FIONREAD, &bytes) == 0 ? bytes : 0;
}

void terminal_answer(const struct carrier *c, int asked)
{
    char bytes[64];
    while (asked > 0) {
        size_t len = (size_t)asked < sizeof bytes ? (size_t)asked : sizeof bytes;
        ssize_t n = read(c->relay->asked[0], bytes, len);
        if (n <= 0)
            return;
        asked -= (int)n;
    }
}

int terminal_wait_ms(const struct carrier *c)
{
    bool busy = clock_mono_ns() - c->active_ns < QUIET_AFTER_NS;
    return busy ? BUSY_WAIT_MS : QUIET_WAIT_MS;
}
