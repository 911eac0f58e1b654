/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names behind a bundle's pseudonyms: kept for the owner on his own machine, in
 * $XDG_STATE_HOME/rocmcrash/names/BUNDLE.json (0600, in a folder of 0700), for the last
 * NAME_MAPS_KEPT bundles. Those of the runs of a campaign lie in names/CAMPAIGN/ and count as one
 * bundle. Secrets are in no map.
 *
 * A map also holds the SHA-256 of the run/run.json of its bundle: anybody can give a bundle of his own the
 * name of yours.
 */
#ifndef CLI_NAME_MAP_H
#define CLI_NAME_MAP_H

#define NAME_MAPS_KEPT 100

struct buf;
struct cJSON;
struct rc_err;
struct redactor;

/* Best effort: a bundle without a map is as good. `bundle` is its name without ".tar.gz", and its files are
 * in the folder `stage`. */
void name_map_write(const struct redactor *redactor, const char *bundle, const char *stage);
/* The same from a map: {"<host1>": "node7", ...}. */
void name_map_save(struct cJSON *map, const char *bundle, const char *stage);
/* Adds the redactor's names to a map. */
void name_map_add(struct cJSON *map, const struct redactor *redactor);
/* Puts the map of the bundle in the file `path` beside those of the other runs of the campaign, whose
 * bundles lie in `folder`. Best effort. */
void name_map_gather(const char *path, const char *folder);
/* The map of the bundle in that file, {"<host1>": "node7", ...}; the caller's. NULL with *err: this user did not make it on
 * this machine. */
struct cJSON *name_map_of_file(const char *path, struct rc_err *err);
/* Appends the text with each pseudonym that the map knows replaced; others stay. */
void name_map_apply(const struct cJSON *map, const char *text, struct buf *out);
/* Appends a text of another bundle, so that it can stand beside texts of the bundle with the map `into`: a
 * pseudonym becomes the one that `into` has for the same name, or a new one, which is added to `into`. Where
 * `from`, the map of the text's bundle, lacks the name, "<host3>" becomes "<host>". Either map may be NULL. */
void name_map_translate(struct cJSON *into, const struct cJSON *from, const char *text, struct buf *out);

#endif
