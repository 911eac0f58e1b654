/* SPDX-License-Identifier: Apache-2.0 */
#include "record/ledger.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "record/shared.h"

_Static_assert(offsetof(struct shared, impact_answer) - offsetof(struct shared, impact_request) ==
                   offsetof(struct ledger_counters, answer),
               "the library sees these words as struct ledger_counters");
_Static_assert(offsetof(struct shared, impact_pid) - offsetof(struct shared, impact_request) ==
                   offsetof(struct ledger_counters, pid),
               "the library sees these words as struct ledger_counters");

struct ledger *ledger_create(int *ret_fd, struct rc_err *err)
{
    int fd = memfd_create("rocmcrash-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        (void)rc_err_errno(err, -errno, "cannot create the ledger");
        return NULL;
    }
    struct ledger *ledger = MAP_FAILED;
    int r = shared_set_size(fd, sizeof *ledger);
    if (r == 0 && (ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                 0)) == MAP_FAILED)
        r = -errno;
    if (r < 0) {
        (void)rc_err_errno(err, r, "cannot make the ledger");
        (void)close(fd);
        return NULL;
    }
    uint64_t nonce[2] = {0, 0}; /* 0 is valid, too: the name and the size are checked as well */
    (void)!getrandom(nonce, sizeof nonce, GRND_NONBLOCK);
    memcpy(ledger->nonce, nonce, sizeof nonce);
    ledger->magic = LEDGER_MAGIC;
    ledger->version = LEDGER_VERSION;
    ledger->size = sizeof *ledger;
    ledger->start_ns = clock_mono_ns();
    *ret_fd = fd;
    return ledger;
}

const struct ledger *ledger_open(int fd, struct rc_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size != (off_t)sizeof(struct ledger)) {
        (void)rc_err_set(err, -EINVAL, "no ledger of this version: its size is another");
        return NULL;
    }
    struct ledger *ledger = mmap(NULL, sizeof *ledger, PROT_READ, MAP_SHARED, fd, 0);
    if (ledger == MAP_FAILED) {
        (void)rc_err_errno(err, -errno, "cannot map the ledger");
        return NULL;
    }
    if (ledger->magic == LEDGER_MAGIC && ledger->version == LEDGER_VERSION &&
        ledger->size == sizeof *ledger)
        return ledger;
    (void)munmap(ledger, sizeof *ledger);
    (void)rc_err_set(err, -EINVAL, "not a ledger, or of another version");
    return NULL;
}

#define COPY_SLACK 4096u /* a copy is made while the program writes: the head may be older than the records */
#define ACCOUNT_MAX ((int64_t)1 << 50)

static bool is_in_place(uint64_t number, uint64_t head, uint32_t slot, uint32_t capacity)
{
    return number == 0 || (number <= head + COPY_SLACK && ledger_slot_of(number, capacity) == slot);
}

static bool are_refusals_in_place(const struct ledger *ledger)
{
    bool in_place = true;
    for (uint32_t i = 0; i < LEDGER_REFUSALS && in_place; i++)
        in_place = is_in_place(ledger->refusals[i].number, ledger->refusals_head, i, LEDGER_REFUSALS);
    for (uint32_t i = 0; i < LEDGER_HIP_REFUSALS && in_place; i++)
        in_place = is_in_place(ledger->hip_refusals[i].number, ledger->hip_refusals_head, i, LEDGER_HIP_REFUSALS);
    return in_place;
}

static bool are_counts_possible(const struct ledger *ledger)
{
    bool possible = true;
    for (uint32_t i = 0; i < LEDGER_PROCESSES && possible; i++) {
        const struct ledger_process *p = &ledger->processes[i];
        possible = LEDGER_STATE(p->state) != LEDGER_USED ||
                   (p->refusals <= ledger->refusals_head + COPY_SLACK &&
                    p->hip_refusals <= ledger->hip_refusals_head + COPY_SLACK);
    }
    return possible;
}

static bool are_sizes_possible(const struct ledger *ledger)
{
    bool possible = true;
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS && possible; i++) {
        const struct ledger_account *a = &ledger->accounts[i];
        possible = LEDGER_STATE(a->state) != LEDGER_USED ||
                   (a->kind < LEDGER_KINDS && a->live < ACCOUNT_MAX && a->live > -ACCOUNT_MAX && a->peak < ACCOUNT_MAX && a->peak >= 0);
    }
    return possible;
}

const char *ledger_damage(const struct ledger *ledger)
{
    return ledger->refusals_head >> 48 != 0 || ledger->hip_refusals_head >> 48 != 0 || !are_refusals_in_place(ledger)
               ? "a refusal is where none can be"
           : !are_counts_possible(ledger) ? "one process has more refusals than all have"
           : !are_sizes_possible(ledger)  ? "a process holds more than a PiB"
                                          : NULL;
}

#define HIP_OUT_OF_MEMORY 2 /* hipErrorOutOfMemory */

uint32_t ledger_final_refusals(const struct ledger *ledger, uint64_t since_ns)
{
    uint32_t count = 0;
    /* Do not touch pages that nobody wrote: a read would allocate them. */
    for (uint32_t i = 0; i < LEDGER_REFUSALS && i < ledger->refusals_head; i++) {
        const struct ledger_refusal *r = &ledger->refusals[i];
        /* The first refusal of a row is marked when the row was satisfied. EBADF comes from a child
         * that uses its parent's descriptor; it means no lack of memory. */
        count += r->number != 0 && r->retry_of == 0 && r->satisfied_ns == 0 &&
                 r->time_ns >= since_ns && r->error != EBADF;
    }
    for (uint32_t i = 0; i < LEDGER_HIP_REFUSALS && i < ledger->hip_refusals_head; i++) {
        const struct ledger_hip_refusal *r = &ledger->hip_refusals[i];
        count += r->number != 0 && r->error == HIP_OUT_OF_MEMORY && r->kernel_refusals == 0 &&
                 r->time_ns >= since_ns;
    }
    return count;
}

bool ledger_has_allocations(const struct ledger *ledger)
{
    bool has = false;
    for (uint32_t i = 0; i < LEDGER_PROCESSES && ledger->processes[i].state != LEDGER_EMPTY && !has; i++)
        has = ledger->processes[i].allocations > 0;
    return has;
}

void ledger_close(const struct ledger *ledger)
{
    if (ledger != NULL)
        (void)munmap((void *)(uintptr_t)ledger, sizeof *ledger);
}
