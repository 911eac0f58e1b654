/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/fit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define RANGE_MAX (INT64_C(1) << 40)
#define FALLS_BY 0.99 /* allocators round: less is the same */

int fit_init(struct fit *fit, int64_t min, int64_t max)
{
    memset(fit, 0, sizeof *fit);
    if (min < 0 || max < min || max > RANGE_MAX)
        return -EINVAL;
    fit->min = min;
    fit->max = max;
    fit->passed = min - 1;
    fit->failed = max + 1;
    fit->hint = -1;
    fit->start = -1;
    fit->runs_max = 2;
    for (int64_t n = max - min + 1; n > 1; n /= 2)
        fit->runs_max++;
    return 0;
}

/* --- the model --- */

static void fit_line(const struct fit *fit, struct fit_model *m)
{
    double n = 0;
    double sum_x = 0;
    double sum_y = 0;
    double sum_xx = 0;
    double sum_xy = 0;
    for (const struct fit_point *p = fit->point; p < fit->point + fit->count; p++) {
        if (!p->passed || p->bytes <= 0)
            continue;
        double x = (double)p->value;
        n += 1;
        sum_x += x;
        sum_y += p->bytes;
        sum_xx += x * x;
        sum_xy += x * p->bytes;
    }
    double spread = n * sum_xx - sum_x * sum_x;
    m->known = n >= 2 && spread > 0;
    if (!m->known)
        return;
    m->slope = (n * sum_xy - sum_x * sum_y) / spread;
    m->fixed = (sum_y - m->slope * sum_x) / n;
    for (const struct fit_point *p = fit->point; p < fit->point + fit->count; p++)
        if (p->passed && p->bytes > 0)
            m->error = fmax(m->error, fabs(m->fixed + m->slope * (double)p->value - p->bytes));
}

void fit_model(const struct fit *fit, struct fit_model *ret)
{
    memset(ret, 0, sizeof *ret);
    fit_line(fit, ret);
    if (!ret->known || ret->slope <= 0 || fit->room <= 0)
        return;
    double value = floor((fit->room - ret->fixed) / ret->slope);
    ret->has_prediction = true;
    ret->predicted = value <= (double)fit->min   ? fit->min - 1
                     : value >= (double)fit->max ? fit->max
                                                 : (int64_t)value;
}

/* --- the next value --- */

/* Runs that bisection needs for so many possible answers. */
static unsigned runs_needed(int64_t answers)
{
    unsigned runs = 0;
    for (int64_t n = 1; n < answers; n *= 2)
        runs++;
    return runs;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* With one point there is no line yet. Where nothing is fixed the memory is in proportion to the value;
 * where something is, a larger value fits: this one most probably runs, and is the second point. */
static int64_t in_proportion(const struct fit *fit)
{
    int64_t best = fit->passed;
    for (const struct fit_point *p = fit->point; p < fit->point + fit->count; p++) {
        double value = p->passed && p->bytes > 0 ? fit->room * ((double)p->value / p->bytes) : 0;
        if (value > (double)best && value < (double)fit->failed)
            best = (int64_t)value;
    }
    return best;
}

/* To show that `value` is the answer: it runs, and the one above it does not. False: that is known. */
static bool show(const struct fit *fit, int64_t value, int64_t *ret)
{
    *ret = value > fit->passed ? value : fit->passed + 1;
    return value >= fit->passed && value < fit->failed && *ret < fit->failed;
}

/* The value that the model or a hint predicts, else the middle. The first run uses a small value: it shows
 * whether any value runs, and gives a first point of the line. */
static int64_t wish(const struct fit *fit)
{
    struct fit_model m;
    int64_t value;
    fit_model(fit, &m);
    if (fit->runs == 0 && fit->start >= 0)
        return fit->start;
    if (fit->runs == 0)
        return fit->min + (fit->max - fit->min) / 8;
    if (m.has_prediction && show(fit, m.predicted, &value))
        return value;
    if (fit->hint >= 0 && show(fit, fit->hint, &value))
        return value;
    if (!m.known && in_proportion(fit) > fit->passed)
        return in_proportion(fit);
    return fit->passed + (fit->failed - fit->passed + 1) / 2;
}

bool fit_next(const struct fit *fit, int64_t *ret)
{
    int64_t low = fit->passed; /* answers: low .. high */
    int64_t high = fit->failed - 1;
    if (low >= high || fit->runs >= fit->runs_max)
        return false;
    /* With either result of this run, the remaining runs must be enough to bisect the remaining range. */
    unsigned left = fit->runs_max - fit->runs;
    int64_t most = left > 1 && left < 62 ? INT64_C(1) << (left - 1) : 1;
    if (runs_needed(high - low + 1) > left)
        most = (high - low + 2) / 2;
    *ret = clamp(wish(fit), high + 1 - most, low + most);
    *ret = clamp(*ret, low + 1, high);
    return true;
}

void fit_note(struct fit *fit, int64_t value, bool passed, double bytes, double room)
{
    if (fit->count < FIT_POINTS_MAX)
        fit->point[fit->count++] = (struct fit_point){value, passed, bytes};
    fit->runs++;
    if (passed && value > fit->passed)
        fit->passed = value;
    if (!passed && value < fit->failed)
        fit->failed = value;
    if (room > 0)
        fit->room = room;
}

bool fit_check(const struct fit *fit, int64_t *ret)
{
    *ret = fit->failed;
    return !fit->checked && fit->failed <= fit->max && fit->failed == fit->passed + 1;
}

void fit_note_check(struct fit *fit, bool passed)
{
    fit->runs++;
    fit->checked = true;
    fit->unsure = passed;
}

void fit_start(struct fit *fit, int64_t value)
{
    fit->start = value;
}

void fit_hint(struct fit *fit, int64_t value)
{
    fit->hint = value;
}

bool fit_is_not_monotone(const struct fit *fit, int64_t *ret_smaller, int64_t *ret_larger)
{
    for (size_t i = 0; i < fit->count; i++)
        for (size_t k = 0; k < fit->count; k++) {
            const struct fit_point *a = &fit->point[i];
            const struct fit_point *b = &fit->point[k];
            if (!a->passed || !b->passed || a->bytes <= 0 || b->bytes <= 0 || a->value >= b->value ||
                b->bytes >= a->bytes * FALLS_BY)
                continue;
            *ret_smaller = a->value;
            *ret_larger = b->value;
            return true;
        }
    return false;
}
