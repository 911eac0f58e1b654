/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the fleet. */
#ifndef FLEET_INTERNAL_H
#define FLEET_INTERNAL_H

#include "fleet/fleet.h"

struct facts;

/* role.c: why it failed, seen from the other ranks. Sets role and reason. */
void fleet_decide_role(struct fleet_record *record, const struct facts *facts);
/* jobs.c: divides the records; of one failure that left several it keeps one. 0 or -ENOMEM. */
int fleet_divide(struct fleet *fleet);
/* record.c */
void fleet_release_record(struct fleet_record *record);
/* clock.c: gives all records of a boot one offset of the wall clock, which may have been set meanwhile.
 * 0 or -ENOMEM. */
int fleet_align_clocks(struct fleet *fleet);
/* clock.c: brings the wall times of a job's machines together by events that both saw, if their clocks were
 * not compared. Sorts the members by boot. */
void fleet_align_nodes(struct fleet *fleet, struct fleet_job *job);
/* story.c: who fell first in a job whose members are known. 0 or -ENOMEM. */
int fleet_tell(struct fleet *fleet, struct fleet_job *job);
/* fleet_words.c: "2026-11-28 13:02:11.250 UTC"; "rank 3 on node 1"; "leak (or kept by design)"; "0-2, 5" of sorted ranks;
 * "job 4711 (slurm), 8 ranks: 3 bundles of 2 machines". */
void fleet_put_time(int64_t us, struct buf *out);
void fleet_put_who(const struct fleet_record *record, struct buf *out);
void fleet_put_class(const struct fleet_record *record, struct buf *out);
void fleet_put_ranks(const int64_t *ranks, size_t count, struct buf *out);
void fleet_put_heading(const struct fleet *fleet, const struct fleet_job *job, struct buf *out);
/* groups.c, outliers.c */
int fleet_group_records(struct fleet *fleet);
int fleet_find_outliers(struct fleet *fleet);

#endif
