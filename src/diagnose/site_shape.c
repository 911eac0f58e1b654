/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/site_shape.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/site_rules.h"

/* A shape being read: words are gathered until another mark ends them. */
struct reader {
    struct shape_store *store;
    struct rule_shape *shape;
    struct rc_err *err;
    size_t words_begin; /* in store->words */
    bool gap;           /* of the next part */
};

int shape_store_fact(struct shape_store *store, struct text name, struct rc_err *err)
{
    if (name.len >= SHAPE_FACT_BYTES || !site_fact_name(name.at, name.len))
        return rc_err_set(err, -EINVAL, "a site's fact is named site.something, not '%.*s'",
                          (int)(name.len < 60 ? name.len : 60), name.at);
    for (size_t i = 0; i < store->fact_count; i++)
        if (text_equals(name, store->facts[i]))
            return (int)i;
    if (store->fact_count == SHAPE_FACTS_MAX)
        return rc_err_set(err, -EINVAL, "more than %d facts", SHAPE_FACTS_MAX);
    (void)text_copy(name, store->facts[store->fact_count], SHAPE_FACT_BYTES);
    return (int)store->fact_count++;
}

static int put_byte(struct reader *r, char c)
{
    if (r->store->words_used == SHAPE_WORDS_BYTES)
        return rc_err_set(r->err, -EINVAL, "the rules are too long");
    r->store->words[r->store->words_used++] = c;
    return 0;
}

static struct rule_part *new_part(struct reader *r, enum rule_part_kind kind)
{
    if (r->store->part_count == SHAPE_PARTS_MAX) {
        (void)rc_err_set(r->err, -EINVAL, "more than %d parts of shapes", SHAPE_PARTS_MAX);
        return NULL;
    }
    struct rule_part *part = &r->store->parts[r->store->part_count++];
    *part = (struct rule_part){.kind = (uint8_t)kind, .gap = r->gap};
    r->shape->count++;
    r->gap = false;
    return part;
}

/* Makes a part of the words gathered so far. */
static int flush(struct reader *r)
{
    size_t len = r->store->words_used - r->words_begin;
    if (len == 0)
        return 0;
    if (len > UINT8_MAX)
        return rc_err_set(r->err, -EINVAL, "a piece of text is longer than %d bytes", UINT8_MAX);
    struct rule_part *part = new_part(r, PART_WORDS);
    if (part == NULL)
        return -EINVAL;
    part->words = (uint32_t)r->words_begin;
    part->length = (uint8_t)len;
    r->words_begin = r->store->words_used;
    return 0;
}

static int find_type(struct text name)
{
    static const char *const names[] = {
        [TAKE_SIZE] = "size",   [TAKE_BUFFER] = "buffer", [TAKE_BYTES] = "bytes",
        [TAKE_GIB] = "gib",     [TAKE_KIB] = "kib",       [TAKE_COUNT] = "count",   [TAKE_NUMBER] = "number",
        [TAKE_HEX] = "hex",     [TAKE_BITS] = "bits",     [TAKE_REAL] = "real",
        [TAKE_SHARE] = "share", [TAKE_YES] = "yes",       [TAKE_WORD] = "word",
        [TAKE_CODE] = "code",   [TAKE_TEXT] = "text",     [TAKE_UPTO] = "upto"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_equals(name, names[i]))
            return (int)i;
    return -1;
}

static char escaped(char c)
{
    return (char)(c == 's' ? ' ' : c == 't' ? '\t' : c);
}

/* "(BYTES)" of upto and code, NUL-terminated. */
static int read_stops(struct reader *r, struct rule_part *part, struct text stops)
{
    size_t begin = r->store->words_used;
    for (size_t i = 0; i < stops.len; i++) {
        bool escape = stops.at[i] == '\\' && i + 1 < stops.len;
        i += escape;
        if (put_byte(r, escape ? escaped(stops.at[i]) : stops.at[i]) < 0)
            return -EINVAL;
    }
    part->length = (uint8_t)(r->store->words_used - begin);
    part->words = (uint32_t)begin;
    int e = put_byte(r, '\0');
    r->words_begin = r->store->words_used;
    return e;
}

/* "site.fact:type", "<LIMIT" or "(BYTES)" after it. */
static int read_take(struct reader *r, struct text inside)
{
    struct text name, rest = {"", 0};
    struct rule_part *part = new_part(r, PART_TAKE);
    if (part == NULL)
        return -EINVAL;
    if (!text_before(inside, ":", &name) || !text_after(inside, ":", &rest))
        return rc_err_set(r->err, -EINVAL, "{FACT:TYPE} lacks its type");
    int fact = shape_store_fact(r->store, name, r->err);
    struct text type_name = text_until(rest, "<(");
    int type = find_type(type_name);
    if (fact < 0)
        return fact;
    if (type < 0)
        return rc_err_set(r->err, -EINVAL, "there is no type '%.*s'",
                          (int)(type_name.len < 40 ? type_name.len : 40), type_name.at);
    part->fact = (uint16_t)fact;
    part->type = (uint8_t)type;
    rest = text_skip(rest, type_name.len);
    if (rest.len > 0 && rest.at[0] == '<') {
        rest = text_skip(rest, 1);
        if (!text_take_u64(&rest, &part->limit))
            return rc_err_set(r->err, -EINVAL, "a limit is a number");
    }
    bool stops = rest.len > 2 && rest.at[0] == '(' && rest.at[rest.len - 1] == ')';
    if (stops != (rest.len > 0) || (type == TAKE_UPTO && !stops))
        return rc_err_set(r->err, -EINVAL, "cannot read {%.*s}",
                          (int)(inside.len < 60 ? inside.len : 60), inside.at);
    return stops ? read_stops(r, part, text_first(text_skip(rest, 1), rest.len - 2)) : 0;
}

/* One mark or byte at the front of `rest`, which moves past it. */
static int read_one(struct reader *r, struct text *rest)
{
    struct text inside = {"", 0};
    char c = rest->at[0];
    *rest = text_skip(*rest, 1);
    if (c == '\\' && rest->len > 0) {
        c = escaped(rest->at[0]);
        *rest = text_skip(*rest, 1);
        return put_byte(r, c);
    }
    if (c != '*' && c != '~' && c != '{')
        return put_byte(r, c);
    if (flush(r) < 0)
        return -EINVAL;
    r->gap = r->gap || c == '*';
    if (c == '*')
        return 0;
    if (c == '~') {
        r->gap = false;
        return new_part(r, PART_BLANKS) != NULL ? 0 : -EINVAL;
    }
    if (!text_before(*rest, "}", &inside))
        return rc_err_set(r->err, -EINVAL, "'{' without '}'");
    *rest = text_skip(*rest, inside.len + 1);
    return read_take(r, inside);
}

/* A value taken after "*" ends where the next words begin, so words must follow. */
static int check_takes(const struct reader *r)
{
    const struct rule_part *part = r->store->parts + r->shape->first;
    for (unsigned i = 0; i < r->shape->count; i++) {
        bool last = i + 1u == r->shape->count;
        bool prefixed = part[i].type == TAKE_CODE && part[i].length > 0;
        if (part[i].kind == PART_TAKE && part[i].gap && !prefixed &&
            (last || part[i + 1].kind == PART_TAKE))
            return rc_err_set(r->err, -EINVAL, "what is taken after '*' needs words after it");
    }
    return 0;
}

int shape_parse(struct shape_store *store, struct text shape, struct rule_shape *ret,
                struct rc_err *err)
{
    *ret = (struct rule_shape){.first = (uint16_t)store->part_count};
    if (store->words_used == 0)
        store->words[store->words_used++] = '\0'; /* the text of a part that has none */
    struct reader r = {.store = store, .shape = ret, .err = err, .words_begin = store->words_used};
    bool escaped_end = shape.len > 1 && shape.at[shape.len - 2] == '\\';
    ret->line_end = shape.len > 0 && shape.at[shape.len - 1] == '$' && !escaped_end;
    shape = text_first(shape, shape.len - ret->line_end);
    ret->word_start = text_starts(shape, "^");
    ret->line_start = text_starts(shape, "<");
    shape = text_skip(shape, ret->word_start || ret->line_start);
    r.gap = !ret->line_start;
    while (shape.len > 0)
        if (read_one(&r, &shape) < 0)
            return -EINVAL;
    if (flush(&r) < 0)
        return -EINVAL;
    return ret->count > 0 ? check_takes(&r) : rc_err_set(err, -EINVAL, "an empty shape");
}
