/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/settle.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "inject/book_internal.h"
#include "inject/raw.h"

#define FIELD_THREADS 20
#define FIELD_START 22

/* "4711 (a.out) S 4710 ... 1 0 123456 ...": fields are counted after the last parenthesis. */
static uint64_t parse_stat(const char *text, size_t len)
{
    size_t at = len;
    while (at > 0 && text[at - 1] != ')')
        at--;
    if (at == 0 || at + 1 >= len)
        return 0;
    const char *p = text + at + 1;
    char state = *p;
    uint64_t threads = 0;
    for (int field = 3; *p != '\0'; field++) {
        const char *word = p;
        if (field == FIELD_THREADS)
            threads = raw_number(&word, 10);
        /* A leader that has ended shows Z while its threads still run. */
        if (field == FIELD_START)
            return (state == 'Z' || state == 'X') && threads <= 1 ? 0 : raw_number(&word, 10);
        while (*p != '\0' && *p != ' ')
            p++;
        while (*p == ' ')
            p++;
    }
    return 0;
}

uint64_t ledger_start_ticks(int32_t pid)
{
    char path[32] = "/proc/";
    char text[1024];
    size_t n = 6 + raw_put_number(path + 6, (uint64_t)pid, 10);
    (void)raw_put(path + n, sizeof path - n, "/stat");
    long fd = raw_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long len = raw_call(SYS_read, fd, text, sizeof text - 1, 0);
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    if (len <= 0)
        return 0;
    text[len] = '\0';
    return parse_stat(text, (size_t)len);
}

uint64_t ledger_pid_namespace(void)
{
    struct stat st;
    if (raw_call(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) != 0)
        return 0;
    return st.st_ino;
}

static void move_gpu_sums(struct ledger *ledger, uint32_t process, uint32_t gone)
{
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS; i++) {
        struct ledger_account *a = &ledger->accounts[i];
        uint32_t before = !gone;
        if (LEDGER_STATE(atomic_load_explicit(&a->state, memory_order_acquire)) != LEDGER_USED ||
            GET(a->process) != process || GET(a->gpu) >= LEDGER_GPUS ||
            !atomic_compare_exchange_strong(&a->gone, &before, gone))
            continue;
        int64_t live = atomic_load_explicit(&a->live, memory_order_relaxed);
        ADD(ledger->gpus[GET(a->gpu)].live[GET(a->kind)], gone ? -live : live);
    }
}

void ledger_end_process(struct ledger *ledger, uint32_t process, enum ledger_process_state how,
                        uint64_t now_ns)
{
    struct ledger_process *p = &ledger->processes[process];
    uint32_t alive = LEDGER_ALIVE;
    if (!atomic_compare_exchange_strong(&p->life, &alive, how))
        return;
    SET(p->ended_ns, now_ns);
    move_gpu_sums(ledger, process, 1);
}

void ledger_revive_process(struct ledger *ledger, uint32_t process)
{
    struct ledger_process *p = &ledger->processes[process];
    uint32_t execed = LEDGER_EXECED;
    if (!atomic_compare_exchange_strong(&p->life, &execed, LEDGER_ALIVE))
        return;
    SET(p->ended_ns, 0);
    move_gpu_sums(ledger, process, 0);
}

/* /proc may be hidden or absent: then the number alone decides. */
static bool is_gone(const struct ledger_process *p)
{
    int32_t pid = GET(p->pid);
    if (raw_call(SYS_kill, pid, 0, 0, 0) == -3 /* ESRCH */)
        return true;
    uint64_t ticks = ledger_start_ticks(pid);
    if (ticks != 0)
        return GET(p->start_ticks) != 0 && ticks != GET(p->start_ticks);
    return ledger_start_ticks((int32_t)raw_call(SYS_getpid, 0, 0, 0, 0)) != 0;
}

void ledger_settle(struct ledger *ledger, uint64_t now_ns)
{
    /* A number of another namespace means another process here. */
    uint64_t namespace = ledger_pid_namespace();
    uint32_t used = atomic_load_explicit(&ledger->processes_used, memory_order_acquire);
    SET(ledger->settled_ns, now_ns);
    for (uint32_t i = 0; i < used && i < LEDGER_PROCESSES; i++) {
        struct ledger_process *p = &ledger->processes[i];
        if (LEDGER_STATE(atomic_load_explicit(&p->state, memory_order_acquire)) == LEDGER_USED &&
            atomic_load_explicit(&p->life, memory_order_relaxed) == LEDGER_ALIVE &&
            GET(p->pid_namespace) == namespace && is_gone(p))
            ledger_end_process(ledger, i, LEDGER_ENDED, now_ns);
    }
}
