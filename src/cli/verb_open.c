/* SPDX-License-Identifier: Apache-2.0 */
/* `open BUNDLE`: its page in the user's browser. The bundle may be a stranger's, so the page is made
 * anew of its data. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "cli/input.h"
#include "cli/option.h"
#include "cli/outcome.h"
#include "cli/stage_page.h"
#include "cli/verbs.h"

#define BROWSER_FAILS_MS 2000
#define PAGE_OLD_S 86400

struct open_line {
    const char *output;
    bool print, json, help;
};

static const struct option_def open_options[] = {
    {"output", 'o', "FILE", "write the page there; - is stdout",
     option_text, offsetof(struct open_line, output)},
    {"print", 0, NULL, "print where the page is; start no browser",
     option_on, offsetof(struct open_line, print)},
    {"json", 0, NULL, "print where the page is as a JSON object; start no browser",
     option_on, offsetof(struct open_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct open_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* A page is a copy that can be made anew: those of earlier days go. */
static void remove_old_pages(const char *folder)
{
    char pattern[FS_PATH_MAX];
    glob_t found;
    int n = snprintf(pattern, sizeof pattern, "%s/rocmcrash-page-??????.html", folder);
    if (n < 0 || (size_t)n >= sizeof pattern || glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat st;
        if (lstat(found.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
            time(NULL) - st.st_mtime > PAGE_OLD_S)
            (void)unlink(found.gl_pathv[i]);
    }
    globfree(&found);
}

/* A file of the user's alone, below TMPDIR. The browser reads it after we have ended, so that only a
 * later call can remove it. */
static int temporary_page(char *path, size_t size)
{
    const char *named = getenv("TMPDIR");
    const char *folder = named != NULL && named[0] == '/' ? named : "/tmp";
    int n = snprintf(path, size, "%s/rocmcrash-page-XXXXXX.html", folder);
    if (n < 0 || (size_t)n >= size)
        return -ENAMETOOLONG;
    remove_old_pages(folder);
    int fd = mkostemps(path, 5, O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool has_desktop(void)
{
    return getenv("DISPLAY") != NULL || getenv("WAYLAND_DISPLAY") != NULL ||
           getenv("BROWSER") != NULL;
}

/* xdg-open may be the browser itself and end with it: what has not failed by then is taken as shown. */
static bool has_started(pid_t pid)
{
    int status = -1;
    pid_t ended = 0;
    for (int ms = 0; pid > 0 && ms < BROWSER_FAILS_MS && ended == 0; ms += 10) {
        (void)poll(NULL, 0, 10);
        ended = waitpid(pid, &status, WNOHANG);
    }
    return pid > 0 && (ended == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

/* In a session of its own: it goes on when we and our terminal are gone. */
static bool start_browser(const char *path)
{
    pid_t pid = has_desktop() ? fork() : -1;
    if (pid == 0) {
        (void)setsid();
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) {
            (void)dup2(null, STDIN_FILENO);
            (void)dup2(null, STDOUT_FILENO);
            (void)dup2(null, STDERR_FILENO);
        }
        (void)execlp("xdg-open", "xdg-open", path, (char *)NULL);
        _exit(127);
    }
    return has_started(pid);
}

static int write_page(int fd, const struct buf *page, const char *path, struct rc_err *err)
{
    int r = fd < 0 ? fd : fs_write_all(fd, buf_str(page), page->len);
    return r < 0 ? rc_err_errno(err, r, "cannot write '%s'", path) : 0;
}

static int open_page(const struct open_line *line, const struct buf *page, struct outcome *outcome,
                     struct rc_err *err)
{
    char path[FS_PATH_MAX];
    if (line->output != NULL && strcmp(line->output, "-") == 0)
        return write_page(STDOUT_FILENO, page, "stdout", err);
    if (line->output != NULL)
        (void)snprintf(path, sizeof path, "%s", line->output);
    RC_AUTO_CLOSE int fd = line->output == NULL
                               ? temporary_page(path, sizeof path)
                               : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = write_page(fd < 0 && line->output != NULL ? -errno : fd, page, path, err);
    if (r < 0)
        return r;
    bool shown = line->output == NULL && !line->print && !line->json && start_browser(path);
    outcome_text(outcome, "page", path);
    if (line->json)
        return 0;
    if (shown)
        (void)say_whole(stdout, "rocmcrash: the browser shows: %s", path);
    else
        (void)say_whole(stdout, "rocmcrash: open this in a browser: %s", path);
    return 0;
}

int verb_open(int argc, char *argv[])
{
    struct open_line line = {.output = NULL};
    struct rc_err err = {""};
    struct buf page = BUF_INIT;
    int at = options_parse_around(open_options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        help_text("Usage: rocmcrash open [OPTIONS] [BUNDLE]\n\n"
                  "Shows a bundle as a page in the browser. The page is one file and fetches\n"
                  "nothing; each bundle holds it, too, as report.html. Without BUNDLE: the\n"
                  "newest one in this folder.\n\nOptions:\n");
        options_help(open_options);
        return VERB_EXIT_OK;
    }
    static const char usage[] = "rocmcrash open [OPTIONS] [BUNDLE]";
    if (at >= 0 && line.json && line.output != NULL && strcmp(line.output, "-") == 0)
        at = rc_err_set(&err, -EINVAL, "stdout cannot have both: the page (--output=-) and JSON");
    RC_AUTO_FREE char *newest = NULL;
    const char *path = input_one_bundle(argc, argv, at, usage, &err, &newest);
    if (path == NULL)
        return input_status_of_none(argc, at);
    struct outcome outcome;
    outcome_begin(&outcome, "open", line.json);
    outcome_bundle(&outcome, path);
    int r = bundle_page(path, &page, &err);
    if (r == 0)
        r = open_page(&line, &page, &outcome, &err);
    if (r == 0)
        verb_tell_damage(path);
    buf_release(&page);
    return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, path, &err);
}
