/* SPDX-License-Identifier: Apache-2.0 */
/* The redactor's own parts. Private to bundle/redact*.c. */
#ifndef BUNDLE_REDACT_INTERNAL_H
#define BUNDLE_REDACT_INTERNAL_H

#include <string.h>

#include "base/buf.h"
#include "bundle/redact_rules.h"

struct redact_text {
    const char *p;
    size_t len;
};

struct redact_name {
    enum redact_kind kind;
    unsigned number;   /* of the pseudonym, 0 = not given yet */
    bool literal;      /* looked for everywhere; the next five bound that */
    bool learned;      /* only whole words are hidden: a text says that it is a name */
    bool weak;         /* hidden only where it stands as a host or a user */
    bool domain;       /* hidden with the labels before it */
    bool part;         /* hidden also as a word of a longer name: "goshawk" in "GoshawkRanker", "goshawk_env" */
    bool in_path;      /* hidden only with a slash before or after it */
    bool homes;        /* a folder that stays visible; the folders in it are homes */
    size_t below;      /* a folder: offset from which people named its parts; it stays visible ... */
    size_t tail;       /* ... except this many bytes at its end */
    const char *label; /* of a secret: the rule that found it */
    size_t len;
    char *value;
    uint32_t next; /* in its bucket */
};

struct redact_file {
    char *name;
    uint64_t counts[REDACT_KIND_MAX];
};

#define NAME_BUCKETS 4096u
#define REDACT_LIBRARIES_MAX 1024u

struct redactor {
    struct redact_rules *rules;
    struct redact_scan *scan; /* of keywords and literals */
    bool scan_stale;          /* literals were added since; learning may still use it */
    bool is_guessed;          /* the text was redacted before, by these rules */
    uint64_t rules_id;        /* of their text */
    bool is_measured;         /* the text is ours: of the vocabulary's rules only those marked "measured" are tried */
    uint32_t *keyword_rule;   /* rule of keyword i */
    size_t keyword_count;
    struct redact_name *names;
    size_t count, capacity, literals;
    uint32_t buckets[NAME_BUCKETS]; /* index + 1 */
    unsigned last_number[REDACT_KIND_MAX];
    bool kept[REDACT_KIND_MAX];
    uint64_t counts[REDACT_KIND_MAX];
    uint64_t *rule_counts; /* of secrets, by rule */
    uint64_t other_secrets;
    struct redact_file *files;
    size_t file_count, file_capacity;
    int file; /* -1 = none */
    char *libraries[REDACT_LIBRARIES_MAX]; /* names of public ones */
    size_t library_count;
    redact_change_fn on_change;
    void *on_change_arg;
};

/* redact.c: the pseudonym of a value; NULL when there is no memory or the table is full. */
struct redact_name *redact_name_of(struct redactor *, enum redact_kind kind, const char *value,
                                   size_t len);
/* redact_names.c: the kind under which this value has a pseudonym already, else `guess`. The place of
 * an unknown word tells only roughly what the word names. */
enum redact_kind redact_kind_known_as(const struct redactor *, enum redact_kind guess,
                                      const char *value, size_t len);
/* redact_names.c: adds a name that is matched as whole words only, like a name that a text has introduced. 0
 * or -ENOMEM. */
int redact_add_word(struct redactor *, enum redact_kind kind, const char *value, size_t len);
/* redact_names.c: adds a folder in which people name things, with all of its path; adds a folder that holds
 * homes. NULL, relative paths and folders of the system are ignored. 0 or -ENOMEM. */
int redact_add_place(struct redactor *, const char *path);
/* redact_names.c: the folders above the working folder, too: what lies beside it ("../data/x") has their names. */
int redact_add_above(struct redactor *, const char *path);
int redact_add_homes(struct redactor *, const char *path);
/* redact_names.c: names from index `known` on get their number when a text first contains them. Most of them
 * are in no text. */
void redact_numbers_back(struct redactor *, size_t known);
/* redact_around.c: would the rules hide a folder of that name below a home? */
bool redact_is_given_name(const struct redactor *, const char *name, size_t len);
/* redact_search.c: finds everything private in the text; the spans are settled. 0 or -ENOMEM. */
int redact_search(struct redactor *, const struct redact_text *t, bool learning,
                  struct redact_spans *out);
/* How a text stands: as it is; with cut tokens joined, or as the bytes of a dump; as arguments that NULs part. */
enum redact_form { REDACT_FORM_TEXT, REDACT_FORM_FOLDED, REDACT_FORM_ARGUMENTS };
/* redact_search.c: adds what the rules and the known names find in a text of that form. 0 or -ENOMEM. */
int redact_search_form(struct redactor *, const struct redact_text *t, bool learning, enum redact_form form,
                       struct redact_spans *out);
/* redact_record.c: adds what the rules "in-record" find on lines that are records about somebody. Sorts the spans. 0 or
 * -ENOMEM. */
int redact_records(const struct redactor *, const struct redact_text *t, struct redact_spans *out);
/* redact_again.c: adds where else in the text stands what the settled spans hide. 0 or -ENOMEM. */
int redact_again(const struct redactor *, const struct redact_text *t, struct redact_spans *out);
/* redact.c: text[0, len) with the spans that lie in it replaced. */
void redact_apply(struct redactor *, const struct redact_text *t, const struct redact_spans *spans,
                  struct buf *out);
/* redact.c: from now on, looks everywhere for the value of the span, if that is worth it. */
int redact_learn_span(struct redactor *, const struct redact_text *t,
                      const struct redact_span *span);

/* redact_names.c: from now on, looks everywhere for a value whose end is known, with its blanks and quotes. 0 or -ENOMEM. */
int redact_learn_whole(struct redactor *, enum redact_kind kind, const char *value, size_t len, const char *label);
/* redact_spelled.c: the value as JSON, JSON with "\/", JSON in JSON, an address, a form and HTML spell it (way 0 to 5); its length,
 * 0 = too long. */
#define REDACT_SPELLINGS 6u
size_t redact_spelled(unsigned way, const char *value, size_t len, char *out, size_t size);

/* --- redact_arguments.c, redact_parted.c: arguments, whose ends are known --- */

/* Has the name a word of names that ask for a secret? */
bool redact_may_ask(const char *name, size_t len);
/* Does a rule hide such a value behind the name ("--password", "SMTP_PASSWORD")? The value itself may have blanks and quotes,
 * at which a rule for texts would end. 1 with the rule's span, 0, -errno. */
int redact_asks_for_secret(struct redactor *, const char *name, const char *value, struct redact_span *ret);
/* Adds what is hidden to the end of its argument, and drops guesses in arguments of technical words. 0 or -ENOMEM. */
int redact_arguments(struct redactor *, const struct redact_text *t, bool learning, struct redact_spans *out);

struct redact_parted_line {
    size_t at, from, len; /* its place in the parted text and in the text */
};
struct redact_parted {
    struct buf text; /* copies of lines, in which NULs part the arguments */
    struct redact_parted_line *lines;
    size_t count, capacity;
};
/* 0 or -ENOMEM. */
int redact_part(const struct redact_text *t, struct redact_parted *ret);
void redact_parted_release(struct redact_parted *parted);

/* --- redact_fold.c: tokens that were cut in two --- */

struct redact_folded {
    char *p;
    uint32_t *place; /* of each byte in the text */
    size_t len;      /* 0 = nothing was cut */
};
/* 0 or -ENOMEM. */
int redact_fold(const struct redact_rules *rules, const struct redact_text *t, struct redact_folded *ret);
void redact_folded_release(struct redact_folded *folded);
/* Translates a span of the folded text into a span of the text. False: nothing was left out within
 * the span, so the other searches find it as well. */
bool redact_folded_place(const struct redact_text *t, const struct redact_folded *folded,
                         struct redact_span *span);

/* Bytes of the colours that begin at `at`: ESC[1;31m, also as repr(), JSON or bash write the first byte. 0 = none. */
size_t redact_colour_at(const struct redact_text *t, size_t at);
size_t redact_line_end(const struct redact_text *t, size_t from);

/* --- redact_dump.c: the bytes of hexadecimal dumps --- */

struct redact_dump_place {
    uint32_t hex;    /* of the two digits */
    uint32_t letter; /* 0 = none */
};
struct redact_dump {
    char *p;
    struct redact_dump_place *place; /* of each byte in the text */
    size_t len, capacity;            /* len 0 = the text has no dump */
};
/* 0 or -ENOMEM. */
int redact_dump_read(const struct redact_text *t, struct redact_dump *ret);
void redact_dump_release(struct redact_dump *dump);
/* Adds the digits and the letters of a span of the dumped bytes. */
void redact_dump_place(const struct redact_text *t, const struct redact_dump *dump, const struct redact_span *span,
                       struct redact_spans *out);

/* --- redact_wrap.c: does a token go on in the next line? --- */

bool redact_is_token(char c);
/* Does the text end in a token that begins like those of a known issuer? */
bool redact_ends_in_token(const struct redact_rules *rules, const char *p, size_t len);
/* Was a token of the line [from, to) cut by the screen's edge? Then *ret_stop is the end of its first piece, and *ret_go_on the
 * beginning of the rest. The lines of a box around the text are skipped. */
bool redact_goes_on(const struct redact_rules *rules, const struct redact_text *t, size_t from, size_t to,
                    size_t *ret_stop, size_t *ret_go_on);
enum redact_mark {
    REDACT_MARK_NONE,
    REDACT_MARK_FRAME,
    REDACT_MARK_BACKSLASH,
    REDACT_MARK_EQUALS,
    REDACT_MARK_QUOTE,
};
/* Finds the sign between the token and the line's end. */
enum redact_mark redact_mark_at(const struct redact_text *t, size_t from, size_t to, size_t *ret_stop);
/* Like redact_goes_on(), for a known token before `stop`: the next line may have the log's prefix again, or an indent. */
bool redact_goes_on_behind(const struct redact_rules *rules, const struct redact_text *t, size_t from, size_t to,
                           size_t stop, enum redact_mark mark, size_t *ret_go_on);

/* --- redact_unescape.c --- */

/* Between two words of a command that Python printed. */
#define REDACT_ITEMS "', '"
/* The text as its reader sees it, each byte in the same place. Escapes become blanks, escaped line
 * ends end lines, escaped quotes are quotes, and a list of a command's words becomes the command.
 * NULL without failure: the text has nothing of that. */
char *redact_unescaped(const struct redact_text *t, bool *ret_failed);

/* --- redact_place.c: where a known name stands --- */

/* Identifies nobody ("root", "localhost", digits): never hidden. */
bool redact_is_common(const char *value);
/* A technical word, or a word of so few letters that it may be any: hidden only where it means a
 * host or a user. */
bool redact_is_weak(const char *value, size_t short_up_to);
/* Inside a path below /proc or /sys, which the kernel named (but for control groups). */
bool redact_in_kernel_path(const struct redact_text *t, size_t at);
/* A part of a longer name, joined by '_', '.' or '-'. */
bool redact_is_joined(const struct redact_text *t, size_t at, size_t len);
bool redact_stands_as_host(const struct redact_text *t, size_t at, size_t len);
bool redact_stands_as_user(const struct redact_text *t, size_t at, size_t len);
/* Is the known name meant by what stands at `at`? */
bool redact_is_meant(const struct redact_name *name, const struct redact_text *t, size_t at);

/* Byte at i, or NUL beyond the ends. */
static inline char redact_at(const struct redact_text *t, size_t i)
{
    return i < t->len ? t->p[i] : '\0';
}

static inline bool redact_is_one_of(char c, const char *signs)
{
    return c != '\0' && strchr(signs, c) != NULL;
}

/* redact_public.c: does the name of a function that stands at `at` belong to a public library? */
bool redact_is_public_symbol(const struct redactor *, const struct redact_text *t, size_t at);
/* redact_public.c: drops what rules found in a place that a rule "public" found. Secrets stay, and names that are known. */
void redact_drop_in_public(struct redact_spans *spans);

/* redact_json_line.c */
/* A line that is one object, as a log of events has it. It stays JSON: what is hidden ends at the quotes of a string, takes no
 * part of an escape, and numbers become a string. */
struct json_line {
    size_t from, to; /* of the line that was looked at last */
    bool is_json;
    size_t at; /* read up to here */
    bool in_string;
};

/* Fits settled spans into the lines of JSON. 0 or -ENOMEM. */
int redact_fit_json(const struct redact_text *t, struct redact_spans *spans);
/* Does the span begin with a number of a line of JSON? Spans are asked for from left to right. */
bool redact_needs_quotes(struct json_line *l, const struct redact_text *t, const struct redact_span *span);

#endif
