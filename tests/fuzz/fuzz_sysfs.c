/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the machine as sysfs shows it. A tree with one card and two KFD nodes, in each file
 * of which a piece of the input stands; pieces are parted by bytes of 0xff.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/number.h"
#include "collectors/cgroup_parse.h"
#include "collectors/host_parse.h"
#include "base/buf.h"
#include "telemetry/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NODES "sys/class/kfd/kfd/topology/nodes/"

static const char *const names[] = {
    NODES "1/properties",
    NODES "1/gpu_id",
    NODES "1/mem_banks/0/properties",
    NODES "2/properties",
    NODES "2/gpu_id",
    "sys/class/drm/card0/device/uevent",
    "sys/class/drm/card0/device/mem_info_vram_total",
    "sys/class/drm/card0/device/current_compute_partition",
    "sys/module/ttm/parameters/pages_limit",
};
#define NAMES (sizeof names / sizeof names[0])

static int files[NAMES];

static void remove_root(void)
{
    (void)fs_remove_tree(AT_FDCWD, fs_sysroot());
}

static void make_tree(void)
{
    static char root[] = "/dev/shm/rc-fuzz-sysfs-XXXXXX";
    if (mkdtemp(root) == NULL)
        abort();
    fs_set_sysroot(root);
    (void)atexit(remove_root);
    for (size_t i = 0; i < NAMES; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", root, names[i]);
        char *slash = strrchr(path, '/');
        *slash = '\0';
        (void)fs_mkdir_p(path);
        *slash = '/';
        files[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (files[i] < 0)
            abort();
    }
}

static void parse_text(const char *text)
{
    struct buf out = BUF_INIT;
    char value[128];
    int64_t count = 0;
    uint64_t bytes = 0;
    (void)number_of_version(text, &count);
    (void)host_os_release(text, "VERSION_ID", value, sizeof value);
    (void)host_cpu(text, value, sizeof value, &count);
    (void)host_meminfo(text, "MemTotal:", &bytes);
    host_append_cmdline(&out, text);
    host_append_modules(&out, text);
    (void)cgroup_path(text, "memory", value, sizeof value);
    (void)cgroup_limit(text, &bytes);
    (void)cgroup_key(text, "oom_kill", &bytes);
    (void)cgroup_container(text);
    cgroup_append_path(&out, text);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct machine machine;
    if (files[0] == 0)
        make_tree();
    for (size_t i = 0; i < NAMES; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0xff, size) : NULL;
        size_t len = end != NULL ? (size_t)(end - data) : size;
        if (ftruncate(files[i], 0) != 0 || pwrite(files[i], data, len, 0) != (ssize_t)len)
            abort();
        char *text = strndup((const char *)data, len);
        if (text == NULL)
            abort();
        if (i == 0)
            parse_text(text);
        free(text);
        data += end != NULL ? len + 1 : len;
        size -= end != NULL ? len + 1 : len;
    }
    machine_scan(&machine);
    if (machine.count > MACHINE_GPUS_MAX)
        abort();
    for (uint32_t i = 0; i < machine.count; i++)
        if (memchr(machine.gpus[i].pci, 0, sizeof machine.gpus[i].pci) == NULL ||
            memchr(machine.gpus[i].gfx, 0, sizeof machine.gpus[i].gfx) == NULL)
            abort();
    return 0;
}
