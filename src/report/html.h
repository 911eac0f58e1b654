/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.html, made only from the files of a bundle: redacted text cannot come back, and the page can
 * be made again at any time. Pure.
 */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <stddef.h>

struct buf;

/* Texts of files; each may be NULL except `summary`. */
struct report_files {
    const char *summary;      /* SUMMARY.md */
    const char *verdict;      /* verdict.json */
    const char *facts;        /* facts.json */
    const char *telemetry;    /* telemetry/telemetry.csv */
    const char *torch_stats;  /* telemetry/torch-stats.csv */
    const char *snapshot;     /* hook/snapshot.json */
    const char *ledger;       /* ledger/ledger.json */
    const char *kernel_log;   /* kernel_log/kernel.log */
    const char *output;       /* output/stderr.txt */
    const char *rocminfo;     /* hsa/rocminfo.txt */
    const char *stacks;       /* stacks/stacks.0.txt, of the process that failed first */
    const char *bundle_name;  /* without ".tar.gz" */
    const char *tool_version;
    const char *const *names; /* of the files, "output/stderr.txt" */
    size_t name_count;
};

void report_html(const struct report_files *in, struct buf *out);

#endif
