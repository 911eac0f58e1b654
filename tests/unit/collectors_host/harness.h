/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one collector with the real runner on a folder that represents the machine. */
#ifndef TEST_COLLECTORS_HOST_HARNESS_H
#define TEST_COLLECTORS_HOST_HARNESS_H

#include <stdbool.h>

#include "collect/runner.h"
#include "temp_folder.h"

struct harness {
    char dir[TEMP_FOLDER_MAX]; /* temporary; stage/, root/ and run/ in it */
    char stage[TEMP_FOLDER_MAX + 16];
    char root[TEMP_FOLDER_MAX + 16];
    char run_dir[TEMP_FOLDER_MAX + 16];
    struct facts *facts;
    struct collect_ctx ctx;
    /* the row */
    int rows;
    enum collect_status status;
    char reason[700];
    uint64_t bytes;
};

int harness_setup(void **state);
int harness_teardown(void **state);

/* Forget facts and files of the stage and run it; sysroot NULL = the real machine. */
void harness_run(struct harness *h, const struct collector *c, const char *sysroot);
/* Write a file below root/ (folders are made). */
void harness_file(struct harness *h, const char *path, const char *text);
void harness_bytes(struct harness *h, const char *path, const void *data, size_t len);
void harness_clear_root(struct harness *h);
/* An impact file with one text chunk in run/. */
void harness_impact(struct harness *h, int index, int pid, int type, const char *text);
/* Text of a staged file, malloc()ed; NULL when there is none. */
char *harness_staged(struct harness *h, const char *name);

int64_t harness_integer(struct harness *h, const char *name);  /* -12345 = no such integer */
const char *harness_text(struct harness *h, const char *name); /* "" = no such text */
/* Status of the best fact of that name, -1 = none. */
int harness_fact_status(struct harness *h, const char *name);

#endif
