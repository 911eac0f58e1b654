/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs another program (journalctl, python) for a collector: argv array, no shell, stdin and stderr
 * are /dev/null, a time limit of its own, bounded output. The program stays in the collector's
 * process group, so that the runner's kill reaches it as well.
 */
#ifndef COLLECT_EXEC_H
#define COLLECT_EXEC_H

#include <stddef.h>
#include <stdint.h>

struct buf;
struct rc_err;

/*
 * Run argv[0] (searched in PATH when it has no slash) until it ends, closes its output, fills `out`
 * up to its max, or deadline_mono_ns passes; then kill it. Returns its exit status 0 to 255,
 * COLLECT_EXEC_SIGNAL + the signal that killed it, or -ETIMEDOUT, -EFBIG (out holds the beginning),
 * -ENOENT and the like with *err.
 */
#define COLLECT_EXEC_SIGNAL 256
int collect_exec(const char *const *argv, uint64_t deadline_mono_ns, struct buf *out,
                 struct rc_err *err);

#endif
