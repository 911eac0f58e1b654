/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collector "software": the ROCm libraries that the failed process had mapped, their origin and
 * version; also what is installed: trees, kernel driver, libc.
 *
 * Two runtimes in one process (a wheel's and /opt/rocm's) is a failure of its own kind and is
 * flagged.
 */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/distro_packages.h"
#include "collectors/lib/elf_notes.h"
#include "collectors/lib/procmaps.h"
#include "collectors/lib/rocm_tree.h"
#include "collectors/target_user.h"

extern const struct collector collector_software;

#define MAPPED_MAX 8192
#define LIBRARIES_MAX 512
#define TREES_MAX 64
#define PACKAGES_MAX 512
#define LIBC_SCAN_BYTES ((size_t)4 << 20)
#define OUTPUT "software/software.json"

struct library {
    const char *path;
    char stem[96];
    char real[PATH_MAX]; /* "" = gone */
    bool deleted;
    struct rocm_place place;
    struct rocm_version version; /* number 0 = not known */
    struct elf_identity elf;
    const char *trouble;
};

struct software {
    struct library *libraries;
    size_t count;
    size_t omitted;
    cJSON *root;
};

/* The library that decides the version: the HIP runtime, else the runtime below it, else any. */
static int rank_of(const struct library *l)
{
    if (strcmp(l->stem, "libamdhip64") == 0)
        return 0;
    if (strcmp(l->stem, "libhsa-runtime64") == 0)
        return 1;
    return cleantext_starts(l->stem, "libdrm") ? 3 : 2;
}

static void describe_library(struct library *l, const struct procmaps_file *file)
{
    *l = (struct library){.path = file->path, .deleted = file->deleted};
    rocm_library_stem(file->path, l->stem, sizeof l->stem);
    rocm_place(file->path, &l->place);
    if (cleantext_starts(l->stem, "libdrm") ||
        rocm_version_of(l->path, l->deleted, &l->version) < 0)
        l->version = (struct rocm_version){0};
    if (l->deleted) {
        l->trouble = "deleted or replaced since it was loaded";
        return;
    }
    if (realpath(l->path, l->real) == NULL)
        l->real[0] = '\0';
    int r = elf_identify(l->path, &l->elf);
    if (r < 0)
        l->trouble = r == -ENOEXEC ? "not an ELF file" : strerror(-r);
}

static cJSON *library_json(const struct library *l)
{
    cJSON *o = cJSON_CreateObject();
    cleantext_json_text(o, "path", l->path);
    if (l->real[0] != '\0' && strcmp(l->real, l->path) != 0)
        cleantext_json_text(o, "real_path", l->real);
    const char *version = strstr(cleantext_base(l->real[0] ? l->real : l->path), ".so.");
    if (version != NULL)
        cleantext_json_text(o, "file_version", version + 4);
    cleantext_json_text(o, "soname", l->elf.soname);
    cleantext_json_text(o, "build_id", l->elf.build_id);
    (void)cJSON_AddStringToObject(o, "from", rocm_origin_name(l->place.origin));
    cleantext_json_text(o, "root", l->place.root);
    cleantext_json_text(o, "rocm_version", l->version.text);
    cleantext_json_text(o, "rocm_version_source", l->version.source);
    if (l->deleted)
        (void)cJSON_AddBoolToObject(o, "deleted", 1);
    if (l->trouble != NULL)
        cleantext_json_text(o, "trouble", l->trouble);
    return o;
}

static void find_libraries(struct software *s, const struct procmaps_file *files, size_t count)
{
    cJSON *array = cJSON_AddArrayToObject(s->root, "mapped_libraries");
    for (size_t i = 0; i < count; i++) {
        if (!rocm_is_library(files[i].path))
            continue;
        if (s->count == LIBRARIES_MAX) {
            s->omitted++;
            continue;
        }
        struct library *l = &s->libraries[s->count++];
        describe_library(l, &files[i]);
        (void)cJSON_AddItemToArray(array, library_json(l));
    }
}

static void runtime_facts(struct software *s, struct collect_out *out, const struct library *best)
{
    if (best->version.number != 0) {
        collect_text(out, "software.rocm_version", FACT_STATIC, best->version.text,
                     best->version.source);
        collect_integer(out, "software.rocm_version_number", FACT_STATIC, best->version.number,
                        best->version.source);
        cleantext_json_text(s->root, "rocm_version", best->version.text);
        (void)cJSON_AddBoolToObject(s->root, "rocm_patch_level_known", best->version.patch_known);
    } else {
        static const char reason[] = "the mapped runtime does not state its version";
        collect_missing(out, "software.rocm_version", FACT_STATIC, FACT_UNREADABLE, reason, OUTPUT);
        collect_missing(out, "software.rocm_version_number", FACT_STATIC, FACT_UNREADABLE, reason,
                        OUTPUT);
    }
    collect_text(out, "software.rocm_origin", FACT_STATIC, rocm_origin_name(best->place.origin),
                 best->path);
    if (best->elf.build_id[0] != '\0')
        collect_text(out, "software.rocm_runtime_build_id", FACT_STATIC, best->elf.build_id,
                     best->path);
}

/* Two different files of the same runtime. Deleted files count, too: they are mapped. */
static void duplicate_facts(struct software *s, struct collect_out *out)
{
    static const char *const runtimes[] = {"libamdhip64", "libhsa-runtime64"};
    char both[1024] = "";
    for (size_t r = 0; r < 2; r++) {
        const struct library *first = NULL;
        for (size_t i = 0; i < s->count; i++) {
            const struct library *l = &s->libraries[i];
            if (strcmp(l->stem, runtimes[r]) != 0)
                continue;
            if (first != NULL && both[0] == '\0')
                (void)snprintf(both, sizeof both, "%.480s and %.480s", first->path, l->path);
            first = first != NULL ? first : l;
        }
    }
    collect_boolean(out, "software.rocm_runtime_twice", FACT_STATIC, both[0] != '\0',
                    both[0] != '\0' ? both : OUTPUT);
    cleantext_json_text(s->root, "two_runtimes_mapped", both);
}

static void version_facts(const struct collect_ctx *ctx, struct software *s,
                          struct collect_out *out)
{
    const struct library *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct library *l = &s->libraries[i];
        if (rank_of(l) < 3 && (best == NULL || rank_of(l) < rank_of(best)))
            best = l;
    }
    if (best != NULL) {
        runtime_facts(s, out, best);
        duplicate_facts(s, out);
        return;
    }
    bool known = ctx->maps[0] != '\0';
    enum fact_status status = known ? FACT_ABSENT : FACT_UNREADABLE;
    const char *reason = known ? "the failed process had no ROCm library mapped"
                               : "the mappings of the failed process are not known";
    collect_missing(out, "software.rocm_version", FACT_STATIC, status, reason, "maps");
    collect_missing(out, "software.rocm_version_number", FACT_STATIC, status, reason, "maps");
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_rocm_folder(const struct dirent *entry)
{
    return cleantext_starts(entry->d_name, "rocm");
}

/* /opt/rocm, /opt/rocm-6.2.0 ... of the machine, whether used or not. */
static void find_trees(struct software *s, struct collect_out *out)
{
    char opt[FS_PATH_MAX];
    char versions[256] = "";
    struct dirent **entries = NULL;
    cJSON *array = cJSON_AddArrayToObject(s->root, "installed_trees");
    int count = fs_machine_path(opt, sizeof opt, "/opt") == 0
                    ? scandir(opt, &entries, is_rocm_folder, compare_names)
                    : -1;
    for (int i = 0; i < count; i++) {
        char path[FS_PATH_MAX + 300];
        char text[64] = "";
        char link[256] = "";
        (void)snprintf(path, sizeof path, "%s/%s/.info/version", opt, entries[i]->d_name);
        ssize_t n = i < TREES_MAX ? fs_read_regular_text(path, text, sizeof text) : -1;
        (void)snprintf(path, sizeof path, "%s/%s", opt, entries[i]->d_name);
        ssize_t linked = readlink(path, link, sizeof link - 1);
        cJSON *tree = cJSON_CreateObject();
        (void)snprintf(path, sizeof path, "/opt/%s", entries[i]->d_name);
        cleantext_json_text(tree, "path", path);
        if (linked > 0)
            cleantext_json_text(tree, "link_to", link);
        if (n > 0)
            cleantext_json_text(tree, "version", text);
        (void)cJSON_AddItemToArray(array, tree);
        size_t used = strlen(versions);
        if (n > 0 && linked <= 0)
            (void)snprintf(versions + used, sizeof versions - used, "%s%.32s", used ? ", " : "",
                           text);
        free(entries[i]);
    }
    free(entries);
    if (versions[0] != '\0')
        collect_text(out, "software.rocm_installed", FACT_STATIC, versions,
                     "/opt/rocm*/.info/version");
}

/* The in-tree driver has no version file; amdgpu-dkms has ("6.8.5"). */
static void kernel_driver(struct software *s, struct collect_out *out)
{
    char version[64];
    char source[64];
    cJSON *o = cJSON_AddObjectToObject(s->root, "amdgpu");
    ssize_t n = fs_read_machine_text("/sys/module/amdgpu/version", version, sizeof version);
    if (fs_read_machine_text("/sys/module/amdgpu/srcversion", source, sizeof source) > 0)
        cleantext_json_text(o, "srcversion", source);
    if (n > 0) {
        cleantext_json_text(o, "version", version);
        collect_text(out, "software.amdgpu_version", FACT_STATIC, version,
                     "/sys/module/amdgpu/version");
        return;
    }
    char initstate[32];
    bool loaded =
        fs_read_machine_text("/sys/module/amdgpu/initstate", initstate, sizeof initstate) > 0;
    const char *reason = loaded ? "the driver of the kernel itself: it has no version of its own"
                                : "the module amdgpu is not loaded";
    cleantext_json_text(o, "version_missing", reason);
    collect_missing(out, "software.amdgpu_version", FACT_STATIC, FACT_ABSENT, reason,
                    "/sys/module/amdgpu/version");
}

/* "GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36." in .rodata */
static bool glibc_version(const char *path, char *out, size_t size)
{
    static const char mark[] = "stable release version ";
    RC_AUTO_CLOSE int fd = fs_open_regular(path);
    RC_AUTO_FREE char *text = fd >= 0 ? malloc(LIBC_SCAN_BYTES) : NULL;
    ssize_t n = text != NULL ? fs_pread_full(fd, text, LIBC_SCAN_BYTES, 0) : 0;
    size_t len = n > 0 ? (size_t)n : 0;
    const char *at = len > 0 ? memmem(text, len, mark, sizeof mark - 1) : NULL;
    if (at == NULL)
        return false;
    at += sizeof mark - 1;
    size_t left = len - (size_t)(at - text);
    size_t used = 0;
    while (used < left && used + 1 < size && strchr("0123456789.", at[used]) != NULL &&
           at[used] != '\0')
        used++;
    while (used > 0 && at[used - 1] == '.')
        used--;
    cleantext_copy(out, size, at, used);
    return used > 0;
}

/* The libc of the failed process: in a container it differs from ours. */
static void c_library(struct software *s, struct collect_out *out,
                      const struct procmaps_file *files, size_t count)
{
    char version[32];
    for (size_t i = 0; i < count; i++) {
        const char *base = cleantext_base(files[i].path);
        if (cleantext_starts(base, "ld-musl-")) {
            (void)cJSON_AddStringToObject(s->root, "libc", "musl");
            collect_text(out, "software.libc", FACT_STATIC, "musl", files[i].path);
            return;
        }
        if ((strcmp(base, "libc.so.6") == 0 || cleantext_starts(base, "libc-2.")) &&
            !files[i].deleted && glibc_version(files[i].path, version, sizeof version)) {
            char text[48];
            (void)snprintf(text, sizeof text, "glibc %s", version);
            (void)cJSON_AddStringToObject(s->root, "libc", text);
            collect_text(out, "software.libc", FACT_STATIC, text, files[i].path);
            return;
        }
    }
}

static void distribution(struct software *s, struct collect_out *out)
{
    static const char *const prefixes[] = {
        "rocm",   "hip",      "hsa",     "libhsa",  "libhsakmt",      "libamdhip",
        "libdrm", "amdgpu",   "amd-smi", "miopen",  "rccl",           "libamd-comgr",
        "comgr",  "migraphx", "rocblas", "hipblas", "linux-firmware", "firmware-amd",
        NULL};
    struct distro_package *packages = calloc(PACKAGES_MAX, sizeof packages[0]);
    cJSON *o = cJSON_AddObjectToObject(s->root, "distribution_packages");
    cleantext_json_text(o, "database", distro_packages_kind());
    cJSON *list = cJSON_AddObjectToObject(o, "versions");
    int count = packages != NULL ? distro_packages(prefixes, packages, PACKAGES_MAX) : 0;
    for (int i = 0; i < count; i++) {
        (void)cJSON_AddStringToObject(list, packages[i].name, packages[i].version);
        if (cleantext_starts(packages[i].name, "libdrm-amdgpu1") ||
            strcmp(packages[i].name, "libdrm") == 0)
            collect_text(out, "software.libdrm_version", FACT_STATIC, packages[i].version,
                         "distribution package");
    }
    free(packages);
}

static int write_json(const struct software *s, struct collect_out *out)
{
    RC_AUTO_FREE char *text = cJSON_Print(s->root);
    return text == NULL ? -ENOMEM : collect_write(out, "software.json", text, strlen(text));
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct procmaps_file *files = NULL;
    struct software s = {.root = cJSON_CreateObject()};
    s.libraries = calloc(LIBRARIES_MAX, sizeof s.libraries[0]);
    int count = procmaps_files(ctx->maps, MAPPED_MAX, &files);
    if (s.libraries == NULL || s.root == NULL || count < 0) {
        free(s.libraries);
        cJSON_Delete(s.root);
        return collect_reason(out, COLLECT_FAILED, "out of memory");
    }
    int r = target_user_begin(ctx);
    if (r < 0) {
        free(s.libraries);
        cJSON_Delete(s.root);
        procmaps_files_free(files, (size_t)count);
        return target_user_refused(out, r);
    }
    find_libraries(&s, files, (size_t)count);
    version_facts(ctx, &s, out);
    find_trees(&s, out);
    kernel_driver(&s, out);
    c_library(&s, out, files, (size_t)count);
    distribution(&s, out);
    target_user_end(); /* the bundle is ours */
    r = write_json(&s, out);
    size_t found = s.count;
    free(s.libraries);
    cJSON_Delete(s.root);
    procmaps_files_free(files, (size_t)count);
    if (r < 0)
        return collect_reason(out, COLLECT_FAILED, "software.json: %s", strerror(-r));
    if (ctx->maps[0] == '\0')
        return collect_reason(out, COLLECT_PARTIAL, "the mappings of the process are not known");
    return found > 0 ? COLLECT_OK
                     : collect_reason(out, COLLECT_OK, "no ROCm library in %d mapped files", count);
}

const struct collector collector_software = {
    .name = "software",
    .describe = "mapped ROCm libraries and their versions, installed trees, driver, libc",
    .phase = COLLECT_SLOW,
    .deadline_ms = 5000,
    .run = run,
};
