/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/distinfo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collectors/lib/cleantext.h"

#define METADATA_MAX ((size_t)16 << 10) /* name and version are in the first lines */
#define ENTRIES_MAX 65536

void dist_list_release(struct dist_list *list)
{
    free(list->packages);
    *list = (struct dist_list){0};
}

static struct dist_package *list_add(struct dist_list *list)
{
    if (list->count == DIST_MAX) {
        list->full = true;
        return NULL;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        void *grown = realloc(list->packages, capacity * sizeof list->packages[0]);
        if (grown == NULL) {
            list->full = true;
            return NULL;
        }
        list->packages = grown;
        list->capacity = capacity;
    }
    struct dist_package *p = &list->packages[list->count++];
    *p = (struct dist_package){0};
    return p;
}

void dist_normalise(char *out, size_t size, const char *name, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len && used + 1 < size; i++) {
        unsigned char c = (unsigned char)name[i];
        bool dash = c == '-' || c == '_' || c == '.';
        if (dash && used > 0 && out[used - 1] == '-')
            continue;
        out[used++] = dash ? '-' : isalnum(c) ? (char)tolower(c) : '?';
    }
    out[used] = '\0';
}

/* Versions go into requirements.txt: characters outside PEP 440's alphabet become '?'. */
static void copy_version(char *out, size_t size, const char *text, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len && used + 1 < size; i++) {
        unsigned char c = (unsigned char)text[i];
        out[used++] = isalnum(c) || strchr(".+!-_~", c) != NULL ? (char)c : '?';
    }
    out[used] = '\0';
}

/*
 * Metadata-Version: 2.1
 * Name: torch
 * Version: 2.5.1+rocm6.2
 */
bool dist_parse_metadata(const char *text, char *name, size_t name_size, char *version,
                         size_t version_size)
{
    name[0] = version[0] = '\0';
    while (*text != '\0' && *text != '\n' && *text != '\r') {
        size_t len = strcspn(text, "\r\n");
        const char *end = text + len;
        const char *value = memchr(text, ':', len);
        if (value != NULL) {
            size_t key = (size_t)(value - text);
            value++;
            while (value < end && (*value == ' ' || *value == '\t'))
                value++;
            while (end > value && isspace((unsigned char)end[-1]))
                end--;
            if (key == 4 && strncasecmp(text, "Name", 4) == 0 && name[0] == '\0')
                dist_normalise(name, name_size, value, (size_t)(end - value));
            if (key == 7 && strncasecmp(text, "Version", 7) == 0 && version[0] == '\0')
                copy_version(version, version_size, value, (size_t)(end - value));
        }
        text += len;
        text += *text == '\r';
        text += *text == '\n';
    }
    return name[0] != '\0' && version[0] != '\0';
}

int dist_parse_version_py(const char *text, const char *key, char *out, size_t size)
{
    size_t key_len = strlen(key);
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n') {
        size_t len = strcspn(line, "\n");
        if (len <= key_len || strncmp(line, key, key_len) != 0)
            continue;
        if (line[key_len] != ' ' && line[key_len] != ':' && line[key_len] != '=')
            continue;
        const char *equals = memchr(line, '=', len);
        if (equals == NULL)
            continue;
        const char *value = equals + 1 + strspn(equals + 1, " \t");
        if (strncmp(value, "None", 4) == 0)
            return 0;
        const char *close = *value == '\'' || *value == '"' ? strchr(value + 1, *value) : NULL;
        if (close == NULL || close > line + len)
            continue;
        cleantext_copy(out, size, value + 1, (size_t)(close - value - 1));
        return 1;
    }
    return -ENOENT;
}

/* The beginning of a small file; "" when there is none. */
static void read_start(const char *folder, const char *file, char *out, size_t size)
{
    char path[FS_PATH_MAX];
    out[0] = '\0';
    int n = snprintf(path, sizeof path, "%s%s%s", folder, file[0] ? "/" : "", file);
    if (n < 0 || (size_t)n >= sizeof path)
        return;
    ssize_t r = fs_read_regular_text(path, out, size);
    if (r < 0 && r != -EFBIG)
        out[0] = '\0';
}

/* {"url": "git+https://...", "vcs_info": {"vcs": "git", "commit_id": "<40 hex>"}} or
 * {"dir_info": {"editable": true}, ...}. The address may hold a token: never copied. */
static void read_direct_url(const char *folder, struct dist_package *p)
{
    char text[4096];
    read_start(folder, "direct_url.json", text, sizeof text);
    const char *editable = strstr(text, "\"editable\"");
    if (editable != NULL)
        p->editable = strncmp(editable + 10 + strspn(editable + 10, " :\n"), "true", 4) == 0;
    const char *commit = strstr(text, "\"commit_id\"");
    if (commit == NULL)
        return;
    commit += 11 + strspn(commit + 11, " :\n\"");
    size_t len = strspn(commit, "0123456789abcdef");
    if (len >= 7 && len < sizeof p->commit)
        (void)snprintf(p->commit, sizeof p->commit, "%.*s", (int)len, commit);
}

static void read_installer(const char *folder, struct dist_package *p)
{
    char text[64];
    read_start(folder, "INSTALLER", text, sizeof text);
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz-");
    if (len > 0 && len < sizeof p->installer)
        (void)snprintf(p->installer, sizeof p->installer, "%.*s", (int)len, text);
}

/* "torch-2.5.1+rocm6.2.dist-info": name and version if METADATA cannot be read. */
static bool from_folder_name(const char *entry, struct dist_package *p)
{
    const char *dash = strchr(entry, '-');
    const char *end = strstr(entry, ".dist-info");
    if (dash == NULL || end == NULL || dash > end)
        return false;
    dist_normalise(p->name, sizeof p->name, entry, (size_t)(dash - entry));
    copy_version(p->version, sizeof p->version, dash + 1, (size_t)(end - dash - 1));
    return p->name[0] != '\0' && p->version[0] != '\0';
}

static bool read_package(const char *site, const char *entry, struct dist_package *p)
{
    char folder[FS_PATH_MAX];
    RC_AUTO_FREE char *text = malloc(METADATA_MAX);
    int n = snprintf(folder, sizeof folder, "%s/%s", site, entry);
    if (text == NULL || n < 0 || (size_t)n >= sizeof folder)
        return false;
    bool wheel = cleantext_ends(entry, ".dist-info");
    read_start(folder, wheel ? "METADATA" : "PKG-INFO", text, METADATA_MAX);
    if (text[0] == '\0' && !wheel) /* Debian: the .egg-info is the file itself */
        read_start(folder, "", text, METADATA_MAX);
    if (!dist_parse_metadata(text, p->name, sizeof p->name, p->version, sizeof p->version) &&
        !from_folder_name(entry, p))
        return false;
    if (wheel) {
        read_installer(folder, p);
        read_direct_url(folder, p);
    }
    return true;
}

/* "foo.egg-link": a line with the folder of the sources, which holds foo.egg-info. */
static bool read_egg_link(const char *site, const char *entry, struct dist_package *p)
{
    char folder[FS_PATH_MAX];
    char name[256];
    read_start(site, entry, folder, sizeof folder);
    folder[strcspn(folder, "\n")] = '\0';
    int n = snprintf(name, sizeof name, "%.*s.egg-info", (int)(strlen(entry) - strlen(".egg-link")),
                     entry);
    if (folder[0] != '/' || n < 0 || (size_t)n >= sizeof name)
        return false;
    for (char *c = name; *c != '\0' && !cleantext_starts(c, ".egg-info"); c++)
        *c = *c == '-' ? '_' : *c;
    p->editable = true;
    return read_package(folder, name, p);
}

/* One entry of a folder of packages: 1 = a package is in *p, 0 = none, -1 = it cannot be read. */
typedef int entry_reader(const char *folder, const char *entry, struct dist_package *p);

static int scan_folder(struct dist_list *list, const char *folder, unsigned site, entry_reader *read)
{
    RC_AUTO_CLOSEDIR DIR *dir = opendir(folder);
    if (dir == NULL)
        return -errno;
    int added = 0;
    struct dirent *entry;
    for (int i = 0; i < ENTRIES_MAX && (entry = readdir(dir)) != NULL; i++) {
        struct dist_package p = {.site = site};
        int found = entry->d_name[0] != '.' ? read(folder, entry->d_name, &p) : 0;
        list->unreadable += found < 0;
        struct dist_package *slot = found > 0 ? list_add(list) : NULL;
        if (found > 0 && slot == NULL)
            break;
        if (slot != NULL) {
            *slot = p;
            added++;
        }
    }
    return added;
}

static int read_site_entry(const char *folder, const char *entry, struct dist_package *p)
{
    if (entry[0] == '~') /* pip leaves ~orch-2.5... */
        return 0;
    if (cleantext_ends(entry, ".egg-link"))
        return read_egg_link(folder, entry, p) ? 1 : -1;
    if (cleantext_ends(entry, ".dist-info") || cleantext_ends(entry, ".egg-info"))
        return read_package(folder, entry, p) ? 1 : -1;
    return 0;
}

int dist_scan_site(struct dist_list *list, const char *folder, unsigned site)
{
    return scan_folder(list, folder, site, read_site_entry);
}

/* "rocm-core-6.2.0-hb1f7a65_0.json": version and build are the last two parts. */
static bool from_conda_name(const char *entry, struct dist_package *p)
{
    size_t len = strlen(entry) - strlen(".json");
    const char *build = memrchr(entry, '-', len);
    const char *version = build != NULL ? memrchr(entry, '-', (size_t)(build - entry)) : NULL;
    if (version == NULL || version == entry)
        return false;
    dist_normalise(p->name, sizeof p->name, entry, (size_t)(version - entry));
    copy_version(p->version, sizeof p->version, version + 1, (size_t)(build - version - 1));
    (void)snprintf(p->installer, sizeof p->installer, "conda");
    return p->version[0] != '\0';
}

static int read_conda_entry(const char *folder, const char *entry, struct dist_package *p)
{
    (void)folder;
    return cleantext_ends(entry, ".json") && from_conda_name(entry, p);
}

int dist_scan_conda(struct dist_list *list, const char *prefix, unsigned site)
{
    char folder[FS_PATH_MAX];
    int n = snprintf(folder, sizeof folder, "%s/conda-meta", prefix);
    if (n < 0 || (size_t)n >= sizeof folder)
        return -ENAMETOOLONG;
    return scan_folder(list, folder, site, read_conda_entry);
}

static int compare_packages(const void *a, const void *b)
{
    const struct dist_package *x = a;
    const struct dist_package *y = b;
    int r = strcmp(x->name, y->name);
    if (r == 0 && x->site != y->site)
        r = x->site < y->site ? -1 : 1;
    return r != 0 ? r : strcmp(x->version, y->version);
}

void dist_list_sort(struct dist_list *list)
{
    if (list->count > 1)
        qsort(list->packages, list->count, sizeof list->packages[0], compare_packages);
    for (size_t i = 1; i < list->count; i++)
        list->packages[i].shadowed =
            strcmp(list->packages[i].name, list->packages[i - 1].name) == 0;
}

const struct dist_package *dist_find(const struct dist_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!list->packages[i].shadowed && strcmp(list->packages[i].name, name) == 0)
            return &list->packages[i];
    }
    return NULL;
}
