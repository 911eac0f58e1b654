/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/site.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/cleanup.h"
#include "base/own_folder.h"
#include "base/say.h"
#include "bundle/redact.h"
#include "collect/collector.h"
#include "collectors/site.h"
#include "diagnose/site_rules.h"
#include "diagnose/verdict.h"
#include "launch/options.h"

#define RULES_MAX ((size_t)256 << 10)
#define NAME_MAX_BYTES 32
#define ANSWER_MS 2000

void site_note(struct site *site, const struct rc_err *err)
{
    if (site->troubles++ == 0)
        site->trouble = *err;
}

__attribute__((format(printf, 2, 3))) static void note(struct site *site, const char *fmt, ...)
{
    struct rc_err err;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    site_note(site, &err);
}

const char *site_trouble(const struct site *site)
{
    static char line[sizeof site->trouble.msg + 64];
    if (site->troubles == 0)
        return NULL;
    (void)snprintf(line, sizeof line, "not all of the site's own parts are used: %s%s",
                   site->trouble.msg, site->troubles > 1 ? ", and more" : "");
    return line;
}

void site_tell(const struct site *site)
{
    if (site_trouble(site) != NULL)
        (void)say_line(stderr, "rocmcrash: %s", site_trouble(site));
}

/* --- files that nobody else could have written --- */

/* False: it does not exist, or site_trouble() says why it is not used. */
static bool is_trusted(struct site *site, const char *path, bool told_if_missing)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        if (errno != ENOENT || told_if_missing)
            note(site, "'%s': %s", path, strerror(errno));
        return false;
    }
    const char *why = own_path_distrust(path, &st);
    if (why != NULL)
        note(site, "'%s': %s", path, why);
    return why == NULL;
}

static bool path_in(struct site *site, const char *name, char out[FS_PATH_MAX])
{
    if ((size_t)snprintf(out, FS_PATH_MAX, "%s/%s", site->folder, name) < FS_PATH_MAX)
        return true;
    note(site, "'%.100s...': the name is too long", site->folder);
    return false;
}

/* The text of a file of the folder; NULL when it is not there or not used. */
static char *read_rules(struct site *site, const char *name, size_t *ret_len)
{
    char path[FS_PATH_MAX];
    char *text = NULL;
    if (!path_in(site, name, path) || !is_trusted(site, path, false))
        return NULL;
    ssize_t len = fs_read_all(path, RULES_MAX, &text);
    if (len < 0) {
        note(site, "'%s': %s", path, strerror((int)-len));
        free(text);
        return NULL;
    }
    *ret_len = (size_t)len;
    return text;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths of the files in a folder whose names `wanted` takes, sorted and trusted. Caller frees each. */
static size_t list_files(struct site *site, const char *name, bool (*wanted)(const char *),
                         char *ret[SITE_FILES_MAX])
{
    char folder[FS_PATH_MAX];
    char path[FS_PATH_MAX];
    size_t count = 0;
    if (!path_in(site, name, folder) || !is_trusted(site, folder, false))
        return 0;
    DIR *dir = opendir(folder);
    const struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (!wanted(entry->d_name) ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path ||
            !is_trusted(site, path, true))
            continue;
        if (count == SITE_FILES_MAX)
            note(site, "'%s' has more than %d files", folder, SITE_FILES_MAX);
        else if ((ret[count] = strdup(path)) != NULL)
            count++;
    }
    if (dir == NULL)
        note(site, "'%s': %s", folder, strerror(errno));
    else
        (void)closedir(dir);
    qsort((void *)ret, count, sizeof ret[0], by_name);
    return count;
}

/* --- the parts --- */

static void read_messages(struct site *site)
{
    size_t len = 0;
    struct rc_err err = {""};
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = read_rules(site, "messages.rules", &len);
    if (text == NULL || !path_in(site, "messages.rules", path))
        return;
    site->messages = site_rules_parse(text, len, path, &err);
    if (site->messages == NULL)
        site_note(site, &err);
}

static void read_redaction(struct site *site)
{
    size_t len = 0;
    struct rc_err err = {""};
    char path[FS_PATH_MAX];
    char *text = read_rules(site, "redaction.rules", &len);
    if (text == NULL || !path_in(site, "redaction.rules", path))
        return;
    struct redactor *redactor = redactor_new_rules(text, len, path, &err);
    if (redactor != NULL) {
        site->redaction = text;
    } else {
        site_note(site, &err);
        free(text);
    }
    redactor_free(redactor);
}

static bool is_json(const char *name)
{
    size_t len = strlen(name);
    return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".json") == 0;
}

static bool is_collector_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return len > 0 && len < NAME_MAX_BYTES && name[len] == '\0';
}

/* Only a file that may be executed is a collector: notes may lie beside it. */
static void add_collector(struct site *site, const char *path)
{
    char name[NAME_MAX_BYTES + 8];
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, X_OK) != 0)
        return;
    struct collector *c = calloc(1, sizeof *c);
    (void)snprintf(name, sizeof name, "site_%s", strrchr(path, '/') + 1);
    if (c == NULL)
        return;
    *c = (struct collector){.name = strdup(name),
                            .describe = "of this site",
                            .phase = COLLECT_SLOW,
                            .run = site_collector_run,
                            .program = strdup(path)};
    site->collectors[site->collector_count++] = c;
}

static void read_collectors(struct site *site)
{
    char *paths[SITE_FILES_MAX];
    size_t count = list_files(site, "collectors", is_collector_name, paths);
    for (size_t i = 0; i < count; i++) {
        add_collector(site, paths[i]);
        free(paths[i]);
    }
}

/* The folder itself: named, or the default. Always this machine's: a --sysroot may hold what a stranger
 * recorded, whose collectors must not run here. False: the name is too long. */
static bool name_folder(struct site *site, bool *ret_is_default)
{
    const char *named = getenv("ROCMCRASH_SITE");
    *ret_is_default = named == NULL || named[0] == '\0' || strcmp(named, SITE_DEFAULT) == 0;
    size_t len = (size_t)snprintf(site->folder, sizeof site->folder, "%s",
                                  *ret_is_default ? SITE_DEFAULT : named);
    return len < sizeof site->folder;
}

/* Everything in the folder, which need not be there when it is the default. */
static void read_folder(struct site *site, bool is_default)
{
    if (!is_trusted(site, site->folder, !is_default)) {
        site->folder[0] = '\0';
        return;
    }
    read_messages(site);
    read_redaction(site);
    site->tree_count = list_files(site, "tree", is_json, site->tree);
    read_collectors(site);
}

/* The same, and all that is read of it later, only to test whether the file system answers. */
static bool try_folder(void *context)
{
    struct site site = *(const struct site *)context;
    read_folder(&site, true);
    for (size_t i = 0; i < site.tree_count; i++) {
        char *text = NULL;
        (void)fs_read_all(site.tree[i], RULES_MAX, &text);
        free(text);
    }
    return true;
}

struct site *site_get(void)
{
    static struct site site;
    static bool is_read;
    bool is_default = false;
    if (is_read)
        return &site;
    is_read = true;
    if (!name_folder(&site, &is_default)) {
        site.folder[0] = '\0';
    } else if (bounded_reach(try_folder, &site, ANSWER_MS)) {
        read_folder(&site, is_default);
    } else {
        note(&site, "'%s': its file system does not answer", site.folder);
        site.folder[0] = '\0';
    }
    return &site;
}

int site_add_nodes(const struct site *site, struct tree *tree, struct rc_err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < site->tree_count; i++)
        r = tree_add_site(tree, site->tree[i], err);
    return r;
}

void site_messages(struct facts *facts, const char *text, size_t len, const char *source)
{
    const struct site *site = site_get();
    if (site->messages != NULL)
        site_rules_to_facts(site->messages, facts, text, len, source);
}
