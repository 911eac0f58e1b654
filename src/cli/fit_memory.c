/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fit_memory.h"

#include <math.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/tree.h"

static double number(const struct facts *facts, const char *name)
{
    double value = 0;
    return facts != NULL && facts_get_number(facts, name, &value) && value > 0 ? value : 0;
}

/* facts_get_number() takes the value of the impact first. */
static double peak(const struct facts *facts, const char *name)
{
    const struct fact *f = facts != NULL ? facts_find(facts, name, FACT_PEAK) : NULL;
    return f != NULL && f->status == FACT_PRESENT && f->type == FACT_INTEGER ? (double)f->integer : 0;
}

double fit_memory_wanted(const struct facts *facts, int failed)
{
    double torch = failed ? number(facts, "torch.allocated_bytes") : peak(facts, "torch.allocated_bytes");
    double ledger = peak(facts, "ledger.vram.live_bytes");
    if (torch > 0)
        return torch + (failed ? number(facts, "oom.requested_bytes") : 0);
    return ledger > 0 ? ledger + (failed ? number(facts, "ledger.refused.size_bytes") : 0) : 0;
}

double fit_memory_room(const struct facts *facts)
{
    double allowed = number(facts, "oom.allowed_bytes");
    double reserved = number(facts, "torch.reserved_bytes");
    double free = number(facts, "oom.free_bytes");
    if (reserved > 0 && allowed > 0)
        return fmin(allowed, reserved + free);
    if (reserved > 0 && free > 0)
        return reserved + free;
    double live = number(facts, "ledger.refused.gpu_live_bytes");
    free = number(facts, "account.free_bytes");
    return live > 0 && free > 0 ? live + free : 0;
}

/* Parts of options' names; "-c" only as a whole. */
bool fit_memory_is_context(const char *option)
{
    return strstr(option, "context") != NULL || strstr(option, "ctx") != NULL ||
           strstr(option, "max-model-len") != NULL || strcmp(option, "-c") == 0;
}

bool fit_memory_is_layers(const char *option)
{
    return strcmp(option, "-ngl") == 0 || strstr(option, "gpu-layers") != NULL ||
           strstr(option, "gpu_layers") != NULL;
}

bool fit_memory_hint(const struct facts *facts, const char *option, int64_t *ret)
{
    if (facts == NULL)
        return false;
    if (fit_memory_is_context(option))
        return facts_get_integer(facts, "f.fits_context_count", ret) ||
               facts_get_integer(facts, "f.engine_fits_context_count", ret);
    return fit_memory_is_layers(option) && (facts_get_integer(facts, "f.fits_layers_count", ret) ||
                                 facts_get_integer(facts, "f.engine_fits_layers_count", ret));
}

void fit_memory_text(double bytes, char *out, size_t size)
{
    const struct fact f = {.name = "wanted_bytes", .type = FACT_INTEGER, .integer = (int64_t)bytes};
    fact_format(&f, out, size);
}
