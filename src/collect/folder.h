/* SPDX-License-Identifier: Apache-2.0 */
/* The folder that a collector wrote: measures it, cuts it to its limit, removes everything but
 * regular files. */
#ifndef COLLECT_FOLDER_H
#define COLLECT_FOLDER_H

#include <stdint.h>

/* Bytes of all regular files below dir_fd, bounded in depth and count. */
uint64_t folder_bytes(int dir_fd);
/* Remove links, FIFOs and the like, and empty folders. Truncate the files, in name order, from
 * where their sum passes max_bytes. Returns the bytes that are left; *ret_cut = some were cut. */
uint64_t folder_tidy(int dir_fd, uint64_t max_bytes, int *ret_cut);

#endif
