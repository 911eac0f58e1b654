/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of pasted_to_facts(): state that spans lines in the output of tools. Internal to diagnose/.
 */
#ifndef DIAGNOSE_PASTED_H
#define DIAGNOSE_PASTED_H

#include "diagnose/rules.h"

#define PASTED_CARDS_MAX 64
#define PASTED_GPUS_MAX 1024

struct pasted {
    struct scan s;
    struct rules_run run;
    /* rocm-smi, amd-smi */
    unsigned pids;
    int64_t pids_bytes;
    bool pids_seen;
    unsigned pids_line;
    unsigned smi_gpus;   /* largest index + 1 */
    /* rocminfo */
    unsigned agents, gpus;
    bool agent_is_gpu;
    bool pool_is_global;
    char agent_name[64], agent_marketing[96];
    /* nvidia-smi */
    unsigned nvidia_gpus;
    /* sysfs: cards in order of appearance */
    unsigned cards[PASTED_CARDS_MAX];
    unsigned cards_count;
    char sysfs_fact[SCAN_NAME_MAX]; /* waits for its number on the next line */
    bool names_host_file; /* the line does: a file of sysfs, or "free -m" */
    /* free */
    char free_unit; /* 'k', 'm', 'g', 'b' after "free -m", 0 = guess */
    unsigned free_available_column;
};

/* See rules_run.act. */
bool pasted_smi_read(struct pasted *, enum rule_reader, struct text line,
                     const struct rule_takes *);
/* Each takes one line. */
void pasted_smi_line(struct pasted *, struct text line);
void pasted_rocminfo_line(struct pasted *, struct text line);
void pasted_host_line(struct pasted *, struct text line);

/* "gpu.N.SUFFIX", LOG. */
void pasted_gpu_integer(const struct pasted *, unsigned gpu, const char *suffix, int64_t value);
void pasted_gpu_text(const struct pasted *, unsigned gpu, const char *suffix, struct text value);

#endif
