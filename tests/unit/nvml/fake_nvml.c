/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_nvml.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    unsigned long long total, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static struct fake_answers *a;
static int handles[FAKE_GPUS];

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **ret);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *ret);
int nvmlDeviceGetBAR1MemoryInfo(void *device, struct memory *ret);
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *ret);
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *ret);
int nvmlDeviceGetPowerUsage(void *device, unsigned *ret);
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *ret);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *ret);
int nvmlDeviceGetTotalEccErrors(void *device, unsigned type, unsigned counter,
                                unsigned long long *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *ret);

int nvmlInit_v2(void)
{
    int fd = open(getenv("FAKE_NVML"), O_RDWR | O_CLOEXEC);
    void *map = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return 999;
    a = map;
    a->inits++;
    return a->init_result;
}

/* The library does not know the second GPU of the test's machine, as with another driver version. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **ret)
{
    static const char *const known[FAKE_GPUS] = {"0000:17:00.0", "0000:65:00.0"};
    for (int i = 0; i < FAKE_GPUS; i++) {
        if (strcmp(pci, known[i]) != 0)
            continue;
        *ret = &handles[i];
        return 0;
    }
    return 6;
}

static int gpu_of(const void *device)
{
    return (int)((const int *)device - handles);
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *ret)
{
    int i = gpu_of(device);
    *ret = (struct memory){a->total[i], a->free_bytes[i], a->used[i]};
    return a->memory_result;
}

int nvmlDeviceGetBAR1MemoryInfo(void *device, struct memory *ret)
{
    (void)device;
    *ret = (struct memory){1 << 30, 1 << 29, 1 << 29};
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *ret)
{
    (void)device;
    *ret = (struct utilization){a->busy, 3};
    return 0;
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *ret)
{
    (void)device;
    *ret = a->celsius;
    return sensor == 0 ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *ret)
{
    (void)device;
    *ret = a->milliwatt;
    return a->milliwatt > 0 ? 0 : 3; /* not supported */
}

int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *ret)
{
    (void)device;
    *ret = type == 1 ? a->sm_mhz : a->memory_mhz;
    return type == 1 || type == 2 ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *ret)
{
    (void)device;
    *ret = a->throttle;
    return 0;
}

int nvmlDeviceGetTotalEccErrors(void *device, unsigned type, unsigned counter,
                                unsigned long long *ret)
{
    (void)device;
    *ret = a->ecc;
    return type == 1 && counter == 0 ? 0 : 2;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *ret)
{
    int i = gpu_of(device);
    unsigned n = a->process_count[i];
    if (*count < n) {
        *count = n;
        return 7;
    }
    for (unsigned k = 0; k < n; k++)
        ret[k] = (struct process){a->processes[i][k].pid, a->processes[i][k].bytes, 0, 0};
    *count = n;
    return a->process_result;
}
