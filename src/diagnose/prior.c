/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/prior.h"

#include <stdlib.h>
#include <string.h>

static const char *const classes[PRIOR_CLASSES] = {
    [PRIOR_CAPACITY] = "capacity",
    [PRIOR_FRAGMENTATION] = "fragmentation",
    [PRIOR_LEAK] = "leak",
    [PRIOR_SDMA] = "sdma",
    [PRIOR_GTT_LIMIT] = "gtt-limit",
    [PRIOR_HELD_BY_OTHER] = "held-by-other",
    [PRIOR_HOST_OOM] = "host-oom",
    [PRIOR_PAGE_FAULT] = "page-fault",
    [PRIOR_GPU_HANG] = "gpu-hang",
    [PRIOR_HW_RAS] = "hw-ras",
    [PRIOR_ARCH_MISMATCH] = "arch-mismatch",
    [PRIOR_NO_DEVICE] = "no-device",
    [PRIOR_RESOURCE_LIMIT] = "resource-limit",
    [PRIOR_COLLECTIVE] = "collective",
    [PRIOR_VERSION_MISMATCH] = "version-mismatch",
    [PRIOR_APP_BUG] = "app-bug",
};

const char *prior_class(size_t index)
{
    return index < PRIOR_CLASSES ? classes[index] : NULL;
}

int prior_index(const char *name, size_t len)
{
    for (int i = 0; i < PRIOR_CLASSES; i++)
        if (strncmp(classes[i], name, len) == 0 && classes[i][len] == '\0')
            return i;
    return -1;
}

bool prior_parse(const char *text, struct prior *ret)
{
    *ret = (struct prior){{0}};
    while (*text != '\0' && *text != '\t' && *text != '\n') {
        size_t len = strcspn(text, " ,\t\n");
        int index = prior_index(text, len);
        char *end = NULL;
        double weight = strtod(text + len, &end);
        if (index < 0 || end == text + len || weight <= 0)
            return false;
        ret->weight[index] = (float)weight;
        text = end + strspn(end, ", ");
    }
    return true;
}

void prior_add(struct prior *sum, const struct prior *more, float factor)
{
    for (size_t i = 0; i < PRIOR_CLASSES; i++)
        sum->weight[i] += more->weight[i] * factor;
}

int prior_best(const struct prior *p, int but)
{
    int best = -1;
    for (int i = 0; i < PRIOR_CLASSES; i++)
        if (i != but && p->weight[i] > 0 && (best < 0 || p->weight[i] > p->weight[best]))
            best = i;
    return best;
}
