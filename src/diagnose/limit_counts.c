/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/limit_counts.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/text_facts.h"

#define LINE_MAX_BYTES 1024
/* The program and its libraries have some open of their own. */
#define LEAST_SHARE 0.96
#define COUNT_MIN 250
#define COUNT_MAX 10000000

/* Limits of the process, and what a system has if the text does not say it. */
static const struct limit {
    const char *fact, *name;
    uint64_t usual;
} limits[] = {
    {"proc.0.fds_limit", "file descriptors", 1024},
    {"host.max_map_count", "memory mappings", 65530},
};
#define LIMITS (sizeof limits / sizeof limits[0])

struct search {
    uint64_t limit[LIMITS];
    bool is_told[LIMITS];
    struct scan at;
};

static bool is_part_of_name(struct text line, const char *begin)
{
    return begin > line.at && (isalnum((unsigned char)begin[-1]) || strchr("._-/:=+,", begin[-1]) != NULL);
}

/* "1019", "1,019"; no "1019 MiB", "1019.5", "1019x3". */
static bool take_count(struct text line, struct text *rest, uint64_t *ret)
{
    const char *begin = rest->at;
    if (!text_take_u64(rest, ret))
        return false;
    if (rest->len > 3 && rest->at[0] == ',' && isdigit((unsigned char)rest->at[1]) && isdigit((unsigned char)rest->at[2]) &&
        isdigit((unsigned char)rest->at[3])) {
        uint64_t thousands = *ret;
        *rest = text_skip(*rest, 1);
        (void)text_take_u64(rest, ret);
        *ret += thousands * 1000;
    }
    struct text sized = {begin, line.len - (size_t)(begin - line.at)};
    int64_t bytes;
    bool is_size = text_take_size(&sized, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &bytes);
    bool is_longer = rest->len > 0 && (isalnum((unsigned char)rest->at[0]) || strchr("_%/", rest->at[0]) != NULL ||
                                       (rest->at[0] == '.' && rest->len > 1 && isdigit((unsigned char)rest->at[1])));
    return !is_size && !is_longer && !is_part_of_name(line, begin) && *ret >= COUNT_MIN && *ret <= COUNT_MAX;
}

static uint64_t words_of(struct text line)
{
    return log_words_in(line.at, line.len, 0);
}

/* "handle 1019", "1019 events", "#1019": the word beside the number takes a descriptor or a mapping. */
static bool is_of_counted_things(struct text line, const char *begin, struct text behind)
{
    const char *end = begin, *at;
    while (end > line.at && strchr(" (:", end[-1]) != NULL)
        end--;
    for (at = end; at > line.at && isalpha((unsigned char)at[-1]);)
        at--;
    struct text word = text_until(text_trim(behind), " ,;:.)"), before = {at, (size_t)(end - at)};
    bool numbered = begin > line.at && begin[-1] == '#';
    return numbered || (words_of(before) & LOG_WORDS_COUNTED) != 0 || (words_of(word) & LOG_WORDS_COUNTED) != 0;
}

/* A limit that is not told needs a count just below it: a count of 1024 is most often a size. */
static bool stands_at(const struct search *s, size_t i, uint64_t count)
{
    bool below = count < s->limit[i] || (s->is_told[i] && count == s->limit[i]);
    return below && (double)count >= LEAST_SHARE * (double)s->limit[i];
}

static void say(const struct search *s, size_t i, uint64_t count)
{
    scan_integer(&s->at, "quantity.count_at_limit", (int64_t)count);
    scan_integer(&s->at, "quantity.count_limit", (int64_t)s->limit[i]);
    scan_text(&s->at, "quantity.count_limit_name", (struct text){limits[i].name, strlen(limits[i].name)});
    if (s->is_told[i])
        scan_boolean(&s->at, "quantity.count_limit_told", true);
}

/* The limit at which a number of the line stands, or LIMITS. Numbers are cheaper to compare than words. */
static size_t find_count(const struct search *s, struct text line, uint64_t *count)
{
    struct text rest = line;
    while (rest.len > 0) {
        if (!isdigit((unsigned char)rest.at[0])) {
            rest = text_skip(rest, 1);
            continue;
        }
        const char *begin = rest.at;
        bool is_count = take_count(line, &rest, count);
        for (size_t i = 0; is_count && i < LIMITS; i++)
            if (stands_at(s, i, *count) && is_of_counted_things(line, begin, rest))
                return i;
        while (rest.len > 0 && isalnum((unsigned char)rest.at[0]))
            rest = text_skip(rest, 1);
    }
    return LIMITS;
}

/* The failure stands on the line of the count or on the next one. A step or a batch takes no descriptor. */
static bool tells_where_it_failed(uint64_t words, uint64_t next)
{
    const uint64_t failed = LOG_WORDS_SHORTAGE | LOG_WORDS_FAILURE_RARE;
    return ((words | next) & failed) != 0 && (words & LOG_WORDS_COUNTED) != 0 && (words & LOG_WORDS_AXIS_COUNTER) == 0;
}

void limit_counts_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct search s = {.at = {.facts = facts, .source = source != NULL ? source : "text"}};
    unsigned before;
    struct text rest = text_tail(data, len, &before), line, next;
    for (size_t i = 0; i < LIMITS; i++) {
        const struct fact *f = facts_find(facts, limits[i].fact, FACT_LOG);
        s.is_told[i] = f != NULL && f->type == FACT_INTEGER && f->integer > 0;
        s.limit[i] = s.is_told[i] ? (uint64_t)f->integer : limits[i].usual;
    }
    for (unsigned number = before + 1; text_next_line(&rest, &line); number++) {
        uint64_t count;
        size_t i = line.len <= LINE_MAX_BYTES ? find_count(&s, line, &count) : LIMITS;
        struct text ahead = rest;
        if (i == LIMITS || !text_next_line(&ahead, &next))
            next = (struct text){"", 0};
        s.at.line = number;
        if (i < LIMITS && tells_where_it_failed(words_of(line), words_of(text_first(next, LINE_MAX_BYTES)))) {
            say(&s, i, count);
            return;
        }
    }
}
