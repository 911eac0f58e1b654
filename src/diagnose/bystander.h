/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel log tells of all processes of a machine. If its record names a process that the rest of the text does not
 * know, and the program of this text ended by an error of its own, the record is of a bystander. Pure.
 */
#ifndef DIAGNOSE_BYSTANDER_H
#define DIAGNOSE_BYSTANDER_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/text.h"

struct facts;

/* Marks such facts from index `from` on with FACT_MARK_BYSTANDER; true: there are some. `is_python`: the error is an exception of
 * Python. */
bool bystander_doubt(struct facts *facts, size_t from, struct text all, bool is_python);

/* Somebody starts a program in a shell: "$ python train.py", "me@host:~$ make". */
/* A record of the kernel with its time or host. */
bool bystander_is_stamped(struct text line);
/* A line of the kernel, by these or its words. */
bool bystander_is_kernel(struct text line);

bool bystander_is_command(struct text line);

#endif
