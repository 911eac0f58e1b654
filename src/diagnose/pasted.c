/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pasted_to_facts(): reads the output of tools that people paste into a report.
 *
 * Pure; used by `triage`, and by the finisher for outputs that collectors kept. One text may hold
 * several outputs. Every reader gets each line and recognises its own.
 */
#include "diagnose/pasted.h"

#include <string.h>

#include "diagnose/verdict.h"

void pasted_gpu_integer(const struct pasted *p, unsigned gpu, const char *suffix, int64_t value)
{
    char name[SCAN_NAME_MAX];
    if (gpu < PASTED_GPUS_MAX && value >= 0)
        scan_integer(&p->s, scan_gpu_name(name, gpu, suffix), value);
}

void pasted_gpu_text(const struct pasted *p, unsigned gpu, const char *suffix, struct text value)
{
    char name[SCAN_NAME_MAX];
    if (gpu < PASTED_GPUS_MAX && text_trim(value).len > 0)
        scan_text(&p->s, scan_gpu_name(name, gpu, suffix), value);
}

static void emit(const struct pasted *p)
{
    unsigned gpus = p->gpus > p->smi_gpus ? p->gpus : p->smi_gpus;
    struct scan at = p->s;
    if (gpus > 0)
        scan_integer(&at, "gpu.count", gpus);
    else if (p->agents > 0)
        scan_integer(&at, "gpu.count", 0); /* rocminfo ran and listed CPUs only */
    if (p->pids_seen) {
        scan_integer_at(&at, p->pids_line, "gpu.processes_count", p->pids);
        scan_integer_at(&at, p->pids_line, "gpu.processes_vram_bytes", p->pids_bytes);
    }
}

/* Readers in C that rules name. */
static bool act(void *arg, const struct rule *rule, struct text line,
                const struct rule_takes *takes)
{
    struct pasted *p = arg;
    if (rule->reader == READ_GFX)
        scan_gfx_fact(&p->s, line, NULL);
    if (rule->reader == READ_HOST_FILE)
        p->names_host_file = true;
    return pasted_smi_read(p, rule->reader, line, takes);
}

void pasted_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    struct pasted p = {
        .s = {.facts = facts, .source = source != NULL ? source : "pasted", .line = before},
        .run = {.s = &p.s, .scope = SCOPE_PASTED, .act = act, .arg = &p}};
    while (text_next_line(&rest, &line)) {
        p.s.line++;
        if (text_trim(line).len == 0)
            continue;
        p.names_host_file = false;
        rules_line(&p.run, line);
        pasted_smi_line(&p, line);
        pasted_rocminfo_line(&p, line);
        pasted_host_line(&p, line);
    }
    emit(&p);
}
