/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/program_time.h"

#include "diagnose/fact.h"
#include "diagnose/kernel_lines.h"

#define HEAD_MAX 120
#define CLOCK_ENDS 19 /* "2026-11-28T09:12:01" */

double program_date(struct text line)
{
    bool bracket = text_starts(line, "[") || text_starts(line, "(");
    struct text date = text_skip(line, bracket);
    if (!text_starts(date, "20") || date.len <= CLOCK_ENDS || text_has(text_first(date, HEAD_MAX), "kernel:"))
        return -1;
    return date.at[CLOCK_ENDS] == ',' && text_has(text_first(date, CLOCK_ENDS), "T") ? -1 : klog_date(date);
}

void program_time_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    struct text rest = {text, len}, line;
    double first = -1;
    while (text_next_line(&rest, &line)) {
        double at = program_date(line);
        if (at > KLOG_YEAR_S && (first < 0 || at < first))
            first = at;
    }
    if (first > KLOG_EPOCH_S && facts_find(facts, "log.first_time_s", FACT_LOG) == NULL)
        (void)facts_set_integer(facts, "log.first_time_s", FACT_LOG, (int64_t)(first - KLOG_EPOCH_S), source);
}
