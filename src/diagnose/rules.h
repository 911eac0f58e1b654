/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of templates/messages.rules, as tables made at build time, and the functions that run
 * them: a line of text -> facts. The header of that file describes the language. Internal to
 * diagnose/.
 *
 * Pure, no allocation. An automaton finds words of the line; they select the few rules that may
 * match, by a word of each of their groups. These are tried in the order of the file.
 */
#ifndef DIAGNOSE_RULES_H
#define DIAGNOSE_RULES_H

#include "base/words.h"
#include "diagnose/kernel_lines.h"
#include "diagnose/log_words.h"
#include "diagnose/rules_made.h"
#include "diagnose/text_facts.h"

enum rule_part_kind {
    PART_WORDS,  /* these bytes */
    PART_BLANKS, /* blanks or nothing */
    PART_TAKE,   /* a figure or a name */
};

enum rule_take_type {
    TAKE_SIZE,   /* "1.5 GiB": a number with its unit, in bytes; GB = 2^30 */
    TAKE_BUFFER, /* the same, of one buffer: 0 to 1 PiB */
    TAKE_BYTES,  /* the same, or a bare number of bytes */
    TAKE_GIB,    /* a number of GiB whose unit stands elsewhere */
    TAKE_KIB,    /* a size, or a number of KiB */
    TAKE_COUNT,  /* "262,144", after blanks and '=' */
    TAKE_NUMBER, /* digits: a number below the limit (none given: below 2^31) */
    TAKE_HEX,    /* the same limit */
    TAKE_BITS,   /* 64 of them, in hex */
    TAKE_REAL,
    TAKE_SHARE, /* above 0, at most 1 */
    TAKE_YES,   /* true if the rule matches */
    TAKE_WORD, /* up to the next blank */
    TAKE_CODE, /* the given bytes, then capital letters and '_' */
    TAKE_TEXT, /* up to the words after it, or to the end of the line */
    TAKE_UPTO, /* up to one of the given bytes, or to the end of the line */
};

enum rule_keep { KEEP_FIRST, KEEP_LAST, KEEP_SUM, KEEP_MAX };

enum rule_value_type { VALUE_INTEGER, VALUE_REAL, VALUE_TEXT, VALUE_BOOLEAN };

struct rule_value {
    enum rule_value_type type;
    int64_t integer;
    double real;
    struct text text;
};

struct rule_part {
    uint8_t kind, type; /* enum rule_part_kind, enum rule_take_type */
    bool gap;           /* anything may stand before it */
    uint8_t keep;       /* of a take: enum rule_keep */
    uint8_t length;     /* of words */
    uint16_t fact;      /* of a take: index in rule_fact_names */
    uint32_t words;     /* where they, or the bytes that end a TAKE_UPTO, begin in the texts of the parts; NUL follows */
    uint64_t limit;     /* of a TAKE_NUMBER; 0 = 2^31 */
};

struct rule_shape {
    uint16_t first, count; /* in rule_parts */
    bool word_start;       /* not inside a word */
    bool line_start;       /* at the first byte that is no blank */
    bool line_end;         /* up to the last byte that is no blank */
};

struct rule_list {
    uint16_t first, count;
};

struct rule_set {
    uint16_t fact;
    struct rule_value value;
};

struct rule {
    const char *name;
    struct rule_list line;   /* shapes: one of them; none = any line of the block */
    struct rule_list also;   /* groups of shapes: one of each */
    struct rule_list unless; /* shapes: none of them */
    struct rule_list takes;  /* shapes: each by itself, where it matches */
    struct rule_list sets;
    enum rule_keep keep;
    uint16_t count[2];          /* index + 1 of facts that count lines; 0 = none */
    uint8_t block, begin;       /* 0 = none */
    uint8_t end[2];
    uint16_t within;            /* lines from the block's begin; 0 = until its end */
    enum rule_reader reader;    /* C that reads the line */
    const char *record;         /* the framework that reports a refused allocation */
    enum bad_class bad;         /* a bad event of the kernel log */
    const char *forget;         /* discards kept facts whose names begin with this */
    bool context;               /* true before the last incident of the kernel log, too */
    bool once;                  /* only the first line counted is read */
    bool ladder;                /* see struct oom */
    uint8_t asked;              /* number in scope "asked", from 1; 0 = of another scope */
};

struct rule_index {
    struct words *words;
    const uint16_t *rules;  /* of this scope, in the order of the file */
    const uint64_t *always; /* of each group, a bit per entry of `rules`: no word is needed */
    unsigned count, groups;
};

extern const struct rule_part rule_parts[];
extern const char rule_part_texts[]; /* one array and offsets: pointers would be relocated at each start */
extern const struct rule_shape rule_shapes[];
extern const struct rule_list rule_groups[];
extern const struct rule_set rule_sets[];
extern const char *const rule_fact_names[];
extern const struct rule rules[];
extern const struct rule_index rule_indexes[];
/* Programs also print this as a warning, and continue. */
extern const bool rule_fact_is_warned_of[];
/* Facts that certainly ended the program. */
extern const uint16_t rule_ending_facts[];
extern const size_t rule_ending_facts_count;

struct rule_taken {
    uint16_t fact;
    uint8_t keep;
    struct rule_value value;
};

#define RULE_GPUS_MAX 1024
#define RULE_TAKEN_MAX 24
struct rule_takes {
    unsigned count;
    struct rule_taken list[RULE_TAKEN_MAX];
};

/* Does the line have the shape? Adds the values taken; adds nothing if it does not match. */
bool shape_match(struct text line, const struct rule_shape *, struct rule_takes *);

/* The same with the parts of rules that were read at run time (site_rules.h), and their texts. */
bool shape_match_parts(struct text line, const struct rule_shape *, const struct rule_part *parts,
                       const char *texts, struct rule_takes *);
/* Sets the value as a fact of that line. */
void rule_say(const struct scan *, unsigned line, const char *name, const struct rule_value *);

struct rule_slot {
    struct rule_value value; /* kept to the end */
    unsigned line;           /* 0 = nothing */
    unsigned count, count_line, counted; /* the last line that was counted */
    unsigned warned, warned_line;
};

struct rules_run {
    const struct scan *s;
    enum rule_scope scope;
    /* Calls the C part of a rule: its reader, record or bad event. False: the rule does not
     * apply. */
    bool (*act)(void *arg, const struct rule *, struct text line, const struct rule_takes *);
    void *arg;
    bool context_only;                /* kernel: the line is before the last incident */
    bool any;                         /* a rule applied */
    unsigned gpu, block_gpu; /* number for "gpu.#." facts: of this rule, of the open block */
    unsigned block_line[RULE_BLOCKS]; /* 0 = not open */
    struct rule_slot slots[RULE_FACTS];
};

/* Runs all rules of the scope over one line of text. */
void rules_line(struct rules_run *, struct text line);
/* Sets counts, and facts that were kept to the end. */
void rules_emit(const struct rules_run *);

/* The value kept for a fact of the rules, NULL = none; and functions that keep a value. */
const struct rule_slot *rules_kept(const struct rules_run *, const char *fact);
void rules_keep_integer(struct rules_run *, const char *fact, int64_t value);
/* Discards kept values whose names begin with `prefix`. */
void rules_forget(struct rules_run *, const char *prefix);

/* For tests: the rule to leave out; RULES_COUNT = none. */
extern unsigned rules_left_out;

/* Does the line have the rule's wording? line_is(): a rule of scope "asked", for which most lines have no word. */
bool rule_is_on(unsigned rule, struct text line);
bool line_is(const struct line_words *line, unsigned rule);
/* The values that its "take" lines find in the text. */
void rule_take(unsigned rule, struct text text, struct rule_takes *);
/* The value taken for a fact, NULL = none. */
const struct rule_value *rule_taken(const struct rule_takes *, const char *fact);
int64_t rule_taken_integer(const struct rule_takes *, const char *fact, int64_t otherwise);
struct text rule_taken_text(const struct rule_takes *, const char *fact);

#endif
