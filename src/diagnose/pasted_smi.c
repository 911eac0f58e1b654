/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocm-smi, amd-smi and nvidia-smi, as text.
 *
 * Pure. Versions seen: rocm-smi of ROCm 4.3 to 6.4, amd-smi of 6.1 to 7.2; the names of rows
 * changed in case and in words, the units did not.
 */
#include "diagnose/pasted.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SIZE_RULE (TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void note_gpu(struct pasted *p, uint64_t gpu)
{
    if (gpu < PASTED_GPUS_MAX && gpu + 1 > p->smi_gpus)
        p->smi_gpus = (unsigned)gpu + 1;
}

/* The last n words of a line, last first; false when there are fewer. */
static bool last_words(struct text line, struct text *ret, unsigned n)
{
    struct text t = text_trim(line);
    for (unsigned i = 0; i < n; i++) {
        size_t from = t.len;
        while (from > 0 && !isspace((unsigned char)t.at[from - 1]))
            from--;
        if (from == t.len)
            return false;
        ret[i] = text_skip(t, from);
        t = text_trim(text_first(t, from));
    }
    return true;
}

/* "0       4     0x74a0,   50375  48.0°C ... auto  550.0W  0%     0%" under "... VRAM%  GPU%" */
static void smi_percent_row(struct pasted *p, struct text line)
{
    struct text t = text_trim(line), words[2];
    uint64_t gpu, busy, vram;
    if (!text_take_u64(&t, &gpu) || gpu >= PASTED_GPUS_MAX || !last_words(t, words, 2) ||
        !text_take_u64(&words[0], &busy) || !text_equals(words[0], "%") ||
        !text_take_u64(&words[1], &vram) || !text_equals(words[1], "%") || vram > 100)
        return;
    note_gpu(p, gpu);
    pasted_gpu_integer(p, (unsigned)gpu, "vram.used_percent", (int64_t)vram);
    pasted_gpu_integer(p, (unsigned)gpu, "busy_percent", (int64_t)busy);
}

/* "1188185	python	1	23454208	0	0" under "PID    	PROCESS NAME
 * GPU(s)	VRAM USED	..." */
static void smi_pid_row(struct pasted *p, struct text line)
{
    struct text words[5];
    uint64_t pid, bytes;
    struct text t = text_trim(line);
    if (!text_take_u64(&t, &pid) || t.len == 0 || !isspace((unsigned char)t.at[0]))
        return;
    p->pids++;
    /* the name may hold spaces: VRAM is the third word from the end */
    if (last_words(line, words, 3) && text_take_u64(&words[2], &bytes) && bytes < (1ull << 50))
        p->pids_bytes += (int64_t)bytes;
}

/* "VRAM_MEM: 5.4 GB" of "amd-smi process" */
static void amd_smi_process(struct pasted *p, int64_t bytes)
{
    p->pids_line = p->pids_seen ? p->pids_line : p->s.line;
    p->pids_seen = true;
    p->pids++;
    p->pids_bytes += bytes < (1ll << 50) ? bytes : 0;
}

/* "|   0       1       6        SPX/NPS1 | 0 %        N/A         46111/262128 MB |" (amd-smi 7) */
static void amd_smi_table(struct pasted *p, struct text line)
{
    struct text t = text_trim(line), word;
    uint64_t gpu, used, total;
    if (!text_starts(t, "|"))
        return;
    t = text_trim(text_skip(t, 1));
    struct text rest = t;
    if (!text_take_u64(&rest, &gpu) || gpu >= PASTED_GPUS_MAX || !text_starts(rest, " "))
        return;
    while (text_next_word(&rest, &word)) {
        struct text w = word, unit = rest;
        if (text_take_u64(&w, &used) && text_starts(w, "/")) {
            w = text_skip(w, 1);
            if (text_take_u64(&w, &total) && w.len == 0 && text_starts(text_trim(unit), "MB") &&
                total < (1u << 30) && used < (1u << 30)) {
                note_gpu(p, gpu);
                pasted_gpu_integer(p, (unsigned)gpu, "vram.used_bytes", (int64_t)(used << 20));
                pasted_gpu_integer(p, (unsigned)gpu, "vram.total_bytes", (int64_t)(total << 20));
            }
        }
    }
}

/* "| N/A   34C    P0    66W / 400W |      0MiB / 81920MiB |      0%      Default |" */
static void nvidia_smi(struct pasted *p, struct text line)
{
    struct text t, rest;
    int64_t used, total;
    if (!text_starts(line, "|") || !text_before(line, "MiB / ", &t))
        return;
    (void)text_after(line, "MiB / ", &rest);
    t.len += 3;
    if (!text_size_before(t, &used) || !text_take_size(&rest, SIZE_RULE, &total))
        return;
    unsigned gpu = p->nvidia_gpus++;
    note_gpu(p, gpu);
    pasted_gpu_integer(p, gpu, "vram.used_bytes", used);
    pasted_gpu_integer(p, gpu, "vram.total_bytes", total);
}

void pasted_smi_line(struct pasted *p, struct text line)
{
    amd_smi_table(p, line);
    nvidia_smi(p, line);
}

bool pasted_smi_read(struct pasted *p, enum rule_reader reader, struct text line,
                     const struct rule_takes *takes)
{
    switch (reader) {
    case READ_NOTE_GPU:
        note_gpu(p, (uint64_t)rule_taken_integer(takes, "_gpu", 0));
        break;
    case READ_SMI_PERCENT:
        smi_percent_row(p, line);
        break;
    case READ_SMI_PROCESS:
        smi_pid_row(p, line);
        break;
    case READ_AMD_SMI_PROCESS:
        amd_smi_process(p, rule_taken_integer(takes, "_size", 0));
        break;
    case READ_NO_PROCESSES:
        p->pids_line = p->pids_seen ? p->pids_line : p->s.line;
        p->pids_seen = true;
        break;
    case READ_PROCESSES_TOLD:
        p->pids_line = p->s.line;
        p->pids_seen = true;
        break;
    default:
        break;
    }
    return true;
}
