/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program against libamdhip64. Commands: alloc BYTES, fill BYTES (until refused), host BYTES,
 * hostfill BYTES, free NUMBER, info, roundtrip NUMBER, memset NUMBER (a kernel), device NUMBER, quit.
 * hip_memory BYTES allocates that size until it is refused, and ends like an application: with the
 * runtime's message and status 1. hip_memory kernel runs one kernel.
 */
#include <hip/hip_runtime_api.h>
#include <stdint.h>

#include "commands.h"

#define COPY_BYTES (1u << 20)

static void *memory[SLOTS_MAX];
static unsigned count;
static unsigned char there[COPY_BYTES], back[COPY_BYTES];

typedef hipError_t (*allocate_fn)(void **, size_t);

static hipError_t allocate_device(void **ret, size_t bytes)
{
    return hipMalloc(ret, bytes);
}

static hipError_t allocate_host(void **ret, size_t bytes)
{
    return hipHostMalloc(ret, bytes, 0);
}

static void answer_error(const char *what, unsigned number, hipError_t error)
{
    ANSWER("%s %u %d %s", what, number, (int)error, hipGetErrorName(error));
}

static void allocate_one(const char *what, allocate_fn allocate, size_t bytes)
{
    hipError_t error = count < SLOTS_MAX ? allocate(&memory[count], bytes) : hipErrorUnknown;
    count += error == hipSuccess;
    answer_error(what, count, error);
}

static void allocate_all(const char *what, allocate_fn allocate, size_t bytes)
{
    unsigned before = count;
    hipError_t error = hipSuccess;
    while (error == hipSuccess && count < SLOTS_MAX) {
        error = allocate(&memory[count], bytes);
        count += error == hipSuccess;
    }
    answer_error(what, count - before, error);
}

static void roundtrip(void *device)
{
    for (unsigned i = 0; i < COPY_BYTES; i++)
        there[i] = (unsigned char)(i * 7 + (i >> 8));
    memset(back, 0, sizeof back);
    hipError_t error = hipMemcpy(device, there, sizeof there, hipMemcpyHostToDevice);
    if (error == hipSuccess)
        error = hipMemcpy(back, device, sizeof back, hipMemcpyDeviceToHost);
    answer_error("roundtrip", memcmp(there, back, sizeof back) == 0, error);
}

static void kernel(void *device)
{
    hipError_t error = hipMemset(device, 0, 4096);
    if (error == hipSuccess)
        error = hipDeviceSynchronize();
    answer_error("memset", 0, error);
}

static void info(void)
{
    size_t free_bytes = 0;
    size_t total = 0;
    hipError_t error = hipMemGetInfo(&free_bytes, &total);
    ANSWER("info %zu %zu %s", free_bytes, total, hipGetErrorName(error));
}

static void execute(const struct command *c)
{
    void *chosen = c->first < count ? memory[c->first] : NULL;
    if (strcmp(c->name, "alloc") == 0)
        allocate_one("alloc", allocate_device, c->first);
    else if (strcmp(c->name, "host") == 0)
        allocate_one("host", allocate_host, c->first);
    else if (strcmp(c->name, "fill") == 0)
        allocate_all("fill", allocate_device, c->first);
    else if (strcmp(c->name, "hostfill") == 0)
        allocate_all("hostfill", allocate_host, c->first);
    else if (strcmp(c->name, "free") == 0 && chosen != NULL)
        answer_error("free", (unsigned)c->first, hipFree(chosen));
    else if (strcmp(c->name, "roundtrip") == 0 && chosen != NULL)
        roundtrip(chosen);
    else if (strcmp(c->name, "memset") == 0 && chosen != NULL)
        kernel(chosen);
    else if (strcmp(c->name, "device") == 0)
        answer_error("device", (unsigned)c->first, hipSetDevice((int)c->first));
    else if (strcmp(c->name, "info") == 0)
        info();
    else
        ANSWER("unknown %s", c->name);
}

static int run_out(size_t bytes)
{
    hipError_t error = hipSuccess;
    while (error == hipSuccess && count < SLOTS_MAX) {
        error = hipMalloc(&memory[count], bytes);
        count += error == hipSuccess;
    }
    (void)fprintf(stderr, "hip_memory: hipMalloc of %zu bytes failed: %s: %s\n", bytes,
                  hipGetErrorName(error), hipGetErrorString(error));
    return 1;
}

static int run_kernel(void)
{
    hipError_t error = hipMalloc(&memory[0], COPY_BYTES);
    if (error == hipSuccess)
        error = hipMemset(memory[0], 0, COPY_BYTES);
    if (error == hipSuccess)
        error = hipDeviceSynchronize();
    return error == hipSuccess ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "kernel") == 0)
        return run_kernel();
    if (argc > 1)
        return run_out((size_t)strtoull(argv[1], NULL, 10));
    int devices = 0;
    hipError_t error = hipGetDeviceCount(&devices);
    answer_error("ready", (unsigned)devices, error);
    struct command command;
    while (error == hipSuccess && next_command(&command) && strcmp(command.name, "quit") != 0)
        execute(&command);
    return error == hipSuccess ? 0 : 1;
}
