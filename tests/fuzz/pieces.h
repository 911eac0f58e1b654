/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder in memory whose files are filled from a fuzzer's input, for code that opens files by
 * name. Pieces are parted by a byte of 0xff; 0xfe and an even byte is 0xff, with an odd one 0xfe.
 */
#ifndef FUZZ_PIECES_H
#define FUZZ_PIECES_H

#include <stddef.h>
#include <stdint.h>

/* The folder, made at the first call and removed at the program's end. */
const char *pieces_folder(void);
/* (Over)write the files of these names below it. A piece that is not there leaves no file. */
void pieces_fill(const char *const *names, size_t count, const uint8_t *data, size_t size);
/* The next piece up to its first NUL, malloc()ed; moves on behind it. */
char *pieces_next(const uint8_t **data, size_t *size);

#endif
