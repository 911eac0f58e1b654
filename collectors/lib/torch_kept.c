/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/torch_kept.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

#define MARKS_MAX 64
#define MARKS_MIN 3
#define LOADED 0.1    /* share of the bytes handed out after which the program is loaded. [eng] */
#define LOADS 0.95   /* of the bytes handed out are in use while a program loads. [eng] */
#define LAST_AT 0.5   /* marks that end earlier tell nothing about the end */
#define LAST_MAX 0.85 /* a step may last from there to the failure, and its blocks are not kept ones.
                       * [eng] */
/* Blocks that take the place of others of their size make a few percent; more if nearly all bytes handed
 * out belong to steps. [lab] */
#define REPLACED 0.05
#define REPLACED_BY_STEPS 0.2
#define MOSTLY_STEPS 0.88
/* By so much of the growth of kept memory, memory whose blocks go and come may grow beside it. In the
 * laboratory 6 of 20 programs that need more and keep nothing exceed it, and 2 of 133 leaks. [lab] */
#define RETAKEN 0.25
/* Memory in use = bytes handed out a second x seconds that they stay. If it grows because of larger demand,
 * the same number of bytes is handed out in less and less time: in the last quarter this much less than in
 * the first. A leak does not change that time (275 of 281 leaks of the laboratory). Steps that take longer
 * because they do more hide the effect. [lab] */
#define FASTER 0.12
#define QUARTERS 4
#define LESS 0.99
#define FASTER_MAX 100
/* In its middle, steady growth has reached at least this share of a straight line. Blocks that live long,
 * but not for ever, are few at first and many at the end. [lab] */
#define STEADY 0.42
/* A cache that fills grows less and less. In the middle a leak has not reached this share of all its growth. [lab] */
#define FILLED 0.85

/* Growth that begins late has reached less in its middle. It is kept for good, too, if the rest of what is in use
 * stays as large (it grows by less than this share of the growth), and hardly anything that outlived some steps has
 * gone: if blocks lived longer and longer, both would grow. [lab] */
#define LATE_STEADY 0.25
#define REST_GROWS 0.2
#define HARDLY_GOES 0.01
#define REST_FROM 0.25 /* of the run: the rest is compared before and after half of it */
#define REST_MARKS_MIN 2 /* of each half: one mark alone may have been in the middle of a step */
#define REST_UNTIL 0.8 /* later blocks have had no time to go */

/* A leak may begin after half of the run (an error path, an evaluation, a client that hangs): what was in use at the
 * earlier marks is gone but for this share of the later growth, and from there on the kept memory lies on a line. [lab] */
#define FLAT 0.02
#define BEGINS_FROM 0.25 /* of the run: before that it was level long enough to be called so. [eng] */
#define OFF_LINE 0.15   /* of the growth: so far the marks may lie from the line. [lab] */
#define LIVED_LONG 0.05 /* of the growth: so much may have outlived some steps and gone. [lab] */
#define LATE_MARKS_MIN 2 /* two marks make a line, and it must meet the level where the growth began */
#define LATE_UNTIL 0.95 /* of the run: steps have come and gone since, so the last one is short. [lab] */
#define LATE_FREED 0.8 /* of what was handed out since: else it is one long step, or a load. [lab] */

/* The hook saw the release of at least this share of the blocks handed out since a mark: then what it calls kept
 * is kept, and is not another block in the same place. [lab] */
#define WATCHED 0.4
/* Blocks of a mark that were in use at all looks of some steps (until 0.72 of the run at most), and went then. At least
 * this share of the growth of what is kept: it is memory that lives long, but not for ever. None of 70 watched leaks of
 * the laboratory has it, 11 of 19 watched programs that need more. [lab] */
#define WENT_LATER 0.09
#define TIME_TO_GO 0.44
#define OUTLASTED_MIN 4 /* marks. [eng] */

struct mark {
    double time; /* ns */
    double at;   /* share of the bytes handed out */
    double kept, in_use;
    double watched; /* share of the blocks handed out since whose release was seen; 0: older hooks do not say */
    double went_later; /* bytes that were in use at all looks of some steps, and are gone now; -1: not known */
    double replaced; /* of the blocks still in use some steps later: the share that is gone now */
    double outlasted; /* bytes that were in use until the next look, some steps later; -1: not known */
    double passing;  /* bytes that have been in use at any time since, in blocks that went; -1: not known */
};

struct marks {
    struct mark first; /* before those of the load are dropped */
    size_t count;
    struct mark of[MARKS_MAX];
};

static double cell(const cJSON *row, int index)
{
    const cJSON *item = cJSON_GetArrayItem(row, index);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 ? item->valuedouble : -1;
}

/* Memory of a step is freed with it, and permanently kept memory is never freed. Memory that
 * outlives some steps and is freed then is neither: a bounded cache, a conversation. */
static double replaced_share(double outlived, double now)
{
    return outlived > now ? (outlived - now) / outlived : 0;
}

/* Memory in use has not been below `floor` since the mark: what is not kept of it was in other blocks each time. */
static double passing_bytes(double kept, double floor)
{
    return floor <= 0 ? -1 : floor > kept ? floor - kept : 0;
}

static double went_later(double outlived, double kept)
{
    return outlived < 0 ? -1 : fmax(0, outlived - kept);
}

/* Until then the program loads: nothing is freed. If releases were watched it is known what was freed later. */
static bool is_loading(const struct mark *m, double handed_out)
{
    return (m->watched >= WATCHED ? m->kept : m->in_use) > LOADS * m->at * handed_out;
}

/* [ns, device, bytes handed out, in use, of these kept at all later marks, in use now, outlived,
 * what in use has not been below since, outlived at all looks, percent watched, in use until the next look: older hooks do
 * not say the last ones] */
static void read_marks(const cJSON *rows, int device, double handed_out, double until, struct marks *ret)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        struct mark m = {cell(row, 0), cell(row, 2) / handed_out, cell(row, 4), cell(row, 3),
                         fmax(0, cell(row, 9)) / 100, went_later(cell(row, 8), cell(row, 4)),
                         replaced_share(cell(row, 6), cell(row, 5)), cell(row, 10),
                         passing_bytes(cell(row, 4), cell(row, 7))};
        if ((int)cell(row, 1) != device || m.at < LOADED || m.at > until || m.kept < 0 ||
            m.kept > m.in_use || ret->count == MARKS_MAX ||
            (ret->count > 0 && m.at <= ret->of[ret->count - 1].at))
            continue;
        ret->of[ret->count++] = m;
    }
    size_t loads = 0;
    ret->first = ret->of[0];
    while (loads + MARKS_MIN < ret->count && is_loading(&ret->of[loads], handed_out))
        loads++;
    ret->count -= loads;
    memmove(ret->of, ret->of + loads, ret->count * sizeof *ret->of);
}

/* On the line through the marks. */
static double on_line(const struct marks *m, double at, double (*of)(const struct mark *))
{
    size_t i = 1;
    while (i + 1 < m->count && m->of[i].at < at)
        i++;
    const struct mark *a = &m->of[i - 1];
    const struct mark *b = &m->of[i];
    return of(a) + (of(b) - of(a)) * (at - a->at) / (b->at - a->at);
}

static double kept_of(const struct mark *m)
{
    return m->kept;
}

static double time_of(const struct mark *m)
{
    return m->time;
}

/* How much longer the first quarter took than the last; 0 if any quarter took hardly less time than the one
 * before. */
static double faster(const struct marks *m)
{
    const double first = m->of[0].at;
    const double quarter = (m->of[m->count - 1].at - first) / QUARTERS;
    double of_first = 0;
    double before = 0;
    if (m->count <= QUARTERS)
        return 0;
    for (int i = 0; i < QUARTERS; i++) {
        double took = on_line(m, first + (i + 1) * quarter, time_of) - on_line(m, first + i * quarter, time_of);
        if (took <= 0 || (i > 0 && took > LESS * before))
            return 0;
        of_first = i == 0 ? took : of_first;
        before = took;
    }
    return of_first / before - 1;
}

static int larger_first(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x < y) - (x > y);
}

/* One mark alone may have been in the middle of a long step. */
static double second_largest(double *of_marks, size_t count)
{
    if (count < 2)
        return 0;
    qsort(of_marks, count, sizeof *of_marks, larger_first);
    return of_marks[1];
}

static double replaced_of(const struct marks *m)
{
    double shares[MARKS_MAX];
    for (size_t i = 0; i < m->count; i++)
        shares[i] = m->of[i].replaced;
    return second_largest(shares, m->count);
}

/* How much more passes through at a time than at the first mark, as a share of the growth of kept memory. */
static double retaken_of(const struct marks *m, double grown)
{
    double more[MARKS_MAX];
    double first = -1;
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        double passing = m->of[i].passing;
        if (passing >= 0 && first < 0)
            first = passing;
        else if (passing >= 0)
            more[count++] = passing - first;
    }
    double second = second_largest(more, count);
    return grown > 0 && second > 0 ? second / grown : 0;
}

/* The mean of the last two such marks that have had time to show it. */
static double went_later_of(const struct marks *m)
{
    double last = 0;
    double before = 0;
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->of[i].went_later < 0 || m->of[i].at > TIME_TO_GO)
            continue;
        before = last;
        last = m->of[i].went_later;
        count++;
    }
    return count > 1 ? (before + last) / 2 : last;
}

/* If every step makes its blocks anew, only those of the model outlast a step, and they are as many at each mark. */
static double outlasting_of(const struct marks *m)
{
    double least = INFINITY;
    double most = -1;
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->of[i].outlasted < 0)
            continue;
        least = fmin(least, m->of[i].outlasted);
        most = fmax(most, m->of[i].outlasted);
        count++;
    }
    return count >= OUTLASTED_MIN ? most - least : -1;
}

static double watched_of(const struct marks *m)
{
    double least = 1;
    for (size_t i = 0; i < m->count; i++)
        least = fmin(least, m->of[i].watched);
    return least;
}

/* How much more was in use after half of the run than before, in blocks that went; INFINITY: not known. */
static double rest_growth(const struct marks *m)
{
    double sum[2] = {0};
    size_t count[2] = {0};
    for (size_t i = 0; i < m->count; i++) {
        const struct mark *mark = &m->of[i];
        bool late = mark->at > LAST_AT;
        if (mark->at < REST_FROM || mark->at > REST_UNTIL)
            continue;
        sum[late] += mark->in_use - mark->kept;
        count[late]++;
    }
    if (count[0] < REST_MARKS_MIN || count[1] < REST_MARKS_MIN)
        return INFINITY;
    return sum[1] / (double)count[1] - sum[0] / (double)count[0];
}

static bool only_kept_grew(const struct marks *m, double grown)
{
    return watched_of(m) >= WATCHED && went_later_of(m) < HARDLY_GOES * grown &&
           rest_growth(m) < REST_GROWS * grown;
}

/* Did memory of these marks outlive some steps and go? Equal addresses at two marks say nothing of that: a step gets
 * those of the step before. */
static bool lived_long(const struct marks *m, size_t level, double grown)
{
    double most = 0;
    for (size_t i = 0; i <= level; i++)
        most = fmax(most, m->of[i].went_later);
    return most > LIVED_LONG * grown;
}

/* Has the rest been as large before the mark as it is later? */
static bool rest_was_as_large(const struct marks *m, size_t level, double grown)
{
    double most = 0;
    double later = 0;
    for (size_t i = 0; i < m->count; i++) {
        double rest = m->of[i].in_use - m->of[i].kept;
        if (i <= level)
            most = fmax(most, rest);
        else
            later += rest / (double)(m->count - 1 - level);
    }
    return later <= most + FLAT * grown;
}

/* When a leak began late, as a share of the run; 0: none did. Beside what is asked here, nothing that outlived some steps
 * may have gone later, and steps must have come and gone since. */
static double began_late(const struct marks *m, double grown)
{
    const struct mark *last = &m->of[m->count - 1];
    size_t level = 0;
    for (size_t i = 0; i < m->count; i++)
        level = m->of[i].kept <= m->of[0].kept + FLAT * grown ? i : level;
    if (grown <= 0 || m->of[level].at < BEGINS_FROM || m->count - 1 - level < LATE_MARKS_MIN)
        return 0;
    const struct mark *next = &m->of[level + 1];
    double slope = (last->kept - next->kept) / (last->at - next->at);
    double start = slope > 0 ? next->at - (next->kept - m->of[0].kept) / slope : 0;
    double off = OFF_LINE * (slope > 0 ? grown / slope : 0);
    if (start < m->of[level].at - off || start > next->at)
        return 0;
    for (size_t i = level + 1; i < m->count; i++)
        if (fabs(m->of[i].kept - last->kept + slope * (last->at - m->of[i].at)) > OFF_LINE * grown)
            return 0;
    return rest_was_as_large(m, level, grown) && !lived_long(m, level, grown) ? fmax(start, m->of[level].at) : 0;
}

static double freed_share(const struct mark *since, double handed_out, double in_use)
{
    return 1 - (in_use - since->in_use) / ((1 - since->at) * handed_out);
}

/* The same, with all that is asked. Returns the growth until the end. */
static double late_growth(const struct marks *m, double handed_out, double in_use)
{
    size_t i = 0;
    double until = m->of[m->count - 1].at;
    double grown = m->of[m->count - 1].kept - m->of[0].kept;
    double at = watched_of(m) >= WATCHED && went_later_of(m) < HARDLY_GOES * grown ? began_late(m, grown) : 0;
    while (i + 1 < m->count && m->of[i + 1].at <= at)
        i++;
    return at > 0 && freed_share(&m->of[i], handed_out, in_use) >= LATE_FREED ? grown * (1 - at) / (until - at) : 0;
}

/* Did it grow all along, as if it had no bound? `middle`: how much of it in the middle. */
static bool grew_all_along(double middle, double grown, bool only_kept)
{
    return grown > 0 && middle >= (only_kept ? LATE_STEADY : STEADY) * grown / 2 && middle <= FILLED * grown;
}

/* Is what seems to be kept really kept? */
static bool is_kept(const struct marks *m, double grown, double allowed)
{
    if (watched_of(m) >= WATCHED)
        return went_later_of(m) < WENT_LATER * grown;
    return replaced_of(m) < allowed && retaken_of(m, grown) < RETAKEN && faster(m) < FASTER;
}

/* `all`: with the marks shortly before the end. */
static struct torch_kept figures(const struct marks *m, const struct marks *all, double handed_out, double in_use)
{
    const struct mark *first = &m->of[0];
    const struct mark *last = &m->of[m->count - 1];
    double grown = last->kept - first->kept;
    double middle = on_line(m, (first->at + last->at) / 2, kept_of) - first->kept;
    double watched = watched_of(m);
    bool only_kept = only_kept_grew(m, grown);
    double since = (1 - m->first.at) * handed_out;
    double freed = since - (in_use - m->first.in_use);
    double replaced = replaced_of(m);
    double retaken = retaken_of(m, grown);
    double sooner = faster(m);
    double allowed = freed >= MOSTLY_STEPS * since ? REPLACED_BY_STEPS : REPLACED;
    bool all_along = grew_all_along(middle, grown, only_kept) && is_kept(m, grown, allowed);
    double late = all_along ? 0 : late_growth(all, handed_out, in_use);
    /* the last blocks before the end have had no time to go */
    double lasting = watched >= WATCHED && !only_kept ? fmin(grown, 2 * middle) : grown;
    /* what a cache still grows by when it has nearly filled */
    if (watched >= WATCHED && middle > FILLED * grown)
        lasting = fmax(0, 2 * (grown - middle));
    double until_end = lasting * (1 - first->at) / (last->at - first->at);
    return (struct torch_kept){
        .marks = (int64_t)m->count,
        .before = number_from_real(first->kept),
        .growth = number_from_real(0.5 + (late > 0 ? late : until_end)),
        .replaced_percent = number_from_real(100 * replaced),
        .retaken_percent = retaken < 1 ? number_from_real(100 * retaken) : 100,
        .faster_percent = sooner < FASTER_MAX ? number_from_real(100 * sooner) : (int64_t)(100 * FASTER_MAX),
        .outlasting = number_from_real(outlasting_of(m)),
        .watched_percent = number_from_real(100 * watched),
        .steady = all_along || late > 0,
        .freed_percent = freed <= 0 ? 0 : freed >= since ? 100 : number_from_real(100 * freed / since)};
}

bool torch_kept_read(const char *snapshot, size_t len, int device, int64_t handed_out,
                     int64_t in_use, struct torch_kept *ret)
{
    struct marks marks = {0};
    struct marks all = {0};
    if (handed_out <= 0 || in_use < 0)
        return false;
    cJSON *json = cJSON_ParseWithLength(snapshot, len);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(json, "kept");
    read_marks(rows, device, (double)handed_out, LAST_MAX, &marks);
    read_marks(rows, device, (double)handed_out, LATE_UNTIL, &all);
    cJSON_Delete(json);
    if (marks.count < MARKS_MIN || marks.of[marks.count - 1].at < LAST_AT)
        return false;
    *ret = figures(&marks, &all, (double)handed_out, (double)in_use);
    return true;
}
