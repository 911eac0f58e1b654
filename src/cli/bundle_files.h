/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a stage or of a bundle, as report.html and issues are made of them. */
#ifndef CLI_BUNDLE_FILES_H
#define CLI_BUNDLE_FILES_H

#include "cli/stage_names.h"
#include "report/html.h"

#define BUNDLE_FILES_MAX 16

struct rc_err;

struct bundle_files {
    struct report_files view;     /* of what is owned below */
    char *texts[BUNDLE_FILES_MAX];
    struct stage_names names;
    char name[256];               /* of the bundle */
};

/* The caller releases in every case. Without SUMMARY.md -ENOENT; else 0 or -errno with *err. */
int bundle_files_of_stage(struct bundle_files *ret, const char *stage, const char *name,
                          struct rc_err *err);
int bundle_files_of_archive(struct bundle_files *ret, const char *path, struct rc_err *err);
void bundle_files_release(struct bundle_files *files);

#endif
