/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of run.json. The recorder writes them from the shared memory (recorder/run_json.c). The
 * finisher reads them into members of struct run_info that have the same names (cli/run_info.c).
 */
#ifndef RECORD_RUN_JSON_FIELDS_H
#define RECORD_RUN_JSON_FIELDS_H

/* X(name, member of struct shared): a string. */
#define RUN_JSON_TEXTS(X)                                                                          \
    X(cwd, run.cwd)                                                                                \
    X(output_dir, run.output_dir)                                                                  \
    X(job_variables, run.job_variables)                                                            \
    X(kmsg_error, run.kmsg_error)                                                                  \
    X(follow_error, run.follow_error)                                                              \
    X(stdout_path, run.stdout_path)                                                                \
    X(stdout_error, run.stdout_error)                                                              \
    X(ledger_error, run.ledger_error)                                                              \
    X(snapshot_why, run.snapshot_why)                                                              \
    X(aside_why, aside_why)                                                                        \
    X(aside_bundle, aside_bundle)

/* X(type, name, member of struct shared). Types: big (uint64_t, in JSON a string, because a double
 * cannot hold nanoseconds), number (int), count (unsigned), flag (bool). */
#define RUN_JSON_NUMBERS(X)                                                                        \
    X(big, start_mono_ns, run.start_mono_ns)                                                       \
    X(big, start_wall_ns, run.start_wall_ns)                                                       \
    X(flag, argv_cut, run.argv_cut)                                                                \
    X(big, kmsg_start_seq, run.kmsg_start_seq)                                                     \
    X(big, stdout_inode, run.stdout_inode)                                                         \
    X(big, stdout_start, run.stdout_start)                                                         \
    X(flag, follows_stdout, run.follows_stdout)                                                    \
    X(big, attached_wall_ns, run.attached_wall_ns)                                                 \
    X(big, snapshot_wall_ns, run.snapshot_wall_ns)                                                 \
    X(number, target_state, target_state)                                                          \
    X(number, target_pid, target_pid)                                                              \
    X(number, target_status, target_status)                                                        \
    X(flag, status_unknown, status_unknown)                                                        \
    X(big, target_end_ns, target_end_ns)                                                           \
    X(flag, supervisor_killed, supervisor_killed)                                                  \
    X(flag, ended_with_supervisor, ended_with_supervisor)                                          \
    X(big, still_began_ns, still_began_ns)                                                         \
    X(big, still_asked_ns, still_asked_ns)                                                         \
    X(number, still_signal, still_signal)                                                          \
    X(flag, still_ended, still_ended)                                                              \
    X(count, asides_count, asides_count)                                                           \
    X(number, trace_mode, run.trace_mode)                                                          \
    X(number, trace_state, trace_state)                                                            \
    X(number, trace_errno, trace_errno)                                                            \
    X(count, processes_seen, processes_seen)                                                       \
    X(count, processes_traced, processes_traced)                                                   \
    X(count, processes_released_busy, processes_released_busy)                                     \
    X(count, processes_sanitized, processes_sanitized)                                             \
    X(count, processes_wary, processes_wary)                                                       \
    X(flag, children_late, children_late)                                                          \
    X(count, watchdog_kills, watchdog_kills)                                                       \
    X(count, impacts_dropped, impacts_dropped)                                                     \
    X(number, stderr_kind, run.stderr_kind)                                                        \
    X(count, oom_matches, oom_matches)                                                             \
    X(big, first_match_ns, first_match_ns)                                                         \
    X(big, samples_lost_bytes, progress.samples_lost)                                              \
    X(big, output_lost_bytes, progress.output_lost)

/* The same for fields that people read, and the finisher does not. */
#define RUN_JSON_FOR_PEOPLE(X)                                                                     \
    X(number, supervisor_pid, run.supervisor_pid)                                                  \
    X(number, exec_errno, exec_errno)                                                              \
    X(count, impacts, impacts_used)                                                                \
    X(number, stdout_kind, run.stdout_kind)                                                        \
    X(big, output_bytes, stderr_carried.bytes)                                                     \
    X(count, fault_matches, fault_matches)                                                         \
    X(count, hang_matches, hang_matches)                                                           \
    X(count, error_matches, error_matches)                                                         \
    X(count, plain_matches, plain_matches)

#endif
