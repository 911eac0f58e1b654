/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in the target, between vfork and exec too: writes only to the stack. */
#ifndef INJECT_PRIVILEGE_H
#define INJECT_PRIVILEGE_H

#include <stdbool.h>

/* Before an exec of `program`: if it gains privilege (set-user-id, set-group-id, capabilities), this thread is no longer
 * traced by a tracer of ours afterwards. `is_known`: it does; else (it cannot be read) its inode is asked. */
void privilege_before_exec(const char *program, bool is_known);

#endif
