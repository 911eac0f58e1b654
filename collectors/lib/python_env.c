/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence, best first: files of the process that are mapped; the path it was started by (argv[0],
 * through PATH); VIRTUAL_ENV and CONDA_PREFIX, which a user can have set for another Python.
 */
#include "collectors/lib/python_env.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/collector.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/distinfo.h"
#include "collectors/lib/distro_packages.h"
#include "collectors/lib/hub.h"
#include "collectors/lib/procmaps.h"

#define MAPPED_MAX 8192

struct text_file {
    char text[4096];
};

static bool path_join(char *out, const char *a, const char *b)
{
    int n = snprintf(out, FS_PATH_MAX, "%s/%s", a, b);
    return n > 0 && n < FS_PATH_MAX;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool python_is_interpreter(const char *path)
{
    const char *p = cleantext_base(path);
    if (cleantext_starts(p, "python"))
        p += 6;
    else if (cleantext_starts(p, "pypy"))
        p += 4;
    else
        return false;
    p += strspn(p, "0123456789.");
    return strcmp(p, "") == 0 || strcmp(p, "t") == 0 || strcmp(p, "d") == 0;
}

/* Cuts the last n components. */
static void parent(char *path, int n)
{
    while (n-- > 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* "python3.11" at p -> "3.11" */
static void keep_series(struct python_env *env, const char *p)
{
    if (env->series[0] != '\0' || !cleantext_starts(p, "python"))
        return;
    size_t len = strspn(p + 6, "0123456789.");
    if (len >= 3 && len < sizeof env->series && memchr(p + 6, '.', len) != NULL &&
        p[6 + len - 1] != '.')
        (void)snprintf(env->series, sizeof env->series, "%.*s", (int)len, p + 6);
}

static void add_site(struct python_env *env, const char *path, const char *how, bool mapped)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL)
        (void)snprintf(real, sizeof real, "%s", path);
    for (unsigned i = 0; i < env->site_count; i++) {
        if (strcmp(env->sites[i].path, real) == 0) {
            env->sites[i].mapped |= mapped;
            return;
        }
    }
    if (env->site_count == PYTHON_SITES_MAX || (!mapped && !is_folder(real)))
        return;
    struct python_site *site = &env->sites[env->site_count++];
    (void)snprintf(site->path, sizeof site->path, "%.4095s", real);
    site->how = how;
    site->mapped = mapped;
}

/* End of ".../site-packages" or ".../dist-packages" in path, NULL. */
static const char *site_end(const char *path)
{
    const char *at = strstr(path, "/site-packages/");
    if (at == NULL)
        at = strstr(path, "/dist-packages/");
    return at == NULL ? NULL : at + strlen("/site-packages");
}

/* Reads what one mapped file tells. */
static void learn_mapped(struct python_env *env, const char *path, char *mapped_prefix)
{
    const char *base = cleantext_base(path);
    const char *lib = strstr(path, "/lib/python");
    if (lib == NULL)
        lib = strstr(path, "/lib64/python");
    if (env->executable[0] == '\0' && python_is_interpreter(path)) {
        (void)snprintf(env->executable, sizeof env->executable, "%s", path);
        keep_series(env, base);
    }
    if (cleantext_starts(base, "libpython3.") && strstr(base, ".so") != NULL)
        keep_series(env, base + 3);
    if (lib == NULL)
        return;
    keep_series(env, strstr(lib, "python"));
    if (strstr(lib, "/lib-dynload/") != NULL && env->base_prefix[0] == '\0')
        (void)snprintf(env->base_prefix, sizeof env->base_prefix, "%.*s", (int)(lib - path), path);
    if (site_end(lib) != NULL && mapped_prefix[0] == '\0') {
        char config[FS_PATH_MAX];
        char prefix[FS_PATH_MAX];
        (void)snprintf(prefix, sizeof prefix, "%.*s", (int)(lib - path), path);
        if (path_join(config, prefix, "pyvenv.cfg") && access(config, F_OK) == 0)
            memcpy(mapped_prefix, prefix, sizeof prefix);
    }
}

/* argv[0] as a path: with a slash relative to cwd, else through PATH. */
static bool find_program(const struct collect_ctx *ctx, char *out)
{
    const char *name = ctx->argv != NULL && ctx->argv[0] != NULL ? ctx->argv[0] : "";
    int n;
    if (name[0] == '/' || (strchr(name, '/') != NULL && ctx->cwd[0] != '\0')) {
        n = name[0] == '/' ? snprintf(out, FS_PATH_MAX, "%s", name)
                           : snprintf(out, FS_PATH_MAX, "%s/%s", ctx->cwd, name);
        return n > 0 && n < FS_PATH_MAX && access(out, F_OK) == 0;
    }
    const char *path = hub_env(ctx->environ_at_impact, "PATH");
    while (name[0] != '\0' && path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");
        n = snprintf(out, FS_PATH_MAX, "%.*s/%s", (int)len, path, name);
        if (*path == '/' && n > 0 && n < FS_PATH_MAX && access(out, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* The environment of the program file: PREFIX/bin/program with PREFIX/pyvenv.cfg. */
static bool prefix_of_program(const char *program, const char *marker, char *out)
{
    char probe[FS_PATH_MAX];
    (void)snprintf(out, FS_PATH_MAX, "%s", program);
    parent(out, 2);
    bool has = out[0] != '\0' && path_join(probe, out, marker) && access(probe, F_OK) == 0;
    if (!has)
        out[0] = '\0';
    return has;
}

/* pyvenv.cfg: "home = /usr/bin", "version = 3.11.7" (uv: "version_info = 3.11.7"). */
static bool config_value(const char *text, const char *key, char *out, size_t size)
{
    size_t key_len = strlen(key);
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n') {
        const char *p = line + key_len;
        if (strncmp(line, key, key_len) != 0)
            continue;
        p += strspn(p, " \t");
        if (*p != '=')
            continue;
        p += 1 + strspn(p + 1, " \t");
        size_t len = strcspn(p, "\r\n");
        if (len >= size)
            return false;
        cleantext_copy(out, size, p, len);
        return out[0] != '\0';
    }
    return false;
}

static void read_venv(struct python_env *env)
{
    char path[FS_PATH_MAX];
    char value[FS_PATH_MAX];
    struct text_file *file = calloc(1, sizeof *file);
    if (file != NULL && path_join(path, env->prefix, "pyvenv.cfg") &&
        fs_read_regular_text(path, file->text, sizeof file->text) > 0) {
        env->kind = "venv";
        if ((config_value(file->text, "version", value, sizeof value) ||
             config_value(file->text, "version_info", value, sizeof value)) &&
            isdigit((unsigned char)value[0])) {
            size_t len = strspn(value, "0123456789.abrc+");
            (void)snprintf(env->version, sizeof env->version, "%.*s", len < 31 ? (int)len : 31,
                           value);
            env->version_source = "pyvenv.cfg";
        }
        if (config_value(file->text, "include-system-site-packages", value, sizeof value))
            env->system_sites = strcmp(value, "true") == 0;
        if (env->base_prefix[0] == '\0' && config_value(file->text, "home", value, sizeof value)) {
            parent(value, 1); /* .../bin */
            (void)snprintf(env->base_prefix, sizeof env->base_prefix, "%s", value);
        }
    }
    free(file);
}

static void choose_prefix(const struct collect_ctx *ctx, struct python_env *env,
                          const char *mapped_prefix)
{
    char program[FS_PATH_MAX];
    char probe[FS_PATH_MAX];
    bool has_program = find_program(ctx, program);
    const char *virtual_env = hub_env(ctx->environ_at_impact, "VIRTUAL_ENV");
    if (mapped_prefix[0] != '\0')
        (void)snprintf(env->prefix, sizeof env->prefix, "%s", mapped_prefix);
    else if (has_program && prefix_of_program(program, "pyvenv.cfg", env->prefix))
        ;
    else if (!has_program && virtual_env != NULL && virtual_env[0] == '/' &&
             path_join(probe, virtual_env, "pyvenv.cfg") && access(probe, F_OK) == 0)
        (void)snprintf(env->prefix, sizeof env->prefix, "%.4095s", virtual_env);
    if (env->executable[0] == '\0' && has_program && python_is_interpreter(program)) {
        char real[PATH_MAX];
        (void)snprintf(env->executable, sizeof env->executable, "%.4095s",
                       realpath(program, real) != NULL ? real : program);
        keep_series(env, cleantext_base(env->executable));
    }
    if (env->prefix[0] != '\0')
        read_venv(env);
    if (env->executable[0] != '\0' && env->base_prefix[0] == '\0') {
        (void)snprintf(env->base_prefix, sizeof env->base_prefix, "%s", env->executable);
        parent(env->base_prefix, 2);
    }
    if (env->base_prefix[0] != '\0' && path_join(probe, env->base_prefix, "conda-meta") &&
        is_folder(probe) && env->prefix[0] == '\0') {
        env->kind = "conda";
        (void)snprintf(env->prefix, sizeof env->prefix, "%s", env->base_prefix);
    }
}

/* PREFIX/lib/pythonX.Y/<leaf>; with an unknown series all that are there. */
static void add_prefix_sites(struct python_env *env, const char *prefix, const char *leaf,
                             const char *how)
{
    static const char *const libs[] = {"lib", "lib64"};
    for (size_t i = 0; i < 2; i++) {
        char lib[FS_PATH_MAX];
        char site[FS_PATH_MAX];
        char below[288];
        if (!path_join(lib, prefix, libs[i]))
            continue;
        RC_AUTO_CLOSEDIR DIR *dir = env->series[0] == '\0' ? opendir(lib) : NULL;
        for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
            keep_series(env, e->d_name); /* a virtual environment has one */
        (void)snprintf(below, sizeof below, "python%s/%s", env->series, leaf);
        if (env->series[0] != '\0' && path_join(site, lib, below))
            add_site(env, site, how, false);
    }
}

static void add_python_path(const struct collect_ctx *ctx, struct python_env *env)
{
    const char *p = hub_env(ctx->environ_at_impact, "PYTHONPATH");
    while (p != NULL && *p != '\0') {
        char path[FS_PATH_MAX];
        size_t len = strcspn(p, ":");
        if (*p == '/' && len < sizeof path) {
            (void)snprintf(path, sizeof path, "%.*s", (int)len, p);
            add_site(env, path, "PYTHONPATH", false);
        }
        p += len + (p[len] == ':');
    }
}

/* Order as in CPython's site.py: PYTHONPATH, environment, user, installation; Debian's folders
 * last. */
static void list_sites(const struct collect_ctx *ctx, struct python_env *env)
{
    char user[FS_PATH_MAX];
    const char *home = hub_env(ctx->environ_at_impact, "HOME");
    bool venv = strcmp(env->kind, "venv") == 0;
    add_python_path(ctx, env);
    if (env->prefix[0] != '\0')
        add_prefix_sites(env, env->prefix, "site-packages",
                         venv ? "virtual environment" : "conda environment");
    if (venv && !env->system_sites)
        return;
    if (home != NULL && home[0] == '/' && path_join(user, home, ".local") &&
        hub_env(ctx->environ_at_impact, "PYTHONNOUSERSITE") == NULL)
        add_prefix_sites(env, user, "site-packages", "user");
    if (env->base_prefix[0] != '\0')
        add_prefix_sites(env, env->base_prefix, "site-packages", "installation");
    if (strcmp(env->base_prefix, "/usr") == 0) {
        add_prefix_sites(env, "/usr/local", "dist-packages", "installation");
        add_site(env, "/usr/lib/python3/dist-packages", "distribution", false);
        add_prefix_sites(env, "/usr", "dist-packages", "distribution");
    }
}

/* #define PY_VERSION "3.11.7" */
static bool version_from_header(struct python_env *env)
{
    char path[FS_PATH_MAX];
    char below[64];
    char text[4096];
    (void)snprintf(below, sizeof below, "include/python%s/patchlevel.h", env->series);
    if (env->base_prefix[0] == '\0' || !path_join(path, env->base_prefix, below))
        return false;
    ssize_t n = fs_read_regular_text(path, text, sizeof text);
    const char *at = n > 0 || n == -EFBIG ? strstr(text, "PY_VERSION") : NULL;
    while (at != NULL && at[10] != ' ' && at[10] != '\t')
        at = strstr(at + 1, "PY_VERSION");
    const char *quote = at != NULL ? strchr(at, '"') : NULL;
    size_t len = quote != NULL ? strcspn(quote + 1, "\"\n") : 0;
    if (len == 0 || len >= sizeof env->version)
        return false;
    cleantext_copy(env->version, sizeof env->version, quote + 1, len);
    env->version_source = "patchlevel.h";
    return true;
}

static bool version_from_conda(struct python_env *env)
{
    struct dist_list list = {0};
    bool found = false;
    if (strcmp(env->kind, "conda") == 0 && dist_scan_conda(&list, env->prefix, 0) > 0) {
        dist_list_sort(&list);
        const struct dist_package *p = dist_find(&list, "python");
        found = p != NULL;
        if (found)
            (void)snprintf(env->version, sizeof env->version, "%.31s", p->version);
        env->version_source = found ? "conda-meta" : env->version_source;
    }
    dist_list_release(&list);
    return found;
}

/* python3.11-minimal 3.11.2-6+deb12u4 */
static bool version_from_package(struct python_env *env)
{
    char name[48];
    struct distro_package package;
    const char *const names[] = {name, NULL};
    (void)snprintf(name, sizeof name, "python%s-minimal", env->series);
    if (strcmp(env->base_prefix, "/usr") != 0 || distro_packages(names, &package, 1) != 1)
        return false;
    (void)snprintf(env->version, sizeof env->version, "%.*s",
                   (int)(strcspn(package.version, "-~+") % 31), package.version);
    env->version_source = "distribution package";
    return true;
}

static void choose_version(struct python_env *env)
{
    if (env->series[0] != '\0' &&
        (version_from_conda(env) || version_from_header(env) || version_from_package(env)))
        return;
    if (env->version[0] == '\0') {
        (void)snprintf(env->version, sizeof env->version, "%s", env->series);
        env->version_source = "names of mapped files and folders";
    }
}

bool python_env_find(const struct collect_ctx *ctx, struct python_env *env)
{
    char mapped_prefix[FS_PATH_MAX] = "";
    struct procmaps_file *files = NULL;
    *env = (struct python_env){.version_source = "", .kind = "unknown"};
    int count = procmaps_files(ctx->maps, MAPPED_MAX, &files);
    for (int i = 0; i < count; i++)
        learn_mapped(env, files[i].path, mapped_prefix);
    choose_prefix(ctx, env, mapped_prefix);
    if (strcmp(env->kind, "unknown") == 0 && env->executable[0] != '\0')
        env->kind = cleantext_starts(env->executable, "/usr/") ? "system" : "installation";
    /* PYTHONPATH and an active environment do not turn a C++ program into a Python. */
    bool sign = env->executable[0] != '\0' || env->series[0] != '\0' ||
                (ctx->maps[0] == '\0' && env->prefix[0] != '\0');
    list_sites(ctx, env);
    for (int i = 0; i < count; i++) {
        char site[FS_PATH_MAX];
        const char *end = site_end(files[i].path);
        if (end == NULL)
            continue;
        (void)snprintf(site, sizeof site, "%.*s", (int)(end - files[i].path), files[i].path);
        add_site(env, site, "mapped libraries", true);
        sign = true;
    }
    procmaps_files_free(files, count > 0 ? (size_t)count : 0);
    if (sign)
        choose_version(env);
    return sign;
}
