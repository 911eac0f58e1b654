/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The redaction rules (templates/redaction.rules) compiled, and what they find in a text. Private
 * to bundle/redact*.c.
 *
 * A text is scanned once for all keywords and known names (redact_scan.c); a rule is tried only on
 * lines where one of its keywords stands. Matching works on bytes, so that text in no valid
 * encoding is searched like any other. It is bounded: a line that a rule gives up on is hidden
 * whole, so that no input can make the search long or make it miss.
 */
#ifndef BUNDLE_REDACT_RULES_H
#define BUNDLE_REDACT_RULES_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bundle/redact.h"

struct rc_err;
struct redact_text;

#define RULE_GROUPS_MAX 40
#define RULE_WORDS_MAX 160
#define HEADS_MAX 512
#define NOT_HIDDEN ((unsigned char)255)

struct redact_example {
    char *text; /* as in the file, "{alnum:36}" stands for made-up private text */
    bool must_hide;
};

/*
 * Words that are evidence, or identify nobody (redact_vocabulary.c). The order matters: a word of the lists PRODUCT to IDENTIFIER
 * is also known to each level behind its own. NAME, LIFE, SPEECH and FILLING are lists of their own. The members "of a rule
 * only" list no words: redact_is_known() asks one of the lists for them.
 */
enum redact_known {
    KNOWN_NONE,
    KNOWN_NAME,      /* one word only: a person's name that is also an ordinary word ("walker", "young") */
    KNOWN_PRODUCT,   /* of a rule: several words, and one of them is a product ("llama-3-8b-chat") */
    KNOWN_JOINING,   /* one word only: also evidence when it is joined to others ("user-supplied") */
    KNOWN_SINGLE,    /* of a rule only: a technical word, not several joined ("gpu", not "gpu-batch") */
    KNOWN_TECHNICAL, /* as the value of a key that asks for a name: "host=gpu", "user: unknown" */
    KNOWN_PLAIN,     /* in a sentence: these, and words of English logs: "the host exited" */
    KNOWN_IDENTIFIER, /* in the name of a class, an option, ...: these, and words of public programs. A rule hides only
                         the other words in it ("Goshawk" of "GoshawkRankerV4") */
    KNOWN_FILE,      /* of a rule only: each word is technical itself ("inflow" is not "inf" and "low") */
    KNOWN_WORDS,     /* of a rule only: as plain, and several of them joined ("batch-size", "table-walk") */
    KNOWN_NOBODY,    /* of a rule only: as plain, but no person's name */
    KNOWN_PART,      /* of a rule only: at least one word is plain and no person's name */
    KNOWN_LIFE,      /* one word: people talk of it, and programs do not ("landlord"). Of a rule: there is none of them */
    KNOWN_LIVES,     /* of a rule only: there are not two of them */
    KNOWN_SPEECH,    /* one word: people address others with it ("you"). Of a rule: plain words only, none of life, none of
                        these. What is no word of a sentence ("v_add_u32", "OutOfMemory", "3.1") does not count */
    KNOWN_FILLING,   /* one word only: of any sentence ("they", "was"): makes none technical */
};

struct redact_rule {
    char *name; /* also what a secret is called: <secret:name> */
    enum redact_kind kind;
    bool learn;  /* what it finds is looked for everywhere */
    bool across; /* may reach over line ends */
    bool exact;  /* upper and lower case differ */
    bool below;  /* a header: the column below it is hidden */
    bool record;     /* a line with what it finds is a record about somebody */
    bool record_full; /* the same, if it finds several words */
    bool measured;   /* also tried on files that we measured (redactor_measured()) */
    bool in_record;  /* tried on such lines only */
    bool in_argument; /* tried on arguments that NULs part (redact_arguments.c), and only there */
    bool is_public;  /* what it finds is public: rules hide nothing in it that is no secret */
    bool below_home; /* also tried where a home of this machine ends, as after a match (\G) */
    double bits; /* least entropy per character of what is hidden */
    enum redact_known unless_known; /* only what is not in this vocabulary is hidden */
    size_t run;  /* only on lines with this many letters and digits in a row; 0 = on any */
    char *near[RULE_WORDS_MAX];
    size_t near_count;
    unsigned char near_length[RULE_WORDS_MAX]; /* characters of a token behind that word; 0 = any number */
    char *unless[RULE_WORDS_MAX]; /* not when one of these stands shortly before, on the line */
    size_t unless_count, unless_reach;
    bool unless_in_path; /* ... in the path that the match lies in, not in another before it */
    pcre2_code *code;
    uint32_t groups;
    unsigned char group_kind[RULE_GROUPS_MAX]; /* of what group i hides; NOT_HIDDEN = nothing */
    bool has_label; /* has groups named "label": the rule hides nothing if their text is known */
    bool group_label[RULE_GROUPS_MAX];
    bool group_learn_only[RULE_GROUPS_MAX];
    struct redact_example *examples;
    size_t example_count;
};

struct redact_rules {
    struct redact_vocabulary *vocabulary;
    struct redact_rule *list;
    bool *compiled; /* by rule: to machine code, when it is first tried */
    size_t count, capacity;
    struct {
        const char *word; /* one that a rule is near, owned by it */
        size_t length;    /* characters behind it; 0 = any number */
        uint16_t next;    /* index + 1 of the next one with the same first byte */
    } heads[HEADS_MAX];   /* how tokens of known issuers begin */
    size_t head_count;
    uint16_t heads_of[256]; /* by first byte: index + 1, 0 = none */
    pcre2_match_context *match_context;
    pcre2_match_data *match_data;
    pcre2_jit_stack *jit_stack;
};

/* A place in a text that holds something private. */
struct redact_span {
    size_t from, to;
    enum redact_kind kind;
    const struct redact_rule *rule; /* NULL: a known name */
    const char *label;              /* of a secret */
    bool learn_only;                /* stays in the text where it stands */
};

struct redact_spans {
    struct redact_span *list;
    size_t count, capacity;
    int failed; /* -ENOMEM or -EFBIG (too many): nothing of the text may be used */
};

/* `name` is for complaints ("NAME:12: ..."). 0 or -errno. */
int redact_rules_parse(struct redact_rules **ret, const char *text, size_t len, const char *name,
                       struct rc_err *err);
void redact_rules_free(struct redact_rules *);
/* The rules that the program was built with. */
extern const unsigned char redact_builtin_rules[];
extern const size_t redact_builtin_rules_len;

/* One step of a hash that begins with REDACT_HASH (FNV-1a). It tells texts apart and protects nothing. */
#define REDACT_HASH UINT64_C(14695981039346656037)
static inline uint64_t redact_hash_step(uint64_t hash, char c)
{
    return (hash ^ (unsigned char)c) * UINT64_C(1099511628211);
}

#define REDACT_WORD_MAX 30u /* longer runs of letters are no word */
#define REDACT_HALF_MIN 3u  /* of a word made of two: "timeout", "blocksize" */

struct redact_vocabulary *redact_vocabulary_new(void);
void redact_vocabulary_free(struct redact_vocabulary *);
/* "exceed" stands for "exceeds", "exceeded" and "exceeding", too. 0 or -ENOMEM. */
int redact_vocabulary_add(struct redact_vocabulary *, enum redact_known level, const char *word,
                          size_t len);
/* Is this very word listed for the level? It is in small letters. */
bool redact_vocabulary_has(const struct redact_vocabulary *, enum redact_known level, const char *word, size_t len);
/* redact_forms.c: is it a listed word, in any case, or a form of one? */
bool redact_is_word(const struct redact_vocabulary *, enum redact_known level, const char *p, size_t len);
/* Is each word of the text in the vocabulary? A word is a run of letters; a capital inside a run
 * begins another word ("OutOfMemory"). One or two letters are no word. */
bool redact_is_known(const struct redact_vocabulary *, enum redact_known level, const char *p,
                     size_t len);

/* Narrows text[*from, *to), a name that a program uses, to the words in it that look like a name that somebody gave.
 * False: there is none. */
bool redact_private_words(const struct redact_vocabulary *, const char *text, size_t *from,
                          size_t *to);

/* Is the name of two words and more, half of them not technical ("fuze_timer", not "batch_size")? */
bool redact_is_joined_name(const struct redact_vocabulary *, const char *text, size_t from, size_t to);

/* A path: does it begin with the name of a product, and has no unknown word ("torch/nn/modules")? */
bool redact_is_of_product(const struct redact_vocabulary *, const char *p, size_t len);

/* Is most of it words ("sqlite3VdbePreUpdateHook")? Random letters make none. */
bool redact_is_worded(const struct redact_vocabulary *, const char *p, size_t len);

/* Narrows text[*from, *to) by the technical words at its ends. */
void redact_trim_technical(const struct redact_vocabulary *, const char *text, size_t *from, size_t *to);

/* Offset of the first word of text[from, to) that is in no vocabulary; `to` = there is none. A rule with
 * `unless-known` hides only text with such a word, or with one of people's lives, which counts as unknown here. */
size_t redact_unknown_word(const struct redact_vocabulary *, const char *text, size_t from,
                           size_t to);

void redact_spans_add(struct redact_spans *, struct redact_span span);
/* Adds the spans that the rule finds in text[from, to). Some rules also look at the text before `from`. */
void redact_rule_find(const struct redact_rules *, const struct redact_rule *, const char *text,
                      size_t len, size_t from, size_t to, struct redact_spans *out);
/* Does one of the words of "unless" stand shortly before `at`? */
bool redact_is_excused(const struct redact_rule *, const char *text, size_t at);
/* Adds what belongs to the names that the rule found in text[from, to): those of `out` from `before` on. */
void redact_find_kin(const struct redact_rules *, const struct redact_rule *, const char *text, size_t from,
                     size_t to, size_t before, struct redact_spans *out);
/* Puts the columns below the headers of out->list[before...] in their place. */
void redact_find_below(const struct redact_rule *, const char *text, size_t len, size_t before,
                       struct redact_spans *out);
/* Adds the matches that begin at `at`, then each match that begins where the one before ended. */
void redact_rule_follow(const struct redact_rules *, const struct redact_rule *,
                        const struct redact_text *t, size_t from, size_t at, size_t to,
                        struct redact_spans *out);
void redact_spans_sort(struct redact_spans *);
/* Sorts the spans and joins those that overlap: all of their text is hidden. */
void redact_spans_settle(struct redact_spans *);
/* Shannon entropy per byte. */
double redact_entropy(const char *p, size_t len);

extern const char *const redact_kind_names[REDACT_KIND_MAX];
/* The kind with this singular name ("host"), or -1. */
int redact_kind_of(const char *name, size_t len);

/* --- redact_scan.c: many words at once, in any case --- */

struct redact_scan;

struct redact_scan *redact_scan_new(void);
void redact_scan_free(struct redact_scan *);
/* Adds a word. `id` is reported for each place where the word ends. 0 or -ENOMEM. */
int redact_scan_add(struct redact_scan *, const char *word, size_t len, uint32_t id);
/* Call it after the last word was added. 0 or -ENOMEM. */
int redact_scan_build(struct redact_scan *);
typedef void (*redact_scan_fn)(void *arg, uint32_t id, size_t from, size_t to);
void redact_scan_run(const struct redact_scan *, const char *text, size_t len, redact_scan_fn fn,
                     void *arg);

#endif
