/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which HIP runtime would a program load? A wheel brings its own, but a folder in LD_LIBRARY_PATH comes before
 * the wheel's RUNPATH. Then two releases of ROCm meet in one process. This looks at files and loads nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/python_env.h"
#include "collectors/lib/rocm_tree.h"
#include "collectors/machine.h"
#include "collectors/target_user.h"

#define FILES_MAX 20000
#define TARGETS_MAX 96

/* The libamdhip64.so* of a folder with the highest version: 10 is above 7. */
static bool runtime_in(const char *folder, char *out, size_t size)
{
    char best[256] = "";
    RC_AUTO_CLOSEDIR DIR *dir = opendir(folder);
    const struct dirent *entry = NULL;
    for (int i = 0; dir != NULL && i < FILES_MAX && (entry = readdir(dir)) != NULL; i++) {
        const char *name = entry->d_name;
        if (strncmp(name, "libamdhip64", 11) != 0 || strstr(name, ".so") == NULL ||
            strlen(name) >= sizeof best)
            continue;
        if (best[0] == '\0' || strverscmp(name, best) > 0)
            (void)snprintf(best, sizeof best, "%.255s", name);
    }
    int n = snprintf(out, size, "%s/%s", folder, best);
    return best[0] != '\0' && n > 0 && (size_t)n < size;
}

static void give_runtime(struct collect_out *out, const char *fact, const char *path)
{
    struct rocm_version version = {.number = 0};
    char name[64];
    collect_text(out, fact, FACT_STATIC, path, path);
    (void)snprintf(name, sizeof name, "%s_version", fact);
    if (rocm_version_of(path, false, &version) == 0)
        collect_text(out, name, FACT_STATIC, version.text, version.source);
    else
        collect_missing(out, name, FACT_STATIC, FACT_UNREADABLE, "the library does not state it",
                        path);
    (void)snprintf(name, sizeof name, "%s_release", fact);
    if (version.number != 0 && version.patch_known)
        collect_text(out, name, FACT_STATIC, version.text, version.source);
    /* Major and minor: a wheel often says no more. */
    (void)snprintf(name, sizeof name, "%s_number", fact);
    if (version.number != 0)
        collect_integer(out, name, FACT_STATIC, version.number / 100, version.source);
}

/* The entries of a list with ':' (or blanks, LD_PRELOAD) between; false when there are no more. */
static bool next_entry(const char **list, const char *separators, char *out, size_t size)
{
    *list += strspn(*list, separators);
    size_t len = strcspn(*list, separators);
    if (len == 0)
        return false;
    cleantext_copy(out, size, *list, len);
    *list += len;
    return true;
}

static void look_at_path(const struct collect_ctx *ctx, struct collect_out *out)
{
    const char *list = environ_get(ctx->environ_at_impact, "LD_LIBRARY_PATH");
    const char *preload = environ_get(ctx->environ_at_impact, "LD_PRELOAD");
    char entry[FS_PATH_MAX];
    char path[FS_PATH_MAX + 260];
    while (preload != NULL && next_entry(&preload, ": ", entry, sizeof entry)) {
        if (strstr(entry, "libamdhip64") != NULL) {
            give_runtime(out, "software.path_runtime", entry);
            return;
        }
    }
    while (list != NULL && next_entry(&list, ":", entry, sizeof entry)) {
        if (runtime_in(entry, path, sizeof path)) {
            give_runtime(out, "software.path_runtime", path);
            return;
        }
    }
    collect_missing(out, "software.path_runtime", FACT_STATIC, FACT_ABSENT,
                    "neither LD_LIBRARY_PATH nor LD_PRELOAD leads to a HIP runtime", "environment");
}

static void look_at_system(struct collect_out *out)
{
    static const char *const folders[] = {"/opt/rocm/lib", "/opt/rocm/core/lib",
                                          "/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
    char folder[FS_PATH_MAX];
    char path[FS_PATH_MAX];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (fs_machine_path(folder, sizeof folder, folders[i]) == 0 &&
            runtime_in(folder, path, sizeof path)) {
            give_runtime(out, "software.system_runtime", path);
            return;
        }
    }
}

/* --- the wheel --- */

struct targets {
    size_t count;
    char name[TARGETS_MAX][16];
};

static void add_target(struct targets *t, const char *name, size_t len)
{
    if (len < 4 || len >= sizeof t->name[0] || t->count == TARGETS_MAX)
        return;
    size_t at = 0;
    while (at < t->count && strncmp(t->name[at], name, len) < 0)
        at++;
    if (at < t->count && strlen(t->name[at]) == len && strncmp(t->name[at], name, len) == 0)
        return;
    memmove(t->name[at + 1], t->name[at], (t->count - at) * sizeof t->name[0]);
    (void)snprintf(t->name[at], sizeof t->name[0], "%.*s", (int)len, name);
    t->count++;
}

/* TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx90a.co, Kernels.so-000-gfx1030.hsaco,
 * TensileLibrary_lazy_gfx1100.dat */
static void targets_in(const char *folder, struct targets *t)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(folder);
    const struct dirent *entry = NULL;
    for (int i = 0; dir != NULL && i < FILES_MAX && (entry = readdir(dir)) != NULL; i++) {
        const char *at = strstr(entry->d_name, "gfx");
        if (at == NULL)
            continue;
        size_t len = 3 + strspn(at + 3, "0123456789abcdef");
        if (strncmp(at + len, "-generic", 8) == 0)
            len += 8;
        add_target(t, at, len);
    }
}

static int is_sdk_folder(const struct dirent *entry)
{
    return strncmp(entry->d_name, "_rocm_sdk_", 10) == 0;
}

/* _rocm_sdk_core, _rocm_sdk_libraries_gfx110X_all: the wheels of TheRock. */
static bool look_at_sdk(const char *site, struct targets *targets, char *runtime, size_t size)
{
    struct dirent **entries = NULL;
    bool found = false;
    int count = scandir(site, &entries, is_sdk_folder, alphasort);
    for (int i = 0; i < count; i++) {
        char folder[FS_PATH_MAX + 320];
        (void)snprintf(folder, sizeof folder, "%s/%s/lib", site, entries[i]->d_name);
        if (!found)
            found = runtime_in(folder, runtime, size);
        (void)snprintf(folder, sizeof folder, "%s/%s/lib/rocblas/library", site,
                       entries[i]->d_name);
        targets_in(folder, targets);
        free(entries[i]);
    }
    free(entries);
    return found;
}

static void give_targets(struct collect_out *out, const struct targets *t, const char *where)
{
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < t->count; i++)
        buf_printf(&text, "%s%s", i > 0 ? " " : "", t->name[i]);
    if (t->count > 0 && !buf_failed(&text))
        collect_text(out, "software.torch_targets", FACT_STATIC, buf_str(&text), where);
    else
        collect_missing(out, "software.torch_targets", FACT_STATIC, FACT_ABSENT,
                        "no rocBLAS library is beside PyTorch", where);
    buf_release(&text);
}

static bool look_at_site(const char *site, struct collect_out *out)
{
    char folder[FS_PATH_MAX + 64];
    char runtime[FS_PATH_MAX + 320];
    struct targets targets = {.count = 0};
    (void)snprintf(folder, sizeof folder, "%s/torch/lib", site);
    bool found = runtime_in(folder, runtime, sizeof runtime);
    (void)snprintf(folder, sizeof folder, "%s/torch/lib/rocblas/library", site);
    targets_in(folder, &targets);
    if (!found)
        found = look_at_sdk(site, &targets, runtime, sizeof runtime);
    if (!found)
        return false;
    give_runtime(out, "software.wheel_runtime", runtime);
    give_targets(out, &targets, "rocblas/library beside PyTorch");
    return true;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    int r = target_user_begin(ctx);
    if (r < 0)
        return target_user_refused(out, r);
    RC_AUTO_FREE struct python_env *env = calloc(1, sizeof *env);
    if (env == NULL) {
        target_user_end();
        return collect_reason(out, COLLECT_FAILED, "%s", strerror(ENOMEM));
    }
    bool python = python_env_find(ctx, env);
    bool found = false;
    if (python && env->executable[0] != '\0')
        collect_text(out, "software.python_executable", FACT_STATIC, env->executable,
                     "the command, through PATH");
    for (unsigned i = 0; python && i < env->site_count && !found; i++)
        found = look_at_site(env->sites[i].path, out);
    if (!found)
        collect_missing(out, "software.wheel_runtime", FACT_STATIC, FACT_ABSENT,
                        python ? "no HIP runtime is beside PyTorch" : "there is no Python",
                        "site-packages");
    look_at_path(ctx, out);
    look_at_system(out);
    target_user_end();
    return COLLECT_OK;
}

const struct collector collector_libraries = {
    .name = "libraries",
    .describe = "HIP runtimes that a program would find",
    .phase = COLLECT_SLOW,
    .deadline_ms = 3000,
    .run = run,
};
