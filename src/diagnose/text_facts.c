/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the text-to-facts parsers share; see text_facts.h. Used in the finisher and by `triage`.
 */
#include "diagnose/text_facts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Longest text kept of one line: a message, not a log. */
#define SCAN_TEXT_MAX 512

static const char *where(const struct scan *s, unsigned line, char out[160])
{
    (void)snprintf(out, 160, "%.120s line %u", s->source, line);
    return out;
}

void scan_integer_at(const struct scan *s, unsigned line, const char *name, int64_t value)
{
    char source[160];
    (void)facts_set_integer(s->facts, name, FACT_LOG, value, where(s, line, source));
}

void scan_integer(const struct scan *s, const char *name, int64_t value)
{
    scan_integer_at(s, s->line, name, value);
}

void scan_integer_when(const struct scan *s, const char *name, enum fact_when when, int64_t value)
{
    char source[160];
    (void)facts_set_integer(s->facts, name, when, value, where(s, s->line, source));
}

void scan_real(const struct scan *s, const char *name, double value)
{
    char source[160];
    (void)facts_set_real(s->facts, name, FACT_LOG, value, where(s, s->line, source));
}

void scan_text_when(const struct scan *s, const char *name, enum fact_when when, struct text value)
{
    char source[160], text[SCAN_TEXT_MAX];
    value = text_trim(value);
    (void)facts_set_text(s->facts, name, when, text_copy(value, text, sizeof text),
                         where(s, s->line, source));
}

void scan_text(const struct scan *s, const char *name, struct text value)
{
    scan_text_when(s, name, FACT_LOG, value);
}

void scan_boolean_when(const struct scan *s, const char *name, enum fact_when when, bool value)
{
    char source[160];
    (void)facts_set_boolean(s->facts, name, when, value, where(s, s->line, source));
}

void scan_boolean_at(const struct scan *s, unsigned line, const char *name, bool value)
{
    char source[160];
    (void)facts_set_boolean(s->facts, name, FACT_LOG, value, where(s, line, source));
}

void scan_boolean(const struct scan *s, const char *name, bool value)
{
    scan_boolean_at(s, s->line, name, value);
}

const char *scan_gpu_name(char out[SCAN_NAME_MAX], unsigned index, const char *suffix)
{
    (void)snprintf(out, SCAN_NAME_MAX, "gpu.%u.%s", index, suffix);
    return out;
}

/* Which pairs of bytes a line has: a set with false hits. Most words of the tables fail on it
 * without a search of the line (a log of 8 MB: 0.4 s instead of 2 s). */
struct pairs {
    uint64_t bits[16];
};

static unsigned pair_slot(const char *at)
{
    return ((unsigned char)at[0] * 31u + (unsigned char)at[1] * 7u) & 1023u;
}

static struct pairs pairs_of(struct text line)
{
    struct pairs p = {{0}};
    for (size_t i = 0; i + 1 < line.len; i++) {
        unsigned slot = pair_slot(line.at + i);
        p.bits[slot / 64] |= UINT64_C(1) << (slot % 64);
    }
    return p;
}

/* False: the first literal part of the pattern cannot be in the line. */
static bool may_have(const struct pairs *p, const char *pattern)
{
    const char *at = pattern + (pattern[0] == '^');
    for (unsigned i = 0; i < 4 && at[i + 1] != '\0' && at[i + 1] != '*'; i++) {
        unsigned slot = pair_slot(at + i);
        if ((p->bits[slot / 64] >> (slot % 64) & 1) == 0)
            return false;
    }
    return true;
}

static bool has_any(struct text line, const struct pairs *p, const char *const *words)
{
    for (; *words != NULL; words++)
        if (may_have(p, *words) && text_like(line, *words))
            return true;
    return false;
}

void scan_vendor(const struct scan *s, struct text line)
{
    static const char *const amd[] = {
        "HIP out of memory",
        "HIP error",
        "hipError",
        "^HSA_STATUS",
        "ROCm",
        "^rocm",
        "rocBLAS",
        "^rocblas",
        "HIPBLAS",
        "MIOpen",
        "amdgpu",
        "Radeon",
        "AMD Instinct",
        "GPU node-",
        "libamdhip64",
        "libhsa-runtime",
        "/dev/kfd",
        "rocdevice",
        "PYTORCH_HIP",
        "HIPCachingAllocator",
        "HIP Graphs",
        "amdsmi",
        "^RCCL",
        "hsakmt",
        "^HIP_",
        "No HIP GPUs",
        "libggml-hip",
        "^hipMalloc",
        "^hipMemcpy",
        "^hipIpc",
        "HCC STATUS_CHECK",
        "rocblit.cpp",
        "HSA copy",
        "stream_executor/rocm",
        "^amd-smi",
        NULL,
    };
    static const char *const nvidia[] = {
        "^NVIDIA",         "GeForce",  "^Quadro",   "NVRM:",        "Xid (PCI",
        "^CUBLAS_STATUS_", "^RTX 20",  "^RTX 30",   "^RTX 40",      "^RTX 50",
        "CUDA_ERROR_",     "^A100",    "^H100",     "^libcuda.so",  "Tesla V100",
        "Tesla T4",        "^nvidia-", "^nvidia 0", "libcudart.so", NULL,
    };
    struct text gfx;
    struct pairs p = pairs_of(line);
    if (facts_find(s->facts, "vendor.amd", FACT_LOG) == NULL &&
        (has_any(line, &p, amd) || scan_gfx(line, &gfx)))
        scan_boolean(s, "vendor.amd", true);
    if (facts_find(s->facts, "vendor.nvidia", FACT_LOG) == NULL && has_any(line, &p, nvidia))
        scan_boolean(s, "vendor.nvidia", true);
}

bool scan_gfx(struct text in, struct text *ret)
{
    const char *end = in.at + in.len;
    const char *at = in.at;
    for (; at < end && (at = memchr(at, 'g', (size_t)(end - at))) != NULL; at++) {
        struct text name = {at, (size_t)(end - at)};
        if (!text_starts(name, "gfx"))
            continue;
        size_t n = 3;
        while (n < name.len && n < 9 && isxdigit((unsigned char)at[n]))
            n++;
        bool inside = at > in.at && isalnum((unsigned char)at[-1]);
        bool ends = n == name.len || !(isalnum((unsigned char)at[n]) || at[n] == '_');
        if (!inside && ends && n >= 6 && n <= 7 && isdigit((unsigned char)at[3])) {
            *ret = text_first(name, n);
            return true;
        }
    }
    return false;
}

/* "W0601 10:00:00", "I0000 00:00:1750000000": absl and glog; "[rank0]:[W611 10:00:00.1": PyTorch. */
static bool is_logged_below_error(struct text line)
{
    struct text t = line;
    if (text_after(line, "[W", &t) || text_after(line, "[I", &t))
        return t.len > 2 && isdigit((unsigned char)t.at[0]) && isdigit((unsigned char)t.at[1]);
    if (line.len < 6 || (line.at[0] != 'W' && line.at[0] != 'I'))
        return false;
    for (size_t i = 1; i < 5; i++)
        if (!isdigit((unsigned char)line.at[i]))
            return false;
    return line.at[5] == ' ';
}

bool scan_is_warning(struct text line)
{
    static const char *const marks[] = {
        "Warning: ", "WARNING", "level=WARN", "level=INFO", "level=DEBUG", "NCCL INFO", "INFO:",
        "^INFO ", ": W tensorflow", "^W tensorflow", ": I tensorflow", "kipping",
        "cannot be preloaded*ignored", "can ignore this", "may be ignored",
        /* these go on by their nature: what was asked for is not needed by all */
        "compiled using NumPy 1", "as it may crash", "ggml_vulkan: No devices found",
        "Unable to initialize backend '", NULL};
    for (size_t i = 0; marks[i] != NULL; i++)
        if (text_like(line, marks[i]))
            return true;
    return is_logged_below_error(line);
}

void scan_count(const struct count_row *rows, struct count_state *states, size_t n, unsigned line,
                struct text text)
{
    struct pairs p = pairs_of(text);
    for (size_t i = 0; i < n; i++) {
        if (!has_any(text, &p, rows[i].likes))
            continue;
        if (rows[i].unless != NULL && text_like(text, rows[i].unless))
            continue;
        if (states[i].may_be_warned && scan_is_warning(text)) {
            if (states[i].warned++ == 0)
                states[i].first_warned_line = line;
            continue;
        }
        if (states[i].count++ == 0)
            states[i].first_line = line;
    }
}

void scan_count_emit(const struct scan *s, const struct count_row *rows,
                     const struct count_state *states, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (states[i].count > 0)
            scan_integer_at(s, states[i].first_line, rows[i].fact, states[i].count);
}
