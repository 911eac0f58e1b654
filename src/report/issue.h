/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a bundle -> the text of an issue, in the sections of a tracker's form. Pure. */
#ifndef REPORT_ISSUE_H
#define REPORT_ISSUE_H

struct buf;
struct cJSON;
struct report_files;

/* `tracker`: one of templates/trackers.json. */
void issue_title(const struct report_files *in, const struct cJSON *tracker, struct buf *out);
void issue_body(const struct report_files *in, const struct cJSON *tracker, struct buf *out);
/* The address of the form, with the title and each field that has an id and still fits; empty if
 * the tracker has no form on the web. */
void issue_link(const struct report_files *in, const struct cJSON *tracker, struct buf *out);
/* The private things that the issue makes public, one a line ("the command line: python3 train.py"). */
void issue_makes_public(const struct report_files *in, const struct cJSON *tracker,
                        struct buf *out);
/* The tracker that the verdict's file_at names, else the last one of the list. NULL: the list is empty. */
const struct cJSON *issue_tracker(const struct report_files *in, const struct cJSON *trackers);

#endif
