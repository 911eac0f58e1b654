/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a Python pickle (protocol 2): dict, list, str, int, float, bool, None. Nothing else, so that
 * reading it runs nothing. */
#ifndef CLI_PICKLE_H
#define CLI_PICKLE_H

struct buf;
struct cJSON;

void pickle_write(const struct cJSON *json, struct buf *out);

#endif
