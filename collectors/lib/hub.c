/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/hub.h"

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
#include "base/fs.h"
#include "collectors/lib/cleantext.h"

#define REVISIONS_MAX 64
#define ENTRIES_MAX 2048

const char *hub_env(const char *const *environment, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        if (strncmp(environment[i], name, len) == 0 && environment[i][len] == '=')
            return environment[i] + len + 1;
    }
    return NULL;
}

static int join(char *out, size_t size, const char *a, const char *b)
{
    int n = snprintf(out, size, "%s/%s", a, b);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Name of the link in `folder` that leads to the blob; the first by name, so that the answer is
 * stable. */
static bool find_link(const char *folder, const char *blob, char *out, size_t size)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(folder);
    bool found = false;
    for (int i = 0; dir != NULL && i < ENTRIES_MAX; i++) {
        char target[FS_PATH_MAX];
        struct dirent *entry = readdir(dir);
        if (entry == NULL)
            break;
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (strcmp(cleantext_base(target), blob) == 0 &&
            (!found || strcmp(entry->d_name, out) < 0)) {
            (void)snprintf(out, size, "%s", entry->d_name);
            found = true;
        }
    }
    return found;
}

/* "models--org--name" -> "org/name". */
static void repository_name(const char *folder, char *out, size_t size)
{
    const char *p = cleantext_starts(folder, "models--") ? folder + 8 : folder;
    size_t used = 0;
    while (*p != '\0' && used + 1 < size) {
        bool separator = p[0] == '-' && p[1] == '-';
        out[used++] = separator ? '/' : *p;
        p += separator ? 2 : 1;
    }
    out[used] = '\0';
}

/* Which snapshot shows this blob, and under what name? `repository` is the models--... folder. */
static void find_snapshot(const char *repository, const char *blob, struct hub_name *ret)
{
    char snapshots[FS_PATH_MAX];
    char folder[FS_PATH_MAX];
    if (join(snapshots, sizeof snapshots, repository, "snapshots") < 0)
        return;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(snapshots);
    for (int i = 0; dir != NULL && i < REVISIONS_MAX; i++) {
        struct dirent *entry = readdir(dir);
        if (entry == NULL)
            return;
        char file[sizeof ret->file];
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof ret->revision ||
            join(folder, sizeof folder, snapshots, entry->d_name) < 0)
            continue;
        if (find_link(folder, blob, file, sizeof file) &&
            (ret->file[0] == '\0' || strcmp(entry->d_name, ret->revision) < 0)) {
            (void)snprintf(ret->file, sizeof ret->file, "%s", file);
            (void)snprintf(ret->revision, sizeof ret->revision, "%.47s", entry->d_name);
        }
    }
}

/* If the opened path was a link of a snapshot, it holds the revision and the name. */
static void name_from_link(const char *path, struct hub_name *ret)
{
    const char *at = strstr(path, "/snapshots/");
    const char *file = at != NULL ? strchr(at + 11, '/') : NULL;
    if (file == NULL || (size_t)(file - at - 11) >= sizeof ret->revision)
        return;
    (void)snprintf(ret->revision, sizeof ret->revision, "%.*s", (int)(file - at - 11), at + 11);
    (void)snprintf(ret->file, sizeof ret->file, "%s", file + 1);
}

void hub_identify(const char *path, struct hub_name *ret)
{
    char real[PATH_MAX];
    *ret = (struct hub_name){0};
    if (realpath(path, real) == NULL)
        return;
    char *blob = strrchr(real, '/');
    if (blob == NULL || blob == real)
        return;
    *blob++ = '\0';
    if (!cleantext_ends(real, "/blobs"))
        return;
    if (cleantext_starts(blob, "sha256-") && cleantext_is_hex(blob + 7, 64)) {
        ret->kind = HUB_OLLAMA;
        blob += 7;
    } else if (cleantext_is_hex(blob, 64)) {
        ret->kind = HUB_SHA256;
    } else if (cleantext_is_hex(blob, 40)) {
        ret->kind = HUB_GIT_BLOB;
    } else {
        return;
    }
    (void)snprintf(ret->digest, sizeof ret->digest, "%s", blob);
    real[strlen(real) - strlen("/blobs")] = '\0';
    if (ret->kind == HUB_OLLAMA)
        return;
    repository_name(cleantext_base(real), ret->repository, sizeof ret->repository);
    name_from_link(path, ret);
    if (ret->file[0] == '\0')
        find_snapshot(real, blob, ret);
}

static int cache_folder(const char *const *environment, char *out, size_t size)
{
    static const struct {
        const char *name, *below;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = hub_env(environment, places[i].name);
        if (value == NULL || value[0] != '/')
            continue;
        int n = snprintf(out, size, "%s%s", value, places[i].below);
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
    }
    return -ENOENT;
}

static bool is_id(const char *id)
{
    const char *slash = strchr(id, '/');
    if (slash == NULL || slash == id || slash[1] == '\0' || strlen(id) > 128)
        return false;
    for (const char *p = id; *p != '\0'; p++) {
        if (p != slash && !isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
            return false;
    }
    return id[0] != '.' && slash[1] != '.';
}

/* refs/main names the revision; without it a lone snapshot is the one. */
static int pick_revision(const char *repository, char *out, size_t size)
{
    char path[FS_PATH_MAX];
    if (join(path, sizeof path, repository, "refs/main") == 0 &&
        fs_read_regular_text(path, out, size) > 0 && strspn(out, "0123456789abcdef") == strlen(out))
        return 0;
    if (join(path, sizeof path, repository, "snapshots") < 0)
        return -ENAMETOOLONG;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
    int count = 0;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= size)
            continue;
        (void)snprintf(out, size, "%s", e->d_name);
        count++;
    }
    return count == 1 ? 0 : -ENOENT;
}

int hub_resolve(const char *id, const char *const *environment, char *out, size_t size)
{
    char cache[FS_PATH_MAX];
    char repository[FS_PATH_MAX];
    char revision[64];
    if (!is_id(id))
        return -EINVAL;
    int r = cache_folder(environment, cache, sizeof cache);
    if (r < 0)
        return r;
    const char *slash = strchr(id, '/');
    int n = snprintf(repository, sizeof repository, "%s/models--%.*s--%s", cache, (int)(slash - id),
                     id, slash + 1);
    if (n < 0 || (size_t)n >= sizeof repository)
        return -ENAMETOOLONG;
    r = pick_revision(repository, revision, sizeof revision);
    if (r < 0)
        return r;
    n = snprintf(out, size, "%s/snapshots/%s", repository, revision);
    if (n < 0 || (size_t)n >= size)
        return -ENAMETOOLONG;
    struct stat st;
    return stat(out, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : -ENOENT;
}
