/* SPDX-License-Identifier: Apache-2.0 */
#include "publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fdinfo.h"
#include "machine.h"
#include "state.h"

#define KFD_PROC "/sys/devices/virtual/kfd/kfd/proc"
#define WIDTH 21 /* 20 digits of a 64-bit number and a newline */
#define QUEUES_MAX 1024

enum card_file { CARD_VRAM, CARD_VISIBLE, CARD_GTT, CARD_USERPTR, CARD_FILES };

static const char *const card_names[CARD_FILES] = {"mem_info_vram_used", "mem_info_vis_vram_used",
                                                   "mem_info_gtt_used", "mem_info_preempt_used"};
static char *card_maps[MACHINE_GPUS_MAX][CARD_FILES];
static char *process_maps[MACHINE_GPUS_MAX];
static char no_file[WIDTH]; /* marks a missing file, or a FIFO that blocks readers */

static char *map_counter(const char *path, int flags)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NONBLOCK | flags, 0644);
    if (fd < 0)
        return no_file;
    struct stat st;
    char *map = MAP_FAILED;
    if (syscall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (st.st_size == WIDTH || ftruncate(fd, WIDTH) == 0))
        map = mmap(NULL, WIDTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)syscall(SYS_close, fd);
    return map == MAP_FAILED ? no_file : map;
}

static void store(char *map, uint64_t value)
{
    char text[WIDTH + 1];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    memset(text + n, '\n', sizeof text - (size_t)n);
    memcpy(map, text, WIDTH);
}

static void store_card(unsigned gpu, enum card_file file, uint64_t value)
{
    char path[PATH_MAX];
    if (card_maps[gpu][file] == NULL &&
        file_path(path, sizeof path, "/sys/class/drm/renderD%d/device/%s",
                  machine.gpus[gpu].render_minor, card_names[file]))
        card_maps[gpu][file] = map_counter(path, 0);
    if (card_maps[gpu][file] != NULL && card_maps[gpu][file] != no_file)
        store(card_maps[gpu][file], value);
}

void publish_gpu(unsigned gpu)
{
    unsigned card = machine.gpus[gpu].physical;
    struct usage sum = {0};
    for (unsigned g = 0; g < machine.gpu_count; g++) {
        if (machine.gpus[g].physical != card)
            continue;
        struct usage part = state_usage(g);
        sum.vram += part.vram;
        sum.visible += part.visible;
        sum.gtt += part.gtt;
        sum.userptr += part.userptr;
    }
    store_card(card, CARD_VRAM, sum.vram);
    store_card(card, CARD_VISIBLE, sum.visible);
    store_card(card, CARD_GTT, sum.gtt);
    store_card(card, CARD_USERPTR, sum.userptr);
    publish_fdinfo(gpu);
}

static void write_file(const char *path, const char *text)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                          0644);
    if (fd < 0)
        return;
    (void)!syscall(SYS_write, fd, text, strlen(text));
    (void)syscall(SYS_close, fd);
}

static void write_number(uint64_t value, const char *end, const char *path)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu%s", (unsigned long long)value, end);
    write_file(path, text);
}

static void create_process(void)
{
    char path[PATH_MAX];
    if (!file_path(path, sizeof path, KFD_PROC "/%d", getpid()) ||
        (mkdir(path, 0755) != 0 && errno != EEXIST))
        return;
    size_t len = strlen(path);
    (void)snprintf(path + len, sizeof path - len, "/queues");
    (void)mkdir(path, 0755);
    (void)snprintf(path + len, sizeof path - len, "/pasid");
    write_number(fdinfo_pasid(getpid()), "\n", path);
    for (unsigned g = 0; g < machine.gpu_count; g++) {
        uint32_t id = machine.gpus[g].gpu_id;
        (void)snprintf(path + len, sizeof path - len, "/vram_%u", id);
        process_maps[g] = map_counter(path, O_CREAT);
        if (process_maps[g] != no_file)
            store(process_maps[g], 0);
        (void)snprintf(path + len, sizeof path - len, "/sdma_%u", id);
        write_number(0, "\n", path);
        (void)snprintf(path + len, sizeof path - len, "/stats_%u", id);
        (void)mkdir(path, 0755);
        (void)snprintf(path + len, sizeof path - len, "/stats_%u/evicted_ms", id);
        write_number(0, "\n", path);
    }
}

void publish_process(unsigned gpu)
{
    if (process_maps[gpu] == NULL)
        create_process();
    const struct slot *mine = state_mine();
    if (mine != NULL && process_maps[gpu] != NULL && process_maps[gpu] != no_file)
        store(process_maps[gpu], mine->gpu[gpu].vram);
}

/* The kernel prints these without a newline. */
void publish_queue(uint32_t id, unsigned gpu, uint32_t type, uint32_t size)
{
    char path[PATH_MAX];
    publish_process(gpu);
    if (!file_path(path, sizeof path, KFD_PROC "/%d/queues/%u", getpid(), id) ||
        (mkdir(path, 0755) != 0 && errno != EEXIST))
        return;
    size_t len = strlen(path);
    (void)snprintf(path + len, sizeof path - len, "/gpuid");
    write_number(machine.gpus[gpu].gpu_id, "", path);
    (void)snprintf(path + len, sizeof path - len, "/type");
    write_number(type, "", path);
    (void)snprintf(path + len, sizeof path - len, "/size");
    write_number(size, "", path);
}

/* Remove a folder of ours, at most `depth` levels, by system calls: opendir() is intercepted. */
static void remove_folder(const char *path, int depth)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                          O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char child[PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        int n = snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (n < 0 || (size_t)n >= sizeof child)
            continue;
        if (unlink(child) != 0 && depth > 0)
            remove_folder(child, depth - 1);
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(path);
}

void publish_queue_gone(uint32_t id)
{
    char path[PATH_MAX];
    if (file_path(path, sizeof path, KFD_PROC "/%d/queues/%u", getpid(), id))
        remove_folder(path, 0);
}

void publish_remove_process(int pid)
{
    char path[PATH_MAX];
    if (file_path(path, sizeof path, KFD_PROC "/%d", pid))
        remove_folder(path, 3);
    if (file_path(path, sizeof path, "/proc/%d", pid))
        remove_folder(path, 2);
}

/* The text first, then the link by which readers find it. */
void publish_fdinfo_open(int fd, unsigned gpu)
{
    char path[PATH_MAX];
    char target[64];
    if (!file_path(path, sizeof path, "/proc/%d", getpid()))
        return;
    size_t len = strlen(path);
    (void)mkdir(path, 0755);
    (void)snprintf(path + len, sizeof path - len, "/fd");
    (void)mkdir(path, 0755);
    (void)snprintf(path + len, sizeof path - len, "/fdinfo");
    (void)mkdir(path, 0755);
    fdinfo_opened(fd, gpu);
    publish_fdinfo(gpu);
    (void)snprintf(path + len, sizeof path - len, "/fd/%d", fd);
    (void)unlink(path);
    (void)snprintf(target, sizeof target, "/dev/dri/renderD%d", machine.gpus[gpu].render_minor);
    (void)!symlink(target, path);
}

/* Written in place, because readers keep it open; complete under its name from the beginning. */
static void store_fdinfo(int fd, const char text[FDINFO_SIZE])
{
    char path[PATH_MAX];
    char fresh[PATH_MAX];
    if (!file_path(path, sizeof path, "/proc/%d/fdinfo/%d", getpid(), fd) ||
        !file_path(fresh, sizeof fresh, "/proc/%d/fdinfo/new", getpid()))
        return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
    bool is_new = file < 0 && errno == ENOENT;
    if (is_new)
        file = (int)syscall(SYS_openat, AT_FDCWD, fresh, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    (void)!pwrite(file, text, FDINFO_SIZE, 0);
    (void)syscall(SYS_close, file);
    if (is_new)
        (void)rename(fresh, path);
}

void publish_fdinfo(unsigned gpu)
{
    int fd = fdinfo_next(-1, gpu);
    const struct slot *mine = fd >= 0 ? state_mine() : NULL;
    for (; mine != NULL && fd >= 0; fd = fdinfo_next(fd, gpu)) {
        char text[FDINFO_SIZE];
        fdinfo_write(text, gpu, fd, &mine->gpu[gpu]);
        store_fdinfo(fd, text);
    }
}

void publish_after_fork(void)
{
    memset(process_maps, 0, sizeof process_maps);
    fdinfo_forget();
}
