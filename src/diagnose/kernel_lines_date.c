/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates in front of kernel records that carry no seconds since boot: dmesg -T, journalctl, syslog.
 *
 * Pure. Only differences are used, to tell one incident from another. Only English month names are
 * known.
 */
#include "diagnose/kernel_lines.h"

#include <ctype.h>
#include <string.h>

/* A quote mark, a weekday and a bracket may stand in front of the month. */
#define HEAD_MAX 40

static double seconds_of(uint64_t year, uint64_t month, uint64_t day, const uint64_t clock[3])
{
    static const unsigned short before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    uint64_t leap = year / 4 + (year % 4 == 0 && month <= 2 && year > 0 ? 0 : 1);
    double days = (double)(year * 365 + leap + before[month - 1] + day);
    return days * 86400 + (double)(clock[0] * 3600 + clock[1] * 60 + clock[2]);
}

/* "14:25:56" */
static bool take_clock(struct text *t, uint64_t ret[3])
{
    for (unsigned i = 0; i < 3; i++) {
        if (i > 0 && !text_starts(*t, ":"))
            return false;
        if (i > 0)
            *t = text_skip(*t, 1);
        if (!text_take_u64(t, &ret[i]) || ret[i] > 60)
            return false;
    }
    return true;
}

/* "2026-01-07T10:00:00,123456-06:00 host kernel: ...", "2026-01-07 10:00:00 ..." */
static double iso(struct text t)
{
    uint64_t date[3], clock[3];
    for (unsigned i = 0; i < 3; i++) {
        bool ends = text_take_u64(&t, &date[i]) && t.len > 0;
        if (!ends || (i < 2 ? t.at[0] != '-' : t.at[0] != 'T' && t.at[0] != ' '))
            return -1;
        t = text_skip(t, 1);
    }
    if (date[0] < 2000 || date[0] > 2100 || date[1] < 1 || date[1] > 12 || date[2] > 31 ||
        !take_clock(&t, clock))
        return -1;
    return seconds_of(date[0], date[1], date[2], clock);
}

/* "[Sat Jan  7 14:25:56 2023] text", "Aug  8 01:33:26 host kernel: text" */
double klog_date(struct text record)
{
    static const char *const months[] = {"Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ",
                                         "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec "};
    struct text head = text_first(record, HEAD_MAX);
    if (text_starts(head, "20"))
        return iso(head);
    if (memchr(head.at, ':', head.len) == NULL)
        return -1; /* no time of day: most lines of other programs */
    for (unsigned i = 0; i < 12; i++) {
        uint64_t day, year, clock[3];
        ptrdiff_t at = text_find(head, months[i]);
        if (at < 0 || (at > 0 && isalpha((unsigned char)head.at[at - 1])))
            continue;
        struct text t = text_trim(text_skip(head, (size_t)at + 4));
        if (!text_take_u64(&t, &day) || day < 1 || day > 31 || !text_starts(t, " "))
            continue;
        t = text_trim(t);
        if (!take_clock(&t, clock))
            continue;
        t = text_trim(t);
        bool has_year =
            text_take_u64(&t, &year) && text_starts(t, "]") && year >= 2000 && year < 2100;
        return seconds_of(has_year ? year : 0, i + 1, day, clock);
    }
    return -1;
}
