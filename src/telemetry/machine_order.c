/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a GPU is fixed for a run. During a run cards may fall off the bus, appear, or be
 * renumbered after a reset. The counters of one GPU must never be shown as those of another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "record/shared.h"
#include "telemetry/machine.h"

static struct shared_gpu identity_of(const struct gpu_info *gpu)
{
    struct shared_gpu identity = {.kfd_node = SHARED_GPU_NONE, .card = SHARED_GPU_NONE};
    if ((gpu->have & GPU_HAVE_PCI) != 0)
        memcpy(identity.pci, gpu->pci, sizeof identity.pci);
    if ((gpu->have & GPU_HAVE_KFD_NODE) != 0)
        identity.kfd_node = gpu->kfd_node;
    if ((gpu->have & GPU_HAVE_CARD) != 0)
        identity.card = gpu->card;
    return identity;
}

uint32_t machine_identities(const struct machine *m, struct shared_gpu *ret, uint32_t max)
{
    uint32_t count = m->count < max ? m->count : max;
    for (uint32_t i = 0; i < count; i++)
        ret[i] = identity_of(&m->gpus[i]);
    return count;
}

/* By PCI address, and by node if several partitions share an address; the card's number may
 * change. */
static bool is_same(const struct shared_gpu *known, const struct gpu_info *gpu)
{
    struct shared_gpu now = identity_of(gpu);
    if (known->pci[0] == '\0' || now.pci[0] == '\0')
        return known->kfd_node == now.kfd_node && known->card == now.card;
    bool nodes_agree = known->kfd_node == now.kfd_node || known->kfd_node == SHARED_GPU_NONE ||
                       now.kfd_node == SHARED_GPU_NONE;
    return strcmp(known->pci, now.pci) == 0 && (gpu->partition_count <= 1 || nodes_agree);
}

static struct gpu_info gone(const struct shared_gpu *known)
{
    struct gpu_info gpu = {.have = 0};
    if (known->pci[0] != '\0') {
        memcpy(gpu.pci, known->pci, sizeof gpu.pci);
        gpu.have |= GPU_HAVE_PCI;
    }
    if (known->kfd_node != SHARED_GPU_NONE) {
        gpu.kfd_node = known->kfd_node;
        gpu.have |= GPU_HAVE_KFD_NODE;
    }
    return gpu;
}

void machine_keep_order(struct machine *m, const struct shared_gpu *known, uint32_t count)
{
    static struct gpu_info now[MACHINE_GPUS_MAX];
    static bool placed[MACHINE_GPUS_MAX];
    uint32_t present = m->count;
    memcpy(now, m->gpus, present * sizeof now[0]);
    memset(placed, 0, sizeof placed);
    m->count = count < MACHINE_GPUS_MAX ? count : MACHINE_GPUS_MAX;
    for (uint32_t i = 0; i < m->count; i++) {
        m->gpus[i] = gone(&known[i]);
        for (uint32_t k = 0; k < present; k++) {
            if (placed[k] || !is_same(&known[i], &now[k]))
                continue;
            m->gpus[i] = now[k];
            placed[k] = true;
            break;
        }
    }
    for (uint32_t k = 0; k < present && m->count < MACHINE_GPUS_MAX; k++)
        if (!placed[k])
            m->gpus[m->count++] = now[k];
}

static uint32_t number_of(const char *word)
{
    uint64_t number;
    return fs_parse_u64(word, &number) == 0 && number < SHARED_GPU_NONE ? (uint32_t)number
                                                                        : SHARED_GPU_NONE;
}

/* "0000:03:00.0 1 0", "- 4 -" */
static bool parse_line(char *line, struct shared_gpu *ret)
{
    char *rest = NULL;
    const char *pci = strtok_r(line, " ", &rest);
    const char *node = strtok_r(NULL, " ", &rest);
    const char *card = strtok_r(NULL, " ", &rest);
    if (pci == NULL || node == NULL || card == NULL || strlen(pci) >= sizeof ret->pci)
        return false;
    *ret = (struct shared_gpu){.kfd_node = number_of(node), .card = number_of(card)};
    if (strcmp(pci, "-") != 0)
        (void)snprintf(ret->pci, sizeof ret->pci, "%s", pci);
    return true;
}

void machine_scan_of_run(struct machine *ret, const char *run_dir)
{
    static struct shared_gpu known[SHARED_GPUS_MAX];
    static char text[SHARED_GPUS_MAX * 48];
    char path[FS_PATH_MAX];
    uint32_t count = 0;
    machine_scan(ret);
    int n = snprintf(path, sizeof path, "%s/gpus", run_dir);
    if (n < 0 || (size_t)n >= sizeof path || fs_read_text(path, text, sizeof text) <= 0)
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && count < SHARED_GPUS_MAX;
         line = strtok_r(NULL, "\n", &rest))
        count += parse_line(line, &known[count]);
    if (count > 0)
        machine_keep_order(ret, known, count);
}
