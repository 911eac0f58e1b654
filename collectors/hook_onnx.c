/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of the collector "hook": what inject/python/rocmcrash_pools.py wrote about ONNX Runtime's
 * sessions when an exception of ONNX Runtime ended the process. Python cannot read its arena.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/hook.h"

#define RECORD_MAX ((size_t)2 << 20)
#define LIMIT_MAX (1ULL << 50) /* without a limit it is the largest number */

/* {"ROCMExecutionProvider": {"gpu_mem_limit": "419430400", "arena_extend_strategy": ...}, ...} */
static void put_options(const cJSON *options, const char *source, struct collect_out *out)
{
    const cJSON *provider = NULL;
    cJSON_ArrayForEach(provider, options)
    {
        const char *limit = hook_string(provider, "gpu_mem_limit");
        const char *strategy = hook_string(provider, "arena_extend_strategy");
        unsigned long long bytes = strtoull(limit, NULL, 10);
        if (limit[0] == '\0' && strategy[0] == '\0')
            continue;
        collect_text(out, "onnxruntime.provider", FACT_STATIC, provider->string, source);
        if (bytes > 0 && bytes < LIMIT_MAX)
            collect_integer(out, "onnxruntime.limit_bytes", FACT_STATIC, (int64_t)bytes, source);
        if (strategy[0] != '\0')
            collect_text(out, "onnxruntime.arena_strategy", FACT_STATIC, strategy, source);
        break;
    }
}

static void put_sessions(const cJSON *record, const char *source, struct collect_out *out)
{
    static const char *const counts[][2] = {{"sessions", "onnxruntime.sessions_count"},
                                            {"models", "onnxruntime.models_count"}};
    const cJSON *running = cJSON_GetObjectItemCaseSensitive(record, "running");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t count = hook_number(record, counts[i][0]);
        if (count >= 0)
            collect_integer(out, counts[i][1], FACT_IMPACT, count, source);
    }
    if (cJSON_IsBool(running))
        collect_boolean(out, "onnxruntime.running", FACT_IMPACT, cJSON_IsTrue(running), source);
}

void hook_onnx(const struct collect_ctx *ctx, const char *dir, struct collect_out *out)
{
    char path[FS_PATH_MAX + 64];
    char source[96];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%lld.onnxruntime.json", dir, (long long)ctx->failed_pid);
    (void)snprintf(source, sizeof source, "onnxruntime in process %lld, at the uncaught exception",
                   (long long)ctx->failed_pid);
    ssize_t len = fs_read_all(path, RECORD_MAX, &text);
    cJSON *record = len > 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    if (record == NULL)
        return;
    put_sessions(record, source, out);
    put_options(cJSON_GetObjectItemCaseSensitive(record, "options"), source, out);
    (void)collect_write(out, "onnxruntime-exit.json", text, (size_t)len);
    cJSON_Delete(record);
}
