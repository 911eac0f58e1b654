/* SPDX-License-Identifier: Apache-2.0 */
#include "fdinfo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "node.h"
#include "state.h"

static unsigned char gpu_of[FDINFO_FDS]; /* index + 1; 0 = no render node */

uint32_t fdinfo_pasid(int pid)
{
    return 0x8000 + (uint32_t)pid % 0x7000;
}

void fdinfo_opened(int fd, unsigned gpu)
{
    if (fd >= 0 && fd < FDINFO_FDS)
        gpu_of[fd] = (unsigned char)(gpu + 1);
}

void fdinfo_forget(void)
{
    memset(gpu_of, 0, sizeof gpu_of);
}

/* close() is not intercepted: closed descriptors are noticed here. */
int fdinfo_next(int fd, unsigned gpu)
{
    for (fd++; fd < FDINFO_FDS; fd++) {
        struct node node;
        if (gpu_of[fd] != gpu + 1)
            continue;
        if (node_of_fd(fd, &node) && node.kind == NODE_RENDER && node.gpu == gpu)
            return fd;
        gpu_of[fd] = 0;
        char path[PATH_MAX];
        if (file_path(path, sizeof path, "/proc/%d/fdinfo/%d", getpid(), fd))
            (void)unlink(path);
        if (file_path(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd))
            (void)unlink(path);
    }
    return -1;
}

struct text {
    char *data;
    size_t size, len;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->data + t->len, t->size - t->len, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < t->size - t->len)
        t->len += (size_t)n;
}

/* drm_print_memory_stats(): the largest unit that divides, none for 0. */
static void add_stat(struct text *t, const char *stat, const char *region, uint64_t bytes)
{
    if (bytes == 0)
        add(t, "drm-%s-%s:\t0\n", stat, region);
    else if (bytes % (1u << 20) == 0)
        add(t, "drm-%s-%s:\t%llu MiB\n", stat, region, (unsigned long long)bytes >> 20);
    else
        add(t, "drm-%s-%s:\t%llu KiB\n", stat, region, (unsigned long long)bytes >> 10);
}

static void add_memory(struct text *t, uint64_t vram, uint64_t gtt)
{
    add(t, "drm-memory-vram:\t%llu KiB\n", (unsigned long long)vram >> 10);
    add(t, "drm-memory-gtt: \t%llu KiB\n", (unsigned long long)gtt >> 10);
    add(t, "drm-memory-cpu: \t0 KiB\n");
}

static void add_amd(struct text *t, const struct holding *held, uint64_t wanted, uint64_t gtt)
{
    bool visible = machine.fdinfo_kernel <= KERNEL_6_12;
    if (visible)
        add(t, "amd-memory-visible-vram:\t%llu KiB\n", (unsigned long long)held->visible >> 10);
    add(t, "amd-evicted-vram:\t%llu KiB\n", (unsigned long long)held->gem_evicted >> 10);
    if (visible)
        add(t, "amd-evicted-visible-vram:\t0 KiB\n");
    add(t, "amd-requested-vram:\t%llu KiB\n", (unsigned long long)wanted >> 10);
    if (visible)
        add(t, "amd-requested-visible-vram:\t%llu KiB\n", (unsigned long long)held->visible >> 10);
    add(t, "amd-requested-gtt:\t%llu KiB\n", (unsigned long long)gtt >> 10);
}

void fdinfo_write(char out[FDINFO_SIZE], unsigned gpu, int fd, const struct holding *held)
{
    const struct gpu *info = &machine.gpus[gpu];
    struct text t = {out, FDINFO_SIZE, 0};
    uint64_t kfd_gtt = info->vram_in_gtt ? held->vram : 0;
    uint64_t vram = held->gem_vram - held->gem_evicted + held->vram - kfd_gtt;
    uint64_t gtt = held->gtt + held->gem_gtt + held->gem_evicted + kfd_gtt;
    out[0] = '\0';
    add(&t, "pos:\t0\nflags:\t02100002\nmnt_id:\t25\nino:\t%d\n", 400 + info->render_minor);
    add(&t, "drm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n", fd + 1, info->pci);
    add(&t, "pasid:\t%u\n", fdinfo_pasid(getpid()));
    if (machine.fdinfo_kernel > KERNEL_6_12) {
        static const char *const stats[] = {"total", "resident"};
        for (int i = 0; i < 2; i++) {
            add_stat(&t, stats[i], "vram", vram);
            add_stat(&t, stats[i], "gtt", gtt);
            add_stat(&t, stats[i], "cpu", 0);
        }
    }
    add_memory(&t, vram, gtt);
    if (machine.fdinfo_kernel >= 603) {
        add_amd(&t, held, held->gem_vram + held->vram - kfd_gtt, gtt - held->gem_evicted);
        add(&t, "drm-shared-vram:\t0 KiB\ndrm-shared-gtt:\t0 KiB\ndrm-shared-cpu:\t0 KiB\n");
    }
    memset(out + t.len, '\n', FDINFO_SIZE - t.len);
}
