/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/room.h"
#include "record/job_variables.h"
#include "telemetry/nvml.h"
#include "telemetry/sampler_internal.h"

#define FAST_NS (100 * NS_PER_MS)       /* device counters while they change */
#define CALM_NS (1 * SECOND)     /* no change for 3 s */
#define IDLE_NS (2 * SECOND)     /* no change for 60 s */
#define TOGETHER_NS (200 * NS_PER_MS)   /* the longest delay of work that waits for the next
                                         * wake-up of other work */
#define WAIT_MAX_NS (500 * NS_PER_MS)   /* notices the target's end */
#define AFTER_NS (1 * SECOND)    /* memory that is still held then is stranded */
#define FULL_NS (60 * SECOND)

/* --- reads that may not return --- */

bool sampler_is_bad(const struct sampler *s, uint32_t file)
{
    return file != 0 && file < 4096 &&
           (atomic_load_explicit(&s->shared->sampler_bad_files[file / 64], memory_order_relaxed) >>
                (file % 64) & 1) != 0;
}

void sampler_enter(struct sampler *s, uint32_t file)
{
    struct shared_helper *me = &s->shared->helpers[HELPER_SAMPLER];
    atomic_store_explicit(&s->shared->sampler_current_file, file, memory_order_relaxed);
    atomic_store_explicit(&me->work_pending_ns, clock_mono_ns(), memory_order_release);
}

void sampler_leave(struct sampler *s)
{
    struct shared_helper *me = &s->shared->helpers[HELPER_SAMPLER];
    atomic_store_explicit(&me->work_pending_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&s->shared->sampler_current_file, 0, memory_order_release);
}

ssize_t sampler_read(struct sampler *s, uint32_t file, int fd, char *out, size_t size)
{
    out[0] = '\0';
    if (sampler_is_bad(s, file))
        return SAMPLER_GAVE_UP;
    sampler_enter(s, file);
    ssize_t len;
    do
        len = pread(fd, out, size - 1, 0);
    while (len < 0 && errno == EINTR);
    int saved = errno;
    sampler_leave(s);
    out[len < 0 ? 0 : len] = '\0';
    return len < 0 ? -saved : (ssize_t)strnlen(out, (size_t)len);
}

int sampler_open(struct sampler *s, uint32_t file, const char *path, int flags)
{
    if (sampler_is_bad(s, file))
        return SAMPLER_GAVE_UP;
    sampler_enter(s, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    int saved = errno;
    sampler_leave(s);
    return fd < 0 ? -saved : fd;
}

enum value_status sampler_status_of(int error)
{
    switch (error) {
    case -ENOENT:
    case -ENOTDIR:
        return VALUE_ABSENT;
    case SAMPLER_GAVE_UP:
        return VALUE_STALLED;
    default:
        /* amdgpu returns -EPERM during a reset (amdgpu_in_reset); it does not mean a missing permission. */
        return VALUE_UNREADABLE;
    }
}

void sampler_condemn(struct sampler *s)
{
    struct shared *shared = s->shared;
    uint32_t file = shared->sampler_current_file;
    uint64_t since = shared->helpers[HELPER_SAMPLER].work_pending_ns;
    uint64_t now = clock_mono_ns();
    if (file != 0 && file < 4096 && since != 0 && now > since &&
        now - since >= SAMPLER_HUNG_MS * NS_PER_MS) {
        atomic_fetch_or(&shared->sampler_bad_files[file / 64], UINT64_C(1) << (file % 64));
        shared_event(shared, "sampler", "gave up file %u after %llu ms without an answer", file,
                     (unsigned long long)((now - since) / NS_PER_MS));
    }
    sampler_leave(s);
}

/* --- pacing --- */

static uint64_t cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Call it after each piece of work. The cost of a wake-up goes to the piece that follows it. */
static void pacer_charge(struct sampler *s, struct pacer *p)
{
    uint64_t used_ns = cpu_ns();
    bool told = pacer_spend(p, used_ns - s->charged_ns, s->now_ns);
    s->charged_ns = used_ns;
    if (told)
        shared_event(s->shared, "sampler", "period of %s is %.1f times as long, to stay within %u ppm of a core",
                     p->name, p->stretch, p->share_ppm);
}

/* --- records --- */

static void emit(struct sampler *s, uint16_t flags)
{
    size_t len = values_record(&s->values, flags, clock_mono_ns());
    if (len > 0)
        ring_write(&s->shared->samples, &s->values.record, len);
}

static void read_devices(struct sampler *s)
{
    for (uint32_t i = 0; i < s->machine.count; i++)
        sampler_gpu_memory(s, i);
}

/* Twice in a run, before and after: reading these counters accesses the hardware. */
static void read_errors(struct sampler *s)
{
    for (uint32_t i = 0; i < s->machine.count; i++)
        sampler_gpu_errors(s, i);
}

/* The counts read before the run must not pass for those after it. */
static void forget_errors(struct sampler *s)
{
    for (uint32_t i = 0; i < s->machine.count; i++) {
        (void)values_set_gpu(&s->values, i, METRIC_GPU_UNCORRECTED, VALUE_UNREADABLE, 0);
        (void)values_set_gpu(&s->values, i, METRIC_GPU_CORRECTED, VALUE_UNREADABLE, 0);
    }
}

/* Each rank has a sampler. Ranks that share a CPU share the time that samplers may take of it. */
static uint32_t share_of_rank(uint32_t ppm)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned ranks = job_ranks_here();
    if (cpus <= 0 || ranks <= (unsigned long)cpus)
        return ppm;
    uint32_t share = (uint32_t)((uint64_t)ppm * (unsigned long)cpus / ranks);
    return share > 0 ? share : 1;
}

void sampler_init(struct sampler *s, struct shared *shared)
{
    s->shared = shared;
    s->proc_root = "/proc";
    s->self_pid = getpid();
    s->now_ns = clock_mono_ns();
    s->answered = shared->impact_answer;
    s->pace_fast = (struct pacer){.name = "device memory", .share_ppm = share_of_rank(1130)};
    s->pace_slow = (struct pacer){.name = "load and temperature", .share_ppm = share_of_rank(120)};
    /* While a Python loads its libraries (thousands of mappings come and go), a look at it costs ten
     * times as much as later. Without a bound this window would stop the samples of a PyTorch run for
     * a minute. */
    s->pace_procs = (struct pacer){.name = "processes", .share_ppm = share_of_rank(200), .jump_max = 4};
    s->pace_host = (struct pacer){.name = "host memory", .share_ppm = share_of_rank(50)};
    /* PROC_PID_INIT_INO: only in the initial pid namespace are KFD's file names the pids that we
     * know. Not checked for a recorded machine. */
    char name[64] = "";
    ssize_t len = readlink("/proc/self/ns/pid", name, sizeof name - 1);
    s->kfd_pids_ours = fs_sysroot()[0] != '\0' ||
                       (len > 0 && strncmp(name, "pid:[4026531836]", sizeof name) == 0);
    struct rlimit limit;
    s->kfd_open_max = 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max < 16384 ? limit.rlim_max : 16384;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        /* 16 a GPU, 64 processes with 18 files each, the rest for KFD's. */
        s->kfd_open_max = limit.rlim_cur > 8192 ? (uint32_t)limit.rlim_cur - 4096 : 0;
    }
}

void sampler_begin(struct sampler *s)
{
    bool again = s->shared->sampler_baseline_done != 0;
    machine_scan(&s->machine);
    struct shared *shared = s->shared;
    if (shared->gpus_listed == 0)
        shared->gpus_listed = machine_identities(&s->machine, shared->gpus, SHARED_GPUS_MAX) + 1;
    else
        machine_keep_order(&s->machine, shared->gpus, shared->gpus_listed - 1);
    sampler_gpu_open(s);
    read_devices(s);
    for (uint32_t i = 0; i < s->machine.count; i++)
        sampler_gpu_total(s, i);
    sampler_host_open(s);
    sampler_host_read(s);
    sampler_kfd_turn(s);
    if (again) {
        emit(s, SAMPLE_FULL);
    } else {
        /* Counters that wake hardware come last: a short run may be over by then, and the verdict
         * does not need them. */
        emit(s, SAMPLE_FULL | SAMPLE_BASELINE);
        s->shared->sampler_baseline_done = 1;
    }
    nvml_open(s);
    if (!again)
        read_errors(s);
    uint64_t now = clock_mono_ns();
    s->now_ns = now;
    for (uint32_t i = 0; i < s->machine.count; i++) {
        s->gpus[i].due_ns = now + FAST_NS;
        s->gpus[i].changed_ns = now;
        s->gpus[i].slow_due_ns = now + SECOND * i / s->machine.count; /* spread over the second */
    }
    s->procs_due_ns = now;
    s->host.due_ns = now + SECOND;
    s->full_due_ns = now + FULL_NS;
    s->charged_ns = cpu_ns();
}

bool sampler_impact_pending(const struct sampler *s)
{
    return atomic_load_explicit(&s->shared->impact_request, memory_order_acquire) != s->answered;
}

void sampler_impact(struct sampler *s)
{
    uint32_t request = atomic_load_explicit(&s->shared->impact_request, memory_order_acquire);
    s->answered = request; /* first: the reads below check for a pending request */
    s->now_ns = clock_mono_ns();
    read_devices(s);
    sampler_procs_impact(s, s->shared->impact_pid);
    emit(s, SAMPLE_FULL | SAMPLE_IMPACT);
    atomic_store_explicit(&s->shared->impact_answer, request, memory_order_release);
    (void)syscall(SYS_futex, &s->shared->impact_answer, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    s->charged_ns = cpu_ns(); /* no pacer pays for an impact record */
}

void sampler_after(struct sampler *s)
{
    s->now_ns = clock_mono_ns();
    read_devices(s);
    sampler_host_read(s);
    sampler_kfd_turn(s);
    sampler_procs_turn(s);
    forget_errors(s);
    emit(s, SAMPLE_FULL | SAMPLE_AFTER);
    read_errors(s); /* on a GPU that hangs, this read may hang, too */
    emit(s, SAMPLE_FULL | SAMPLE_AFTER);
}

/* --- the schedule --- */

static uint64_t device_period(const struct sampler *s, const struct gpu_sampler *g)
{
    uint64_t calm = s->now_ns - g->changed_ns;
    uint64_t base = calm < 3 * SECOND ? FAST_NS : calm < 60 * SECOND ? CALM_NS : IDLE_NS;
    return pacer_period(&s->pace_fast, base);
}

static void turn_devices(struct sampler *s)
{
    uint64_t soon = s->now_ns + 10 * NS_PER_MS; /* one wake-up for all work that is nearly due */
    bool any = false;
    for (uint32_t i = 0; i < s->machine.count; i++) {
        struct gpu_sampler *g = &s->gpus[i];
        if (g->due_ns > soon)
            continue;
        any = true;
        sampler_gpu_fast(s, i);
        if (g->changed_ns == s->now_ns)
            sampler_procs_follow(s, i);
        g->due_ns = s->now_ns + device_period(s, g);
    }
    if (any)
        pacer_charge(s, &s->pace_fast);
}

static void turn_slow(struct sampler *s)
{
    for (uint32_t i = 0; i < s->machine.count; i++) {
        struct gpu_sampler *g = &s->gpus[i];
        if (g->slow_due_ns > s->now_ns)
            continue;
        sampler_gpu_slow(s, i);
        g->slow_due_ns = s->now_ns + pacer_period(&s->pace_slow, SECOND);
        pacer_charge(s, &s->pace_slow);
    }
}

static void turn_others(struct sampler *s)
{
    if (s->procs_due_ns <= s->now_ns) {
        sampler_kfd_turn(s);
        sampler_procs_turn(s);
        s->procs_due_ns = s->now_ns + pacer_period(&s->pace_procs, SECOND);
        pacer_charge(s, &s->pace_procs);
    }
    if (s->host.due_ns <= s->now_ns) {
        sampler_host_read(s);
        s->host.due_ns = s->now_ns + pacer_period(&s->pace_host, SECOND);
        pacer_charge(s, &s->pace_host);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Work that is due once a second waits for the next read of the devices, to share its wake-up. */
static uint64_t next_due(const struct sampler *s)
{
    uint64_t devices = UINT64_MAX;
    uint64_t others = earlier(s->full_due_ns, earlier(s->procs_due_ns, s->host.due_ns));
    for (uint32_t i = 0; i < s->machine.count; i++) {
        devices = earlier(devices, s->gpus[i].due_ns);
        others = earlier(others, s->gpus[i].slow_due_ns);
    }
    return devices <= others + TOGETHER_NS ? devices : others;
}

uint64_t sampler_turn(struct sampler *s)
{
    if (sampler_impact_pending(s))
        sampler_impact(s);
    turn_devices(s);
    turn_slow(s);
    turn_others(s);
    if (s->full_due_ns <= s->now_ns) {
        for (uint32_t i = 0; i < s->machine.count; i++)
            sampler_gpu_total(s, i);
        sampler_host_cgroup(s);
        s->full_due_ns = s->now_ns + FULL_NS;
        emit(s, SAMPLE_FULL);
    } else {
        emit(s, 0);
    }
    return next_due(s);
}

static void wait_until(struct sampler *s, uint64_t due_ns)
{
    uint64_t now = clock_mono_ns();
    if (due_ns <= now)
        return;
    uint64_t wait = due_ns - now < WAIT_MAX_NS ? due_ns - now : WAIT_MAX_NS;
    struct timespec ts = {(time_t)(wait / SECOND), (long)(wait % SECOND)};
    (void)syscall(SYS_futex, &s->shared->impact_request, FUTEX_WAIT, s->answered, &ts, NULL, 0);
}

/* 0 = the target still runs, else when the AFTER record is due. */
static uint64_t after_due(const struct sampler *s)
{
    if (s->shared->target_state != TARGET_ENDED)
        return 0;
    uint64_t end = s->shared->target_end_ns;
    return (end != 0 ? end : s->now_ns) + AFTER_NS;
}

_Noreturn void sampler_run(struct shared *shared)
{
    struct sampler *s = room_for(sizeof *s);
    if (s == NULL)
        _exit(1); /* no counters */
    sampler_init(s, shared);
    sampler_condemn(s);
    sampler_begin(s);
    uint64_t after_ns = 0;
    while (shared->supervisor_done != 1) { /* 2: the bundle is being made; the finisher waits for
                                            * the AFTER record */
        s->now_ns = clock_mono_ns();
        atomic_store_explicit(&shared->helpers[HELPER_SAMPLER].heartbeat_ns, s->now_ns,
                              memory_order_relaxed);
        uint64_t next = sampler_turn(s);
        if (after_ns == 0)
            after_ns = after_due(s);
        if (after_ns != 0 && after_ns <= clock_mono_ns()) {
            sampler_after(s);
            break;
        }
        wait_until(s, after_ns != 0 && after_ns < next ? after_ns : next);
    }
    _exit(0);
}
