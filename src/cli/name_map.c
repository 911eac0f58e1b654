/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/name_map.h"

#include <cjson/cJSON.h>
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
#include "bundle/redact.h"
#include "record/rundir.h"

#define PSEUDONYM_MAX 64

#define MAP_MAX ((size_t)4 << 20)

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

static int is_map(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Their names begin with the time. */
static void forget_old_ones(const char *folder, int folder_fd)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_map, alphasort);
    for (int i = 0; i < count; i++) {
        if (i < count - NAME_MAPS_KEPT)
            (void)unlinkat(folder_fd, entries[i]->d_name, 0);
        free(entries[i]);
    }
    free(entries);
}

void name_map_write(const struct redactor *redactor, const char *bundle)
{
    char folder[FS_PATH_MAX];
    char file[320];
    cJSON *map = cJSON_CreateObject();
    redactor_each_name(redactor, add_name, map);
    RC_AUTO_FREE char *text = map != NULL && map->child != NULL ? cJSON_Print(map) : NULL;
    cJSON_Delete(map);
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

cJSON *name_map_read(const char *bundle, struct rc_err *err)
{
    char folder[FS_PATH_MAX];
    char path[FS_PATH_MAX + 320];
    RC_AUTO_FREE char *text = NULL;
    RC_AUTO_CLOSE int folder_fd = is_name(bundle) ? open_folder(folder, sizeof folder) : -1;
    int r = folder_fd < 0 ? -ENOENT : 0;
    if (r == 0) {
        (void)snprintf(path, sizeof path, "%s/%s.json", folder, bundle);
        ssize_t len = fs_read_all(path, MAP_MAX, &text);
        r = len < 0 ? (int)len : 0;
    }
    cJSON *map = r == 0 ? cJSON_Parse(text) : NULL;
    if (map == NULL)
        (void)rc_err_set(err, -ENOENT, "this machine and user have no names of that bundle (the last %d "
                                       "bundles that were made here have)",
                         NAME_MAPS_KEPT);
    return map;
}

cJSON *name_map_of_file(const char *path, struct rc_err *err)
{
    char bundle[256];
    const char *slash = strrchr(path, '/');
    (void)snprintf(bundle, sizeof bundle, "%s", slash != NULL ? slash + 1 : path);
    char *end = strstr(bundle, ".tar.gz");
    if (end != NULL)
        *end = '\0';
    return name_map_read(bundle, err);
}

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
