/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names behind a bundle's pseudonyms: kept for the owner on his own machine, in
 * $XDG_STATE_HOME/rocmcrash/names/BUNDLE.json (0600, in a folder of 0700), for the last
 * NAME_MAPS_KEPT bundles. Secrets are in no map.
 */
#ifndef CLI_NAME_MAP_H
#define CLI_NAME_MAP_H

#define NAME_MAPS_KEPT 100

struct buf;
struct cJSON;
struct rc_err;
struct redactor;

/* Best effort: a bundle without a map is as good. `bundle` is its name without ".tar.gz". */
void name_map_write(const struct redactor *redactor, const char *bundle);
/* {"<host1>": "node7", ...}; the caller's. NULL with *err: this machine has none of that bundle. */
struct cJSON *name_map_read(const char *bundle, struct rc_err *err);
/* That of the bundle that is in the file. */
struct cJSON *name_map_of_file(const char *path, struct rc_err *err);
/* Appends the text with each pseudonym that the map knows replaced; others stay. */
void name_map_apply(const struct cJSON *map, const char *text, struct buf *out);

#endif
