/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void reply(int fd, uint64_t unique, int error, const void *data, size_t len)
{
    struct fuse_out_header out = {
        .len = (uint32_t)(sizeof out + len), .error = error, .unique = unique};
    struct iovec parts[2] = {{&out, sizeof out}, {(void *)(uintptr_t)data, len}};
    (void)!writev(fd, parts, len > 0 ? 2 : 1);
}

static void reply_init(int fd, const struct fuse_in_header *in)
{
    struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
                                 .minor = FUSE_KERNEL_MINOR_VERSION,
                                 .max_readahead = 0,
                                 .max_write = 4096};
    reply(fd, in->unique, 0, &init, sizeof init);
}

static void reply_attr(int fd, const struct fuse_in_header *in)
{
    struct fuse_attr_out attr = {.attr_valid = 1};
    attr.attr.ino = 1;
    attr.attr.size = 4096; /* as sysfs reports it */
    attr.attr.mode = S_IFREG | 0444;
    attr.attr.nlink = 1;
    reply(fd, in->unique, 0, &attr, sizeof attr);
}

static void reply_read(int fd, const struct fuse_in_header *in, struct fuse_file_control *control,
                       const char *text)
{
    const struct fuse_read_in *read_in = (const struct fuse_read_in *)(const void *)(in + 1);
    control->reads++;
    if (control->hang)
        return;
    struct timespec delay = {0, control->delay_us * 1000L};
    if (control->delay_us > 0)
        (void)nanosleep(&delay, NULL);
    char number[32];
    if (control->counting) {
        (void)snprintf(number, sizeof number, "%lu\n", strtoul(text, NULL, 10) + control->reads);
        text = number;
    }
    size_t len = strlen(text);
    reply(fd, in->unique, 0, text, read_in->offset >= len ? 0 : len);
}

static _Noreturn void serve(int fd, struct fuse_file_control *control, const char *text)
{
    static _Alignas(8) char request[1 << 17];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        ssize_t len = read(fd, request, sizeof request);
        if (len < 0 && (errno == EINTR || errno == ENOENT))
            continue;
        if (len < (ssize_t)sizeof(struct fuse_in_header))
            _exit(0);
        const struct fuse_in_header *in = (const struct fuse_in_header *)(const void *)request;
        struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};
        switch (in->opcode) {
        case FUSE_INIT:
            reply_init(fd, in);
            break;
        case FUSE_GETATTR:
            reply_attr(fd, in);
            break;
        case FUSE_OPEN:
            reply(fd, in->unique, 0, &opened, sizeof opened);
            break;
        case FUSE_READ:
            reply_read(fd, in, control, text);
            break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            break; /* no answer is expected */
        case FUSE_FLUSH:
        case FUSE_RELEASE:
            reply(fd, in->unique, 0, NULL, 0);
            break;
        default:
            reply(fd, in->unique, -ENOSYS, NULL, 0);
        }
    }
}

int fuse_file_mount(struct fuse_file *f, const char *path, const char *text)
{
    char options[128];
    f->path = path;
    f->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (f->fd < 0)
        return -errno;
    f->control = mmap(NULL, sizeof *f->control, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=100444,user_id=%u,group_id=%u", f->fd,
                   getuid(), getgid());
    if (mount("rocmcrash-test", path, "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        int r = -errno;
        (void)close(f->fd);
        return r;
    }
    f->server = fork();
    if (f->server == 0)
        serve(f->fd, f->control, text);
    (void)close(f->fd); /* end of file at the server means that the mount is gone */
    f->fd = -1;
    return f->server < 0 ? -errno : 0;
}

void fuse_file_unmount(struct fuse_file *f)
{
    (void)kill(f->server, SIGKILL);
    (void)waitpid(f->server, NULL, 0);
    (void)umount2(f->path, MNT_DETACH);
    (void)munmap(f->control, sizeof *f->control);
}
