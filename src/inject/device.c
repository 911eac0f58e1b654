/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/device.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "inject/next.h"
#include "inject/raw.h"

#define REMEMBERED 4096
#define DRM_MAJOR 226u
#define MINOR_UNKNOWN 1u

/* include/uapi/linux/kfd_ioctl.h and include/uapi/drm/drm.h; stable since they exist. */
#define KFD_GET_VERSION 0x80084b01ul
#define DRM_GET_VERSION 0xc0406400ul

struct drm_version {
    int major, minor, patch;
    size_t name_len;
    char *name;
    size_t date_len;
    char *date;
    size_t description_len;
    char *description;
};

/* 0 = not known; else the kind, for render nodes with the minor number above it. */
static _Atomic uint16_t remembered[REMEMBERED];

/* Ask through the next library: it may emulate a driver for this descriptor. */
static uint32_t ask_minor(int fd)
{
    int (*ask)(int, struct stat *);
    struct stat st;
    *(void **)&ask = next_function(NEXT_fstat);
    long r = ask != NULL ? ask(fd, &st) : raw_call(SYS_fstat, fd, &st, 0, 0);
    return r == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == DRM_MAJOR &&
                   minor(st.st_rdev) < 4096
               ? minor(st.st_rdev)
               : MINOR_UNKNOWN;
}

static uint16_t ask(int fd, device_ioctl_fn next)
{
    uint32_t version[2];
    char name[8] = "";
    struct drm_version drm = {.name_len = sizeof name - 1, .name = name};
    if (next(fd, KFD_GET_VERSION, version) == 0)
        return DEVICE_KFD;
    if (next(fd, DRM_GET_VERSION, &drm) == 0 && raw_same(name, "amdgpu"))
        return (uint16_t)(DEVICE_RENDER | ask_minor(fd) << 4);
    return DEVICE_OTHER;
}

static uint16_t look(int fd)
{
    return fd >= 0 && fd < REMEMBERED ? atomic_load_explicit(&remembered[fd], memory_order_relaxed)
                                      : 0;
}

enum device_kind device_known(int fd)
{
    return (enum device_kind)(look(fd) & 15);
}

enum device_kind device_kind_anew(int fd, device_ioctl_fn next)
{
    uint16_t word = ask(fd, next);
    if (fd >= 0 && fd < REMEMBERED)
        atomic_store_explicit(&remembered[fd], word != DEVICE_OTHER ? word : 0,
                              memory_order_relaxed);
    return (enum device_kind)(word & 15);
}

enum device_kind device_kind(int fd, device_ioctl_fn next)
{
    enum device_kind known = device_known(fd);
    return known != DEVICE_OTHER ? known : device_kind_anew(fd, next);
}

uint32_t device_minor(int fd)
{
    uint32_t minor_number = look(fd) >> 4;
    if (fd >= REMEMBERED)
        minor_number = ask_minor(fd);
    return minor_number != MINOR_UNKNOWN ? minor_number : 0;
}

bool device_is_render_node(int fd, device_ioctl_fn next)
{
    return device_known(fd) == DEVICE_RENDER ||
           (ask_minor(fd) != MINOR_UNKNOWN && device_kind(fd, next) == DEVICE_RENDER);
}

void device_forget(int fd)
{
    if (fd >= 0 && fd < REMEMBERED &&
        atomic_load_explicit(&remembered[fd], memory_order_relaxed) != 0)
        atomic_store_explicit(&remembered[fd], 0, memory_order_relaxed);
}
