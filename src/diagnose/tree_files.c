/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the decision tree: templates/tree.json, which names its stages (templates/tree/),
 * and templates/defects.json. A tree in one file has its nodes in place of the list of stages.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "diagnose/computed.h"
#include "diagnose/tree.h"
#include "diagnose/tree_loader.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)

typedef int (*part_reader)(struct loader *l, const cJSON *root);

/* Reads one file's text by `read`. `path`: its path, NULL if the text is not from a file. */
static int read_text(struct tree *tree, const char *json, size_t len, const char *name,
                     const char *path, part_reader read, struct rc_err *err)
{
    RC_AUTO_FREE char *text = strndup(json, len);
    struct loader l = {
        .text = text, .near = text, .file = name, .path = path, .tree = tree, .err = err};
    if (text == NULL)
        return rc_err_set(err, -ENOMEM, "out of memory while reading '%s'", name);
    cJSON *root = loader_json(&l, strlen(text));
    int r = root != NULL ? loader_check_format(&l, root) : -EINVAL;
    if (r == 0)
        r = read(&l, root);
    if (r == -ENOMEM)
        (void)rc_err_set(err, r, "out of memory while reading '%s'", name);
    cJSON_Delete(root);
    return r;
}

static int read_file(struct tree *tree, const char *path, part_reader read, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = fs_read_all(path, FILE_BYTES_MAX, &text);
    if (len < 0)
        return rc_err_errno(err, (int)len, "cannot read '%s'", path);
    return read_text(tree, text, (size_t)len, path, path, read, err);
}

static int read_words_and_evidence(struct loader *l, const cJSON *root, const char *const *keys)
{
    int r = loader_check_keys(l, root, keys);
    if (r == 0)
        r = tree_read_words(l, root);
    return r == 0 ? evidence_read(l, root) : r;
}

static int read_stage(struct loader *l, const cJSON *root)
{
    static const char *const keys[] = {"format", "stage",    "why_here", "terms",
                                       "nodes",  "evidence", "decides",  NULL};
    int r = read_words_and_evidence(l, root, keys);
    return r == 0 ? tree_read_nodes(l, root) : r;
}

/* `name` is relative to the folder of the file that names it. */
static int read_named_stage(struct loader *l, const cJSON *name)
{
    char path[FS_PATH_MAX];
    if (!cJSON_IsString(name) || name->valuestring[0] == '/' ||
        strstr(name->valuestring, "..") != NULL)
        return loader_wrong_key(l, "stages", "must be a list of files below this file's folder");
    if (l->path == NULL)
        return loader_wrong_key(l, "stages", "can be read only from a file");
    const char *slash = strrchr(l->path, '/');
    int folder = slash != NULL ? (int)(slash - l->path) + 1 : 0;
    int n = snprintf(path, sizeof(path), "%.*s%s", folder, l->path, name->valuestring);
    if (n < 0 || (size_t)n >= sizeof(path))
        return loader_wrong_key(l, "stages", "holds a name that is too long");
    return read_file(l->tree, path, read_stage, l->err);
}

/* The nodes that name a clause read it. */
static int read_clauses(const struct loader *l, const cJSON *root)
{
    const cJSON *clauses = cJSON_GetObjectItemCaseSensitive(root, "clauses");
    if (clauses != NULL && !cJSON_IsObject(clauses))
        return loader_wrong_key(l, "clauses", "must be {name: {\"if\", \"say\"}}");
    l->tree->clauses = cJSON_Duplicate(clauses, true);
    return clauses != NULL && l->tree->clauses == NULL ? -ENOMEM : 0;
}

/* Conditions for a low and for a medium verdict. */
static int read_levels(const struct loader *l, const cJSON *levels, struct expr *ret[2])
{
    int r = loader_expr(l, levels, "low", false, &ret[0]);
    return r == 0 ? loader_expr(l, levels, "medium", false, &ret[1]) : r;
}

static int read_yields(const struct loader *l, const cJSON *root)
{
    static const char *const keys[] = {"low", "medium", NULL};
    const cJSON *yields = cJSON_GetObjectItemCaseSensitive(root, "yields");
    if (yields == NULL)
        return 0;
    if (!cJSON_IsObject(yields))
        return loader_wrong_key(l, "yields", "must be {\"low\": ..., \"medium\": ...}");
    int r = loader_check_keys(l, yields, keys);
    return r == 0 ? read_levels(l, yields, l->tree->yields) : r;
}

static int read_bound(const struct loader *l, const cJSON *bound)
{
    static const char *const keys[] = {"low", "medium", "classes", "say", "adds", NULL};
    struct tree *t = l->tree;
    if (!cJSON_IsObject(bound) || t->bound_count == TREE_BOUNDS_MAX)
        return loader_wrong_key(l, "at_most", "must be a list of up to 4 {\"low\": ..., \"medium\": ..., \"say\": ...}");
    struct tree_bound *b = &t->bound[t->bound_count++];
    int r = loader_check_keys(l, bound, keys);
    if (r == 0)
        r = read_levels(l, bound, b->level);
    if (r == 0)
        r = loader_text(l, bound, "classes", false, &b->classes);
    if (r == 0)
        r = loader_text(l, bound, "adds", false, &b->adds);
    return r == 0 ? loader_text(l, bound, "say", true, &b->says) : r;
}

static int read_at_most(const struct loader *l, const cJSON *root)
{
    const cJSON *at_most = cJSON_GetObjectItemCaseSensitive(root, "at_most");
    const cJSON *bound = NULL;
    int r = 0;
    cJSON_ArrayForEach(bound, at_most)
    {
        if (r == 0)
            r = read_bound(l, bound);
    }
    return r;
}

static int read_lack(const struct loader *l, const cJSON *item)
{
    static const char *const keys[] = {"facts", "if", "say", "get", "reason", NULL};
    struct tree *t = l->tree;
    if (!cJSON_IsObject(item) || t->lack_count == TREE_LACKS_MAX)
        return loader_wrong_key(l, "lacks", "must be a list of up to 16 {\"facts\": ..., \"say\": ...}");
    struct tree_lack *lack = &t->lack[t->lack_count++];
    lack->has_reason = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "reason"));
    int r = loader_check_keys(l, item, keys);
    if (r == 0)
        r = loader_text(l, item, "facts", true, &lack->facts);
    if (r == 0)
        r = loader_expr(l, item, "if", false, &lack->when);
    if (r == 0)
        r = loader_text(l, item, "get", false, &lack->get);
    return r == 0 ? loader_text(l, item, "say", true, &lack->say) : r;
}

static int read_lacks(const struct loader *l, const cJSON *root)
{
    const cJSON *lacks = cJSON_GetObjectItemCaseSensitive(root, "lacks");
    const cJSON *lack = NULL;
    int r = 0;
    cJSON_ArrayForEach(lack, lacks)
    {
        if (r == 0)
            r = read_lack(l, lack);
    }
    return r;
}

static int read_head(struct loader *l, const cJSON *root)
{
    static const char *const keys[] = {"format", "how_to_read", "stage",  "why_here", "stages",
                                       "terms",  "labels",      "inputs", "nodes",    "evidence",
                                       "decides", "clauses",     "yields",   "at_most",
                                       "lacks", NULL};
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(root, "stages");
    const cJSON *stage = NULL;
    int r = read_words_and_evidence(l, root, keys);
    if (r == 0)
        r = read_clauses(l, root);
    if (r == 0)
        r = read_yields(l, root);
    if (r == 0)
        r = read_at_most(l, root);
    if (r == 0)
        r = read_lacks(l, root);
    if (r == 0 && stages != NULL && !cJSON_IsArray(stages))
        r = loader_wrong_key(l, "stages", "must be a list of files below this file's folder");
    cJSON_ArrayForEach(stage, stages)
    {
        if (r == 0)
            r = read_named_stage(l, stage);
    }
    if (r == 0 && (stages == NULL || cJSON_HasObjectItem(root, "nodes")))
        r = tree_read_nodes(l, root);
    return r == 0 ? tree_check_last_node(l) : r;
}

static struct tree *new_tree(const char *name, struct rc_err *err)
{
    struct tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL)
        (void)rc_err_set(err, -ENOMEM, "out of memory while reading '%s'", name);
    return tree;
}

static struct tree *whole_or_none(struct tree *tree, int r)
{
    if (r == 0)
        return tree;
    tree_free(tree);
    return NULL;
}

struct tree *tree_parse(const char *json, size_t len, const char *name, struct rc_err *err)
{
    struct tree *tree = new_tree(name, err);
    if (tree == NULL)
        return NULL;
    return whole_or_none(tree, read_text(tree, json, len, name, NULL, read_head, err));
}

struct tree *tree_read(const char *path, struct rc_err *err)
{
    struct tree *tree = new_tree(path, err);
    return tree != NULL ? whole_or_none(tree, read_file(tree, path, read_head, err)) : NULL;
}

static int read_defect(struct loader *l, const cJSON *object)
{
    static const char *const keys[] = {"id",     "if",     "classes", "range", "defect",
                                       "status", "source", "verify",  "say",   NULL};
    struct tree *tree = l->tree;
    if (tree->defect_count == TREE_DEFECTS_MAX)
        return loader_wrong(l, NULL, "more than %d defects", TREE_DEFECTS_MAX);
    struct tree_defect *d = &tree->defect[tree->defect_count++];
    int r = cJSON_IsObject(object) ? 0 : loader_wrong(l, NULL, "a defect must be an object");
    if (r == 0)
        r = loader_text(l, object, "id", true, &d->id);
    if (r < 0)
        return r;
    loader_go_to(l, d->id);
    r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = loader_expr(l, object, "if", true, &d->when);
    if (r == 0)
        r = loader_text(l, object, "classes", true, &d->classes);
    if (r == 0)
        r = loader_template(l, object, "say", true, &d->say);
    if (r == 0)
        r = loader_text(l, object, "source", true, &d->source);
    return r == 0 ? loader_template(l, object, "verify", false, &d->verify) : r;
}

static int read_defects(struct loader *l, const cJSON *root)
{
    static const char *const keys[] = {"format", "how_to_read", "defects", NULL};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "defects");
    const cJSON *item = NULL;
    int r = loader_check_keys(l, root, keys);
    if (r == 0 && !cJSON_IsArray(list))
        r = loader_wrong_key(l, "defects", "must be a list");
    cJSON_ArrayForEach(item, list)
    {
        if (r == 0)
            r = read_defect(l, item);
    }
    return r;
}

int tree_add_defects(struct tree *tree, const char *json, size_t len, const char *name,
                     struct rc_err *err)
{
    return read_text(tree, json, len, name, NULL, read_defects, err);
}

void tree_take_computed(struct tree *tree, struct computed *computed)
{
    computed_free(tree->computed);
    tree->computed = computed;
}

/* --- a site's own nodes --- */

#define SITE_PREFIX "site-"

static int check_site_ids(const struct tree *tree, size_t from, const char *path, struct rc_err *err)
{
    for (size_t i = from; i < tree->node_count; i++)
        if (strncmp(tree->node[i].id, SITE_PREFIX, strlen(SITE_PREFIX)) != 0)
            return rc_err_set(err, -EINVAL, "%s: node '%.60s': a site's ids begin with '" SITE_PREFIX "'",
                              path, tree->node[i].id);
    return 0;
}

/* The nodes from `from` on move to `to`. */
static int move_nodes(struct tree *tree, size_t from, size_t to)
{
    size_t count = tree->node_count - from;
    struct tree_node *moved = calloc(count + 1, sizeof *moved);
    if (moved == NULL)
        return -ENOMEM;
    memcpy(moved, &tree->node[from], count * sizeof *moved);
    memmove(&tree->node[to + count], &tree->node[to], (from - to) * sizeof *moved);
    memcpy(&tree->node[to], moved, count * sizeof *moved);
    free(moved);
    return 0;
}

int tree_add_site(struct tree *tree, const char *path, struct rc_err *err)
{
    size_t before = tree->node_count;
    size_t to = 0;
    int r = read_file(tree, path, read_stage, err);
    if (r == 0)
        r = check_site_ids(tree, before, path, err);
    /* Nodes that say that nothing failed stay first; sites' files keep their order. */
    while (to < before && (strcmp(tree->node[to].class_name, "unknown") == 0 ||
                           strncmp(tree->node[to].id, SITE_PREFIX, strlen(SITE_PREFIX)) == 0))
        to++;
    return r == 0 ? move_nodes(tree, before, to) : r;
}
