/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes facts of series. Finisher. A missing value becomes a fact as well, with the reason.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "diagnose/fact.h"
#include "telemetry/machine.h"
#include "telemetry/series.h"

struct context {
    struct facts *facts;
    const struct series_set *set;
    uint64_t baseline_ns, impact_ns, after_ns, end_ns;
    bool impact_is_record; /* an IMPACT record, not the last sample before the end */
    bool own_pids;         /* KFD's pids are ours */
    bool by_nvml;          /* all GPUs of the machine are NVIDIA's */
    char source[96];       /* of the last call of source_of() */
    int result;
};

static void note(struct context *c, int r)
{
    if (r < 0 && c->result == 0)
        c->result = r;
}

/* GPUs of amdgpu have a GTT value, even if it is "absent"; GPUs read through NVML have none. */
static bool gpu_is_read_by_nvml(const struct series_set *set, uint32_t gpu)
{
    return series_find(set, METRIC_GPU_VRAM_USED, gpu) != NULL &&
           series_find(set, METRIC_GPU_GTT_USED, gpu) == NULL;
}

static bool all_gpus_are_nvidias(const struct series_set *set)
{
    bool any = false;
    for (uint32_t gpu = 0; gpu < MACHINE_GPUS_MAX; gpu++) {
        if (series_find(set, METRIC_GPU_VRAM_USED, gpu) == NULL)
            continue;
        if (!gpu_is_read_by_nvml(set, gpu))
            return false;
        any = true;
    }
    return any;
}

static bool is_of_kfd(enum metric m)
{
    return m == METRIC_PROC_KFD_VRAM || m == METRIC_GPU_OTHERS_KFD_VRAM;
}

/* The register names both sources: "device/mem_info_vram_used, or NVML". Here it is known which one
 * it was. */
static const char *source_of(struct context *c, enum metric m, bool nvml)
{
    static const char choice[] = ", or NVML";
    const struct metric_def *def = metric_find((uint16_t)m);
    const char *where = def->where;
    const char *at = strstr(where, choice);
    const char *rest = at != NULL ? at + sizeof choice - 1 : "";
    if (nvml && (def->scope == SCOPE_GPU || is_of_kfd(m)))
        (void)snprintf(c->source, sizeof c->source, "NVML%s", rest);
    else
        (void)snprintf(c->source, sizeof c->source, "%.*s%s",
                       (int)(at != NULL ? at - where : (ptrdiff_t)strlen(where)), where, rest);
    return c->source;
}

static bool is_nvmls(const struct context *c, enum metric m, uint32_t instance)
{
    return metric_find((uint16_t)m)->scope == SCOPE_GPU ? gpu_is_read_by_nvml(c->set, instance)
                                                        : c->by_nvml;
}

static const char *missing_reason(const struct context *c, enum metric m, uint8_t status)
{
    const struct metric_def *def = metric_find((uint16_t)m);
    bool kfd = is_of_kfd(m);
    if (kfd && status == VALUE_UNREADABLE && !c->own_pids)
        return "in a pid namespace: KFD lists the pids of the host";
    if (status == VALUE_STALLED)
        return "a read of the file did not return";
    if (status == VALUE_UNREADABLE)
        return def->scope == SCOPE_GPU
                   ? "could not be read (GPU suspended or in reset, or no permission)"
                   : "could not be read";
    if (m == METRIC_CGROUP_MEM_LIMIT)
        return "no memory limit is set, or no memory cgroup is visible";
    if (kfd && c->by_nvml)
        return "NVML does not report it";
    if (kfd)
        return m == METRIC_PROC_KFD_VRAM ? "not a KFD process" : "no KFD process files";
    return def->scope == SCOPE_PROCESS ? "the kernel gives no such value for the process"
                                       : "no such file on this machine";
}

static void put_point(struct context *c, const char *name, enum fact_when when, enum metric m,
                      bool nvml, const struct series_point *p)
{
    const char *where = source_of(c, m, nvml);
    if (p == NULL)
        note(c, facts_set_missing(c->facts, name, when, FACT_ABSENT, "not sampled at that time",
                                  where));
    else if (p->status == VALUE_OK && p->value <= INT64_MAX)
        note(c, facts_set_integer(c->facts, name, when, (int64_t)p->value, where));
    else
        note(c, facts_set_missing(c->facts, name, when,
                                  p->status == VALUE_ABSENT ? FACT_ABSENT : FACT_UNREADABLE,
                                  missing_reason(c, m, p->status), where));
}

/* True if the tracer looked while it held the process, and got no value. Then an earlier value must
 * not stand for it. */
static bool could_not_be_told(const struct context *c, const char *name)
{
    const struct fact *held = facts_find(c->facts, name, FACT_IMPACT);
    return held != NULL && held->status == FACT_UNREADABLE;
}

/* The low point of free memory tells how scarce it was; its peak tells nothing. */
static const char *lowest_of(enum metric m)
{
    return m == METRIC_HOST_MEM_AVAILABLE ? "host.mem_available_lowest_bytes"
           : m == METRIC_HOST_SWAP_FREE   ? "host.swap_free_lowest_bytes"
                                          : NULL;
}

/* The held process had more than every sample, if it grew after the last one. */
static bool put_held_peak(struct context *c, const char *name, enum metric m, const struct series_point *peak)
{
    const struct fact *held = facts_find(
        c->facts, m == METRIC_PROC_RSS ? "proc.0.rss_peak_bytes" : name, FACT_IMPACT);
    if (held == NULL || held->status != FACT_PRESENT || held->type != FACT_INTEGER ||
        (peak != NULL && peak->value <= INT64_MAX && (int64_t)peak->value >= held->integer))
        return false;
    note(c, facts_set_integer(c->facts, name, FACT_PEAK, held->integer, held->source));
    return true;
}

static void put_peak(struct context *c, const char *name, const struct series *s, bool nvml, bool is_process)
{
    enum metric m = (enum metric)s->metric;
    const char *lowest = lowest_of(m);
    const struct series_point *peak =
        lowest != NULL ? series_lowest_until(s, c->end_ns) : series_peak_until(s, c->end_ns);
    if (!(is_process && put_held_peak(c, name, m, peak)) && peak != NULL)
        put_point(c, lowest != NULL ? lowest : name, FACT_PEAK, m, nvml, peak);
}

static void put_series(struct context *c, const struct series *s, const char *proc)
{
    char name[128];
    enum metric m = (enum metric)s->metric;
    bool nvml = is_nvmls(c, m, s->instance);
    if (!series_name(name, sizeof name, m, s->instance, proc))
        return;
    /* The values of the SMU are first read just after the baseline record: take the first value. */
    const struct series_point *baseline = series_at(s, c->baseline_ns);
    if (baseline == NULL && s->count > 0 && proc == NULL &&
        s->points[0].time_ns <= c->baseline_ns + UINT64_C(2000000000))
        baseline = &s->points[0];
    if (c->baseline_ns != 0 && proc == NULL)
        put_point(c, name, FACT_BASELINE, m, nvml, baseline);
    put_peak(c, name, s, nvml, proc != NULL);
    if (c->impact_ns != 0 && !could_not_be_told(c, name))
        put_point(c, name, FACT_IMPACT, m, nvml, series_at(s, c->impact_ns));
    if (c->after_ns != 0 && proc == NULL)
        put_point(c, name, FACT_AFTER, m, nvml, series_at(s, c->after_ns));
}

/* Facts of the failed process; its last values if it was gone at the impact. */
static void put_process(struct context *c, uint32_t pid)
{
    for (unsigned id = 0; id < METRIC_MAX; id++) {
        const struct metric_def *def = metric_find((uint16_t)id);
        if (def == NULL || def->scope != SCOPE_PROCESS || strcmp(def->unit, "text") == 0 ||
            id == METRIC_PROC_OUTSIDE)
            continue;
        const struct series *s = series_find(c->set, (enum metric)id, pid);
        if (s != NULL) {
            put_series(c, s, "0");
            continue;
        }
        char name[128];
        (void)series_name(name, sizeof name, (enum metric)id, pid, "0");
        (void)put_held_peak(c, name, (enum metric)id, NULL);
        note(c, facts_set_missing(c->facts, name, FACT_IMPACT, FACT_ABSENT,
                                  "the process was not sampled (it ended too soon)",
                                  source_of(c, (enum metric)id, c->by_nvml)));
    }
}

/* The bytes of "python3" in two values, as values.c packed them. */
static bool comm_of(const struct series_set *set, uint32_t pid, uint64_t time_ns, char out[17])
{
    const struct series_point *low =
        series_at(series_find(set, METRIC_PROC_COMM_LOW, pid), time_ns);
    const struct series_point *high =
        series_at(series_find(set, METRIC_PROC_COMM_HIGH, pid), time_ns);
    if (low == NULL || high == NULL || low->status != VALUE_OK || high->status != VALUE_OK)
        return false;
    memcpy(out, &low->value, 8);
    memcpy(out + 8, &high->value, 8);
    out[16] = '\0';
    return out[0] != '\0';
}

static void put_others_total(struct context *c, enum fact_when when, uint64_t time_ns)
{
    uint64_t sum = 0;
    bool any = false;
    const struct series_point *bad = NULL;
    for (uint32_t gpu = 0; gpu < MACHINE_GPUS_MAX; gpu++) {
        const struct series_point *p =
            series_at(series_find(c->set, METRIC_GPU_OTHERS_KFD_VRAM, gpu), time_ns);
        if (p != NULL && p->status == VALUE_OK) {
            any = true;
            sum += p->value;
        } else if (p != NULL) {
            bad = p;
        }
    }
    struct series_point total = {time_ns, sum, VALUE_OK};
    put_point(c, "others.vram_bytes", when, METRIC_GPU_OTHERS_KFD_VRAM, c->by_nvml,
              any ? &total : bad);
}

struct holders {
    uint64_t bytes, most; /* of all, of the largest */
    uint32_t largest, count;
};

/* Processes of the command's tree, or outside it, except the process `but`. */
static struct holders find_holders(const struct context *c, uint64_t time_ns, bool outside,
                                   uint32_t but)
{
    struct holders h = {0};
    for (size_t i = 0; i < c->set->count; i++) {
        const struct series *s = &c->set->series[i];
        if (s->metric != METRIC_PROC_KFD_VRAM || s->instance == but)
            continue;
        const struct series_point *where =
            series_at(series_find(c->set, METRIC_PROC_OUTSIDE, s->instance), time_ns);
        const struct series_point *p = series_at(s, time_ns);
        if (where == NULL || where->status != VALUE_OK || (where->value == 1) != outside ||
            p == NULL || p->status != VALUE_OK || p->value == 0)
            continue;
        h.bytes += p->value;
        h.count++;
        if (p->value <= h.most)
            continue;
        h.most = p->value;
        h.largest = s->instance;
    }
    return h;
}

static const char *holders_source(const struct context *c)
{
    return c->by_nvml ? "NVML" : "kfd/proc/PID/vram_*";
}

static void put_others_largest(struct context *c, enum fact_when when, uint64_t time_ns)
{
    struct holders h = find_holders(c, time_ns, true, 0);
    if (h.count == 0) {
        note(c, facts_set_missing(c->facts, "others.largest_bytes", when, FACT_ABSENT,
                                  c->by_nvml
                                      ? "NVML lists no other process that holds VRAM"
                                      : "no other process holds VRAM through KFD, or none is visible",
                                  holders_source(c)));
        return;
    }
    char comm[17];
    note(c, facts_set_integer(c->facts, "others.largest_pid", when, h.largest, holders_source(c)));
    note(c, facts_set_integer(c->facts, "others.largest_bytes", when, (int64_t)h.most,
                              holders_source(c)));
    if (comm_of(c->set, h.largest, time_ns, comm))
        note(c, facts_set_text(c->facts, "others.largest_comm", when, comm, "/proc/PID/status"));
}

/* For example, the other ranks of a job. */
static void put_siblings(struct context *c, uint32_t failed_pid)
{
    struct holders h = find_holders(c, c->impact_ns, false, failed_pid);
    if (h.count == 0) {
        note(c, facts_set_missing(c->facts, "siblings.vram_bytes", FACT_IMPACT, FACT_ABSENT,
                                  "no other process of the command was seen to hold VRAM",
                                  holders_source(c)));
        return;
    }
    note(c, facts_set_integer(c->facts, "siblings.vram_bytes", FACT_IMPACT, (int64_t)h.bytes,
                              holders_source(c)));
    note(c, facts_set_integer(c->facts, "siblings.count", FACT_IMPACT, h.count, holders_source(c)));
    note(c, facts_set_integer(c->facts, "siblings.largest_pid", FACT_IMPACT, h.largest,
                              holders_source(c)));
}

static bool has_counter(const struct series_set *set, enum metric m)
{
    for (uint32_t gpu = 0; gpu < MACHINE_GPUS_MAX; gpu++) {
        const struct series *s = series_find(set, m, gpu);
        if (s != NULL && series_peak(s) != NULL)
            return true;
    }
    return false;
}

static void put_growth(struct context *c)
{
    static const char source[] = "computed from per-window minima of memory in use on the GPU";
    struct growth g = series_growth(c->set, c->set->first_ns, c->end_ns);
    if (!g.valid) {
        note(c, facts_set_missing(c->facts, "f.growth.samples", FACT_IMPACT, FACT_ABSENT,
                                  has_counter(c->set, METRIC_GPU_VRAM_USED) ? "the run was too short"
                                                                            : "no counter of a GPU was read",
                                  source));
        return;
    }
    note(c, facts_set_integer(c->facts, "f.growth.samples", FACT_IMPACT, (int64_t)g.windows,
                              source));
    note(c, facts_set_integer(c->facts, "f.growth.total_bytes", FACT_IMPACT, g.total, source));
    note(c, facts_set_real(c->facts, "f.growth.rising_share_percent", FACT_IMPACT,
                           g.rising_share * 100, source));
    note(c, facts_set_integer(c->facts, "f.growth.slope_bytes_per_s", FACT_IMPACT,
                              number_from_real(g.slope_per_s), source));
    note(c, facts_set_integer(c->facts, "f.growth.duration_ms", FACT_IMPACT,
                              number_from_real(g.window_s * 1000 * (double)g.windows), source));
    note(c, facts_set_integer(c->facts, "f.growth.gpu", FACT_IMPACT, g.gpu, source));
}

/* Counters read at a message this long before the exit still belong to the exit. */
#define MESSAGE_TO_EXIT_NS 30000000000u
/* If memory was freed before the IMPACT record, an earlier sample stands for the failure. It may be this much older. */
#define RELEASE_NS 500000000u

/*
 * The IMPACT record of the failure: the one that the tracer requested at failed_ns. A program that
 * exited may have freed everything by then; for it, the last one that was requested because of a
 * message. 0 = none.
 */
static uint64_t impact_record_time(const struct series_set *set,
                                   const struct series_facts_options *options)
{
    uint64_t before = 0;
    uint64_t after = 0;
    for (size_t i = 0; i < set->record_count; i++) {
        uint64_t time_ns = set->records[i].time_ns;
        if ((set->records[i].flags & SAMPLE_IMPACT) == 0)
            continue;
        if (options->impact_ns == 0 || time_ns < options->impact_ns)
            before = time_ns;
        else if (after == 0)
            after = time_ns;
    }
    bool message = before != 0 && options->ended_by_exit &&
                   options->impact_ns - before < MESSAGE_TO_EXIT_NS;
    return message || after == 0 ? before : after;
}

/* The sum over all GPUs. */
static uint64_t used_at(const struct series_set *set, uint32_t metric, uint64_t time_ns)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct series_point *p = set->series[i].metric == metric ? series_at(&set->series[i], time_ns) : NULL;
        sum += p != NULL && p->status == VALUE_OK ? p->value : 0;
    }
    return sum;
}

/*
 * A runtime that unwinds frees memory before it prints its message, and a driver library or a busy machine's
 * sampler answers late: the record may show a GPU that is already empty. Then the record before it is nearer to the
 * failure, if it is not much older. An APU's memory is in the GTT.
 */
static uint64_t before_the_release(const struct series_set *set, uint64_t impact_ns)
{
    uint64_t before = 0;
    for (size_t i = 0; i < set->record_count; i++) {
        const struct series_record *r = &set->records[i];
        if (r->time_ns < impact_ns && (r->flags & SAMPLE_BASELINE) == 0)
            before = r->time_ns;
    }
    if (before == 0 || impact_ns - before > RELEASE_NS)
        return impact_ns;
    uint64_t vram_then = used_at(set, METRIC_GPU_VRAM_USED, before);
    uint64_t vram = used_at(set, METRIC_GPU_VRAM_USED, impact_ns);
    uint64_t all_then = vram_then + used_at(set, METRIC_GPU_GTT_USED, before);
    uint64_t all = vram + used_at(set, METRIC_GPU_GTT_USED, impact_ns);
    return vram_then / 2 > vram || all_then / 2 > all ? before : impact_ns;
}

static void set_times(struct context *c, const struct series_facts_options *options)
{
    const struct series_set *set = c->set;
    c->baseline_ns = series_time_of(set, SAMPLE_BASELINE);
    c->after_ns = series_time_of(set, SAMPLE_AFTER);
    uint64_t impact = impact_record_time(set, options);
    c->impact_is_record = impact != 0;
    if (impact != 0 && options->ended_by_exit)
        impact = before_the_release(set, impact);
    /* Without a request (not traced, or a plain exit) the last sample before the end is used. */
    c->impact_ns = impact != 0               ? impact
                   : options->impact_ns != 0 ? options->impact_ns
                   : options->end_ns != 0    ? options->end_ns
                                             : set->last_ns;
    c->end_ns = options->end_ns != 0 ? options->end_ns : set->last_ns;
    if (c->end_ns < c->impact_ns)
        c->end_ns = c->impact_ns;
}

int series_to_facts(struct facts *facts, const struct series_set *set,
                    const struct series_facts_options *options)
{
    struct context c = {.facts = facts, .set = set};
    if (set->record_count == 0)
        return facts_set_missing(facts, "f.growth.samples", FACT_IMPACT, FACT_ABSENT,
                                 "no sample was written", "samples.*");
    set_times(&c, options);
    const struct series_point *own =
        series_at(series_find(set, METRIC_HOST_PID_NAMESPACE, 0), set->last_ns);
    c.own_pids = own == NULL || own->value != 0;
    c.by_nvml = all_gpus_are_nvidias(set);
    for (size_t i = 0; i < set->count; i++) {
        const struct metric_def *def = metric_find(set->series[i].metric);
        if (def->scope != SCOPE_PROCESS && def->id != METRIC_HOST_PID_NAMESPACE)
            put_series(&c, &set->series[i], NULL);
    }
    if (options->failed_pid != 0) {
        put_process(&c, options->failed_pid);
        put_siblings(&c, options->failed_pid);
    }
    if (c.baseline_ns != 0) {
        put_others_total(&c, FACT_BASELINE, c.baseline_ns);
        put_others_largest(&c, FACT_BASELINE, c.baseline_ns);
    }
    put_others_total(&c, FACT_IMPACT, c.impact_ns);
    put_others_largest(&c, FACT_IMPACT, c.impact_ns);
    put_growth(&c);
    return c.result;
}
