/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/rocm_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/distinfo.h"
#include "collectors/lib/distro_packages.h"

#define PACKAGES_MAX 16
#define VERSION_PY_MAX ((size_t)16 << 10)

const char *rocm_origin_name(enum rocm_origin origin)
{
    static const char *const names[] = {"ROCm tree",     "torch wheel",  "rocm-sdk wheel", "wheel",
                                        "conda package", "distribution", "other"};
    return names[origin];
}

bool rocm_is_library(const char *path)
{
    static const char *const starts[] = {
        "libamdhip64", "libhsa-runtime64", "libhsakmt",   "libamd_comgr",
        "libamd_smi",  "libamdocl64",      "libroc",      "libhip",
        "libMIOpen",   "librccl",          "libmigraphx", "libdrm",
        "libaotriton", "libtorch_hip",     "libc10_hip",  "libggml-hip"};
    const char *base = cleantext_base(path);
    if (strstr(base, ".so") == NULL || cleantext_starts(base, "librocksdb") ||
        cleantext_starts(base, "librocmcrash")) /* our own, preloaded */
        return false;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (cleantext_starts(base, starts[i]))
            return true;
    }
    return false;
}

void rocm_library_stem(const char *path, char *out, size_t size)
{
    const char *base = cleantext_base(path);
    const char *so = strstr(base, ".so");
    size_t len = so != NULL ? (size_t)(so - base) : strlen(base);
    /* auditwheel renames: libdrm-deadbeef.so.2.4.0 */
    if (len > 9 && base[len - 9] == '-' && strspn(base + len - 8, "0123456789abcdef") >= 8)
        len -= 9;
    cleantext_copy(out, size, base, len);
}

/* Copies path up to and with the component that begins at `from`. */
static void keep_component(struct rocm_place *ret, const char *path, const char *from)
{
    size_t len = (size_t)(from - path) + strcspn(from, "/");
    (void)snprintf(ret->root, sizeof ret->root, "%.*s", (int)len, path);
}

static bool place_site(const char *path, struct rocm_place *ret)
{
    const char *site = strstr(path, "/site-packages/");
    if (site == NULL)
        site = strstr(path, "/dist-packages/");
    if (site == NULL)
        return false;
    const char *below = strchr(site + 1, '/') + 1;
    keep_component(ret, path, site + 1);
    ret->origin = cleantext_starts(below, "_rocm_sdk_")   ? ROCM_ORIGIN_SDK_WHEEL
                  : cleantext_starts(below, "torch/lib/") ? ROCM_ORIGIN_TORCH_WHEEL
                                                          : ROCM_ORIGIN_OTHER_WHEEL;
    return true;
}

/* A component "rocm" or "rocm-6.2.0" anywhere: /opt/rocm-6.2.0, /shared/apps/rocm-6.4.1. */
static bool place_tree(const char *path, struct rocm_place *ret)
{
    for (const char *p = path; (p = strstr(p, "/rocm")) != NULL; p++) {
        bool plain = p[5] == '/';
        bool versioned = p[5] == '-' && isdigit((unsigned char)p[6]);
        if ((plain || versioned) && strchr(p + 1, '/') != NULL) {
            ret->origin = ROCM_ORIGIN_TREE;
            keep_component(ret, path, p + 1);
            return true;
        }
    }
    return false;
}

/* .../prefix/lib/x.so with prefix/conda-meta */
static bool place_conda(const char *path, struct rocm_place *ret)
{
    char probe[FS_PATH_MAX + 16];
    struct stat st;
    const char *lib = strstr(path, "/lib/");
    if (lib == NULL)
        return false;
    (void)snprintf(probe, sizeof probe, "%.*s/conda-meta", (int)(lib - path), path);
    if (lib - path >= FS_PATH_MAX || stat(probe, &st) != 0 || !S_ISDIR(st.st_mode))
        return false;
    ret->origin = ROCM_ORIGIN_CONDA;
    (void)snprintf(ret->root, sizeof ret->root, "%.*s", (int)(lib - path), path);
    return true;
}

/* An unpacked tarball of TheRock may have any name: look at the folders above the library. */
static bool place_unpacked(const char *path, struct rocm_place *ret)
{
    char root[FS_PATH_MAX];
    struct stat st;
    (void)snprintf(root, sizeof root, "%s", path);
    for (int up = 0; up < 3; up++) {
        char info[FS_PATH_MAX + 16];
        char *slash = strrchr(root, '/');
        if (slash == NULL || slash == root)
            return false;
        *slash = '\0';
        (void)snprintf(info, sizeof info, "%s/.info/version", root);
        if (up > 0 && stat(info, &st) == 0) {
            ret->origin = ROCM_ORIGIN_TREE;
            (void)snprintf(ret->root, sizeof ret->root, "%s", root);
            return true;
        }
    }
    return false;
}

void rocm_place(const char *path, struct rocm_place *ret)
{
    *ret = (struct rocm_place){.origin = ROCM_ORIGIN_OTHER};
    if (strlen(path) >= FS_PATH_MAX || place_site(path, ret) || place_tree(path, ret) ||
        place_conda(path, ret) || place_unpacked(path, ret))
        return;
    if (cleantext_starts(path, "/usr/lib") || cleantext_starts(path, "/lib"))
        ret->origin = ROCM_ORIGIN_DISTRIBUTION;
}

int rocm_parse_version(const char *text, struct rocm_version *ret)
{
    unsigned parts[3] = {0};
    unsigned count = 0;
    const char *p = text;
    while (count < 3 && isdigit((unsigned char)*p)) {
        char *end = NULL;
        unsigned long value = strtoul(p, &end, 10);
        if (value > 99 && count < 2)
            return -EINVAL;
        if (value > 99) /* "6.2.41133": HIP's build number, not a patch level */
            break;
        parts[count++] = (unsigned)value;
        p = *end == '.' ? end + 1 : end;
        if (*end != '.')
            break;
    }
    if (count < 2 || parts[0] == 0)
        return -EINVAL;
    size_t len = strcspn(text, "- \t\n");
    cleantext_copy(ret->text, sizeof ret->text, text, len);
    ret->number = parts[0] * 10000 + parts[1] * 100 + parts[2];
    ret->patch_known = count == 3;
    return 0;
}

static int found_in(struct rocm_version *ret, const char *text, const char *source)
{
    int r = rocm_parse_version(text, ret);
    if (r == 0)
        cleantext_copy(ret->source, sizeof ret->source, source, strlen(source));
    return r;
}

/* ROOT/.info/version: "6.2.0-66" (the file is also called version-rocm, version-dev). */
static int from_info(const char *root, struct rocm_version *ret)
{
    static const char *const names[] = {"version", "version-rocm", "version-dev"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[FS_PATH_MAX];
        char text[64];
        int n = snprintf(path, sizeof path, "%s/.info/%s", root, names[i]);
        if (n > 0 && (size_t)n < sizeof path && fs_read_regular_text(path, text, sizeof text) > 0 &&
            found_in(ret, text, path) == 0)
            return 0;
    }
    return -ENOENT;
}

static int from_beside(const char *path, struct rocm_version *ret)
{
    char root[FS_PATH_MAX];
    (void)snprintf(root, sizeof root, "%s", path);
    for (int up = 0; up < 3; up++) { /* lib/x.so, lib/x86_64-linux-gnu/x.so, lib64/llvm/... */
        char *slash = strrchr(root, '/');
        if (slash == NULL || slash == root)
            break;
        *slash = '\0';
        if (up > 0 && from_info(root, ret) == 0)
            return 0;
    }
    return -ENOENT;
}

/* torch/version.py: __version__ = '2.5.1+rocm6.2', hip = '6.2.41133-dd7f95766'. */
static int from_torch(const char *site, struct rocm_version *ret)
{
    char path[FS_PATH_MAX];
    char value[128];
    RC_AUTO_FREE char *text = malloc(VERSION_PY_MAX);
    int n = snprintf(path, sizeof path, "%s/torch/version.py", site);
    if (text == NULL || n < 0 || (size_t)n >= sizeof path)
        return -ENOENT;
    ssize_t len = fs_read_regular_text(path, text, VERSION_PY_MAX);
    if (len <= 0)
        return -ENOENT;
    if (dist_parse_version_py(text, "__version__", value, sizeof value) == 1) {
        const char *tag = strstr(value, "+rocm");
        if (tag != NULL && found_in(ret, tag + 5, path) == 0)
            return 0;
    }
    if (dist_parse_version_py(text, "rocm", value, sizeof value) == 1 &&
        found_in(ret, value, path) == 0)
        return 0;
    if (dist_parse_version_py(text, "hip", value, sizeof value) != 1)
        return -ENOENT;
    return found_in(ret, value, path);
}

static int from_packages(struct dist_list *list, const char *const *names, const char *what,
                         struct rocm_version *ret)
{
    dist_list_sort(list);
    for (size_t i = 0; names[i] != NULL; i++) {
        char source[FS_PATH_MAX + 64];
        const struct dist_package *p = dist_find(list, names[i]);
        (void)snprintf(source, sizeof source, "%s %s", what, names[i]);
        if (p != NULL && found_in(ret, p->version, source) == 0)
            return 0;
    }
    return -ENOENT;
}

static int from_wheel(const struct rocm_place *place, struct rocm_version *ret)
{
    static const char *const sdk[] = {"rocm-sdk-core", "rocm-sdk", "rocm", NULL};
    static const char *const conda[] = {"rocm-core", "hip", "hip-runtime-amd", NULL};
    struct dist_list list = {0};
    int r = -ENOENT;
    if (place->origin == ROCM_ORIGIN_TORCH_WHEEL) {
        r = from_torch(place->root, ret);
    } else if (place->origin == ROCM_ORIGIN_SDK_WHEEL) {
        (void)dist_scan_site(&list, place->root, 0);
        r = from_packages(&list, sdk, "dist-info of", ret);
    } else if (place->origin == ROCM_ORIGIN_CONDA) {
        (void)dist_scan_conda(&list, place->root, 0);
        r = from_packages(&list, conda, "conda package", ret);
    }
    dist_list_release(&list);
    return r;
}

/* /opt/rocm-6.2.0/... */
static int from_folder(const struct rocm_place *place, struct rocm_version *ret)
{
    const char *base = cleantext_base(place->root);
    if (place->origin != ROCM_ORIGIN_TREE || !cleantext_starts(base, "rocm-"))
        return -ENOENT;
    return found_in(ret, base + 5, "name of the folder");
}

/*
 * libamdhip64.so.6.2.60200, libhsa-runtime64.so.1.14.60200, librocblas.so.4.2.60200: ROCm's own
 * packages end the file version with major*10000+minor*100+patch. Debian's
 * libhsa-runtime64.so.1.5.0 and Fedora's libamdhip64.so.6.2.41134 do not.
 */
static int from_file_name(const char *path, struct rocm_version *ret)
{
    const char *so = strstr(cleantext_base(path), ".so.");
    const char *last = so != NULL ? strrchr(so, '.') + 1 : "";
    uint64_t value = 0;
    if (strlen(last) < 5 || fs_parse_u64(last, &value) < 0 || value < 50000 || value > 199999)
        return -ENOENT;
    unsigned major = (unsigned)(value / 10000);
    unsigned minor = (unsigned)(value / 100 % 100);
    if (cleantext_starts(cleantext_base(path), "libamdhip64")) {
        char same[24];
        (void)snprintf(same, sizeof same, ".so.%u.%u.", major, minor);
        if (!cleantext_starts(so, same))
            return -ENOENT;
    }
    char text[24];
    (void)snprintf(text, sizeof text, "%u.%u.%u", major, minor, (unsigned)(value % 100));
    return found_in(ret, text, "file name of the library");
}

/* "7" of libamdhip64.so.7.2.53211; "" = the name has no version. */
static void soname_major(const char *path, char *out, size_t size)
{
    const char *so = strstr(cleantext_base(path), ".so.");
    size_t len = so != NULL ? strspn(so + 4, "0123456789") : 0;
    cleantext_copy(out, size, so != NULL ? so + 4 : "", len);
}

/*
 * If several majors are installed side by side, take the mapped one. Debian's packages are named
 * after the soname (libamdhip64-7). A package without a major in its name (hip-runtime-amd) has the
 * runtime's version if their majors are equal.
 */
static bool package_brings(const struct distro_package *package, const char *path, bool is_hip)
{
    char major[16];
    char name[64];
    char stem[48];
    soname_major(path, major, sizeof major);
    rocm_library_stem(path, stem, sizeof stem);
    (void)snprintf(name, sizeof name, "%s-", stem);
    if (cleantext_starts(package->name, name)) {
        size_t len = strspn(package->name + strlen(name), "0123456789");
        return major[0] == '\0' || (len == strlen(major) && strncmp(package->name + strlen(name),
                                                                    major, len) == 0);
    }
    size_t len = strlen(major);
    return !is_hip || len == 0 ||
           (strncmp(package->version, major, len) == 0 && package->version[len] == '.');
}

static int from_distribution(const char *path, struct rocm_version *ret)
{
    static const char *const hip[] = {"libamdhip64-", "hip-runtime-amd", NULL};
    static const char *const hsa[] = {"libhsa-runtime64-", "hsa-rocr", NULL};
    struct distro_package packages[PACKAGES_MAX];
    bool is_hip = cleantext_starts(cleantext_base(path), "libamdhip64");
    int count = distro_packages(is_hip ? hip : hsa, packages, PACKAGES_MAX);
    for (int i = 0; i < count; i++) {
        char source[128];
        (void)snprintf(source, sizeof source, "distribution package %.95s", packages[i].name);
        if (package_brings(&packages[i], path, is_hip) &&
            found_in(ret, packages[i].version, source) == 0)
            return 0;
    }
    return -ENOENT;
}

/* libamdhip64.so.7.2.53211: HIP's own major and minor, which are ROCm's; no patch level. */
static int from_hip_name(const char *path, struct rocm_version *ret)
{
    const char *base = cleantext_base(path);
    const char *so = strstr(base, ".so.");
    if (so == NULL || !cleantext_starts(base, "libamdhip64") || found_in(ret, so + 4, "") != 0)
        return -ENOENT;
    char text[24];
    (void)snprintf(text, sizeof text, "%u.%u", (unsigned)(ret->number / 10000),
                   (unsigned)(ret->number / 100 % 100));
    return found_in(ret, text, "file name of the library");
}

int rocm_version_of(const char *path, bool deleted, struct rocm_version *ret)
{
    char real[PATH_MAX];
    struct rocm_place place;
    *ret = (struct rocm_version){0};
    if (deleted) /* the file there now is not the one that ran */
        return from_file_name(path, ret) == 0 ? 0 : from_hip_name(path, ret);
    if (realpath(path, real) == NULL)
        (void)snprintf(real, sizeof real, "%s", path); /* gone: only its name is left */
    rocm_place(real, &place);
    if (from_beside(real, ret) == 0 || from_wheel(&place, ret) == 0 ||
        from_folder(&place, ret) == 0 || from_file_name(real, ret) == 0)
        return 0;
    if (place.origin == ROCM_ORIGIN_DISTRIBUTION && from_distribution(real, ret) == 0)
        return 0;
    return from_hip_name(real, ret);
}
