/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of the machine, and the small sysfs and KFD texts that describe each of them.
 *
 * Runs in its own collector child. An allow-list leaves out files whose read has side effects (gpu_recover,
 * ras/<block>_err_count, which the sampler reads twice in a run, pcie_bw, xgmi_error), files that wake a
 * suspended GPU, and files with a serial number (unique_id, fru_id, serial_number).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "telemetry/dirscan.h"
#include "telemetry/keys.h"
#include "telemetry/machine.h"

#define TEXT_MAX 16384
#define FIRMWARE_TEXT_MAX 64

/* Below cardN/device. Reading these does not access the hardware (kernel ABI notes, section 2). */
static const char *const device_files[] = {
    "uevent", "vendor", "device", "revision", "subsystem_vendor", "subsystem_device", "class",
    "vbios_version", "product_name", "product_number", "mem_info_vram_total",
    "mem_info_vram_used", "mem_info_vis_vram_total", "mem_info_vis_vram_used",
    "mem_info_gtt_total", "mem_info_gtt_used", "mem_info_preempt_used", "mem_info_vram_vendor",
    "current_compute_partition", "available_compute_partition", "current_memory_partition",
    "enforce_isolation", "numa_node", "power_state", "power/runtime_status",
    "power/control", "resource", "reset_method", "ras/features", "ras/version",
    "ras/gpu_vram_bad_pages",
};

/* The PCI core resumes the device for these (pci_config_pm_runtime_get): read only if it is
 * awake. */
static const char *const link_files[] = {
    "current_link_speed", "current_link_width", "max_link_speed", "max_link_width",
};

/* Lines of a KFD node's properties that must not leave the machine. */
static const char *const private_keys[] = {"unique_id", "hive_id"};

struct job {
    struct collect_out *out;
    const struct machine *machine;
    struct buf text;
    uint32_t unreadable; /* allow-listed files that exist but could not be read */
};

static void fact_name(char *out, size_t size, uint32_t gpu, const char *name)
{
    (void)snprintf(out, size, "gpu.%u.%s", gpu, name);
}

static void put_number(struct job *job, uint32_t gpu, const char *name, bool have, uint64_t value,
                       const char *source, const char *reason)
{
    char full[64];
    fact_name(full, sizeof full, gpu, name);
    if (have && value <= INT64_MAX)
        collect_integer(job->out, full, FACT_STATIC, (int64_t)value, source);
    else
        collect_missing(job->out, full, FACT_STATIC, FACT_ABSENT, reason, source);
}

static void put_text(struct job *job, uint32_t gpu, const char *name, bool have, const char *value,
                     const char *source, const char *reason)
{
    char full[64];
    fact_name(full, sizeof full, gpu, name);
    if (have)
        collect_text(job->out, full, FACT_STATIC, value, source);
    else
        collect_missing(job->out, full, FACT_STATIC, FACT_ABSENT, reason, source);
}

static void put_boolean(struct job *job, uint32_t gpu, const char *name, bool have, bool value,
                        const char *source, const char *reason)
{
    char full[64];
    fact_name(full, sizeof full, gpu, name);
    if (have)
        collect_boolean(job->out, full, FACT_STATIC, value, source);
    else
        collect_missing(job->out, full, FACT_STATIC, FACT_ABSENT, reason, source);
}

/* --- facts of one GPU --- */

static ssize_t read_device(const struct gpu_info *g, const char *name, char *text, size_t size)
{
    char path[192];
    text[0] = '\0';
    if ((g->have & GPU_HAVE_CARD) == 0)
        return -ENOENT;
    (void)snprintf(path, sizeof path, "%s/%s", g->device_path, name);
    return fs_read_machine_text(path, text, size);
}

static bool is_nvidias(const struct gpu_info *g)
{
    return (g->have & GPU_HAVE_DRIVER) != 0 && strcmp(g->driver, "nvidia") == 0;
}

static void put_identity(struct job *job, uint32_t i)
{
    const struct gpu_info *g = &job->machine->gpus[i];
    static const char no_kfd[] = "no KFD topology node for this GPU";
    static const char no_drm[] = "no DRM card for this GPU";
    static const char node[] = "kfd/topology/nodes/N/properties";
    put_text(job, i, "pci", g->have & GPU_HAVE_PCI, g->pci, "device/uevent PCI_SLOT_NAME",
             "neither uevent nor the KFD node gives an address");
    put_text(job, i, "driver", g->have & GPU_HAVE_DRIVER, g->driver, "device/uevent DRIVER",
             no_drm);
    put_text(job, i, "gfx", g->have & GPU_HAVE_GFX, g->gfx, node,
             (g->have & GPU_HAVE_KFD_NODE) != 0 ? "the kernel gives no gfx_target_version"
                                                : no_kfd);
    put_boolean(job, i, "is_apu", g->have & GPU_HAVE_IS_APU, g->is_apu,
                is_nvidias(g) ? "the driver is NVIDIA's" : "gfx_target_version, else device/pcie_bw",
                "neither a gfx name nor device files");
    put_number(job, i, "kfd_node", g->have & GPU_HAVE_KFD_NODE, g->kfd_node,
               "kfd/topology/nodes", no_kfd);
    put_number(job, i, "kfd_gpu_id", g->have & GPU_HAVE_KFD_GPU_ID, g->kfd_gpu_id,
               "kfd/topology/nodes/N/gpu_id",
               (g->have & GPU_HAVE_KFD_NODE) != 0 ? "the node has no gpu_id" : no_kfd);
    put_number(job, i, "render_minor", g->have & GPU_HAVE_RENDER_MINOR, g->render_minor, node,
               "neither the KFD node nor device/drm gives a render minor");
    put_number(job, i, "kfd_bank_bytes", g->have & GPU_HAVE_KFD_BANK, g->kfd_bank_bytes,
               "kfd/topology/nodes/N/mem_banks",
               (g->have & GPU_HAVE_KFD_NODE) != 0 ? "the node has no frame-buffer bank" : no_kfd);
}

static void put_partition(struct job *job, uint32_t i)
{
    const struct gpu_info *g = &job->machine->gpus[i];
    char mode[32] = "";
    char text[80];
    bool has_mode = read_device(g, "current_compute_partition", mode, sizeof mode) > 0;
    if ((g->have & GPU_HAVE_PARTITION) != 0)
        (void)snprintf(text, sizeof text, "%u of %u%s%s", g->partition, g->partition_count,
                       has_mode ? " " : "", mode);
    else
        (void)snprintf(text, sizeof text, "%s", mode);
    put_text(job, i, "partition", text[0] != '\0', text,
             "kfd location_id and unique_id, device/current_compute_partition", "not partitioned");
}

static void put_device_facts(struct job *job, uint32_t i)
{
    const struct gpu_info *g = &job->machine->gpus[i];
    char text[128];
    bool has_vbios = read_device(g, "vbios_version", text, sizeof text) > 0;
    put_text(job, i, "vbios", has_vbios, text, "device/vbios_version",
             "no such file, or it is empty");
    uint64_t visible = 0;
    uint64_t total = 0;
    char other[128];
    bool both = read_device(g, "mem_info_vis_vram_total", text, sizeof text) > 0 &&
                read_device(g, "mem_info_vram_total", other, sizeof other) > 0 &&
                fs_parse_u64(text, &visible) == 0 && fs_parse_u64(other, &total) == 0;
    put_boolean(job, i, "large_bar", both, visible >= total,
                "mem_info_vis_vram_total against mem_info_vram_total", "no such files");
}

/* Model: NVIDIA H200 The file also has the GPU's UUID, which must stay out. */
static void put_nvidia_name(struct job *job, uint32_t i)
{
    const struct gpu_info *g = &job->machine->gpus[i];
    char path[96];
    char text[TEXT_MAX] = "";
    struct span rest = {text, 0};
    struct span line = {NULL, 0};
    (void)snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", g->pci);
    ssize_t len = fs_read_machine_text(path, text, sizeof text);
    rest.len = len > 0 ? (size_t)len : 0;
    bool found = false;
    while (!found && span_line(&rest, &line))
        found = span_starts(line, "Model:");
    char name[128] = "";
    if (found)
        (void)snprintf(name, sizeof name, "%.*s", (int)line.len, line.data);
    char *model = found ? name + strlen("Model:") : name;
    model += strspn(model, " \t");
    put_text(job, i, "name", model[0] != '\0', model, path, "the driver does not report it");
}

static void put_nvidia(struct job *job, uint32_t i)
{
    static const char path[] = "/sys/module/nvidia/version";
    char text[128];
    bool told = fs_read_machine_text(path, text, sizeof text) > 0;
    put_text(job, i, "driver_version", told, text, path, "no such file");
    put_nvidia_name(job, i);
}

static void put_driver_version(struct job *job, uint32_t i)
{
    char text[128];
    /* The file exists for the DKMS driver only; the in-tree driver has its kernel's version. */
    bool dkms = fs_read_machine_text("/sys/module/amdgpu/version", text, sizeof text) > 0;
    put_text(job, i, "driver_version", dkms, text, "/sys/module/amdgpu/version",
             "the inbox driver has no version of its own");
}

/* --- files --- */

static void append_text(struct job *job, const char *path, const char *text)
{
    buf_printf(&job->text, "==> %s <==\n%s\n", path, text);
}

static void copy_file(struct job *job, const char *path)
{
    char text[TEXT_MAX];
    ssize_t len = fs_read_machine_text(path, text, sizeof text);
    if (len == -ENOENT || len == -ENOTDIR)
        return;
    if (len < 0 && len != -EFBIG) {
        job->unreadable++;
        (void)snprintf(text, sizeof text, "(unreadable: %s)", strerror((int)-len));
    }
    append_text(job, path, text);
}

static void copy_properties(struct job *job, const char *kfd_path)
{
    char path[160];
    char text[TEXT_MAX];
    (void)snprintf(path, sizeof path, "%s/properties", kfd_path);
    ssize_t len = fs_read_machine_text(path, text, sizeof text);
    if (len <= 0)
        return;
    buf_printf(&job->text, "==> %s <==\n", path);
    struct span rest = {text, (size_t)len};
    struct span line;
    while (span_line(&rest, &line)) {
        bool private = false;
        for (size_t i = 0; i < sizeof private_keys / sizeof private_keys[0]; i++)
            private |= span_starts(line, private_keys[i]);
        if (!private) {
            buf_append(&job->text, line.data, line.len);
            buf_putc(&job->text, '\n');
        }
    }
    buf_putc(&job->text, '\n');
}

static void copy_banks(struct job *job, const char *kfd_path)
{
    for (int bank = 0; bank < 16; bank++) {
        char path[160];
        (void)snprintf(path, sizeof path, "%s/mem_banks/%d/properties", kfd_path, bank);
        copy_file(job, path);
        (void)snprintf(path, sizeof path, "%s/mem_banks/%d/used_memory", kfd_path, bank);
        copy_file(job, path);
    }
}

/* Names in a folder, sorted, so that the same machine gives the same bytes. */
static void copy_folder(struct job *job, const char *folder)
{
    char path[FS_PATH_MAX];
    char names[128][48];
    uint32_t count = 0;
    struct dirscan dir;
    if (fs_machine_path(path, sizeof path, folder) < 0 || dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL && count < sizeof names / sizeof names[0]) {
        if (strlen(name) >= sizeof names[0])
            continue;
        uint32_t at = count++;
        for (; at > 0 && strcmp(names[at - 1], name) > 0; at--)
            memcpy(names[at], names[at - 1], sizeof names[0]);
        (void)snprintf(names[at], sizeof names[0], "%s", name);
    }
    dirscan_close(&dir);
    for (uint32_t i = 0; i < count; i++) {
        char file[256];
        char text[FIRMWARE_TEXT_MAX];
        (void)snprintf(file, sizeof file, "%.180s/%.47s", folder, names[i]);
        ssize_t len = fs_read_machine_text(file, text, sizeof text);
        if (len >= 0)
            buf_printf(&job->text, "%s=%s\n", names[i], text);
        else if (len == -EACCES || len == -EPERM)
            buf_printf(&job->text, "%s (needs root)\n", names[i]);
    }
}

static void copy_files(struct job *job, const struct gpu_info *g, const char *const *names,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char path[192];
        (void)snprintf(path, sizeof path, "%s/%s", g->device_path, names[i]);
        copy_file(job, path);
    }
}

static bool is_awake(const struct gpu_info *g)
{
    char text[32];
    return read_device(g, "power/runtime_status", text, sizeof text) <= 0 ||
           strcmp(text, "active") == 0 || strcmp(text, "unsupported") == 0;
}

static void write_gpu(struct job *job, uint32_t i)
{
    const struct gpu_info *g = &job->machine->gpus[i];
    char path[192];
    buf_init(&job->text, 256u << 10);
    if ((g->have & GPU_HAVE_CARD) != 0) {
        copy_files(job, g, device_files, sizeof device_files / sizeof device_files[0]);
        if (is_awake(g))
            copy_files(job, g, link_files, sizeof link_files / sizeof link_files[0]);
        (void)snprintf(path, sizeof path, "%s/fw_version", g->device_path);
        buf_printf(&job->text, "==> %s <==\n", path);
        copy_folder(job, path);
    }
    if ((g->have & GPU_HAVE_KFD_NODE) != 0) {
        (void)snprintf(path, sizeof path, "%s/name", g->kfd_path);
        copy_file(job, path);
        copy_properties(job, g->kfd_path);
        copy_banks(job, g->kfd_path);
    }
    (void)snprintf(path, sizeof path, "gpu%u.txt", i);
    (void)collect_write(job->out, path, buf_str(&job->text), job->text.len);
    buf_release(&job->text);
}

static enum collect_status none(struct collect_out *out, const struct machine *m)
{
    char reason[160];
    if (m->other_driver[0] != '\0')
        (void)snprintf(reason, sizeof reason, "the graphics card runs on the driver '%s', not amdgpu",
                       m->other_driver);
    else if (m->kfd_nodes_refused > 0)
        (void)snprintf(reason, sizeof reason,
                       "%u KFD nodes may not be read here (device cgroup of a container)",
                       m->kfd_nodes_refused);
    else
        (void)snprintf(reason, sizeof reason, "no amdgpu card and no KFD node");
    collect_boolean(out, "gpu.present", FACT_STATIC, false, "/sys/class/drm, /sys/class/kfd");
    collect_text(out, "gpu.none_why", FACT_STATIC, reason, "/sys/class/drm, /sys/class/kfd");
    return collect_reason(out, COLLECT_SKIPPED, "%s", reason);
}

static enum collect_status gpu_run(const struct collect_ctx *ctx, struct collect_out *out)
{
    static struct machine machine;
    struct job job = {.out = out, .machine = &machine};
    machine_scan_of_run(&machine, ctx->run_dir);
    collect_integer(out, "gpu.count", FACT_STATIC, machine.count,
                    "/sys/class/drm, /sys/class/kfd");
    if (machine.count == 0)
        return none(out, &machine);
    collect_boolean(out, "gpu.present", FACT_STATIC, true, "/sys/class/drm, /sys/class/kfd");
    /* Set all facts before the first copy: a file that hangs must not lose them. */
    for (uint32_t i = 0; i < machine.count; i++) {
        put_identity(&job, i);
        put_partition(&job, i);
        put_device_facts(&job, i);
        if (is_nvidias(&machine.gpus[i]))
            put_nvidia(&job, i);
        else
            put_driver_version(&job, i);
    }
    for (uint32_t i = 0; i < machine.count; i++) {
        if (clock_mono_ns() >= ctx->deadline_mono_ns)
            return collect_reason(out, COLLECT_PARTIAL, "out of time after the files of %u of %u GPUs",
                                  i, machine.count);
        write_gpu(&job, i);
    }
    if (machine.dropped > 0)
        return collect_reason(out, COLLECT_PARTIAL, "%u GPUs beyond the first %d left out",
                              machine.dropped, MACHINE_GPUS_MAX);
    if (job.unreadable > 0)
        return collect_reason(out, COLLECT_PARTIAL, "%u files refused to be read", job.unreadable);
    return COLLECT_OK;
}

const struct collector collector_gpu = {
    .name = "gpu",
    .describe = "GPUs from sysfs and the KFD topology, firmware versions",
    .phase = COLLECT_QUICK,
    .deadline_ms = 1000,
    .max_bytes = 4u << 20,
    .run = gpu_run,
};
