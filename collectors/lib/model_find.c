/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/model_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/procmaps.h"
#include "record/ledger.h"

#define ARGUMENTS_MAX 4096
#define DESCRIPTORS_MAX 4096
#define MAPPINGS_MAX 8192
#define FOLDER_ENTRIES_MAX 8192
#define UNNAMED_MIN_BYTES                                                                          \
    ((uint64_t)1 << 20) /* files without a telling name are examined from this size on */

enum name_class {
    NAME_OTHER,
    NAME_MODEL, /* its name is enough */
    NAME_MAYBE, /* also used for other files: the contents decide */
};

static enum name_class classify(const char *path)
{
    static const char *const sure[] = {".safetensors", ".gguf", ".onnx"};
    static const char *const maybe[] = {".pt", ".pth", ".bin", ".ckpt", ".ggml"};
    for (size_t i = 0; i < sizeof sure / sizeof sure[0]; i++) {
        if (cleantext_ends(path, sure[i]))
            return NAME_MODEL;
    }
    for (size_t i = 0; i < sizeof maybe / sizeof maybe[0]; i++) {
        if (cleantext_ends(path, maybe[i]))
            return NAME_MAYBE;
    }
    return NAME_OTHER;
}

/* Are the first bytes those of a model? A pickle or zip counts only if it has a model's name. */
static bool contents_tell(const char *path, enum name_class class)
{
    unsigned char head[512];
    RC_AUTO_CLOSE int fd = fs_open_regular(path);
    ssize_t n = fd < 0 ? -1 : fs_pread_full(fd, head, sizeof head, 0);
    if (n <= 0)
        return false;
    enum weights_format format = weights_sniff(head, (size_t)n, "");
    if (class == NAME_MAYBE)
        return format != WEIGHTS_UNKNOWN;
    return format == WEIGHTS_GGUF || format == WEIGHTS_GGML || format == WEIGHTS_SAFETENSORS;
}

static void add_found(struct model *m, const char *how)
{
    size_t used = strlen(m->found);
    /* Skips a way that is listed already (parts of one mapping, shards of one folder). */
    const char *again = strstr(m->found, how);
    if (again != NULL && (again[strlen(how)] == '\0' || again[strlen(how)] == ';'))
        return;
    int n = snprintf(m->found + used, sizeof m->found - used, "%s%s", used ? "; " : "", how);
    if (n < 0 || (size_t)n >= sizeof m->found - used)
        m->found[used] = '\0';
}

static struct model *list_add(struct model_list *list, const char *path, const char *how)
{
    if (list->count == MODEL_MAX || strlen(path) >= FS_PATH_MAX) {
        list->omitted++;
        return NULL;
    }
    struct model *m = &list->models[list->count++];
    (void)snprintf(m->path, sizeof m->path, "%s", path);
    add_found(m, how);
    return m;
}

static struct model *find_file(struct model_list *list, const struct stat *st)
{
    for (size_t i = 0; i < list->count; i++) {
        struct model *m = &list->models[i];
        if (m->there && m->dev == st->st_dev && m->ino == st->st_ino)
            return m;
    }
    return NULL;
}

static struct model *find_missing(struct model_list *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++)
        if (!list->models[i].there && strcmp(list->models[i].path, path) == 0)
            return &list->models[i];
    return NULL;
}

/* Adds `how` to a model that was found before and returns NULL. Returns a new model, which the caller fills
 * in; NULL also without room for it. */
static struct model *add_once(struct model_list *list, struct model *known, const char *path,
                              const char *how)
{
    if (known == NULL)
        return list_add(list, path, how);
    add_found(known, how);
    return NULL;
}

static void add_file(struct model_list *list, const char *path, const struct stat *st,
                     const char *how)
{
    struct model *m = add_once(list, find_file(list, st), path, how);
    if (m == NULL)
        return;
    m->there = true;
    m->dev = st->st_dev;
    m->ino = st->st_ino;
    m->size = (uint64_t)st->st_size;
}

static void add_missing(struct model_list *list, const char *path, bool deleted, const char *how,
                        const char *trouble)
{
    struct model *m = add_once(list, find_missing(list, path), path, how);
    if (m == NULL)
        return;
    m->deleted = deleted;
    (void)snprintf(m->trouble, sizeof m->trouble, "%s", trouble);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int join(char *out, const char *folder, const char *name)
{
    int n = snprintf(out, FS_PATH_MAX, "%s/%s", folder, name);
    return n < 0 || n >= FS_PATH_MAX ? -ENAMETOOLONG : 0;
}

static bool has_file(const char *folder, const char *name)
{
    char path[FS_PATH_MAX];
    return join(path, folder, name) == 0 && access(path, F_OK) == 0;
}

/*
 * A folder of a model: *.safetensors and *.gguf always; ambiguous names (a data set of ten thousand
 * .pt files) only beside a config.json. diffusers keeps its parts one folder deeper.
 */
static void add_folder(struct model_list *list, const char *folder, const char *how, int depth)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, compare_names);
    bool is_model = has_file(folder, "config.json");
    bool deeper = depth == 0 && has_file(folder, "model_index.json");
    for (int i = 0; i < count; i++) {
        char path[FS_PATH_MAX];
        struct stat st;
        const char *name = entries[i]->d_name;
        enum name_class class = classify(name);
        bool wanted = class == NAME_MODEL || (class == NAME_MAYBE && is_model) || deeper;
        if (i < FOLDER_ENTRIES_MAX && name[0] != '.' && wanted && join(path, folder, name) == 0) {
            if (stat(path, &st) != 0) {
                if (class == NAME_MODEL) /* a dangling link of a hub cache */
                    add_missing(list, path, false, how, strerror(errno));
            } else if (S_ISDIR(st.st_mode) && deeper) {
                add_folder(list, path, how, depth + 1);
            } else if (S_ISREG(st.st_mode) &&
                       (class == NAME_MODEL ||
                        (class == NAME_MAYBE && is_model && contents_tell(path, class)))) {
                add_file(list, path, &st, how);
            }
        }
        free(entries[i]);
    }
    free(entries);
}

static void consider_argument(const struct collect_ctx *ctx, struct model_list *list,
                              const char *text, const char *how)
{
    char path[FS_PATH_MAX];
    char via[64];
    struct stat st;
    int n = text[0] == '/' || ctx->cwd[0] == '\0'
                ? snprintf(path, sizeof path, "%s", text)
                : snprintf(path, sizeof path, "%s/%s", ctx->cwd, text);
    if (text[0] == '\0' || n < 0 || (size_t)n >= sizeof path)
        return;
    enum name_class class = classify(text);
    if (stat(path, &st) == 0) {
        bool look = class == NAME_MAYBE ||
                    (class == NAME_OTHER && (uint64_t)st.st_size >= UNNAMED_MIN_BYTES);
        (void)snprintf(via, sizeof via, "%s (folder)", how);
        if (S_ISDIR(st.st_mode))
            add_folder(list, path, via, 0);
        else if (S_ISREG(st.st_mode) &&
                 (class == NAME_MODEL || (look && contents_tell(path, class))))
            add_file(list, path, &st, how);
        else if (class == NAME_MODEL)
            add_missing(list, path, false, how, "not a regular file");
        return;
    }
    int missing = errno;
    if (class == NAME_MODEL)
        add_missing(list, path, false, how, strerror(missing));
    else if (hub_resolve(text, ctx->environ_at_impact, path, sizeof path) == 0) {
        (void)snprintf(via, sizeof via, "%s (Hugging Face cache)", how);
        add_folder(list, path, via, 0);
    }
}

/* "path", "--model=path" and "model=path". argv[0] is the program. */
static void find_arguments(const struct collect_ctx *ctx, struct model_list *list)
{
    if (ctx->argv == NULL || ctx->argv[0] == NULL)
        return;
    for (size_t i = 1; i < ARGUMENTS_MAX && ctx->argv[i] != NULL; i++) {
        char how[32];
        const char *value = strchr(ctx->argv[i], '=');
        (void)snprintf(how, sizeof how, "argument %zu", i);
        list->arguments++;
        if (ctx->argv[i][0] != '-')
            consider_argument(ctx, list, ctx->argv[i], how);
        if (value != NULL)
            consider_argument(ctx, list, value + 1, how);
    }
}

static void consider_open(struct model_list *list, const char *path, bool deleted, const char *how)
{
    struct stat st;
    enum name_class class = classify(path);
    static const char *const never[] = {"/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        if (cleantext_starts(path, never[i]) && !cleantext_starts(path, "/dev/shm/"))
            return;
    }
    if (deleted) { /* another file may have its name now */
        if (class == NAME_MODEL)
            add_missing(list, path, true, how, "deleted or replaced while it was in use");
        return;
    }
    if (stat(path, &st) != 0) {
        if (class == NAME_MODEL)
            add_missing(list, path, false, how, strerror(errno));
        return;
    }
    if (!S_ISREG(st.st_mode))
        return;
    bool look = class == NAME_MAYBE || (uint64_t)st.st_size >= UNNAMED_MIN_BYTES;
    if (class == NAME_MODEL || (look && contents_tell(path, class)))
        add_file(list, path, &st, how);
}

/* Lines "FD TARGET"; the kernel marks an unlinked target with " (deleted)". */
static void find_descriptors(const struct collect_ctx *ctx, struct model_list *list)
{
    static const char mark[] = " (deleted)";
    const char *line = ctx->fds;
    for (size_t i = 0; *line != '\0' && i < DESCRIPTORS_MAX; i++) {
        char path[FS_PATH_MAX];
        char how[32];
        size_t len = strcspn(line, "\n");
        size_t digits = strspn(line, "0123456789");
        if (digits > 0 && digits <= 10 && line[digits] == ' ' && line[digits + 1] == '/' &&
            len - digits - 1 < sizeof path) {
            (void)snprintf(how, sizeof how, "fd %.*s", (int)digits, line);
            (void)snprintf(path, sizeof path, "%.*s", (int)(len - digits - 1), line + digits + 1);
            bool deleted = cleantext_ends(path, mark);
            if (deleted)
                path[strlen(path) - strlen(mark)] = '\0';
            list->descriptors++;
            consider_open(list, path, deleted, how);
        }
        line += len + (line[len] == '\n');
    }
}

static void find_mappings(const struct collect_ctx *ctx, struct model_list *list)
{
    struct procmaps_file *files = NULL;
    int count = procmaps_files(ctx->maps, MAPPINGS_MAX, &files);
    for (int i = 0; i < count; i++) {
        list->mappings++;
        if (!files[i].executable) /* code is not weights */
            consider_open(list, files[i].path, files[i].deleted, "mapping");
    }
    procmaps_files_free(files, count > 0 ? (size_t)count : 0);
}

/* Adds files that the program opened and closed again, by the ledger. */
static void find_opened(const struct collect_ctx *ctx, struct model_list *list)
{
    char path[FS_PATH_MAX];
    struct rc_err err = {""};
    if (ctx->run_dir[0] == '\0' ||
        snprintf(path, sizeof path, "%s/ledger", ctx->run_dir) >= (int)sizeof path)
        return;
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    const struct ledger *ledger = fd >= 0 ? ledger_open(fd, &err) : NULL;
    for (size_t i = 0; ledger != NULL && i < LEDGER_MODELS; i++) {
        const struct ledger_model *m = &ledger->models[i];
        struct stat st;
        if (LEDGER_STATE(m->state) != LEDGER_USED || m->error != 0 || m->path[0] != '/')
            continue;
        (void)snprintf(path, sizeof path, "%.*s", (int)sizeof m->path - 1, m->path);
        bool replaced = m->inode != 0 && stat(path, &st) == 0 && st.st_ino != m->inode;
        list->opened++;
        consider_open(list, path, replaced, "opened during the run");
    }
    ledger_close(ledger);
}

void model_find(const struct collect_ctx *ctx, struct model_list *list)
{
    find_arguments(ctx, list);
    find_descriptors(ctx, list);
    find_mappings(ctx, list);
    find_opened(ctx, list);
}
