/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything private in one text: rules without keywords over all of it, the others on the lines
 * where a keyword stands, known names where they are meant.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/translated.h"
#include "bundle/redact_internal.h"

/* A rule that reaches over lines looks this far back and ahead of its keyword: a private key of 16
 * kbit has 12 KB. */
#define WINDOW_BACK 8192
#define WINDOW_AHEAD 32768
/* ... and may look at this many bytes in all. Later text is hidden unread. */
#define WORK_FLOOR ((uint64_t)4 << 20)
#define WORK_FACTOR 16u
/* The limit of CPU time for one text. After it, each line with a keyword is hidden unread. Dense text
 * takes 0.15 s/MB, 2 s/MB if the rules are interpreted. */
#define CPU_FLOOR_NS ((uint64_t)2000000000u)
#define CPU_NS_PER_BYTE 4000u
#define CPU_ASK_EVERY 64u
/* This many characters at either end of a known secret identify a piece of it. */
#define PIECE 12u
#define PSEUDONYM_MAX 60u
#define QUOTES_MAX 4u

struct search {
    struct redactor *r;
    const struct redact_text *t;
    struct redact_spans *out;
    size_t *done; /* by rule: searched up to here */
    uint64_t *work;
    size_t line_from, line_to; /* of the last hit */
    size_t unknown;            /* the first unknown word at or after the beginning of that line */
    bool learning;
    enum redact_form form;
    uint64_t deadline_ns;
    unsigned asked;
    bool late;
};

static void find_line(struct search *s, size_t at)
{
    const char *p = s->t->p;
    if (at >= s->line_from && at < s->line_to)
        return;
    size_t from = at;
    while (from > 0 && p[from - 1] != '\n' && p[from - 1] != '\r')
        from--;
    size_t to = at;
    while (to < s->t->len && p[to] != '\n' && p[to] != '\r')
        to++;
    s->line_from = from;
    s->line_to = to;
}

/* Does the line of the last hit hold a word that no vocabulary has? Most lines of a log do not. */
static bool has_unknown_word(struct search *s)
{
    if (s->unknown < s->line_from)
        s->unknown = redact_unknown_word(s->r->rules->vocabulary, s->t->p, s->line_from, s->t->len);
    return s->unknown < s->line_to;
}

static uint64_t cpu_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_late(struct search *s)
{
    if (!s->late && s->asked++ % CPU_ASK_EVERY == 0)
        s->late = cpu_ns() > s->deadline_ns;
    return s->late;
}

static void hide_line(struct search *s, const struct redact_rule *rule)
{
    struct redact_span line = {s->line_from, s->line_to,     REDACT_SECRET,
                               rule,         "not-searched", false};
    redact_spans_add(s->out, line);
}

static void search_window(struct search *s, size_t index, size_t from, size_t to)
{
    const struct redact_rule *rule = &s->r->rules->list[index];
    size_t start = from > WINDOW_BACK ? from - WINDOW_BACK : 0;
    size_t end = s->t->len - to < WINDOW_AHEAD ? s->t->len : to + WINDOW_AHEAD;
    s->work[index] += end - start;
    if (s->work[index] > WORK_FLOOR + WORK_FACTOR * s->t->len) {
        hide_line(s, rule);
        return;
    }
    redact_rule_find(s->r->rules, rule, s->t->p, s->t->len, start, end, s->out);
    /* The first half of the bytes ahead need not be searched again: a match that begins there had room to end. */
    if (to + WINDOW_AHEAD / 2 > s->done[index])
        s->done[index] = to + WINDOW_AHEAD / 2;
}

/* Does the rule hide only words that are not plain? */
static bool is_of_sentences(const struct redact_rule *rule)
{
    return rule->unless_known == KNOWN_PLAIN || rule->unless_known == KNOWN_WORDS ||
           rule->unless_known == KNOWN_PART || rule->unless_known == KNOWN_IDENTIFIER ||
           rule->unless_known == KNOWN_LIFE || rule->unless_known == KNOWN_LIVES;
}

static void on_keyword(struct search *s, size_t index, size_t from, size_t to)
{
    const struct redact_rule *rule = &s->r->rules->list[index];
    if (from < s->done[index] || (s->learning && !rule->learn))
        return;
    /* Parts of two joined lines may look like an unknown word. */
    bool guesses = s->form == REDACT_FORM_TEXT || rule->in_argument;
    if (rule->in_argument && s->form != REDACT_FORM_ARGUMENTS)
        return;
    if (rule->unless_known != KNOWN_NONE && (!guesses || s->r->is_guessed || (s->r->is_measured && !rule->measured)))
        return;
    find_line(s, from);
    if (is_of_sentences(rule) && !rule->across && !has_unknown_word(s)) {
        s->done[index] = s->line_to;
        return;
    }
    s->done[index] = s->line_to;
    if (is_late(s))
        hide_line(s, rule);
    else if (rule->across)
        search_window(s, index, from, to);
    else
        redact_rule_find(s->r->rules, rule, s->t->p, s->t->len, s->line_from, s->line_to, s->out);
}

/* Tries the rules that need a word in no vocabulary instead of a keyword. */
static void on_unknown_words(struct search *s)
{
    const struct redact_vocabulary *vocabulary = s->r->rules->vocabulary;
    size_t at = 0;
    while ((at = redact_unknown_word(vocabulary, s->t->p, at, s->t->len)) < s->t->len) {
        s->unknown = at;
        for (size_t i = 0; i < s->r->rules->count; i++) {
            const struct redact_rule *rule = &s->r->rules->list[i];
            if (is_of_sentences(rule) && rule->near_count == 0)
                on_keyword(s, i, at, at + 1);
        }
        find_line(s, at);
        at = s->line_to;
    }
    s->unknown = 0;
    s->line_from = s->line_to = 0;
}

/* Looks at every rule->run-th byte, and back from there: most text is passed over unread. */
static void on_runs(struct search *s, size_t index)
{
    const size_t run = s->r->rules->list[index].run;
    for (size_t i = run - 1; i < s->t->len;) {
        size_t n = 0;
        while (n < run && (isalnum((unsigned char)s->t->p[i - n]) || s->t->p[i - n] == '+'))
            n++;
        if (n == run) {
            on_keyword(s, index, i, i + 1);
            i = s->done[index] > i ? s->done[index] : i;
            n = 0;
        }
        i += run - n;
    }
}

/* The text may hold only the beginning or the end of a known secret: hides the part that is
 * there. */
static void on_secret(struct search *s, const struct redact_name *name, bool ending, size_t from,
                      size_t to)
{
    size_t piece = to - from;
    if (!ending) {
        for (size_t n = piece; n < name->len && to < s->t->len; n++, to++) {
            if (strncasecmp(s->t->p + to, name->value + n, 1) != 0)
                break;
        }
    } else {
        for (size_t n = name->len - piece; n > 0 && from > 0; n--, from--) {
            if (strncasecmp(s->t->p + from - 1, name->value + n - 1, 1) != 0)
                break;
        }
    }
    struct redact_span span = {from, to, REDACT_SECRET, NULL, name->label, false};
    redact_spans_add(s->out, span);
}

static bool is_label(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '.';
}

/* The rules know homes by the usual names (/home/x, /root); this machine's may lie anywhere. */
static void below_home(struct search *s, size_t from, size_t to)
{
    const struct redact_rules *rules = s->r->rules;
    find_line(s, from);
    for (size_t i = 0; i < rules->count && to < s->line_to; i++) {
        if (rules->list[i].below_home)
            redact_rule_follow(rules, &rules->list[i], s->t, s->line_from, to, s->line_to, s->out);
    }
}

static bool is_folder_char(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("_-.@+", c) != NULL);
}

/* Does an absolute path begin at `at`? Not within "http://host/u", but after "file://" and after an
 * option ("-I/u"). */
static bool begins_path(const struct redact_text *t, size_t at)
{
    char before = at > 0 ? t->p[at - 1] : '\0';
    char further = at > 1 ? t->p[at - 2] : '\0';
    if (before == '/')
        return further == '/';
    return !is_folder_char(before) || (isalpha((unsigned char)before) && further == '-');
}

/* Each folder in a folder of homes is somebody's home. */
static void on_homes(struct search *s, size_t from, size_t to)
{
    size_t end = to + 1;
    while (is_folder_char(redact_at(s->t, end)))
        end++;
    if (end < to + 3 || !redact_is_given_name(s->r, s->t->p + to + 1, end - to - 1))
        return;
    if (!s->learning && !s->r->kept[REDACT_HOME]) {
        struct redact_span home = {from, end, REDACT_HOME, NULL, NULL, false};
        redact_spans_add(s->out, home);
    }
    below_home(s, from, end);
}

static void on_folder(struct search *s, const struct redact_name *name, size_t from, size_t to)
{
    char after = redact_at(s->t, to);
    if (!begins_path(s->t, from) || isalnum((unsigned char)after) || after == '_' || after == '-')
        return;
    if (name->homes) {
        if (after == '/')
            on_homes(s, from, to);
        return;
    }
    below_home(s, from, from + name->below);
    if (name->tail > 0 && !s->learning && !s->r->kept[REDACT_PROJECT]) {
        struct redact_span last = {to - name->tail, to, REDACT_PROJECT, NULL, NULL, false};
        redact_spans_add(s->out, last);
    }
}

static void on_hit(void *arg, uint32_t id, size_t from, size_t to)
{
    struct search *s = arg;
    if (id < s->r->keyword_count) {
        on_keyword(s, s->r->keyword_rule[id], from, to);
        return;
    }
    const struct redact_name *name = &s->r->names[(id - s->r->keyword_count) / 2];
    if (name->homes || name->below > 0) {
        on_folder(s, name, from, to);
        return;
    }
    if (name->kind == REDACT_HOME && redact_is_meant(name, s->t, from))
        below_home(s, from, to);
    if (s->learning)
        return;
    if (name->kind == REDACT_SECRET) {
        on_secret(s, name, (id - s->r->keyword_count) % 2 == 1, from, to);
    } else if (redact_is_meant(name, s->t, from)) {
        while (name->domain && from > 0 && is_label(s->t->p[from - 1]))
            from--;
        struct redact_span span = {from, to, name->kind, NULL, NULL, false};
        redact_spans_add(s->out, span);
    }
}

static int add_literal(struct redactor *r, size_t index)
{
    const struct redact_name *name = &r->names[index];
    uint32_t id = (uint32_t)(r->keyword_count + 2 * index);
    if (name->kind != REDACT_SECRET || name->len <= PIECE)
        return redact_scan_add(r->scan, name->value, name->len, id);
    int e = redact_scan_add(r->scan, name->value, PIECE, id);
    return e == 0 ? redact_scan_add(r->scan, name->value + name->len - PIECE, PIECE, id + 1) : e;
}

static int make_scan(struct redactor *r)
{
    size_t words = 0;
    for (size_t i = 0; i < r->rules->count; i++)
        words += r->rules->list[i].near_count;
    if (r->keyword_rule == NULL &&
        (r->keyword_rule = calloc(words + 1, sizeof *r->keyword_rule)) == NULL)
        return -ENOMEM;
    redact_scan_free(r->scan);
    r->keyword_count = 0;
    r->scan_stale = false;
    r->scan = redact_scan_new();
    int e = r->scan != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; i < r->rules->count; i++) {
        const struct redact_rule *rule = &r->rules->list[i];
        for (size_t k = 0; e == 0 && k < rule->near_count; k++) {
            r->keyword_rule[r->keyword_count] = (uint32_t)i;
            e = redact_scan_add(r->scan, rule->near[k], strlen(rule->near[k]),
                                (uint32_t)r->keyword_count++);
        }
    }
    for (size_t i = 0; e == 0 && i < r->count; i++)
        e = r->names[i].literal ? add_literal(r, i) : 0;
    if (e == 0)
        e = redact_scan_build(r->scan);
    if (e < 0) {
        redact_scan_free(r->scan);
        r->scan = NULL;
    }
    return e;
}

/* Length of "<text: 312 characters>" at `at`; 0 = there is none. */
static size_t text_pseudonym_at(const struct redact_text *t, size_t at)
{
    static const char head[] = "<text: ", tail[] = " characters>";
    size_t n = sizeof head - 1;
    if (t->len - at < n + sizeof tail || memcmp(t->p + at, head, n) != 0)
        return 0;
    while (isdigit((unsigned char)redact_at(t, at + n)))
        n++;
    bool ends = n > sizeof head - 1 && t->len - at - n >= sizeof tail - 1 &&
                memcmp(t->p + at + n, tail, sizeof tail - 1) == 0;
    return ends ? n + sizeof tail - 1 : 0;
}

/* Length of a pseudonym that stands at `at`: "<user1>", "<secret:named>"; 0 = none. */
static size_t pseudonym_at(const struct redact_text *t, size_t at)
{
    size_t n = 0, tail = 0;
    if (redact_at(t, at) != '<')
        return 0;
    while (n < 8 && islower((unsigned char)redact_at(t, at + 1 + n)))
        n++;
    int kind = n > 0 ? redact_kind_of(t->p + at + 1, n) : -1;
    size_t from = at + 1 + n;
    if (kind == REDACT_TEXT)
        return text_pseudonym_at(t, at);
    if (kind == REDACT_SECRET && redact_at(t, from) == ':') {
        for (tail = 1; tail < PSEUDONYM_MAX; tail++) {
            char c = redact_at(t, from + tail);
            if (!islower((unsigned char)c) && !isdigit((unsigned char)c) && c != '-')
                break;
        }
    } else if (kind >= 0 && kind != REDACT_SECRET) {
        while (tail < 8 && isdigit((unsigned char)redact_at(t, from + tail)))
            tail++;
    }
    return tail > 0 && redact_at(t, from + tail) == '>' ? 1 + n + tail + 1 : 0;
}

/* True if the text was redacted before and holds a pseudonym at this place. */
static bool is_hidden_already(const struct redact_text *t, const struct redact_span *span)
{
    size_t first = span->from > PSEUDONYM_MAX ? span->from - PSEUDONYM_MAX : 0;
    for (size_t at = span->from + 1; at-- > first;) {
        size_t len = pseudonym_at(t, at);
        if (len > 0 && at + len > span->from)
            return span->to <= at + len;
    }
    for (size_t at = span->from; at < span->to && at <= span->from + QUOTES_MAX; at++) {
        size_t len = pseudonym_at(t, at);
        if (len > 0)
            return span->to <= at + len;
    }
    return false;
}

static bool is_guess(const struct redact_span *span)
{
    return span->rule != NULL && span->rule->unless_known != KNOWN_NONE;
}

/* Drops a guess where another rule found a kind that is kept: a user who keeps paths sees whole paths. */
static void drop_guesses_at_kept(struct search *s)
{
    struct redact_spans *spans = s->out;
    const bool *keep = s->r->kept;
    size_t kept = 0, until = 0; /* the furthest end of what is kept so far */
    redact_spans_sort(spans);
    for (size_t i = 0; i < spans->count; i++) {
        const struct redact_span *span = &spans->list[i];
        bool inside = span->from < until;
        for (size_t k = i + 1; !inside && k < spans->count && spans->list[k].from < span->to; k++)
            inside = keep[spans->list[k].kind];
        if (keep[span->kind] && span->to > until)
            until = span->to;
        if (!inside || !is_guess(span))
            spans->list[kept++] = *span;
    }
    spans->count = kept;
}

/* "cuMemcpyDtoH", "InsufficientInstanceCapacity": nobody writes a host so. */
static bool is_camel_case(const char *p, size_t len)
{
    size_t humps = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isalpha((unsigned char)p[i]))
            return false;
        humps += i > 0 && isupper((unsigned char)p[i]) && islower((unsigned char)p[i - 1]);
    }
    return humps >= 2;
}

/* "CUDNN_STATUS_INTERNAL_ERROR": a constant of known words is an error code, wherever it stands. */
static bool is_known_constant(const struct redactor *r, const char *p, size_t len)
{
    size_t joints = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isupper((unsigned char)p[i]) && !isdigit((unsigned char)p[i]) && p[i] != '_')
            return false;
        joints += p[i] == '_';
    }
    return joints >= 2 && redact_is_known(r->rules->vocabulary, KNOWN_WORDS, p, len);
}

/* Drops findings of kinds that the user keeps, findings that only teach names, findings that identify nobody, and
 * unknown words of a message that the C library prints in another language, or of a public library. */
static void drop_others(struct search *s)
{
    struct redact_spans *spans = s->out;
    size_t kept = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const struct redact_span *span = &spans->list[i];
        bool common = false;
        if (span->rule != NULL && (span->kind == REDACT_USER || span->kind == REDACT_HOST)) {
            char value[64] = "";
            if (span->to - span->from < sizeof value)
                memcpy(value, s->t->p + span->from, span->to - span->from);
            common = (value[0] != '\0' && redact_is_common(value)) ||
                     is_known_constant(s->r, s->t->p + span->from, span->to - span->from) ||
                     (span->kind == REDACT_HOST && is_guess(span) &&
                      is_camel_case(s->t->p + span->from, span->to - span->from));
        }
        bool message = is_guess(span) && translated_covers(s->t->p, s->t->len, span->from, span->to);
        bool symbol = is_guess(span) && redact_is_public_symbol(s->r, s->t, span->from);
        if (!common && !message && !symbol && !is_hidden_already(s->t, span) &&
            (s->learning || (!s->r->kept[span->kind] && !span->learn_only)))
            spans->list[kept++] = *span;
    }
    spans->count = kept;
}

static bool keeps_any(const struct redactor *r)
{
    bool any = false;
    for (size_t kind = 0; kind < REDACT_KIND_MAX; kind++)
        any = any || r->kept[kind];
    return any;
}

int redact_search_form(struct redactor *r, const struct redact_text *t, bool learning, enum redact_form form,
                       struct redact_spans *out)
{
    if ((r->scan == NULL || (r->scan_stale && !learning)) && make_scan(r) < 0)
        return -ENOMEM;
    struct search s = {.r = r, .t = t, .out = out, .learning = learning, .form = form};
    s.deadline_ns = cpu_ns() + CPU_FLOOR_NS + (uint64_t)t->len * CPU_NS_PER_BYTE;
    s.done = calloc(r->rules->count, sizeof *s.done);
    s.work = calloc(r->rules->count, sizeof *s.work);
    if (s.done != NULL && s.work != NULL) {
        for (size_t i = 0; i < r->rules->count; i++) {
            const struct redact_rule *rule = &r->rules->list[i];
            if (rule->run > 0)
                on_runs(&s, i);
            else if (rule->near_count == 0 && rule->unless_known == KNOWN_NONE && !rule->in_record &&
                     (!learning || rule->learn))
                redact_rule_find(r->rules, rule, t->p, t->len, 0, t->len, out);
        }
        if (form == REDACT_FORM_TEXT && !learning && !r->is_measured && !r->is_guessed)
            on_unknown_words(&s);
        redact_scan_run(r->scan, t->p, t->len, on_hit, &s);
        redact_drop_in_public(out);
        if (keeps_any(r))
            drop_guesses_at_kept(&s);
        drop_others(&s);
    }
    int e = s.done == NULL || s.work == NULL ? -ENOMEM : out->failed;
    free(s.done);
    free(s.work);
    return e;
}

/* Names found there are learned at once: the caller's text does not hold them in one piece. */
static int search_folded(struct redactor *r, const struct redact_text *t, bool learning,
                         struct redact_spans *out)
{
    struct redact_folded folded;
    struct redact_spans more = {0};
    int e = redact_fold(r->rules, t, &folded);
    if (e < 0 || folded.len == 0)
        return e;
    const struct redact_text third = {folded.p, folded.len};
    e = redact_search_form(r, &third, learning, REDACT_FORM_FOLDED, &more);
    for (size_t i = 0; e == 0 && i < more.count; i++) {
        struct redact_span span = more.list[i];
        if (learning && span.rule != NULL && span.rule->learn)
            e = redact_learn_span(r, &third, &span);
        else if (!learning && redact_folded_place(t, &folded, &span))
            redact_spans_add(out, span);
    }
    free(more.list);
    redact_folded_release(&folded);
    return e;
}

/* Has it a form that bytes which are no text do not have by chance? They look like a name or an address. */
static bool is_sure_in_bytes(enum redact_kind kind)
{
    return kind == REDACT_SECRET || kind == REDACT_EMAIL || kind == REDACT_HOME;
}

static int search_dump(struct redactor *r, const struct redact_text *t, bool learning, struct redact_spans *out)
{
    struct redact_dump dump;
    struct redact_spans more = {0};
    int e = redact_dump_read(t, &dump);
    if (e < 0 || dump.len == 0)
        return e;
    const struct redact_text fourth = {dump.p, dump.len};
    e = redact_search_form(r, &fourth, learning, REDACT_FORM_FOLDED, &more);
    for (size_t i = 0; e == 0 && i < more.count; i++) {
        const struct redact_span *span = &more.list[i];
        if (!is_sure_in_bytes(span->kind))
            continue;
        if (!learning)
            redact_dump_place(t, &dump, span, out);
        else if (span->rule != NULL && span->rule->learn)
            e = redact_learn_span(r, &fourth, span);
    }
    free(more.list);
    redact_dump_release(&dump);
    return e;
}

int redact_search(struct redactor *r, const struct redact_text *t, bool learning,
                  struct redact_spans *out)
{
    bool failed = false;
    int e = redact_search_form(r, t, learning, REDACT_FORM_TEXT, out);
    char *plain = e == 0 ? redact_unescaped(t, &failed) : NULL;
    if (plain != NULL) {
        /* This search adds to the first and does not replace it: it takes the "\n" in
         * "C:\Users\nora" for a line end. */
        const struct redact_text second = {plain, t->len};
        struct redact_spans more = {0};
        e = redact_search_form(r, &second, learning, REDACT_FORM_TEXT, &more);
        for (size_t i = 0; e == 0 && i < more.count; i++) {
            const struct redact_span *span = &more.list[i];
            if (memmem(t->p + span->from, span->to - span->from, REDACT_ITEMS,
                       sizeof REDACT_ITEMS - 1) == NULL)
                redact_spans_add(out, *span); /* a span with the separator would break the list */
        }
        free(more.list);
        free(plain);
    }
    if (e == 0)
        e = search_folded(r, t, learning, out);
    if (e == 0)
        e = search_dump(r, t, learning, out);
    if (e == 0)
        e = failed ? -ENOMEM : out->failed;
    bool more = !learning && !r->is_measured && !r->is_guessed && !keeps_any(r);
    if (e == 0 && more)
        e = redact_records(r, t, out);
    if (e == 0)
        e = redact_arguments(r, t, learning, out);
    if (e == 0 && !learning)
        redact_spans_settle(out);
    if (e == 0 && more)
        e = redact_again(r, t, out);
    return e;
}
