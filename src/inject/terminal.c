/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "inject/next.h"
#include "inject/raw.h"

#define EXPORT __attribute__((visibility("default")))
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

/* Names the real terminal for a descriptor of /dev/tty, too. 0 = no terminal. A filter of system calls may allow those that
 * the program makes, but not GDEV; so that is asked for /dev/tty only. */
static uint32_t device_of(int fd)
{
    struct stat st;
    uint32_t device = 0;
    if (raw_call(SYS_fstat, fd, &st, 0, 0) != 0 || !S_ISCHR(st.st_mode))
        return 0;
    if (st.st_rdev != makedev(TTYAUX_MAJOR, 0))
        return (uint32_t)st.st_rdev; /* both as the kernel's new_encode_dev() */
    return raw_call(SYS_ioctl, fd, GDEV, &device, 0) == 0 ? device : 0;
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

static struct opened open_real(void)
{
    if (device_of(0) == pair.real)
        return (struct opened){0, false};
    int fd = (int)raw_call(SYS_openat, AT_FDCWD, "/dev/tty",
                           O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return (struct opened){-1, false};
    if (device_of(fd) == pair.real)
        return (struct opened){fd, true};
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    return (struct opened){-1, false};
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

int terminal_set(const struct terminal_call *call, terminal_call_fn set)
{
    uint32_t device = pair.pty != 0 && call->modes != NULL ? device_of(call->fd) : 0;
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
