/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage_page.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "cli/bundle_files.h"

int stage_write_page(const char *stage, int stage_fd, const char *bundle_name)
{
    static struct bundle_files files;
    struct buf page = BUF_INIT;
    struct rc_err err = {""};
    int r = bundle_files_of_stage(&files, stage, bundle_name, &err);
    if (r == 0) {
        report_html(&files.view, &page);
        r = buf_failed(&page) ? -ENOMEM
                              : fs_write_file_at(stage_fd, "report.html", buf_str(&page), page.len, false);
    }
    bundle_files_release(&files);
    buf_release(&page);
    return r == -ENOENT ? 0 : r;
}

int bundle_page(const char *bundle, struct buf *out, struct rc_err *err)
{
    static struct bundle_files files;
    int r = bundle_files_of_archive(&files, bundle, err);
    if (r == 0)
        report_html(&files.view, out);
    if (r == 0 && buf_failed(out))
        r = rc_err_set(err, -ENOMEM, "no memory for the page");
    bundle_files_release(&files);
    return r;
}
