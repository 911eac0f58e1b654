/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/env_names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *const prefixes[] = {
    "HIP_",          "HSA_",       "ROCR_",      "ROCM_",        "ROC_",         "AMD_",
    "AMDGPU_",       "GPU_",       "RCCL_",      "NCCL_",        "TORCH_",       "TORCHINDUCTOR_",
    "TORCHELASTIC_", "PYTORCH_",   "MIOPEN_",    "HIPBLASLT_",   "HIPBLAS_",     "ROCBLAS_",
    "TENSILE_",      "ROCSOLVER_", "ROCFFT_",    "ROCSPARSE_",   "HIPSPARSELT_", "CK_",
    "AITER_",        "TRITON_",    "TF_",        "XLA_",         "JAX_",         "OMP_",
    "KMP_",          "GOMP_",      "MKL_",       "OPENBLAS_",    "CUDA_",        "CUBLAS_",
    "VLLM_",         "SGLANG_",    "GGML_",      "LLAMA_",       "OLLAMA_",      "FLASH_ATTENTION_",
    "BNB_",          "DS_",        "DEEPSPEED_", "ACCELERATE_",  "MORI_",        "UCX_",
    "FI_",           "MALLOC_",    "GLIBC_",     "DEBUG_HIP",    "DEBUG_CLR",    "LOADER_",
    "COMGR_",        "CLR_",       "SDMA_",      "ROCPROFILER_", "ROCTRACER_",   "NUMBA_",
    "ROCP_",         "ROCRAND_",   "MIGRAPHX_",  "HCC_",         "NVIDIA_",
};

static const char *const names[] = {
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_BIND_NOW",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_PORT",
    "TORCH",
    "PYTORCH",
    "TOKENIZERS_PARALLELISM",
    "KINETO_LOG_LEVEL",
    "KINETO_USE_DAEMON",
    "HSAKMT_DEBUG_LEVEL",
    "HSAKMT_MODEL",
    "LOCPATH",
    "GLIBC_TUNABLES",
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "LC_ALL",
    "LANG",
    "TERM",
    /* Slurm: numbers and ids. Names of jobs, users, nodes and accounts are not on the list. */
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPUS_ON_NODE",
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
};

/* A value would name people, hosts, projects or folders; that it is set is what matters. */
static const char *const name_only_prefixes[] = {"PYTHON",
                                                 "VIRTUAL_ENV",
                                                 "CONDA_",
                                                 "HF_HOME",
                                                 "HF_HUB_",
                                                 "TRANSFORMERS_CACHE",
                                                 "XDG_CACHE_HOME",
                                                 "MASTER_ADDR",
                                                 "KUBERNETES_SERVICE_HOST",
                                                 "APPTAINER_CONTAINER",
                                                 "SINGULARITY_CONTAINER"};

/* Words of a name (between '_') that say "secret". */
static const char *const secret_words[] = {
    "KEY",     "KEYS",      "APIKEY",     "TOKEN",       "SECRET",  "SECRETS",
    "PASS",    "PASSWD",    "PASSWORD",   "PW",          "PWD",     "PASSPHRASE",
    "CRED",    "CREDS",     "CREDENTIAL", "CREDENTIALS", "AUTH",    "AUTHORIZATION",
    "COOKIE",  "COOKIES",   "PRIVATE",    "SIGNATURE",   "CERT",    "CERTIFICATE",
    "BEARER",  "PAT",       "JWT",        "DSN",         "WEBHOOK", "SALT",
    "NONCE",   "OTP",       "LOGIN",      "USERNAME",    "EMAIL",   "ACCOUNT",
    "LICENSE", "ACCESSKEY", "SECRETKEY",
};

/* And those that say it anywhere in it. */
static const char *const secret_parts[] = {"SECRET",      "PASSWORD",   "PASSWD",
                                           "APIKEY",      "API_KEY",    "ACCESS_KEY",
                                           "PRIVATE_KEY", "AUTH_TOKEN", "CREDENTIAL"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool starts(const char *s, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);
    return len >= n && memcmp(s, prefix, n) == 0;
}

static bool word_is_secret(const char *word, size_t len)
{
    for (size_t i = 0; i < COUNT(secret_words); i++)
        if (strlen(secret_words[i]) == len && strncasecmp(word, secret_words[i], len) == 0)
            return true;
    return false;
}

bool env_name_is_secret(const char *name, size_t len)
{
    char upper[128];
    size_t n = len < sizeof upper - 1 ? len : sizeof upper - 1;
    for (size_t i = 0; i < n; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    upper[n] = '\0';
    for (size_t i = 0; i < COUNT(secret_parts); i++)
        if (strstr(upper, secret_parts[i]) != NULL)
            return true;
    for (size_t start = 0, i = 0; i <= n; i++) {
        if (i < n && isalnum((unsigned char)upper[i]))
            continue;
        if (word_is_secret(upper + start, i - start))
            return true;
        start = i + 1;
    }
    return false;
}

enum env_rule env_rule_of(const char *name, size_t len)
{
    bool shown = false;
    for (size_t i = 0; i < COUNT(names); i++)
        shown = shown || (strlen(names[i]) == len && memcmp(names[i], name, len) == 0);
    for (size_t i = 0; !shown && i < COUNT(prefixes); i++)
        shown = starts(name, len, prefixes[i]);
    /* A name is shown and becomes a fact's: letters, digits, '_' only. */
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return ENV_HIDE;
    if (shown)
        return env_name_is_secret(name, len) ? ENV_SECRET : ENV_SHOW;
    for (size_t i = 0; i < COUNT(name_only_prefixes); i++)
        if (starts(name, len, name_only_prefixes[i]))
            return ENV_NAME_ONLY;
    return ENV_HIDE;
}
