/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocabulary_to_facts(): one pass over the words of a text. A word is folded and hashed while it is read,
 * so a word in no table has no further cost.
 *
 * Lines marked as warnings, source lines echoed by a traceback, and code are skipped: a code on such a
 * line was not returned.
 */
#include "diagnose/vocabulary.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/log_words.h"
#include "diagnose/rules.h"
#include "diagnose/text_facts.h"

#define HITS_MAX 8
#define WORD_MAX 96
/* A call is on the line of its code, or on a neighbouring line. */
#define CALL_LINES 3
#define OTHERS_COUNT 0.5F
/* hipErrorInvalidDevicePointer from hipMalloc() does not mean that memory was short: if the code says enough,
 * the call counts less. */
#define SAYS_ENOUGH 2.0F
#define CALL_COUNTS 0.5F
#define STANDING_ALONE_MIN 10 /* digits of a number that is a code without a word before it */

struct hit {
    const struct code *code;
    struct text call; /* empty = not known */
    struct text text;
    unsigned line;
};

struct reader {
    struct hit hits[HITS_MAX]; /* the first of each code */
    size_t count;
    unsigned all;
    struct text call;
    unsigned call_line;
    unsigned line;
};

struct word {
    struct text text;
    char folded[WORD_MAX];
    size_t folded_len;
    uint32_t hash;
    bool underscore;
};

/* The state of reading one line. */
struct line {
    struct text text;
    struct text domain;    /* the last domain named, directly or by a call */
    bool domain_is_before; /* the word before this one names it */
    bool domain_is_code;   /* the word that names the domain also announces a code: hipError_t,
                            * errno, exit */
    struct text previous;  /* the word before this one */
    bool looked;
    uint64_t words; /* lists that have a word on the line, once computed */
    struct text call;
};

/* A byte of a word in lower case; 0 = of no word. */
static const char lower_of[256] = {
    ['_'] = '_', ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5', ['6'] = '6', ['7'] = '7',
    ['8'] = '8', ['9'] = '9', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd', ['e'] = 'e', ['f'] = 'f', ['g'] = 'g',
    ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k', ['l'] = 'l', ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p',
    ['q'] = 'q', ['r'] = 'r', ['s'] = 's', ['t'] = 't', ['u'] = 'u', ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y',
    ['z'] = 'z', ['A'] = 'a', ['B'] = 'b', ['C'] = 'c', ['D'] = 'd', ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h',
    ['I'] = 'i', ['J'] = 'j', ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p', ['Q'] = 'q',
    ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u', ['V'] = 'v', ['W'] = 'w', ['X'] = 'x', ['Y'] = 'y', ['Z'] = 'z',
};

static struct text first_word(struct text rest, struct word *w)
{
    size_t n = 0;
    w->hash = VOCABULARY_HASH;
    w->folded_len = 0;
    w->underscore = false;
    for (; n < rest.len && lower_of[(unsigned char)rest.at[n]] != '\0'; n++) {
        char c = lower_of[(unsigned char)rest.at[n]];
        if (c == '_') {
            w->underscore = true;
            continue;
        }
        w->hash = vocabulary_hash(w->hash, c);
        if (w->folded_len < WORD_MAX)
            w->folded[w->folded_len++] = c;
    }
    w->text = text_first(rest, n);
    return text_skip(rest, n);
}

static bool line_has(struct line *l, uint64_t list)
{
    if (!l->looked)
        l->words = log_words_in(l->text.at, l->text.len, 0);
    l->looked = true;
    return (l->words & list) != 0;
}

/* 'openat(AT_FDCWD, "/lib/x.so", O_RDONLY) = -1 ENOENT': a program tries many paths. Only a GPU's device
 * counts. */
static bool is_traced_call(struct text line)
{
    size_t n = 0;
    while (n < line.len && text_is_word(line.at[n]))
        n++;
    return n > 2 && n < line.len && line.at[n] == '(' && text_has(line, ") = -1 E") && !text_has(line, "/dev/");
}

/* "if (err == hipErrorNotReady)", "return hipErrorUnknown;", "ret=0, errno=1" */
static bool is_code_line(struct text line)
{
    struct text t = text_trim(line);
    return is_traced_call(t) || (t.len > 0 && (t.at[t.len - 1] == ';' || t.at[t.len - 1] == '{')) ||
           rule_is_on(RULE_CODE_LINE, t);
}

static void add_hit(struct reader *r, const struct line *l, const struct code *code)
{
    if (code->prior == NULL)
        return;
    r->all++;
    for (size_t i = 0; i < r->count; i++)
        if (r->hits[i].code == code)
            return;
    if (r->count == HITS_MAX)
        return;
    struct hit *hit = &r->hits[r->count++];
    *hit = (struct hit){.code = code, .text = text_trim(l->text), .line = r->line, .call = l->call};
    if (hit->call.len == 0 && r->call.len > 0 && r->line - r->call_line < CALL_LINES)
        hit->call = r->call;
}

static void add_call(struct reader *r, struct line *l, struct text call, struct text domain)
{
    l->call = call;
    l->domain_is_code = false;
    l->domain = domain;
    r->call = call;
    r->call_line = r->line;
    for (size_t i = 0; i < r->count; i++)
        if (r->hits[i].call.len == 0 && r->line - r->hits[i].line < CALL_LINES)
            r->hits[i].call = call;
}

/* 137 -> SIGKILL, -11 -> SIGSEGV, 0xC0000005 and -1073741819 -> STATUS_ACCESS_VIOLATION. */
static const struct code *exit_code(int64_t n)
{
    static const struct text signal = {"signal", 6}, windows = {"windows", 7};
    if (n > 128 && n < 193)
        return vocabulary_number(signal, n - 128);
    if (n < 0 && n > -65)
        return vocabulary_number(signal, -n);
    return n > UINT32_MAX || n < INT32_MIN ? NULL : vocabulary_number(windows, (int64_t)(uint32_t)n);
}

static const struct code *code_of(struct text domain, int64_t n, bool after_name)
{
    if (text_equals(domain, "exit"))
        return exit_code(n);
    if (text_equals(domain, "errno"))
        return n < 0 ? vocabulary_number(domain, -n) : after_name ? vocabulary_number(domain, n) : NULL;
    if (text_equals(domain, "windows"))
        return vocabulary_number(domain, (int64_t)(uint32_t)n);
    return vocabulary_number(domain, n);
}

/* NTSTATUS and HRESULT values are large enough to be recognised without a word before them. */
static bool stands_alone(int64_t n)
{
    uint32_t high = (uint32_t)n >> 16;
    return n == (int64_t)(int32_t)n || n <= UINT32_MAX ? high == 0xc000u || high == 0x887au : false;
}

static bool code_may_follow(struct text word)
{
    static const char *const words[] = {"error", "err", "code", "status", "returned", "returns", "return", "gives", "result",
                                        "with", "rc", "ret", "errno", "failed", "retval", "exitcode",
                                        "value", "signal", NULL};
    char lower[12];
    if (word.len == 0 || word.len >= sizeof lower)
        return false;
    for (size_t i = 0; i < word.len; i++)
        lower[i] = (char)tolower((unsigned char)word.at[i]);
    for (size_t i = 0; words[i] != NULL; i++)
        if (text_equals((struct text){lower, word.len}, words[i]))
            return true;
    return false;
}

/* "HIP:700"; not "solver.hip:700". */
static bool is_domain_itself(const struct line *l)
{
    return l->domain_is_before && (l->previous.at == l->text.at || l->previous.at[-1] != '.');
}

static void read_number(struct reader *r, struct line *l, const struct word *w, const char *before)
{
    char digits[24];
    char *end = NULL;
    bool may_stand_alone = w->text.len >= STANDING_ALONE_MIN;
    if (w->text.len >= sizeof digits || w->underscore || (l->domain.len == 0 && !may_stand_alone))
        return;
    text_copy(w->text, digits, sizeof digits);
    int64_t n = (int64_t)strtoull(digits, &end, 0);
    if (*end != '\0')
        return;
    bool first = before <= l->text.at;
    const char *behind = before + w->text.len, *end_of_line = l->text.at + l->text.len;
    if ((behind + 1 < end_of_line && *behind == '.' && isdigit((unsigned char)behind[1])) ||
        (!first && (before[-1] == '.' || (before[-1] == ':' && !is_domain_itself(l))) && before - 1 > l->text.at &&
         isalnum((unsigned char)before[-2])))
        return; /* part of a version, a time or a place in a source */
    if (end_of_line - behind > 2 && behind[0] == ':' && isxdigit((unsigned char)behind[1]) && isxdigit((unsigned char)behind[2]))
        return; /* of a PCI address or a time */
    if (end_of_line - behind > 2 && behind[0] == ' ' && behind[1] == 'E' && isupper((unsigned char)behind[2]))
        return; /* "= -1 ENOENT": the name counts */
    bool negative = !first && before[-1] == '-' && (before - 1 <= l->text.at || !text_is_word(before[-2]));
    const char *sign = before - negative;
    bool arrow = sign - l->text.at >= 3 && (memcmp(sign - 3, "-> ", 3) == 0 || memcmp(sign - 2, "= ", 2) == 0 ||
                                            sign[-1] == '(' || sign[-1] == '=');
    const struct code *c = NULL;
    n = negative && n != INT64_MIN ? -n : n;
    if (may_stand_alone && stands_alone(n))
        c = vocabulary_number((struct text){"windows", 7}, (int64_t)(uint32_t)n);
    else if (l->domain.len > 0 && (l->domain_is_before || code_may_follow(l->previous) || arrow) && w->text.len <= 11 &&
             (l->domain_is_code || line_has(l, LOG_WORDS_CODE_FAILED))) /* not "ROCm 6" */
        c = code_of(l->domain, n, l->domain_is_before);
    if (c != NULL)
        add_hit(r, l, c);
}

/* Names of system errors are also plain words, so they count only in capitals. A bare name counts only
 * if it is written like an identifier. */
static bool is_written_as_code(const struct word *w, const struct code *c, enum word_kind kind)
{
    bool upper = false, lower = false;
    for (size_t i = 0; i < w->text.len; i++) {
        upper |= isupper((unsigned char)w->text.at[i]) != 0;
        lower |= islower((unsigned char)w->text.at[i]) != 0;
    }
    bool capitals = upper && !lower;
    if (text_equals(c->domain, "errno") || text_equals(c->domain, "signal"))
        return capitals;
    if (kind != WORD_BARE)
        return true;
    return (capitals && (w->underscore || w->text.len >= 13)) ||
           (lower && upper && w->text.len >= 9 &&
            (text_starts(w->text, "Error") || !isspace((unsigned char)w->text.at[-1])));
}

static bool names_a_code(const char *folded, size_t len)
{
    static const char *const parts[] = {"error", "status", "result", "exit", "errno", "sign", "return", NULL};
    struct text word = {folded, len};
    for (size_t i = 0; parts[i] != NULL; i++)
        if (text_has(word, parts[i]))
            return true;
    return false;
}

static void read_word(struct reader *r, struct line *l, const struct word *w)
{
    const struct code *c = NULL;
    struct text domain;
    bool domain_is_before = false;
    if (isdigit((unsigned char)w->text.at[0])) {
        read_number(r, l, w, w->text.at);
        l->previous = (struct text){"", 0};
        return;
    }
    enum word_kind kind = w->folded_len >= 3 ? vocabulary_hashed(w->hash, w->folded, w->folded_len, &c) : WORD_NONE;
    if (kind == WORD_DOMAIN) {
        l->domain = c->domain;
        l->domain_is_code = names_a_code(w->folded, w->folded_len);
        domain_is_before = true;
    } else if (kind != WORD_NONE) {
        bool common = kind == WORD_BARE || text_equals(c->domain, "errno");
        if ((kind != WORD_BARE || w->text.at > l->text.at || w->underscore) && is_written_as_code(w, c, kind) &&
            (!common || !text_equals(c->domain, "errno") || line_has(l, LOG_WORDS_ABOUT_GPU) || l->domain.len > 0))
            add_hit(r, l, c);
    } else if ((domain = vocabulary_domain_of_call(w->text)).len > 0) {
        add_call(r, l, w->text, domain);
    }
    l->previous = w->text;
    l->domain_is_before = domain_is_before;
}

/* Common words count as an error only after a place or a number: "hip_backend.cu:914: out of memory",
 * "failed with 3 (initialization error)". */
static bool follows_something(const struct line *l, const char *at)
{
    while (at > l->text.at && (at[-1] == ' ' || at[-1] == '"' || at[-1] == '\''))
        at--;
    return at > l->text.at && strchr(":(-=>[,", at[-1]) != NULL;
}

/* HIP and CUDA share most numbers and words: the line's own name of the error decides. */
static const struct code *in_words_of(const struct line *l, const struct code *c)
{
    const struct text cuda = {"cuda", 4};
    const struct code *same = text_equals(c->domain, "hip") && text_equals(l->domain, "cuda") && c->has_number
                                  ? vocabulary_number(cuda, c->number)
                                  : NULL;
    return same != NULL ? same : c;
}

static void read_string(struct reader *r, struct line *l, struct text rest, bool is_named)
{
    bool is_common = false;
    const struct code *c = vocabulary_string(rest, &is_common);
    if (c == NULL || (is_common && !((is_named || follows_something(l, rest.at)) && line_has(l, LOG_WORDS_ABOUT_GPU))))
        return;
    add_hit(r, l, in_words_of(l, c));
}

/* "hsa_init failed, possibly no device": the call alone is evidence. */
static void add_failed_call(struct reader *r, struct line *l)
{
    const struct code *c = NULL;
    if (line_has(l, LOG_WORDS_CALL_FAILED) && !scan_is_warning(l->text) && !is_code_line(l->text) &&
        vocabulary_word("failedcall", 10, &c) == WORD_CODE && text_equals(c->domain, "library"))
        add_hit(r, l, c);
}

static void read_line(struct reader *r, struct text text)
{
    struct line l = {.text = text};
    struct text rest = text;
    bool checked = false;
    size_t before = r->count;
    while (rest.len > 0) {
        if (!text_is_word(rest.at[0])) {
            rest = text_skip(rest, 1);
            continue;
        }
        struct word w;
        struct text at = rest;
        rest = first_word(rest, &w);
        unsigned all = r->all;
        bool is_named = l.domain_is_before;
        read_word(r, &l, &w);
        read_string(r, &l, at, is_named);
        if (r->all != all && !checked && (scan_is_warning(text) || is_code_line(text))) {
            r->all = all;
            r->count = before;
            return;
        }
        checked |= r->all != all;
    }
    if (!checked && l.call.len > 0 && vocabulary_call(l.call) != NULL)
        add_failed_call(r, &l);
}

static bool says_enough(const struct code *code)
{
    int best = prior_best(code->prior, -1);
    return best >= 0 && code->prior->weight[best] > SAYS_ENOUGH;
}

static void emit(const struct scan *s, const struct reader *r)
{
    struct prior sum = {{0}};
    const struct hit *first = &r->hits[0];
    struct scan at = *s;
    at.line = first->line;
    for (size_t i = 0; i < r->count; i++)
        prior_add(&sum, r->hits[i].code->prior, i == 0 ? 1.0F : OTHERS_COUNT);
    const struct prior *call = first->call.len > 0 ? vocabulary_call(first->call) : NULL;
    if (call != NULL)
        prior_add(&sum, call, says_enough(first->code) ? CALL_COUNTS : 1.0F);
    int best = prior_best(&sum, -1), second = prior_best(&sum, best);
    scan_text(&at, "err.domain", first->code->domain);
    scan_text(&at, "err.code", first->code->name);
    if (first->call.len > 0)
        scan_text(&at, "err.api", first->call);
    scan_integer(&at, "err.count", r->all);
    scan_text(&at, "err.text", text_first(first->text, 160));
    if (best < 0)
        return;
    scan_text(&at, "err.class", text_of(prior_class((size_t)best)));
    scan_real(&at, "err.weight", (double)sum.weight[best]);
    if (second >= 0) {
        const char *name = prior_class((size_t)second);
        scan_text(&at, "err.second", text_of(name));
        scan_real(&at, "err.second_weight", (double)sum.weight[second]);
    }
}

void vocabulary_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line, previous = {"", 0};
    struct scan s = {.facts = facts, .source = source != NULL ? source : "text"};
    struct reader r = {.line = before};
    for (; text_next_line(&rest, &line); previous = line) {
        r.line++;
        bool echo = text_starts(line, "    ") && text_starts(text_trim(previous), "File \"");
        if (line.len >= 4 && !echo)
            read_line(&r, line);
    }
    if (r.count > 0)
        emit(&s, &r);
}
