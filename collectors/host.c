/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine: kernel, distribution, CPU, memory, kernel limits that matter for GPU programs,
 * driver and firmware versions, module parameters. Reads no file that accesses the hardware
 * (fw_version, module parameters and /proc do not).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/number.h"
#include "collect/collector.h"
#include "collectors/host_parse.h"
#include "collectors/machine.h"
#include "telemetry/machine.h"

#define CARDS_MAX 128
#define PARAMETERS_MAX 256

/* --- kernel, distribution, CPU --- */

static void collect_kernel(struct collect_out *out, struct buf *text)
{
    char release[128];
    char line[512];
    const char *path = "/proc/sys/kernel/osrelease";
    ssize_t n = fs_read_machine_text(path, release, sizeof release);
    if (fs_read_machine_text("/proc/version", line, sizeof line) > 0) {
        buf_printf(text, "version: %s\n", line);
        if (n <= 0 && sscanf(line, "Linux version %127s", release) == 1)
            n = (ssize_t)strlen(release);
    }
    if (n <= 0) {
        machine_missing(out, "host.kernel", FACT_STATIC, n < 0 ? (int)n : -ENOENT, path);
        return;
    }
    buf_printf(text, "kernel: %s\n", release);
    collect_text(out, "host.kernel", FACT_STATIC, release, path);
    int64_t number = 0;
    if (number_of_version(release, &number))
        collect_integer(out, "host.kernel_version", FACT_STATIC, number, path);
}

static void collect_distribution(struct collect_out *out, struct buf *text)
{
    char data[8192];
    char value[128];
    const char *path = "/etc/os-release";
    ssize_t n = fs_read_machine_text(path, data, sizeof data);
    if (n < 0 && n != -EFBIG) {
        path = "/usr/lib/os-release";
        n = fs_read_machine_text(path, data, sizeof data);
    }
    if ((n > 0 || n == -EFBIG) && host_os_release(data, "PRETTY_NAME", value, sizeof value)) {
        collect_text(out, "host.distribution", FACT_STATIC, value, path);
        buf_printf(text, "distribution: %s\n", value);
    } else {
        machine_missing(out, "host.distribution", FACT_STATIC, n < 0 ? (int)n : -ENOENT, path);
    }
}

static void collect_cpu(struct collect_out *out, struct buf *text)
{
    const char *path = "/proc/cpuinfo";
    char full[FS_PATH_MAX];
    RC_AUTO_FREE char *data = NULL;
    int r = fs_machine_path(full, sizeof full, path);
    /* 512 CPUs with 1.5 KiB of flags each */
    ssize_t n = r < 0 ? r : fs_read_all(full, (size_t)2 << 20, &data);
    if (n < 0 && n != -EFBIG) {
        machine_missing(out, "host.cpu_model", FACT_STATIC, (int)n, path);
        return;
    }
    char model[128];
    int64_t count = 0;
    if (!host_cpu(data, model, sizeof model, &count)) {
        machine_missing(out, "host.cpu_model", FACT_STATIC, -ENOENT, path);
        return;
    }
    collect_text(out, "host.cpu_model", FACT_STATIC, model, path);
    collect_integer(out, "host.cpu_count", FACT_STATIC, count, path);
    buf_printf(text, "cpu: %lld x %s\n", (long long)count, model);
}

/* --- memory --- */

static void collect_memory(struct collect_out *out, struct buf *text)
{
    static const struct {
        const char *key, *fact;
        enum fact_when when;
    } wanted[] = {
        {"MemTotal:", "host.mem_total_bytes", FACT_STATIC},
        {"MemAvailable:", "host.mem_available_bytes", FACT_AFTER},
        {"MemFree:", "host.mem_free_bytes", FACT_AFTER},
        {"SwapTotal:", "host.swap_total_bytes", FACT_STATIC},
        {"SwapFree:", "host.swap_free_bytes", FACT_AFTER},
        {"Shmem:", "host.shmem_bytes", FACT_AFTER},
        {"Mlocked:", "host.mlocked_bytes", FACT_AFTER},
        {"CommitLimit:", "host.commit_limit_bytes", FACT_AFTER},
        {"Committed_AS:", "host.committed_bytes", FACT_AFTER},
    };
    const char *path = "/proc/meminfo";
    char data[16384];
    ssize_t n = fs_read_machine_text(path, data, sizeof data);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        uint64_t bytes = 0;
        if (n > 0 && host_meminfo(data, wanted[i].key, &bytes))
            collect_integer(out, wanted[i].fact, wanted[i].when, (int64_t)bytes, path);
        else
            machine_missing(out, wanted[i].fact, wanted[i].when, n < 0 ? (int)n : -ENOENT, path);
    }
    if (n > 0) {
        buf_puts(text, "\n# /proc/meminfo\n");
        machine_append_clean(text, data, strlen(data));
        buf_putc(text, '\n');
    }
}

/* The size of the tmpfs through which DataLoader workers share tensors; 64 MiB in docker. */
static void collect_shm(struct collect_out *out, struct buf *text)
{
    struct statvfs st;
    if (fs_sysroot()[0] != '\0') {
        collect_missing(out, "host.shm_total_bytes", FACT_STATIC, FACT_ABSENT, "recorded machine",
                        "/dev/shm");
        return;
    }
    if (statvfs("/dev/shm", &st) != 0) {
        machine_missing(out, "host.shm_total_bytes", FACT_STATIC, -errno, "/dev/shm");
        return;
    }
    uint64_t total = (uint64_t)st.f_blocks * st.f_frsize;
    uint64_t free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    collect_integer(out, "host.shm_total_bytes", FACT_STATIC, (int64_t)total, "statvfs /dev/shm");
    collect_integer(out, "host.shm_free_bytes", FACT_AFTER, (int64_t)free_bytes,
                    "statvfs /dev/shm");
    buf_printf(text, "/dev/shm: %llu bytes, %llu free\n", (unsigned long long)total,
               (unsigned long long)free_bytes);
}

static void collect_kernel_limits(struct collect_out *out, struct buf *text)
{
    static const char *const shown[] = {
        "/proc/sys/vm/max_map_count",      "/proc/sys/kernel/pid_max",
        "/proc/sys/vm/overcommit_memory",  "/proc/sys/vm/overcommit_ratio",
        "/proc/sys/vm/swappiness",         "/proc/sys/kernel/numa_balancing",
        "/proc/sys/kernel/dmesg_restrict", "/proc/sys/kernel/yama/ptrace_scope",
        "/proc/sys/kernel/tainted",        "/sys/kernel/mm/transparent_hugepage/enabled",
    };
    machine_integer(out, "host.max_map_count", FACT_STATIC, "/proc/sys/vm/max_map_count");
    machine_integer(out, "host.pid_max", FACT_STATIC, "/proc/sys/kernel/pid_max");
    if (fs_sysroot()[0] == '\0')
        collect_integer(out, "host.page_size", FACT_STATIC, sysconf(_SC_PAGESIZE), "sysconf");
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        char value[128];
        if (fs_read_machine_text(shown[i], value, sizeof value) > 0)
            buf_printf(text, "%s: %s\n", shown[i], value);
    }
}

/* --- boot --- */

static void collect_boot(struct collect_out *out, struct buf *text)
{
    char data[4096];
    ssize_t n = fs_read_machine_text("/proc/cmdline", data, sizeof data);
    if (n > 0 || n == -EFBIG) {
        struct buf line = BUF_INIT;
        host_append_cmdline(&line, data);
        collect_text(out, "host.kernel_cmdline", FACT_STATIC, buf_str(&line), "/proc/cmdline");
        buf_printf(text, "cmdline: %s\n", buf_str(&line));
        buf_release(&line);
    } else {
        machine_missing(out, "host.kernel_cmdline", FACT_STATIC, n < 0 ? (int)n : -ENOENT,
                        "/proc/cmdline");
    }
    /* none [integrity] confidentiality */
    const char *path = "/sys/kernel/security/lockdown";
    n = fs_read_machine_text(path, data, sizeof data);
    char *open = n > 0 ? strchr(data, '[') : NULL;
    if (open != NULL && strchr(open, ']') != NULL) {
        *strchr(open, ']') = '\0';
        collect_text(out, "host.lockdown", FACT_STATIC, open + 1, path);
        buf_printf(text, "lockdown: %s\n", open + 1);
    } else {
        machine_missing(out, "host.lockdown", FACT_STATIC, n < 0 ? (int)n : -EINVAL, path);
    }
    /* Four bytes of attributes, then the value. */
    path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    RC_AUTO_CLOSE int fd = fs_open_machine(path);
    unsigned char bytes[5];
    if (fd >= 0 && fs_pread_full(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes)
        collect_boolean(out, "host.secure_boot", FACT_STATIC, bytes[4] == 1, path);
    else
        machine_missing(out, "host.secure_boot", FACT_STATIC, fd < 0 ? fd : -ENOENT, path);
}

/* --- modules --- */

static void put_parameters(struct buf *text, const char *module)
{
    RC_AUTO_FREE char(*names)[MACHINE_NAME_MAX] = malloc((size_t)PARAMETERS_MAX * MACHINE_NAME_MAX);
    char folder[128];
    (void)snprintf(folder, sizeof folder, "/sys/module/%s/parameters", module);
    int n = names != NULL ? machine_list(folder, names, PARAMETERS_MAX) : 0;
    for (int i = 0; i < n; i++) {
        char path[256];
        char value[256];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        ssize_t len = fs_read_machine_text(path, value, sizeof value);
        value[strcspn(value, "\n")] = '\0';
        buf_printf(text, "%s.%s=", module, names[i]);
        if (len >= 0 || len == -EFBIG)
            machine_append_clean(text, value, strlen(value));
        else /* gttsize, vramlimit and others are 0600 */
            buf_printf(text, "<unreadable: %s>", strerror((int)-len));
        buf_putc(text, '\n');
    }
}

static void collect_ttm(struct collect_out *out)
{
    const char *ttm = machine_ttm_parameters();
    char path[96];
    char value[64];
    uint64_t pages = 0;
    (void)snprintf(path, sizeof path, "%s/pages_limit",
                   ttm != NULL ? ttm : "/sys/module/ttm/parameters");
    ssize_t n = fs_read_machine_text(path, value, sizeof value);
    if (n <= 0 || fs_parse_u64(value, &pages) != 0 || pages > INT64_MAX / 65536) {
        machine_missing(out, "host.ttm_pages_limit", FACT_STATIC, n < 0 ? (int)n : -EINVAL, path);
        return;
    }
    collect_integer(out, "host.ttm_pages_limit", FACT_STATIC, (int64_t)pages, path);
    /* A recorded machine is x86 unless it says otherwise. */
    int64_t page = fs_sysroot()[0] == '\0' ? sysconf(_SC_PAGESIZE) : 4096;
    collect_integer(out, "host.ttm_limit_bytes", FACT_STATIC, (int64_t)pages * page, path);
}

static void collect_amdgpu_parameters(struct collect_out *out)
{
    char value[64];
    const char *path = "/sys/module/amdgpu/parameters/gttsize";
    ssize_t n = fs_read_machine_text(path, value, sizeof value);
    char *end = value;
    long mib = n > 0 ? strtol(value, &end, 10) : 0;
    if (n > 0 && end != value && *end == '\0' && mib >= 0)
        collect_integer(out, "host.gttsize_mib", FACT_STATIC, mib, path);
    else if (n > 0 && mib == -1)
        collect_missing(out, "host.gttsize_mib", FACT_STATIC, FACT_ABSENT, "left to the driver (-1)",
                        path);
    else
        machine_missing(out, "host.gttsize_mib", FACT_STATIC, n < 0 ? (int)n : -EINVAL, path);
    path = "/sys/module/amdgpu/parameters/no_system_mem_limit";
    n = fs_read_machine_text(path, value, sizeof value);
    if (n > 0 && strchr("YyNn10", value[0]) != NULL)
        collect_boolean(out, "host.no_system_mem_limit", FACT_STATIC,
                        strchr("Yy1", value[0]) != NULL, path);
    else
        machine_missing(out, "host.no_system_mem_limit", FACT_STATIC, n < 0 ? (int)n : -EINVAL,
                        path);
}

/* /sys/module/amdgpu/version exists for the DKMS driver only; srcversion for both. */
static void collect_driver(struct collect_out *out, struct buf *text)
{
    char value[128];
    const char *path = "/sys/module/amdgpu/version";
    ssize_t n = fs_read_machine_text(path, value, sizeof value);
    bool dkms = n > 0;
    if (dkms)
        collect_text(out, "host.amdgpu_version", FACT_STATIC, value, path);
    else
        machine_missing(out, "host.amdgpu_version", FACT_STATIC, n < 0 ? (int)n : -ENOENT, path);
    if (dkms)
        buf_printf(text, "amdgpu version: %s (DKMS)\n", value);
    path = "/sys/module/amdgpu/srcversion";
    n = fs_read_machine_text(path, value, sizeof value);
    if (n > 0) {
        collect_text(out, "host.amdgpu_srcversion", FACT_STATIC, value, path);
        collect_boolean(out, "host.amdgpu_is_dkms", FACT_STATIC, dkms, path);
        buf_printf(text, "amdgpu srcversion: %s\n", value);
    } else {
        machine_missing(out, "host.amdgpu_srcversion", FACT_STATIC, n < 0 ? (int)n : -ENOENT, path);
    }
}

static void put_modules(struct buf *text)
{
    char full[FS_PATH_MAX];
    RC_AUTO_FREE char *data = NULL;
    if (fs_machine_path(full, sizeof full, "/proc/modules") < 0)
        return;
    ssize_t n = fs_read_all(full, (size_t)512 << 10, &data);
    if (n < 0 && n != -EFBIG)
        return;
    buf_puts(text, "\n# modules: name, bytes, users\n");
    host_append_modules(text, data);
}

/* --- firmware --- */

static bool put_firmware(struct buf *text)
{
    int cards[CARDS_MAX];
    int count = machine_cards(cards, CARDS_MAX);
    bool any = false;
    for (int c = 0; c < count; c++) {
        char names[64][MACHINE_NAME_MAX];
        char folder[96];
        (void)snprintf(folder, sizeof folder, "/sys/class/drm/card%d/device/fw_version", cards[c]);
        int n = machine_list(folder, names, 64);
        for (int i = 0; i < n; i++) {
            char path[192];
            char value[64];
            (void)snprintf(path, sizeof path, "%s/%.63s", folder, names[i]);
            /* 0x00000000: the chip has no such block. */
            if (fs_read_machine_text(path, value, sizeof value) <= 0 ||
                strtoull(value, NULL, 16) == 0)
                continue;
            buf_printf(text, "card%d %s ", cards[c], names[i]);
            machine_append_clean(text, value, strlen(value));
            buf_putc(text, '\n');
            any = true;
        }
    }
    return any;
}

static int write_text(struct collect_out *out, const char *name, struct buf *text)
{
    int r = buf_failed(text) ? -ENOMEM : 0;
    if (r == 0 && text->len > 0)
        r = collect_write(out, name, text->data, text->len);
    buf_release(text);
    return r;
}

/* The error bound of the wall clock, which NTP or PTP gives to the kernel. Reads it and changes nothing. */
static void collect_clock(struct collect_out *out)
{
    static const char fact[] = "host.clock_error_us";
    static const char source[] = "adjtimex";
    struct timex timex = {.modes = 0};
    if (fs_sysroot()[0] != '\0')
        return;
    int state = adjtimex(&timex);
    if (state < 0)
        collect_missing(out, fact, FACT_AFTER, FACT_UNREADABLE, strerror(errno), source);
    else if (state == TIME_ERROR)
        collect_missing(out, fact, FACT_AFTER, FACT_ABSENT, "the clock is not synchronised", source);
    else
        collect_integer(out, fact, FACT_AFTER, timex.maxerror, source);
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    struct buf text = BUF_INIT;
    collect_kernel(out, &text);
    collect_distribution(out, &text);
    collect_cpu(out, &text);
    collect_driver(out, &text);
    collect_boot(out, &text);
    collect_kernel_limits(out, &text);
    collect_shm(out, &text);
    collect_memory(out, &text);
    collect_clock(out);
    collect_ttm(out);
    collect_amdgpu_parameters(out);
    bool any = text.len > 0;
    int r = write_text(out, "host.txt", &text);
    put_parameters(&text, "amdgpu");
    put_parameters(&text, "ttm");
    put_parameters(&text, "amdttm");
    put_modules(&text);
    any = any || text.len > 0;
    int r2 = write_text(out, "modules.txt", &text);
    any = put_firmware(&text) || any;
    int r3 = write_text(out, "firmware.txt", &text);
    if (r < 0 || r2 < 0 || r3 < 0)
        return collect_reason(out, COLLECT_FAILED, "cannot write: %s",
                              strerror(r < 0    ? -r
                                       : r2 < 0 ? -r2
                                                : -r3));
    return any ? COLLECT_OK
               : collect_reason(out, COLLECT_SKIPPED, "nothing of the host could be read");
}

const struct collector collector_host = {
    .name = "host",
    .describe = "kernel, memory, limits, driver, firmware and module parameters",
    .phase = COLLECT_QUICK,
    .deadline_ms = 2000,
    .max_bytes = 1u << 20,
    .run = run,
};
