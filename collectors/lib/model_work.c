/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in the collector's child of the finisher. Two rounds over the same table: first headers and
 * names of all files, which are cheap and tell most; then hashes, small files first. So, when the
 * budget ends, as many files as possible have a full hash, and only the big ones are cut.
 */
#include "collectors/lib/model_work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"

#define WORKERS_MAX 16
#define RESULT_FD 3

#ifdef ROCMCRASH_COVERAGE
void __gcov_dump(void);
#define WORKER_EXIT(code) (__gcov_dump(), _exit(code))
#else
#define WORKER_EXIT(code) _exit(code)
#endif

struct table {
    atomic_uint next_header;
    atomic_bool ready[MODEL_MAX];  /* its header was read */
    atomic_bool hashed[MODEL_MAX]; /* by the first worker that found it ready */
    uint16_t by_size[MODEL_MAX];
    struct model models[MODEL_MAX];
};

static struct table *table_of(struct model *models)
{
    return (struct table *)(void *)((char *)models - offsetof(struct table, models));
}

struct model *model_table_new(void)
{
    struct table *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return t == MAP_FAILED ? NULL : t->models;
}

void model_table_free(struct model *models)
{
    if (models != NULL)
        (void)munmap(table_of(models), sizeof(struct table));
}

static uint64_t stamp_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static void trouble_errno(struct model *m, const char *what, int error)
{
    if (m->trouble[0] == '\0')
        (void)snprintf(m->trouble, sizeof m->trouble, "%s: %s", what, strerror(error));
}

/* Opens the file and fills *st. The descriptor, or -1 with m->trouble set. */
static int open_model(struct model *m, struct stat *st)
{
    int fd = fs_open_regular(m->path);
    if (fd < 0) {
        trouble_errno(m, "cannot open", -fd);
        return -1;
    }
    if (fstat(fd, st) != 0) {
        trouble_errno(m, "cannot stat", errno);
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void read_header(struct model *m, const struct hash_cache *cache)
{
    struct stat st;
    RC_AUTO_CLOSE int fd = open_model(m, &st);
    if (fd < 0)
        return;
    m->dev = st.st_dev;
    m->ino = st.st_ino;
    m->size = (uint64_t)st.st_size;
    m->mtime_ns = stamp_ns(&st.st_mtim);
    m->ctime_ns = stamp_ns(&st.st_ctim);
    m->allocated_bytes = (uint64_t)st.st_blocks * 512;
    hub_identify(m->path, &m->hub);
    const char *name = m->hub.file[0] != '\0' ? m->hub.file : m->path;
    weights_read(fd, m->size, name, &m->weights);
    m->header_read = true;
    const char *known = hash_cache_find(cache, &st);
    if (known != NULL) {
        memcpy(m->sha256, known, sizeof m->sha256);
        m->hash = MODEL_HASH_CACHED;
    }
}

static bool has_changed(const struct model *m, const struct stat *st)
{
    return (uint64_t)st->st_size != m->size || stamp_ns(&st->st_mtim) != m->mtime_ns ||
           stamp_ns(&st->st_ctim) != m->ctime_ns;
}

static void hash_model(struct model *m, const struct model_work *work, struct hash_budget *budget)
{
    struct stat st;
    m->hash_tried = true;
    RC_AUTO_CLOSE int fd = open_model(m, &st);
    if (fd < 0)
        return;
    char sha256[HASH_SHA256_HEX] = "";
    char git[HASH_SHA1_HEX] = "";
    bool small = m->size <= 2 * HASH_END_BYTES; /* its two ends are the whole file */
    budget->deadline_mono_ns = small ? work->end_mono_ns : work->budget_mono_ns;
    enum model_hash kind = MODEL_HASH_FULL;
    int r = hash_file(fd, m->size, budget, sha256, m->hub.kind == HUB_GIT_BLOB ? git : NULL);
    if (r == -ETIME && !small) {
        struct hash_budget rest = {.deadline_mono_ns = work->end_mono_ns};
        kind = MODEL_HASH_ENDS;
        r = hash_ends(fd, m->size, &rest, sha256);
    }
    if (fstat(fd, &st) == 0 && (r == -EBUSY || has_changed(m, &st))) {
        m->changed_hashing = true; /* the file changed while it was hashed */
        return;
    }
    if (r == -ETIME) {
        (void)snprintf(m->trouble, sizeof m->trouble, "not hashed: the time budget had ended");
    } else if (r < 0) {
        trouble_errno(m, "cannot hash", -r);
    } else {
        memcpy(m->sha256, sha256, sizeof m->sha256);
        memcpy(m->git_blob, git, sizeof m->git_blob);
        m->hash = kind;
    }
}

static void work_loop(struct table *t, const struct model_work *work)
{
    for (unsigned i; (i = atomic_fetch_add(&t->next_header, 1)) < work->count;) {
        struct model *m = &t->models[t->by_size[i]];
        if (!m->there || clock_mono_ns() >= work->end_mono_ns)
            continue;
        read_header(m, work->cache);
        atomic_store(&t->ready[t->by_size[i]], m->header_read);
    }
    /* Do not wait for a header that another worker still reads: that worker hashes the file
     * afterwards. */
    struct hash_budget budget = {0};
    for (unsigned i = 0; i < work->count; i++) {
        uint16_t which = t->by_size[i];
        struct model *m = &t->models[which];
        if (!atomic_load(&t->ready[which]) || atomic_exchange(&t->hashed[which], true))
            continue;
        /* git ids are not in the cache, and such files are small */
        if (m->hash == MODEL_HASH_NONE || m->hub.kind == HUB_GIT_BLOB)
            hash_model(m, work, &budget);
    }
}

/* A grandchild must not hold our descriptors, above all not the runner's status pipe. */
static void __attribute__((noreturn))
worker(struct table *t, const struct model_work *work, int result, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (dup2(result, RESULT_FD) != RESULT_FD)
        _exit(1);
    close_descriptors(RESULT_FD + 1, ~0u);
    work_loop(t, work);
    WORKER_EXIT(0);
}

static unsigned usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

static const struct model *sort_base;

static int compare_sizes(const void *a, const void *b)
{
    const struct model *x = &sort_base[*(const uint16_t *)a];
    const struct model *y = &sort_base[*(const uint16_t *)b];
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void sort_jobs(struct table *t, size_t count)
{
    for (size_t i = 0; i < count; i++)
        t->by_size[i] = (uint16_t)i;
    sort_base = t->models;
    qsort(t->by_size, count, sizeof t->by_size[0], compare_sizes);
    atomic_store(&t->next_header, 0);
}

/* The pipe ends when the last worker is gone. */
static void wait_until(int result, uint64_t end_mono_ns)
{
    char byte;
    for (;;) {
        uint64_t now = clock_mono_ns();
        if (now >= end_mono_ns)
            return;
        struct pollfd p = {.fd = result, .events = POLLIN};
        int n = poll(&p, 1, (int)((end_mono_ns - now) / 1000000u) + 1);
        if (n > 0 && read(result, &byte, 1) == 0)
            return;
    }
}

/* Reaps all; kills after end + 0.2 s; a worker that does not die even then is abandoned. */
static int reap(const pid_t *pids, unsigned started, int result, uint64_t end_mono_ns)
{
    int unfinished = 0;
    wait_until(result, end_mono_ns + 200000000u);
    bool late = clock_mono_ns() >= end_mono_ns + 200000000u;
    for (unsigned i = 0; late && i < started; i++)
        (void)kill(pids[i], SIGKILL); /* unreaped, so still ours */
    if (late)
        wait_until(result, clock_mono_ns() + 100000000u);
    for (unsigned i = 0; i < started; i++) {
        int status = 0;
        /* The pipe ends before the exit is complete: block, unless we had to kill. */
        pid_t got;
        do
            got = waitpid(pids[i], &status, late ? WNOHANG : 0);
        while (got < 0 && errno == EINTR);
        if (got != pids[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            unfinished++;
    }
    return unfinished;
}

static void explain_unfinished(const struct model_work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct model *m = &work->models[i];
        if (!m->there || m->trouble[0] != '\0')
            continue;
        if (!m->header_read)
            (void)snprintf(m->trouble, sizeof m->trouble, "reading it did not end in time");
        else if (m->hash == MODEL_HASH_NONE && !m->changed_hashing)
            (void)snprintf(m->trouble, sizeof m->trouble, "hashing it did not end in time");
    }
}

int model_work_run(const struct model_work *work)
{
    struct table *t = table_of(work->models);
    pid_t pids[WORKERS_MAX] = {0};
    int ends[2];
    sort_jobs(t, work->count);
    unsigned wanted = work->workers != 0 ? work->workers : usable_cores();
    wanted = wanted > WORKERS_MAX ? WORKERS_MAX : wanted;
    wanted = wanted > work->count ? (unsigned)work->count : wanted;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    unsigned started = 0;
    int failure = 0;
    pid_t self = getpid();
    while (started < wanted) {
        pid_t pid = fork();
        if (pid == 0)
            worker(t, work, ends[1], self);
        if (pid < 0) {
            failure = -errno;
            break;
        }
        pids[started++] = pid;
    }
    (void)close(ends[1]);
    int unfinished = reap(pids, started, ends[0], work->end_mono_ns);
    (void)close(ends[0]);
    explain_unfinished(work);
    return started == 0 && work->count > 0 ? failure : unfinished;
}
