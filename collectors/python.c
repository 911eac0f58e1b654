/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collector "python": the Python of the failed process and what is installed in it, read as text;
 * Python is never started. With packages.json, requirements.txt (name==version) and, for conda,
 * conda.txt (name=version) another person can build the same environment.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/distinfo.h"
#include "collectors/lib/python_env.h"
#include "collectors/target_user.h"

extern const struct collector collector_python;

#define VERSION_PY_MAX ((size_t)16 << 10)

/* Packages whose version matters for GPU failures: facts software.<name with _>_version. */
static const char *const telling[] = {
    "torchvision",
    "torchaudio",
    "triton",
    "pytorch-triton-rocm",
    "vllm",
    "sglang",
    "transformers",
    "diffusers",
    "accelerate",
    "deepspeed",
    "xformers",
    "flash-attn",
    "bitsandbytes",
    "peft",
    "jax",
    "jaxlib",
    "jax-rocm7-plugin",
    "jax-rocm60-plugin",
    "tensorflow",
    "tensorflow-rocm",
    "numpy",
    "llama-cpp-python",
    "cupy",
    "onnxruntime-rocm",
    "rocm-sdk-core",
    "rocm",
    "aiter",
    "amd-aiter",
    "safetensors",
    "ray",
    "lightning",
    "pytorch-lightning",
    "triton-rocm",
};

static const char torch_source[] = "torch/version.py";

struct python {
    struct python_env *env;
    struct dist_list packages;
    struct dist_list conda;
    cJSON *root;
};

static void torch_value(const char *text, const char *key, const char *fact, cJSON *json,
                        struct collect_out *out)
{
    char value[128];
    int r = dist_parse_version_py(text, key, value, sizeof value);
    if (r == 1) {
        cleantext_json_text(json, key, value);
        if (fact != NULL)
            collect_text(out, fact, FACT_STATIC, value, torch_source);
    } else if (r == 0) {
        (void)cJSON_AddNullToObject(json, key);
        if (fact != NULL)
            collect_missing(out, fact, FACT_STATIC, FACT_ABSENT,
                            "this torch is built without it (None)", torch_source);
    }
}

/* The torch whose libraries are mapped; else the first in search order. */
static bool read_torch_at(struct python *p, const struct python_site *site, struct collect_out *out)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = malloc(VERSION_PY_MAX);
    int n = snprintf(path, sizeof path, "%s/torch/version.py", site->path);
    if (text == NULL || n < 0 || (size_t)n >= sizeof path)
        return false;
    if (fs_read_regular_text(path, text, VERSION_PY_MAX) <= 0)
        return false;
    cJSON *json = cJSON_AddObjectToObject(p->root, "torch");
    cleantext_json_text(json, "path", path);
    torch_value(text, "__version__", "software.torch_version", json, out);
    torch_value(text, "hip", "software.torch_hip_version", json, out);
    torch_value(text, "rocm", NULL, json, out);
    torch_value(text, "cuda", "software.torch_cuda_version", json, out);
    torch_value(text, "git_version", "software.torch_git_version", json, out);
    return true;
}

static void read_torch(struct python *p, struct collect_out *out)
{
    for (int mapped = 1; mapped >= 0; mapped--) {
        for (unsigned i = 0; i < p->env->site_count; i++) {
            if (p->env->sites[i].mapped == (mapped == 1) &&
                read_torch_at(p, &p->env->sites[i], out))
                return;
        }
    }
    const struct dist_package *torch = dist_find(&p->packages, "torch");
    if (torch == NULL)
        torch = dist_find(&p->conda, "pytorch");
    if (torch != NULL)
        collect_text(out, "software.torch_version", FACT_STATIC, torch->version,
                     "metadata of the package");
    else
        collect_missing(out, "software.torch_version", FACT_STATIC, FACT_ABSENT,
                        "torch is not installed in this Python", "python/packages.json");
}

static void scan(struct python *p)
{
    cJSON *sites = cJSON_AddArrayToObject(p->root, "site_packages");
    for (unsigned i = 0; i < p->env->site_count; i++) {
        const struct python_site *site = &p->env->sites[i];
        cJSON *o = cJSON_CreateObject();
        int n = dist_scan_site(&p->packages, site->path, i);
        cleantext_json_text(o, "path", site->path);
        (void)cJSON_AddStringToObject(o, "by", site->how);
        (void)cJSON_AddBoolToObject(o, "mapped", site->mapped);
        if (n >= 0)
            (void)cJSON_AddNumberToObject(o, "packages", n);
        else
            cleantext_json_text(o, "trouble", strerror(-n));
        (void)cJSON_AddItemToArray(sites, o);
    }
    if (strcmp(p->env->kind, "conda") == 0)
        (void)dist_scan_conda(&p->conda, p->env->prefix, 0);
    dist_list_sort(&p->packages);
    dist_list_sort(&p->conda);
}

static void packages_json(struct python *p)
{
    cJSON *array = cJSON_AddArrayToObject(p->root, "packages");
    for (size_t i = 0; i < p->packages.count; i++) {
        const struct dist_package *d = &p->packages.packages[i];
        cJSON *o = cJSON_CreateObject();
        (void)cJSON_AddStringToObject(o, "name", d->name);
        (void)cJSON_AddStringToObject(o, "version", d->version);
        (void)cJSON_AddNumberToObject(o, "site", d->site);
        cleantext_json_text(o, "installer", d->installer);
        cleantext_json_text(o, "commit", d->commit);
        if (d->editable)
            (void)cJSON_AddBoolToObject(o, "editable", 1);
        if (d->shadowed)
            (void)cJSON_AddBoolToObject(o, "shadowed", 1);
        (void)cJSON_AddItemToArray(array, o);
    }
}

static int write_list(struct collect_out *out, const char *name, const struct dist_list *list,
                      const char *separator)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    for (size_t i = 0; i < list->count; i++) {
        const struct dist_package *d = &list->packages[i];
        if (!d->shadowed)
            buf_printf(&text, "%s%s%s%s\n", d->name, separator, d->version,
                       d->editable ? "  # editable" : "");
    }
    int r = buf_failed(&text) ? -ENOMEM : 0;
    if (r == 0 && text.len > 0)
        r = collect_write(out, name, text.data, text.len);
    buf_release(&text);
    return r;
}

static int write_all(struct python *p, struct collect_out *out)
{
    RC_AUTO_FREE char *text = cJSON_Print(p->root);
    int r = text == NULL ? -ENOMEM : collect_write(out, "packages.json", text, strlen(text));
    if (r == 0)
        r = write_list(out, "requirements.txt", &p->packages, "==");
    return r < 0 ? r : write_list(out, "conda.txt", &p->conda, "=");
}

static void fact_of_package(const struct python *p, const char *name, struct collect_out *out)
{
    char fact[96];
    const struct dist_package *d = dist_find(&p->packages, name);
    if (d == NULL)
        d = dist_find(&p->conda, name);
    if (d == NULL)
        return;
    (void)snprintf(fact, sizeof fact, "software.%s_version", name);
    for (char *c = fact; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    collect_text(out, fact, FACT_STATIC, d->version, "python/packages.json");
}

static void describe(struct python *p, struct collect_out *out)
{
    const struct python_env *env = p->env;
    cleantext_json_text(p->root, "executable", env->executable);
    cleantext_json_text(p->root, "version", env->version);
    cleantext_json_text(p->root, "version_from", env->version_source);
    (void)cJSON_AddStringToObject(p->root, "kind", env->kind);
    cleantext_json_text(p->root, "prefix", env->prefix);
    cleantext_json_text(p->root, "base_prefix", env->base_prefix);
    if (env->version[0] != '\0')
        collect_text(out, "software.python_version", FACT_STATIC, env->version,
                     env->version_source);
    else
        collect_missing(out, "software.python_version", FACT_STATIC, FACT_UNREADABLE,
                        "no file and no folder shows it", "python/packages.json");
    collect_text(out, "software.python_kind", FACT_STATIC, env->kind, "python/packages.json");
}

static enum collect_status collect_python(struct python *p, struct collect_out *out)
{
    describe(p, out);
    scan(p);
    read_torch(p, out);
    target_user_end(); /* the bundle is ours */
    for (size_t i = 0; i < sizeof telling / sizeof telling[0]; i++)
        fact_of_package(p, telling[i], out);
    packages_json(p);
    int r = write_all(p, out);
    if (r < 0)
        return collect_reason(out, COLLECT_FAILED, "cannot write the list: %s", strerror(-r));
    if (p->packages.count == 0 && p->conda.count == 0)
        return collect_reason(out, COLLECT_PARTIAL, "no folder of packages was found");
    if (p->packages.unreadable > 0 || p->packages.full)
        return collect_reason(out, COLLECT_PARTIAL, "%zu packages have no readable metadata%s",
                              p->packages.unreadable, p->packages.full ? "; the list is full" : "");
    return COLLECT_OK;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct python p = {.env = calloc(1, sizeof *p.env), .root = cJSON_CreateObject()};
    enum collect_status status;
    int r = target_user_begin(ctx);
    if (r < 0) {
        status = target_user_refused(out, r);
    } else if (p.env == NULL || p.root == NULL) {
        status = collect_reason(out, COLLECT_FAILED, "out of memory");
    } else if (!python_env_find(ctx, p.env)) {
        collect_missing(out, "software.python_version", FACT_STATIC, FACT_ABSENT,
                        "the failed process is not a Python", "maps and arguments");
        status = collect_reason(out, COLLECT_SKIPPED, "the failed process is not a Python");
    } else {
        status = collect_python(&p, out);
    }
    target_user_end();
    dist_list_release(&p.packages);
    dist_list_release(&p.conda);
    cJSON_Delete(p.root);
    free(p.env);
    return status;
}

const struct collector collector_python = {
    .name = "python",
    .describe = "the Python of the failed process: version, packages, torch's HIP version",
    .phase = COLLECT_SLOW,
    .deadline_ms = 5000,
    .run = run,
};
