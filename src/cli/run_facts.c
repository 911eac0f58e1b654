/* SPDX-License-Identifier: Apache-2.0 */
/* Facts from the records of the tracer and the supervisor. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/names.h"
#include "cli/run_info.h"
#include "cli/stack_full.h"
#include "cli/workers.h"
#include "diagnose/fact.h"
#include "launch/tracer.h"
#include "watch/stream.h"

static void add_part(char *text, size_t size, const char *part, uint32_t count)
{
    size_t len = strlen(text);
    if (count > 0)
        (void)snprintf(text + len, size - len, "%s%s (%u)", len > 0 ? ", " : "", part, count);
}

/* True if a working tracer missed something; `text` gets the list. */
static bool lost_in_part(const struct run_info *info, char *text, size_t size)
{
    text[0] = '\0';
    add_part(text, size, "busy processes were let go", info->processes_released_busy);
    add_part(text, size, "failures found no room", info->impacts_dropped);
    add_part(text, size, "programs with a sanitizer were left alone", info->processes_sanitized);
    add_part(text, size, "programs that look for a tracer or call ptrace(2) were left alone", info->processes_wary);
    add_part(text, size, "the tracer did not answer and was ended", info->watchdog_kills);
    if (info->children_late)
        (void)snprintf(text + strlen(text), size - strlen(text),
                       "%schildren that ended within a second were not traced", text[0] != '\0' ? ", " : "");
    return text[0] != '\0';
}

static void trace_facts(const struct run_info *info, struct facts *facts)
{
    static const char source[] = "the tracer";
    char text[256];
    bool traced = info->trace_state == TRACE_STATE_TRACING && info->watchdog_kills == 0;
    (void)facts_set_boolean(facts, "run.traced", FACT_STATIC, traced, source);
    switch (info->trace_state) {
    case TRACE_STATE_OFF:
        (void)snprintf(text, sizeof text, "switched off, or traced by another already");
        break;
    case TRACE_STATE_REFUSED:
        (void)snprintf(text, sizeof text, "the kernel refused ptrace: %s",
                       strerror(info->trace_errno));
        break;
    case TRACE_STATE_SLOW:
        (void)snprintf(text, sizeof text,
                       "the machine was too busy to copy it while it was held; it was read without that");
        break;
    case TRACE_STATE_SETUID:
        (void)snprintf(text, sizeof text, "the program gains privilege when it starts");
        break;
    case TRACE_STATE_LATE:
        (void)snprintf(text, sizeof text,
                       "a shell, a launcher, or a program that our library cannot guard (static, Go): without privilege it is "
                       "not observed as long as it is one");
        break;
    case TRACE_STATE_LOST:
        (void)snprintf(text, sizeof text, "the tracer ended during the run");
        break;
    default:
        if (!lost_in_part(info, text, sizeof text))
            return;
    }
    (void)facts_set_text(facts, "run.trace_lost", FACT_STATIC, text, source);
}

static void status_facts(const struct run_info *info, struct facts *facts)
{
    static const char source[] = "wait status of the program";
    if (info->snapshot_wall_ns != 0)
        return; /* it has not ended */
    if (info->target_state != 2) {
        (void)facts_set_missing(facts, "target.exit_code", FACT_IMPACT, FACT_UNREADABLE,
                                "the end of the program was not seen", source);
        return;
    }
    if (info->status_unknown) {
        (void)facts_set_missing(facts, "target.exit_code", FACT_IMPACT, FACT_UNREADABLE,
                                "rocmcrash did not start it, and could not trace it", source);
        return;
    }
    int status = info->target_status;
    if (WIFSIGNALED(status)) {
        (void)facts_set_integer(facts, "target.signal", FACT_IMPACT, WTERMSIG(status), source);
        (void)facts_set_text(facts, "target.signal_name", FACT_IMPACT,
                             name_of_signal(WTERMSIG(status)) ? name_of_signal(WTERMSIG(status)) : "RT",
                             source);
        (void)facts_set_boolean(facts, "target.core_dumped", FACT_IMPACT, WCOREDUMP(status),
                                source);
    } else {
        (void)facts_set_integer(facts, "target.exit_code", FACT_IMPACT, WEXITSTATUS(status),
                                source);
    }
}

#define NULL_PAGE 4096u /* an index or a member of a null pointer */

static void fault_words(struct facts *facts, const struct impact_record *record, const char *address, const char *source)
{
    const struct shared_impact *impact = &record->header;
    char words[64];
    bool is_full = stack_is_full(record);
    const char *kind = is_full ? ", a stack overflow" : impact->signo != SIGSEGV || impact->fault_address >= NULL_PAGE ? ""
                       : impact->fault_address == 0                                   ? ", a null pointer"
                                                                                      : ", near a null pointer";
    (void)snprintf(words, sizeof words, "%s%s", address, kind);
    if (is_full)
        (void)facts_set_boolean(facts, "target.stack_full", FACT_IMPACT, true, "stack pointer, memory map and limit at the failure");
    (void)facts_set_text(facts, "target.fault_says", FACT_IMPACT, words, source);
}

static void failed_process_facts(const struct run_info *info, const struct impact_record *record,
                                 struct facts *facts)
{
    const struct shared_impact *impact = &record->header;
    static const char source[] = "the tracer, at the failure";
    char address[32];
    (void)facts_set_integer(facts, "target.failed_pid", FACT_IMPACT, impact->pid, source);
    (void)facts_set_integer(facts, "target.failed_tid", FACT_IMPACT, impact->tid, source);
    if (impact->comm[0] != '\0')
        (void)facts_set_text(facts, "target.failed_comm", FACT_IMPACT, impact->comm, source);
    else
        (void)facts_set_missing(facts, "target.failed_comm", FACT_IMPACT, FACT_UNREADABLE,
                                "the process has no name, or /proc does not show it", source);
    (void)facts_set_integer(facts, "target.failed_uptime_us", FACT_IMPACT,
                            (int64_t)(impact->time_ns / 1000), "the tracer, CLOCK_MONOTONIC");
    (void)facts_set_boolean(facts, "target.failed_is_child", FACT_IMPACT,
                            impact->pid != info->target_pid, source);
    (void)facts_set_integer(facts, "target.held_us", FACT_IMPACT, (int64_t)(impact->held_ns / 1000),
                            source);
    if (impact->signo == 0) {
        if (impact->exit_status != UINT32_MAX)
            (void)facts_set_integer(facts, "target.failed_exit_code", FACT_IMPACT,
                                    WEXITSTATUS((int)impact->exit_status), source);
        return;
    }
    const char *name = name_of_signal(impact->signo);
    (void)facts_set_integer(facts, "target.failed_signal", FACT_IMPACT, impact->signo, source);
    (void)facts_set_text(facts, "target.failed_signal_name", FACT_IMPACT, name ? name : "RT",
                         source);
    (void)facts_set_integer(facts, "target.si_code", FACT_IMPACT, impact->code, source);
    if (impact->sender_pid > 0)
        (void)facts_set_integer(facts, "target.signal_sender_pid", FACT_IMPACT, impact->sender_pid,
                                source);
    /* SI_KERNEL: the processor gives no address then, and the kernel says 0 */
    bool has_address = impact->kind == IMPACT_SIGNAL_STOP && impact->code > 0 && impact->code != SI_KERNEL &&
                       (impact->signo == SIGSEGV || impact->signo == SIGBUS ||
                        impact->signo == SIGILL || impact->signo == SIGFPE);
    if (has_address) {
        (void)snprintf(address, sizeof address, "0x%" PRIx64, impact->fault_address);
        (void)facts_set_text(facts, "target.fault_address", FACT_IMPACT, address, source);
        fault_words(facts, record, address, source);
    }
}

static const char *moment_of(const struct impact_record *impact)
{
    return impact->header.kind == IMPACT_SNAPSHOT ? "snapshot" : "failure";
}

/* "VmRSS:\t  123456 kB" of the copied status. */
static void status_line_fact(struct facts *facts, const char *status, const char *key,
                             const char *name, int64_t unit, const char *moment)
{
    char needle[32];
    char source[64];
    (void)snprintf(needle, sizeof needle, "\n%s:", key);
    (void)snprintf(source, sizeof source, "/proc/PID/status %s at the %s", key, moment);
    const char *line = strstr(status, needle);
    if (line == NULL) {
        (void)facts_set_missing(facts, name, FACT_IMPACT, FACT_ABSENT, "no such line", source);
        return;
    }
    (void)facts_set_integer(facts, name, FACT_IMPACT,
                            strtoll(line + strlen(needle), NULL, 10) * unit, source);
}

static void count_fact(struct facts *facts, const struct impact_record *impact,
                       enum impact_chunk_type type, const char *name, const char *source)
{
    int64_t count = impact_record_lines(impact, type);
    if (count >= 0)
        (void)facts_set_integer(facts, name, FACT_IMPACT, count, source);
    else if (count == -ERANGE)
        (void)facts_set_missing(facts, name, FACT_IMPACT, FACT_UNREADABLE,
                                "more than could be counted while the program was held", source);
}

static void fd_facts(struct facts *facts, const struct impact_record *impact)
{
    char source[64];
    (void)snprintf(source, sizeof source, "/proc/PID/fd at the %s", moment_of(impact));
    static const char uses_gpu[] = "proc.0.uses_gpu";
    RC_AUTO_FREE char *fds = impact_record_text(impact, CHUNK_FDS);
    if (fds == NULL)
        return;
    count_fact(facts, impact, CHUNK_FDS, "proc.0.fds_count", source);
    bool found = impact_fds_have_gpu(fds);
    if (found || !impact_record_is_cut(impact, CHUNK_FDS))
        (void)facts_set_boolean(facts, uses_gpu, FACT_IMPACT, found, source);
    else
        (void)facts_set_missing(facts, uses_gpu, FACT_IMPACT, FACT_UNREADABLE,
                                "not among those that were looked at", source);
}

static void limit_fact(struct facts *facts, const char *limits, const char *moment)
{
    char source[64];
    /* "Max open files            1024                 1048576              files" */
    static const char key[] = "Max open files";
    const char *line = strstr(limits, key);
    if (line == NULL)
        return;
    line += strlen(key);
    line += strspn(line, " ");
    (void)snprintf(source, sizeof source, "/proc/PID/limits at the %s", moment);
    if (strncmp(line, "unlimited", 9) != 0)
        (void)facts_set_integer(facts, "proc.0.fds_limit", FACT_IMPACT, strtoll(line, NULL, 10),
                                source);
}

static void process_facts(const struct impact_record *impact, struct facts *facts)
{
    static const struct {
        const char *key, *name;
        int64_t unit;
    } lines[] = {
        {"VmRSS", "proc.0.rss_bytes", 1024},          {"VmHWM", "proc.0.rss_peak_bytes", 1024},
        {"RssShmem", "proc.0.rss_shmem_bytes", 1024}, {"VmSwap", "proc.0.swap_bytes", 1024},
        {"VmPin", "proc.0.pinned_bytes", 1024},       {"VmLck", "proc.0.locked_bytes", 1024},
        {"VmPeak", "proc.0.address_space_peak_bytes", 1024},
        {"VmData", "proc.0.data_bytes", 1024},
        {"Threads", "proc.0.threads_count", 1},
    };
    RC_AUTO_FREE char *status = impact_record_text(impact, CHUNK_STATUS);
    for (size_t i = 0; status != NULL && i < sizeof lines / sizeof lines[0]; i++)
        status_line_fact(facts, status, lines[i].key, lines[i].name, lines[i].unit,
                         moment_of(impact));
    fd_facts(facts, impact);
    char source[64];
    (void)snprintf(source, sizeof source, "/proc/PID/maps at the %s", moment_of(impact));
    count_fact(facts, impact, CHUNK_MAPS, "proc.0.maps_count", source);
    RC_AUTO_FREE char *limits = impact_record_text(impact, CHUNK_LIMITS);
    if (limits != NULL)
        limit_fact(facts, limits, moment_of(impact));
}

/* Tells `complete` whether the kernel's log is still that of the run. "btime 1795000000" is wall
 * time less uptime and may move by a second. */
void run_boot_time_fact(struct facts *facts)
{
    RC_AUTO_FREE char *stat = NULL;
    ssize_t len = fs_read_all("/proc/stat", 1u << 20, &stat);
    const char *line = len > 0 ? strstr(stat, "\nbtime ") : NULL;
    if (line != NULL)
        (void)facts_set_integer(facts, "run.boot_time_s", FACT_STATIC, strtoll(line + 7, NULL, 10),
                                "/proc/stat btime");
    else
        (void)facts_set_missing(facts, "run.boot_time_s", FACT_STATIC, FACT_UNREADABLE,
                                len < 0 ? strerror((int)-len) : "no such line", "/proc/stat btime");
}

static void restart_facts(const struct run_info *info, struct facts *facts)
{
    (void)facts_set_boolean(facts, "run.machine_restarted", FACT_STATIC, true, "boot_id");
    (void)facts_set_integer(facts, "run.boot_time_s", FACT_STATIC, info->boot_time_s,
                            "CLOCK_BOOTTIME");
}

static void snapshot_facts(const struct run_info *info, struct facts *facts)
{
    static const char source[] = "the snapshot";
    (void)facts_set_boolean(facts, "run.snapshot", FACT_STATIC, true, source);
    (void)facts_set_text(facts, "snap.life", FACT_IMPACT, "The process is alive", source);
    (void)facts_set_text(facts, "run.snapshot_why", FACT_STATIC, info->snapshot_why, source);
    (void)facts_set_integer(facts, "run.snapshot_age_ms", FACT_STATIC,
                            (int64_t)((info->snapshot_wall_ns - info->start_wall_ns) / NS_PER_MS),
                            "start time of the process");
    uint64_t held_ns = 0;
    for (size_t i = 0; i < info->impact_count; i++)
        if (info->impacts[i].header.held_ns > held_ns)
            held_ns = info->impacts[i].header.held_ns;
    (void)facts_set_integer(facts, "run.snapshot_held_us", FACT_STATIC, (int64_t)(held_ns / 1000),
                            source);
}

#define BOOT_CHARACTERS 13 /* "4f2a91c0-77b3": enough to tell nodes apart */

/* Facts that order the failures of several ranks in time: CLOCK_MONOTONIC if they ran on one boot of one
 * machine, else the machines' wall clocks. */
static void clock_facts(const struct run_info *info, struct facts *facts)
{
    char boot[BOOT_CHARACTERS + 1];
    (void)snprintf(boot, sizeof boot, "%.*s", BOOT_CHARACTERS, info->boot_id);
    if (boot[0] != '\0')
        (void)facts_set_text(facts, "run.boot", FACT_STATIC, boot, "boot_id");
    if (info->start_wall_ns > 0 && info->start_mono_ns > 0)
        (void)facts_set_integer(facts, "run.wall_offset_us", FACT_STATIC,
                                (int64_t)(info->start_wall_ns / 1000) - (int64_t)(info->start_mono_ns / 1000),
                                "CLOCK_REALTIME less CLOCK_MONOTONIC");
    if (info->target_end_ns > 0)
        (void)facts_set_integer(facts, "run.end_uptime_us", FACT_STATIC,
                                (int64_t)(info->target_end_ns / 1000), "CLOCK_MONOTONIC");
}

/* "The program stood still for at least 75 s until SIGINT came" */
static void still_facts(const struct run_info *info, struct facts *facts)
{
    static const char source[] = "/proc/PID of its processes: no output, CPU time or I/O";
    char text[120];
    char name[24] = "a signal";
    uint64_t still_ms = (info->still_asked_ns - info->still_began_ns) / NS_PER_MS;
    if (name_of_signal(info->still_signal) != NULL)
        (void)snprintf(name, sizeof name, "SIG%s", name_of_signal(info->still_signal));
    (void)facts_set_integer(facts, "run.still_ms", FACT_IMPACT, (int64_t)still_ms, source);
    (void)facts_set_text(facts, "run.still_signal", FACT_IMPACT, name, "the supervisor or the tracer");
    (void)snprintf(text, sizeof text, "The program stood still for at least %llu s until %s%s",
                   (unsigned long long)(still_ms / 1000),
                   info->still_ended ? "rocmcrash ended it (--on-hang=kill)" : name,
                   info->still_ended ? "" : " came");
    if (run_info_ended_still(info))
        (void)facts_set_text(facts, "snap.life", FACT_IMPACT, text, source);
}

/* The bundles that we made while it ran: a reader of this one should know of them. */
static void aside_facts(const struct run_info *info, struct facts *facts)
{
    static const char source[] = "the supervisor";
    if (info->asides_count == 0)
        return;
    (void)facts_set_integer(facts, "run.live_bundles_count", FACT_STATIC, info->asides_count, source);
    (void)facts_set_text(facts, "run.live_bundle_why", FACT_STATIC, info->aside_why, source);
    if (info->aside_bundle[0] != '\0')
        (void)facts_set_text(facts, "run.live_bundle", FACT_STATIC, info->aside_bundle, source);
}

void run_info_to_facts(const struct run_info *info, struct facts *facts)
{
    clock_facts(info, facts);
    aside_facts(info, facts);
    (void)facts_set_text(facts, "run.program", FACT_STATIC, run_info_program(info), "command line");
    if (info->target_end_ns > info->start_mono_ns)
        (void)facts_set_integer(facts, "run.duration_ms", FACT_STATIC,
                                (int64_t)((info->target_end_ns - info->start_mono_ns) / 1000000u),
                                "CLOCK_MONOTONIC");
    if (info->start_mono_ns > 0)
        (void)facts_set_integer(facts, "run.start_uptime_ms", FACT_STATIC,
                                (int64_t)(info->start_mono_ns / 1000000u), "CLOCK_MONOTONIC");
    if (info->start_wall_ns > 0)
        (void)facts_set_integer(facts, "run.start_time_s", FACT_STATIC,
                                (int64_t)(info->start_wall_ns / 1000000000u), "CLOCK_REALTIME");
    if (info->attached_wall_ns > info->start_wall_ns)
        (void)facts_set_integer(facts, "run.attached_after_ms", FACT_STATIC,
                                (int64_t)((info->attached_wall_ns - info->start_wall_ns) / NS_PER_MS),
                                "start time of the process");
    if (info->restarted)
        restart_facts(info, facts);
    else
        run_boot_time_fact(facts);
    if (info->supervisor_killed)
        (void)facts_set_boolean(facts, "run.supervisor_killed", FACT_STATIC, true, "the recorder");
    if (info->ended_with_supervisor)
        (void)facts_set_boolean(facts, "run.ended_with_supervisor", FACT_STATIC, true, "the tracer");
    if (info->stderr_kind == STREAM_FILE) /* other programs may write to it, too */
        (void)facts_set_boolean(facts, "run.output_is_file", FACT_STATIC, true, "stderr of the program");
    if (info->follow_error[0] != '\0')
        (void)facts_set_missing(facts, "run.output", FACT_LOG, FACT_UNREADABLE, info->follow_error,
                                "stderr of the program");
    if (info->damage[0] == '\0')
        trace_facts(info, facts);
    else
        (void)facts_set_missing(facts, "run.traced", FACT_STATIC, FACT_UNREADABLE, info->damage,
                                "the tracer");
    status_facts(info, facts);
    if (info->snapshot_wall_ns != 0) {
        snapshot_facts(info, facts);
        if (info->failed >= 0)
            process_facts(&info->impacts[info->failed], facts);
        return;
    }
    if (info->still_asked_ns > info->still_began_ns)
        still_facts(info, facts);
    if (info->failed >= 0 && info->impacts[info->failed].header.kind == IMPACT_SNAPSHOT) {
        process_facts(&info->impacts[info->failed], facts);
    } else if (info->failed >= 0) {
        failed_process_facts(info, &info->impacts[info->failed], facts);
        workers_to_facts(info, facts);
        process_facts(&info->impacts[info->failed], facts);
    } else {
        (void)facts_set_missing(facts, "target.failed_pid", FACT_IMPACT, FACT_ABSENT,
                                "no failing process was held", "the tracer");
    }
}
