/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a .safetensors file: a length of 8 bytes, then JSON with one member per tensor.
 */
#ifndef COLLECTORS_LIB_SAFETENSORS_H
#define COLLECTORS_LIB_SAFETENSORS_H

struct byte_reader;
struct weights;

/* Streams the JSON (up to 100 MB by the format's own limit) without building a tree: memory is
 * constant. An error goes to w->problem; values read before it stay. */
void safetensors_read(struct byte_reader *r, struct weights *w);

#endif
