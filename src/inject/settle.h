/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes end without notice: by SIGKILL, or by an exec that we did not see. These functions
 * subtract their memory from the sums of the GPUs. The accounts and live entries of the process
 * stay as evidence. Runs in the target and in the recorder. No libc.
 */
#ifndef INJECT_SETTLE_H
#define INJECT_SETTLE_H

#include "record/ledger.h"

/* Look for processes that are gone. */
void ledger_settle(struct ledger *ledger, uint64_t now_ns);
/* The process is gone, or became another program. No effect the second time. */
void ledger_end_process(struct ledger *ledger, uint32_t process, enum ledger_process_state how,
                        uint64_t now_ns);
/* Its exec failed after all. */
void ledger_revive_process(struct ledger *ledger, uint32_t process);
/* Field 22 of /proc/PID/stat; 0 = there is no such process, or all of its threads have ended. */
uint64_t ledger_start_ticks(int32_t pid);
/* Inode of a process' PID namespace, ours for 0; 0 = not known. */
uint64_t ledger_pid_namespace(void);

#endif
