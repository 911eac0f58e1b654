/* SPDX-License-Identifier: Apache-2.0 */
/* The types and numbers are those of NVML's interface (nvml.h of CUDA 11 to 13), declared here
 * because that header is not installed where rocmcrash is built. */
#include "telemetry/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "telemetry/dirscan.h"
#include "telemetry/sampler_internal.h"

#define DRIVER_GPUS "/proc/driver/nvidia/gpus"
#define FILE_LIBRARY FILE_HOST(15)
#define PROCESSES_MAX 128
#define NOT_AVAILABLE UINT64_MAX

#define NVML_SUCCESS 0
#define NVML_ERROR_NOT_SUPPORTED 3
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_TEMPERATURE_GPU 0u
#define NVML_CLOCK_SM 1u
#define NVML_CLOCK_MEM 2u
#define NVML_CORRECTED 0u
#define NVML_UNCORRECTED 1u
#define NVML_VOLATILE 0u

struct memory {
    unsigned long long total, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process_info { /* of ..._v2 and ..._v3 */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

typedef int list_processes(void *, unsigned *, struct process_info *);

static struct nvml {
    bool tried; /* until then no value is recorded, not even as absent */
    bool open;
    int (*init)(void);
    int (*handle)(const char *, void **);
    int (*memory)(void *, struct memory *);
    int (*bar1)(void *, struct memory *); /* total, free, used in the same order */
    int (*utilization)(void *, struct utilization *);
    int (*temperature)(void *, unsigned, unsigned *);
    int (*power)(void *, unsigned *);
    int (*clock)(void *, unsigned, unsigned *);
    int (*throttle)(void *, unsigned long long *);
    int (*ecc)(void *, unsigned, unsigned, unsigned long long *);
    list_processes *compute, *graphics;
    void *devices[MACHINE_GPUS_MAX]; /* NULL = not a GPU of NVML */
    bool listed[MACHINE_GPUS_MAX];
    unsigned long long throttled[MACHINE_GPUS_MAX], ecc_errors[MACHINE_GPUS_MAX];
    uint32_t process_count;
    struct {
        int32_t pid;
        uint32_t gpu;
        uint64_t bytes;
    } processes[PROCESSES_MAX];
} nvml;

/* --- finding --- */

/* Names are addresses: "0000:00:06.0". */
void nvml_add_gpus(struct machine *m)
{
    char path[FS_PATH_MAX];
    struct dirscan dir;
    uint32_t first = m->count;
    if (fs_machine_path(path, sizeof path, DRIVER_GPUS) < 0 || dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL && m->count < MACHINE_GPUS_MAX) {
        size_t len = strlen(name);
        if (len < 12 || len >= sizeof m->gpus[0].pci || name[len - 2] != '.')
            continue;
        struct gpu_info gpu = {.have = GPU_HAVE_PCI | GPU_HAVE_DRIVER | GPU_HAVE_IS_APU,
                               .driver = "nvidia"};
        memcpy(gpu.pci, name, len + 1);
        uint32_t k = m->count++;
        for (; k > first && strcmp(gpu.pci, m->gpus[k - 1].pci) < 0; k--)
            m->gpus[k] = m->gpus[k - 1];
        m->gpus[k] = gpu;
    }
    dirscan_close(&dir);
}

bool nvml_is(const struct gpu_info *gpu)
{
    return (gpu->have & GPU_HAVE_DRIVER) != 0 && strcmp(gpu->driver, "nvidia") == 0;
}

/* --- the library --- */

static bool load(struct nvml *n)
{
    char path[FS_PATH_MAX] = "libnvidia-ml.so.1";
    if (fs_sysroot()[0] != '\0' &&
        fs_machine_path(path, sizeof path, "/usr/lib/libnvidia-ml.so.1") < 0)
        return false;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return false;
    const struct {
        void *place;
        const char *name, *before;
    } names[] = {
        {&n->init, "nvmlInit_v2", NULL},
        {&n->handle, "nvmlDeviceGetHandleByPciBusId_v2", NULL},
        {&n->memory, "nvmlDeviceGetMemoryInfo", NULL},
        {&n->bar1, "nvmlDeviceGetBAR1MemoryInfo", NULL},
        {&n->utilization, "nvmlDeviceGetUtilizationRates", NULL},
        {&n->temperature, "nvmlDeviceGetTemperature", NULL},
        {&n->power, "nvmlDeviceGetPowerUsage", NULL},
        {&n->clock, "nvmlDeviceGetClockInfo", NULL},
        {&n->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", NULL},
        {&n->ecc, "nvmlDeviceGetTotalEccErrors", NULL},
        {&n->compute, "nvmlDeviceGetComputeRunningProcesses_v3",
         "nvmlDeviceGetComputeRunningProcesses_v2"},
        {&n->graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3",
         "nvmlDeviceGetGraphicsRunningProcesses_v2"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *found = dlsym(library, names[i].name);
        if (found == NULL && names[i].before != NULL)
            found = dlsym(library, names[i].before);
        memcpy(names[i].place, &found, sizeof found);
    }
    return n->init != NULL && n->handle != NULL && n->memory != NULL;
}

static void open_devices(struct sampler *s)
{
    for (uint32_t i = 0; i < s->machine.count; i++) {
        const struct gpu_info *gpu = &s->machine.gpus[i];
        if (!nvml_is(gpu) || sampler_is_bad(s, FILE_GPU(i, METRIC_GPU_VRAM_USED)))
            continue;
        sampler_enter(s, FILE_GPU(i, METRIC_GPU_VRAM_USED));
        if (nvml.handle(gpu->pci, &nvml.devices[i]) != NVML_SUCCESS)
            nvml.devices[i] = NULL;
        sampler_leave(s);
    }
}

void nvml_open(struct sampler *s)
{
    bool any = false;
    nvml.tried = true;
    for (uint32_t i = 0; i < s->machine.count; i++)
        any |= nvml_is(&s->machine.gpus[i]);
    if (!any || sampler_is_bad(s, FILE_LIBRARY))
        return;
    sampler_enter(s, FILE_LIBRARY);
    bool loaded = load(&nvml);
    int r = loaded ? nvml.init() : 0;
    sampler_leave(s);
    nvml.open = loaded && r == NVML_SUCCESS;
    if (!loaded)
        shared_event(s->shared, "sampler", "NVML: %s", "libnvidia-ml.so.1 is not there");
    else if (r != NVML_SUCCESS)
        shared_event(s->shared, "sampler", "NVML: error %d when it was initialised", r);
    if (nvml.open)
        open_devices(s);
    for (uint32_t i = 0; i < s->machine.count; i++)
        if (nvml_is(&s->machine.gpus[i])) {
            nvml_total(s, i);
            (void)nvml_fast(s, i);
        }
}

/* --- reading --- */

/* False = set as missing. */
static bool may_ask(struct sampler *s, uint32_t gpu, enum metric m)
{
    uint32_t file = FILE_GPU(gpu, m);
    if (!nvml.tried)
        return false;
    if (sampler_is_bad(s, file) || sampler_is_bad(s, FILE_LIBRARY))
        (void)values_set_gpu(&s->values, gpu, m, VALUE_STALLED, 0);
    else if (!nvml.open || nvml.devices[gpu] == NULL)
        (void)values_set_gpu(&s->values, gpu, m, VALUE_ABSENT, 0);
    else {
        sampler_enter(s, file);
        return true;
    }
    return false;
}

static bool answer(struct sampler *s, uint32_t gpu, enum metric m, int r, uint64_t value)
{
    sampler_leave(s);
    enum value_status status = r == NVML_SUCCESS               ? VALUE_OK
                               : r == NVML_ERROR_NOT_SUPPORTED ? VALUE_ABSENT
                                                               : VALUE_UNREADABLE;
    return values_set_gpu(&s->values, gpu, m, status, value);
}

/* Used = total - free: the driver's own share is not in `used` of every version. */
bool nvml_fast(struct sampler *s, uint32_t gpu)
{
    struct memory memory = {0};
    bool changed = false;
    if (may_ask(s, gpu, METRIC_GPU_VRAM_USED)) {
        int r = nvml.memory(nvml.devices[gpu], &memory);
        changed = answer(s, gpu, METRIC_GPU_VRAM_USED, r, memory.total - memory.free);
    }
    return changed;
}

void nvml_total(struct sampler *s, uint32_t gpu)
{
    struct memory memory = {0};
    if (may_ask(s, gpu, METRIC_GPU_VRAM_TOTAL)) {
        int r = nvml.memory(nvml.devices[gpu], &memory);
        (void)answer(s, gpu, METRIC_GPU_VRAM_TOTAL, r, memory.total);
    }
    /* Memory that the CPU can reach: BAR1, like the visible VRAM of amdgpu. */
    if (nvml.bar1 != NULL && may_ask(s, gpu, METRIC_GPU_VIS_TOTAL)) {
        int r = nvml.bar1(nvml.devices[gpu], &memory);
        (void)answer(s, gpu, METRIC_GPU_VIS_TOTAL, r, memory.total);
        (void)values_set_gpu(&s->values, gpu, METRIC_GPU_VIS_USED,
                             r == NVML_SUCCESS ? VALUE_OK : VALUE_ABSENT, memory.used);
    }
}

/* Since the driver was loaded ("volatile"); cards without ECC have none. */
void nvml_errors(struct sampler *s, uint32_t gpu)
{
    static const struct {
        enum metric metric;
        unsigned type;
    } kinds[] = {{METRIC_GPU_UNCORRECTED, NVML_UNCORRECTED}, {METRIC_GPU_CORRECTED, NVML_CORRECTED}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        unsigned long long count = 0;
        int r = NVML_ERROR_NOT_SUPPORTED;
        if (!nvml.tried || sampler_is_bad(s, FILE_GPU_ERRORS(gpu)) ||
            sampler_is_bad(s, FILE_LIBRARY) || !nvml.open || nvml.devices[gpu] == NULL) {
            (void)values_set_gpu(&s->values, gpu, kinds[i].metric, VALUE_ABSENT, 0);
            continue;
        }
        sampler_enter(s, FILE_GPU_ERRORS(gpu));
        if (nvml.ecc != NULL)
            r = nvml.ecc(nvml.devices[gpu], kinds[i].type, NVML_VOLATILE, &count);
        (void)answer(s, gpu, kinds[i].metric, r, count);
    }
}

/* Counts and states that matter when they change. They become lines of the timeline, not series. */
static void note_changes(struct sampler *s, uint32_t gpu)
{
    /* idle, application clocks, sync boost and display clocks are normal */
    static const unsigned long long troubles = ~(0x1ull | 0x2ull | 0x10ull | 0x100ull);
    unsigned long long value = 0;
    if (nvml.throttle != NULL && nvml.throttle(nvml.devices[gpu], &value) == NVML_SUCCESS &&
        (value & troubles) != nvml.throttled[gpu]) {
        nvml.throttled[gpu] = value & troubles;
        shared_event(s->shared, "sampler", "GPU %u: clocks are throttled, reasons 0x%llx",
                     gpu, nvml.throttled[gpu]);
    }
    if (nvml.ecc != NULL &&
        nvml.ecc(nvml.devices[gpu], NVML_UNCORRECTED, NVML_VOLATILE, &value) == NVML_SUCCESS &&
        value != nvml.ecc_errors[gpu]) {
        nvml.ecc_errors[gpu] = value;
        shared_event(s->shared, "sampler", "GPU %u: %llu uncorrected ECC errors since the driver was loaded",
                     gpu, value);
    }
}

static void slow_number(struct sampler *s, uint32_t gpu, enum metric m)
{
    unsigned value = 0;
    struct utilization busy = {0, 0};
    void *device = nvml.devices[gpu];
    int r = NVML_ERROR_NOT_SUPPORTED;
    uint64_t scale = 1;
    if (!may_ask(s, gpu, m))
        return;
    if (m == METRIC_GPU_BUSY && nvml.utilization != NULL) {
        r = nvml.utilization(device, &busy);
        value = busy.gpu;
    } else if (m == METRIC_GPU_TEMP_EDGE && nvml.temperature != NULL) {
        r = nvml.temperature(device, NVML_TEMPERATURE_GPU, &value);
        scale = 1000; /* degrees -> mC */
    } else if (m == METRIC_GPU_POWER && nvml.power != NULL) {
        r = nvml.power(device, &value);
        scale = 1000; /* mW -> uW */
    } else if (nvml.clock != NULL && (m == METRIC_GPU_SCLK || m == METRIC_GPU_MCLK)) {
        r = nvml.clock(device, m == METRIC_GPU_SCLK ? NVML_CLOCK_SM : NVML_CLOCK_MEM, &value);
        scale = 1000000; /* MHz -> Hz */
    }
    (void)answer(s, gpu, m, r, value * scale);
}

void nvml_slow(struct sampler *s, uint32_t gpu)
{
    static const enum metric metrics[] = {METRIC_GPU_BUSY, METRIC_GPU_TEMP_EDGE, METRIC_GPU_POWER,
                                          METRIC_GPU_SCLK, METRIC_GPU_MCLK};
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        slow_number(s, gpu, metrics[i]);
        if (sampler_impact_pending(s))
            sampler_impact(s);
    }
    if (nvml.open && nvml.devices[gpu] != NULL &&
        !sampler_is_bad(s, FILE_GPU(gpu, METRIC_GPU_BUSY))) {
        sampler_enter(s, FILE_GPU(gpu, METRIC_GPU_BUSY));
        note_changes(s, gpu);
        sampler_leave(s);
    }
}

/* --- processes --- */

static void add_process(int32_t pid, uint32_t gpu, uint64_t bytes)
{
    for (uint32_t i = 0; i < nvml.process_count; i++) {
        if (nvml.processes[i].pid != pid || nvml.processes[i].gpu != gpu)
            continue;
        /* A process may be listed as a compute and as a graphics client. Both entries have the
         * figure of the whole process. */
        if (bytes > nvml.processes[i].bytes)
            nvml.processes[i].bytes = bytes;
        return;
    }
    if (nvml.process_count < PROCESSES_MAX) {
        nvml.processes[nvml.process_count].pid = pid;
        nvml.processes[nvml.process_count].gpu = gpu;
        nvml.processes[nvml.process_count++].bytes = bytes;
    }
}

static bool list_with(list_processes *list, uint32_t gpu)
{
    static struct process_info found[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX;
    int r = list != NULL ? list(nvml.devices[gpu], &count, found) : NVML_ERROR_NOT_SUPPORTED;
    if (r != NVML_SUCCESS && r != NVML_ERROR_INSUFFICIENT_SIZE)
        return false;
    for (unsigned i = 0; r == NVML_SUCCESS && i < count && i < PROCESSES_MAX; i++)
        if (found[i].used != NOT_AVAILABLE && found[i].pid > 0 && found[i].pid <= INT32_MAX)
            add_process((int32_t)found[i].pid, gpu, found[i].used);
    return r == NVML_SUCCESS;
}

void nvml_list(struct sampler *s)
{
    nvml.process_count = 0;
    for (uint32_t i = 0; i < s->machine.count; i++) {
        uint32_t file = FILE_GPU(i, METRIC_GPU_OTHERS_KFD_VRAM);
        nvml.listed[i] = false;
        if (!nvml.open || nvml.devices[i] == NULL || sampler_is_bad(s, file))
            continue;
        sampler_enter(s, file);
        nvml.listed[i] = list_with(nvml.compute, i);
        (void)list_with(nvml.graphics, i);
        sampler_leave(s);
    }
}

int32_t nvml_next_pid(uint32_t *at)
{
    return *at < nvml.process_count ? nvml.processes[(*at)++].pid : 0;
}

bool nvml_tried(void)
{
    return nvml.tried;
}

bool nvml_bytes(int32_t pid, uint32_t gpu, uint64_t *ret)
{
    *ret = 0;
    for (uint32_t i = 0; i < nvml.process_count; i++)
        if (nvml.processes[i].pid == pid && nvml.processes[i].gpu == gpu)
            *ret = nvml.processes[i].bytes;
    return nvml.listed[gpu];
}

bool nvml_holds(int32_t pid)
{
    for (uint32_t i = 0; i < nvml.process_count; i++)
        if (nvml.processes[i].pid == pid)
            return true;
    return false;
}
