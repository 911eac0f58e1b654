/* SPDX-License-Identifier: Apache-2.0 */
#include "redirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "emulator.h"
#include "fdinfo.h"
#include "machine.h"

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "/proc/self/fdinfo/5" -> "/proc/4711/fdinfo/5"; the link /proc/self is the real machine's. */
static bool is_drm_of_process(const char *path, char own[64])
{
    int pid = 0;
    int fd = 0;
    int end = 0;
    char what[8] = "";
    if (starts(path, "/proc/self/"))
        (void)snprintf(own, 64, "/proc/%d/%.40s", getpid(), path + strlen("/proc/self/"));
    else
        (void)snprintf(own, 64, "%.60s", path);
    return sscanf(own, "/proc/%d/%7[a-z]/%d%n", &pid, what, &fd, &end) == 3 &&
           own[end] == '\0' && (strcmp(what, "fdinfo") == 0 || strcmp(what, "fd") == 0);
}

static bool is_there(const char *path)
{
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Another process has just opened a render node and writes its fdinfo at this moment: in the kernel
 * both are one step. */
static bool appears(const char *path, const char *inside)
{
    char link[64];
    struct node node;
    int pid = 0;
    int fd = 0;
    if (sscanf(inside, "/proc/%d/fdinfo/%d", &pid, &fd) != 2 || fd >= FDINFO_FDS)
        return false;
    (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, fd);
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 50 && node_of_link(link, &node) && node.kind == NODE_RENDER; i++) {
        (void)nanosleep(&pause, NULL);
        if (is_there(path))
            return true;
    }
    return false;
}

const char *redirect(const char *path, char out[PATH_MAX])
{
    char own[64];
    if (path == NULL || path[0] != '/' || !emulator_on())
        return path;
    const char *inside = path;
    if (starts(path, "/proc/")) {
        if (is_drm_of_process(path, own))
            inside = own;
        else if (strcmp(path, "/proc/modules") != 0 && strcmp(path, "/proc/meminfo") != 0)
            return path;
    } else if (!starts(path, "/sys/") && strcmp(path, "/sys") != 0 && !starts(path, "/dev/")) {
        return path;
    }
    int saved = errno;
    bool found = file_path(out, PATH_MAX, "%s", inside) &&
                 (is_there(out) || (inside == own && appears(out, inside)));
    errno = saved;
    return found ? out : path;
}

bool redirect_is_node(const char *path, struct node *ret)
{
    int minor = 0;
    int end = 0;
    *ret = (struct node){.kind = NODE_NONE};
    if (path == NULL || !starts(path, "/dev/") || !emulator_on())
        return false;
    if (strcmp(path, "/dev/kfd") == 0) {
        ret->kind = NODE_KFD;
        return true;
    }
    int gpu = -1;
    if (sscanf(path, "/dev/dri/renderD%d%n", &minor, &end) == 1 && path[end] == '\0')
        gpu = machine_gpu_by_minor(minor);
    else if (sscanf(path, "/dev/dri/card%d%n", &minor, &end) == 1 && path[end] == '\0')
        gpu = machine_gpu_by_minor(minor + 128);
    if (gpu < 0)
        return false;
    ret->kind = NODE_RENDER;
    ret->gpu = (unsigned)gpu;
    return true;
}

void redirect_strip(char *path)
{
    if (path != NULL && machine.root_len > 0 &&
        strncmp(path, machine.root, machine.root_len) == 0 && path[machine.root_len] == '/')
        memmove(path, path + machine.root_len, strlen(path + machine.root_len) + 1);
}

void *redirect_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
