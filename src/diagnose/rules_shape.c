/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches a line with the shape of a rule, and takes values from it.
 *
 * Pure. Goes from left to right. The first occurrence of each wording counts, without backtracking,
 * so the cost is linear in the line's length.
 */
#include <ctype.h>
#include <string.h>

#include "diagnose/rules.h"

#define COUNT_MAX 1e12
#define GIB_MAX 1e6
#define BUFFER_MAX (INT64_C(1) << 50) /* so that sums do not overflow */

/* A shape that is being matched. */
struct shape_run {
    struct text line;
    const char *texts; /* of the parts */
    bool word_start; /* for the first part */
    struct rule_takes *takes;
};

/* Offset of the words in `rest`; SIZE_MAX = not found. */
static size_t find_words(const struct shape_run *run, struct text rest, const struct rule_part *p,
                         bool word_start)
{
    for (struct text t = rest;;) {
        const char *hit = text_search(t, run->texts + p->words, p->length);
        if (hit == NULL)
            return SIZE_MAX;
        if (!word_start || hit == run->line.at || !text_is_word(hit[-1]))
            return (size_t)(hit - rest.at);
        t = text_skip(rest, (size_t)(hit - rest.at) + 1);
    }
}

static size_t code_length(struct text t, size_t from)
{
    size_t n = from;
    while (n < t.len && (isupper((unsigned char)t.at[n]) || t.at[n] == '_'))
        n++;
    return n;
}

static bool take_number(const struct rule_part *p, struct text *t, int64_t *ret)
{
    uint64_t n;
    uint64_t limit = p->limit != 0 ? p->limit : UINT64_C(1) << 31;
    bool ok = p->type == TAKE_NUMBER ? text_take_u64(t, &n) : text_take_hex(t, &n);
    if (!ok || (n >= limit && p->type != TAKE_BITS))
        return false;
    *ret = (int64_t)n;
    return true;
}

static bool take_real(const struct rule_part *p, struct text *t, struct rule_value *ret)
{
    while (p->type == TAKE_COUNT && t->len > 0 && (t->at[0] == ' ' || t->at[0] == '='))
        *t = text_skip(*t, 1);
    if (!text_take_real(t, &ret->real))
        return false;
    if (p->type == TAKE_REAL || p->type == TAKE_SHARE) {
        ret->type = VALUE_REAL;
        return p->type == TAKE_REAL || (ret->real > 0 && ret->real <= 1);
    }
    double max = p->type == TAKE_GIB ? GIB_MAX : COUNT_MAX;
    double unit = p->type == TAKE_GIB ? 0x1p30 : p->type == TAKE_KIB ? 0x1p10 : 1;
    if (ret->real < 0 || ret->real > max)
        return false;
    ret->integer = (int64_t)(ret->real * unit + (unit > 1 ? 0.5 : 0));
    return true;
}

/* Takes a value at the front of `t`; `t` moves past it. */
static bool take_value(const struct shape_run *run, const struct rule_part *p, struct text *t, struct rule_value *ret)
{
    *ret = (struct rule_value){.type = VALUE_INTEGER};
    switch ((enum rule_take_type)p->type) {
    case TAKE_SIZE:
        return text_take_size(t, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &ret->integer);
    case TAKE_BUFFER:
        return text_take_size(t, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &ret->integer) &&
               ret->integer >= 0 && ret->integer <= BUFFER_MAX;
    case TAKE_BYTES:
        return text_take_size(t, 0, &ret->integer);
    case TAKE_NUMBER:
    case TAKE_HEX:
    case TAKE_BITS:
        return take_number(p, t, &ret->integer);
    case TAKE_KIB:
        return text_take_size(t, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &ret->integer) || take_real(p, t, ret);
    case TAKE_GIB:
    case TAKE_COUNT:
    case TAKE_REAL:
    case TAKE_SHARE:
        return take_real(p, t, ret);
    case TAKE_YES:
        ret->type = VALUE_BOOLEAN;
        ret->integer = 1;
        return true;
    case TAKE_WORD:
        ret->type = VALUE_TEXT;
        return text_next_word(t, &ret->text);
    case TAKE_UPTO:
        ret->text = text_until(*t, run->texts + p->words);
        if (p->limit != 0)
            ret->text = text_first(ret->text, p->limit);
        break;
    case TAKE_CODE:
        ret->text = text_first(*t, code_length(*t, p->length));
        break;
    case TAKE_TEXT:
        ret->text = *t;
        break;
    }
    ret->type = VALUE_TEXT;
    *t = text_skip(*t, ret->text.len);
    return true;
}

/* Takes text that ends where the next words begin: a size, the last word, or all of it. */
static bool take_before(const struct shape_run *run, const struct rule_part *p, struct text head, struct rule_value *ret)
{
    *ret = (struct rule_value){.type = VALUE_INTEGER};
    if (p->type == TAKE_SIZE)
        return text_size_before(head, &ret->integer);
    ret->type = VALUE_TEXT;
    ret->text = head;
    if (p->type != TAKE_TEXT) {
        size_t n = head.len;
        while (n > 0 && !isspace((unsigned char)head.at[n - 1]) &&
               strchr(run->texts + p->words, head.at[n - 1]) == NULL)
            n--;
        ret->text = text_skip(head, n);
    }
    return ret->text.len > 0;
}

static bool keep_value(struct rule_takes *takes, const struct rule_part *p,
                       const struct rule_value *value)
{
    if (takes->count < RULE_TAKEN_MAX)
        takes->list[takes->count++] = (struct rule_taken){p->fact, p->keep, *value};
    return true;
}

static bool match_words(const struct shape_run *run, struct text *rest, const struct rule_part *p)
{
    size_t at = p->gap ? find_words(run, *rest, p, run->word_start) : 0;
    if (at == SIZE_MAX || rest->len < at + p->length ||
        memcmp(rest->at + at, run->texts + p->words, p->length) != 0)
        return false;
    *rest = text_skip(*rest, at + p->length);
    return true;
}

static bool match_take(const struct shape_run *run, struct text *rest, const struct rule_part *p,
                       const struct rule_part *next)
{
    struct rule_value value = {.type = VALUE_TEXT};
    if (p->type == TAKE_CODE && p->gap) {
        size_t at = find_words(run, *rest, p, false);
        if (at == SIZE_MAX)
            return false;
        *rest = text_skip(*rest, at);
    } else if (next != NULL && (p->gap || p->type == TAKE_TEXT)) {
        size_t at = find_words(run, *rest, next, false);
        if (at == SIZE_MAX)
            return false;
        value.text = text_first(*rest, at);
        *rest = text_skip(*rest, at);
        return (!p->gap || take_before(run, p, value.text, &value)) && keep_value(run->takes, p, &value);
    }
    return take_value(run, p, rest, &value) && keep_value(run->takes, p, &value);
}

/* One part at the front of `rest`. `next` is the part after it, or NULL. */
static bool match_part(const struct shape_run *run, struct text *rest, const struct rule_part *p,
                       const struct rule_part *next)
{
    if (p->kind == PART_TAKE)
        return match_take(run, rest, p, next);
    if (p->kind == PART_WORDS)
        return match_words(run, rest, p);
    while (rest->len > 0 && isspace((unsigned char)rest->at[0]))
        *rest = text_skip(*rest, 1);
    return true;
}

bool shape_match(struct text line, const struct rule_shape *shape, struct rule_takes *takes)
{
    return shape_match_parts(line, shape, rule_parts, rule_part_texts, takes);
}

bool shape_match_parts(struct text line, const struct rule_shape *shape, const struct rule_part *parts,
                       const char *texts, struct rule_takes *takes)
{
    struct shape_run run = {line, texts, shape->word_start, takes};
    struct text rest = shape->line_start ? text_trim(line) : line;
    unsigned before = takes->count;
    for (unsigned i = 0; i < shape->count; i++) {
        const struct rule_part *p = &parts[shape->first + i];
        const struct rule_part *next = i + 1u < shape->count ? p + 1 : NULL;
        if (!match_part(&run, &rest, p, next)) {
            takes->count = before;
            return false;
        }
        run.word_start = false;
    }
    if (shape->line_end && text_trim(rest).len > 0) {
        takes->count = before;
        return false;
    }
    return true;
}
