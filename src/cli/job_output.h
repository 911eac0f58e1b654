/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a job: what is written into the bundle, and what is printed. Private to cli/job. */
#ifndef CLI_JOB_OUTPUT_H
#define CLI_JOB_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct facts;
struct impact_record;
struct job;
struct rc_err;

/* Facts of the time series: baseline, peak, impact, after, growth. */
void job_series_facts(struct job *job);

/* Stages the files that no collector writes: run, output, impacts, telemetry. */
void job_stage_run(struct job *job);

/* Stages the verdict, then redacts, writes the manifest and the archive. */
int job_write(struct job *job, const struct facts *judged, char *ret_path, size_t ret_size,
              struct rc_err *err);

/* facts.json, verdict.json and SUMMARY.md only. */
int job_write_judgement(const struct job *job, const struct facts *judged, const char *name,
                        int stage_fd, struct rc_err *err);

void job_print_verdict(const struct job *job, const struct facts *judged, const char *bundle_path);
/* The bundle's place; the whole verdict again when it was revised by what came in late. */
void job_print_bundle(struct job *job, const struct facts *judged, bool revised,
                      const char *bundle_path);
/* Until patience_end(): prints what is being done if it takes long. */
void job_be_patient(const struct job *job);

#endif
