/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of pasted_to_facts(): what spans lines in the output of tools. Internal to diagnose/.
 */
#ifndef DIAGNOSE_PASTED_H
#define DIAGNOSE_PASTED_H

#include "diagnose/text_facts.h"

#define PASTED_CARDS_MAX 64
#define PASTED_GPUS_MAX 1024

enum pasted_table { TABLE_NONE, TABLE_SMI_PERCENT, TABLE_KFD_PIDS };

struct pasted {
    struct scan s;
    /* rocm-smi, amd-smi */
    enum pasted_table table;
    unsigned pids;
    int64_t pids_bytes;
    bool pids_seen;
    unsigned pids_line;
    unsigned amd_gpu;    /* "GPU: N" of amd-smi, + 1; 0 = outside */
    bool amd_vram_block; /* below its "VRAM:" */
    unsigned smi_gpus;   /* largest index + 1 */
    /* rocminfo */
    unsigned agents, gpus;
    bool agent_is_gpu;
    bool pool_is_global;
    char agent_name[64], agent_marketing[96];
    /* nvidia-smi */
    unsigned nvidia_gpus;
    /* sysfs: cards in the order in which they appear */
    unsigned cards[PASTED_CARDS_MAX];
    unsigned cards_count;
    char sysfs_fact[SCAN_NAME_MAX]; /* waits for its number on the next line */
    /* free */
    char free_unit; /* 'k', 'm', 'g', 'b' after "free -m", 0 = guess */
    unsigned free_available_column;
    bool df_in_kib;
};

/* Each takes one line. */
void pasted_smi_line(struct pasted *, struct text line);
void pasted_rocminfo_line(struct pasted *, struct text line);
void pasted_host_line(struct pasted *, struct text line);
/* rocm-smi --json, amd-smi --json: the whole text. */
void pasted_json(struct pasted *, struct text all);

/* "gpu.N.SUFFIX", LOG. */
void pasted_gpu_integer(const struct pasted *, unsigned gpu, const char *suffix, int64_t value);
void pasted_gpu_text(const struct pasted *, unsigned gpu, const char *suffix, struct text value);

#endif
