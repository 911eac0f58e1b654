/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/assets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_path.h"
#include "base/say.h"
#include "cli/site.h"
#include "diagnose/computed.h"
#include "diagnose/verdict.h"

#define ASSET_MAX (4u << 20)
#define OWN_MAX (1u << 20)

/* Why the folder that the environment names is not used; NULL = it is. Whoever writes the rules decides what
 * stays private: a folder of another user is not used, unless he owns this program, too. */
static const char *named_trouble(const char *named)
{
    char tree[FS_PATH_MAX];
    struct stat st, program;
    if ((size_t)snprintf(tree, sizeof tree, "%s/tree.json", named) >= sizeof tree ||
        access(tree, R_OK) != 0 || stat(named, &st) != 0)
        return "it has no tree.json that can be read";
    bool is_safe = st.st_uid == 0 || st.st_uid == geteuid() ||
                   (stat("/proc/self/exe", &program) == 0 && program.st_uid == st.st_uid);
    if (!is_safe)
        return "it belongs to another user";
    return (st.st_mode & S_IWOTH) != 0 ? "everybody may write to it" : NULL;
}

static int find_folder(char *out, size_t size)
{
    static bool told;
    const char *named = getenv("ROCMCRASH_TEMPLATES");
    bool is_named = named != NULL && named[0] != '\0';
    const char *trouble = is_named ? named_trouble(named) : NULL;
    if (is_named && trouble == NULL)
        return (size_t)snprintf(out, size, "%s", named) < size ? 0 : -ENAMETOOLONG;
    int r = own_path_find("templates/tree.json", R_OK, out, size);
    if (r == 0)
        *strrchr(out, '/') = '\0';
    if (is_named && !told)
        (void)say_line(stderr, "rocmcrash: ROCMCRASH_TEMPLATES: '%s' is not used: %s%s", named,
                       trouble, r == 0 ? "; our own templates are used" : "");
    told = true;
    return r;
}

static int find_asset(const char *name, char *path, size_t size, struct rc_err *err)
{
    char folder[FS_PATH_MAX];
    int r = find_folder(folder, sizeof folder);
    if (r < 0)
        return rc_err_errno(err, r, "cannot find the templates folder");
    (void)snprintf(path, size, "%s/%s", folder, name);
    return 0;
}

ssize_t asset_read(const char *name, char **ret_text, struct rc_err *err)
{
    char path[FS_PATH_MAX + 64];
    int r = find_asset(name, path, sizeof path, err);
    if (r < 0)
        return r;
    ssize_t len = fs_read_all(path, ASSET_MAX, ret_text);
    return len < 0 ? rc_err_errno(err, (int)len, "cannot read '%s'", path) : len;
}

ssize_t asset_or_file(const char *own, const char *name, char **ret_text, struct rc_err *err)
{
    if (own == NULL)
        return asset_read(name, ret_text, err);
    ssize_t len = fs_read_all(own, OWN_MAX, ret_text);
    return len < 0 ? rc_err_errno(err, (int)len, "cannot read '%s'", own) : len;
}

struct computed *asset_computed(struct rc_err *err)
{
    char path[FS_PATH_MAX + 64];
    return find_asset("computed.json", path, sizeof path, err) == 0 ? computed_read(path, err)
                                                                    : NULL;
}

static struct tree *shipped_tree(const char *own_tree, struct rc_err *err)
{
    char path[FS_PATH_MAX + 64];
    RC_AUTO_FREE char *defects = NULL;
    if (own_tree == NULL && find_asset("tree.json", path, sizeof path, err) < 0)
        return NULL;
    struct tree *tree = tree_read(own_tree != NULL ? own_tree : path, err);
    if (tree == NULL)
        return NULL;
    struct computed *computed = asset_computed(err);
    tree_take_computed(tree, computed);
    ssize_t len = asset_read("defects.json", &defects, err);
    if (computed == NULL || len < 0 ||
        tree_add_defects(tree, defects, (size_t)len, "defects.json", err) < 0) {
        tree_free(tree);
        return NULL;
    }
    return tree;
}

struct tree *asset_tree(const char *own_tree, struct rc_err *err)
{
    struct site *site = site_get();
    struct rc_err why = {""};
    struct tree *tree = shipped_tree(own_tree, err);
    if (tree == NULL || own_tree != NULL || site_add_nodes(site, tree, &why) == 0)
        return tree;
    site_note(site, &why);
    tree_free(tree);
    return shipped_tree(NULL, err);
}
