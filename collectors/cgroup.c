/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of the target's control group (v1 and v2, every ancestor counts), and whether this
 * is a container. The files of a group outlive the process, so they are read here. Peak and event
 * counts cover the time since the group was made; the source says so.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/cgroup_parse.h"
#include "collectors/machine.h"

#define ROOT_V1 "/sys/fs/cgroup/memory"
#define DEPTH_MAX 32

struct group {
    bool v2;
    const char *root;       /* where the memory hierarchy is mounted */
    char path[FS_PATH_MAX]; /* below root, "" = the root itself */
    const char *of;         /* process whose group it is, for the source */
};

static ssize_t read_in(const struct group *g, const char *path, const char *file, char *out,
                       size_t size)
{
    char full[FS_PATH_MAX];
    int n = snprintf(full, sizeof full, "%s%s/%s", g->root, path, file);
    out[0] = '\0';
    return n < 0 || (size_t)n >= sizeof full ? -ENAMETOOLONG
                                             : fs_read_machine_text(full, out, size);
}

static bool folder_exists(const char *root, const char *path)
{
    char below[FS_PATH_MAX];
    char full[FS_PATH_MAX];
    struct stat st;
    int n = snprintf(below, sizeof below, "%s%s", root, path);
    return n >= 0 && (size_t)n < sizeof below && fs_machine_path(full, sizeof full, below) == 0 &&
           stat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- which group --- */

/* /proc/PID/cgroup as of the impact, else of the live process, else our own: a child is in the
 * group of its parent unless it was moved (systemd-run, a scheduler). */
static ssize_t read_membership(const struct collect_ctx *ctx, char *out, size_t size,
                               const char **ret_of)
{
    *ret_of = "target's group at impact";
    ssize_t n = impact_text(ctx, CHUNK_CGROUP, out, size);
    int64_t pid = ctx->failed_pid > 0 ? ctx->failed_pid : ctx->target_pid;
    if (n <= 0 && pid > 0 && fs_sysroot()[0] == '\0') {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%lld/cgroup", (long long)pid);
        *ret_of = "target's group";
        n = fs_read_text(path, out, size);
    }
    if (n <= 0) {
        *ret_of = "group of rocmcrash";
        /* A recorded machine has its own, or none. */
        n = fs_read_machine_text("/proc/self/cgroup", out, size);
    }
    return n;
}

static bool find_group(const char *membership, struct group *g)
{
    static const char *const v2_roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char path[FS_PATH_MAX];
    if (cgroup_path(membership, "memory", path, sizeof path) && folder_exists(ROOT_V1, "")) {
        g->v2 = false;
        g->root = ROOT_V1;
    } else if (cgroup_path(membership, "", path, sizeof path)) {
        char value[64];
        for (size_t i = 0; i < 2 && g->root == NULL; i++) {
            struct group probe = {.v2 = true, .root = v2_roots[i]};
            if (read_in(&probe, "", "cgroup.controllers", value, sizeof value) >= 0)
                g->root = v2_roots[i];
        }
        g->v2 = true;
    }
    if (g->root == NULL)
        return false;
    if (strcmp(path, "/") == 0)
        path[0] = '\0';
    /* In a container without its own cgroup name space the path is the host's, and the mount shows
     * the container's group as its root: use that root. */
    (void)snprintf(g->path, sizeof g->path, "%s", folder_exists(g->root, path) ? path : "");
    return true;
}

/* --- facts --- */

static void source_of(const struct group *g, const char *file, int depth, char *out, size_t size)
{
    if (depth > 0)
        (void)snprintf(out, size, "%s of the %s, %d level%s up", file, g->of, depth,
                       depth == 1 ? "" : "s");
    else
        (void)snprintf(out, size, "%s of the %s", file, g->of);
}

/* The smallest limit from the group up to the root takes effect. */
static void give_limit(const struct group *g, struct collect_out *out, const char *file,
                       const char *fact)
{
    char path[FS_PATH_MAX];
    char source[160];
    (void)snprintf(path, sizeof path, "%s", g->path);
    uint64_t best = UINT64_MAX;
    int best_depth = 0;
    int error = -ENOENT;
    bool read_any = false;
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        char value[64];
        uint64_t limit = 0;
        ssize_t n = read_in(g, path, file, value, sizeof value);
        if (n > 0) {
            read_any = true;
            if (cgroup_limit(value, &limit) && limit < best) {
                best = limit;
                best_depth = depth;
            }
        } else if (n < 0 && n != -ENOENT) {
            error = (int)n;
        }
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    source_of(g, file, best_depth, source, sizeof source);
    if (best != UINT64_MAX)
        collect_integer(out, fact, FACT_STATIC, (int64_t)best, source);
    else if (read_any)
        collect_missing(out, fact, FACT_STATIC, FACT_ABSENT, "no limit is set", source);
    else
        machine_missing(out, fact, FACT_STATIC, error, file);
}

static void give_number(const struct group *g, struct collect_out *out, const char *file,
                        const char *fact, enum fact_when when, const char *note)
{
    char value[64];
    char source[160];
    uint64_t number = 0;
    source_of(g, file, 0, source, sizeof source);
    if (note[0] != '\0')
        (void)strncat(source, note, sizeof source - strlen(source) - 1);
    ssize_t n = read_in(g, g->path, file, value, sizeof value);
    if (n > 0 && fs_parse_u64(value, &number) == 0 && number <= INT64_MAX)
        collect_integer(out, fact, when, (int64_t)number, source);
    else
        machine_missing(out, fact, when, n < 0 ? (int)n : -EINVAL, file);
}

/* memory.events: "oom_kill 3"; v1 memory.oom_control: "oom_kill 3" (Linux 4.13). */
static void give_oom_kills(const struct group *g, struct collect_out *out)
{
    const char *file = g->v2 ? "memory.events" : "memory.oom_control";
    char data[1024];
    char source[160];
    uint64_t kills = 0;
    source_of(g, file, 0, source, sizeof source);
    (void)strncat(source, ", since it was made", sizeof source - strlen(source) - 1);
    ssize_t n = read_in(g, g->path, file, data, sizeof data);
    if (n > 0 && cgroup_key(data, "oom_kill", &kills))
        collect_integer(out, "host.cgroup_oom_kills", FACT_AFTER, (int64_t)kills, source);
    else
        machine_missing(out, "host.cgroup_oom_kills", FACT_AFTER, n < 0 ? (int)n : -ENOENT, file);
    if (g->v2 && n > 0 && cgroup_key(data, "max", &kills))
        collect_integer(out, "host.cgroup_limit_hits", FACT_AFTER, (int64_t)kills, source);
    if (!g->v2)
        give_number(g, out, "memory.failcnt", "host.cgroup_limit_hits", FACT_AFTER,
                    ", since it was made");
}

static void give_facts(const struct group *g, struct collect_out *out)
{
    collect_integer(out, "host.cgroup_version", FACT_STATIC, g->v2 ? 2 : 1, g->of);
    give_limit(g, out, g->v2 ? "memory.max" : "memory.limit_in_bytes", "host.cgroup_limit_bytes");
    give_limit(g, out, g->v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
               "host.cgroup_swap_limit_bytes");
    give_number(g, out, g->v2 ? "memory.current" : "memory.usage_in_bytes",
                "host.cgroup_used_bytes", FACT_AFTER, "");
    give_number(g, out, g->v2 ? "memory.peak" : "memory.max_usage_in_bytes",
                "host.cgroup_peak_bytes", FACT_PEAK, ", since it was made");
    give_oom_kills(g, out);
}

static void put_files(const struct group *g, struct buf *text)
{
    static const char *const v2_files[] = {
        "memory.max",          "memory.high",         "memory.current",   "memory.peak",
        "memory.swap.max",     "memory.swap.current", "memory.oom.group", "memory.events",
        "memory.events.local", "memory.pressure",     "memory.stat",      "pids.max",
        "pids.current",        "pids.events",         "cpu.max",          NULL};
    static const char *const v1_files[] = {"memory.limit_in_bytes",
                                           "memory.soft_limit_in_bytes",
                                           "memory.usage_in_bytes",
                                           "memory.max_usage_in_bytes",
                                           "memory.memsw.limit_in_bytes",
                                           "memory.failcnt",
                                           "memory.oom_control",
                                           "memory.kmem.usage_in_bytes",
                                           "memory.stat",
                                           NULL};
    for (const char *const *f = g->v2 ? v2_files : v1_files; *f != NULL; f++) {
        char data[8192];
        ssize_t n = read_in(g, g->path, *f, data, sizeof data);
        if (n < 0 && n != -EFBIG)
            continue;
        buf_printf(text, "%s%s", *f, strchr(data, '\n') != NULL ? ":\n" : ": ");
        machine_append_clean(text, data, strlen(data));
        buf_putc(text, '\n');
    }
}

/* --- container --- */

static bool machine_has(const char *path)
{
    char full[FS_PATH_MAX];
    struct stat st;
    return fs_machine_path(full, sizeof full, path) == 0 && lstat(full, &st) == 0;
}

static bool container_by_file(const char **ret_kind, const char **ret_evidence)
{
    static const struct {
        const char *path, *kind;
    } files[] = {
        {"/var/run/secrets/kubernetes.io/serviceaccount", "kubernetes"},
        {"/run/secrets/kubernetes.io/serviceaccount", "kubernetes"},
        {"/run/.toolboxenv", "toolbox"},
        {"/run/.containerenv", "podman"},
        {"/.dockerenv", "docker"},
        {"/.singularity.d", "apptainer"},
        {"/dev/.lxc-boot-id", "lxc"},
        {"/dev/lxd", "lxc"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (machine_has(files[i].path)) {
            *ret_kind = files[i].kind;
            *ret_evidence = files[i].path;
            return true;
        }
    }
    return false;
}

static bool container_by_environment(const struct collect_ctx *ctx, const char **ret_kind,
                                     const char **ret_evidence)
{
    static const struct {
        const char *variable, *kind;
    } variables[] = {
        {"KUBERNETES_SERVICE_HOST", "kubernetes"},
        {"APPTAINER_CONTAINER", "apptainer"},
        {"SINGULARITY_CONTAINER", "apptainer"},
        {"WSL_DISTRO_NAME", "wsl"},
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (environ_get(ctx->environ_at_impact, variables[i].variable) != NULL) {
            *ret_kind = variables[i].kind;
            *ret_evidence = variables[i].variable;
            return true;
        }
    }
    /* systemd's convention, which lxc, podman and nspawn follow: container=lxc */
    const char *value = environ_get(ctx->environ_at_impact, "container");
    static const char *const kinds[] = {"lxc", "podman", "docker", "systemd-nspawn", "oci"};
    for (size_t i = 0; value != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(value, kinds[i]) == 0) {
            *ret_kind = kinds[i];
            *ret_evidence = "container=";
            return true;
        }
    }
    return false;
}

static void give_container(const struct collect_ctx *ctx, struct collect_out *out,
                           const char *membership, struct buf *text)
{
    const char *kind = NULL;
    const char *evidence = NULL;
    char version[512];
    bool found =
        container_by_file(&kind, &evidence) || container_by_environment(ctx, &kind, &evidence);
    if (!found && (kind = cgroup_container(membership)) != NULL) {
        evidence = "cgroup path";
        found = true;
    }
    if (!found && fs_read_machine_text("/proc/version", version, sizeof version) > 0 &&
        (strcasestr(version, "microsoft") != NULL)) {
        kind = "wsl";
        evidence = "/proc/version";
        found = true;
    }
    if (found) {
        collect_text(out, "host.container", FACT_STATIC, kind, evidence);
        buf_printf(text, "container: %s (%s)\n", kind, evidence);
    } else {
        collect_missing(out, "host.container", FACT_STATIC, FACT_ABSENT, "no sign of a container",
                        "container files, environment, cgroup path");
    }
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    static char membership[16384];
    struct group g = {.root = NULL};
    struct buf text = BUF_INIT;
    ssize_t n = read_membership(ctx, membership, sizeof membership, &g.of);
    give_container(ctx, out, n > 0 ? membership : "", &text);
    bool known = (n > 0 || n == -EFBIG) && find_group(membership, &g);
    if (known) {
        buf_printf(&text, "group: cgroup v%d, ", g.v2 ? 2 : 1);
        cgroup_append_path(&text, g.path[0] != '\0' ? g.path : "/");
        buf_printf(&text, " (%s)\n", g.of);
        give_facts(&g, out);
        put_files(&g, &text);
    } else {
        const char *why = n <= 0 ? "no /proc/PID/cgroup" : "no memory controller is mounted";
        collect_missing(out, "host.cgroup_limit_bytes", FACT_STATIC, FACT_ABSENT, why, "cgroup");
        (void)collect_reason(out, COLLECT_SKIPPED, "%s", why);
    }
    if (text.len > 0)
        (void)collect_write(out, "cgroup.txt", text.data, text.len);
    bool any = text.len > 0;
    buf_release(&text);
    return known ? COLLECT_OK : any ? COLLECT_PARTIAL : COLLECT_SKIPPED;
}

const struct collector collector_cgroup = {
    .name = "cgroup",
    .describe = "memory limits and events of the control group, kind of container",
    .phase = COLLECT_QUICK,
    .deadline_ms = 1000,
    .max_bytes = 256u << 10,
    .run = run,
};
