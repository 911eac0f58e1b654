/* SPDX-License-Identifier: Apache-2.0 */
/* The allow-list: no planted secret is shown, every variable that changes ROCm's behaviour is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "collectors/job.h"
#include "diagnose/fact.h"
#include "harness.h"

extern const struct collector collector_environment, collector_job;

/* NAME=VALUE, and the part that must not be seen anywhere. None of them is real. */
static const struct {
    const char *entry, *secret;
} planted[] = {
    /* not on the list */
    {"AWS_SECRET_ACCESS_KEY=planted01/abc", "planted01"},
    {"AWS_ACCESS_KEY_ID=AKIAPLANTED02", "PLANTED02"},
    {"HF_TOKEN=hf_planted03aaaaaaaa", "planted03"},
    {"HUGGING_FACE_HUB_TOKEN=planted04", "planted04"},
    {"OPENAI_API_KEY=sk-planted05", "planted05"},
    {"WANDB_API_KEY=planted06", "planted06"},
    {"GITHUB_TOKEN=planted07", "planted07"},
    {"DATABASE_URL=postgres://u:planted08@h/db", "planted08"},
    {"USER=planted09", "planted09"},
    {"HOME=/home/planted10", "planted10"},
    {"HOSTNAME=planted11", "planted11"},
    {"SSH_CLIENT=planted12", "planted12"},
    {"PS1=planted13", "planted13"},
    {"MY_HIP_SECRET=planted14", "planted14"},
    {"http_proxy=http://u:planted15@proxy:3128", "planted15"},
    {"OLDPWD=/home/planted16", "planted16"},
    {"SLURM_JOB_USER=planted17", "planted17"},
    {"SLURM_JOB_NAME=planted18", "planted18"},
    {"SLURM_JOB_ACCOUNT=planted19", "planted19"},
    {"SLURM_NODELIST=planted20", "planted20"},
    {"SLURM_JWT=planted21", "planted21"},
    /* shown by name only */
    {"PYTHONPATH=/home/planted22/lib", "planted22"},
    {"CONDA_PREFIX=/home/planted23/env", "planted23"},
    {"MASTER_ADDR=planted24.example", "planted24"},
    {"VIRTUAL_ENV=/home/planted25", "planted25"},
    {"KUBERNETES_SERVICE_HOST=planted26", "planted26"},
    /* on the list, but with a name like a secret's */
    {"VLLM_API_KEY=planted27", "planted27"},
    {"OLLAMA_AUTH=planted28", "planted28"},
    {"TORCH_HUB_TOKEN=planted29", "planted29"},
    {"AMD_PASSWORD=planted30", "planted30"},
    {"JAX_COOKIE=planted31", "planted31"},
    {"TF_PRIVATE_KEY=planted32", "planted32"},
    {"ROCM_apikey=planted33", "planted33"},
    {"GPU_SECRET_X=planted34", "planted34"},
    {"LLAMA_ARG_API_KEY=planted35", "planted35"},
    {"CUDA_DSN=planted36", "planted36"},
    {"XLA_PAT=planted37", "planted37"},
    {"DS_CREDENTIALS=planted38", "planted38"},
    {"NCCL_PASSPHRASE=planted39", "planted39"},
    {"VLLM_WEBHOOK=planted40", "planted40"},
    /* on the list and shown, with a value that looks like a secret */
    {"TORCH_EXTRA=hf_Planted41xxxxxxxxxxxxxxx", "Planted41"},
    {"VLLM_ARGS=--a sk-planted42aaaaaaaaaaaaaa --b", "planted42"},
    {"AMD_X=ghp_planted43aaaaaaaaaaaaaaaaaaaaaa", "planted43"},
    {"AMD_Y=xoxb-planted44-aaaaaaaaaa", "planted44"},
    {"AMD_Z=eyJhbGciOiplanted45.eyJzdWIiOi.SflKx", "planted45"},
    {"JAX_URL=https://user:planted46@host/x", "planted46"},
    {"NCCL_URL=redis://:planted47@10.0.0.1:6379", "planted47"},
    {"OLLAMA_HEADERS=Authorization: Bearer planted48", "planted48"},
    {"LLAMA_OPT=--api-key planted49", "planted49"},
    {"VLLM_OPT=token=planted50&x=1", "planted50"},
    {"VLLM_OPT2={\"password\": \"planted51\"}", "planted51"},
    {"HIP_A=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"},
    {"HIP_B=Zm9vYmFyYmF6cXV4cXV1eHBsYW50ZWQ1Mw", "Zm9vYmFy"},
    {"HIP_C=wJalrXUtnFEMI/K7MDENG+bPxRfiCYzEXaMPLeKEY", "K7MDENG"},
    {"ROCR_VISIBLE_DEVICES=GPU-4e3f2a1b5c6d7e8f,1", "4e3f2a1b5c6d7e8f"},
    {"AMD_U=550e8400-e29b-41d4-a716-446655440000", "446655440000"},
    {"LD_LIBRARY_PATH=/opt/rocm/lib:/x/glpat-planted57aaaaaaaaaaaa/lib", "planted57"},
    {"HSA_X=-----BEGINplanted58aaaa", "planted58"},
    {"TRITON_X=AKIAPLANTED59ABCDEFG", "PLANTED59"},
    {"GGML_X=nvapi-planted60aaaaaaaaaaaaaa", "planted60"},
    {"AMD_Q=a\nAWS_SECRET=planted61", "planted61"},
    {"MIOPEN_X=npm_planted62aaaaaaaaaaaaaaaaaaaaaaaa", "planted62"},
    {"PATH=/home/planted63/bin:/opt/rocm-6.2.0/bin:/usr/bin", "planted63"},
    {"=planted64", "planted64"},
    {"planted65", "planted65"},
    {"HIP_BAD NAME=planted66", "planted66"},
};
#define PLANTED (sizeof planted / sizeof planted[0])

/* With usual values: shown unchanged. */
static const char *const kept[] = {
    "HIP_VISIBLE_DEVICES=0,1",
    "HIP_LAUNCH_BLOCKING=1",
    "HIP_FORCE_DEV_KERNARG=1",
    "HSA_OVERRIDE_GFX_VERSION=11.0.0",
    "HSA_XNACK=1",
    "HSA_ENABLE_SDMA=0",
    "HSA_NO_SCRATCH_RECLAIM=1",
    "HSA_CU_MASK=0:0-31;1:32-63",
    "HSA_FORCE_FINE_GRAIN_PCIE=1",
    "HSAKMT_DEBUG_LEVEL=7",
    "ROCR_VISIBLE_DEVICES=0,1,2,3",
    "CUDA_VISIBLE_DEVICES=",
    "GPU_DEVICE_ORDINAL=0",
    "GPU_MAX_HEAP_SIZE=100",
    "GPU_MAX_HW_QUEUES=2",
    "AMD_LOG_LEVEL=4",
    "AMD_SERIALIZE_KERNEL=3",
    "AMD_DIRECT_DISPATCH=0",
    "ROCM_PATH=/opt/rocm-6.2.0",
    "PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "PYTORCH_TUNABLEOP_ENABLED=1",
    "PYTORCH_TUNABLEOP_FILENAME=tunableop_results%d.csv",
    "PYTORCH_NO_HIP_MEMORY_CACHING=1",
    "TORCH_BLAS_PREFER_HIPBLASLT=0",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
    "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1",
    "TORCHELASTIC_RESTART_COUNT=0",
    "MIOPEN_FIND_MODE=FAST",
    "MIOPEN_USER_DB_PATH=/tmp/miopen",
    "MIOPEN_CUSTOM_CACHE_DIR=/tmp/miopen-cache",
    "MIOPEN_DEBUG_CONV_IMPLICIT_GEMM_HIP_FWD_V4R1=0",
    "HIPBLASLT_TENSILE_LIBPATH=/opt/rocm/lib/hipblaslt/library",
    "ROCBLAS_TENSILE_LIBPATH=/opt/rocm/lib/rocblas/library",
    "ROCBLAS_USE_HIPBLASLT=1",
    "TENSILE_DB=0x8000",
    "RCCL_MSCCL_ENABLE=0",
    "NCCL_DEBUG=INFO",
    "NCCL_SOCKET_IFNAME=eth0",
    "NCCL_IB_HCA=mlx5_0:1,mlx5_1:1",
    "NCCL_P2P_DISABLE=1",
    "TF_FORCE_GPU_ALLOW_GROWTH=true",
    "XLA_FLAGS=--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0",
    "XLA_PYTHON_CLIENT_MEM_FRACTION=.75",
    "JAX_PLATFORMS=rocm,cpu",
    "OMP_NUM_THREADS=8",
    "VLLM_USE_TRITON_FLASH_ATTN=0",
    "VLLM_ROCM_USE_AITER=1",
    "VLLM_ATTENTION_BACKEND=ROCM_AITER_UNIFIED_ATTN",
    "GGML_CUDA_ENABLE_UNIFIED_MEMORY=1",
    "LLAMA_ARG_N_GPU_LAYERS=99",
    "LLAMA_ARG_MODEL=/models/Qwen2.5-VL-72B-Instruct-Q4_K_M-00001-of-00012.gguf",
    "VLLM_MODEL=mistralai/Mixtral-8x22B-Instruct-v0.1",
    "OLLAMA_KEEP_ALIVE=5m",
    "OLLAMA_MAX_LOADED_MODELS=3",
    "LD_LIBRARY_PATH=/opt/rocm-6.2.0/lib:/usr/lib/x86_64-linux-gnu",
    "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "SLURM_JOB_ID=123456",
    "SLURM_PROCID=3",
    "LOCAL_RANK=3",
    "RANK=11",
    "WORLD_SIZE=16",
    "TRITON_CACHE_DIR=/tmp/triton",
    "VLLM_MAX_TOKENS_PER_EXPERT_FUSED_MOE=65536",
    "GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=131072",
};
#define KEPT (sizeof kept / sizeof kept[0])

static void assert_leaks_nowhere(struct harness *h, const char *text, const char *secret)
{
    if (strstr(text, secret) != NULL)
        fail_msg("environment.txt shows '%s'", secret);
    for (size_t i = 0; i < facts_count(h->facts); i++) {
        const struct fact *f = facts_at(h->facts, i);
        if (strstr(f->name, secret) != NULL ||
            (f->text != NULL && strstr(f->text, secret) != NULL) ||
            strstr(f->source, secret) != NULL)
            fail_msg("fact '%s' shows '%s'", f->name, secret);
    }
}

static void test_no_planted_secret_is_shown(void **state)
{
    struct harness *h = *state;
    const char *list[PLANTED + 1];
    for (size_t i = 0; i < PLANTED; i++)
        list[i] = planted[i].entry;
    list[PLANTED] = NULL;
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_environment, NULL);
    assert_int_equal(h->status, COLLECT_OK);
    char *text = harness_staged(h, "environment/environment.txt");
    assert_non_null(text);
    for (size_t i = 0; i < PLANTED; i++)
        assert_leaks_nowhere(h, text, planted[i].secret);
    /* The lines are shown for variables on the list. */
    assert_non_null(strstr(text, "VLLM_API_KEY=<redacted>\n"));
    assert_non_null(strstr(text, "VLLM_ARGS=--a <redacted> --b\n"));
    assert_non_null(strstr(text, "ROCR_VISIBLE_DEVICES=<redacted>,1\n"));
    assert_non_null(strstr(text, "LD_LIBRARY_PATH=/opt/rocm/lib:/x/<redacted>/lib\n"));
    assert_non_null(strstr(text, "JAX_URL=https://<redacted>@host/x\n"));
    assert_non_null(strstr(text, "PYTHONPATH=<set>\n"));
    assert_non_null(strstr(text, "PATH=/opt/rocm-6.2.0/bin (other entries not shown)\n"));
    assert_non_null(strstr(text, " others only counted\n"));
    assert_null(strstr(text, "AWS_SECRET_ACCESS_KEY")); /* not even the name */
    assert_string_equal(harness_text(h, "env.VLLM_API_KEY"), "<redacted>");
    free(text);
}

static void test_rocm_variables_are_kept(void **state)
{
    struct harness *h = *state;
    const char *list[KEPT + 1];
    memcpy(list, kept, sizeof kept);
    list[KEPT] = NULL;
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_environment, NULL);
    char *text = harness_staged(h, "environment/environment.txt");
    assert_non_null(text);
    for (size_t i = 0; i < KEPT; i++) {
        char line[300];
        char fact[128] = "env.";
        (void)snprintf(line, sizeof line, "%s\n", kept[i]);
        if (strstr(text, line) == NULL)
            fail_msg("'%s' was changed", kept[i]);
        (void)snprintf(fact + 4, sizeof fact - 4, "%.*s", (int)strcspn(kept[i], "="), kept[i]);
        assert_string_equal(harness_text(h, fact), strchr(kept[i], '=') + 1);
    }
    free(text);
}

static void test_same_bytes_whatever_the_order(void **state)
{
    struct harness *h = *state;
    const char *one[] = {"HIP_A=1", "HSA_B=2", "NCCL_C=3", NULL};
    const char *two[] = {"NCCL_C=3", "HIP_A=1", "HSA_B=2", NULL};
    h->ctx.environ_at_impact = one;
    harness_run(h, &collector_environment, NULL);
    char *first = harness_staged(h, "environment/environment.txt");
    h->ctx.environ_at_impact = two;
    harness_run(h, &collector_environment, NULL);
    char *second = harness_staged(h, "environment/environment.txt");
    assert_string_equal(first, second);
    free(first);
    free(second);
}

static void test_hostile_environments(void **state)
{
    struct harness *h = *state;
    static char name[5000] = "HIP_";
    static char value[100000] = "AMD_LONG=";
    memset(name + 4, 'A', sizeof name - 6);
    memcpy(name + sizeof name - 2, "=", 2);
    memset(value + 9, 'x', sizeof value - 10);
    const char *list[] = {name, value, "", "=", "==", "HIP_=", "HIP_X==", "HIP_C=\x01\x1b[2J\xff",
                          NULL};
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_environment, NULL);
    char *text = harness_staged(h, "environment/environment.txt");
    assert_non_null(text);
    for (const char *p = text; *p != '\0'; p++)
        assert_true((unsigned char)*p >= 0x20 || *p == '\n');
    assert_true(strlen(text) < 6000);
    free(text);
    h->ctx.environ_at_impact = NULL;
    harness_run(h, &collector_environment, NULL);
    assert_int_equal(h->status, COLLECT_SKIPPED);
}

/* The environment of another process is not presented as the program's. */
static void test_source(void **state)
{
    struct harness *h = *state;
    const char *const list[] = {"HIP_VISIBLE_DEVICES=1", NULL};
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_environment, NULL);
    assert_string_equal(facts_best(h->facts, "env.HIP_VISIBLE_DEVICES")->source, "environment of the process");
    h->ctx.environ_source = "environment of rocmcrash";
    harness_run(h, &collector_environment, NULL);
    assert_string_equal(facts_best(h->facts, "env.HIP_VISIBLE_DEVICES")->source, "environment of rocmcrash");
}

/* --- job --- */

static void test_torchrun_below_slurm(void **state)
{
    struct harness *h = *state;
    const char *list[] = {"SLURM_JOB_ID=777",
                          "SLURM_PROCID=1",
                          "SLURM_STEP_ID=0",
                          "SLURM_NTASKS=2",
                          "SLURM_LOCALID=0",
                          "SLURM_NODEID=1",
                          "SLURM_NNODES=2",
                          "RANK=11",
                          "WORLD_SIZE=16",
                          "LOCAL_RANK=3",
                          "LOCAL_WORLD_SIZE=8",
                          "GROUP_RANK=1",
                          "TORCHELASTIC_RUN_ID=secretname",
                          "SLURM_JOB_NAME=secretname",
                          NULL};
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_job, h->root);
    assert_int_equal(h->status, COLLECT_OK);
    assert_int_equal(harness_integer(h, "job.rank"), 11);
    assert_int_equal(harness_integer(h, "job.world_size"), 16);
    assert_int_equal(harness_integer(h, "job.local_rank"), 3);
    assert_int_equal(harness_integer(h, "job.node_rank"), 1);
    assert_int_equal(harness_integer(h, "job.nodes_count"), 2);
    assert_int_equal(harness_integer(h, "job.id"), 777);
    assert_string_equal(harness_text(h, "job.launcher"), "torchrun");
    assert_string_equal(harness_text(h, "job.launchers"), "torchrun slurm");
    char *text = harness_staged(h, "job/job.txt");
    assert_non_null(text);
    assert_null(strstr(text, "secretname"));
    free(text);
}

/* The script of sbatch has SLURM_PROCID=0 and the job's number of tasks, but is not one of these tasks. */
static void test_a_task_of_slurm(void **state)
{
    struct harness *h = *state;
    const char *list[] = {"SLURM_JOB_ID=777", "SLURM_PROCID=0", "SLURM_NTASKS=32", NULL, NULL, NULL};
    int64_t number;
    assert_false(job_number(list, "job.rank", &number));
    h->ctx.environ_at_impact = list;
    harness_run(h, &collector_job, h->root);
    assert_null(facts_best(h->facts, "job.rank"));
    list[3] = "SLURM_STEP_ID=0";
    assert_true(job_number(list, "job.rank", &number));
    assert_int_equal(number, 0);
    list[4] = "SLURM_STEP_NUM_TASKS=8";
    assert_true(job_number(list, "job.world_size", &number));
    assert_int_equal(number, 8);
}

static void test_mpi_and_kubernetes(void **state)
{
    struct harness *h = *state;
    const char *list[] = {"OMPI_COMM_WORLD_RANK=5",
                          "OMPI_COMM_WORLD_SIZE=8",
                          "OMPI_COMM_WORLD_LOCAL_RANK=1",
                          "KUBERNETES_SERVICE_HOST=10.0.0.1",
                          "RANK=not-torch",
                          NULL};
    h->ctx.environ_at_impact = list;
    harness_file(h, "/etc/podinfo/annotations",
                 "a=\"b\"\nbatch.kubernetes.io/job-completion-index=\"3\"\n");
    harness_run(h, &collector_job, h->root);
    assert_int_equal(harness_integer(h, "job.rank"), 5);
    assert_int_equal(harness_integer(h, "job.world_size"), 8);
    assert_int_equal(harness_integer(h, "job.completion_index"), 3);
    assert_string_equal(harness_text(h, "job.launchers"), "openmpi kubernetes");
}

static void test_no_job_and_garbage(void **state)
{
    struct harness *h = *state;
    const char *none[] = {"HOME=/x", NULL};
    h->ctx.environ_at_impact = none;
    harness_run(h, &collector_job, h->root);
    assert_int_equal(h->status, COLLECT_SKIPPED);
    assert_int_equal(harness_fact_status(h, "job.launcher"), FACT_ABSENT);
    const char *bad[] = {"RANK=x",      "WORLD_SIZE=-1",     "SLURM_PROCID=99999999999999999999",
                         "LOCAL_RANK=", "SLURM_JOB_ID=12_3", NULL};
    h->ctx.environ_at_impact = bad;
    harness_run(h, &collector_job, h->root);
    assert_int_equal(harness_fact_status(h, "job.rank"), FACT_UNREADABLE);
    assert_int_equal(harness_fact_status(h, "job.local_rank"), FACT_UNREADABLE);
    assert_int_equal(harness_integer(h, "job.world_size"), -12345);
    /* A common name, which means a rank only together with WORLD_SIZE. */
    const char *alone[] = {"RANK=7", NULL};
    h->ctx.environ_at_impact = alone;
    harness_run(h, &collector_job, h->root);
    assert_int_equal(h->status, COLLECT_SKIPPED);
    assert_int_equal(harness_integer(h, "job.rank"), -12345);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_planted_secret_is_shown),
        TEST(test_source),
        TEST(test_rocm_variables_are_kept),
        TEST(test_same_bytes_whatever_the_order),
        TEST(test_hostile_environments),
        TEST(test_torchrun_below_slurm),
        TEST(test_a_task_of_slurm),
        TEST(test_mpi_and_kubernetes),
        TEST(test_no_job_and_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
