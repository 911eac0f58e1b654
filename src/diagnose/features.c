/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features that need C, because they look for names in texts: the logs that were read, vendor,
 * chip, machine. All arithmetic is data: templates/computed.json (computed.c).
 */
#include "diagnose/features.h"

#include "base/number.h"
#include "diagnose/account.h"
#include "diagnose/computed.h"
#include "diagnose/fact.h"
#include "diagnose/features_internal.h"
#include "diagnose/log_words.h"
#include "diagnose/tree.h"
#include "diagnose/wording.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool feature_input(const struct facts *facts, const char *name, double *ret)
{
    return facts_get_number(facts, name, ret);
}

double feature_input_or(const struct facts *facts, const char *name, double otherwise)
{
    double value = 0;
    return facts_get_number(facts, name, &value) ? value : otherwise;
}

bool feature_text(const struct facts *facts, const char *name, const char **ret)
{
    return facts_get_text(facts, name, ret) && (*ret)[0] != '\0';
}

/* The mark of an input that the source of a computed fact keeps; "" = none. */
static const char *mark_of(const struct fact *f)
{
    const char *mark = f != NULL ? fact_mark_of_doubt(f) : NULL;
    return mark != NULL ? mark : f != NULL && fact_is_repaired(f) ? "joined or completed" : "";
}

static const char *input_source(const struct fact *f)
{
    return f != NULL && f->source != NULL && f->source[0] != '\0' ? f->source : "no source";
}

void feature_source(const struct facts *facts, const char *const *names, size_t count, char *out,
                    size_t size)
{
    size_t at = (size_t)snprintf(out, size, "computed from ");
    for (size_t i = 0; i < count && at < size; i++) {
        const struct fact *f = facts_best(facts, names[i]);
        const char *from = input_source(f);
        const char *comma = i > 0 ? ", " : "";
        /* a feature names its own inputs; avoids nested parentheses */
        const char *mark = mark_of(f);
        int n = strncmp(from, "computed", 8) == 0
                    ? snprintf(out + at, size - at, mark[0] != '\0' ? "%s%s (of lines, %s)" : "%s%s%s", comma, names[i], mark)
                    : snprintf(out + at, size - at, "%s%s (%.80s)", comma, names[i], from);
        at += n > 0 ? (size_t)n : 0;
    }
}

void feature_set_number(struct facts *facts, const char *name, double value, const char *source)
{
    bool fits = value >= -0x1p63 && value < 0x1p63; /* else the cast is undefined */
    if (fits && value == (double)(int64_t)value)
        (void)facts_set_integer(facts, name, FACT_IMPACT, (int64_t)value, source);
    else
        (void)facts_set_real(facts, name, FACT_IMPACT, value, source);
}

void feature_set(struct facts *facts, const char *name, double value, const char *const *inputs,
                 size_t count)
{
    char source[FEATURE_SOURCE_MAX];
    feature_source(facts, inputs, count, source, sizeof(source));
    feature_set_number(facts, name, value, source);
}

void feature_flag(struct facts *facts, const char *name, bool value, const char *const *inputs,
                  size_t count)
{
    char source[FEATURE_SOURCE_MAX];
    feature_source(facts, inputs, count, source, sizeof(source));
    (void)facts_set_boolean(facts, name, FACT_IMPACT, value, source);
}

void feature_missing(struct facts *facts, const char *name, const char *const *inputs, size_t count)
{
    static const char not_computed[] = "not computed:";
    char reason[400];
    size_t at = (size_t)snprintf(reason, sizeof(reason), "%s", not_computed);
    const char *separator = " ";
    for (size_t i = 0; i < count && at < sizeof(reason); i++) {
        char real[FACT_REAL_NAME];
        const char *input = fact_real_name(facts, inputs[i], real);
        const struct fact *f = facts_best(facts, input);
        if (f != NULL && f->status == FACT_PRESENT)
            continue;
        const char *why = f != NULL && f->reason != NULL ? f->reason : "not known";
        if (strncmp(why, not_computed, sizeof not_computed - 1) == 0)
            why = "not computed"; /* its reason names the missing input */
        int n = snprintf(reason + at, sizeof(reason) - at, "%s%s (%.100s)", separator, input, why);
        at += n > 0 ? (size_t)n : 0;
        separator = ", ";
    }
    (void)facts_set_missing(facts, name, FACT_IMPACT, FACT_ABSENT, reason, "features");
}

void feature_share(struct facts *facts, const char *feature, const char *part, const char *whole)
{
    const char *const inputs[] = {part, whole};
    double a = 0;
    double b = 0;
    if (feature_input(facts, part, &a) && feature_input(facts, whole, &b) && b > 0)
        feature_set(facts, feature, 100.0 * a / b, inputs, 2);
    else
        feature_missing(facts, feature, inputs, 2);
}

/* --- were the logs read? (a message in them, or the finisher, says so) --- */

/* A present message fact of one of the two prefixes: then that log was read. */
static const struct fact *any_message(const struct facts *facts, const char *a, const char *b)
{
    for (size_t i = 0; i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        if (f->when == FACT_LOG && f->status == FACT_PRESENT &&
            (strncmp(f->name, a, strlen(a)) == 0 || strncmp(f->name, b, strlen(b)) == 0))
            return f;
    }
    return NULL;
}

/* `told`: the fact that tells whether the log was read (if false or missing: with the reason).
 * `seen_in`: where a message of it was seen; NULL = there is none. */
static void set_log_read(struct facts *facts, const char *feature, const char *told,
                         const char *seen_in, const char *otherwise)
{
    const struct fact *f = facts_best(facts, told);
    bool present = f != NULL && f->status == FACT_PRESENT;
    if (present && f->integer != 0) {
        feature_flag(facts, feature, true, &told, 1);
    } else if (seen_in != NULL) {
        (void)facts_set_boolean(facts, feature, FACT_IMPACT, true, seen_in);
    } else {
        const char *reason = NULL;
        if (f != NULL)
            reason = present ? f->source : f->reason;
        (void)facts_set_missing(facts, feature, FACT_IMPACT, FACT_ABSENT,
                                reason != NULL && reason[0] != '\0' ? reason : otherwise,
                                "features");
    }
}

static void derive_logs_read(struct facts *facts)
{
    const struct fact *message = any_message(facts, "msg.", "oom."), *kernel = any_message(facts, "kmsg.", "kmsg.");
    const char *seen_in = message != NULL ? message->source : NULL;
    const struct fact *run = facts_best(facts, "run.program");
    /* the recorder follows the output of every run, and sets run.output if it could not */
    if (message == NULL && run != NULL && run->status == FACT_PRESENT &&
        facts_best(facts, "run.output") == NULL)
        seen_in = "stderr";
    set_log_read(facts, "f.output_read",
                 facts_best(facts, "run.output") != NULL ? "run.output" : "log.output_read",
                 seen_in, "no output of the program was given");
    set_log_read(facts, "f.kernel_log_read", "kmsg.readable", kernel != NULL ? kernel->source : NULL,
                 "no kernel log was given");
}

/* --- vendor --- */

static bool names(const char *text, uint64_t list)
{
    return (log_words_in(text, strlen(text), list) & list) != 0;
}

static const char *vendor_of_text(const char *text)
{
    return names(text, LOG_WORDS_NAMED_NVIDIA) ? "nvidia" : names(text, LOG_WORDS_NAMED_AMD) ? "amd" : NULL;
}

/* The driver decides, then the reporter's words about the machine, then names in messages. The word
 * CUDA decides nothing: HIP builds of ggml print it, too. */
static void derive_vendor(struct facts *facts)
{
    static const char *const inputs[] = {"gpu.0.driver", "report.gpu", "report.rocm",
                                         "software.torch_hip_version", "software.rocm_version"};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        const char *text = NULL;
        const char *vendor = NULL;
        if (!feature_text(facts, inputs[i], &text))
            continue;
        vendor = vendor_of_text(text);
        if (vendor == NULL &&
            (strstr(inputs[i], "rocm") != NULL || strstr(inputs[i], "hip") != NULL))
            vendor = isdigit((unsigned char)text[0]) ? "amd" : NULL;
        if (vendor != NULL) {
            char source[FEATURE_SOURCE_MAX];
            feature_source(facts, &inputs[i], 1, source, sizeof(source));
            (void)facts_set_text(facts, "f.vendor", FACT_IMPACT, vendor, source);
            return;
        }
    }
    static const char *const said[][2] = {{"vendor.amd", "amd"}, {"vendor.nvidia", "nvidia"}};
    for (size_t i = 0; i < 2; i++) {
        double lines = 0;
        if (feature_input(facts, said[i][0], &lines) && lines > 0) {
            char source[FEATURE_SOURCE_MAX];
            feature_source(facts, &said[i][0], 1, source, sizeof(source));
            (void)facts_set_text(facts, "f.vendor", FACT_IMPACT, said[i][1], source);
            return;
        }
    }
    for (size_t i = 0; i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        if (f->status == FACT_PRESENT && strncmp(f->name, "env.HSA_", 8) == 0) {
            (void)facts_set_text(facts, "f.vendor", FACT_IMPACT, "amd", f->source);
            return;
        }
    }
    (void)facts_set_missing(facts, "f.vendor", FACT_IMPACT, FACT_ABSENT,
                            "neither a driver nor a device name is known", "features");
}

/* --- the GPU by the reporter's words or by the topology --- */

static void derive_gfx(struct facts *facts)
{
    static const char *const inputs[] = {"gpu.0.gfx", "report.gpu"};
    char name[32];
    double gpu = 0;
    if (feature_input(facts, "f.gpu", &gpu)) {
        const char *text = NULL;
        (void)snprintf(name, sizeof(name), "gpu.%d.gfx", (int)gpu);
        if (feature_text(facts, name, &text)) {
            const char *input = name;
            char source[FEATURE_SOURCE_MAX];
            feature_source(facts, &input, 1, source, sizeof(source));
            (void)facts_set_text(facts, "f.gfx", FACT_IMPACT, text, source);
            return;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        const char *text = NULL;
        const char *gfx = feature_text(facts, inputs[i], &text) ? strcasestr(text, "gfx") : NULL;
        if (gfx == NULL || !isdigit((unsigned char)gfx[3]))
            continue;
        size_t n = strspn(gfx + 3, "0123456789abcdef");
        (void)snprintf(name, sizeof(name), "gfx%.*s", (int)(n < 8 ? n : 8), gfx + 3);
        char source[FEATURE_SOURCE_MAX];
        feature_source(facts, &inputs[i], 1, source, sizeof(source));
        (void)facts_set_text(facts, "f.gfx", FACT_IMPACT, name, source);
        return;
    }
    feature_missing(facts, "f.gfx", inputs, 2);
}

/* "11.0.0" -> "gfx1100": the ISA that HSA_OVERRIDE_GFX_VERSION makes the runtime load. */
static void derive_override(struct facts *facts)
{
    static const char *const inputs[] = {"env.HSA_OVERRIDE_GFX_VERSION", "f.gfx"};
    uint64_t major = 0;
    uint64_t minor = 0;
    uint64_t step = 0;
    const char *value = NULL;
    const char *real = NULL;
    char isa[32];
    if (!feature_text(facts, inputs[0], &value) || !number_take_before(&value, 10, '.', &major) ||
        !number_take_before(&value, 10, '.', &minor) ||
        !number_take_before(&value, 10, '\0', &step) || major > 99 || minor > 15 || step > 15) {
        feature_missing(facts, "f.override_gfx", inputs, 1);
        feature_missing(facts, "f.override_differs", inputs, 2);
        return;
    }
    (void)snprintf(isa, sizeof(isa), "gfx%u%x%x", (unsigned)major, (unsigned)minor, (unsigned)step);
    char source[FEATURE_SOURCE_MAX];
    feature_source(facts, inputs, 1, source, sizeof(source));
    (void)facts_set_text(facts, "f.override_gfx", FACT_IMPACT, isa, source);
    if (feature_text(facts, "f.gfx", &real)) {
        size_t digits = strlen(real) > 5 ? strlen(real) - 2 : strlen(real);
        feature_flag(facts, "f.override_differs", strcmp(real, isa) != 0, inputs, 2);
        feature_flag(facts, "f.override_generation_differs", strncmp(real, isa, digits) != 0,
                     inputs, 2);
    } else {
        feature_missing(facts, "f.override_differs", inputs, 2);
    }
}

/* HIP reports the carve-out or GTT as the total of an APU. Any other total is that of another GPU: a
 * machine with a card often has a processor with graphics of its own. */
static bool total_fits_carveout(const struct facts *facts, double carveout_bytes)
{
    double total = 0;
    double gtt = feature_input_or(facts, "kmsg.gtt_ready_bytes", 0);
    if (!feature_input(facts, "oom.total_bytes", &total))
        return true;
    return total <= carveout_bytes * 1.05 || (gtt > 0 && total >= gtt * 0.95 && total <= (gtt + carveout_bytes) * 1.05);
}

/* "AMD, not told", "Radeon": no model. Models have a number or the name of an APU. */
static bool names_a_model(const char *text)
{
    return strpbrk(text, "0123456789") != NULL || names(text, LOG_WORDS_NAMED_APU);
}

/* No GPU was named by its model. It is an APU if the only chip in the text is that of an APU; or if the text has no
 * chip, and names an APU and no card; or if the GPU has as little memory of its own as an APU's carve-out (ROCm's other
 * GPUs have 2 GiB and more). */
static bool derive_is_apu_by_text(struct facts *facts)
{
    static const char *const gfx = "msg.gfx", *const named = "report.apu_named";
    static const char *const sizes[] = {"gpu.0.vram.total_bytes", "kmsg.vram_ready_bytes", "oom.total_bytes"};
    const char *text = NULL;
    double bytes = 0;
    if (feature_input_or(facts, "f.gpus_count", 0) > 1)
        return false;
    if (feature_text(facts, gfx, &text)) {
        bool apu = feature_input_or(facts, "msg.gfx_several", 0) <= 0 && names(text, LOG_WORDS_NAMED_APU);
        if (apu)
            feature_flag(facts, "f.is_apu", true, &gfx, 1);
        return apu;
    }
    if (feature_input_or(facts, named, 0) > 0 && feature_input_or(facts, "report.card_named", 0) <= 0) {
        feature_flag(facts, "f.is_apu", true, &named, 1);
        return true;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (feature_input(facts, sizes[i], &bytes) && bytes > 0 && bytes <= 0x1p30 && total_fits_carveout(facts, bytes)) {
            feature_flag(facts, "f.is_apu", true, &sizes[i], 1);
            return true;
        }
    return false;
}

/* An APU shares the host's RAM. The topology decides, else a name that only APUs have. */
static void derive_is_apu(struct facts *facts)
{
    static const char *const inputs[] = {"f.gfx", "report.gpu"};
    char name[32];
    double gpu = 0;
    double flag = 0;
    (void)snprintf(name, sizeof(name), "gpu.%d.is_apu",
                   feature_input(facts, "f.gpu", &gpu) ? (int)gpu : 0);
    const char *input = name;
    if (feature_input(facts, name, &flag)) {
        feature_flag(facts, "f.is_apu", flag != 0, &input, 1);
        return;
    }
    bool known = false;
    for (size_t k = 0; k < 2; k++) {
        const char *text = NULL;
        if (!feature_text(facts, inputs[k], &text) || !names_a_model(text))
            continue;
        known = true;
        /* "R9700 eGPU + Strix Halo", "RX 560 + Raven APU": two GPUs, and no word about which one */
        if (strstr(text, " + ") != NULL)
            known = false;
        if (known && names(text, LOG_WORDS_NAMED_APU)) {
            feature_flag(facts, "f.is_apu", true, &inputs[k], 1);
            return;
        }
    }
    if (known)
        feature_flag(facts, "f.is_apu", false, inputs, 2);
    else if (!derive_is_apu_by_text(facts))
        feature_missing(facts, "f.is_apu", &input, 1);
}

static void derive_windows(struct facts *facts)
{
    static const char *const inputs[] = {"report.framework", "report.gpu"};
    static const char *const message = "msg.is_windows";
    double flag = 0;
    if (feature_input(facts, message, &flag) && flag != 0) {
        feature_flag(facts, "f.is_windows", true, &message, 1);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        const char *text = NULL;
        if (feature_text(facts, inputs[i], &text) &&
            names(text, LOG_WORDS_NAMED_WINDOWS)) {
            feature_flag(facts, "f.is_windows", true, &inputs[i], 1);
            return;
        }
    }
    const char *kernel = NULL;
    static const char *const host = "host.kernel";
    if (feature_text(facts, host, &kernel))
        feature_flag(facts, "f.is_windows", false, &host, 1);
    else
        feature_missing(facts, "f.is_windows", &message, 1);
}

/* "6.14.0-1018-oem" -> 1018. Ubuntu may have a fix before the upstream kernel has it: then only the
 * package number tells. */
static void derive_kernel_abi(struct facts *facts)
{
    static const char *const input = "host.kernel";
    const char *release = NULL;
    const char *dash = feature_text(facts, input, &release) ? strchr(release, '-') : NULL;
    const char *at = dash != NULL ? dash + 1 : "";
    uint64_t abi = 0;
    if (number_take(&at, 10, &abi) && abi <= INT32_MAX)
        feature_set(facts, "f.kernel_abi", (double)abi, &input, 1);
    else if (release != NULL)
        (void)facts_set_missing(facts, "f.kernel_abi", FACT_IMPACT, FACT_ABSENT,
                                "no number after a dash in the kernel's release", "features");
    else
        feature_missing(facts, "f.kernel_abi", &input, 1);
}

bool feature_is_derived(const char *name)
{
    return (strncmp(name, "f.", 2) == 0 && strncmp(name, "f.growth.", 9) != 0) ||
           strncmp(name, "account.", 8) == 0;
}

void features_derive(struct facts *facts, const struct computed *computed)
{
    derive_logs_read(facts);
    wording_derive(facts);
    derive_vendor(facts);
    features_gpu(facts);
    derive_gfx(facts);
    derive_override(facts);
    derive_is_apu(facts);
    derive_windows(facts);
    derive_kernel_abi(facts);
    computed_derive(computed, facts);
    features_siblings(facts);
    features_model(facts);
    features_engine(facts);
    account_derive(facts);
}
