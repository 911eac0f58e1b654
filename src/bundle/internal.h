/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of bundle/. Writing: stage (what is there) -> cut (what must go) -> archive
 * (bytes out) -> place (where to). Reading: gunzip (CRC, caps) -> tar_gate (strict structure) ->
 * archive_read (libarchive, names) -> verify, unpack, rewrite.
 */
#ifndef BUNDLE_INTERNAL_H
#define BUNDLE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bundle/bundle.h"

struct archive;
struct SHA256state_st; /* OpenSSL's SHA256_CTX */

#define BUNDLE_MAX_FILES 5000u
#define BUNDLE_MAX_TOTAL ((uint64_t)512 << 20)   /* uncompressed, reading */
#define BUNDLE_STAGE_TOTAL ((uint64_t)256 << 20) /* uncompressed, writing: well below the above */
#define BUNDLE_MAX_MANIFEST ((size_t)2 << 20)
#define BUNDLE_NAME_MAX 255u
#define BUNDLE_TOP_MAX 200u
#define SHA256_HEX 65

#define MANIFEST_NAME "manifest.json"

/* A relative name we write and accept: printable ASCII without '\' and ':', no empty part, none that begins with '.' or
 * '-' or ends with a blank or '.'. */
bool entry_name_ok(const char *name);
/* A top folder (and file stem) we write and accept. */
bool top_name_ok(const char *name);

/* --- stage.c --- */

enum stage_plan {
    PLAN_KEEP,
    PLAN_SHORTEN, /* text: beginning and end, a marker line between */
    PLAN_THIN,    /* table: every Nth line */
    PLAN_DROP,
};

struct stage_file {
    char *path;     /* below the stage, '/' separated */
    uint64_t bytes; /* size when listed */
    int64_t mtime;
    int rank; /* low = cut first (cut.c) */
    bool text;
    enum stage_plan plan;
    uint64_t keep;     /* PLAN_SHORTEN, PLAN_THIN: about this many bytes */
    const char *why;   /* of DROP, SHORTEN, THIN: static text */
    uint64_t packed;   /* compressed bytes of the last pass, about */
    uint64_t archived; /* bytes in the archive after the last pass */
    uint64_t lost;     /* bytes left out in the last pass */
    char sha256[SHA256_HEX];
};

struct stage {
    int fd;
    struct stage_file *files; /* sorted by path; without manifest.json */
    size_t count, capacity;
    uint64_t total_bytes;
    uint64_t unlisted; /* files beyond BUNDLE_MAX_FILES */
};

int stage_open(struct stage *stage, const char *dir, struct rc_err *err);
void stage_release(struct stage *stage);
/* Open for reading, regular files only, never through a link in the last part. */
int stage_open_file(const struct stage *stage, const char *path);
bool stage_open_may_pass(int code); /* is that -errno only a passing lack of our process? */
/* SHA-256 of a file as it is now; *ret_bytes its length. */
int stage_hash_file(const struct stage *stage, const char *path, char hex[SHA256_HEX],
                    uint64_t *ret_bytes, struct rc_err *err);
/* The end of a digest, in hexadecimal digits. */
void sha256_to_hex(struct SHA256state_st *sha, char hex[SHA256_HEX]);

/* --- manifest.c --- */

/* The document of the archive: `base` (text of the stage's manifest.json, may be NULL) with "name",
 * "files" and "cut" as the last pass left them. */
int manifest_for_archive(const char *base, const struct stage *stage, const char *name,
                         struct buf *out, struct rc_err *err);

/* A new name for the top folder, NULL = none was given. */
const char *manifest_top(const struct manifest *manifest);
int manifest_set_name(struct manifest *manifest, const char *name);

/* --- cut.c --- */

int cut_rank(const char *path);
/* Plans further cuts of about `excess` compressed bytes, from the sizes that the last pass
 * measured. -EFBIG if nothing is left to cut. */
int cut_plan(struct stage *stage, uint64_t excess);
/* The shortened content of a file whose plan is SHORTEN or THIN. 0 or -errno. */
int cut_content(const struct stage *stage, const struct stage_file *file, struct buf *out,
                uint64_t *ret_lost);

/* --- archive_write.c --- */

/* Writes the archive to fd, never more than BUNDLE_MAX_BYTES: cuts and starts again if needed.
 * *ret_output_failed is true if the output failed, not the stage. */
int archive_stage(struct stage *stage, const char *base_manifest, const char *name, int fd,
                  bool *ret_output_failed, struct rc_err *err);

/* --- place.c --- */

/* Put the archive of the stage as `<name>.tar.gz` into the directory dir_fd. */
struct place_result {
    char name[BUNDLE_TOP_MAX + 32]; /* file name given */
    bool output_failed;             /* worth trying another folder */
};
int place_in(int dir_fd, struct stage *stage, const char *base_manifest, const char *name,
             struct place_result *result, struct rc_err *err);
/* Folders to try, in this order; NULL or "" = none. Others write to tmp, too, so the bundle goes
 * into a folder of our own there. */
struct place_folders {
    const char *output, *state, *tmp;
};
/* Like bundle_write(), with the given fallback folders. */
int place_with_fallbacks(const char *stage_dir, const char *name,
                         const struct place_folders *folders, char *ret_path, size_t ret_size,
                         bool *ret_elsewhere, struct rc_err *err);

/* --- gunzip.c: a file descriptor as a checked stream --- */

struct gunzip;

int gunzip_open(struct gunzip **ret, int fd, struct rc_err *err);
void gunzip_close(struct gunzip *);
/* Next piece of the tar; 0 = the end, and CRC and length were right; -EBADMSG with *err. The piece
 * is valid until the next call. */
ssize_t gunzip_next(struct gunzip *, const void **ret_data, struct rc_err *err);

/* --- tar_gate.c --- */

/* Strict structure of the tar stream, checked ahead of libarchive, so that only plain files and
 * folders with octal sizes and small known pax records ever reach it. */
struct tar_gate {
    unsigned char block[512];
    char pax[16 * 1024];
    size_t fill;          /* of block */
    uint64_t data_left;   /* of the entry, without padding */
    uint64_t skip;        /* data and padding still to pass */
    size_t pax_fill;      /* of pax */
    bool in_pax;          /* the data is a pax record list */
    bool pax_before;      /* a pax header must be followed by an entry */
    unsigned zero_blocks; /* 2 = end of archive */
    uint64_t after_end;   /* zero padding after it */
};

int tar_gate_feed(struct tar_gate *, const void *data, size_t len, struct rc_err *err);
/* At the end of the stream: was the archive complete? */
int tar_gate_finish(const struct tar_gate *, struct rc_err *err);

/* --- archive_read.c --- */

struct reader;

struct reader_entry {
    const char *name; /* below the top folder */
    uint64_t bytes;
    int64_t mtime;
};

int reader_open(struct reader **ret, int fd, struct rc_err *err);
void reader_close(struct reader *);
/* 1 = *ret is the next regular file, 0 = end (everything checked), or -EBADMSG, -ENOMEM ... */
int reader_next(struct reader *, struct reader_entry *ret, struct rc_err *err);
/* Data of the entry: bytes, 0 at its end, -errno. */
ssize_t reader_data(struct reader *, void *data, size_t size, struct rc_err *err);
const char *reader_top(const struct reader *);
/* Writes a name from a hostile archive to `out` in a form that an error message may show. Returns
 * `out`. */
const char *printable_name(char *out, size_t size, const char *name);
/* Returns -EBADMSG, with "entry 'NAME' WHAT" in *err. */
int entry_refuse(const char *name, const char *what, struct rc_err *err);

/* --- on descriptors, so that a path is looked up once --- */

int bundle_open(const char *path, struct rc_err *err);
int bundle_verify_fd(int fd, struct rc_err *err);
int bundle_unpack_fd(int fd, int dir_fd, struct rc_err *err);

#endif
