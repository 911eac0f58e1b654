/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the ledger (record/ledger.h) to `ledger` in the run directory, so that `recover` can read it
 * after a crash of the machine. The file is sparse; only changed blocks are written. Runs in the recorder
 * and, if that is gone, in the finisher.
 */
#ifndef RECORDER_LEDGER_COPY_H
#define RECORDER_LEDGER_COPY_H

#include <stdbool.h>

struct ledger;
struct shared;

/* Copies the ledger, of which `fd` is a descriptor. 0 or -errno. */
int ledger_copy(int fd, int dirfd);
/* The recorder calls it once a turn. It notices processes that have ended. It copies the ledger at once
 * after a refusal or an impact and when `final`, otherwise every half minute. */
int ledger_copy_turn(struct ledger *ledger, const struct shared *shared, int dirfd, bool final);
/* The finisher calls it: copies the ledger that the run's supervisor, if it still lives, has open. */
int ledger_copy_late(const struct shared *shared, const char *run_dir);

#endif
