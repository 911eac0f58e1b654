/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a GGUF file (llama.cpp, Ollama, LM Studio ...), versions 1 to 3, either byte order.
 */
#ifndef COLLECTORS_LIB_GGUF_H
#define COLLECTORS_LIB_GGUF_H

struct byte_reader;
struct weights;

/* Reads from the magic on. Fills w (format, version, architecture, types ...). A header that ends
 * early or is wrong leaves the values read so far and w->problem. Needs a few KiB of memory for any
 * header. */
void gguf_read(struct byte_reader *r, struct weights *w);

#endif
