/* SPDX-License-Identifier: Apache-2.0 */
/*
 * APUs: their budget is a share of RAM set by TTM, not the VRAM carve-out.
 *
 * ttm.pages_limit defaults to half of RAM (ttm_device.c, ttm_global_init); HIP's total then is that
 * limit (kernel 6.10 and later), or the carve-out when the carve-out is the larger (6.15).
 */
#include "diagnose/features_internal.h"

#include "diagnose/fact.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0

static void derive_ttm_limit(struct facts *facts)
{
    static const char *const direct = "host.ttm_limit_bytes";
    static const char *const inputs[] = {"host.ttm_pages_limit", "host.page_size"};
    double limit = 0;
    double pages = 0;
    double size = 4096;
    if (feature_input(facts, direct, &limit)) {
        feature_set(facts, "f.ttm_limit_bytes", limit, &direct, 1);
    } else if (feature_input(facts, inputs[0], &pages)) {
        bool known = feature_input(facts, inputs[1], &size);
        feature_set(facts, "f.ttm_limit_bytes", pages * size, inputs, known ? 2 : 1);
    } else {
        feature_missing(facts, "f.ttm_limit_bytes", inputs, 1);
    }
}

/* "128 GB" in what the reporter wrote; "24 GiB" too. For an APU that is the RAM's nominal size. */
static double nominal_gib(const char *text)
{
    double best = 0;
    for (const char *at = text; (at = strpbrk(at, "0123456789")) != NULL;) {
        char *end = NULL;
        double n = strtod(at, &end);
        const char *unit = end;
        while (*unit == ' ')
            unit++;
        if ((strncmp(unit, "GB", 2) == 0 || strncmp(unit, "GiB", 3) == 0) && n > best && n < 4096 &&
            strncmp(unit, "GB carve", 8) != 0)
            best = n;
        at = end > at ? end : at + 1;
    }
    return best;
}

static void derive_ram(struct facts *facts)
{
    static const char *const inputs[] = {"host.mem_total_bytes", "report.gpu"};
    double total = 0;
    double apu = 0;
    const char *text = NULL;
    if (feature_input(facts, inputs[0], &total)) {
        feature_set(facts, "f.ram_bytes", total, &inputs[0], 1);
        return;
    }
    if (feature_input(facts, "f.is_apu", &apu) && apu != 0 &&
        feature_text(facts, inputs[1], &text) && nominal_gib(text) > 0) {
        feature_set(facts, "f.ram_bytes", nominal_gib(text) * GIB, &inputs[1], 1);
        return;
    }
    feature_missing(facts, "f.ram_bytes", inputs, 1);
}

/* "RX 7900 XTX 24 GB": what a reporter calls the size of a card with memory of its own. */
static void derive_reported_vram(struct facts *facts)
{
    static const char *const input = "report.gpu";
    double apu = 0;
    const char *text = NULL;
    if (feature_input(facts, "f.is_apu", &apu) && apu == 0 && feature_text(facts, input, &text) &&
        strstr(text, "RAM") == NULL && strstr(text, "used") == NULL && nominal_gib(text) > 0)
        feature_set(facts, "f.reported_vram_bytes", nominal_gib(text) * GIB, &input, 1);
    else
        feature_missing(facts, "f.reported_vram_bytes", &input, 1);
}

/* The budget that HIP sees: said by the message, by hipMemGetInfo, or by the driver's start line.
 */
static void derive_budget(struct facts *facts)
{
    static const char *const inputs[] = {"oom.total_bytes", "f.hip_total_bytes",
                                         "kmsg.gtt_ready_bytes", "f.ttm_limit_bytes"};
    for (size_t i = 0; i < 4; i++) {
        double value = 0;
        if (feature_input(facts, inputs[i], &value) && value > 0) {
            feature_set(facts, "f.budget_bytes", value, &inputs[i], 1);
            return;
        }
    }
    feature_missing(facts, "f.budget_bytes", inputs, 4);
}

/*
 * Is the budget half of RAM, the default? With RAM known: 45 to 55 % of it. Without: half of
 * MemTotal lies 1 to 6 % below a power of two (firmware and kernel keep some), while a carve-out
 * is exact: 62.47, 15.49 and 31.2 GiB are halves of RAM, 16.00 and 96.00 are not. Weaker, so it has
 * a name of its own.
 */
static void derive_half(struct facts *facts)
{
    static const char *const inputs[] = {"f.budget_bytes", "f.ram_bytes"};
    double budget = 0;
    double ram = 0;
    if (!feature_input(facts, inputs[0], &budget)) {
        feature_missing(facts, "f.budget_is_half_ram", inputs, 2);
        feature_missing(facts, "f.budget_looks_like_half_ram", inputs, 1);
        return;
    }
    double gib = budget / GIB;
    double power = gib > 0 ? exp2(ceil(log2(gib))) : 1;
    double below = 100.0 * (power - gib) / power;
    feature_flag(facts, "f.budget_looks_like_half_ram", gib >= 5 && below >= 1 && below <= 6,
                 inputs, 1);
    if (!feature_input(facts, inputs[1], &ram) || ram <= 0) {
        feature_missing(facts, "f.budget_is_half_ram", inputs, 2);
        feature_missing(facts, "f.budget_ram_percent", inputs, 2);
        return;
    }
    double share = 100.0 * budget / ram;
    feature_set(facts, "f.budget_ram_percent", share, inputs, 2);
    feature_flag(facts, "f.budget_is_half_ram", share >= 45 && share <= 55, inputs, 2);
}

static void derive_carveout(struct facts *facts)
{
    static const char *const inputs[] = {"f.vram_total_bytes", "kmsg.vram_ready_bytes"};
    double apu = 0;
    double value = 0;
    for (size_t i = 0; i < 2; i++) {
        if (feature_input(facts, "f.is_apu", &apu) && apu != 0 &&
            feature_input(facts, inputs[i], &value)) {
            feature_set(facts, "f.carveout_bytes", value, &inputs[i], 1);
            return;
        }
    }
    feature_missing(facts, "f.carveout_bytes", inputs, 2);
}

/* "6 GB carve-out" in what the reporter wrote about an APU. */
static void derive_reported_carveout(struct facts *facts)
{
    static const char *const input = "report.gpu";
    const char *text = NULL;
    const char *word = feature_text(facts, input, &text) ? strstr(text, " carve") : NULL;
    if (word != NULL) {
        const char *at = word;
        while (at > text && (isalpha((unsigned char)at[-1]) || at[-1] == ' '))
            at--;
        while (at > text && (isdigit((unsigned char)at[-1]) || at[-1] == '.'))
            at--;
        double gib = strtod(at, NULL);
        if (gib > 0 && gib < 4096) {
            feature_set(facts, "f.reported_carveout_bytes", gib * GIB, &input, 1);
            return;
        }
    }
    feature_missing(facts, "f.reported_carveout_bytes", &input, 1);
}

/* amd-ttm --set N: at most 90 % of MemTotal, in whole GiB (the tool warns above that). */
static void derive_ttm_setting(struct facts *facts)
{
    static const char *const inputs[] = {"host.mem_total_bytes", "host.page_size"};
    static const char *const enough_inputs[] = {"f.ttm_set_gib", "f.need_bytes"};
    double ram = 0;
    double page = 4096;
    double need = 0;
    if (!feature_input(facts, inputs[0], &ram)) {
        feature_missing(facts, "f.ttm_set_gib", inputs, 1);
        feature_missing(facts, "f.ttm_set_pages", inputs, 1);
        feature_missing(facts, "f.ttm_set_enough", enough_inputs, 2);
        return;
    }
    bool page_known = feature_input(facts, inputs[1], &page) && page > 0;
    double gib = floor(0.9 * ram / GIB);
    feature_set(facts, "f.ttm_set_gib", gib, inputs, 1);
    feature_set(facts, "f.ttm_set_pages", gib * GIB / (page_known ? page : 4096), inputs,
                page_known ? 2 : 1);
    if (feature_input(facts, "f.need_bytes", &need))
        feature_flag(facts, "f.ttm_set_enough", gib * GIB >= need, enough_inputs, 2);
    else
        feature_missing(facts, "f.ttm_set_enough", enough_inputs, 2);
}

static void derive_ttm_share(struct facts *facts)
{
    static const char *const inputs[] = {"f.ttm_limit_bytes", "f.ram_bytes"};
    double limit = 0;
    double ram = 0;
    if (feature_input(facts, inputs[0], &limit) && feature_input(facts, inputs[1], &ram) && ram > 0)
        feature_set(facts, "f.ttm_ram_percent", 100.0 * limit / ram, inputs, 2);
    else
        feature_missing(facts, "f.ttm_ram_percent", inputs, 2);
}

void features_apu(struct facts *facts)
{
    derive_ttm_limit(facts);
    derive_ram(facts);
    derive_ttm_share(facts);
    derive_budget(facts);
    derive_half(facts);
    derive_carveout(facts);
    derive_reported_carveout(facts);
    derive_reported_vram(facts);
    derive_ttm_setting(facts);
}
