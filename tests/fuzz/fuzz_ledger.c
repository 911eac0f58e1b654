/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the ledger's file, which processes of the target write to, through its collector.
 * The input is a list of patches to an empty ledger: 3 bytes of place, 1 of length, that many
 * bytes.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "collect/collector.h"
#include "record/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const struct collector collector_ledger;

static char run_dir[] = "/dev/shm/rc-fuzz-ledger-XXXXXX";
static unsigned char *memory; /* the file, mapped */
static struct ledger *empty;

static void remove_run_dir(void)
{
    (void)fs_remove_tree(AT_FDCWD, run_dir);
}

static void make_file(void)
{
    char path[128];
    int fd = -1;
    struct ledger *made = ledger_create(&fd, NULL);
    if (made == NULL || mkdtemp(run_dir) == NULL)
        abort();
    (void)atexit(remove_run_dir);
    empty = malloc(sizeof *empty);
    memcpy(empty, made, sizeof *empty);
    (void)snprintf(path, sizeof path, "%s/ledger", run_dir);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *empty) != 0)
        abort();
    memory = mmap(NULL, sizeof *empty, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        abort();
    memcpy(memory, empty, sizeof *empty);
    fs_set_sysroot(run_dir); /* no GPU of this machine */
}

/* The first KiBs of each table are reached with few bits. */
static size_t place(const uint8_t *data)
{
    static const size_t tables[] = {
        0,
        offsetof(struct ledger, processes),
        offsetof(struct ledger, gpus),
        offsetof(struct ledger, accounts),
        offsetof(struct ledger, refusals),
        offsetof(struct ledger, hip_refusals),
        offsetof(struct ledger, events),
        offsetof(struct ledger, live),
    };
    return tables[data[0] % 8] + (size_t)data[1] + ((size_t)data[2] << 8);
}

static void patch(const uint8_t *data, size_t size, bool undo)
{
    while (size >= 5) {
        size_t at = place(data);
        size_t len = data[3] < size - 4 ? data[3] : size - 4;
        if (at + len <= sizeof *empty)
            memcpy(memory + at, undo ? (const uint8_t *)empty + at : data + 4, len);
        data += 4 + len;
        size -= 4 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const nothing[] = {NULL};
    if (memory == NULL)
        make_file();
    patch(data, size, false);
    struct collect_ctx ctx = {.run_dir = run_dir,
                              .failed_pid = size > 0 ? data[0] : 0,
                              .argv = nothing,
                              .cwd = "",
                              .maps = "",
                              .fds = "",
                              .environ_at_impact = nothing,
                              .deadline_mono_ns = UINT64_MAX};
    (void)collector_ledger.run(&ctx, NULL);
    patch(data, size, true);
    return 0;
}
