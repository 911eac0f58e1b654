/* SPDX-License-Identifier: Apache-2.0 */
/* The processes and GPUs of the ledger. */
#include "inject/book_internal.h"
#include "inject/settle.h"

#define GONE_TRIES 3

/* --- processes and GPUs --- */

/* Makes the slots of an ended process free for another: the table is full. */
static void purge(struct ledger *ledger, uint32_t process)
{
#define PURGE(rows, count)                                                                         \
    for (uint32_t i = 0; i < (count); i++) {                                                       \
        uint32_t word = atomic_load_explicit(&(rows)[i].state, memory_order_acquire);              \
        if (LEDGER_STATE(word) == LEDGER_USED && GET((rows)[i].process) == process)                \
            (void)atomic_compare_exchange_strong(&(rows)[i].state, &word,                          \
                                                 (word & ~0xffu) | LEDGER_FREED);                  \
    }
    PURGE(ledger->accounts, LEDGER_ACCOUNTS)
    PURGE(ledger->sizes, LEDGER_SIZES)
    PURGE(ledger->live, LEDGER_LIVE)
#undef PURGE
}

static uint32_t oldest_ended(const struct ledger *ledger)
{
    uint32_t found = BOOK_NONE;
    uint64_t oldest_ns = UINT64_MAX;
    for (uint32_t i = 0; i < LEDGER_PROCESSES; i++) {
        const struct ledger_process *p = &ledger->processes[i];
        uint64_t ended_ns = atomic_load_explicit(&p->ended_ns, memory_order_acquire);
        if (LEDGER_STATE(p->state) == LEDGER_USED && p->life != LEDGER_ALIVE && ended_ns != 0 &&
            ended_ns < oldest_ns) {
            oldest_ns = ended_ns;
            found = i;
        }
    }
    return found;
}

static uint32_t claim_process(struct ledger *ledger, uint64_t now_ns, uint32_t *ret_word)
{
    if (atomic_load(&ledger->processes_used) < LEDGER_PROCESSES) {
        uint32_t at = ADD(ledger->processes_used, 1);
        if (at < LEDGER_PROCESSES) {
            *ret_word = book_claim(&ledger->processes[at].state, LEDGER_EMPTY);
            return *ret_word != 0 ? at : BOOK_NONE;
        }
        atomic_store(&ledger->processes_used, LEDGER_PROCESSES);
    }
    ledger_settle(ledger, now_ns);
    for (int i = 0; i < GONE_TRIES; i++) {
        uint32_t at = oldest_ended(ledger);
        if (at == BOOK_NONE)
            break;
        uint32_t seen = atomic_load(&ledger->processes[at].state);
        *ret_word =
            LEDGER_STATE(seen) == LEDGER_USED ? book_claim(&ledger->processes[at].state, seen) : 0;
        if (*ret_word != 0) {
            purge(ledger, at);
            return at;
        }
    }
    return BOOK_NONE;
}

/* An earlier process with the same number: it died, or became another program by an exec that we
 * did not see. */
static void end_namesakes(struct ledger *ledger, const struct book_process *process)
{
    for (uint32_t i = 0; i < LEDGER_PROCESSES; i++) {
        struct ledger_process *p = &ledger->processes[i];
        if (LEDGER_STATE(atomic_load_explicit(&p->state, memory_order_acquire)) == LEDGER_USED &&
            GET(p->pid) == process->pid && GET(p->pid_namespace) == process->pid_namespace)
            ledger_end_process(ledger, i,
                               GET(p->start_ticks) == process->start_ticks ? LEDGER_EXECED
                                                                           : LEDGER_ENDED,
                               process->now_ns);
    }
}

uint32_t book_add_process(struct ledger *ledger, const struct book_process *process)
{
    uint32_t word = 0;
    end_namesakes(ledger, process);
    uint32_t at = claim_process(ledger, process->now_ns, &word);
    if (at == BOOK_NONE) {
        ADD(ledger->lost.processes, 1);
        return LEDGER_NO_PROCESS;
    }
    struct ledger_process *p = &ledger->processes[at];
    PUT(p->pid, process->pid);
    PUT(p->parent, (uint16_t)process->parent);
    PUT(p->forks, (uint16_t)process->forks);
    PUT(p->start_ticks, process->start_ticks);
    PUT(p->pid_namespace, process->pid_namespace);
    PUT(p->seen_ns, process->now_ns);
    for (size_t i = 0; i < sizeof p->comm; i++)
        PUT(p->comm[i], process->comm[i]);
    SET(p->life, LEDGER_ALIVE);
    SET(p->ended_ns, 0);
    SET(p->allocations, 0);
    SET(p->frees, 0);
    SET(p->refusals, 0);
    SET(p->hip_refusals, 0);
    SET(p->unknown_frees, 0);
    book_publish(&p->state, word);
    return at;
}

static bool gpu_has(const struct ledger_gpu *gpu, uint32_t kfd_gpu_id, uint32_t minor)
{
    return kfd_gpu_id != 0
               ? atomic_load_explicit(&gpu->kfd_gpu_id, memory_order_relaxed) == kfd_gpu_id
               : atomic_load_explicit(&gpu->render_minor, memory_order_relaxed) == minor;
}

static uint8_t find_gpu(struct ledger *ledger, uint32_t kfd_gpu_id, uint32_t minor)
{
    for (uint32_t i = 0; i < LEDGER_GPUS; i++) {
        struct ledger_gpu *gpu = &ledger->gpus[i];
        uint32_t seen = book_state(&gpu->state);
        if (LEDGER_STATE(seen) == LEDGER_USED && gpu_has(gpu, kfd_gpu_id, minor))
            return (uint8_t)i;
        if (LEDGER_STATE(seen) != LEDGER_EMPTY)
            continue;
        uint32_t word = book_claim(&gpu->state, seen);
        if (word == 0) { /* another thread was faster, maybe with the same GPU: look again */
            i--;
            continue;
        }
        SET(gpu->kfd_gpu_id, kfd_gpu_id);
        SET(gpu->render_minor, minor);
        ADD(ledger->gpus_used, 1);
        book_publish(&gpu->state, word);
        return (uint8_t)i;
    }
    ADD(ledger->lost.gpus, 1);
    return LEDGER_NO_GPU;
}

uint8_t book_gpu_by_kfd(struct ledger *ledger, uint32_t kfd_gpu_id)
{
    return kfd_gpu_id != 0 ? find_gpu(ledger, kfd_gpu_id, 0) : LEDGER_NO_GPU;
}

uint8_t book_gpu_by_minor(struct ledger *ledger, uint32_t render_minor)
{
    return render_minor != 0 ? find_gpu(ledger, 0, render_minor) : LEDGER_NO_GPU;
}

void book_join_gpu(struct ledger *ledger, uint32_t kfd_gpu_id, uint32_t render_minor)
{
    uint8_t at = book_gpu_by_kfd(ledger, kfd_gpu_id);
    if (at == LEDGER_NO_GPU || render_minor == 0)
        return;
    for (uint32_t i = 0; i < LEDGER_GPUS; i++) {
        struct ledger_gpu *other = &ledger->gpus[i];
        if (i != at && LEDGER_STATE(book_state(&other->state)) == LEDGER_USED &&
            gpu_has(other, 0, render_minor)) {
            SET(other->same_as, at + 1u);
            SET(ledger->gpus[at].same_as, i + 1u);
            return;
        }
    }
    SET(ledger->gpus[at].render_minor, render_minor);
}
