/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the rules: lines "key value", a rule begins with "rule NAME" (the file's head describes the
 * format). An error names the number of the line. A rule set with an error is not used at all.
 */
#include "bundle/redact_rules.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define DEFINES_MAX 256
#define RULES_MAX 1024 /* half for a site's own */
/* A search step takes some ten nanoseconds: a line on which a rule gives up costs milliseconds. */
#define MATCH_LIMIT 400000
#define DEPTH_LIMIT 200000
#define HEAP_LIMIT_KIB 65536
#define UNLESS_REACH 32
#define JIT_STACK_MAX ((size_t)1 << 20)

struct define {
    char *name, *value;
};

struct parser {
    struct redact_rules *rules;
    struct redact_rule *rule; /* the one that is being read */
    struct buf pattern;
    struct define defines[DEFINES_MAX];
    size_t define_count;
    const char *file;
    unsigned line;
    struct rc_err *err;
};

const char *const redact_kind_names[REDACT_KIND_MAX] = {
    [REDACT_SECRET] = "secret", [REDACT_HOME] = "home",   [REDACT_USER] = "user",
    [REDACT_HOST] = "host",     [REDACT_IP] = "ip",       [REDACT_MAC] = "mac",
    [REDACT_ID] = "id",         [REDACT_EMAIL] = "email", [REDACT_ACCOUNT] = "account",
    [REDACT_PATH] = "path",     [REDACT_PROJECT] = "project", [REDACT_TEXT] = "text",
};

int redact_kind_of(const char *name, size_t len)
{
    for (int kind = 0; kind < REDACT_KIND_MAX; kind++) {
        if (strlen(redact_kind_names[kind]) == len &&
            memcmp(redact_kind_names[kind], name, len) == 0)
            return kind;
    }
    return -1;
}

static int wrong(const struct parser *p, const char *what, const char *value)
{
    return rc_err_set(p->err, -EBADMSG, "%s:%u: %s '%.80s'", p->file, p->line, what, value);
}

/* --- patterns --- */

static const char *define_value(const struct parser *p, const char *name, size_t len)
{
    for (size_t i = 0; i < p->define_count; i++) {
        if (strlen(p->defines[i].name) == len && memcmp(p->defines[i].name, name, len) == 0)
            return p->defines[i].value;
    }
    return NULL;
}

/* Replaces {{name}} by its definition. Definitions may use earlier ones. */
static int expand(const struct parser *p, const char *text, struct buf *out)
{
    for (const char *at = text; *at != '\0';) {
        const char *open = strstr(at, "{{");
        const char *close = open != NULL ? strstr(open, "}}") : NULL;
        if (close == NULL) {
            buf_puts(out, at);
            break;
        }
        const char *value = define_value(p, open + 2, (size_t)(close - open - 2));
        if (value == NULL)
            return wrong(p, "nothing is defined as", open);
        buf_append(out, at, (size_t)(open - at));
        buf_puts(out, value);
        at = close + 2;
    }
    return buf_failed(out) ? -ENOMEM : 0;
}

/* A group without a name is hidden as the rule's kind, one with the name of a kind as that kind. A
 * group named "find_" and a kind only learns the name. The pattern itself uses all other groups. */
static int name_groups(const struct parser *p, struct redact_rule *rule)
{
    uint32_t count = 0, entry_size = 0;
    PCRE2_SPTR table = NULL;
    (void)pcre2_pattern_info(rule->code, PCRE2_INFO_CAPTURECOUNT, &rule->groups);
    (void)pcre2_pattern_info(rule->code, PCRE2_INFO_NAMECOUNT, &count);
    (void)pcre2_pattern_info(rule->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_size);
    (void)pcre2_pattern_info(rule->code, PCRE2_INFO_NAMETABLE, &table);
    if (rule->groups >= RULE_GROUPS_MAX)
        return wrong(p, "too many groups in", rule->name);
    for (uint32_t i = 0; i <= rule->groups; i++)
        rule->group_kind[i] = (unsigned char)rule->kind;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *entry = table + (size_t)i * entry_size;
        unsigned number = (unsigned)entry[0] << 8 | entry[1];
        const char *name = (const char *)entry + 2;
        bool only = strncmp(name, "find_", 5) == 0;
        int kind = redact_kind_of(name + (only ? 5 : 0), strlen(name) - (only ? 5 : 0));
        rule->group_kind[number] = kind >= 0 ? (unsigned char)kind : NOT_HIDDEN;
        rule->group_learn_only[number] = only;
        rule->group_label[number] = strcmp(name, "label") == 0;
        rule->has_label = rule->has_label || rule->group_label[number];
    }
    return 0;
}

static int compile(struct parser *p, struct redact_rule *rule)
{
    struct buf text = BUF_INIT;
    int code = 0;
    PCRE2_SIZE offset = 0;
    uint32_t flags = PCRE2_DUPNAMES | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF |
                     PCRE2_NEVER_BACKSLASH_C | (rule->exact ? 0 : PCRE2_CASELESS);
    int r = expand(p, buf_str(&p->pattern), &text);
    if (r == 0) {
        rule->code =
            pcre2_compile((PCRE2_SPTR)buf_str(&text), text.len, flags, &code, &offset, NULL);
        if (rule->code == NULL) {
            char why[128] = "";
            (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
            r = rc_err_set(p->err, -EBADMSG, "%s:%u: rule '%s': %s at '%.60s'", p->file, p->line,
                           rule->name, why,
                           offset <= text.len ? buf_str(&text) + offset : "its end");
        }
    }
    buf_release(&text);
    buf_release(&p->pattern);
    return r == 0 ? name_groups(p, rule) : r;
}

/* --- lines --- */

static int end_rule(struct parser *p)
{
    if (p->rule == NULL)
        return 0;
    struct redact_rule *rule = p->rule;
    p->rule = NULL;
    if (p->pattern.len == 0)
        return wrong(p, "no pattern before this line in rule", rule->name);
    return compile(p, rule);
}

static int begin_rule(struct parser *p, const char *name)
{
    struct redact_rules *rules = p->rules;
    int r = end_rule(p);
    if (r < 0)
        return r;
    if (name[0] == '\0' || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name))
        return wrong(p, "a rule's name is of small letters, digits and '-', not", name);
    for (size_t i = 0; i < rules->count; i++) {
        if (strcmp(rules->list[i].name, name) == 0)
            return wrong(p, "a second rule", name);
    }
    if (rules->count == RULES_MAX)
        return wrong(p, "too many rules at", name);
    rules->list[rules->count] = (struct redact_rule){
        .name = strdup(name), .kind = REDACT_KIND_MAX, .unless_reach = UNLESS_REACH};
    if (rules->list[rules->count].name == NULL)
        return -ENOMEM;
    p->rule = &rules->list[rules->count++];
    return 0;
}

/* "\x20" -> ' ', which would otherwise end the word. */
static void put_blanks(char *word)
{
    for (char *at; (at = strstr(word, "\\x20")) != NULL;) {
        *at = ' ';
        memmove(at + 1, at + 4, strlen(at + 4) + 1);
    }
}

static int add_words(const struct parser *p, const char *value, char **words, size_t *count)
{
    for (const char *at = value + strspn(value, " "); *at != '\0'; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        if (*count == RULE_WORDS_MAX)
            return wrong(p, "too many words in", value);
        words[*count] = strndup(at, len);
        if (words[*count] == NULL)
            return -ENOMEM;
        put_blanks(words[*count]);
        ++*count;
        at += len;
    }
    return 0;
}

static int add_example(struct redact_rule *rule, const char *value, bool must_hide)
{
    struct redact_example *grown =
        realloc(rule->examples, (rule->example_count + 1) * sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    rule->examples = grown;
    grown[rule->example_count] = (struct redact_example){strdup(value), must_hide};
    return grown[rule->example_count++].text != NULL ? 0 : -ENOMEM;
}

static int add_define(struct parser *p, const char *value)
{
    size_t len = strcspn(value, " ");
    struct buf text = BUF_INIT;
    if (p->define_count == DEFINES_MAX || value[len] != ' ')
        return wrong(p, "not a definition:", value);
    int r = expand(p, value + len + 1, &text);
    struct define *define = &p->defines[p->define_count];
    *define = (struct define){NULL, NULL};
    if (r == 0) {
        define->name = strndup(value, len);
        define->value = strdup(buf_str(&text));
        p->define_count++;
        r = define->name == NULL || define->value == NULL ? -ENOMEM : 0;
    }
    buf_release(&text);
    return r;
}

static int set_kind(const struct parser *p, const char *value)
{
    int kind = redact_kind_of(value, strlen(value));
    if (kind < 0)
        return wrong(p, "not a kind:", value);
    p->rule->kind = (enum redact_kind)kind;
    return 0;
}

static enum redact_known known_of(const char *name, size_t len)
{
    static const struct {
        const char *name;
        enum redact_known level;
    } levels[] = {{"name", KNOWN_NAME},
                  {"product", KNOWN_PRODUCT},
                  {"joining", KNOWN_JOINING},
                  {"single", KNOWN_SINGLE},
                  {"technical", KNOWN_TECHNICAL},
                  {"plain", KNOWN_PLAIN},
                  {"identifier", KNOWN_IDENTIFIER},
                  {"file", KNOWN_FILE},
                  {"words", KNOWN_WORDS},
                  {"nobody", KNOWN_NOBODY},
                  {"part", KNOWN_PART},
                  {"life", KNOWN_LIFE},
                  {"lives", KNOWN_LIVES},
                  {"speech", KNOWN_SPEECH},
                  {"filling", KNOWN_FILLING}};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strlen(levels[i].name) == len && memcmp(name, levels[i].name, len) == 0)
            return levels[i].level;
    }
    return KNOWN_NONE;
}

typedef int (*add_list)(struct redact_vocabulary *vocabulary, enum redact_known level, const char *words);

/* "gpu memory ..." */
static int add_each(struct redact_vocabulary *vocabulary, enum redact_known level, const char *words)
{
    size_t len = 0;
    int r = 0;
    for (const char *at = words; r == 0 && *(at += strspn(at, " ")) != '\0'; at += len) {
        len = strcspn(at, " ");
        r = redact_vocabulary_add(vocabulary, level, at, len);
    }
    return r;
}

/* "AabacusDndon": abacus, abandon (builtin_rules.cmake). A capital says how many letters are those of the word before. */
static int add_sorted(struct redact_vocabulary *vocabulary, enum redact_known level, const char *words)
{
    char word[64] = "";
    int r = 0;
    for (const char *at = words; r == 0 && *at >= 'A' && *at <= 'Z';) {
        size_t same = (size_t)(*at++ - 'A');
        size_t rest = strcspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ ");
        if (same > strlen(word) || same + rest >= sizeof word)
            return -EINVAL;
        memcpy(word + same, at, rest);
        word[same + rest] = '\0';
        r = redact_vocabulary_add(vocabulary, level, word, same + rest);
        at += rest;
    }
    return r;
}

/* "known technical gpu memory ..." */
static int add_known(const struct parser *p, const char *value, add_list add)
{
    size_t len = strcspn(value, " ");
    enum redact_known level = known_of(value, len);
    bool is_list = level <= KNOWN_IDENTIFIER || level == KNOWN_LIFE || level == KNOWN_SPEECH || level == KNOWN_FILLING;
    if (level == KNOWN_NONE || level == KNOWN_SINGLE || level == KNOWN_FILE || !is_list)
        return wrong(p, "not a vocabulary:", value);
    int r = add(p->rules->vocabulary, level, value + len + strspn(value + len, " "));
    return r == -EINVAL ? wrong(p, "not sorted words:", value) : r;
}

static int set_unless_known(const struct parser *p, const char *value)
{
    p->rule->unless_known = known_of(value, strlen(value));
    enum redact_known level = p->rule->unless_known;
    bool is_level = level != KNOWN_NONE && level != KNOWN_NAME && level != KNOWN_JOINING && level != KNOWN_FILLING;
    return is_level ? 0 : wrong(p, "not a vocabulary:", value);
}

/* "length hf_ 34": so many characters stand behind a word of "near". */
static int set_length(const struct parser *p, const char *value)
{
    struct redact_rule *rule = p->rule;
    size_t len = strcspn(value, " ");
    unsigned long length = strtoul(value + len, NULL, 10);
    for (size_t i = 0; i < rule->near_count; i++) {
        if (strlen(rule->near[i]) != len || memcmp(rule->near[i], value, len) != 0)
            continue;
        rule->near_length[i] = (unsigned char)length;
        return length > 0 && length <= UCHAR_MAX ? 0 : wrong(p, "not a length:", value);
    }
    return wrong(p, "not near that word:", value);
}

static int rule_line(struct parser *p, const char *key, const char *value)
{
    struct redact_rule *rule = p->rule;
    if (rule == NULL)
        return wrong(p, "before the first rule:", key);
    if (strcmp(key, "kind") == 0)
        return set_kind(p, value);
    if (rule->kind == REDACT_KIND_MAX)
        return wrong(p, "the kind comes first in rule", rule->name);
    if (strcmp(key, "near") == 0)
        return add_words(p, value, rule->near, &rule->near_count);
    if (strcmp(key, "length") == 0)
        return set_length(p, value);
    if (strcmp(key, "unless") == 0)
        return add_words(p, value, rule->unless, &rule->unless_count);
    if (strcmp(key, "unless-known") == 0)
        return set_unless_known(p, value);
    if (strcmp(key, "match") == 0 || strcmp(key, "never") == 0)
        return add_example(rule, value, key[0] == 'm');
    if (strcmp(key, "pattern") == 0)
        buf_puts(&p->pattern, value);
    else if (strcmp(key, "learn") == 0)
        rule->learn = true;
    else if (strcmp(key, "across") == 0)
        rule->across = true;
    else if (strcmp(key, "public") == 0)
        rule->is_public = rule->learn = true; /* names in it are not learned either */
    else if (strcmp(key, "exact") == 0)
        rule->exact = true;
    else if (strcmp(key, "below") == 0)
        rule->below = true;
    else if (strcmp(key, "below-home") == 0)
        rule->below_home = true;
    else if (strcmp(key, "record") == 0)
        *(strcmp(value, "full") == 0 ? &rule->record_full : &rule->record) = true;
    else if (strcmp(key, "measured") == 0)
        rule->measured = true;
    else if (strcmp(key, "in-record") == 0)
        rule->in_record = true;
    else if (strcmp(key, "in-argument") == 0)
        rule->in_argument = true;
    else if (strcmp(key, "bits") == 0)
        rule->bits = strtod(value, NULL);
    else if (strcmp(key, "run") == 0)
        rule->run = (size_t)strtoul(value, NULL, 10);
    else if (strcmp(key, "reach") == 0)
        rule->unless_reach = (size_t)strtoul(value, NULL, 10);
    else if (strcmp(key, "in-path") == 0)
        rule->unless_in_path = true;
    else
        return wrong(p, "not a word of the rules:", key);
    return 0;
}

static int one_line(struct parser *p, char *line)
{
    size_t len = strcspn(line, " ");
    if (line[0] == '#' || line[0] == '\0')
        return 0;
    const char *value = line[len] != '\0' ? line + len + 1 : "";
    line[len] = '\0';
    if (strcmp(line, "define") == 0)
        return add_define(p, value);
    if (strcmp(line, "known") == 0)
        return add_known(p, value, add_each);
    if (strcmp(line, "known-sorted") == 0)
        return add_known(p, value, add_sorted);
    return strcmp(line, "rule") == 0 ? begin_rule(p, value) : rule_line(p, line, value);
}

static int all_lines(struct parser *p, const char *text, size_t len)
{
    int r = 0;
    for (size_t at = 0; r == 0 && at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : len - at;
        RC_AUTO_FREE char *line = strndup(text + at, n);
        p->line++;
        r = line == NULL ? -ENOMEM : one_line(p, line);
        at += n + 1;
    }
    return r == 0 ? end_rule(p) : r;
}

static int make_contexts(struct redact_rules *rules)
{
    rules->match_context = pcre2_match_context_create(NULL);
    rules->match_data = pcre2_match_data_create(RULE_GROUPS_MAX, NULL);
    rules->jit_stack = pcre2_jit_stack_create(32u << 10, JIT_STACK_MAX, NULL);
    if (rules->match_context == NULL || rules->match_data == NULL)
        return -ENOMEM;
    (void)pcre2_set_match_limit(rules->match_context, MATCH_LIMIT);
    (void)pcre2_set_depth_limit(rules->match_context, DEPTH_LIMIT);
    (void)pcre2_set_heap_limit(rules->match_context, HEAP_LIMIT_KIB);
    pcre2_jit_stack_assign(rules->match_context, NULL, rules->jit_stack);
    return 0;
}

/* "ghp_", "AKIA", "r8_": no word of a sentence ends or looks so. */
static bool is_head(const char *word)
{
    size_t len = strlen(word);
    bool odd = false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)word[i];
        if (!isalnum(c) && strchr("-_.", c) == NULL)
            return false;
        odd = odd || isupper(c) != 0 || isdigit(c) != 0;
    }
    return len >= 3 && (odd || !isalnum((unsigned char)word[len - 1]));
}

static void add_head(struct redact_rules *rules, const struct redact_rule *rule, size_t k)
{
    rules->heads[rules->head_count].word = rule->near[k];
    rules->heads[rules->head_count++].length = rule->near_length[k];
}

static void find_heads(struct redact_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct redact_rule *rule = &rules->list[i];
        bool of_tokens = rule->kind == REDACT_SECRET && rule->unless_known == KNOWN_NONE;
        for (size_t k = 0; of_tokens && k < rule->near_count; k++)
            if (rules->head_count < HEADS_MAX && is_head(rule->near[k]))
                add_head(rules, rule, k);
    }
    for (size_t i = rules->head_count; i > 0; i--) { /* from the last one: the first one is found first */
        uint16_t *first = &rules->heads_of[(unsigned char)rules->heads[i - 1].word[0]];
        rules->heads[i - 1].next = *first;
        *first = (uint16_t)i;
    }
}

int redact_rules_parse(struct redact_rules **ret, const char *text, size_t len, const char *name,
                       struct rc_err *err)
{
    struct redact_rules *rules = calloc(1, sizeof *rules);
    struct parser p = {.rules = rules, .file = name, .err = err};
    int r = rules == NULL ? -ENOMEM : make_contexts(rules);
    if (r == 0 && ((rules->list = calloc(RULES_MAX, sizeof *rules->list)) == NULL ||
                   (rules->compiled = calloc(RULES_MAX, sizeof *rules->compiled)) == NULL ||
                   (rules->vocabulary = redact_vocabulary_new()) == NULL))
        r = -ENOMEM;
    if (r == 0)
        r = all_lines(&p, text, len);
    if (r == 0 && rules->count == 0)
        r = wrong(&p, "no rule in", name);
    if (r == -ENOMEM)
        (void)rc_err_errno(err, r, "cannot read the rules '%s'", name);
    for (size_t i = 0; i < p.define_count; i++) {
        free(p.defines[i].name);
        free(p.defines[i].value);
    }
    buf_release(&p.pattern);
    if (r == 0) {
        find_heads(rules);
        *ret = rules;
    } else {
        redact_rules_free(rules);
    }
    return r;
}

void redact_rules_free(struct redact_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->count; i++) {
        struct redact_rule *rule = &rules->list[i];
        for (size_t k = 0; k < rule->near_count; k++)
            free(rule->near[k]);
        for (size_t k = 0; k < rule->unless_count; k++)
            free(rule->unless[k]);
        for (size_t k = 0; k < rule->example_count; k++)
            free(rule->examples[k].text);
        free(rule->examples);
        free(rule->name);
        pcre2_code_free(rule->code);
    }
    free(rules->list);
    free(rules->compiled);
    redact_vocabulary_free(rules->vocabulary);
    pcre2_match_data_free(rules->match_data);
    pcre2_match_context_free(rules->match_context);
    pcre2_jit_stack_free(rules->jit_stack);
    free(rules);
}
