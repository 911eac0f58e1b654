/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment_to_facts(): NAME=VALUE lines as env.NAME, for the variables that steer GPU programs.
 *
 * Pure. Takes `env` output, /proc/PID/environ (NUL between entries) and shell lines ("export A=b").
 * Only the allow-listed names become facts: an environment is full of secrets.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/text_facts.h"
#include "diagnose/verdict.h"

static const char *const prefixes[] = {
    "HSA_",         "HIP_",    "HIPBLASLT_", "ROCR_",   "ROCM",     "ROCP_",
    "ROCPROFILER_", "GPU_",    "AMD_",       "AMDGPU_", "PYTORCH",  "TORCH_",
    "CUDA_",        "NCCL_",   "RCCL_",      "MIOPEN_", "ROCBLAS_", "ROCRAND",
    "TENSILE",      "OLLAMA_", "LLAMA_",     "GGML_",   "VLLM_",    "SGLANG_",
    "XLA_",         "TF_",     "JAX_",       "TRITON_", "MIGRAPHX", "UCX_",
    "MALLOC_",      "OMP_",    "KMP_",       "NVIDIA_", "HCC_",     "DEBUG_HIP_",
};
static const char *const names[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "RANK",
                                    "LOCAL_RANK",      "WORLD_SIZE", "DISPLAY"};
static const char *const secrets[] = {"TOKEN", "SECRET", "PASS", "_KEY", "CREDENTIAL", "AUTH"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool is_allowed(struct text name)
{
    bool known = false;
    for (size_t i = 0; i < COUNT(prefixes); i++)
        known = known || text_starts(name, prefixes[i]);
    for (size_t i = 0; i < COUNT(names); i++)
        known = known || text_equals(name, names[i]);
    for (size_t i = 0; i < COUNT(secrets); i++)
        known = known && !text_has(name, secrets[i]);
    return known;
}

static struct text unquote(struct text value)
{
    value = text_trim(value);
    if (value.len >= 2 && (value.at[0] == '"' || value.at[0] == '\'') &&
        value.at[value.len - 1] == value.at[0])
        value = (struct text){value.at + 1, value.len - 2};
    return value;
}

static void one(const struct scan *s, struct text line)
{
    char fact[128];
    line = text_trim(line);
    if (text_starts(line, "export "))
        line = text_trim(text_skip(line, 7));
    else if (text_starts(line, "Environment="))
        line = unquote(text_skip(line, 12));
    size_t n = 0;
    while (n < line.len && (isalnum((unsigned char)line.at[n]) || line.at[n] == '_'))
        n++;
    if (n == 0 || n > 100 || n == line.len || line.at[n] != '=' ||
        isdigit((unsigned char)line.at[0]) || !is_allowed(text_first(line, n)))
        return;
    (void)snprintf(fact, sizeof fact, "env.%.*s", (int)n, line.at);
    scan_text_when(s, fact, FACT_STATIC, unquote(text_skip(line, n + 1)));
}

void environment_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    struct scan s = {
        .facts = facts, .source = source != NULL ? source : "environment", .line = before};
    while (text_next_line(&rest, &line)) {
        s.line++;
        for (;;) {
            const char *nul = line.len > 0 ? memchr(line.at, '\0', line.len) : NULL;
            struct text entry = nul != NULL ? text_first(line, (size_t)(nul - line.at)) : line;
            one(&s, entry);
            if (nul == NULL)
                break;
            line = text_skip(line, entry.len + 1);
        }
    }
}
