/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/name_map.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_folder.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "record/rundir.h"

#define PSEUDONYM_MAX 64

#define MAP_MAX ((size_t)4 << 20)
#define RUN_MAX ((size_t)4 << 20)

/* Beside the folder of the runs. Others may write there (ROCMCRASH_STATE_DIR=/scratch/group): the folder is
 * the user's alone, or is not used. */
static int open_folder(char *path, size_t size)
{
    char parent[FS_PATH_MAX];
    struct rc_err err = {""};
    int fd = -1;
    int r = rundir_base(parent, sizeof parent, &err);
    char *last = r == 0 ? strrchr(parent, '/') : NULL;
    if (last == NULL)
        return r < 0 ? r : -ENOENT;
    *last = '\0';
    if ((size_t)snprintf(path, size, "%s/names", parent) >= size)
        return -ENAMETOOLONG;
    r = own_folder_open(parent, "names", S_IRWXG | S_IRWXO, &fd, &err);
    return r < 0 ? r : fd;
}

static bool is_name(const char *bundle)
{
    return bundle[0] != '\0' && bundle[0] != '.' && strchr(bundle, '/') == NULL;
}

static void add_name(void *map, const char *pseudonym, const char *value)
{
    (void)cJSON_AddStringToObject(map, pseudonym, value);
}

void name_map_add(cJSON *map, const struct redactor *redactor)
{
    redactor_each_name(redactor, add_name, map);
}

static int is_map(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* "rocmcrash-20261123T...", "rocmcrash-try-20261123T...": by the time. */
static int by_time(const struct dirent **a, const struct dirent **b)
{
    static const char digits[] = "0123456789";
    const char *x = (*a)->d_name;
    const char *y = (*b)->d_name;
    return strcmp(x + strcspn(x, digits), y + strcspn(y, digits));
}

static void forget_old_ones(const char *folder, int folder_fd)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_map, by_time);
    for (int i = 0; i < count; i++) {
        if (i < count - NAME_MAPS_KEPT && unlinkat(folder_fd, entries[i]->d_name, 0) != 0)
            (void)fs_remove_tree(folder_fd, entries[i]->d_name); /* of a campaign */
        free(entries[i]);
    }
    free(entries);
}

/* The run's record: 'complete' leaves it as it is. */
#define RUN_FILE "run/run.json"

static void add_digest(cJSON *map, const char *stage)
{
    char path[FS_PATH_MAX];
    char hex[BUNDLE_DIGEST_SIZE];
    RC_AUTO_FREE char *run = NULL;
    (void)snprintf(path, sizeof path, "%s/" RUN_FILE, stage);
    ssize_t len = fs_read_all(path, RUN_MAX, &run);
    if (len < 0)
        return;
    bundle_digest(run, (size_t)len, hex);
    add_name(map, RUN_FILE, hex);
}

/* Takes the digest out of the map. */
static bool is_made_here(cJSON *map, const char *path)
{
    char hex[BUNDLE_DIGEST_SIZE];
    RC_AUTO_FREE char *run = NULL;
    struct rc_err none = {""};
    cJSON *made = cJSON_DetachItemFromObjectCaseSensitive(map, RUN_FILE);
    ssize_t len = made != NULL ? bundle_read_file(path, RUN_FILE, RUN_MAX, &run, &none) : -1;
    if (len >= 0)
        bundle_digest(run, (size_t)len, hex);
    bool is_same = len >= 0 && cJSON_IsString(made) && strcmp(hex, made->valuestring) == 0;
    cJSON_Delete(made);
    return is_same;
}

void name_map_save(cJSON *map, const char *bundle, const char *stage)
{
    char folder[FS_PATH_MAX];
    char file[320];
    add_digest(map, stage);
    RC_AUTO_FREE char *text = map != NULL && map->child != NULL ? cJSON_Print(map) : NULL;
    if (text == NULL || !is_name(bundle) ||
        (size_t)snprintf(file, sizeof file, "%s.json", bundle) >= sizeof file)
        return;
    RC_AUTO_CLOSE int folder_fd = open_folder(folder, sizeof folder);
    if (folder_fd < 0)
        return;
    RC_AUTO_CLOSE int fd = fs_open_write(folder_fd, file, O_WRONLY | O_TRUNC);
    if (fd >= 0 && fs_write_all(fd, text, strlen(text)) < 0)
        (void)unlinkat(folder_fd, file, 0);
    forget_old_ones(folder, folder_fd);
}

void name_map_write(const struct redactor *redactor, const char *bundle, const char *stage)
{
    cJSON *map = cJSON_CreateObject();
    name_map_add(map, redactor);
    name_map_save(map, bundle, stage);
    cJSON_Delete(map);
}

/* "/home/x/NAME.tar.gz" is the bundle NAME. */
static void name_of_file(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, size, "%s", slash != NULL ? slash + 1 : path);
    char *end = strstr(out, ".tar.gz");
    if (end != NULL)
        *end = '\0';
}

void name_map_gather(const char *path, const char *folder)
{
    char names[FS_PATH_MAX];
    char bundle[256];
    char campaign[256];
    char from[320];
    char to[640];
    name_of_file(path, bundle, sizeof bundle);
    name_of_file(folder, campaign, sizeof campaign);
    RC_AUTO_CLOSE int names_fd = is_name(bundle) && is_name(campaign) ? open_folder(names, sizeof names) : -1;
    (void)snprintf(from, sizeof from, "%s.json", bundle);
    (void)snprintf(to, sizeof to, "%s/%s", campaign, from);
    if (names_fd < 0 || faccessat(names_fd, from, F_OK, 0) != 0)
        return;
    if (mkdirat(names_fd, campaign, 0700) == 0 || errno == EEXIST)
        (void)renameat(names_fd, from, names_fd, to);
}

/* --- reading --- */

static cJSON *read_map(const char *folder, const char *campaign, const char *bundle)
{
    char path[FS_PATH_MAX + 640];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s/%s.json", folder, campaign, bundle);
    return fs_read_all(path, MAP_MAX, &text) < 0 ? NULL : cJSON_Parse(text);
}

static cJSON *read_of_a_campaign(const char *folder, const char *bundle)
{
    struct dirent **entries = NULL;
    cJSON *map = NULL;
    int count = scandir(folder, &entries, is_map, by_time);
    for (int i = 0; i < count; i++) {
        if (map == NULL)
            map = read_map(folder, entries[i]->d_name, bundle);
        free(entries[i]);
    }
    free(entries);
    return map;
}

static cJSON *read_of_bundle(const char *bundle, struct rc_err *err)
{
    char folder[FS_PATH_MAX];
    cJSON *map = NULL;
    RC_AUTO_CLOSE int folder_fd = is_name(bundle) ? open_folder(folder, sizeof folder) : -1;
    if (folder_fd >= 0)
        map = read_map(folder, ".", bundle);
    if (folder_fd >= 0 && map == NULL)
        map = read_of_a_campaign(folder, bundle);
    if (map == NULL)
        (void)rc_err_set(err, -ENOENT, "this machine and user have no names of that bundle (the last %d "
                                       "bundles that were made here have)",
                         NAME_MAPS_KEPT);
    return map;
}

static cJSON *map_of(const char *bundle, const char *path, struct rc_err *err)
{
    cJSON *map = read_of_bundle(bundle, err);
    if (map == NULL || is_made_here(map, path))
        return map;
    cJSON_Delete(map);
    (void)rc_err_set(err, -EBADMSG, "a bundle of that name was made here, but it is another one");
    return NULL;
}

/* A browser renames a file that it finds there already. */
cJSON *name_map_of_file(const char *path, struct rc_err *err)
{
    char bundle[256];
    char own[256];
    struct rc_err none = {""};
    name_of_file(path, bundle, sizeof bundle);
    cJSON *map = map_of(bundle, path, err);
    if (map == NULL && bundle_read_name(path, own, sizeof own) == 0 && strcmp(own, bundle) != 0)
        map = map_of(own, path, &none);
    return map;
}

/* --- pseudonyms in texts --- */

void name_map_apply(const cJSON *map, const char *text, struct buf *out)
{
    while (*text != '\0') {
        char word[PSEUDONYM_MAX];
        const char *end = text[0] == '<' ? memchr(text, '>', strnlen(text, sizeof word - 1)) : NULL;
        size_t len = end != NULL ? (size_t)(end - text) + 1 : 0;
        const char *name = NULL;
        if (len > 2) {
            (void)snprintf(word, sizeof word, "%.*s", (int)len, text);
            name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, word));
        }
        if (name != NULL) {
            buf_puts(out, name);
            text += len;
        } else {
            buf_putc(out, *text++);
        }
    }
}

/* Bytes of "<host12>" at `text`, 0 = there is none; *ret_kind: of "<host". */
static size_t pseudonym_at(const char *text, size_t *ret_kind)
{
    for (int kind = 0; text[0] == '<' && kind < REDACT_KIND_MAX; kind++) {
        const char *name = redact_kind_name((enum redact_kind)kind);
        size_t len = strlen(name);
        size_t digits = strncmp(text + 1, name, len) == 0 ? strspn(text + 1 + len, "0123456789") : 0;
        if (kind == REDACT_SECRET || kind == REDACT_TEXT || digits == 0 || text[1 + len + digits] != '>')
            continue;
        *ret_kind = 1 + len;
        return 1 + len + digits + 1;
    }
    return 0;
}

/* Appends what `into` calls the name; `open` is "<host". */
static void put_pseudonym(cJSON *into, const char *open, const char *name, struct buf *out)
{
    char word[PSEUDONYM_MAX];
    size_t len = strlen(open);
    unsigned long last = 0;
    for (const cJSON *known = into->child; known != NULL; known = known->next) {
        bool is_of_kind = strncmp(known->string, open, len) == 0 && isdigit((unsigned char)known->string[len]);
        unsigned long number = is_of_kind ? strtoul(known->string + len, NULL, 10) : 0;
        if (is_of_kind && cJSON_IsString(known) && strcmp(known->valuestring, name) == 0) {
            buf_puts(out, known->string);
            return;
        }
        last = number > last ? number : last;
    }
    (void)snprintf(word, sizeof word, "%s%lu>", open, last + 1);
    add_name(into, word, name);
    buf_puts(out, word);
}

void name_map_translate(cJSON *into, const cJSON *from, const char *text, struct buf *out)
{
    while (*text != '\0') {
        char word[PSEUDONYM_MAX];
        size_t kind = 0;
        size_t len = pseudonym_at(text, &kind);
        if (len == 0) {
            buf_putc(out, *text++);
            continue;
        }
        (void)snprintf(word, sizeof word, "%.*s", (int)len, text);
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, word));
        word[kind < sizeof word ? kind : 0] = '\0';
        if (into != NULL && name != NULL)
            put_pseudonym(into, word, name, out);
        else
            buf_printf(out, "%s>", word);
        text += len;
    }
}
