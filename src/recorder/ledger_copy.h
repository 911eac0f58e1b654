/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger (record/ledger.h) -> `ledger` of the run directory, so that it outlives the machine
 * and `recover` can read it. The file is sparse; only changed blocks are written. Runs in the
 * recorder and, if that is gone, in the finisher.
 */
#ifndef RECORDER_LEDGER_COPY_H
#define RECORDER_LEDGER_COPY_H

#include <stdbool.h>

struct ledger;
struct shared;

/* Copy now; 0 or -errno. `fd` is a descriptor of the ledger. */
int ledger_copy(int fd, int dirfd);
/* In the recorder, once a turn: notices ended processes; copies at once after refusals and impacts
 * and when `final`, else what changed every half minute. */
int ledger_copy_turn(struct ledger *ledger, const struct shared *shared, int dirfd, bool final);
/* In the finisher: the same run's ledger through its supervisor, if that is still there. */
int ledger_copy_late(const struct shared *shared, const char *run_dir);

#endif
