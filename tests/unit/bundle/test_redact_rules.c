/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules as data. Each rule hides its own examples, with random private parts, in upper and
 * lower case. It leaves its counter-examples unchanged, and it is needed: without it one of its
 * examples leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/redact.h"
#include "bundle/redact_rules.h"
#include "redact_help.h"

#define RULES_FILE TEST_SOURCE_DIR "/templates/redaction.rules"
#define PLANTS_MAX 8
#define ROUNDS 20

static char *rules_text;

struct filled {
    struct buf text;
    char plants[PLANTS_MAX][200];
    unsigned count;
};

static const struct {
    const char *name, *set;
} sets[] = {
    {"alnum", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"},
    {"letters", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"},
    {"hex", "0123456789abcdef"},
    {"digits", "123456789"},
    {"name", "bcdfghjklmnpqrstvwxz"},
    {"upper", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"},
    {"base32", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"},
    {"base64", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/"},
};

/* Made-up secrets have a letter and a digit, as nearly all real ones; "letters" and names have no
 * digit. */
static void make(char *out, const char *kind, size_t n)
{
    const char *set = NULL;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (strncmp(kind, sets[i].name, strlen(sets[i].name)) == 0)
            set = sets[i].set;
    }
    if (strncmp(kind, "ipv4", 4) == 0) {
        (void)snprintf(out, 200, "10.%u.%u.%u", (unsigned)(draw() % 256), (unsigned)(draw() % 256),
                       (unsigned)(1 + draw() % 254));
        return;
    }
    assert_non_null(set);
    size_t size = strlen(set);
    for (size_t i = 0; i < n; i++)
        out[i] = set[draw() % size];
    if (n > 1 && strpbrk(set, "234567") != NULL && strpbrk(set, "abcABC") != NULL) {
        out[0] = strpbrk(set, "abcdABCD")[0];
        out[1] = (char)('2' + draw() % 6);
    }
    out[n] = '\0';
}

static void plant(struct filled *f, const char *value)
{
    assert_true(f->count < PLANTS_MAX);
    (void)snprintf(f->plants[f->count++], sizeof f->plants[0], "%s", value);
    buf_puts(&f->text, value);
}

/* "\n", "\t" and "\\" are one character; "{alnum:20}" is made up, "{exact:x}" is x. */
static struct filled fill(const char *example)
{
    struct filled f = {.text = BUF_INIT};
    for (const char *p = example; *p != '\0'; p++) {
        const char *colon = *p == '{' ? strpbrk(p, ":}") : NULL;
        const char *close = colon != NULL ? strchr(colon, '}') : NULL;
        char made[200] = "";
        if (close != NULL && islower((unsigned char)p[1]) &&
            (strncmp(p, "{ipv4}", 6) == 0 || (*colon == ':' && colon - p < 10))) {
            if (strncmp(p, "{exact:", 7) == 0)
                (void)snprintf(made, sizeof made, "%.*s", (int)(close - p - 7), p + 7);
            else
                make(made, p + 1, (size_t)atoi(colon + 1));
            plant(&f, made);
            p = close;
        } else if (*p == '\\' && (p[1] == 'n' || p[1] == 't' || p[1] == '\\')) {
            buf_putc(&f.text, p[1] == 'n' ? '\n' : p[1] == 't' ? '\t' : '\\');
            p++;
        } else {
            buf_putc(&f.text, *p);
        }
    }
    return f;
}

static void in_case(struct buf *text, bool upper)
{
    for (size_t i = 0; i < text->len; i++)
        text->data[i] = (char)(upper ? toupper((unsigned char)text->data[i])
                                     : tolower((unsigned char)text->data[i]));
}

/* How many of the plants can be read in the redacted text. */
static unsigned leaks(struct redactor *r, const struct filled *f, struct buf *out)
{
    unsigned n = 0;
    out->len = 0;
    assert_int_equal(redact_text(r, buf_str(&f->text), f->text.len, out), 0);
    for (unsigned i = 0; i < f->count; i++)
        n += strcasestr(buf_str(out), f->plants[i]) != NULL;
    return n;
}

static struct redactor *with_rules(const char *text)
{
    struct rc_err err = {""};
    struct redactor *r = redactor_new_rules(text, strlen(text), "redaction.rules", &err);
    if (r == NULL)
        fail_msg("%s", err.msg);
    return r;
}

static struct redact_rules *parsed(void)
{
    struct redact_rules *rules = NULL;
    struct rc_err err = {""};
    if (redact_rules_parse(&rules, rules_text, strlen(rules_text), "redaction.rules", &err) < 0)
        fail_msg("%s", err.msg);
    return rules;
}

static int group_setup(void **state)
{
    (void)state;
    random_begin();
    return fs_read_all(RULES_FILE, 1u << 20, &rules_text) > 0 ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    free(rules_text);
    return 0;
}

static bool is_for_readers(const char *line)
{
    line += strspn(line, " \t");
    return *line == '#' || strncmp(line, "match ", 6) == 0 || strncmp(line, "never ", 6) == 0;
}

/* The rules in the program equal the file without its comments, its examples and its words ... */
static void test_builtin(void **state)
{
    struct buf want = BUF_INIT;
    struct buf have = BUF_INIT;
    (void)state;
    for (const char *line = rules_text; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (!is_for_readers(line) && strncmp(line, "known ", 6) != 0)
            buf_printf(&want, "\n%.*s", (int)strcspn(line, "\n"), line);
    buf_printf(&want, "\n");
    buf_append(&have, redact_builtin_rules, redact_builtin_rules_len);
    const char *words = strstr(buf_str(&have), "\nknown-sorted ");
    assert_non_null(words);
    assert_int_equal(want.len, words + 1 - buf_str(&have));
    assert_memory_equal(buf_str(&want), redact_builtin_rules, want.len);
    buf_release(&want);
    buf_release(&have);
}

/* How many words of the file's line, "known technical gpu memory", only the file's own vocabulary has. */
static unsigned words_missing(const struct redact_vocabulary *v, const struct redact_vocabulary *of_file, enum redact_known level,
                              const char *words, unsigned *count)
{
    unsigned missing = 0;
    for (size_t len = 0; *(words += strspn(words, " ")) != '\n' && *words != '\0'; words += len) {
        len = strcspn(words, " \n");
        missing += redact_is_known(of_file, level, words, len) && !redact_is_known(v, level, words, len);
        (*count)++;
    }
    return missing;
}

/* ... and so are the words. */
static void test_builtin_words(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum redact_known level;
    } lists[] = {{"\nknown technical ", KNOWN_TECHNICAL}, {"\nknown plain ", KNOWN_PLAIN}, {"\nknown identifier ", KNOWN_IDENTIFIER}};
    struct rc_err err = {""};
    struct redact_rules *rules = NULL;
    struct redact_rules *of_file = parsed();
    unsigned count = 0;
    unsigned missing = 0;
    if (redact_rules_parse(&rules, (const char *)redact_builtin_rules, redact_builtin_rules_len, "built in", &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const char *at = rules_text; (at = strstr(at, lists[i].line)) != NULL; at++)
            missing += words_missing(rules->vocabulary, of_file->vocabulary, lists[i].level, at + strlen(lists[i].line), &count);
    redact_rules_free(rules);
    redact_rules_free(of_file);
    print_message("%u words, %u missing\n", count, missing);
    assert_in_range(count, 20000, 200000);
    assert_int_equal(missing, 0);
}

/* A file may be broken in any way. */
static void test_sorted_words(void **state)
{
    (void)state;
#define RULE "\nrule x\nkind secret\npattern (abc)\n"
    static const char *const bad[] = {"known-sorted technical Babacus" RULE, "known-sorted technical AabacusZn" RULE,
                                      "known-sorted nothing Aa" RULE};
    static const char good[] = "known-sorted technical AabacusDndon" RULE;
    struct rc_err err = {""};
    struct redact_rules *rules = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_not_equal(redact_rules_parse(&rules, bad[i], strlen(bad[i]), "bad", &err), 0);
    assert_int_equal(redact_rules_parse(&rules, good, strlen(good), "good", &err), 0);
    assert_true(redact_is_known(rules->vocabulary, KNOWN_TECHNICAL, "abandon", 7));
    assert_false(redact_is_known(rules->vocabulary, KNOWN_TECHNICAL, "ndon", 4));
    redact_rules_free(rules);
}

static unsigned check_example(struct redactor *r, const struct redact_rule *rule,
                              const struct redact_example *example, int round)
{
    struct filled f = fill(example->text);
    struct buf out = BUF_INIT;
    unsigned n = 0;
    if (example->must_hide) {
        assert_true(f.count > 0);
        if (round % 2 == 1) /* a line's end is not the end of the text */
            buf_puts(&f.text, "\nnext line\n");
        if (round % 3 > 0 && !rule->exact)
            in_case(&f.text, round % 3 == 1);
        n = leaks(r, &f, &out);
        if (n > 0)
            print_message("%s: '%s' became '%s'\n", rule->name, buf_str(&f.text), buf_str(&out));
        /* Redacting it again changes nothing. */
        struct buf again = BUF_INIT;
        assert_int_equal(redact_text(r, buf_str(&out), out.len, &again), 0);
        if (strcmp(buf_str(&out), buf_str(&again)) != 0) {
            print_message("%s: '%s' became '%s'\n", rule->name, buf_str(&out), buf_str(&again));
            n++;
        }
        buf_release(&again);
    } else {
        assert_int_equal(redact_text(r, buf_str(&f.text), f.text.len, &out), 0);
        if (strcmp(buf_str(&f.text), buf_str(&out)) != 0) {
            print_message("%s: never '%s' became '%s'\n", rule->name, buf_str(&f.text),
                          buf_str(&out));
            n = 1;
        }
    }
    buf_release(&f.text);
    buf_release(&out);
    return n;
}

/* The rules that are in force in a test. */
enum part { ALL_BUT, ONLY, NAMED };

/* Does the rule use the vocabulary? Such rules hide the examples of most other rules, too. */
static bool is_by_vocabulary(const char *rule, size_t len)
{
    return memmem(rule, len, "\nunless-known ", 14) != NULL;
}

static bool is_called(const char *rule, size_t len, const char *name)
{
    size_t n = strcspn(rule, "\n");
    return n <= len && n == strlen(name) && memcmp(rule, name, n) == 0;
}

static bool is_left(enum part part, const char *name, const char *rule, size_t len)
{
    switch (part) {
    case ALL_BUT:
        return !is_called(rule, len, name);
    case ONLY:
        return is_called(rule, len, name);
    case NAMED:
        return !is_by_vocabulary(rule, len) && !is_called(rule, len, name);
    }
    return false;
}

/* The text of the rules: without one, only one, or without those that use the vocabulary. */
static char *part_of(const char *rules, enum part part, const char *name)
{
    struct buf out = BUF_INIT;
    const char *rule = strstr(rules, "\nrule ");
    buf_append(&out, rules, (size_t)(rule - rules));
    while (rule != NULL) {
        const char *next = strstr(rule + 1, "\nrule ");
        size_t len = next != NULL ? (size_t)(next - rule) : strlen(rule);
        if (is_left(part, name, rule + 6, len - 6)) {
            buf_append(&out, rule, len);
        } else {
            /* The definitions within it are also for later rules. */
            for (const char *line = rule; line != NULL && line < rule + len;) {
                const char *end = memchr(line + 1, '\n', (size_t)(rule + len - line - 1));
                size_t n = (size_t)((end != NULL ? end : rule + len) - line);
                if (strncmp(line, "\ndefine ", 8) == 0)
                    buf_append(&out, line, n);
                line = end;
            }
        }
        rule = next;
    }
    buf_putc(&out, '\n');
    return out.data;
}

static void test_examples(void **state)
{
    (void)state;
    struct redact_rules *rules = parsed();
    struct redactor *all = with_rules(rules_text);
    RC_AUTO_FREE char *named_text = part_of(rules_text, NAMED, "");
    struct redactor *named = with_rules(named_text);
    unsigned planted = 0, leaked = 0;
    for (size_t i = 0; i < rules->count; i++) {
        const struct redact_rule *rule = &rules->list[i];
        bool any = false;
        struct redactor *others = rule->unless_known == KNOWN_NONE && !rule->is_public ? named : all;
        for (size_t k = 0; k < rule->example_count; k++) {
            any = any || rule->examples[k].must_hide != rule->is_public;
            for (int round = 0; round < (rule->examples[k].must_hide ? ROUNDS : 1); round++) {
                bool hide = rule->examples[k].must_hide;
                leaked += check_example(hide ? all : others, rule, &rule->examples[k], round);
                planted++;
            }
        }
        if (!any)
            fail_msg("rule '%s' has no example", rule->name);
    }
    print_message("%zu rules: %u examples planted, %u wrong\n", rules->count, planted, leaked);
    redactor_free(all);
    redactor_free(named);
    redact_rules_free(rules);
    assert_int_equal(leaked, 0);
}

/* If executable memory is refused, the rules are interpreted, with the same result. */
static void test_without_jit(void **state)
{
    (void)state;
    struct redact_rules *rules = parsed();
    struct buf text = BUF_INIT;
    static const char key[] = "\npattern ";
    const char *at = rules_text;
    for (const char *next; (next = strstr(at, key)) != NULL; at = next + sizeof key - 1) {
        buf_append(&text, at, (size_t)(next - at));
        buf_puts(&text, "\npattern (*NO_JIT)");
    }
    buf_puts(&text, at);
    struct redactor *r = with_rules(text.data);
    unsigned wrong = 0;
    for (size_t i = 0; i < rules->count; i++) {
        for (size_t k = 0; k < rules->list[i].example_count; k++)
            wrong += !rules->list[i].examples[k].must_hide ? 0 : check_example(r, &rules->list[i], &rules->list[i].examples[k], (int)k);
    }
    buf_release(&text);
    redactor_free(r);
    redact_rules_free(rules);
    assert_int_equal(wrong, 0);
}

static bool is_changed(struct redactor *r, const char *text)
{
    struct buf out = BUF_INIT;
    assert_int_equal(redact_text(r, text, strlen(text), &out), 0);
    bool changed = strcmp(text, buf_str(&out)) != 0;
    buf_release(&out);
    return changed;
}

/* Without a rule "public", others hide something in one of its examples. */
static bool spares_an_example(const struct redact_rule *rule)
{
    RC_AUTO_FREE char *text = part_of(rules_text, ALL_BUT, rule->name);
    struct redactor *r = with_rules(text);
    unsigned hidden = 0;
    for (size_t k = 0; k < rule->example_count && hidden == 0; k++)
        hidden += !rule->examples[k].must_hide && is_changed(r, rule->examples[k].text);
    if (hidden == 0)
        print_message("rule '%s' is not needed for its examples\n", rule->name);
    redactor_free(r);
    return hidden > 0;
}

static void test_every_rule_is_needed(void **state)
{
    (void)state;
    struct redact_rules *rules = parsed();
    /* The rule for unnamed secrets and those that use the vocabulary hide most examples, so they are left out to test
     * the others. A rule that uses the vocabulary must hide its examples alone. */
    RC_AUTO_FREE char *named = part_of(rules_text, NAMED, "random");
    unsigned idle = 0;
    for (size_t i = 0; i < rules->count; i++) {
        const struct redact_rule *rule = &rules->list[i];
        bool by_vocabulary = rule->unless_known != KNOWN_NONE;
        bool is_random = strcmp(rule->name, "random") == 0;
        if (rule->is_public) {
            idle += !spares_an_example(rule);
            continue;
        }
        RC_AUTO_FREE char *text = by_vocabulary ? part_of(rules_text, ONLY, rule->name)
                                  : is_random   ? part_of(rules_text, NAMED, "random")
                                                : part_of(named, ALL_BUT, rule->name);
        struct redactor *r = with_rules(text);
        unsigned leaked = 0;
        unsigned tried = 0;
        /* By chance another rule may match the random part of an example. */
        for (size_t k = 0; k < ROUNDS * rule->example_count && (leaked == 0 || by_vocabulary); k++) {
            const struct redact_example *example = &rule->examples[k % rule->example_count];
            if (!example->must_hide)
                continue;
            tried++;
            struct filled f = fill(example->text);
            struct buf out = BUF_INIT;
            leaked += leaks(r, &f, &out);
            buf_release(&f.text);
            buf_release(&out);
        }
        /* A random name may by chance consist of two words that are known. */
        bool needed = by_vocabulary ? 10 * leaked < tried : leaked > 0;
        if (!needed)
            print_message("rule '%s' is not needed for its examples\n", rule->name);
        idle += !needed;
        redactor_free(r);
    }
    print_message("%zu rules taken out one by one, or alone: %zu are needed, %u are not\n", rules->count,
                  rules->count - idle, idle);
    redact_rules_free(rules);
    assert_int_equal(idle, 0);
}

static void test_wrong_rules(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "no rule in"},
        {"rule a\nkind secret\n", "no pattern"},
        {"rule a\nkind sekret\npattern x\n", "x:2: not a kind"},
        {"rule a\npattern x\n", "x:2: the kind comes first"},
        {"pattern x\n", "x:1: before the first rule"},
        {"rule a\nkind secret\npattern (x\n", "missing closing parenthesis"},
        {"rule a\nkind secret\npattern {{none}}\n", "nothing is defined as"},
        {"rule a\nkind secret\npattern x\nrule a\nkind secret\npattern x\n", "x:4: a second rule"},
        {"rule A\n", "x:1: a rule's name"},
        {"rule a\nkind secret\nfoo x\npattern x\n", "x:3: not a word of the rules"},
        {"define x\n", "x:1: not a definition"},
        {"known x y\n", "x:1: not a vocabulary"},
        {"rule a\nkind user\nunless-known x\npattern y\n", "x:3: not a vocabulary"},
        {"rule a\nkind secret\nlength x 3\npattern y\n", "x:3: not near that word"},
        {"rule a\nkind secret\nnear x\nlength x 0\npattern y\n", "x:4: not a length"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rc_err err = {""};
        assert_null(redactor_new_rules(wrong[i][0], strlen(wrong[i][0]), "x", &err));
        if (strstr(err.msg, wrong[i][1]) == NULL)
            fail_msg("'%s' said '%s'", wrong[i][0], err.msg);
    }
}

/* A rule that runs too long is stopped, and the text that it was searching is hidden. */
static void test_limits(void **state)
{
    (void)state;
    struct redactor *r = with_rules("rule bad\nkind secret\nnear aaaa\npattern (a+a+)+[xyz]\n");
    struct buf text = BUF_INIT;
    struct buf out = BUF_INIT;
    buf_puts(&text, "before\n");
    for (int i = 0; i < 5000; i++)
        buf_putc(&text, 'a');
    buf_puts(&text, "\nafter\n");
    clock_t start = clock();
    assert_int_equal(redact_text(r, text.data, text.len, &out), 0);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_string_equal(buf_str(&out), "before\n<secret:not-searched>\nafter\n");
    print_message("a runaway rule was stopped after %.3f s\n", seconds);
    assert_true(seconds < 5);
    buf_release(&text);
    buf_release(&out);
    redactor_free(r);
}

/* The rule is stopped on each of many lines: after a while the lines are hidden without a
 * search. */
static void test_budget(void **state)
{
    (void)state;
    struct redactor *r = with_rules("rule bad\nkind secret\nnear aaaa\npattern (a+a+)+[xyz]\n");
    struct buf text = BUF_INIT;
    struct buf out = BUF_INIT;
    for (int i = 0; i < 20000; i++)
        buf_puts(&text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    clock_t start = clock();
    assert_int_equal(redact_text(r, text.data, text.len, &out), 0);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_null(strstr(buf_str(&out), "aaaa"));
    print_message("20000 runaway lines: %.1f s\n", seconds);
    assert_true(seconds < 15);
    buf_release(&text);
    buf_release(&out);
    redactor_free(r);
}

/* A name of several known words is not known itself, unless it has a product or a joining word or the list has the
 * whole name. A rule may require a single word, or a product. */
static void test_joined_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum redact_known level;
        bool known;
    } rows[] = {
        {"gpu-batch-prod", KNOWN_PLAIN, false},      {"gpu_batch_prod", KNOWN_PLAIN, true},
        {"torch-nightly", KNOWN_PLAIN, true},        {"user-supplied", KNOWN_PLAIN, true},
        {"command-line", KNOWN_PLAIN, true},         {"command-lines", KNOWN_PLAIN, true},
        {"us-east-1", KNOWN_PLAIN, true},            {"gpu-3", KNOWN_PLAIN, true},
        {"gpu-3-8b", KNOWN_PLAIN, true},             {"gpu-node3", KNOWN_PLAIN, false},
        {"gpu", KNOWN_SINGLE, true},                 {"gpu-batch", KNOWN_SINGLE, false},
        {"gpu_batch", KNOWN_SINGLE, false},          {"gpu-3", KNOWN_SINGLE, false},
        {"torch-nightly", KNOWN_SINGLE, false},      {"glorfindel", KNOWN_SINGLE, false},
        {"Llama-3-8B-Instruct", KNOWN_PRODUCT, true}, {"contract-review-8b", KNOWN_PRODUCT, false},
        {"model", KNOWN_PRODUCT, true},              {"adapter_model", KNOWN_PRODUCT, true},
        {"Customer Support 8B", KNOWN_PRODUCT, false}, {"llama-glorfindel", KNOWN_PRODUCT, false},
    };
    struct redact_rules *rules = NULL;
    struct rc_err err = {""};
    unsigned wrong = 0;
    assert_int_equal(redact_rules_parse(&rules, rules_text, strlen(rules_text), "rules", &err), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool known =
            redact_is_known(rules->vocabulary, rows[i].level, rows[i].name, strlen(rows[i].name));
        if (known != rows[i].known)
            print_error("%s at level %d: known %d\n", rows[i].name, (int)rows[i].level, known);
        wrong += known != rows[i].known;
    }
    redact_rules_free(rules);
    assert_int_equal(wrong, 0);
}

/* Speech of people is told from messages of programs, also where all words are plain. */
static void test_speech(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool known;
    } rows[] = {
        {"Memory access fault", true},
        {"the queue was destroyed while a kernel was running", true},
        {"s_waitcnt vmcnt(0)", true},
        {"loop i of the kernel", true},
        {"ECC error in HBM", true},
        {"hipErrorGlorfindel in libglorfindel.so", true},
        {"I of the kernel", false},
        {"the kernel of Glorfindel", false},
        {"could not stand the manager any more", false},
        {"it is nothing", false},
        {"thank you", false},
        {"kernel\\nthe landlord", false},
    };
    struct redact_rules *rules = parsed();
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool known = redact_is_known(rules->vocabulary, KNOWN_SPEECH, rows[i].text, strlen(rows[i].text));
        if (known != rows[i].known)
            print_error("%s: known %d\n", rows[i].text, known);
        wrong += known != rows[i].known;
    }
    redact_rules_free(rules);
    assert_int_equal(wrong, 0);
}

/* A class, an option or a file: only the words that somebody gave are private. */
static void test_private_words(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"GoshawkRankerV4", "Goshawk"},
        {"graubuenden_kataster_id", "graubuenden_kataster"},
        {"larkfin::sched::DeadlockError", "larkfin"},
        {"enable_marzipan_checkout", "marzipan"},
        {"THISTLE_CORE2", "THISTLE"},
        {"torch.nn.modules.DynamicCache", ""},
        {"MIOpenConvolutionForward", ""}, /* known as a whole only: "MIOpen" */
        {"zsakmt_zqptx_zgmi", ""},        /* nobody can say that */
        {"data_lundstrom_v2", "lundstrom"},
        {"data_dbgstrdump_ngstrdmpo", ""},
        {"UltravoxModel", ""},            /* of a public program */
        {"strix_halo", ""},
        {"", ""},
    };
    struct redact_rules *rules = parsed();
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t from = 0, to = strlen(rows[i][0]);
        bool any = redact_private_words(rules->vocabulary, rows[i][0], &from, &to);
        size_t len = any ? to - from : 0;
        if (len != strlen(rows[i][1]) || memcmp(rows[i][0] + (any ? from : 0), rows[i][1], len) != 0) {
            print_error("%s: '%.*s'\n", rows[i][0], (int)len, rows[i][0] + (any ? from : 0));
            wrong++;
        }
    }
    redact_rules_free(rules);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtin), cmocka_unit_test(test_builtin_words), cmocka_unit_test(test_sorted_words),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_without_jit), cmocka_unit_test(test_every_rule_is_needed),
        cmocka_unit_test(test_wrong_rules), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_budget),      cmocka_unit_test(test_joined_names),
        cmocka_unit_test(test_speech),
        cmocka_unit_test(test_private_words),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
