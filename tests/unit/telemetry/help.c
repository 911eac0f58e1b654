/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "record/shared.h"
#include "temp_folder.h"

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

void help_make_dir(char *out, size_t size)
{
    must(temp_folder(out, size, "rc-telemetry"), out);
}

void help_remove(const char *dir)
{
    (void)fs_remove_tree(AT_FDCWD, dir);
}

void help_write(const char *root, const char *path, const char *text)
{
    char full[FS_PATH_MAX];
    (void)snprintf(full, sizeof full, "%s%s", root, path);
    char *slash = strrchr(full, '/');
    *slash = '\0';
    must(fs_mkdir_p(full) == 0, full);
    *slash = '/';
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    must(fd >= 0, full);
    must(fs_write_all(fd, text, strlen(text)) == 0, full);
    (void)close(fd);
}

void help_write_u64(const char *root, const char *path, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu\n", (unsigned long long)value);
    help_write(root, path, text);
}

bool help_read_u64(const char *root, const char *path, uint64_t *ret)
{
    char full[FS_PATH_MAX];
    (void)snprintf(full, sizeof full, "%s%s", root, path);
    FILE *f = fopen(full, "re");
    if (f == NULL)
        return false;
    unsigned long long value = 0;
    bool ok = fscanf(f, "%llu", &value) == 1;
    (void)fclose(f);
    *ret = value;
    return ok;
}

static void fake_card(const char *root, unsigned i, uint64_t used)
{
    static const struct {
        const char *name;
        uint64_t value;
    } files[] = {
        {"mem_info_vram_total", UINT64_C(68702699520)},
        {"mem_info_vis_vram_total", UINT64_C(68702699520)},
        {"mem_info_gtt_total", UINT64_C(270000000000)},
        {"mem_info_gtt_used", 14680064},
        {"mem_info_preempt_used", 0},
        {"gpu_busy_percent", 37},
        {"hwmon/hwmon3/temp1_input", 41000},
        {"hwmon/hwmon3/temp2_input", 45000},
        {"hwmon/hwmon3/temp3_input", 39000},
        {"hwmon/hwmon3/power1_average", 93000000},
        {"hwmon/hwmon3/freq1_input", 1700000000},
        {"hwmon/hwmon3/freq2_input", 1600000000},
    };
    char path[256];
    char text[256];
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/uevent", i);
    (void)snprintf(text, sizeof text,
                   "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:%02x:00.0\n", 0x10 + i);
    help_write(root, path, text);
    for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
        (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/%s", i, files[k].name);
        help_write_u64(root, path, files[k].value);
    }
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/hwmon/hwmon3/name", i);
    help_write(root, path, "amdgpu\n");
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/power/runtime_status", i);
    help_write(root, path, "active\n");
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/mem_info_vram_used", i);
    help_write_u64(root, path, used);
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/mem_info_vis_vram_used", i);
    help_write_u64(root, path, used);
}

static void fake_node(const char *root, unsigned i)
{
    char path[256];
    char text[512];
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%u/properties", i + 1);
    (void)snprintf(text, sizeof text,
                   "cpu_cores_count 0\nsimd_count 416\ngfx_target_version 90010\nvendor_id 4098\n"
                   "device_id 29711\nlocation_id %u\ndomain 0\ndrm_render_minor %u\nunique_id %u\n",
                   (0x10 + i) << 8, 128 + i, 1000 + i);
    help_write(root, path, text);
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%u/gpu_id", i + 1);
    help_write_u64(root, path, 20000 + i);
    (void)snprintf(path, sizeof path,
                   "/sys/class/kfd/kfd/topology/nodes/%u/mem_banks/0/properties", i + 1);
    help_write(root, path, "heap_type 1\nsize_in_bytes 68702699520\nflags 0\n");
}

void help_fake_machine(const char *root, unsigned gpus, uint64_t used_base)
{
    for (unsigned i = 0; i < gpus; i++) {
        fake_card(root, i, used_base + i);
        fake_node(root, i);
    }
    help_write(root, "/sys/class/kfd/kfd/topology/nodes/0/properties",
               "cpu_cores_count 64\nsimd_count 0\n");
    help_write(root, "/sys/class/kfd/kfd/topology/generation_id", "2\n");
    help_write(root, "/sys/class/drm/card0-DP-1/status", "disconnected\n");
    help_write(root, "/sys/class/drm/renderD128/dev", "226:128\n");
    help_write(root, "/sys/module/ttm/parameters/pages_limit", "16430000\n");
    help_write(root, "/proc/meminfo",
               "MemTotal:       65610692 kB\nMemAvailable:   40000000 kB\n"
               "SwapTotal:       8388604 kB\nSwapFree:        8388604 kB\n"
               "Shmem:            123456 kB\n");
    help_write(root, "/proc/pressure/memory",
               "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n"
               "full avg10=0.00 avg60=0.00 avg300=0.00 total=567\n");
}

void help_machine_path(const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/machines/%s", TEST_RECORDED_DIR, name);
    must(access(out, R_OK) == 0, out);
}

void help_ring_to_series(struct shared *shared, struct series_set *ret)
{
    static unsigned char data[SHARED_SAMPLE_RING_BYTES];
    uint64_t cursor = 0;
    uint64_t lost = 0;
    memset(ret, 0, sizeof *ret);
    size_t len = ring_read(&shared->samples, &cursor, data, sizeof data, &lost);
    must(series_add(ret, data, len) == 0, "series_add");
}

size_t help_record(unsigned char *out, uint64_t time_ns, uint16_t flags,
                   const struct help_value *values, size_t count)
{
    struct sample_header h = {SAMPLE_MAGIC, flags, (uint32_t)count, time_ns};
    memcpy(out, &h, sizeof h);
    for (size_t i = 0; i < count; i++) {
        struct sample_entry e = {.metric = (uint16_t)values[i].metric,
                                 .status = (uint8_t)values[i].status,
                                 .instance = values[i].instance,
                                 .value = values[i].value};
        memcpy(out + sizeof h + i * sizeof e, &e, sizeof e);
    }
    return sizeof h + count * sizeof(struct sample_entry);
}

uint32_t help_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 16);
}

uint64_t help_seed(void)
{
    const char *given = getenv("TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    (void)printf("TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed * 2654435761u + 1;
}
