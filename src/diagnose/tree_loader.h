/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values out of the JSON files of the decision tree, and complaints that name file, line and item.
 * What a value means, and which keys belong where, is in tree.c.
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
    const char *near; /* where the item being read begins */
    const char *file; /* how messages name it */
    const char *path; /* where it lies, NULL when it was given as text */
    const char *item; /* "node 'N1'" for messages */
    struct tree *tree; /* whose terms expressions may use; NULL = none */
    struct rc_err *err;
};

/* The file as an object, NULL with the complaint in l->err. Caller deletes it. */
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

/* Parts of the tree into l->tree (tree.c): terms, labels and inputs; nodes, which add to those that
 * are there; and that the last node always answers. */
int tree_read_words(struct loader *l, const struct cJSON *root);
int tree_read_nodes(struct loader *l, const struct cJSON *root);
int tree_check_last_node(const struct loader *l);

/* Fill l->err and return -EINVAL. `anchor`: a piece of the text that is wrong, to find its line. */
__attribute__((format(printf, 3, 4))) int loader_wrong(const struct loader *l, const char *anchor,
                                                       const char *fmt, ...);
int loader_wrong_key(const struct loader *l, const char *key, const char *reason);

#endif
