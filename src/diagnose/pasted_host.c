/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocminfo, sysfs files, free, uname: pasted output of the host. Others are rules.
 *
 * Pure; one line at a time. A sample stands above each reader.
 */
#include "diagnose/pasted.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

#define SIZE_RULE (TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* " Name: gfx942" -> the value of `key`, if that begins the trimmed line. */
static bool field(struct text line, const char *key, struct text *ret)
{
    struct text t = text_trim(line);
    if (!text_starts(t, key))
        return false;
    *ret = text_trim(text_skip(t, strlen(key)));
    return true;
}

static void begin_agent(struct pasted *p)
{
    p->agents++;
    p->agent_is_gpu = p->pool_is_global = false;
    p->agent_name[0] = p->agent_marketing[0] = '\0';
}

/* "Agent 2", "Name: gfx900", "Device Type: GPU", "Segment: GLOBAL; FLAGS: COARSE GRAINED",
 * "Size: 16760832(0xffc000) KB". The pools of one agent alias the same memory: only the first
 * global one counts (the first fact of a name stays). */
void pasted_rocminfo_line(struct pasted *p, struct text line)
{
    struct text v;
    uint64_t kib, number;
    if (text_starts(line, "Agent ")) {
        v = text_trim(text_skip(line, 6));
        if (text_take_u64(&v, &number) && v.len == 0)
            begin_agent(p);
        return;
    }
    if (p->agents == 0)
        return;
    if (field(line, "Name:", &v) && p->agent_name[0] == '\0') {
        (void)text_copy(v, p->agent_name, sizeof p->agent_name);
    } else if (field(line, "Marketing Name:", &v)) {
        (void)text_copy(v, p->agent_marketing, sizeof p->agent_marketing);
    } else if (field(line, "Device Type:", &v)) {
        if (!text_equals(v, "GPU") || p->agent_is_gpu)
            return;
        p->agent_is_gpu = true;
        pasted_gpu_text(p, p->gpus, "gfx", text_of(p->agent_name));
        pasted_gpu_text(p, p->gpus, "name",
                        text_of(p->agent_marketing));
        p->gpus++;
    } else if (field(line, "Memory Properties:", &v) && p->agent_is_gpu) {
        char name[SCAN_NAME_MAX];
        if (text_has(v, "APU") && p->gpus <= PASTED_GPUS_MAX)
            scan_boolean(&p->s, scan_gpu_name(name, p->gpus - 1, "is_apu"), true);
    } else if (field(line, "Segment:", &v)) {
        p->pool_is_global = text_starts(v, "GLOBAL");
    } else if (field(line, "Size:", &v) && p->pool_is_global && p->agent_is_gpu &&
               text_take_u64(&v, &kib) && kib < (1ull << 40)) {
        pasted_gpu_integer(p, p->gpus - 1, "kfd_bank_bytes", (int64_t)(kib << 10));
    }
}

/* card1 is index 0 if it is the first card in the text */
static unsigned card_index(struct pasted *p, struct text line)
{
    struct text t = line;
    uint64_t card;
    while (text_after(t, "card", &t)) {
        struct text n = t;
        if (!text_take_u64(&n, &card))
            continue;
        if (card > 4096)
            return PASTED_GPUS_MAX;
        for (unsigned i = 0; i < p->cards_count; i++)
            if (p->cards[i] == card)
                return i;
        if (p->cards_count == PASTED_CARDS_MAX)
            return PASTED_GPUS_MAX;
        p->cards[p->cards_count] = (unsigned)card;
        return p->cards_count++;
    }
    return 0;
}

/* A number of a sysfs file; the page limit of TTM also in bytes (x86 pages, as amdgpu needs). */
static void sysfs_value(const struct pasted *p, const char *name, uint64_t value)
{
    if (value > INT64_MAX)
        return;
    scan_integer(&p->s, name, (int64_t)value);
    if (strcmp(name, "host.ttm_pages_limit") == 0 && value <= INT64_MAX / 4096)
        scan_integer(&p->s, "host.ttm_limit_bytes", (int64_t)value * 4096);
}

static const struct {
    const char *file, *fact;
    bool of_gpu;
} sysfs_files[] = {
    {"mem_info_vram_total", "vram.total_bytes", true},
    {"mem_info_vram_used", "vram.used_bytes", true},
    {"mem_info_vis_vram_total", "vram_visible.total_bytes", true},
    {"mem_info_vis_vram_used", "vram_visible.used_bytes", true},
    {"mem_info_gtt_total", "gtt.total_bytes", true},
    {"mem_info_gtt_used", "gtt.used_bytes", true},
    {"gpu_busy_percent", "busy_percent", true},
    {"ttm/parameters/pages_limit", "host.ttm_pages_limit", false},
    {"amdgpu/parameters/gttsize", "host.gttsize_mib", false},
    {"vm.max_map_count", "host.max_map_count", false},
    {"sys/vm/max_map_count", "host.max_map_count", false},
    {"no_system_mem_limit", "host.no_system_mem_limit", false},
};

/* "/sys/class/drm/card1/device/mem_info_gtt_total: 103079215104  (96 GiB)", "mem_info_vram_used:1",
 * "$ cat /sys/module/ttm/parameters/pages_limit" and "4058844" on the next line */
static void sysfs(struct pasted *p, struct text line)
{
    struct text t;
    uint64_t value;
    if (p->sysfs_fact[0] != '\0') {
        t = text_trim(line);
        if (text_take_u64(&t, &value) && t.len == 0)
            sysfs_value(p, p->sysfs_fact, value);
        p->sysfs_fact[0] = '\0';
    }
    for (size_t i = 0; i < COUNT(sysfs_files) && p->names_host_file; i++) {
        if (!text_after(line, sysfs_files[i].file, &t))
            continue;
        char name[SCAN_NAME_MAX];
        if (sysfs_files[i].of_gpu) {
            unsigned gpu = card_index(p, line);
            if (gpu >= PASTED_GPUS_MAX)
                return;
            (void)scan_gpu_name(name, gpu, sysfs_files[i].fact);
        } else {
            (void)snprintf(name, sizeof name, "%s", sysfs_files[i].fact);
        }
        t = text_skip_any(text_trim(t), ":= \t");
        if (t.len == 0)
            memcpy(p->sysfs_fact, name, sizeof name);
        else if (text_take_u64(&t, &value) && (t.len == 0 || !isalnum((unsigned char)t.at[0])))
            sysfs_value(p, name, value);
        return;
    }
}

/* The number under a heading of `free`: with its unit (-h), else by the option or by its size. */
static bool free_number(const struct pasted *p, struct text word, uint64_t total, int64_t *ret)
{
    struct text t = word;
    uint64_t n;
    if (text_take_size(&t, SIZE_RULE, ret) && t.len == 0)
        return true;
    if (!text_take_u64(&word, &n) || word.len > 0 || n > (1ull << 50))
        return false;
    /* RAM in KiB is above a million on any machine with a GPU, in MiB above a thousand */
    char unit = p->free_unit != 0  ? p->free_unit
                : total >= 1000000 ? 'k'
                : total >= 1024    ? 'm'
                                   : 'g';
    unsigned shift = unit == 'b' ? 0 : unit == 'k' ? 10 : unit == 'm' ? 20 : 30;
    if (n > (uint64_t)INT64_MAX >> shift)
        return false;
    *ret = (int64_t)(n << shift);
    return true;
}

/* "              total        used        free      shared  buff/cache   available"
 * "Mem:            31Gi        12Gi       1,2Gi       ..."
 * "Swap:          8191           0        8191" */
static void free_table(struct pasted *p, struct text line)
{
    struct text t = text_trim(line), words[8], rest;
    size_t n = 0;
    for (size_t i = 0; i < 4 && p->names_host_file; i++) {
        char command[] = {'f', 'r', 'e', 'e', ' ', '-', "kmgb"[i], '\0'};
        if (text_has(t, command) && !text_starts(t, "Mem:"))
            p->free_unit = "kmgb"[i];
    }
    if (text_starts(t, "total") && text_has(t, "used") && text_has(t, "free")) {
        p->free_available_column = text_has(t, "available") ? 6 : 0;
        return;
    }
    bool swap = text_starts(t, "Swap:");
    if (!swap && !text_starts(t, "Mem:"))
        return;
    rest = text_skip(t, swap ? 5 : 4);
    while (n < COUNT(words) && text_next_word(&rest, &words[n]))
        n++;
    struct text first = n > 0 ? words[0] : (struct text){"", 0};
    uint64_t total = 0;
    int64_t bytes;
    if (n < 3 || !isdigit((unsigned char)first.at[0]))
        return;
    (void)text_take_u64(&first, &total);
    if (free_number(p, words[0], total, &bytes))
        scan_integer(&p->s, swap ? "host.swap_total_bytes" : "host.mem_total_bytes", bytes);
    if (swap && free_number(p, words[2], total, &bytes))
        scan_integer(&p->s, "host.swap_free_bytes", bytes);
    if (!swap && n >= 6 && p->free_available_column == 6 && free_number(p, words[5], total, &bytes))
        scan_integer(&p->s, "host.mem_available_bytes", bytes);
}

/* "Linux tower 6.8.0-45-generic #45-Ubuntu SMP ..." */
static void uname(struct pasted *p, struct text line)
{
    struct text rest = text_trim(line), system, host, release;
    char version[64];
    int64_t number;
    if (!text_starts(rest, "Linux ") || !text_next_word(&rest, &system) || !text_next_word(&rest, &host) ||
        !text_next_word(&rest, &release) || !number_of_version(text_copy(release, version, sizeof version), &number))
        return;
    scan_text(&p->s, "host.kernel", release);
    scan_integer(&p->s, "host.kernel_version", number);
}

void pasted_host_line(struct pasted *p, struct text line)
{
    sysfs(p, line);
    free_table(p, line);
    uname(p, line);
}
