/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a campaign in words, as a table and as JSON. Pure. */
#ifndef EXPERIMENT_CONCLUSION_H
#define EXPERIMENT_CONCLUSION_H

#include "experiment/campaign.h"
#include "experiment/changes.h"

struct buf;
struct cJSON;

enum conclusion_status {
    CONCLUSION_CONFIRMED,      /* a change helps */
    CONCLUSION_REFUTED,        /* the verdict's cause was taken away, and the failure stays */
    CONCLUSION_NO_HELP,        /* no change helps */
    CONCLUSION_UNDECIDED,
    CONCLUSION_NOT_REPRODUCED, /* no run of the unchanged command failed */
};

/* Cell i of the campaign is changes.change[i - 1]. */
struct experiment {
    struct campaign campaign;
    struct changes changes;
    char class_name[32]; /* verdict of the failing run, "" = none failed */
    const char *measure; /* the unit of progress: "bytes allocated", "lines printed", "seconds" */
    bool interrupted;
    double seconds;      /* the whole campaign, with the time for bundles */
};

struct conclusion {
    enum conclusion_status status;
    int cell;            /* the cell that decides, 0 = none */
    char class_name[32]; /* the failure's new class, "" = unchanged */
    char sentence[600];  /* begins with "confirmed: ", "refuted: ", ... */
};

const char *conclusion_name(enum conclusion_status status);
void experiment_conclude(const struct experiment *e, struct conclusion *ret);
/* Markdown, one row for each cell: change, runs, failures, finding, cost. */
/* Has any change been shown to do something, or nothing? Without a finding none can be wrong. */
bool experiment_has_finding(const struct experiment *e);
void experiment_table(const struct experiment *e, struct buf *out);
/* "0 of 6 runs failed" and the failure rates that this leaves possible, for a cell. */
void experiment_words(const struct experiment *e, size_t cell, char *out, size_t size);
/* The finding of a cell: "cures", "refuted", "postpones by 2 %". */
void experiment_finding(const struct experiment *e, size_t cell, char *out, size_t size);
struct cJSON *experiment_to_json(const struct experiment *e, const struct conclusion *conclusion);

#endif
