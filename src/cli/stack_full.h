/* SPDX-License-Identifier: Apache-2.0 */
/* Did the thread that crashed run out of stack? By its registers, the memory map and the limit that were copied. */
#ifndef CLI_STACK_FULL_H
#define CLI_STACK_FULL_H

#include <stdbool.h>

#include "record/impact_record.h"

/* The fault lies just below the main thread's stack, which has reached its limit, or in the guard page below another
 * thread's stack; and the stack pointer is there, too. */
bool stack_is_full(const struct impact_record *impact);

#endif
