/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/room.h"
#include "launch/awaits_input.h"
#include "launch/subject.h"
#include "launch/tree_scan.h"
#include "record/shared.h"

#define SUBJECTS_MAX 8 /* as many as impact_copy_live() keeps of a run */
#define BETWEEN_LOOKS_NS 900000000u
#define FILES_MS 300 /* to find CPython's symbols in its files; below what the supervisor grants us */

/* The processes of the standstill that began at `since_ns`. */
static struct {
    uint64_t since_ns, looked_ns; /* 0 = none */
    uint32_t looks, count;
    uint32_t request; /* the last one that was seen */
    struct subject subjects[SUBJECTS_MAX];
    bool copied[SUBJECTS_MAX];
} still;

static void forget(void)
{
    for (uint32_t i = 0; i < still.count; i++) {
        subject_release(&still.subjects[i]);
        still.copied[i] = false;
    }
    still.count = still.looks = 0;
    still.since_ns = 0;
    tracer.shared->still_looks = 0;
}

static void note_if_awaits_input(pid_t pid, uint64_t since_ns)
{
    if (awaits_input(pid))
        tracer.shared->still_awaited_ns = since_ns;
}

/* Not after a signal that asked it to end: then its handler runs, or it is ending. */
static void look_for_input(void)
{
    if (still.since_ns == 0 || tracer.shared->still_began_ns == still.since_ns)
        return;
    for (uint32_t i = 0; i < still.count; i++)
        note_if_awaits_input(still.subjects[i].pid, still.since_ns);
}

/* Reads /proc only: no process is stopped. */
static void look_first(uint64_t since_ns)
{
    static pid_t pids[TREE_SCAN_MAX];
    uint32_t found = tree_scan_list(tracer.target, pids, TREE_SCAN_MAX);
    forget();
    still.since_ns = since_ns;
    still.looked_ns = clock_mono_ns();
    for (uint32_t i = 0; i < found && still.count < SUBJECTS_MAX; i++) {
        struct subject *s = &still.subjects[still.count++];
        s->pid = pids[i];
        /* The files of one program are searched once: a folder that does not answer costs us once. */
        subject_look(s, FILES_MS / (i + 1));
        tracer.shared->helpers[HELPER_TRACER].work_pending_ns = clock_mono_ns();
    }
    still.looks = 1;
    look_for_input();
}

static void look_again(void)
{
    for (uint32_t i = 0; i < still.count; i++)
        subject_look_again(&still.subjects[i]);
    still.looks = 2;
    look_for_input();
}

/* Continues the stopped threads at once. The loop would do so only after the other processes are copied. */
static void let_go(struct tracees *t, const struct traced_process *process)
{
    static pid_t *tids;
    uint32_t count = 0;
    if (tids == NULL)
        tids = room_for(TRACEE_THREADS_MAX * sizeof *tids);
    if (tids == NULL)
        return; /* the loop finds them */
    for (uint32_t i = 0; i < TRACEE_THREADS_MAX; i++)
        if (t->threads[i].tid != 0 && &t->processes[t->threads[i].process] == process)
            tids[count++] = t->threads[i].tid;
    for (uint32_t i = 0; i < count; i++) {
        siginfo_t si = {.si_pid = 0};
        if (waitid(P_PID, (id_t)tids[i], &si, WSTOPPED | WNOHANG | WNOWAIT | __WALL) == 0 &&
            si.si_pid == tids[i] && si.si_code == CLD_TRAPPED)
            tracer_handle_stop(tids[i], si.si_status);
    }
}

static void copy_one(uint32_t index, bool at_its_signal)
{
    const struct subject *s = &still.subjects[index];
    struct traced_process *process = tracee_find_process(tracer.tracees, s->pid);
    if (still.copied[index])
        return;
    still.copied[index] = true;
    if (process != NULL)
        process->rate = (struct rate){.drained_ns = clock_mono_ns()}; /* these stops are ours */
    subject_copy(s, tracer.shared, tracer.tracees, process, at_its_signal ? NULL : let_go);
    tracer.shared->helpers[HELPER_TRACER].work_pending_ns = clock_mono_ns();
}

static void copy_all(void)
{
    for (uint32_t i = 0; i < still.count; i++)
        copy_one(i, false);
}

/* An untraced process may take a signal unseen by us: if it is ending, its copy is what was seen before. */
static void copy_untraced(void)
{
    for (uint32_t i = 0; i < still.count; i++)
        if (tracee_find_process(tracer.tracees, still.subjects[i].pid) == NULL)
            copy_one(i, false);
}

/* A look at a program that works, too, where somebody asks for one: --bundle-at. */
void tracer_still_turn(void)
{
    struct shared *s = tracer.shared;
    uint64_t since_ns = s->still_since_ns;
    uint32_t request = s->look_request;
    bool is_asked = s->look_answer != request;
    bool is_new = since_ns != 0 ? since_ns != still.since_ns : is_asked && request != still.request;
    if (is_new)
        look_first(since_ns);
    else if (since_ns == 0 && !is_asked && s->still_asked_ns == 0)
        forget();
    else if (still.looks == 1 && clock_mono_ns() - still.looked_ns >= BETWEEN_LOOKS_NS)
        look_again();
    still.request = request;
    if (still.looks == 2 && is_asked) {
        copy_all();
        s->look_answer = request;
    }
    if (s->still_asked_ns != 0 && s->still_began_ns == still.since_ns)
        copy_untraced();
    s->still_looks = still.looks;
}

void tracer_still_signal(const struct traced_process *process, int signo)
{
    struct shared *s = tracer.shared;
    uint64_t since_ns = s->still_since_ns;
    if (since_ns == 0 || (signo != SIGINT && signo != SIGTERM && signo != SIGHUP && signo != SIGQUIT))
        return;
    if (still.since_ns != since_ns) /* the first look has not been yet; the process waits with its signal */
        note_if_awaits_input(process->pid, since_ns);
    shared_note_still_signal(s, signo);
    for (uint32_t i = 0; i < still.count && still.since_ns == since_ns; i++)
        if (still.subjects[i].pid == process->pid)
            copy_one(i, true);
}
