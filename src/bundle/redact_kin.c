/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name of which one word is private is private as a whole, and so is what it qualifies: the namespaces and
 * the files below it. Their other words may be in every vocabulary ("lane_net", "vault::Ledger").
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "bundle/redact_rules.h"

struct line {
    const struct redact_rules *rules;
    const struct redact_rule *rule;
    const char *text;
    size_t to;
    struct redact_spans *out;
    size_t next, found; /* of out->list: what the rule has found in this line, in order */
    bool is_below;      /* a private name stands before, in the same path or qualified name */
};

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void hide(struct line *l, size_t from, size_t to)
{
    struct redact_span span = {from, to, l->rule->kind, l->rule, l->rule->name, false};
    redact_spans_add(l->out, span);
}

/* The first place in [at, end) where the rule found something; `end` = none. */
static size_t found_in(struct line *l, size_t at, size_t end)
{
    size_t first = end;
    while (l->next < l->found && l->out->list[l->next].from < end) {
        size_t from = l->out->list[l->next++].from;
        if (from >= at && from < first)
            first = from;
    }
    return first;
}

/* A mangled name is hidden from its first private word on: its parts have no signs between them. */
static void hide_whole(struct line *l, size_t at, size_t end, size_t first)
{
    if (end - at > 2 && memcmp(l->text + at, "_Z", 2) == 0)
        at = first;
    else
        redact_trim_technical(l->rules->vocabulary, l->text, &at, &end);
    hide(l, at, end);
}

static bool stands(const struct line *l, size_t at, const char *sign)
{
    size_t n = strlen(sign);
    return at + n <= l->to && memcmp(l->text + at, sign, n) == 0;
}

/* "at seeker_net.cpp:311", "(ledger_book.cc:512)": as debuggers print the place of a function. */
static bool is_source_place(const struct line *l, size_t from, size_t end)
{
    size_t at = end + 1;
    bool meant = (from > 0 && l->text[from - 1] == '(') || (from >= 4 && strncasecmp(l->text + from - 4, " at ", 4) == 0);
    if (!meant || end >= l->to || l->text[end] != '.')
        return false;
    while (at < l->to && at - end < 6 && isalnum((unsigned char)l->text[at]))
        at++;
    return at + 1 < l->to && l->text[at] == ':' && isdigit((unsigned char)l->text[at + 1]);
}

/* Is the name between two others of a private one ("private::name::f")? */
static bool is_namespace_below(const struct line *l, size_t at, size_t end)
{
    return l->is_below && at > 0 && l->text[at - 1] == ':' && stands(l, end, "::");
}

/* Is the name joined of words that only a private name joins? */
static bool is_own_below(const struct line *l, size_t at, size_t end)
{
    return (l->is_below || is_source_place(l, at, end)) && !redact_is_excused(l->rule, l->text, at) &&
           redact_is_joined_name(l->rules->vocabulary, l->text, at, end);
}

static void on_word(struct line *l, size_t at, size_t end)
{
    size_t first = found_in(l, at, end);
    if (first < end) {
        l->is_below = true;
        hide_whole(l, at, end, first);
    } else if (is_namespace_below(l, at, end) || is_own_below(l, at, end)) {
        hide(l, at, end);
    }
}

void redact_find_kin(const struct redact_rules *rules, const struct redact_rule *rule, const char *text,
                     size_t from, size_t to, size_t before, struct redact_spans *out)
{
    struct line l = {rules, rule, text, to, out, before, out->count, false};
    for (size_t at = from, end; before < l.found && at < to; at = end) {
        end = at;
        while (end < to && is_word_char(text[end]))
            end++;
        if (end > at) {
            on_word(&l, at, end);
            continue;
        }
        bool joins = text[at] != '\0' && strchr(":/\\.-~@+", text[at]) != NULL;
        l.is_below = l.is_below && joins;
        end = at + 1;
    }
}
