/* SPDX-License-Identifier: Apache-2.0 */
/* The folder that a collector wrote: measured, cut to its limit, freed of what is not a file. */
#ifndef COLLECT_FOLDER_H
#define COLLECT_FOLDER_H

#include <stdint.h>

/* Bytes of all regular files below dir_fd, bounded in depth and count. */
uint64_t folder_bytes(int dir_fd);
/* Remove links, FIFOs and the like, and empty folders; truncate files in name order from where
 * the sum passes max_bytes. Returns the bytes that are left; *ret_cut tells that some were cut. */
uint64_t folder_tidy(int dir_fd, uint64_t max_bytes, int *ret_cut);

#endif
