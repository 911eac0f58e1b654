/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process M: samples GPUs, the processes of the target's tree and the host into shared->samples.
 *
 * Forked by the supervisor in a session of its own. Files are opened once and kept open; nothing is
 * allocated while it works; it never opens /dev/kfd or /dev/dri and reads no file whose read has
 * side effects.
 *
 * A read may never return (GPU files hang in a reset). Before each one M publishes the number of
 * the file (sampler_current_file) and the time (helpers[HELPER_SAMPLER].work_pending_ns). When that
 * time is too long ago, the supervisor SIGKILLs M, does not wait for it (D state) and forks a new
 * one. The new one gives that file up (VALUE_STALLED) and continues with the others.
 */
#ifndef TELEMETRY_SAMPLER_H
#define TELEMETRY_SAMPLER_H

struct shared;

/* M gives up a file if its predecessor was killed in a read of it that had lasted this long. */
#define SAMPLER_HUNG_MS 200

/*
 * Main of M. Writes a BASELINE record first thing, answers shared->impact_request (IMPACT record,
 * then impact_answer and a futex wake), writes the AFTER record one second after the target's end
 * and leaves with _exit(0); also leaves when supervisor_done is set.
 */
_Noreturn void sampler_run(struct shared *shared);

#endif
