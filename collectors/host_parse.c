/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/host_parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/number.h"

static const char *find_line(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0)
            return line + len;
    }
    return NULL;
}

static void copy_clean(char *out, size_t size, const char *p, size_t len)
{
    size_t n = len < size - 1 ? len : size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = iscntrl((unsigned char)p[i]) ? '?' : p[i];
    out[n] = '\0';
}

/* PRETTY_NAME="Debian GNU/Linux 12 (bookworm)" */
bool host_os_release(const char *text, const char *key, char *out, size_t size)
{
    char with_equals[64];
    (void)snprintf(with_equals, sizeof with_equals, "%s=", key);
    const char *v = find_line(text, with_equals);
    if (v == NULL)
        return false;
    size_t len = strcspn(v, "\n");
    if (len >= 2 && (v[0] == '"' || v[0] == '\'') && v[len - 1] == v[0]) {
        v++;
        len -= 2;
    }
    copy_clean(out, size, v, len);
    return out[0] != '\0';
}

/* model name	: AMD EPYC 9654 96-Core Processor          (x86)
 * processor	: 0 */
bool host_cpu(const char *text, char *model, size_t size, int64_t *ret_count)
{
    int64_t count = 0;
    for (const char *p = text; (p = find_line(p, "processor")) != NULL;)
        count += p[strspn(p, " \t")] == ':';
    const char *v = find_line(text, "model name");
    if (v == NULL)
        v = find_line(text, "CPU part"); /* arm64 has no names */
    if (v == NULL || (v = strchr(v, ':')) == NULL || count == 0)
        return false;
    v += 1 + strspn(v + 1, " \t");
    copy_clean(model, size, v, strcspn(v, "\n"));
    *ret_count = count;
    return model[0] != '\0';
}

/* MemTotal:       65758092 kB          (kB means KiB; HugePages_Total has no unit) */
bool host_meminfo(const char *text, const char *key, uint64_t *ret_bytes)
{
    const char *v = find_line(text, key);
    uint64_t number = 0;
    if (v == NULL || !number_of_field(v, &number) || number > (UINT64_C(1) << 52))
        return false;
    const char *unit = v + strspn(v, " \t");
    unit += strspn(unit, "0123456789");
    unit += strspn(unit, " ");
    *ret_bytes = strncmp(unit, "kB", 2) == 0 ? number * 1024 : number;
    return true;
}

/* Keys whose values are about GPUs and memory, not about disks, hosts or people. */
static bool value_is_harmless(const char *token, size_t key_len)
{
    static const char *const prefixes[] = {"amdgpu.",
                                           "ttm.",
                                           "amdttm.",
                                           "drm.",
                                           "drm_kms_helper.",
                                           "pcie_",
                                           "pci",
                                           "radeon.",
                                           "nouveau.",
                                           "iommu",
                                           "amd_iommu",
                                           "intel_iommu",
                                           "mitigations",
                                           "hugepage",
                                           "video",
                                           "cma",
                                           "transparent_hugepage",
                                           "default_hugepagesz",
                                           "numa",
                                           "isolcpus",
                                           "nohz",
                                           "rcu_nocbs",
                                           "preempt",
                                           "mem",
                                           "crashkernel",
                                           "swiotlb",
                                           "lockdown",
                                           "cgroup",
                                           "systemd.unified_cgroup_hierarchy",
                                           "psi",
                                           "panic",
                                           "modprobe.blacklist",
                                           "module_blacklist",
                                           "processor.",
                                           "amd_pstate",
                                           "efi",
                                           "vm.",
                                           "hpet",
                                           "clocksource",
                                           "nvidia",
                                           "initcall_blacklist",
                                           "log_buf_len",
                                           "movablecore",
                                           "kernelcore",
                                           "apparmor",
                                           "selinux",
                                           "security",
                                           "thp"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i]);
        if (key_len >= n && strncmp(token, prefixes[i], n) == 0)
            return true;
    }
    return false;
}

/* BOOT_IMAGE=/boot/vmlinuz-6.14.0-1014-oem root=UUID=3bad... ro quiet splash amdgpu.gtt_size=122880
 */
void host_append_cmdline(struct buf *out, const char *text)
{
    bool first = true;
    for (const char *p = text; *(p += strspn(p, " \t\n")) != '\0';) {
        size_t len = strcspn(p, " \t\n");
        const char *equals = memchr(p, '=', len);
        size_t shown = len;
        if (equals != NULL && !value_is_harmless(p, (size_t)(equals - p)))
            shown = (size_t)(equals - p) + 1;
        if (!first)
            buf_putc(out, ' ');
        first = false;
        for (size_t i = 0; i < shown; i++)
            buf_putc(out, iscntrl((unsigned char)p[i]) ? '?' : p[i]);
        if (shown < len)
            buf_puts(out, "<redacted>");
        p += len;
        /* A quoted value with spaces: to its end. */
        if (equals != NULL && equals[1] == '"' &&
            memchr(equals + 2, '"', (size_t)(p - equals) - 2) == NULL) {
            const char *close = strchr(p, '"');
            p = close != NULL ? close + 1 : p + strlen(p);
        }
    }
}

/* The word at *at; moves *at past it and the following blanks; "" at the end. */
static struct word {
    const char *at;
    int len;
} next_word(const char **at)
{
    *at += strspn(*at, " ");
    struct word word = {*at, (int)strcspn(*at, " ")};
    *at += word.len;
    *at += strspn(*at, " ");
    return word;
}

/* amdgpu 21233664 122 - Live 0x0000000000000000 (OE)          (lsmod has no state) */
static void append_module(struct buf *out, const char *line)
{
    const char *p = line;
    uint64_t bytes = 0;
    struct word name = next_word(&p);
    if (name.len == 0 || !number_take_before(&p, 10, ' ', &bytes))
        return;
    (void)next_word(&p); /* the count of its users; their names follow */
    struct word users = next_word(&p);
    if (users.len == 0)
        users = (struct word){"-", 1};
    bool foreign = strstr(line, "(OE)") != NULL || strstr(line, "(O)") != NULL;
    buf_printf(out, "%.*s %" PRIu64 " %.*s%s\n", name.len, name.at, bytes, users.len, users.at,
               foreign ? " out-of-tree" : "");
}

void host_append_modules(struct buf *out, const char *text)
{
    static const char *const wanted[] = {
        "amd",  "ttm",   "drm",  "kfd", "gpu_sched", "radeon",  "nvidia", "nouveau", "i915", "xe",
        "vfio", "iommu", "mlx5", "ib_", "rdma",      "peermem", "kvm",    "zram",    "hsa"};
    for (const char *line = text; line != NULL && *line != '\0';) {
        size_t len = strcspn(line, "\n");
        bool match = false;
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            match = match || strncmp(line, wanted[i], strlen(wanted[i])) == 0 ||
                    (strlen(wanted[i]) > 3 &&
                     memmem(line, strcspn(line, " \n"), wanted[i], strlen(wanted[i])) != NULL);
        char copy[1200];
        copy_clean(copy, sizeof copy, line, len);
        if (match)
            append_module(out, copy);
        line = line[len] == '\n' ? line + len + 1 : NULL;
    }
}
