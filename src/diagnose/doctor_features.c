/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of the doctor's rules beyond the features of a failure: how this PyTorch reads its
 * allocator options, what the override does to each GPU, which GPUs are visible. Pure.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "diagnose/doctor.h"
#include "diagnose/fact.h"
#include "diagnose/features_internal.h"
#include "diagnose/text.h"
#include "diagnose/tree.h"

#define GPUS_MAX 256
#define TEXT_SIZE 512

static void set_text(struct facts *facts, const char *name, const char *value,
                     const char *const *inputs, size_t count)
{
    char source[TEXT_SIZE];
    feature_source(facts, inputs, count, source, sizeof source);
    (void)facts_set_text(facts, name, FACT_STATIC, value, source);
}

/* Appends, with ", " between; cuts what does not fit. */
static void append(char *out, size_t size, const char *word, size_t len)
{
    size_t used = strlen(out);
    (void)snprintf(out + used, size - used, "%s%.*s", used > 0 ? ", " : "", (int)len, word);
}

/* --- PyTorch's allocator options --- */

/* All names that any version reads. f.alloc.variables (templates/computed.json) has those that this one reads,
 * the preferred one first. */
static const char *const conf_names[] = {"env.PYTORCH_ALLOC_CONF", "env.PYTORCH_CUDA_ALLOC_CONF",
                                         "env.PYTORCH_HIP_ALLOC_CONF"};
enum { CONF_COUNT = sizeof conf_names / sizeof conf_names[0] };

/* The place of a variable in the list "A B C"; -1 = it is not there. */
static int place_in(const char *list, const char *variable)
{
    size_t len = strlen(variable);
    for (int place = 0; *list != '\0'; place++) {
        size_t word = strcspn(list, " ");
        if (word == len && strncmp(list, variable, len) == 0)
            return place;
        list += word + strspn(list + word, " ");
    }
    return -1;
}

/* Options of PyTorch 2.0 to 2.12 (CUDAAllocatorConfig.cpp, AllocatorConfig.h); any other ends the
 * program at its first allocation: "Unrecognized CachingAllocator option". */
static bool option_known(struct text name)
{
    static const char *const known[] = {"max_split_size_mb",
                                        "max_non_split_rounding_mb",
                                        "garbage_collection_threshold",
                                        "roundup_power2_divisions",
                                        "roundup_bypass_threshold_mb",
                                        "backend",
                                        "expandable_segments",
                                        "release_lock_on_cudamalloc",
                                        "release_lock_on_hipmalloc",
                                        "pinned_use_cuda_host_register",
                                        "pinned_use_hip_host_register",
                                        "pinned_num_register_threads",
                                        "pinned_use_background_threads",
                                        "pinned_reserve_segment_size_mb",
                                        "graph_capture_record_stream_reuse",
                                        "per_process_memory_fraction",
                                        "large_segment_size_mb",
                                        "throw_on_cudamalloc_oom"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (text_equals(name, known[i]))
            return true;
    return false;
}

/* "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]": next option of the list; a
 * comma within brackets does not end it. */
static bool next_option(struct text *rest, struct text *ret_name, struct text *ret_value)
{
    size_t len = 0;
    int depth = 0;
    if (rest->len == 0)
        return false;
    for (; len < rest->len && (rest->at[len] != ',' || depth > 0); len++)
        depth += rest->at[len] == '[' ? 1 : rest->at[len] == ']' ? -1 : 0;
    struct text option = text_first(*rest, len);
    *rest = text_skip(*rest, len + 1);
    *ret_name = text_trim(text_until(option, ":"));
    *ret_value = text_trim(text_skip(option, text_until(option, ":").len + 1));
    return true;
}

static void option_feature(struct facts *facts, struct text name, struct text value,
                           const char *const *input)
{
    static const struct {
        const char *option, *feature;
    } numbers[] = {{"max_split_size_mb", "f.alloc.max_split_mb"},
                   {"garbage_collection_threshold", "f.alloc.gc_threshold"},
                   {"roundup_power2_divisions", "f.alloc.roundup_divisions"}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double number = 0;
        struct text rest = value;
        if (text_equals(name, numbers[i].option) && text_take_real(&rest, &number))
            feature_set(facts, numbers[i].feature, number, input, 1);
    }
    if (text_equals(name, "expandable_segments"))
        feature_flag(facts, "f.alloc.expandable", text_equals(value, "True"), input, 1);
    if (text_equals(name, "roundup_power2_divisions")) {
        struct text rest = value;
        uint64_t n = 0;
        if (text_take_u64(&rest, &n) && rest.len == 0)
            feature_flag(facts, "f.alloc.roundup_is_power", n > 0 && (n & (n - 1)) == 0, input, 1);
    }
}

static void read_options(struct facts *facts, const char *input)
{
    const char *text = NULL;
    char unknown[TEXT_SIZE] = "";
    struct text name;
    struct text value;
    if (!feature_text(facts, input, &text))
        return;
    struct text rest = {text, strlen(text)};
    while (next_option(&rest, &name, &value)) {
        if (name.len > 0 && !option_known(name))
            append(unknown, sizeof unknown, name.at, name.len);
        option_feature(facts, name, value, &input);
    }
    if (unknown[0] != '\0')
        set_text(facts, "f.alloc.unknown", unknown, &input, 1);
}

/* A missing fact would make every rule about an option undecided, so set "not set". */
static void options_not_set(struct facts *facts)
{
    static const char *const features[] = {"f.alloc.max_split_mb",
                                           "f.alloc.gc_threshold",
                                           "f.alloc.expandable",
                                           "f.alloc.roundup_is_power",
                                           "f.alloc.roundup_divisions",
                                           "f.alloc.unknown",
                                           "f.alloc.read",
                                           "f.alloc.not_read",
                                           "f.alloc.overruled"};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        (void)facts_set_missing(facts, features[i], FACT_STATIC, FACT_ABSENT, "not set",
                                "environment");
}

/* The names of the variables that are set. Those that are read come in the order in which PyTorch
 * reads them. */
struct confs {
    const char *winner;         /* fact of the variable whose options count, NULL = none is set */
    char not_read[TEXT_SIZE];   /* "A, B" */
    char overruled[TEXT_SIZE];
};

static void sort_confs(const struct facts *facts, const char *variables, struct confs *ret)
{
    const char *by_place[CONF_COUNT] = {NULL};
    const char *value = NULL;
    for (int i = 0; i < CONF_COUNT; i++) {
        const char *name = conf_names[i] + 4;
        int place = place_in(variables, name);
        if (!feature_text(facts, conf_names[i], &value))
            continue;
        if (place < 0)
            append(ret->not_read, sizeof ret->not_read, name, strlen(name));
        else
            by_place[place] = conf_names[i];
    }
    for (int place = 0; place < CONF_COUNT; place++) {
        if (by_place[place] != NULL && ret->winner == NULL)
            ret->winner = by_place[place];
        else if (by_place[place] != NULL)
            append(ret->overruled, sizeof ret->overruled, by_place[place] + 4, strlen(by_place[place] + 4));
    }
}

static void alloc_features(struct facts *facts)
{
    const char *variables = "";
    struct confs confs = {.winner = NULL};
    bool known = facts_is_present(facts, "software.torch_version");
    (void)feature_text(facts, "f.alloc.variables", &variables);
    sort_confs(facts, variables, &confs);
    const char *inputs[] = {confs.winner != NULL ? confs.winner : conf_names[0], "software.torch_version"};
    if (confs.winner != NULL) {
        set_text(facts, "f.alloc.read", confs.winner + 4, inputs, known ? 2 : 1);
        read_options(facts, confs.winner);
    }
    if (confs.not_read[0] != '\0' && known)
        set_text(facts, "f.alloc.not_read", confs.not_read, inputs + 1, 1);
    if (confs.overruled[0] != '\0')
        set_text(facts, "f.alloc.overruled", confs.overruled, inputs, known ? 2 : 1);
    options_not_set(facts);
}

/* --- the override --- */

/* HSA_OVERRIDE_GFX_VERSION=major.minor.stepping; hsaKmt refuses any other form, and then
 * hsa_init() fails (libhsakmt, topology.c). */
static bool parse_override(const char *value, uint64_t part[3])
{
    return number_take_before(&value, 10, '.', &part[0]) &&
           number_take_before(&value, 10, '.', &part[1]) &&
           number_take_before(&value, 10, '\0', &part[2]) && part[0] <= 63 && part[1] <= 255 &&
           part[2] <= 255;
}

/* "gfx90a" -> 9, 0, 10: one digit each for minor and stepping, both hexadecimal. */
static bool parse_gfx(const char *gfx, uint64_t part[3])
{
    size_t len = strlen(gfx);
    if (strncmp(gfx, "gfx", 3) != 0 || len < 6 || len > 7)
        return false;
    char minor[2] = {gfx[len - 2], '\0'};
    char step[2] = {gfx[len - 1], '\0'};
    const char *at = gfx + 3;
    const char *minor_at = minor;
    const char *step_at = step;
    char major[4] = "";
    (void)snprintf(major, sizeof major, "%.*s", (int)(len - 5), at);
    const char *major_at = major;
    return number_take(&major_at, 10, &part[0]) && *major_at == '\0' &&
           number_take(&minor_at, 16, &part[1]) && number_take(&step_at, 16, &part[2]);
}

/* The variable of the GPU's own KFD node comes before the common one. */
static const char *override_of(const struct facts *facts, int gpu, char *input, size_t size)
{
    char node_name[64];
    int64_t node = 0;
    const char *value = NULL;
    (void)snprintf(node_name, sizeof node_name, "gpu.%d.kfd_node", gpu);
    if (facts_get_integer(facts, node_name, &node)) {
        (void)snprintf(input, size, "env.HSA_OVERRIDE_GFX_VERSION_%d", (int)node);
        if (feature_text(facts, input, &value))
            return value;
    }
    (void)snprintf(input, size, "env.HSA_OVERRIDE_GFX_VERSION");
    return feature_text(facts, input, &value) ? value : NULL;
}

/* gpu.N.override: "major", "minor", "stepping" = the first part that is not the GPU's, "same",
 * "invalid" = not three numbers. */
static void override_features(struct facts *facts, int gpu)
{
    static const char *const parts[] = {"major", "minor", "stepping"};
    char input[64];
    char gfx_name[32];
    char name[48];
    uint64_t wanted[3];
    uint64_t real[3] = {0};
    const char *gfx = NULL;
    const char *word = "same";
    const char *value = override_of(facts, gpu, input, sizeof input);
    (void)snprintf(gfx_name, sizeof gfx_name, "gpu.%d.gfx", gpu);
    (void)snprintf(name, sizeof name, "gpu.%d.override", gpu);
    const char *inputs[] = {input, gfx_name};
    if (value == NULL) {
        (void)facts_set_missing(facts, name, FACT_STATIC, FACT_ABSENT, "not set", "environment");
        return;
    }
    if (!parse_override(value, wanted)) {
        word = "invalid";
    } else if (!feature_text(facts, gfx_name, &gfx) || !parse_gfx(gfx, real)) {
        feature_missing(facts, name, &inputs[1], 1);
        return;
    }
    for (size_t i = 0; word[0] == 's' && gfx != NULL && i < 3; i++) {
        if (wanted[i] != real[i]) {
            word = parts[i];
            break;
        }
    }
    set_text(facts, name, word, inputs, gfx != NULL ? 2 : 1);
    (void)snprintf(name, sizeof name, "gpu.%d.override_value", gpu);
    set_text(facts, name, value, inputs, 1);
}

/* gpu.N.has_kernels: does the installed PyTorch have code for this GPU (or for that of the
 * override)? A library for a whole family is named "gfx11-generic"; xnack and sramecc follow a ':'
 * or '-'. */
static void kernel_features(struct facts *facts, int gpu)
{
    char gfx_name[32];
    char name[48];
    const char *gfx = NULL;
    const char *list = NULL;
    (void)snprintf(gfx_name, sizeof gfx_name, "gpu.%d.gfx", gpu);
    (void)snprintf(name, sizeof name, "gpu.%d.has_kernels", gpu);
    const char *inputs[] = {gfx_name, "software.torch_targets"};
    if (!feature_text(facts, gfx_name, &gfx) || !feature_text(facts, inputs[1], &list)) {
        feature_missing(facts, name, inputs, 2);
        return;
    }
    struct text rest = {list, strlen(list)};
    struct text word;
    bool found = strstr(list, "generic") != NULL;
    while (!found && text_next_word(&rest, &word))
        found = text_equals(word, gfx);
    feature_flag(facts, name, found, inputs, 2);
}

/* --- the rest --- */

/* Does a list like "0,2" name none of `count` GPUs? The runtimes stop at the first invalid number.
 * Names ("GPU-8f...") are not looked up: then the answer is not known. */
static bool list_is_empty(const char *list, int64_t count, bool *ret_known)
{
    struct text first = text_trim(text_until(text_of(list), ","));
    struct text rest = first;
    uint64_t index = 0;
    *ret_known = true;
    if (text_starts(first, "-"))
        return true;
    if (!text_take_u64(&rest, &index) || rest.len > 0) {
        *ret_known = false;
        return false;
    }
    return count < 0 || index >= (uint64_t)count;
}

static void visible_gpus(struct facts *facts)
{
    static const char *const names[] = {"env.ROCR_VISIBLE_DEVICES", "env.HIP_VISIBLE_DEVICES",
                                        "env.CUDA_VISIBLE_DEVICES"};
    static const char feature[] = "f.visible_gpus_none";
    int64_t count = 0;
    bool counted = facts_get_integer(facts, "gpu.count", &count) && count > 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *list = NULL;
        bool known = false;
        if (!counted || !feature_text(facts, names[i], &list))
            continue;
        if (list_is_empty(list, count, &known) && known) {
            char text[128];
            (void)snprintf(text, sizeof text, "%s=%.64s", names[i] + 4, list);
            set_text(facts, feature, text, &names[i], 1);
            return;
        }
    }
    (void)facts_set_missing(facts, feature, FACT_STATIC, FACT_ABSENT, "every list names a GPU",
                            "environment");
}

/* A program is rarely meant for the APU beside a card. */
static void all_apus(struct facts *facts, int64_t gpus)
{
    static const char *const input = "gpu.0.is_apu";
    bool all = gpus > 0;
    for (int64_t i = 0; i < gpus && i < GPUS_MAX; i++) {
        char name[32];
        int64_t apu = 0;
        (void)snprintf(name, sizeof name, "gpu.%d.is_apu", (int)i);
        all = all && facts_get_integer(facts, name, &apu) && apu != 0;
    }
    feature_flag(facts, "f.gpus_all_apus", all, &input, 1);
}

void doctor_features(struct facts *facts)
{
    int64_t gpus = 0;
    alloc_features(facts);
    visible_gpus(facts);
    (void)facts_get_integer(facts, "gpu.count", &gpus);
    all_apus(facts, gpus);
    for (int64_t i = 0; i < gpus && i < GPUS_MAX; i++) {
        override_features(facts, (int)i);
        kernel_features(facts, (int)i);
    }
}
