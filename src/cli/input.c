/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input.h"
#include "cli/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/encoding.h"
#include "base/ending.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "diagnose/condense.h"

#define OURS "rocmcrash-"

bool input_has_bundle_name(const char *path)
{
    size_t len = strlen(path);
    return len > 7 && strcmp(path + len - 7, ".tar.gz") == 0;
}

bool input_is_bundle(const char *path)
{
    unsigned char magic[2] = {0};
    RC_AUTO_CLOSE int fd = strcmp(path, "-") != 0 ? fs_open_read(path) : -1;
    bool gzip = fd >= 0 && read(fd, magic, 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    return gzip || input_has_bundle_name(path);
}

bool input_is_bundle_of_ours(const char *path)
{
    char name[256];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (strncmp(slash != NULL ? slash + 1 : path, OURS, sizeof OURS - 1) == 0 && input_has_bundle_name(path))
        return true;
    if ((!ends_with(path, ".gz") && !ends_with(path, ".tgz")) || lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    return bundle_read_name(path, name, sizeof name) == 0 && strncmp(name, OURS, sizeof OURS - 1) == 0;
}

static int is_bundle_of_ours(const struct dirent *entry)
{
    return input_is_bundle_of_ours(entry->d_name);
}

time_t input_bundle_time_s(const char *path, const struct stat *st)
{
    char name[256];
    const char *slash = strrchr(path, '/');
    int64_t time_s = bundle_name_time_s(slash != NULL ? slash + 1 : path);
    if (time_s < 0 && bundle_read_name(path, name, sizeof name) == 0)
        time_s = bundle_name_time_s(name);
    return time_s >= 0 ? (time_t)time_s : st->st_mtime;
}

/* In a folder that others may write to, a stranger's bundle may have the latest time: our own go first. */
static bool goes_before(const char *path, const struct stat *a, const char *other, const struct stat *b)
{
    bool a_is_ours = a->st_uid == geteuid();
    time_t a_s = input_bundle_time_s(path, a);
    time_t b_s = input_bundle_time_s(other, b);
    if (a_is_ours != (b->st_uid == geteuid()))
        return a_is_ours;
    if (a_s != b_s)
        return a_s > b_s;
    return a->st_mtim.tv_sec > b->st_mtim.tv_sec ||
           (a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec >= b->st_mtim.tv_nsec);
}

int input_status_of_none(int argc, int at)
{
    return at >= 0 && argc == at ? VERB_EXIT_FAILED : VERB_EXIT_USAGE;
}

static void say_which(const char *path, const struct stat *st, const char *usage)
{
    if (path == NULL)
        (void)say_line(stderr, "rocmcrash: there is no bundle in this folder; name one: %s", usage);
    else if (st->st_uid == geteuid())
        (void)say_line(stderr, "rocmcrash: the newest bundle here is '%s'", path);
    else
        (void)say_line(stderr, "rocmcrash: no bundle here is yours; the newest one is '%s', of user %u", path, st->st_uid);
}

char *input_newest_bundle(const char *usage)
{
    struct dirent **entries = NULL;
    struct stat best = {.st_uid = 0};
    char *path = NULL;
    int count = scandir(".", &entries, is_bundle_of_ours, alphasort);
    for (int i = 0; i < count; i++) {
        struct stat st;
        if (stat(entries[i]->d_name, &st) == 0 && S_ISREG(st.st_mode) && (path == NULL || goes_before(entries[i]->d_name, &st, path, &best))) {
            free(path);
            path = strdup(entries[i]->d_name);
            best = st;
        }
        free(entries[i]);
    }
    free(entries);
    say_which(path, &best, usage);
    return path;
}

const char *input_one_bundle(int argc, char *argv[], int at, const char *usage,
                             const struct rc_err *err, char **ret_newest)
{
    if (at >= 0 && argc - at == 1)
        return argv[at];
    if (at >= 0 && argc == at)
        return *ret_newest = input_newest_bundle(usage);
    if (at < 0)
        (void)say_line(stderr, "rocmcrash: %s", err->msg);
    else
        (void)say_line(stderr, "rocmcrash: usage: %s", usage);
    return NULL;
}

static ssize_t read_stdin(size_t max, char **ret)
{
    struct buf text;
    char chunk[65536];
    ssize_t n = 0;
    buf_init(&text, max);
    while (!buf_failed(&text) && (n = read(STDIN_FILENO, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        buf_append(&text, chunk, (size_t)n);
    }
    int r = n < 0 ? -errno : 0;
    if (r == 0 && buf_failed(&text))
        r = text.len + sizeof chunk > max ? -EFBIG : -ENOMEM;
    if (r == 0 && text.data == NULL)
        buf_puts(&text, "");
    if (r == 0 && text.data == NULL)
        r = -ENOMEM;
    if (r < 0) {
        buf_release(&text);
        return r;
    }
    *ret = text.data;
    return (ssize_t)text.len;
}

int input_read(const char *path, size_t max, char **ret, size_t *ret_len, struct rc_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = is_stdin ? read_stdin(max, &text) : fs_read_all(path, max, &text);
    if (len == -EFBIG)
        return rc_err_set(err, -EFBIG, "'%s' is larger than %zu MiB: give its end only",
                          is_stdin ? "stdin" : path, max >> 20);
    if (len < 0)
        return rc_err_errno(err, (int)len, "cannot read '%s'", is_stdin ? "stdin" : path);
    *ret = rc_take(&text);
    *ret_len = (size_t)len;
    return 0;
}

static int shorten(char **text, size_t *len, char *note, size_t note_size)
{
    struct condensed c;
    int r = condense(*text, *len, &c);
    if (r < 0)
        return r;
    if (c.lines_left > 0)
        (void)snprintf(note, note_size,
                       "has %zu lines with words of failure: of those in its middle the first and the "
                       "last are judged, %zu lines are not",
                       c.lines_found, c.lines_left);
    free(*text);
    *text = c.text;
    *len = c.len;
    return 0;
}

int input_read_log(const char *path, size_t max, char **ret, size_t *ret_len, char *note,
                   size_t note_size, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    size_t len = 0;
    note[0] = '\0';
    int r = input_read(path, max, &text, &len, err);
    if (r < 0)
        return r;
    enum encoding encoding = encoding_guess(text, len);
    if (encoding == ENCODING_EMPTY)
        (void)snprintf(note, note_size, "is empty");
    else if (encoding == ENCODING_BINARY)
        (void)snprintf(note, note_size, "is not text: its readable parts are judged");
    if (encoding == ENCODING_UTF16LE || encoding == ENCODING_UTF16BE) {
        char *utf8 = encoding_from_utf16(text, len, encoding, &len);
        free(rc_take(&text));
        text = utf8;
        r = utf8 != NULL ? 0 : -ENOMEM;
    }
    if (r == 0 && len > CONDENSE_ABOVE_BYTES)
        r = shorten(&text, &len, note, note_size);
    if (r < 0)
        return rc_err_errno(err, r, "cannot read '%s'", path);
    *ret = rc_take(&text);
    *ret_len = len;
    return 0;
}
