/* SPDX-License-Identifier: Apache-2.0 */
/* report.html of the files of a stage or of a bundle. */
#ifndef CLI_STAGE_PAGE_H
#define CLI_STAGE_PAGE_H

struct buf;
struct rc_err;

/* Into the stage, whose files are redacted already. Without SUMMARY.md there is no page, and that is
 * no error. 0 or -errno. */
int stage_write_page(const char *stage, int stage_fd, const char *bundle_name);
/* Made anew: the page in a stranger's bundle is his. 0 or -errno with *err. */
int bundle_page(const char *bundle, struct buf *out, struct rc_err *err);

#endif
