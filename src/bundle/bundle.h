/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle: staging folder -> manifest -> .tar.gz, and back. The only user of libarchive and libcrypto.
 *
 * A bundle is a gzip tar with one top folder of its own name. manifest.json lists everything that was tried
 * (a row per item: status, reason, milliseconds) and every file (bytes, SHA-256) except itself. The archive
 * is written under a temporary name, fsynced and renamed. Its mode is 0600, its size at most 25 MB
 * (GitHub's limit): the least valuable text is cut first, and the manifest lists each cut.
 */
#ifndef BUNDLE_BUNDLE_H
#define BUNDLE_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/collector.h" /* enum collect_status */

struct buf;
struct cJSON;
struct rc_err;
struct redactor;

#define BUNDLE_MAX_BYTES (25u * 1000u * 1000u)
#define MANIFEST_FORMAT 1

/* "libarchive 3.6.2, OpenSSL 3.0.17 ..., ...": the libraries in use. */
void bundle_libraries(struct buf *out);

/* --- manifest: rows in the order they were tried --- */

struct manifest;

struct manifest *manifest_new(void);
void manifest_free(struct manifest *);
/* One thing that was tried. `reason` NULL or "" for COLLECT_OK. 0 or -ENOMEM. */
int manifest_add_item(struct manifest *, const char *name, enum collect_status status,
                      const char *reason, uint64_t milliseconds);
/* Removes the rows of an item that is tried again. */
void manifest_forget_item(struct manifest *, const char *name);
/* Redacts the texts of the rows, except names and statuses. 0 or -ENOMEM. */
int manifest_redact(struct manifest *, struct redactor *redactor);
/* The top folder of the bundle that is rewritten gets this name. 0, -EINVAL, -ENOMEM. */
int manifest_rename(struct manifest *, const char *top);
/* The former top folder of a bundle that is rewritten. */
const char *manifest_name(const struct manifest *);
/* Free-form top-level value (tool version, what tracing lost, ...); takes ownership of `value`. */
int manifest_set(struct manifest *, const char *key, struct cJSON *value);
/* Loads the manifest.json of a stage (an unpacked bundle), so that rows can be added. NULL with
 * *err on failure. */
struct manifest *manifest_load(const char *stage_dir, struct rc_err *err);
/* Hashes every file below stage_dir, except manifest.json, and writes the document to `out`. */
int manifest_render(struct manifest *, const char *stage_dir, struct buf *out, struct rc_err *err);
const char *collect_status_name(enum collect_status status); /* "ok", "partial", "timed_out" ... */

/* --- writing --- */

/* The parts of a bundle's name. A string that is NULL or "" is not known. */
struct bundle_title {
    uint64_t wall_ns;          /* start of the run, since 1970 */
    const char *program;       /* or its path */
    const char *verdict_class; /* "capacity" */
    const char *rank;          /* "3" */
    const char *signature;     /* "rc-1a2b3c4d5e6f": a search for it also finds the attached file */
};
/* rocmcrash-<UTC yyyymmddThhmmssZ>-<program>-<class>[-r<rank>][-<signature>]; [A-Za-z0-9._-] only. */
void bundle_name(char *out, size_t size, const struct bundle_title *title);
/*
 * Archives stage_dir (regular files and folders only) as <output_dir>/<name>.tar.gz, where every
 * entry lies below "<name>/". If output_dir cannot be written, tries the fallback folders in turn
 * ($ROCMCRASH_STATE_DIR/bundles, $XDG_STATE_HOME/rocmcrash/bundles or that below the home,
 * /tmp/rocmcrash-<uid>, /dev/shm/rocmcrash-<uid>; in /tmp and /dev/shm, where that name is not ours, the
 * same with -<random>). ret_path gets the final path. 0 or -errno with
 * *err. *ret_elsewhere is true if the bundle is not in output_dir; *err then says why. If the name
 * is taken, it gets "-2", "-3" ... (also as top folder): nothing is overwritten.
 *
 * The archive's manifest.json is made from that of the stage. Its "files" and "cut" are made while
 * archiving: they describe the archived bytes, even if a file of the stage changes meanwhile. The
 * stage itself is not altered.
 */
int bundle_write(const char *stage_dir, const char *name, const char *output_dir, char *ret_path,
                 size_t ret_size, bool *ret_elsewhere, struct rc_err *err);

/* The folder in /tmp with a random name that bundle_write() made for a user who has no folder of his own. -ENOENT: none. */
int bundle_shared_folder(char *out, size_t size);

/* --- reading: every bundle may be hostile --- */

/* Checks the structure (one top folder, nothing outside, no links or devices), that each file of
 * the manifest is there with its size and SHA-256, and that there is no other file. 0 = good;
 * -EBADMSG = bad, and *err says why; another -errno = the bundle could not be read. */
int bundle_verify(const char *path, struct rc_err *err);
/* The message about a folder with a bundle's files. */
#define BUNDLE_UNPACKED "is an unpacked bundle: pack it again, 'tar -czf NAME.tar.gz FOLDER'"
/* SHA-256 in hexadecimal. */
#define BUNDLE_DIGEST_SIZE 65
void bundle_digest(const void *data, size_t len, char hex[BUNDLE_DIGEST_SIZE]);
/* Reads one file of the bundle (name below the top folder) into malloc()ed, NUL-terminated memory
 * of at most max bytes. -ENOENT if there is no such file. */
ssize_t bundle_read_file(const char *path, const char *name, size_t max, char **ret_data,
                         struct rc_err *err);
/* Marks the place where a text was shortened to fit. */
#define BUNDLE_CUT_WORDS "bytes cut by rocmcrash"
/* Several files, read in one pass. 0 if at least one was found, even if the bundle is damaged after
 * it. */
struct bundle_file {
    const char *name;
    size_t max;
    char *data;  /* out, owned by the caller; NULL = not read; with -EFBIG the beginning */
    ssize_t len; /* out: bytes or -errno; -ENOENT = there is none; -EBADMSG: more JSON than we parse */
};
int bundle_read_files(const char *path, struct bundle_file *files, size_t count,
                      struct rc_err *err);
/* The same (but not of manifest.json), and bundle_verify() in the same pass: damage->msg says what is damaged, "" =
 * nothing. -EBADMSG also for a damaged bundle that has none of the files. */
int bundle_read_verified(const char *path, struct bundle_file *files, size_t count, struct rc_err *damage,
                         struct rc_err *err);
/* Unpacks regular files below dir (fresh, ours, 0700), bounded in count and size. The bundle's top
 * folder is left out: dir gets the contents that stage_dir had. dir is made, or must be empty and
 * ours. */
int bundle_unpack(const char *path, const char *dir, struct rc_err *err);

/* Called for each regular file. A result other than 0 ends the listing and is returned. */
typedef int (*bundle_list_fn)(void *arg, const char *name, uint64_t bytes);
int bundle_list(const char *path, bundle_list_fn fn, void *arg, struct rc_err *err);

/* The name that the bundle was made with: its top folder, whatever the file is called now. 0 or -errno. */
int bundle_read_name(const char *path, char *out, size_t size);
/* The time in such a name ("rocmcrash-20261123T075754Z-..."): when the run began, or the snapshot was made. -1: it has
 * none. */
int64_t bundle_name_time_s(const char *name);

/*
 * Changes an existing bundle: verifies it, unpacks it into a private folder, lets `change` alter
 * stage_dir and add rows to the manifest, writes the new file beside the old one, and renames it over
 * the old one. The new file has the owner of the old one, and those bits of its mode that are in
 * `mode_mask`. If anything fails, the old file stays. 0 or -errno.
 */
typedef int (*bundle_change_fn)(void *arg, const char *stage_dir, struct manifest *manifest,
                                struct rc_err *err);
int bundle_rewrite(const char *path, mode_t mode_mask, bundle_change_fn change, void *arg,
                   struct rc_err *err);
#define BUNDLE_MODE_KEPT 0666    /* as readable as the old one */
#define BUNDLE_MODE_PRIVATE 0600 /* what root added is for the owner only */

#endif
