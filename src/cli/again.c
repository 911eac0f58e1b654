/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/again.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "bundle/bundle.h"
#include "cli/name_map.h"

#define RUN_JSON_MAX ((size_t)4 << 20)

/* A command line with pseudonyms cannot be run. */
static bool has_pseudonym(const char *text)
{
    const char *open = strchr(text, '<');
    return open != NULL && strchr(open, '>') != NULL;
}

/*
 * "<home1>/train.py" as it was, where this user's home is what was replaced. More than one home, or
 * anything else that was private, cannot be known. `name` holds the pseudonym once there is one.
 * False: leave the text alone.
 */
static bool restore_home(const char *text, char *name, size_t name_size, struct buf *out)
{
    const char *home = getenv("HOME");
    const char *open;
    const char *end;
    while ((open = strchr(text, '<')) != NULL && (end = strchr(open, '>')) != NULL) {
        size_t length = (size_t)(end + 1 - open);
        if (home == NULL || home[0] != '/' || strncmp(open, "<home", 5) != 0 || length >= name_size)
            return false;
        if (name[0] == '\0')
            (void)snprintf(name, name_size, "%.*s", (int)length, open);
        if (strncmp(open, name, length) != 0)
            return false;
        buf_append(out, text, (size_t)(open - text));
        buf_puts(out, home);
        text = end + 1;
    }
    buf_puts(out, text);
    return !buf_failed(out);
}

/* Changes the strings of run.json in place. If the restored paths do not exist, this is another machine. */
static void restore_homes(cJSON *run, cJSON *argv)
{
    char name[32] = "";
    cJSON *items[] = {argv->child, cJSON_GetObjectItemCaseSensitive(run, "cwd")};
    for (size_t list = 0; list < sizeof items / sizeof items[0]; list++) {
        for (cJSON *item = items[list]; item != NULL; item = list == 0 ? item->next : NULL) {
            const char *text = cJSON_GetStringValue(item);
            struct buf restored = BUF_INIT;
            if (text != NULL && has_pseudonym(text) &&
                restore_home(text, name, sizeof name, &restored) &&
                (item != argv->child || access(buf_str(&restored), X_OK) == 0))
                (void)cJSON_SetValuestring(item, buf_str(&restored));
            buf_release(&restored);
        }
    }
}

/* On the machine, and of the user, where the bundle was made: every name that is not a secret. */
static void restore_names(cJSON *run, cJSON *argv, const char *bundle)
{
    struct rc_err none = {""};
    cJSON *map = name_map_of_file(bundle, &none);
    cJSON *cwd = cJSON_GetObjectItemCaseSensitive(run, "cwd");
    for (cJSON *item = argv->child; map != NULL && item != NULL;) {
        const char *text = cJSON_GetStringValue(item);
        struct buf restored = BUF_INIT;
        if (text != NULL && has_pseudonym(text)) {
            name_map_apply(map, text, &restored);
            if (!buf_failed(&restored))
                (void)cJSON_SetValuestring(item, buf_str(&restored));
        }
        buf_release(&restored);
        item = item == cwd ? NULL : item->next != NULL ? item->next : cwd;
    }
    cJSON_Delete(map);
}

static int command_of_bundle(struct again *r, const char *bundle, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t n = bundle_read_file(bundle, "run/run.json", RUN_JSON_MAX, &text, err);
    if (n < 0)
        return (int)n;
    r->run = cJSON_Parse(text);
    cJSON *argv = cJSON_GetObjectItemCaseSensitive(r->run, "argv");
    if (cJSON_IsArray(argv)) {
        restore_names(r->run, argv, bundle);
        restore_homes(r->run, argv);
    }
    const char *cwd = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r->run, "cwd"));
    int count = cJSON_GetArraySize(argv);
    const cJSON *cut = cJSON_GetObjectItemCaseSensitive(r->run, "argv_cut");
    if (count <= 0 || count > AGAIN_ARGUMENTS_MAX || (cJSON_IsNumber(cut) && cut->valueint != 0))
        return rc_err_set(err, -EINVAL,
                          "the bundle lacks a part of the command: give it after --");
    r->command = calloc((size_t)count + 1, sizeof *r->command);
    if (r->command == NULL)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        r->command[i] = cJSON_GetStringValue(cJSON_GetArrayItem(argv, i));
        if (r->command[i] == NULL || has_pseudonym(r->command[i]))
            return rc_err_set(err, -EINVAL,
                              "private parts of the command were replaced: give it after --");
    }
    if (cwd != NULL && !has_pseudonym(cwd))
        (void)snprintf(r->cwd, sizeof r->cwd, "%s", cwd);
    return 0;
}

/* Blanks in a row could push the rest of a command out of sight. */
static bool is_odd(const char *text, const char *p)
{
    return *p < ' ' || *p > '~' || (*p == ' ' && p > text && p[-1] == ' ');
}

void again_quote(struct buf *out, const char *text)
{
    bool plain = true;
    for (const char *p = text; *p != '\0'; p++)
        plain = plain && !is_odd(text, p);
    buf_puts(out, plain ? "'" : "$'");
    for (const char *p = text; *p != '\0'; p++) {
        if (plain && *p == '\'')
            buf_puts(out, "'\\''");
        else if (is_odd(text, p))
            buf_printf(out, "\\x%02x", (unsigned char)*p);
        else if (!plain && (*p == '\'' || *p == '\\'))
            buf_printf(out, "\\%c", *p);
        else
            buf_putc(out, *p);
    }
    buf_puts(out, "'");
}

/* A bundle may be a stranger's, and so is then the command in it. */
static int ask(const struct again *r, struct rc_err *err)
{
    char answer[16] = "";
    struct buf shown = BUF_INIT;
    if (r->yes)
        return 0;
    buf_puts(&shown, "rocmcrash: the bundle's command:");
    for (size_t i = 0; r->command[i] != NULL; i++) {
        buf_putc(&shown, ' ');
        again_quote(&shown, r->command[i]);
    }
    if (r->cwd[0] != '\0') {
        buf_puts(&shown, " in ");
        again_quote(&shown, r->cwd);
    }
    (void)fputs(buf_str(&shown), stderr); /* printable ASCII, quoted; longer than a line may be */
    (void)fputc('\n', stderr);
    buf_release(&shown);
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
        (void)fputs("rocmcrash: run it? [y/N] ", stderr);
        if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] | 32) == 'y')
            return 0;
        return rc_err_set(err, -ECANCELED, "not run");
    }
    return rc_err_set(err, -EINVAL, "a bundle's command is not run without a question: --yes runs it");
}

int again_choose(struct again *r, int argc, char *argv[], int at, const char *usage, struct rc_err *err)
{
    bool named = at > 0 && strcmp(argv[at - 1], "--") == 0;
    if (named && argc - at > AGAIN_ARGUMENTS_MAX)
        return rc_err_set(err, -E2BIG, "more than %d arguments", AGAIN_ARGUMENTS_MAX);
    if (named && at < argc) {
        r->command = calloc((size_t)(argc - at) + 1, sizeof *r->command);
        if (r->command == NULL)
            return -ENOMEM;
        memcpy(r->command, argv + at, (size_t)(argc - at) * sizeof *argv);
        return 0;
    }
    if (named || at + 1 != argc)
        return rc_err_set(err, -EINVAL, "usage: rocmcrash %s", usage);
    r->bundle = argv[at];
    int code = bundle_verify(argv[at], err);
    if (code < 0)
        return code == -EINVAL ? -EBADMSG : code; /* -EINVAL is the command line's */
    code = command_of_bundle(r, argv[at], err);
    if (code == 0)
        r->bundle = NULL;
    return code == 0 ? ask(r, err) : code;
}

void again_release(struct again *r)
{
    free(r->command);
    cJSON_Delete(r->run);
}

/* --- the bundle of the run --- */

void again_adopt_orphans(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static bool find_bundle(const char *folder, char *out, size_t size)
{
    bool found = false;
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL)
        found = fnmatch("rocmcrash-*.tar.gz", entry->d_name, 0) == 0 &&
                snprintf(out, size, "%s/%s", folder, entry->d_name) < (int)size;
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

/* The finisher is ours once rocmcrash has ended. Children that have ended are reaped. */
static bool children_are_left(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid == 0;
}

int again_wait_for_bundle(const char *folder, const struct again_wait *wait, char *out, size_t size)
{
    uint64_t until = clock_mono_ns() + wait->milliseconds * NS_PER_MS;
    for (;;) {
        bool may_come = children_are_left(); /* asked first: the last of them may just have made it */
        if (find_bundle(folder, out, size))
            return 0;
        uint64_t now = clock_mono_ns();
        if (wait->go_on != NULL && !wait->go_on(wait->context) && now + AGAIN_ENDING_MS * NS_PER_MS < until)
            until = now + AGAIN_ENDING_MS * NS_PER_MS;
        if (!may_come || now > until)
            return -ETIMEDOUT;
        (void)poll(NULL, 0, 50);
    }
}
