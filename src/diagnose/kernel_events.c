/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/kernel_events.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/rules.h"
#include "diagnose/text_facts.h"

#define LINE_KEPT 160
#define LINE_MAX_BYTES 2048
#define TASK_NUMBERS 8

static const char *const kind_facts[KERNEL_EVENTS] = {
    "event.hang",     "event.sdma",       "event.queue_refused", "event.sdma_queue_refused",
    "event.fault",    "event.hardware",   "event.start_failed",  "event.firmware",
    "event.host_oom", "event.parameter",  "event.memory_refused",
};

#define COPIES LOG_WORDS_KERNEL_COPIES
#define FAILS LOG_WORDS_KERNEL_FAILS
#define ENGINE (LOG_WORDS_KERNEL_ENGINE | COPIES)

#define NEEDS 3

/* A row matches a line that holds a word of each list of `needs` and none of `never`. The first matching row
 * gives the event. */
static const struct event_row {
    uint64_t needs[NEEDS], never;
    enum kernel_event event, of_copies;
} driver_rows[] = {
    {{LOG_WORDS_KERNEL_DENIED}, 0, KERNEL_EVENTS, KERNEL_EVENTS},
    {{LOG_WORDS_KERNEL_PARAMETER, LOG_WORDS_KERNEL_PARAMETER_WRONG}, 0, EVENT_PARAMETER, EVENT_PARAMETER},
    {{LOG_WORDS_KERNEL_FAULT}, 0, EVENT_FAULT, EVENT_FAULT},
    {{LOG_WORDS_KERNEL_HARDWARE, LOG_WORDS_KERNEL_GPU_INIT}, LOG_WORDS_KERNEL_NO_HARDWARE, EVENT_START, EVENT_START},
    {{LOG_WORDS_KERNEL_HARDWARE}, LOG_WORDS_KERNEL_NO_HARDWARE, EVENT_HARDWARE, EVENT_HARDWARE},
    {{LOG_WORDS_KERNEL_FIRMWARE, FAILS}, 0, EVENT_FIRMWARE, EVENT_FIRMWARE},
    {{LOG_WORDS_KERNEL_QUEUE, FAILS, LOG_WORDS_KERNEL_QUEUE_REFUSED}, 0, EVENT_QUEUE_REFUSED, EVENT_SDMA_QUEUE_REFUSED},
    {{LOG_WORDS_KERNEL_MAP, FAILS}, 0, EVENT_QUEUE_REFUSED, EVENT_SDMA_QUEUE_REFUSED},
    {{LOG_WORDS_KERNEL_START | LOG_WORDS_KERNEL_GPU_INIT, FAILS}, 0, EVENT_START, EVENT_START},
    {{ENGINE, LOG_WORDS_KERNEL_STOPPED | LOG_WORDS_KERNEL_AFTERMATH}, 0, EVENT_HANG, EVENT_SDMA},
    {{ENGINE, LOG_WORDS_KERNEL_RESET, LOG_WORDS_KERNEL_RESET_GOES_ON}, 0, EVENT_HANG, EVENT_SDMA},
    {{ENGINE, LOG_WORDS_KERNEL_QUEUE_CHANGE, FAILS}, 0, EVENT_HANG, EVENT_SDMA},
    {{LOG_WORDS_KERNEL_MEMORY, FAILS}, 0, EVENT_MEMORY, EVENT_MEMORY},
};

static bool holds(uint64_t words, const uint64_t needs[NEEDS])
{
    for (size_t i = 0; i < NEEDS; i++)
        if (needs[i] != 0 && (words & needs[i]) == 0)
            return false;
    return true;
}

static bool is_aftermath(uint64_t words)
{
    static const uint64_t needs[][NEEDS] = {{LOG_WORDS_KERNEL_AFTERMATH},
                                             {LOG_WORDS_KERNEL_RESET, LOG_WORDS_KERNEL_RESET_GOES_ON},
                                             {LOG_WORDS_KERNEL_QUEUE_CHANGE, FAILS}};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (holds(words, needs[i]))
            return true;
    return false;
}

static enum kernel_event kind_of_driver(uint64_t words)
{
    for (size_t i = 0; i < sizeof driver_rows / sizeof driver_rows[0]; i++) {
        const struct event_row *row = &driver_rows[i];
        if (holds(words, row->needs) && (words & row->never) == 0)
            return (words & COPIES) != 0 ? row->of_copies : row->event;
    }
    return KERNEL_EVENTS;
}

/* A row of the OOM killer's table: "[  5123]  1001  5123  2097152  523190  9437184  81920  0 blender". */
static bool is_task_row(struct text line)
{
    const char *open = memrchr(line.at, '[', line.len);
    if (open == NULL)
        return false;
    struct text t = text_skip(line, (size_t)(open + 1 - line.at)), word;
    uint64_t first = 0, tgid = 0, value = 0;
    t = text_trim(t);
    if (!text_take_u64(&t, &first) || !text_starts(t, "]"))
        return false;
    t = text_skip(t, 1);
    unsigned numbers = 0;
    for (; text_next_word(&t, &word); numbers++) {
        struct text digits = text_starts(word, "-") ? text_skip(word, 1) : word;
        if (!text_take_u64(&digits, &value) || digits.len > 0)
            break;
        tgid = numbers == 1 ? value : tgid;
    }
    return numbers >= 6 && numbers <= TASK_NUMBERS && tgid == first && word.len > 0;
}

static enum kernel_event kind_of_host(uint64_t words, struct text record)
{
    if (((words & LOG_WORDS_KERNEL_HOST_OOM) != 0 && !rule_is_on(RULE_OOM_KILL_DENIED, record)) || is_task_row(record))
        return EVENT_HOST_OOM;
    return (words & LOG_WORDS_KERNEL_HOST_HARDWARE) != 0 && (words & LOG_WORDS_KERNEL_HOST_CORRECTED) == 0
               ? EVENT_HARDWARE
               : KERNEL_EVENTS;
}

enum kernel_event kernel_event_read(struct text record, bool *ret_follows)
{
    *ret_follows = false;
    if (record.len < 8 || record.len > LINE_MAX_BYTES)
        return KERNEL_EVENTS;
    uint64_t words = log_words_in(record.at, record.len, 0);
    enum kernel_event kind = (words & LOG_WORDS_KERNEL_DRIVER) != 0 ? kind_of_driver(words) : KERNEL_EVENTS;
    if (kind == KERNEL_EVENTS)
        kind = kind_of_host(words, record);
    *ret_follows = (kind == EVENT_HANG || kind == EVENT_SDMA) && is_aftermath(words);
    return kind;
}

void kernel_event_emit(const struct scan *s, enum kernel_event kind, struct text record)
{
    if (facts_find(s->facts, kind_facts[kind], FACT_LOG) == NULL)
        scan_text(s, kind_facts[kind], text_first(text_trim(record), LINE_KEPT));
    if (kind == EVENT_HANG || kind == EVENT_SDMA || kind == EVENT_FAULT || kind == EVENT_HARDWARE)
        scan_text(s, "event.first", text_of(kind_facts[kind]));
}
