/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `redact BUNDLE`: clean an old bundle, or one that somebody else made, in place. `redact LOG`: the
 * text on stdout with what is private replaced, for pasting into an issue.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/input.h"
#include "cli/option.h"
#include "cli/outcome.h"
#include "cli/stage_page.h"
#include "cli/stage_redact.h"
#include "cli/verbs.h"

#define TEXT_MAX ((size_t)64 << 20)

struct redact_line {
    struct privacy privacy;
    struct redactor *redactor;
    bool json, help;
    struct outcome outcome;
    uint64_t replaced;  /* in all */
    char new_name[256]; /* of the bundle, "" = as it was */
};

static const struct option_def option_table[] = {
    {"keep", 0, "KINDS",
     "leave homes, users, hosts, ips, macs, ids, emails, accounts, paths, projects, texts",
     option_text, offsetof(struct redact_line, privacy.keep)},
    {"include", 0, "NAMES", "files that are not text and are kept (names, patterns, all)",
     option_text, offsetof(struct redact_line, privacy.include)},
    {"preview", 0, NULL, "show each change and write nothing",
     option_on, offsetof(struct redact_line, privacy.preview)},
    {"json", 0, NULL, "print what was done as a JSON object, also the text",
     option_on, offsetof(struct redact_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct redact_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_counts(struct redact_line *redact)
{
    const struct redactor *redactor = redact->redactor;
    cJSON *replaced = redact->json ? cJSON_AddObjectToObject(redact->outcome.json, "replaced") : NULL;
    struct buf line = BUF_INIT;
    for (int kind = 0; kind < REDACT_KIND_MAX; kind++) {
        uint64_t count = redactor_count(redactor, (enum redact_kind)kind);
        if (count == 0)
            continue;
        (void)cJSON_AddNumberToObject(replaced, redact_kind_name((enum redact_kind)kind), (double)count);
        redact->replaced += count;
        buf_printf(&line, "%s%llu %s", line.len > 0 ? ", " : "", (unsigned long long)count,
                   redact_kind_name((enum redact_kind)kind));
    }
    if (!redact->json)
        (void)say_line(stderr, "rocmcrash: replaced: %s", line.len > 0 ? buf_str(&line) : "nothing");
    buf_release(&line);
}

/* --- a bundle --- */

/* The name may hold one too: rocmcrash-...-alice_train.py-oom. */
static int clean_name(struct redact_line *line, struct manifest *manifest, struct rc_err *err)
{
    RC_AUTO_FREE char *clean = stage_redact_line(line->redactor, manifest_name(manifest));
    char name[200];
    size_t n = 0;
    if (clean == NULL)
        return -ENOMEM;
    if (strcmp(clean, manifest_name(manifest)) == 0)
        return 0;
    for (const char *p = clean; *p != '\0' && n + 1 < sizeof name; p++) {
        if (*p != '<' && *p != '>')
            name[n++] = *p == ':' ? '-' : *p;
    }
    name[n] = '\0';
    if (manifest_rename(manifest, name) < 0)
        return rc_err_set(err, -EINVAL, "cannot make a clean name for the bundle");
    (void)snprintf(line->new_name, sizeof line->new_name, "%s.tar.gz", name);
    return 0;
}

/* The page holds the bundle's name: the clean one. */
static int write_page(const struct redact_line *line, const char *stage_dir, int stage_fd,
                      const struct manifest *manifest)
{
    char name[sizeof line->new_name];
    (void)snprintf(name, sizeof name, "%s",
                   line->new_name[0] != '\0' ? line->new_name : manifest_name(manifest));
    char *end = strstr(name, ".tar.gz");
    if (end != NULL)
        *end = '\0';
    return stage_write_page(stage_dir, stage_fd, name);
}

static int change_bundle(void *context, const char *stage_dir, struct manifest *manifest,
                         struct rc_err *err)
{
    struct redact_line *line = context;
    RC_AUTO_CLOSE int stage_fd = open(stage_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stage_fd >= 0) /* it is made anew, of what is clean */
        (void)unlinkat(stage_fd, "report.html", 0);
    int r = stage_fd < 0 ? -errno : stage_reserve(line->redactor, stage_dir, err);
    if (r == 0)
        stage_resume(line->redactor, stage_dir);
    if (r == 0)
        r = stage_learn(line->redactor, stage_dir, err);
    if (r == 0)
        r = stage_redact_files(line->redactor, stage_dir, stage_fd, STAGE_EVERYTHING,
                               &line->privacy, err);
    if (r == 0)
        r = stage_redact_rows(line->redactor, manifest, NULL);
    if (r == 0)
        r = clean_name(line, manifest, err);
    if (r == 0)
        r = write_page(line, stage_dir, stage_fd, manifest);
    if (r == 0 && line->privacy.preview) {
        stage_print_preview_end(line->redactor);
        return rc_err_set(err, -ECANCELED, "preview: nothing was written");
    }
    return r;
}

static bool ends_clean(const struct redact_line *line, const char *file)
{
    RC_AUTO_FREE char *clean = stage_redact_line(line->redactor, file);
    return clean != NULL && strcmp(clean, file) == 0;
}

/* Its file is named after the top folder; one that somebody renamed stays when nothing is in it. */
static const char *rename_file(const struct redact_line *line, const char *path, char *to,
                               size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    int n = snprintf(to, size, "%.*s%s", (int)(file - path), path, line->new_name);
    if (line->new_name[0] == '\0' || ends_clean(line, file) || n < 0 || (size_t)n >= size)
        return path;
    if (renameat2(AT_FDCWD, path, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return to;
    (void)say_line(stderr, "rocmcrash: the file's own name holds something private, rename it: %s",
                  strerror(errno));
    return path;
}

static int redact_bundle(struct redact_line *line, const char *path, struct rc_err *err)
{
    char to[FS_PATH_MAX];
    int r = bundle_rewrite(path, BUNDLE_MODE_KEPT, change_bundle, line, err);
    if (r == -ECANCELED && line->privacy.preview) {
        outcome_bundle(&line->outcome, path);
        return VERB_EXIT_OK;
    }
    if (r < 0)
        return r == -EBADMSG ? VERB_EXIT_BAD : VERB_EXIT_FAILED;
    print_counts(line);
    path = rename_file(line, path, to, sizeof to);
    outcome_bundle(&line->outcome, path);
    if (!line->json)
        (void)say_whole(stdout, "rocmcrash: %s: %s", line->replaced > 0 ? "redacted" : "there was nothing to replace in", path);
    return VERB_EXIT_OK;
}

/* --- text --- */

/* A terminal shows it, it does not obey it. */
static int put_text(const char *text, size_t len)
{
    struct buf clean;
    int r;
    if (!isatty(STDOUT_FILENO))
        return fs_write_all(STDOUT_FILENO, text, len);
    buf_init(&clean, 5 * TEXT_MAX);
    say_clean(&clean, text, len);
    r = buf_failed(&clean) ? -ENOMEM : fs_write_all(STDOUT_FILENO, buf_str(&clean), clean.len);
    buf_release(&clean);
    return r;
}

/* A string of JSON ends at its first NUL: each becomes U+FFFD. */
static void put_in_outcome(struct redact_line *line, const char *text, size_t len)
{
    struct buf whole;
    buf_init(&whole, 3 * len + 1);
    for (size_t at = 0; at < len; at++) {
        size_t n = strnlen(text + at, len - at);
        buf_append(&whole, text + at, n);
        at += n;
        if (at < len)
            buf_puts(&whole, "\xef\xbf\xbd");
    }
    outcome_text(&line->outcome, "text", buf_str(&whole));
    buf_release(&whole);
}

static int redact_log(struct redact_line *line, const char *path, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    size_t len = 0;
    int r = input_read(path, TEXT_MAX, &text, &len, err);
    if (r < 0)
        return VERB_EXIT_FAILED;
    if (len > 0)
        r = stage_redact_text(line->redactor, path, &text, &len);
    if (r == 0 && line->privacy.preview)
        stage_print_preview_end(line->redactor);
    else if (r == 0 && line->json)
        put_in_outcome(line, text, len);
    else if (r == 0)
        r = put_text(text, len);
    if (r < 0) {
        (void)rc_err_errno(err, r, "cannot redact '%s'", path);
        return VERB_EXIT_FAILED;
    }
    print_counts(line);
    return VERB_EXIT_OK;
}

int verb_redact(int argc, char *argv[])
{
    struct redact_line line = {.redactor = NULL};
    struct rc_err err = {""};
    int at = options_parse_around(option_table, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        help_text("Usage: rocmcrash redact [OPTIONS] BUNDLE|LOG|-\n\n"
                  "Replaces what is private: in a bundle in place, of a text (- is stdin) on\n"
                  "stdout. Secrets always; people, machines and places unless they are kept.\n\n"
                  "Options:\n");
        options_help(option_table);
        return VERB_EXIT_OK;
    }
    if (at < 0 || argc - at != 1) {
        (void)say_line(stderr, "rocmcrash: %s",
                      at < 0 ? err.msg
                             : "usage: rocmcrash redact [--keep=KINDS] [--include=NAMES] "
                               "[--preview] [--json] BUNDLE|LOG|-");
        return VERB_EXIT_USAGE;
    }
    line.redactor = stage_redactor(&line.privacy, &err);
    struct rc_err wrong = {""};
    int status = line.redactor == NULL ? VERB_EXIT_FAILED : VERB_EXIT_OK;
    if (status == VERB_EXIT_OK && line.privacy.keep != NULL &&
        redactor_keep(line.redactor, line.privacy.keep, &wrong) < 0)
        status = VERB_EXIT_USAGE;
    if (status != VERB_EXIT_OK) {
        (void)say_line(stderr, "rocmcrash: %s", wrong.msg[0] != '\0' ? wrong.msg : err.msg);
        redactor_free(line.redactor);
        return status;
    }
    if (err.msg[0] != '\0')
        (void)say_line(stderr, "rocmcrash: %s; the rules that are built in are used", err.msg);
    err = (struct rc_err){""};
    outcome_begin(&line.outcome, "redact", line.json);
    outcome_flag(&line.outcome, "preview", line.privacy.preview);
    status = input_is_bundle(argv[at]) ? redact_bundle(&line, argv[at], &err)
                                       : redact_log(&line, argv[at], &err);
    redactor_free(line.redactor);
    return outcome_end(&line.outcome, status, argv[at], &err);
}
