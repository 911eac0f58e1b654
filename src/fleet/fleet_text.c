/* SPDX-License-Identifier: Apache-2.0 */
/* The story of each job for a terminal, then what they have in common. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/say.h"
#include "fleet/internal.h"

#define GROUPS_SHOWN 20
#define OUTLIERS_SHOWN 20

static void put_time(int64_t us, struct buf *out)
{
    char text[40] = "";
    time_t seconds = (time_t)(us / 1000000);
    struct tm utc;
    if (us == FLEET_UNKNOWN || us < 0 || gmtime_r(&seconds, &utc) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc) == 0) {
        buf_puts(out, "at a time that is not known");
        return;
    }
    buf_printf(out, "%s.%03d UTC", text, (int)(us / 1000 % 1000));
}

static void put_who(const struct fleet_record *record, struct buf *out)
{
    if (record->rank != FLEET_UNKNOWN)
        buf_printf(out, "rank %" PRId64, record->rank);
    else
        say_word(out, record->program[0] != '\0' ? record->program : "a program");
    if (record->node_rank != FLEET_UNKNOWN) {
        buf_printf(out, " on node %" PRId64, record->node_rank);
    } else if (record->boot[0] != '\0') {
        buf_puts(out, " on boot ");
        say_word(out, record->boot);
    }
}

static void put_class(const struct fleet_record *record, struct buf *out)
{
    say_word(out, record->class_name);
    if (record->subclass[0] != '\0') {
        buf_puts(out, " (");
        say_word(out, record->subclass);
        buf_putc(out, ')');
    }
}

/* "0-2, 5" of sorted ranks. */
static void put_ranks(const int64_t *ranks, size_t count, struct buf *out)
{
    for (size_t i = 0, last = 0; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1;)
            last++;
        buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "", ranks[i]);
        if (last > i)
            buf_printf(out, "-%" PRId64, ranks[last]);
    }
}

static void put_heading(const struct fleet *fleet, const struct fleet_job *job, struct buf *out)
{
    const struct fleet_record *any = &fleet->records[job->members[0]];
    if (any->rank == FLEET_UNKNOWN && job->count == 1) {
        buf_puts(out, "a run of ");
        say_word(out, any->program[0] != '\0' ? any->program : "a program");
    } else {
        buf_puts(out, "job");
        if (any->job[0] != '\0') {
            buf_putc(out, ' ');
            say_word(out, any->job);
        }
        if (any->launcher[0] != '\0') {
            buf_puts(out, " (");
            say_word(out, any->launcher);
            buf_putc(out, ')');
        }
    }
    if (job->world_size != FLEET_UNKNOWN)
        buf_printf(out, ", %" PRId64 " ranks", job->world_size);
    size_t bundles = job->count - job->note_count;
    buf_printf(out, ": %zu bundle%s", bundles, bundles == 1 ? "" : "s");
    if (job->note_count > 0)
        buf_printf(out, ", %zu asked to end", job->note_count);
    if (job->nodes > 0)
        buf_printf(out, " of %zu machine%s", job->nodes, job->nodes == 1 ? "" : "s");
    buf_putc(out, '\n');
}

static void put_cause(const struct fleet_record *record, const char *label, struct buf *out)
{
    buf_printf(out, "  %-8s ", label);
    put_who(record, out);
    buf_puts(out, ": ");
    put_class(record, out);
    buf_puts(out, ", ");
    say_word(out, record->confidence[0] != '\0' ? record->confidence : "no verdict");
    buf_puts(out, "\n           ");
    say_word(out, record->sentence);
    buf_puts(out, "\n           ");
    put_time(record->fell_us, out);
    buf_puts(out, "  ");
    say_word(out, record->path);
    buf_putc(out, '\n');
}

static void put_causes(const struct fleet *fleet, const struct fleet_job *job, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < job->cause_count && i < rows; i++) {
        bool first = i == 0 && job->sure != FLEET_SURE_NOT;
        put_cause(&fleet->records[job->causes[i]], first ? "first" : i == 0 ? "perhaps" : "also", out);
        if (i == 0)
            buf_printf(out, "           sure: %s; %s\n", fleet_sure_name(job->sure), job->why);
    }
    if (job->cause_count > rows)
        buf_printf(out, "           and %zu more\n", job->cause_count - rows);
    if (job->missing_cause != FLEET_UNKNOWN)
        buf_printf(out, "  first    rank %" PRId64 ", which is in no bundle\n           sure: %s; %s\n", job->missing_cause,
                   fleet_sure_name(job->sure), job->why);
    else if (job->cause_count == 0)
        buf_printf(out, "  first    not known: %s\n", job->why);
}

static void put_missing(const struct fleet_job *job, struct buf *out)
{
    if (job->missing_count == 0)
        return;
    buf_printf(out, "  missing  %zu of %" PRId64 " ranks are in no bundle: ", job->missing_count, job->world_size);
    put_ranks(job->missing, job->missing_count, out);
    buf_puts(out, "\n           they ended well, failed by an error of the program itself (no bundle is made of that),\n"
                  "           ran without rocmcrash, or their machine is gone\n");
}

static void put_time_line(const struct fleet *fleet, const struct fleet_job *job, size_t rows, struct buf *out)
{
    int64_t from = fleet->records[job->members[0]].fell_us;
    if (job->count < 2)
        return;
    buf_puts(out, "  time line\n");
    for (size_t i = 0; i < job->count && i < rows; i++) {
        const struct fleet_record *record = &fleet->records[job->members[i]];
        if (record->fell_us == FLEET_UNKNOWN || from == FLEET_UNKNOWN)
            buf_puts(out, "           ?  ");
        else
            buf_printf(out, "  %+10.3f  ", (double)(record->fell_us - from) / 1e6);
        put_who(record, out);
        buf_printf(out, ": %s (", fleet_role_name(record->role));
        say_word(out, record->reason);
        buf_puts(out, "), ");
        put_class(record, out);
        buf_putc(out, '\n');
    }
    if (job->count > rows)
        buf_printf(out, "              and %zu more (--rows)\n", job->count - rows);
}

static void put_groups(const struct fleet *fleet, struct buf *out)
{
    size_t shown = fleet->group_count < GROUPS_SHOWN ? fleet->group_count : GROUPS_SHOWN;
    if (fleet->count < 2)
        return;
    buf_puts(out, "same failures\n");
    for (size_t i = 0; i < shown; i++) {
        const struct fleet_group *group = &fleet->groups[i];
        buf_printf(out, "  %6zu  ", group->count);
        say_word(out, group->signature);
        buf_puts(out, "  ");
        put_class(&fleet->records[group->first], out);
        buf_printf(out, "  machines: %zu  since: ", group->nodes);
        put_time(group->from_us, out);
        buf_putc(out, '\n');
    }
    if (fleet->group_count > shown)
        buf_printf(out, "          and %zu more (--json has all)\n", fleet->group_count - shown);
}

static void put_outliers(const struct fleet *fleet, struct buf *out)
{
    size_t shown = fleet->outlier_count < OUTLIERS_SHOWN ? fleet->outlier_count : OUTLIERS_SHOWN;
    if (shown > 0)
        buf_puts(out, "different\n");
    for (size_t i = 0; i < shown; i++) {
        const struct fleet_outlier *odd = &fleet->outliers[i];
        const struct fleet_record *record = &fleet->records[odd->record];
        buf_puts(out, "          ");
        put_who(record, out);
        buf_puts(out, ": ");
        say_word(out, record->values[odd->value].name);
        buf_puts(out, " is ");
        say_word(out, record->values[odd->value].text);
        buf_puts(out, ", usual is ");
        say_word(out, odd->usual);
        buf_printf(out, " (%zu of %zu)\n", odd->usual_count, odd->asked);
    }
    if (fleet->outlier_count > shown)
        buf_printf(out, "          and %zu more (--json has all)\n", fleet->outlier_count - shown);
}

void fleet_to_text(const struct fleet *fleet, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < fleet->job_count; i++) {
        const struct fleet_job *job = &fleet->jobs[i];
        put_heading(fleet, job, out);
        put_causes(fleet, job, rows, out);
        put_missing(job, out);
        put_time_line(fleet, job, rows, out);
    }
    put_groups(fleet, out);
    put_outliers(fleet, out);
}
