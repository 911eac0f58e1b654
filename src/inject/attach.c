/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/attach.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "inject/book_internal.h"
#include "inject/hip.h"
#include "inject/next.h"
#include "inject/raw.h"
#include "inject/settle.h"
#include "inject/terminal.h"

#define MEMFD_NAME "/memfd:rocmcrash-ledger"
/* About the limits on children that are traced from their start (launch/tracer_release.c). */
#define STARTS_PER_S 50u
#define STARTS_BURST 100u
#define REGISTER_SPINS 10000
enum attaching { NOT_YET, IN_WORK, DONE };

#define REGISTERING 1u /* no process that uses a GPU is init */

/* Counts starts by this process and its forks, which share the page: a leaky bucket. */
struct crowd {
    _Atomic uint64_t drained_ns;
    _Atomic uint32_t starts;
};

/* fork() gives this page empty to the child, which thus notices that it is another process. */
struct identity {
    uint32_t pid;           /* of the process in which this library started; 0 = in a child */
    _Atomic uint32_t epoch; /* pid; 0 = not entered */
    _Atomic uint32_t process;
};

static struct {
    _Atomic(struct ledger *) ledger;
    struct identity *identity;
    struct crowd *crowd;
    _Atomic uint32_t attaching; /* enum attaching */
    bool wanted;
    struct preload preload;
    int (*clock)(clockid_t, struct timespec *);
    /* Kept over fork(): the child learns about its parent. */
    uint32_t process, forks;
    bool entered;
} self = {.process = LEDGER_NO_PROCESS};

/* In the first block of TLS: preloaded libraries are there when a program starts. */
static __thread struct attach_thread thread_state __attribute__((tls_model("initial-exec")));

bool attach_wanted(void)
{
    return self.wanted;
}

const struct preload *attach_preload(void)
{
    return &self.preload;
}

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts = {0, 0};
    if (self.clock == NULL || self.clock(id, &ts) != 0)
        (void)raw_call(SYS_clock_gettime, id, &ts, 0, 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t attach_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t attach_coarse_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

/* --- entering the process --- */

static void read_comm(char comm[16])
{
    for (int i = 0; i < 16; i++)
        comm[i] = '\0';
    (void)raw_call(SYS_prctl, 16 /* PR_GET_NAME */, comm, 0, 0);
}

static uint32_t enter(uint32_t pid)
{
    struct book_process p = {
        .pid = (int32_t)pid,
        .parent = self.entered ? self.process : LEDGER_NO_PROCESS,
        .forks = self.entered ? self.forks + 1 : 0,
        .start_ticks = ledger_start_ticks((int32_t)pid),
        .pid_namespace = ledger_pid_namespace(),
        .now_ns = attach_now_ns(),
    };
    /* The leader's name is the program's; a thread's is its own. */
    read_comm(p.comm);
    uint32_t process = book_add_process(self.ledger, &p);
    self.process = process;
    self.forks = p.forks;
    self.entered = true;
    return process;
}

/* 0 = another thread is not done in time; it may have died there. */
static uint32_t wait_until_entered(void)
{
    uint32_t epoch = REGISTERING;
    for (int i = 0; i < REGISTER_SPINS && epoch <= REGISTERING; i++) {
        (void)raw_call(SYS_sched_yield, 0, 0, 0, 0);
        epoch = atomic_load_explicit(&self.identity->epoch, memory_order_acquire);
    }
    return epoch > REGISTERING ? epoch : 0;
}

static uint32_t own_epoch(void)
{
    uint32_t epoch = atomic_load_explicit(&self.identity->epoch, memory_order_acquire);
    if (epoch > REGISTERING)
        return epoch;
    if (epoch == 0 && atomic_compare_exchange_strong(&self.identity->epoch, &epoch, REGISTERING)) {
        uint32_t pid = (uint32_t)raw_call(SYS_getpid, 0, 0, 0, 0);
        SET(self.identity->process, enter(pid));
        /* As init of a namespace the pid is 1: never ready, entered by no thread. */
        atomic_store_explicit(&self.identity->epoch, pid > REGISTERING ? pid : UINT32_MAX,
                              memory_order_release);
        return pid > REGISTERING ? pid : UINT32_MAX;
    }
    return wait_until_entered();
}

struct attach_thread *attach_thread(void)
{
    return &thread_state;
}

bool attach_actor(struct book_actor *actor)
{
    struct ledger *ledger = attach_ledger();
    if (ledger == NULL)
        return false;
    uint32_t epoch = own_epoch();
    struct attach_thread *t = &thread_state;
    if (t->epoch != epoch) {
        *t = (struct attach_thread){.epoch = epoch, .hip_device = t->hip_device};
        t->tid = (int32_t)raw_call(SYS_gettid, 0, 0, 0, 0);
    }
    *actor = (struct book_actor){
        .ledger = ledger,
        .process = epoch != 0 ? atomic_load_explicit(&self.identity->process, memory_order_relaxed)
                              : LEDGER_NO_PROCESS,
        .tid = t->tid,
    };
    return true;
}

/* --- exec --- */

/* True in a vforked child, which shares the memory of its parent. If the parent is a forked child
 * that has not noted its pid yet, the vforked child notes its own pid and is taken for the process.
 * The parent is then taken for a child, which costs only stack. */
bool attach_shares_memory(void)
{
    uint32_t pid = (uint32_t)raw_call(SYS_getpid, 0, 0, 0, 0);
    if (self.identity == NULL)
        return false;
    if (self.identity->pid == 0)
        self.identity->pid = pid;
    return self.identity->pid != pid;
}

static bool is_entered_here(void)
{
    return atomic_load(&self.ledger) != NULL && self.identity->process < LEDGER_PROCESSES &&
           self.identity->epoch > REGISTERING &&
           self.identity->epoch == (uint32_t)raw_call(SYS_getpid, 0, 0, 0, 0);
}

void attach_exec_begins(void)
{
    if (is_entered_here())
        ledger_end_process(self.ledger, self.identity->process, LEDGER_EXECED, attach_now_ns());
}

void attach_exec_failed(void)
{
    if (is_entered_here())
        ledger_revive_process(self.ledger, self.identity->process);
}

bool attach_is_crowded(void)
{
    struct crowd *crowd = self.crowd;
    if (crowd == NULL)
        return false;
    uint64_t now_ns = attach_coarse_ns();
    uint64_t since_ns = atomic_load_explicit(&crowd->drained_ns, memory_order_relaxed);
    uint32_t starts = atomic_load_explicit(&crowd->starts, memory_order_relaxed);
    uint64_t drained = now_ns > since_ns ? (now_ns - since_ns) * STARTS_PER_S / 1000000000u : 0;
    if (drained > 0 &&
        atomic_compare_exchange_strong(&crowd->drained_ns, &since_ns, now_ns)) {
        starts -= drained < starts ? (uint32_t)drained : starts;
        SET(crowd->starts, starts);
    }
    if (starts >= STARTS_BURST)
        return true;
    ADD(crowd->starts, 1);
    return false;
}

void attach_count_left_out(enum preload_answer answer)
{
    struct ledger *ledger = attach_ledger();
    if (ledger != NULL)
        ADD(ledger->left_out[answer], 1);
}

/* --- the start --- */

struct place {
    uint64_t pid, fd, nonce[2];
    uint64_t pty, real, asked, asked_inode; /* struct terminal_pair */
};

/* "4711:12:0123456789abcdef:fedcba9876543210:8801:8800:17:4242" */
static struct place parse_config(const char *text)
{
    struct place p = {0, 0, {0, 0}, 0, 0, 0, 0};
    uint64_t *fields[] = {&p.pid, &p.fd, &p.nonce[0], &p.nonce[1], &p.pty, &p.real, &p.asked, &p.asked_inode};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = raw_number(&text, i < 2 || i > 5 ? 10 : 16);
        if (*text == ':')
            text++;
    }
    return p;
}

static struct place own_place(void)
{
    return parse_config(self.preload.config + sizeof PRELOAD_CONFIG - 1);
}

/* In another PID namespace the number may belong to another process, and opening its files (a
 * device, a FIFO) may have effects. So read the link first. */
static int open_memory(const struct place *place, const char *name)
{
    char path[64] = "/proc/";
    char link[64];
    size_t n = 6 + raw_put_number(path + 6, place->pid, 10);
    n += raw_put(path + n, sizeof path - n, "/fd/");
    (void)raw_put_number(path + n, place->fd, 10);
    long len = raw_call(SYS_readlinkat, AT_FDCWD, path, link, sizeof link - 1);
    if (len <= 0)
        return -1;
    link[len] = '\0';
    if (!raw_starts(link, name))
        return -1;
    return (int)raw_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOCTTY, 0);
}

static struct ledger *map_ledger(const struct place *place)
{
    struct stat st;
    struct ledger *ledger = NULL;
    int fd = open_memory(place, MEMFD_NAME);
    if (fd < 0)
        return NULL;
    if (raw_call(SYS_fstat, fd, &st, 0, 0) == 0 && st.st_size == (off_t)sizeof *ledger)
        ledger = raw_map(sizeof *ledger, MAP_SHARED, fd, 0);
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    if (ledger == NULL)
        return NULL;
    if (ledger->magic == LEDGER_MAGIC && ledger->version == LEDGER_VERSION &&
        ledger->size == sizeof *ledger && ledger->nonce[0] == place->nonce[0] &&
        ledger->nonce[1] == place->nonce[1]) {
        /* Core files need no copy of it. */
        (void)raw_call(SYS_madvise, ledger, sizeof *ledger, MADV_DONTDUMP, 0);
        return ledger;
    }
    (void)raw_call(SYS_munmap, ledger, sizeof *ledger, 0, 0);
    return NULL;
}

static struct crowd *map_crowd(void)
{
    return raw_map(4096, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static struct identity *map_identity(void)
{
    struct identity *identity = raw_map(4096, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (identity == NULL || raw_call(SYS_madvise, identity, 4096, MADV_WIPEONFORK, 0) == 0)
        return identity;
    (void)raw_call(SYS_munmap, identity, 4096, 0, 0); /* before Linux 4.14 */
    return NULL;
}

/* Another thread may be attaching, or may have died while attaching: then this event is not
 * noted. */
static void attach(void)
{
    uint32_t not_yet = NOT_YET;
    if (!atomic_compare_exchange_strong(&self.attaching, &not_yet, IN_WORK)) {
        uint32_t in_work = IN_WORK;
        for (int i = 0; i < REGISTER_SPINS && atomic_load(&self.attaching) == IN_WORK; i++)
            (void)raw_call(SYS_sched_yield, 0, 0, 0, 0);
        /* In a child that was forked at that moment no thread is attaching. */
        (void)atomic_compare_exchange_strong(&self.attaching, &in_work, DONE);
        return;
    }
    struct place place = own_place();
    struct ledger *ledger = map_ledger(&place);
    if (ledger != NULL)
        ADD(ledger->attached, 1);
    atomic_store(&self.ledger, ledger);
    atomic_store(&self.attaching, DONE);
}

struct ledger *attach_ledger(void)
{
    struct ledger *ledger = atomic_load_explicit(&self.ledger, memory_order_acquire);
    if (ledger == NULL && self.wanted && atomic_load(&self.attaching) != DONE) {
        attach();
        ledger = atomic_load_explicit(&self.ledger, memory_order_acquire);
    }
    return ledger;
}

__attribute__((constructor)) static void start(void)
{
    const char *own_path = next_own_path();
    next_resolve();
    const char *config = environ != NULL ? preload_remove(environ, own_path) : NULL;
    if (config == NULL || raw_length(config) + sizeof PRELOAD_CONFIG > sizeof self.preload.config)
        return;
    *(void **)&self.clock = next_clock();
    (void)preload_set_path(&self.preload, own_path);
    size_t n = raw_put(self.preload.config, sizeof self.preload.config, PRELOAD_CONFIG);
    (void)raw_put(self.preload.config + n, sizeof self.preload.config - n, config);
    self.identity = map_identity();
    if (self.identity == NULL)
        return;
    self.identity->pid = (uint32_t)raw_call(SYS_getpid, 0, 0, 0, 0);
    self.crowd = map_crowd();
    self.wanted = true;
    struct place place = own_place();
    terminal_init(&(struct terminal_pair){
        .pty = (uint32_t)place.pty, .real = (uint32_t)place.real,
        .supervisor = (uint32_t)place.pid, .asked = (uint32_t)place.asked, .asked_inode = place.asked_inode});
    hip_look();
}
