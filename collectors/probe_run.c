/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/probe_run.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/number.h"
#include "base/own_path.h"
#include "collect/exec.h"
#include "telemetry/machine.h"

#define TEXT_MAX ((size_t)1 << 20)
#define KMSG_MAX ((size_t)4 << 20)
#define ARGUMENTS_MAX 6
#define KEEP_MS 150

/* Asking a GPU in reset may hang. The driver prints "GPU reset begin!" when a reset starts; KFD
 * prints "GPU recovery" and "Resetting wave fronts". */
static bool reset_seen(const struct collect_ctx *ctx)
{
    static const char *const words[] = {"GPU reset", "GPU recovery", "MODE1 reset", "MODE2 reset",
                                        "BACO reset", "ring reset", "device wedged"};
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    if (ctx->run_dir[0] == '\0' ||
        snprintf(path, sizeof path, "%s/kmsg", ctx->run_dir) >= (int)sizeof path)
        return false;
    (void)fs_read_all(path, KMSG_MAX, &text);
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]) != NULL)
            return true;
    return false;
}

/* "suspended", "suspending" or "error": asking would resume it. */
static const struct gpu_info *asleep(const struct machine *machine)
{
    for (uint32_t i = 0; i < machine->count; i++) {
        char path[256];
        char status[32];
        const struct gpu_info *gpu = &machine->gpus[i];
        if ((gpu->have & GPU_HAVE_CARD) == 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/power/runtime_status", gpu->device_path);
        if (fs_read_machine_text(path, status, sizeof status) > 0 &&
            strcmp(status, "active") != 0 && strcmp(status, "unsupported") != 0)
            return gpu;
    }
    return NULL;
}

static enum collect_status may_ask(const struct collect_ctx *ctx, struct collect_out *out,
                                   struct machine *machine)
{
    if (fs_sysroot()[0] != '\0')
        return collect_reason(out, COLLECT_SKIPPED, "a recorded machine has no GPU to ask");
    machine_scan(machine);
    if (machine->count == 0)
        return collect_reason(out, COLLECT_SKIPPED, "no amdgpu device on this machine");
    const struct gpu_info *gpu = asleep(machine);
    if (gpu != NULL)
        return collect_reason(out, COLLECT_SKIPPED, "GPU %s is suspended; asking would wake it",
                              gpu->pci);
    if (reset_seen(ctx))
        return collect_reason(out, COLLECT_SKIPPED,
                              "a GPU was reset during the run; asking might hang");
    return COLLECT_OK;
}

static enum collect_status read_answer(struct collect_out *out, int status, const struct buf *text,
                                       const struct rc_err *err, cJSON **ret_json)
{
    if (status == -ETIMEDOUT)
        return collect_reason(out, COLLECT_FAILED, "the driver did not answer in time");
    if (status < 0)
        return collect_reason(out, COLLECT_FAILED, "%s", err->msg);
    if (status > COLLECT_EXEC_SIGNAL)
        return collect_reason(out, COLLECT_FAILED, "rocmcrash-probe died of signal %d",
                              status - COLLECT_EXEC_SIGNAL);
    cJSON *json = cJSON_ParseWithLength(buf_str(text), text->len);
    const char *error =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "error"));
    if (json == NULL || error != NULL || status != 0) {
        enum collect_status r = collect_reason(
            out, COLLECT_FAILED, "%s", error != NULL ? error : "rocmcrash-probe said nothing");
        cJSON_Delete(json);
        return r;
    }
    *ret_json = json;
    return COLLECT_OK;
}

enum collect_status probe_run(const struct collect_ctx *ctx, struct collect_out *out,
                              const char *const *arguments, const char *file,
                              struct machine *ret_machine, cJSON **ret_json)
{
    char program[FS_PATH_MAX];
    enum collect_status status = may_ask(ctx, out, ret_machine);
    if (status != COLLECT_OK)
        return status;
    if (own_path_find("rocmcrash-probe", X_OK, program, sizeof program) < 0)
        return collect_reason(out, COLLECT_FAILED,
                              "rocmcrash-probe is not installed beside this program");
    const char *argv[ARGUMENTS_MAX + 2] = {program};
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++)
        argv[i + 1] = arguments[i];
    struct buf text;
    buf_init(&text, TEXT_MAX);
    struct rc_err err = {""};
    uint64_t keep_ns = KEEP_MS * NS_PER_MS;
    int r = collect_exec(argv, ctx->deadline_mono_ns - keep_ns, &text, &err);
    status = read_answer(out, r, &text, &err, ret_json);
    if (status == COLLECT_OK)
        (void)collect_write(out, file, text.data, text.len);
    buf_release(&text);
    return status;
}

int probe_gpu_index(const struct machine *machine, const char *pci)
{
    for (uint32_t i = 0; pci != NULL && i < machine->count; i++)
        if ((machine->gpus[i].have & GPU_HAVE_PCI) != 0 &&
            strcmp(machine->gpus[i].pci, pci) == 0)
            return (int)i;
    return -1;
}

void probe_fact(struct collect_out *out, int index, const char *name, const cJSON *object,
                const char *key, const char *source)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || index < 0)
        return;
    char fact[128];
    (void)snprintf(fact, sizeof fact, "gpu.%d.%s", index, name);
    collect_integer(out, fact, FACT_AFTER, number_from_real(item->valuedouble), source);
}
