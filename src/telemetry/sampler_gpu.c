/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the GPUs. mem_info_* touch no hardware; temperature, power, clocks and load are
 * served by the SMU, which a read wakes and which can block: only while runtime_status is active.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "telemetry/dirscan.h"
#include "telemetry/nvml.h"
#include "telemetry/sampler_internal.h"

enum place { IN_DEVICE, IN_HWMON };

struct gpu_file {
    enum metric metric;
    enum place place;
    const char *name;
    const char *otherwise; /* newer kernels renamed some */
};

static const struct gpu_file fast_files[] = {
    {METRIC_GPU_VRAM_USED, IN_DEVICE, "mem_info_vram_used", NULL},
    {METRIC_GPU_VIS_USED, IN_DEVICE, "mem_info_vis_vram_used", NULL},
    {METRIC_GPU_GTT_USED, IN_DEVICE, "mem_info_gtt_used", NULL},
};
/* Also memory, but 0 unless processes are preempted (amdgpu_preempt_mgr.c, Linux 5.14). */
static const struct gpu_file calm_files[] = {
    {METRIC_GPU_PREEMPT_USED, IN_DEVICE, "mem_info_preempt_used", NULL},
};
static const struct gpu_file total_files[] = {
    {METRIC_GPU_VRAM_TOTAL, IN_DEVICE, "mem_info_vram_total", NULL},
    {METRIC_GPU_VIS_TOTAL, IN_DEVICE, "mem_info_vis_vram_total", NULL},
    {METRIC_GPU_GTT_TOTAL, IN_DEVICE, "mem_info_gtt_total", NULL},
};
static const struct gpu_file slow_files[] = {
    {METRIC_GPU_BUSY, IN_DEVICE, "gpu_busy_percent", NULL},
    {METRIC_GPU_TEMP_EDGE, IN_HWMON, "temp1_input", NULL},
    {METRIC_GPU_TEMP_JUNCTION, IN_HWMON, "temp2_input", NULL},
    {METRIC_GPU_TEMP_MEM, IN_HWMON, "temp3_input", NULL},
    {METRIC_GPU_POWER, IN_HWMON, "power1_average", "power1_input"},
    {METRIC_GPU_SCLK, IN_HWMON, "freq1_input", NULL},
    {METRIC_GPU_MCLK, IN_HWMON, "freq2_input", NULL},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int open_in(struct sampler *s, uint32_t gpu, const struct gpu_file *f, const char *name)
{
    const struct gpu_info *info = &s->machine.gpus[gpu];
    const char *folder = f->place == IN_HWMON ? info->hwmon_path : info->device_path;
    uint32_t need = f->place == IN_HWMON ? GPU_HAVE_HWMON : GPU_HAVE_CARD;
    if ((info->have & need) == 0)
        return -ENOENT;
    char path[192];
    char full[FS_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int r = fs_machine_path(full, sizeof full, path);
    return r < 0 ? r : sampler_open(s, FILE_GPU(gpu, f->metric), full, 0);
}

static void open_files(struct sampler *s, uint32_t gpu, const struct gpu_file *files, size_t count)
{
    struct gpu_sampler *g = &s->gpus[gpu];
    for (size_t i = 0; i < count; i++) {
        int fd = open_in(s, gpu, &files[i], files[i].name);
        if (fd == -ENOENT && files[i].otherwise != NULL)
            fd = open_in(s, gpu, &files[i], files[i].otherwise);
        g->fds[files[i].metric] = fd < 0 ? -1 : fd;
        g->status[files[i].metric] = (uint8_t)(fd < 0 ? sampler_status_of(fd) : VALUE_OK);
    }
}

void sampler_gpu_open(struct sampler *s)
{
    for (uint32_t i = 0; i < s->machine.count; i++) {
        struct gpu_sampler *g = &s->gpus[i];
        memset(g->fds, -1, sizeof g->fds);
        memset(g->status, VALUE_ABSENT, sizeof g->status);
        open_files(s, i, fast_files, COUNT(fast_files));
        open_files(s, i, calm_files, COUNT(calm_files));
        open_files(s, i, total_files, COUNT(total_files));
        open_files(s, i, slow_files, COUNT(slow_files));
        char path[192];
        char full[FS_PATH_MAX];
        (void)snprintf(path, sizeof path, "%s/power/runtime_status",
                       s->machine.gpus[i].device_path);
        g->power_fd = -1;
        if ((s->machine.gpus[i].have & GPU_HAVE_CARD) != 0 &&
            fs_machine_path(full, sizeof full, path) == 0)
            g->power_fd = sampler_open(s, FILE_GPU_POWER(i), full, 0);
    }
}

/* One counter. sysfs gives the whole "17163091968\n" at once; recorded files are NUL-padded. */
static bool read_counter(struct sampler *s, uint32_t gpu, enum metric m)
{
    struct gpu_sampler *g = &s->gpus[gpu];
    uint32_t file = FILE_GPU(gpu, m);
    if (sampler_is_bad(s, file))
        return values_set_gpu(&s->values, gpu, m, VALUE_STALLED, 0);
    if (g->fds[m] < 0)
        return values_set_gpu(&s->values, gpu, m, g->status[m], 0);
    char text[64];
    ssize_t len = sampler_read(s, file, g->fds[m], text, sizeof text);
    if (len < 0)
        return values_set_gpu(&s->values, gpu, m, sampler_status_of((int)len), 0);
    uint64_t value = 0;
    if (fs_parse_u64(text, &value) < 0)
        return values_set_gpu(&s->values, gpu, m, VALUE_UNREADABLE, 0);
    return values_set_gpu(&s->values, gpu, m, VALUE_OK, value);
}

/* The CPU can reach all of VRAM. Then the counter of the visible part has the same value as that of all VRAM (on
 * every such recorded machine). */
static bool is_all_visible(const struct sampler *s, uint32_t gpu)
{
    const struct value *all = values_gpu(&s->values, gpu, METRIC_GPU_VRAM_TOTAL);
    const struct value *visible = values_gpu(&s->values, gpu, METRIC_GPU_VIS_TOTAL);
    return all->known && all->status == VALUE_OK && visible->known &&
           visible->status == VALUE_OK && all->value == visible->value;
}

void sampler_gpu_fast(struct sampler *s, uint32_t gpu)
{
    bool changed = false;
    if (nvml_is(&s->machine.gpus[gpu])) {
        changed = nvml_fast(s, gpu);
    } else {
        changed |= read_counter(s, gpu, METRIC_GPU_VRAM_USED);
        changed |= read_counter(s, gpu, METRIC_GPU_GTT_USED);
        if (!is_all_visible(s, gpu))
            changed |= read_counter(s, gpu, METRIC_GPU_VIS_USED);
    }
    if (changed)
        s->gpus[gpu].changed_ns = s->now_ns;
}

static void read_calm(struct sampler *s, uint32_t gpu)
{
    if (is_all_visible(s, gpu))
        (void)read_counter(s, gpu, METRIC_GPU_VIS_USED);
    for (size_t i = 0; i < COUNT(calm_files); i++)
        (void)read_counter(s, gpu, calm_files[i].metric);
}

void sampler_gpu_memory(struct sampler *s, uint32_t gpu)
{
    sampler_gpu_fast(s, gpu);
    if (!nvml_is(&s->machine.gpus[gpu]))
        read_calm(s, gpu);
}

void sampler_gpu_total(struct sampler *s, uint32_t gpu)
{
    if (nvml_is(&s->machine.gpus[gpu])) {
        nvml_total(s, gpu);
        return;
    }
    for (size_t i = 0; i < COUNT(total_files); i++)
        (void)read_counter(s, gpu, total_files[i].metric);
}

/* "active", "suspended", "suspending", "resuming", "error", or "unsupported" if the kernel never
 * powers the device down. A recorded tree without the file counts as active. */
static bool is_awake(struct sampler *s, uint32_t gpu)
{
    struct gpu_sampler *g = &s->gpus[gpu];
    char text[32];
    if (g->power_fd < 0)
        return true;
    ssize_t len = sampler_read(s, FILE_GPU_POWER(gpu), g->power_fd, text, sizeof text);
    return len > 0 && (strncmp(text, "active", 6) == 0 || strncmp(text, "unsupported", 11) == 0);
}

/* --- corrected and uncorrected errors --- */

struct errors {
    uint64_t uncorrected, corrected;
    uint32_t blocks; /* that answered */
};

/* "ue: 0\nce: 3\n"; newer kernels add "de: 0" for deferred errors. */
static bool parse_errors(const char *text, struct errors *sum)
{
    const char *ue = strstr(text, "ue: ");
    const char *ce = strstr(text, "ce: ");
    if (ue == NULL || ce == NULL)
        return false; /* "Query currently inaccessible" */
    sum->uncorrected += strtoull(ue + 4, NULL, 10);
    sum->corrected += strtoull(ce + 4, NULL, 10);
    sum->blocks++;
    return true;
}

/* umc_err_count, gfx_err_count, ...: -ENOENT if there is none, -EIO if a file gave no count. */
static int read_errors_of(struct sampler *s, uint32_t gpu, struct errors *sum)
{
    char path[192];
    char full[FS_PATH_MAX];
    struct dirscan dir;
    (void)snprintf(path, sizeof path, "%s/ras", s->machine.gpus[gpu].device_path);
    int r = fs_machine_path(full, sizeof full, path);
    if (r < 0 || (r = dirscan_open(&dir, full)) < 0)
        return r;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        static const char end[] = "_err_count";
        size_t len = strlen(name);
        char text[64] = "";
        if (len < sizeof end || strcmp(name + len - (sizeof end - 1), end) != 0)
            continue;
        int fd = openat(dir.fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t got = fd < 0 ? -errno : sampler_read(s, FILE_GPU_ERRORS(gpu), fd, text, sizeof text);
        if (fd >= 0)
            (void)close(fd);
        if (got < 0 || !parse_errors(text, sum))
            r = got == SAMPLER_GAVE_UP ? SAMPLER_GAVE_UP : -EIO;
    }
    dirscan_close(&dir);
    return r < 0 ? r : sum->blocks > 0 ? 0 : -ENOENT;
}

/*
 * The driver's totals since it was loaded; only cards with RAS have them. A read accesses the
 * hardware, adds to these totals and clears the hardware's counters. On a sleeping card it may
 * count errors that never happened (amdgpu_ras.c), so sleeping cards are not read.
 */
void sampler_gpu_errors(struct sampler *s, uint32_t gpu)
{
    struct errors sum = {0};
    if (nvml_is(&s->machine.gpus[gpu])) {
        nvml_errors(s, gpu);
        return;
    }
    int r = (s->machine.gpus[gpu].have & GPU_HAVE_CARD) == 0 ? -ENOENT
            : !is_awake(s, gpu)                              ? -EBUSY
                                                             : read_errors_of(s, gpu, &sum);
    enum value_status status = r < 0 ? (enum value_status)sampler_status_of(r) : VALUE_OK;
    (void)values_set_gpu(&s->values, gpu, METRIC_GPU_UNCORRECTED, status, sum.uncorrected);
    (void)values_set_gpu(&s->values, gpu, METRIC_GPU_CORRECTED, status, sum.corrected);
}

void sampler_gpu_slow(struct sampler *s, uint32_t gpu)
{
    if (nvml_is(&s->machine.gpus[gpu])) {
        nvml_slow(s, gpu);
        return;
    }
    read_calm(s, gpu);
    bool awake = is_awake(s, gpu);
    for (size_t i = 0; i < COUNT(slow_files); i++) {
        enum metric m = slow_files[i].metric;
        if (!awake && s->gpus[gpu].fds[m] >= 0)
            (void)values_set_gpu(&s->values, gpu, m, VALUE_UNREADABLE, 0);
        else
            (void)read_counter(s, gpu, m);
        /* Each may take milliseconds; a held target must not wait for them. */
        if (sampler_impact_pending(s))
            sampler_impact(s);
    }
}
