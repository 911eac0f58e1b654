/* SPDX-License-Identifier: Apache-2.0 */
/* The story of each job for a terminal, then what they have in common. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/say.h"
#include "fleet/internal.h"

#define GROUPS_SHOWN 20
#define OUTLIERS_SHOWN 20

static void put_cause(const struct fleet_record *record, const char *label, struct buf *out)
{
    buf_printf(out, "  %-8s ", label);
    fleet_put_who(record, out);
    buf_puts(out, ": ");
    fleet_put_class(record, out);
    buf_puts(out, ", ");
    say_word(out, record->confidence[0] != '\0' ? record->confidence : "no verdict");
    if (record->sentence[0] != '\0')
        buf_puts(out, "\n           ");
    say_word(out, record->sentence);
    buf_puts(out, "\n           ");
    fleet_put_time(record->fell_us, out);
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
    fleet_put_ranks(job->missing, job->missing_count, out);
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
        fleet_put_who(record, out);
        buf_printf(out, ": %s (", fleet_role_name(record->role));
        say_word(out, record->reason);
        buf_puts(out, "), ");
        fleet_put_class(record, out);
        buf_putc(out, '\n');
    }
    if (job->count > rows)
        buf_printf(out, "              and %zu more (--rows)\n", job->count - rows);
}

static void put_groups(const struct fleet *fleet, struct buf *out)
{
    size_t same = 0, shown = 0;
    for (size_t i = 0; i < fleet->group_count; i++)
        same += fleet->groups[i].count > 1;
    if (same > 0)
        buf_puts(out, "same failures\n");
    for (size_t i = 0; i < fleet->group_count && shown < GROUPS_SHOWN; i++) {
        const struct fleet_group *group = &fleet->groups[i];
        if (group->count < 2) /* a failure that came once is in the list above */
            continue;
        shown++;
        buf_printf(out, "  %6zu  ", group->count);
        say_word(out, group->signature);
        buf_puts(out, "  ");
        fleet_put_class(&fleet->records[group->first], out);
        buf_printf(out, "  machines: %zu", group->nodes);
        if (group->from_us != FLEET_UNKNOWN) {
            buf_puts(out, "  since: ");
            fleet_put_time(group->from_us, out);
        }
        buf_putc(out, '\n');
    }
    if (same > shown)
        buf_printf(out, "          and %zu more (--json has all)\n", same - shown);
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
        fleet_put_who(record, out);
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

/* No rank of a job: there is nothing that came first, and nobody who only followed. */
static bool is_single(const struct fleet *fleet, const struct fleet_job *job)
{
    return job->count == 1 && fleet->records[job->members[0]].rank == FLEET_UNKNOWN && job->missing_count == 0;
}

static void put_single(const struct fleet_record *record, struct buf *out)
{
    buf_puts(out, "  ");
    say_word(out, record->program[0] != '\0' ? record->program : "a program");
    if (record->boot[0] != '\0') {
        buf_puts(out, " on the machine with boot id ");
        say_word(out, record->boot);
    }
    buf_puts(out, ": ");
    fleet_put_class(record, out);
    buf_puts(out, record->snapshot ? ", a snapshot" : "");
    if (record->confidence[0] != '\0' && strcmp(record->class_name, "unknown") != 0) {
        buf_puts(out, ", confidence ");
        say_word(out, record->confidence);
    }
    if (record->sentence[0] != '\0')
        buf_puts(out, "\n           ");
    say_word(out, record->sentence);
    buf_puts(out, "\n           ");
    if (record->fell_us != FLEET_UNKNOWN) {
        fleet_put_time(record->fell_us, out);
        buf_puts(out, "  ");
    }
    say_word(out, record->path);
    buf_putc(out, '\n');
}

static void put_singles(const struct fleet *fleet, struct buf *out)
{
    size_t count = 0;
    for (size_t i = 0; i < fleet->job_count; i++)
        count += is_single(fleet, &fleet->jobs[i]);
    if (count > 0)
        buf_printf(out, "%zu single run%s (no rank of a job)\n", count, count == 1 ? "" : "s");
    for (size_t i = 0; i < fleet->job_count; i++)
        if (is_single(fleet, &fleet->jobs[i]))
            put_single(&fleet->records[fleet->jobs[i].members[0]], out);
}

/* "<project1>" of two bundles may be two names. */
static void put_pseudonyms(const struct fleet *fleet, struct buf *out)
{
    size_t count = 0;
    for (size_t i = 0; i < fleet->count; i++)
        count += strchr(fleet->records[i].program, '<') != NULL;
    if (count > 1)
        buf_puts(out, "each bundle numbers its pseudonyms on its own: <project1> of two bundles may be two programs\n");
}

void fleet_to_text(const struct fleet *fleet, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < fleet->job_count; i++) {
        const struct fleet_job *job = &fleet->jobs[i];
        if (is_single(fleet, job))
            continue;
        fleet_put_heading(fleet, job, out);
        buf_putc(out, '\n');
        put_causes(fleet, job, rows, out);
        put_missing(job, out);
        put_time_line(fleet, job, rows, out);
    }
    put_singles(fleet, out);
    put_groups(fleet, out);
    put_outliers(fleet, out);
    put_pseudonyms(fleet, out);
}
