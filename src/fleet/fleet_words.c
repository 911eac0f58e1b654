/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of sentences that the story has on a terminal and on a page. Foreign text is escaped for a terminal. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/say.h"
#include "fleet/internal.h"

void fleet_put_time(int64_t us, struct buf *out)
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

void fleet_put_who(const struct fleet_record *record, struct buf *out)
{
    if (record->rank != FLEET_UNKNOWN)
        buf_printf(out, "rank %" PRId64, record->rank);
    else
        say_word(out, record->program[0] != '\0' ? record->program : "a program");
    if (record->node_rank != FLEET_UNKNOWN) {
        buf_printf(out, " on node %" PRId64, record->node_rank);
    } else if (record->boot[0] != '\0') {
        buf_puts(out, " on the machine with boot id ");
        say_word(out, record->boot);
    }
}

void fleet_put_class(const struct fleet_record *record, struct buf *out)
{
    say_word(out, record->class_name);
    if (record->subclass[0] != '\0') {
        buf_puts(out, " (");
        say_word(out, record->subclass);
        buf_putc(out, ')');
    }
}

/* "0-2, 5" of sorted ranks. */
void fleet_put_ranks(const int64_t *ranks, size_t count, struct buf *out)
{
    for (size_t i = 0, last = 0; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1;)
            last++;
        buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "", ranks[i]);
        if (last > i)
            buf_printf(out, "-%" PRId64, ranks[last]);
    }
}

void fleet_put_heading(const struct fleet *fleet, const struct fleet_job *job, struct buf *out)
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
}
