/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values from the JSON files of the decision tree; errors name file, line and item. tree.c
 * knows the meaning of values and the keys of each item.
 */
#ifndef DIAGNOSE_TREE_LOADER_H
#define DIAGNOSE_TREE_LOADER_H

#include <stdbool.h>
#include <stddef.h>

struct cJSON;
struct expr;
struct rc_err;
struct tree;

struct loader {
    const char *text; /* NUL-terminated copy of the file */
    const char *near; /* start of the item being read */
    const char *file; /* its name in messages */
    const char *path; /* path of the file, NULL if it was given as text */
    const char *item; /* "node 'N1'" for messages */
    struct tree *tree; /* tree whose terms expressions may use; NULL = none */
    struct rc_err *err;
};

/* The file as an object, or NULL with the error in l->err. Caller deletes it. */
struct cJSON *loader_json(struct loader *l, size_t len);
/* "format" must be 1. */
int loader_check_format(const struct loader *l, const struct cJSON *root);
/* Only these keys (NULL ends them) and remarks, which begin with '#'. */
int loader_check_keys(const struct loader *l, const struct cJSON *object,
                      const char *const *allowed);

/* A text, or a list of texts that are joined by blanks. NULL result with 0 = not there. Caller
 * frees *ret, here and below. */
int loader_text(const struct loader *l, const struct cJSON *object, const char *key, bool required,
                char **ret);
/* A text whose {placeholders} exist. */
int loader_template(const struct loader *l, const struct cJSON *object, const char *key,
                    bool required, char **ret);
int loader_expr(const struct loader *l, const struct cJSON *object, const char *key, bool required,
                struct expr **ret);

/* Moves l->near to the item with this id, so that lines are counted from there. */
void loader_go_to(struct loader *l, const char *id);

/* Read parts of the tree into l->tree (tree.c): terms, labels and inputs; nodes, which are
 * appended. Check that the last node always answers. */
int tree_read_words(struct loader *l, const struct cJSON *root);
int tree_read_nodes(struct loader *l, const struct cJSON *root);
int tree_check_last_node(const struct loader *l);

/* Fill l->err and return -EINVAL. `anchor`: a piece of the wrong text, to find its line. */
__attribute__((format(printf, 3, 4))) int loader_wrong(const struct loader *l, const char *anchor,
                                                       const char *fmt, ...);
int loader_wrong_key(const struct loader *l, const char *key, const char *reason);

#endif
