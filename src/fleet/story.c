/* SPDX-License-Identifier: Apache-2.0 */
/* The rank that failed first in a job, how sure that is, and the ranks that left nothing. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/internal.h"

/* A peer that is gone is noticed when its sockets close, which is when it ends; it may be seen to fail some
 * time before that, not after. */
#define NOTICED_BEFORE_US 1000000

/* Two wall clocks that nobody compared are seldom further apart. */
#define UNCOMPARED_US 10000000

static const struct fleet_record *in_order; /* qsort() has no argument for its order */

static int by_time(const void *a, const void *b)
{
    const struct fleet_record *x = &in_order[*(const size_t *)a];
    const struct fleet_record *y = &in_order[*(const size_t *)b];
    bool known = x->fell_us != FLEET_UNKNOWN && y->fell_us != FLEET_UNKNOWN;
    if (known && x->fell_us != y->fell_us)
        return x->fell_us < y->fell_us ? -1 : 1;
    if (!known && x->fell_us != y->fell_us)
        return x->fell_us == FLEET_UNKNOWN ? 1 : -1; /* without a time: last */
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static const struct fleet_record *record_of(const struct fleet *fleet, size_t index)
{
    return &fleet->records[index];
}

/* --- who left nothing --- */

static int find_missing(const struct fleet *fleet, struct fleet_job *job)
{
    if (job->world_size <= 0 || job->world_size > FLEET_RANKS_MAX)
        return 0;
    size_t size = (size_t)job->world_size;
    unsigned char *there = calloc(size, 1);
    job->missing = calloc(size, sizeof *job->missing);
    if (there == NULL || job->missing == NULL) {
        free(there);
        return -ENOMEM;
    }
    for (size_t i = 0; i < job->count; i++) {
        int64_t rank = record_of(fleet, job->members[i])->rank;
        job->note_count += record_of(fleet, job->members[i])->is_note;
        if (rank >= 0 && rank < job->world_size)
            there[rank] = 1;
    }
    for (size_t rank = 0; rank < size; rank++)
        if (there[rank] == 0)
            job->missing[job->missing_count++] = (int64_t)rank;
    free(there);
    return 0;
}

static int by_boot(const void *a, const void *b)
{
    return strcmp(in_order[*(const size_t *)a].boot, in_order[*(const size_t *)b].boot);
}

/* job->members are sorted by boot for a moment. */
static void count_nodes(const struct fleet *fleet, struct fleet_job *job)
{
    qsort(job->members, job->count, sizeof *job->members, by_boot);
    for (size_t i = 0; i < job->count; i++) {
        const char *boot = record_of(fleet, job->members[i])->boot;
        if (boot[0] != '\0' &&
            (i == 0 || strcmp(boot, record_of(fleet, job->members[i - 1])->boot) != 0))
            job->nodes++;
    }
}

/* --- who may have begun it --- */

/* Signals that the kernel sends for what the process itself did. */
static bool died_of_itself(const struct fleet_record *record)
{
    return record->signal == SIGSEGV || record->signal == SIGBUS || record->signal == SIGFPE ||
           record->signal == SIGILL;
}

/* Ranks that write to one file have each other's words in their bundles: of those with one class only the first
 * is believed, the others may have it from that. The members are in the order of time. */
static void doubt_shared_words(struct fleet *fleet, struct fleet_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        struct fleet_record *later = &fleet->records[job->members[i]];
        bool doubt = false;
        if (later->role != FLEET_CAUSED || !later->shares_output || died_of_itself(later))
            continue;
        for (size_t k = 0; k < i && !doubt; k++) {
            const struct fleet_record *earlier = record_of(fleet, job->members[k]);
            doubt = earlier->role == FLEET_CAUSED && earlier->shares_output &&
                    strcmp(earlier->boot, later->boot) == 0 && strcmp(earlier->class_name, later->class_name) == 0;
        }
        if (doubt) {
            later->role = FLEET_UNCLEAR;
            (void)snprintf(later->reason, sizeof later->reason,
                           "its words may be those of an earlier rank: they write to one file");
        }
    }
}

/* The number of the collective in which ranks wait. A rank that had entered fewer is the one that they wait for:
 * its own library reports a time-out, too, but passes on that of another rank. */
static void find_absent(struct fleet *fleet, const struct fleet_job *job)
{
    int64_t last = FLEET_UNKNOWN;
    for (size_t i = 0; i < job->count; i++)
        if (record_of(fleet, job->members[i])->collective > last)
            last = record_of(fleet, job->members[i])->collective;
    for (size_t i = 0; i < job->count; i++) {
        struct fleet_record *record = &fleet->records[job->members[i]];
        if (record->role != FLEET_WAITED || record->collective == FLEET_UNKNOWN || record->collective == last)
            continue;
        record->role = FLEET_ELSEWHERE;
        (void)snprintf(record->reason, sizeof record->reason,
                       "its last collective was number %" PRId64 ", others wait in number %" PRId64, record->collective,
                       last);
    }
}

static void add_causes(const struct fleet *fleet, struct fleet_job *job, enum fleet_role role)
{
    for (size_t i = 0; i < job->count; i++)
        if (record_of(fleet, job->members[i])->role == role)
            job->causes[job->cause_count++] = job->members[i];
}

static bool has_role(const struct fleet *fleet, const struct fleet_job *job, enum fleet_role role)
{
    for (size_t i = 0; i < job->count; i++)
        if (record_of(fleet, job->members[i])->role == role)
            return true;
    return false;
}

static bool is_clearly_before(const struct fleet_record *a, const struct fleet_record *b, int64_t margin_us)
{
    int64_t between, error;
    return fleet_between(a, b, &between, &error) && error != FLEET_UNKNOWN && between > error + margin_us;
}

/* Launchers send SIGKILL to the ranks that are left. One that came clearly before every failure was no such. */
static void take_killed(const struct fleet *fleet, struct fleet_job *job)
{
    size_t own = job->cause_count;
    for (size_t i = 0; i < job->count; i++) {
        const struct fleet_record *killed = record_of(fleet, job->members[i]);
        bool earlier = killed->role == FLEET_KILLED;
        for (size_t k = 0; earlier && k < own; k++)
            earlier = is_clearly_before(killed, record_of(fleet, job->causes[k]), 0);
        if (earlier)
            job->causes[job->cause_count++] = job->members[i];
    }
}

/* All others gave up waiting, or lost one that had; this one was still there when it was asked to end. It entered
 * the collective last or never: one that had waited with the others would have given up with them. */
static void take_last_one_there(const struct fleet *fleet, struct fleet_job *job)
{
    size_t ended = 0;
    for (size_t i = 0; i < job->count; i++) {
        enum fleet_role role = record_of(fleet, job->members[i])->role;
        ended += role == FLEET_ENDED;
        if (role != FLEET_ENDED && role != FLEET_WAITED && role != FLEET_LOST_PEER)
            return;
    }
    if (ended == 1 && job->missing_count == 0)
        add_causes(fleet, job, FLEET_ENDED);
}

/* All others waited for another rank or lost it, and only one can be that. */
static void take_only_missing(const struct fleet *fleet, struct fleet_job *job)
{
    if (job->missing_count != 1)
        return;
    for (size_t i = 0; i < job->count; i++) {
        enum fleet_role role = record_of(fleet, job->members[i])->role;
        if (role != FLEET_WAITED && role != FLEET_LOST_PEER)
            return;
    }
    job->missing_cause = job->missing[0];
}

static void take_causes(const struct fleet *fleet, struct fleet_job *job)
{
    add_causes(fleet, job, FLEET_CAUSED);
    take_killed(fleet, job);
    if (job->cause_count == 0 && has_role(fleet, job, FLEET_WAITED))
        add_causes(fleet, job, FLEET_ELSEWHERE);
    if (job->cause_count == 0 && has_role(fleet, job, FLEET_WAITED))
        take_last_one_there(fleet, job);
    if (job->cause_count == 0)
        add_causes(fleet, job, FLEET_UNCLEAR);
    take_only_missing(fleet, job);
    if (job->cause_count > 0)
        qsort(job->causes, job->cause_count, sizeof *job->causes, by_time);
}

/* --- how sure that is --- */

static void say_rank(char *out, size_t size, const struct fleet_record *record)
{
    if (record->rank != FLEET_UNKNOWN)
        (void)snprintf(out, size, "rank %" PRId64, record->rank);
    else
        (void)snprintf(out, size, "pid %" PRId64, record->pid == FLEET_UNKNOWN ? 0 : record->pid);
}

static void without_a_cause(const struct fleet *fleet, struct fleet_job *job)
{
    bool waited = has_role(fleet, job, FLEET_WAITED) || has_role(fleet, job, FLEET_LOST_PEER);
    job->sure = job->missing_cause != FLEET_UNKNOWN ? FLEET_SURE_LOW : FLEET_SURE_NOT;
    if (job->missing_cause != FLEET_UNKNOWN)
        (void)snprintf(job->why, sizeof job->why, "every other rank waited for another one or lost it");
    else if (waited && job->missing_count > 0)
        (void)snprintf(job->why, sizeof job->why,
                       "every rank that left a bundle waited for another one or lost it: it is one of those that left none");
    else if (waited && has_role(fleet, job, FLEET_ENDED))
        (void)snprintf(job->why, sizeof job->why,
                       "every rank that failed waited for another one or lost it; the others were asked to end before they said anything");
    else if (waited)
        (void)snprintf(job->why, sizeof job->why,
                       "every rank waited for another one or lost it: compare which collective each of them was in");
    else if (job->note_count == job->count)
        (void)snprintf(job->why, sizeof job->why,
                       job->missing_count > 0 ? "every rank that left something was asked to end"
                                              : "every rank was asked to end");
    else
        (void)snprintf(job->why, sizeof job->why, "no failure of its own is known");
}

/* The order of the first two causes. */
static void order_of_causes(const struct fleet *fleet, struct fleet_job *job)
{
    const struct fleet_record *first = record_of(fleet, job->causes[0]);
    for (size_t i = 1; i < job->cause_count; i++) {
        const struct fleet_record *other = record_of(fleet, job->causes[i]);
        int64_t between = 0, error = FLEET_UNKNOWN;
        char rank[32];
        say_rank(rank, sizeof rank, other);
        bool known = fleet_between(first, other, &between, &error);
        enum fleet_sure sure = !known                              ? FLEET_SURE_NOT
                               : error == FLEET_UNKNOWN            ? between > UNCOMPARED_US ? FLEET_SURE_LOW : FLEET_SURE_NOT
                               : between > error                   ? job->sure
                                                                   : FLEET_SURE_NOT;
        if (i > 1 && sure >= job->sure)
            continue;
        const char *clocks = !known                   ? "the time of one is not known"
                             : error == FLEET_UNKNOWN ? "by the clocks of two machines, which nobody compared"
                             : error == 0             ? "on one clock"
                             : first->is_aligned      ? "by what both machines saw of the others' ends"
                                                      : "by clocks that agree well enough";
        if (known && error > 0 && sure == FLEET_SURE_NOT)
            clocks = "by clocks that may be further apart than that";
        job->sure = sure < job->sure ? sure : job->sure;
        (void)snprintf(job->why, sizeof job->why,
                       "%zu ranks failed by themselves; this one %.3f s before %s, %s", job->cause_count,
                       (double)between / 1e6, rank, clocks);
    }
}

/* A rank that had lost its peer before the first cause fell lost another one. */
static void look_for_earlier_loss(const struct fleet *fleet, struct fleet_job *job)
{
    const struct fleet_record *first = record_of(fleet, job->causes[0]);
    for (size_t i = 0; i < job->count; i++) {
        const struct fleet_record *other = record_of(fleet, job->members[i]);
        if (other->role != FLEET_LOST_PEER || !is_clearly_before(other, first, NOTICED_BEFORE_US))
            continue;
        char rank[32];
        size_t len = strlen(job->why);
        say_rank(rank, sizeof rank, other);
        job->sure = FLEET_SURE_LOW;
        (void)snprintf(job->why + len, sizeof job->why - len,
                       "; but %s had lost a peer before: a rank that left no bundle may have gone first", rank);
        return;
    }
}

/* A rank that left nothing may have failed first, by an error of the program itself: no bundle is made of that. */
static void decide_sure(const struct fleet *fleet, struct fleet_job *job)
{
    if (job->cause_count == 0) {
        without_a_cause(fleet, job);
        return;
    }
    enum fleet_role role = record_of(fleet, job->causes[0])->role;
    bool weak = role == FLEET_UNCLEAR || role == FLEET_ENDED || job->missing_count > 0;
    job->sure = weak ? FLEET_SURE_LOW : FLEET_SURE;
    (void)snprintf(job->why, sizeof job->why, "%s",
                   job->count == 1            ? "it is the only one that left a bundle"
                   : role == FLEET_ELSEWHERE  ? "it is the only one that was not in the collective in which others waited"
                   : role == FLEET_ENDED      ? "all others gave up waiting; it was still there when it was asked to end"
                   : role == FLEET_UNCLEAR    ? "it is the earliest, and the cause of its failure is not known"
                   : job->missing_count > 0   ? "of the ranks that left a bundle, it is the only one whose failure no other one explains"
                                              : "it is the only one whose failure no other rank explains");
    if (role == FLEET_ELSEWHERE && job->cause_count > 1) {
        job->sure = FLEET_SURE_NOT;
        (void)snprintf(job->why, sizeof job->why, "%zu ranks were not in the collective in which others waited",
                       job->cause_count);
    } else if (job->cause_count > 1) {
        order_of_causes(fleet, job);
    }
    look_for_earlier_loss(fleet, job);
}

int fleet_tell(struct fleet *fleet, struct fleet_job *job)
{
    in_order = fleet->records;
    job->missing_cause = FLEET_UNKNOWN;
    job->causes = calloc(job->count, sizeof *job->causes);
    if (job->causes == NULL || find_missing(fleet, job) < 0)
        return -ENOMEM;
    count_nodes(fleet, job);
    fleet_align_nodes(fleet, job);
    qsort(job->members, job->count, sizeof *job->members, by_time);
    doubt_shared_words(fleet, job);
    find_absent(fleet, job);
    take_causes(fleet, job);
    decide_sure(fleet, job);
    return 0;
}

int fleet_merge(struct fleet *fleet)
{
    int r = fleet_align_clocks(fleet);
    if (r == 0)
        r = fleet_divide(fleet);
    for (size_t i = 0; r == 0 && i < fleet->job_count; i++)
        r = fleet_tell(fleet, &fleet->jobs[i]);
    if (r == 0)
        r = fleet_group_records(fleet);
    return r == 0 ? fleet_find_outliers(fleet) : r;
}
