/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/error_counters.h"

#include <stdbool.h>
#include <string.h>

#include "diagnose/text_facts.h"

#define COUNT_MAX 1000000000

/* The column that holds the counts, and how many columns there are; 0 = no table. */
struct header {
    size_t column, columns;
};

/* "UNCORRECT_ERR", "TOTAL_UNCORRECTABLE", "UE", "DBE": errors that the hardware could not correct. */
static bool is_uncorrected(struct text name)
{
    return text_ifind(name, "uncorr") >= 0 || text_equals(name, "UE") || text_equals(name, "UE_COUNT") ||
           text_equals(name, "DBE");
}

static bool is_word_of(struct text word)
{
    return text_trim(word).len > 0 && !text_equals(word, "|");
}

static bool read_header(struct text line, struct header *ret)
{
    struct text rest = line, word;
    struct header found = {0, 0};
    bool counts = false;
    while (text_next_word(&rest, &word)) {
        if (!is_word_of(word))
            continue;
        if (word.at[word.len - 1] == ':' || (word.at[0] >= '0' && word.at[0] <= '9'))
            return false;
        if (is_uncorrected(word) && !counts) {
            counts = true;
            found.column = found.columns;
        }
        found.columns++;
    }
    if (!counts || found.columns < 2)
        return false;
    *ret = found;
    return true;
}

/* The count of a row that has a field for each column; -1: another line. */
static int64_t count_of(struct text line, const struct header *header)
{
    struct text rest = line, word;
    int64_t count = -1;
    size_t fields = 0;
    while (text_next_word(&rest, &word)) {
        uint64_t value = 0;
        if (!is_word_of(word))
            continue;
        if (fields++ == header->column && text_take_u64(&word, &value) && word.len == 0 && value <= COUNT_MAX)
            count = (int64_t)value;
    }
    return fields == header->columns ? count : -1;
}

/* Few texts have such a table. */
static bool may_have_table(const char *data, size_t len)
{
    static const char *const parts[] = {"ncorr", "NCORR", "UE", "DBE"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (memmem(data, len, parts[i], strlen(parts[i])) != NULL)
            return true;
    return false;
}

void error_counters_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct text rest = {data, len}, line;
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text"};
    struct header header = {0, 0};
    int64_t most = -1;
    if (!may_have_table(data, len))
        return;
    for (unsigned number = 1; text_next_line(&rest, &line); number++) {
        if (read_header(line, &header) || header.columns == 0)
            continue;
        int64_t count = count_of(line, &header);
        if (count > most) {
            most = count;
            at.line = number;
        }
    }
    if (most >= 0)
        scan_integer(&at, "msg.ras_table_uncorrectable", most);
}
