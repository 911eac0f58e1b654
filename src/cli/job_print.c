/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a job for the user: the verdict, the place of the bundle, and what it is busy with. The
 * program may have left the cursor within a line, and the terminal in raw mode.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/say.h"
#include "cli/job.h"
#include "cli/job_output.h"
#include "cli/patience.h"
#include "cli/terminal.h"
#include "report/report.h"

#define NO_ISSUE "no issue is needed" /* so begins where to file one that nobody needs */

/* Does the text end in a line? Escape sequences after its last newline move nothing. */
static bool ends_in_line(const char *text, size_t len)
{
    while (len > 0) {
        size_t at = len;
        while (at > 0 && text[at - 1] != '\x1b' && len - at < 16)
            at--;
        bool sequence = at > 0 && len - at >= 2 && text[at - 1] == '\x1b' && text[at] == '[' &&
                        strcspn(text + at + 1, "\n") >= len - at - 1 &&
                        strspn(text + at + 1, "0123456789;?") == len - at - 2;
        if (!sequence)
            return text[len - 1] != '\n';
        len = at - 1;
    }
    return false;
}

/* On a terminal stdout may have left it there too, which nobody has seen: an empty line is no harm. */
static void leave_line(const struct job *job, const struct report_style *style)
{
    if (isatty(STDOUT_FILENO) || ends_in_line(job->info.output, job->info.output_len))
        (void)fputs(style->line_end, stdout);
}

void job_print_verdict(const struct job *job, const struct facts *judged, const char *bundle_path)
{
    struct buf text = BUF_INIT;
    struct report_style style = terminal_style(STDOUT_FILENO, job->options->colour);
    struct report_input input = {
        .facts = judged, .verdict = &job->verdict, .tool_version = ROCMCRASH_VERSION};
    report_terminal(&input, bundle_path, &style, &text);
    if (!job->has_printed)
        leave_line(job, &style);
    (void)fputs(buf_str(&text), stdout);
    (void)fflush(stdout);
    buf_release(&text);
}

/* In the current folder? */
static bool lies_here(const char *path)
{
    char here[FS_PATH_MAX];
    const char *name = strrchr(path, '/');
    return name != NULL && getcwd(here, sizeof here) != NULL &&
           strlen(here) == (size_t)(name - path) && strncmp(path, here, (size_t)(name - path)) == 0;
}

/* The summary says what else to attach. */
static void put_tracker(const char *file_at, struct buf *out)
{
    if (file_at == NULL)
        return;
    const char *attach = strstr(file_at, "attach: ");
    size_t len = attach != NULL ? (size_t)(attach - file_at) : strlen(file_at);
    while (len > 0 && strchr("; ", file_at[len - 1]) != NULL)
        len--;
    buf_append(out, file_at, len);
}

void job_print_bundle(struct job *job, const struct facts *judged, bool revised,
                      const char *bundle_path)
{
    struct report_style style = terminal_style(STDOUT_FILENO, job->options->colour);
    if (revised) {
        struct buf text = BUF_INIT;
        report_terminal_line("", "with everything read, the verdict is another:", &style, &text);
        (void)fputs(buf_str(&text), stdout);
        buf_release(&text);
        job_print_verdict(job, judged, NULL);
    }
    struct buf line = BUF_INIT;
    buf_puts(&line, "rocmcrash: bundle: ");
    say_word(&line, bundle_path);
    buf_puts(&line, style.line_end);
    bool wants_issue = job->verdict.file_at == NULL || strncmp(job->verdict.file_at, NO_ISSUE, sizeof NO_ISSUE - 1) != 0;
    if (job->options->privacy.preview) { /* whether it stays is asked first */
        (void)fputs(buf_str(&line), stdout);
        (void)fflush(stdout);
        buf_release(&line);
        return;
    }
    /* Without its name these verbs take the newest bundle of the current folder. */
    report_terminal_line("next: ",
                         !lies_here(bundle_path) && wants_issue
                             ? "'rocmcrash show BUNDLE' prints it, 'rocmcrash open BUNDLE' draws it, "
                               "'rocmcrash issue BUNDLE' writes the report"
                         : !lies_here(bundle_path) ? "'rocmcrash show BUNDLE' prints it, 'rocmcrash open BUNDLE' draws it"
                         : wants_issue             ? "'rocmcrash show' prints it, 'rocmcrash open' draws it, "
                                         "'rocmcrash issue' writes the report"
                                                   : "'rocmcrash show' prints it, 'rocmcrash open' draws it",
                         &style, &line);
    struct buf tracker = BUF_INIT;
    put_tracker(job->verdict.file_at, &tracker);
    if (tracker.len > 0)
        report_terminal_line("report at: ", buf_str(&tracker), &style, &line);
    buf_release(&tracker);
    (void)fputs(buf_str(&line), stdout);
    buf_release(&line);
    (void)fflush(stdout);
}

void job_be_patient(const struct job *job)
{
    struct report_style style = terminal_style(STDOUT_FILENO, job->options->colour);
    unsigned most_s = (job->options->finish_within_ms + job->options->hash_budget_ms) / 1000;
    char text[96];
    struct buf line = BUF_INIT;
    if (job->options->quiet)
        return;
    (void)snprintf(text, sizeof text, "reading versions and hashing model files, at most %u s; Ctrl-C skips the rest", most_s);
    report_terminal_line("", text, &style, &line);
    patience_begin(buf_str(&line));
    buf_release(&line);
}
