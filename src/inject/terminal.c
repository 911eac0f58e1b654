/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

#include "inject/next.h"
#include "inject/raw.h"

#define EXPORT __attribute__((visibility("default")))
#define DRAIN_LOOK_NS 50000
#define DRAIN_LOOKS 500 /* about 50 ms: the kernel adds some 50 us to each pause */
#define KERNEL_NCCS 19 /* include/uapi/asm-generic/termbits.h */

/* include/uapi/asm-generic/ioctls.h; <sys/ioctl.h> has most, but not the `2` ones for this struct. */
#define GETS 0x5401ul
#define SETS 0x5402ul
#define SETSF 0x5404ul
#define GDEV 0x80045432ul
#define GETS2 0x802c542aul
#define SETS2 0x402c542bul
#define SETSF2 0x402c542dul

/* The beginning that the struct termios of the kernel, of glibc and of musl have in common. */
struct terminal_modes {
    uint32_t input, output, control, local;
    uint8_t line, keys[KERNEL_NCCS];
};

static struct terminal_pair pair;

void terminal_init(const struct terminal_pair *ends)
{
    pair = *ends;
}

bool terminal_gets_modes(unsigned long request)
{
    return request == GETS || request == GETS2;
}

bool terminal_sets_modes(unsigned long request)
{
    return (request >= SETS && request <= SETSF) || (request >= SETS2 && request <= SETSF2);
}

/* Names the real terminal for a descriptor of /dev/tty, too. 0 = no terminal. By ioctl(): a filter of system calls that lets
 * the program set modes lets that through, and may kill it for another call. */
static uint32_t device_of(int fd)
{
    uint32_t device = 0;
    return raw_call(SYS_ioctl, fd, GDEV, &device, 0) == 0 ? device : 0;
}

/* Open for reading, too: a pipe whose reader has died would send SIGPIPE. */
static int open_asked(void)
{
    char path[64] = "/proc/", link[40];
    size_t n = 6 + raw_put_number(path + 6, pair.supervisor, 10);
    n += raw_put(path + n, sizeof path - n, "/fd/");
    (void)raw_put_number(path + n, pair.asked, 10);
    long len = raw_call(SYS_readlinkat, AT_FDCWD, path, link, sizeof link - 1);
    if (len <= 0)
        return -1;
    link[len] = '\0';
    const char *inode = link + sizeof "pipe:[" - 1;
    if (!raw_starts(link, "pipe:[") || raw_number(&inode, 10) != pair.asked_inode)
        return -1;
    return (int)raw_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
}

void terminal_drain(void)
{
    const struct timespec pause = {.tv_nsec = DRAIN_LOOK_NS};
    int bytes = 1;
    int fd = pair.pty != 0 ? open_asked() : -1;
    if (fd < 0)
        return;
    if (raw_call(SYS_write, fd, "", 1, 0) == 1)
        for (int i = 0; i < DRAIN_LOOKS && bytes > 0; i++) {
            (void)raw_call(SYS_nanosleep, &pause, 0, 0, 0);
            if (raw_call(SYS_ioctl, fd, FIONREAD, &bytes, 0) != 0)
                break;
        }
    (void)raw_call(SYS_close, fd, 0, 0, 0);
}

static bool get_modes(int fd, struct terminal_modes *modes)
{
    return raw_call(SYS_ioctl, fd, GETS, modes, 0) == 0;
}

static int failed(long r)
{
    errno = (int)-r;
    return -1;
}

struct opened {
    int fd; /* -1 = none */
    bool is_ours;
};

static struct opened open_controlling(void)
{
    int fd = (int)raw_call(SYS_openat, AT_FDCWD, "/dev/tty",
                           O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return (struct opened){-1, false};
    if (device_of(fd) == pair.real)
        return (struct opened){fd, true};
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    return (struct opened){-1, false};
}

static struct opened open_real(void)
{
    return device_of(0) == pair.real ? (struct opened){0, false} : open_controlling();
}

static void close_real(const struct opened *real)
{
    if (real->is_ours)
        (void)raw_call(SYS_close, real->fd, 0, 0, 0);
}

/* `modes`, but c_oflag (all but OPOST) as in `output`: the relay copies that. */
static struct terminal_modes with_output(const struct terminal_modes *modes, uint32_t output)
{
    struct terminal_modes all = *modes;
    all.output = (output & ~(uint32_t)OPOST) | (modes->output & OPOST);
    return all;
}

static struct terminal_modes without_opost(const struct terminal_modes *modes)
{
    struct terminal_modes all = *modes;
    all.output &= ~(uint32_t)OPOST;
    return all;
}

static unsigned long request_of_kernel(unsigned long request)
{
    return request > SETSF ? request - SETS2 + SETS : request;
}

static int set_on_pty(const struct terminal_call *call, terminal_call_fn set)
{
    struct terminal_modes modes;
    struct opened real = open_real();
    int r = 0;
    if (real.fd >= 0 && get_modes(real.fd, &modes)) {
        modes = with_output(call->modes, modes.output);
        r = (int)raw_call(SYS_ioctl, real.fd, request_of_kernel(call->request), &modes, 0);
    }
    close_real(&real);
    if (r < 0) /* EINTR, EIO: a background job gets them from the real terminal */
        return failed(r);
    r = set(call);
    if (get_modes(call->fd, &modes) && (modes.output & OPOST) != 0) {
        modes = without_opost(&modes);
        (void)raw_call(SYS_ioctl, call->fd, SETS, &modes, 0);
    }
    return r;
}

static int set_on_real(const struct terminal_call *call, terminal_call_fn set)
{
    int r = set(call);
    struct terminal_modes modes = without_opost(call->modes);
    for (int fd = 2; r == 0 && fd > 0; fd--) {
        if (device_of(fd) == pair.pty) {
            (void)raw_call(SYS_ioctl, fd, SETS, &modes, 0);
            break;
        }
    }
    return r;
}

static bool waits_for_output(unsigned long request)
{
    return request != SETS && request != SETS2;
}

int terminal_set(const struct terminal_call *call, terminal_call_fn set)
{
    uint32_t device = pair.pty != 0 && call->modes != NULL ? device_of(call->fd) : 0;
    bool is_ours = device != 0 && (device == pair.pty || device == pair.real);
    if (is_ours && waits_for_output(call->request))
        terminal_drain();
    if (device != 0 && device == pair.pty)
        return set_on_pty(call, set);
    if (device != 0 && device == pair.real)
        return set_on_real(call, set);
    return set(call);
}

void terminal_got(int fd, struct terminal_modes *modes)
{
    struct terminal_modes all;
    if (pair.pty == 0 || modes == NULL || device_of(fd) != pair.pty)
        return;
    struct opened real = open_real();
    if (real.fd >= 0 && get_modes(real.fd, &all))
        *modes = with_output(&all, modes->output);
    close_real(&real);
}

/* --- programs that need the real one --- */

#define KEPT_FD_MIN 10

bool terminal_is_relayed(void)
{
    return pair.pty != 0 && (device_of(0) == pair.pty || device_of(1) == pair.pty || device_of(2) == pair.pty);
}

/* For reading and writing: fd 0 may be open for reading only. A number of /dev/pts is not enough to open it by: in another
 * mount namespace that may be another terminal. */
static struct opened open_real_for_both(void)
{
    struct opened real = {0, false};
    if (device_of(0) == pair.real && (raw_call(SYS_fcntl, 0, F_GETFL, 0, 0) & O_ACCMODE) == O_RDWR)
        return real;
    real = open_controlling();
    if (real.fd >= 0) /* O_NONBLOCK was for the opening */
        (void)raw_call(SYS_fcntl, real.fd, F_SETFL, 0, 0);
    return real;
}

/* A copy of the former one. -1 = it stays as it is; so does one that the exec closes. */
static int replace_pty(int fd, int real)
{
    if (device_of(fd) != pair.pty || raw_call(SYS_fcntl, fd, F_GETFD, 0, 0) != 0)
        return -1;
    long copy = raw_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, KEPT_FD_MIN, 0);
    if (copy < 0 || raw_call(SYS_dup3, real, fd, 0, 0) >= 0)
        return (int)copy;
    (void)raw_call(SYS_close, copy, 0, 0, 0);
    return -1;
}

void terminal_give_back(struct terminal_kept *kept)
{
    struct opened real = open_real_for_both();
    if (real.fd >= 0)
        terminal_drain(); /* the program draws past the relay */
    for (int fd = 0; fd < 3; fd++)
        kept->fds[fd] = real.fd >= 0 ? replace_pty(fd, real.fd) : -1;
    close_real(&real);
}

void terminal_take_again(const struct terminal_kept *kept)
{
    for (int fd = 0; fd < 3; fd++) {
        if (kept->fds[fd] < 0)
            continue;
        (void)raw_call(SYS_dup3, kept->fds[fd], fd, 0, 0);
        (void)raw_call(SYS_close, kept->fds[fd], 0, 0, 0);
    }
}

/* --- the functions of libc --- */

typedef int (*tcgetattr_fn)(int, struct termios *);
typedef int (*tcsetattr_fn)(int, int, const struct termios *);

EXPORT int tcgetattr(int fd, struct termios *modes)
{
    tcgetattr_fn next;
    *(void **)&next = next_function(NEXT_tcgetattr);
    long r = next != NULL ? next(fd, modes) : raw_call(SYS_ioctl, fd, GETS, modes, 0);
    if (r == 0)
        terminal_got(fd, (void *)modes);
    return r < -1 ? failed(r) : (int)r;
}

static int set_by_libc(const struct terminal_call *call)
{
    tcsetattr_fn next;
    *(void **)&next = next_function(NEXT_tcsetattr);
    if (next != NULL)
        return next(call->fd, (int)(call->request - SETS), (const void *)call->modes);
    long r = raw_call(SYS_ioctl, call->fd, call->request, call->modes, 0);
    return r == 0 ? 0 : failed(r);
}

EXPORT int tcsetattr(int fd, int action, const struct termios *modes)
{
    struct terminal_call call = {fd, SETS + (unsigned long)(unsigned)action, (const void *)modes};
    bool is_valid = action >= TCSANOW && action <= TCSAFLUSH; /* else EINVAL */
    return is_valid ? terminal_set(&call, set_by_libc) : set_by_libc(&call);
}

/* --- what else acts on the real terminal --- */

bool terminal_is_pty(int fd)
{
    return pair.pty != 0 && device_of(fd) == pair.pty;
}

void terminal_repeat(unsigned long request, const void *arg)
{
    struct opened real = open_real();
    if (real.fd >= 0)
        (void)raw_call(SYS_ioctl, real.fd, request, arg, 0);
    close_real(&real);
}

typedef int (*tcdrain_fn)(int);
typedef int (*tcflush_fn)(int, int);

EXPORT int tcdrain(int fd)
{
    tcdrain_fn next;
    *(void **)&next = next_function(NEXT_tcdrain);
    if (terminal_is_pty(fd))
        terminal_drain();
    long r = next != NULL ? next(fd) : raw_call(SYS_ioctl, fd, TCSBRK, 1, 0);
    return r < -1 ? failed(r) : (int)r;
}

/* Typed characters that nobody has read are in the queue of the real terminal. */
EXPORT int tcflush(int fd, int queue)
{
    tcflush_fn next;
    *(void **)&next = next_function(NEXT_tcflush);
    long r = next != NULL ? next(fd, queue) : raw_call(SYS_ioctl, fd, TCFLSH, queue, 0);
    if (r == 0 && queue != TCOFLUSH && terminal_is_pty(fd))
        terminal_repeat(TCFLSH, (const void *)(intptr_t)TCIFLUSH);
    return r < -1 ? failed(r) : (int)r;
}
