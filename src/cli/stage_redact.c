/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage_redact.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/redact.h"

#define STAGED_FILE_MAX ((size_t)64 << 20)
#define REPORT_NAME "redaction.json"

static int redact_file(struct redactor *redactor, const char *path, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    struct buf clean;
    buf_init(&clean, 2 * STAGED_FILE_MAX);
    ssize_t len = fs_read_all(path, STAGED_FILE_MAX, &text);
    int r = len < 0 ? (int)len : redact_text(redactor, text, (size_t)len, &clean);
    if (r == 0 && (clean.len != (size_t)len || memcmp(buf_str(&clean), text, clean.len) != 0))
        r = fs_write_file_at(AT_FDCWD, path, buf_str(&clean), clean.len, false);
    buf_release(&clean);
    return r < 0 ? rc_err_errno(err, r, "cannot redact '%s'", path) : 0;
}

static int redact_tree(struct redactor *redactor, const char *stage, struct rc_err *err)
{
    char *roots[] = {(char *)(uintptr_t)stage, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    int r = walk == NULL ? rc_err_errno(err, -errno, "cannot walk '%s'", stage) : 0;
    for (FTSENT *entry; r == 0 && (entry = fts_read(walk)) != NULL;) {
        bool own_report = entry->fts_level == 1 && strcmp(entry->fts_name, REPORT_NAME) == 0;
        if (entry->fts_info == FTS_F && !own_report)
            r = redact_file(redactor, entry->fts_path, err);
        else if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR)
            r = rc_err_errno(err, -entry->fts_errno, "cannot walk '%s'", entry->fts_path);
    }
    if (walk != NULL)
        (void)fts_close(walk);
    return r;
}

int stage_redact(const char *stage, int stage_fd, struct rc_err *err)
{
    struct redactor *redactor = redactor_new();
    struct buf report = BUF_INIT;
    int r = redactor == NULL ? -ENOMEM : redactor_add_machine(redactor);
    if (r == 0)
        r = redact_tree(redactor, stage, err);
    if (r == 0)
        r = redactor_report_json(redactor, &report);
    if (r == 0)
        r = fs_write_file_at(stage_fd, REPORT_NAME, buf_str(&report), report.len, false);
    buf_release(&report);
    redactor_free(redactor);
    return r;
}
