/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the data files (templates/) of this installation or build tree. */
#ifndef CLI_ASSETS_H
#define CLI_ASSETS_H

#include <stddef.h>
#include <sys/types.h>

struct computed;
struct rc_err;
struct tree;

/* templates/<name> into malloc()ed NUL-terminated memory; length or -errno. ROCMCRASH_TEMPLATES
 * names another folder. */
ssize_t asset_read(const char *name, char **ret_text, struct rc_err *err);
/* The same, or the user's own file in its place where `own` is not NULL. */
ssize_t asset_or_file(const char *own, const char *name, char **ret_text, struct rc_err *err);
/* templates/computed.json; caller releases (computed.h). */
struct computed *asset_computed(struct rc_err *err);
/* The decision tree with computed.json and its defect table; `own_tree` (a path) replaces tree.json when not
 * NULL. Else with the site's own nodes. If those are wrong, they are left out and site_trouble() says why. */
struct tree *asset_tree(const char *own_tree, struct rc_err *err);

#endif
