/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces private things in staged text by a stable pseudonym ("<user1>"), and secrets by their kind
 * ("<secret:github>"). They are found by rules that are data (templates/redaction.rules), and by name: names
 * of this machine, and names that a learning rule has found anywhere in the bundle.
 *
 * Numbers, addresses (0x...), sizes, versions, PCI addresses, gfx names and hashes stay as they
 * are: a bundle must judge the same before and after. The map from pseudonym to name never goes into a
 * bundle. Pass whole texts: a name or secret that two calls split is found only if it was learned.
 */
#ifndef BUNDLE_REDACT_H
#define BUNDLE_REDACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cJSON;
struct rc_err;
struct redactor;

enum redact_kind {
    REDACT_SECRET,  /* <secret:rule>; no number: secrets are not told apart */
    REDACT_HOME,    /* <home1> */
    REDACT_USER,    /* <user1> */
    REDACT_HOST,    /* <host1> */
    REDACT_IP,      /* <ip1>, IPv4 and IPv6; loopback and "any" stay */
    REDACT_MAC,     /* <mac1> */
    REDACT_ID,      /* <id1>: GPU serials and unique ids, UUIDs, machine-id */
    REDACT_EMAIL,   /* <email1> */
    REDACT_ACCOUNT, /* <account1>: of a cluster or a cloud */
    REDACT_PATH,    /* <path1>: folder of a model or of data; the last name in it stays */
    REDACT_PROJECT, /* <project1>: folder, repository or model that somebody named */
    REDACT_TEXT,    /* <text: 312 characters>: a prompt to a model, or its answer */
    REDACT_KIND_MAX,
};

/* Uses the built-in rules. NULL when there is no memory. */
struct redactor *redactor_new(void);
/* The text of the built-in rules: *ret_len bytes, without a NUL. */
const char *redactor_builtin_rules(size_t *ret_len);
/* Uses the given rules; `name` is for the error message. NULL with *err. */
struct redactor *redactor_new_rules(const char *rules, size_t len, const char *name,
                                    struct rc_err *err);
void redactor_free(struct redactor *);
/* Sets the kinds that are not hidden: "hostnames,ips". Secrets are always hidden. 0 or -EINVAL with
 * *err. */
int redactor_keep(struct redactor *, const char *list, struct rc_err *err);
/*
 * Adds a known value of HOME, USER, HOST (or any kind but SECRET). Upper and lower case do not
 * differ. Values of five and more characters are also found inside other words, shorter ones only
 * as whole words. Technical words ("torch", "memory") and the shortest names are hidden only where
 * they stand as a user or a host ("torch@vm", "host: vm", "vm:29500", a line of syslog), and in
 * home folders. "root" and "localhost" are never hidden. Paths below /proc and /sys keep their
 * words. 0, -EINVAL, -ENOMEM.
 */
int redactor_add(struct redactor *, enum redact_kind kind, const char *value);
/* Adds our own domain ("hpc.example.org"): each host in it is hidden whole,
 * "node7.hpc.example.org". A domain of one label is ignored. 0 or -ENOMEM. */
int redactor_add_domain(struct redactor *, const char *domain);
/* Adds the names of this machine and of its user: $HOME, $USER, $LOGNAME, $SUDO_USER, passwd entry,
 * host name and its first part, machine-id, ids of the GPUs. 0 or -ENOMEM. */
int redactor_add_machine(struct redactor *);
/* Adds names around a run in `cwd` (NULL: ours): the real place of the home folder and the homes beside it,
 * people and groups with an account here, names in the git configuration, hosts of mounts, our domains, and
 * the folders in which people work: names in these folders are hidden like names below a home. May take a
 * second for each file system that does not answer. 0 or -ENOMEM. */
int redactor_add_around(struct redactor *, const char *cwd);
/* Pseudonyms that stand in the text ("<user3>") are not given to others. */
void redactor_reserve(struct redactor *, const char *text, size_t len);
/* Learns names and secrets from a text. They are then hidden everywhere, also where only their
 * value gives them away. Call it for all texts before redact_text(). 0 or -ENOMEM. */
int redactor_learn(struct redactor *, const char *text, size_t len);
int redactor_learn_json(struct redactor *, const struct cJSON *document);
/* Learns from the arguments of a command, or from one entry of an environment ("NAME=value"), NULL-terminated: a value that
 * is hidden to the end of its argument is hidden everywhere, with its blanks. 0 or -ENOMEM. */
int redactor_learn_arguments(struct redactor *, const char *const *arguments);
/* Learns from the memory map of a process which libraries are public: those of the system, and Python's own. The names of
 * their functions stay where a frame of a stack names both. 0 or -ENOMEM. */
int redactor_learn_maps(struct redactor *, const char *maps, size_t len);
/* True: the next texts are measurements, not written by somebody (/proc/meminfo, versions of packages, hashes
 * of models), so a word that the vocabulary lacks is no name. Known and learned names are hidden, and all
 * other rules apply, as elsewhere. */
void redactor_measured(struct redactor *, bool is_measured);
/* True: the next texts were redacted before, by the same rules. What a rule guesses from a word that the vocabulary lacks
 * was hidden then, and such words are ours now. */
void redactor_guessed(struct redactor *, bool is_guessed);
/* Did rules that are the same make this report, and was nothing kept? */
bool redactor_made(const struct redactor *, const struct cJSON *report);
/* Appends `in` to `out`, redacted. 0 or -ENOMEM (then `out` must not be used). */
int redact_text(struct redactor *, const char *in, size_t len, struct buf *out);
/* Redacts every string, number and key of a document in place, except the values under the keys of `keep`
 * (NULL-terminated, or NULL), which are our own words. A number of which something is hidden becomes a string. Of a key with
 * less than 16 bytes and none of the signs of paths and addresses only known names are hidden, unless its words are plain. The
 * document stays well-formed. 0 or -ENOMEM (then it must not be used). */
int redact_json(struct redactor *, struct cJSON *document, const char *const keep[]);

/* From here on changes are counted for this file of the bundle (NULL = none). */
void redactor_begin_file(struct redactor *, const char *name);
struct redact_change {
    const char *file, *rule, *value;
    size_t line, len; /* line 0 = unknown; `value` is not terminated */
    enum redact_kind kind;
    const char *becomes;
};
typedef void (*redact_change_fn)(void *arg, const struct redact_change *change);
/* Called for each change, for --preview. */
void redactor_on_change(struct redactor *, redact_change_fn fn, void *arg);
const char *redact_kind_name(enum redact_kind kind);

/* Each pseudonym with the one value that it stands for; secrets and texts have none. */
typedef void (*redact_name_fn)(void *arg, const char *pseudonym, const char *value);
void redactor_each_name(const struct redactor *, redact_name_fn fn, void *arg);

uint64_t redactor_count(const struct redactor *, enum redact_kind kind);
/* {"format":1,"counts":{"secret":2,...},"secrets":{"github":1,...},"files":{"x":{"user":1}},
 * "kept":[...],"rules":"0123456789abcdef"}: no values. NULL when there is no memory. */
struct cJSON *redactor_report(const struct redactor *);

#endif
