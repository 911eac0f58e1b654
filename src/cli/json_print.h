/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where a verb's JSON gets to stdout (--json). */
#ifndef CLI_JSON_PRINT_H
#define CLI_JSON_PRINT_H

struct cJSON;

enum json_form {
    JSON_LINE,  /* one line: several make JSON Lines */
    JSON_PAGES, /* indented */
};

/* Prints the document, safe for a terminal, flushes, and deletes it. 0, or -EIO also where `json` is NULL. */
int json_print(struct cJSON *json, enum json_form form);

#endif
