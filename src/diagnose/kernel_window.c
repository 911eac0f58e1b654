/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/kernel_window.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose/kernel_lines.h"
#include "diagnose/program_time.h"

/* The kernel logs a reset tens of seconds after the hang that it ends. */
#define AFTER_END_S 60.0
/* printk's clock and ours drift apart (base/clock.h). */
#define DRIFT 1e-4
#define START_SLACK_S 1.0
/* The time zone of a date is not known. */
#define ZONE_S (15 * 3600.0)
#define DAY_S 86400.0 /* more than the difference of two time zones */

struct window {
    double first, last; /* < 0 = not known */
};

static double known(const struct facts *facts, const char *name, double unit)
{
    int64_t value = 0;
    return facts_get_integer(facts, name, &value) && value > 0 ? (double)value * unit : -1;
}

static struct window window_of(double start, double duration, double slack)
{
    struct window w = {.first = -1, .last = -1};
    if (start >= 0)
        w.first = start - START_SLACK_S - slack;
    if (start >= 0 && duration >= 0)
        w.last = start + duration + AFTER_END_S + slack;
    return w;
}

static bool is_outside(const struct window *w, double at)
{
    return w->first >= 0 && (at < w->first || (w->last >= 0 && at > w->last));
}

static bool is_of_another_time(const struct window *since_boot, const struct window *dated, struct text record)
{
    double at = klog_stamp(record);
    if (at >= 0)
        return is_outside(since_boot, at);
    at = klog_date(record);
    return at > KLOG_YEAR_S && program_date(record) < 0 && is_outside(dated, at - KLOG_EPOCH_S);
}

char *kernel_window(struct facts *facts, const char *text, size_t len, size_t *ret_len)
{
    double duration = known(facts, "run.duration_ms", 1e-3), start = known(facts, "run.start_uptime_ms", 1e-3);
    struct window since_boot = window_of(start, duration, DRIFT * start);
    struct window dated = window_of(known(facts, "run.start_time_s", 1), duration, ZONE_S);
    double first_line = known(facts, "log.first_time_s", 1);
    if (dated.first < 0 && first_line >= 0)
        dated.first = first_line - DAY_S;
    struct text rest = {text, len}, record;
    unsigned outside = 0;
    size_t n = 0;
    char *out = since_boot.first >= 0 || dated.first >= 0 ? malloc(len + 2) : NULL;
    while (out != NULL && text_next_line(&rest, &record)) {
        bool keep = !is_of_another_time(&since_boot, &dated, record);
        if (keep) {
            memcpy(out + n, record.at, record.len);
            n += record.len;
        }
        out[n++] = '\n';
        outside += !keep;
    }
    if (outside == 0) {
        free(out);
        return NULL;
    }
    out[n] = '\0';
    *ret_len = n;
    (void)facts_set_integer(facts, "kmsg.outside_run_count", FACT_LOG, outside, "kernel log: records of another time");
    return out;
}
