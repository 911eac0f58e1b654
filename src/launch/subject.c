/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/subject.h"

#include <stdio.h>

#include "base/bounded.h"
#include "base/clock.h"
#include "base/room.h"
#include "launch/impact.h"
#include "launch/tasks.h"

/* In memory that a child shares. */
struct search {
    pid_t pid;
    int result; /* of python_symbols_find() */
    struct python_symbols symbols;
};

static bool search_symbols(void *context)
{
    struct search *search = context;
    search->result = python_symbols_find(search->pid, &search->symbols);
    return true;
}

static void find_python(struct subject *s, unsigned patience_ms)
{
    static struct search *search;
    char why[128] = "";
    if (search == NULL)
        search = room_for(sizeof *search);
    if (search == NULL)
        return;
    *search = (struct search){.pid = s->pid, .result = -1};
    s->has_python = false;
    s->no_python[0] = '\0';
    if (!bounded_ask(search_symbols, search, patience_ms)) {
        (void)snprintf(s->no_python, sizeof s->no_python,
                       "no stacks: the files that it has mapped do not answer\n");
        return;
    }
    if (search->result < 0)
        return;
    s->has_python = python_place_read(s->pid, &search->symbols, &s->python, why, sizeof why) == 0;
    if (!s->has_python)
        (void)snprintf(s->no_python, sizeof s->no_python, "no stacks: %s\n", why);
}

void subject_look(struct subject *s, unsigned patience_ms)
{
    s->tasks_ns = clock_mono_ns();
    tasks_read(s->pid, &s->tasks);
    find_python(s, patience_ms);
}

void subject_look_again(struct subject *s)
{
    s->tasks_again_ns = clock_mono_ns();
    tasks_read(s->pid, &s->tasks_again);
}

void subject_copy(const struct subject *s, struct shared *shared, struct tracees *tracees,
                  struct traced_process *process,
                  void (*let_go)(struct tracees *tracees, const struct traced_process *process))
{
    const struct impact_live live = {
        .pid = s->pid,
        .tasks = s->tasks.data,
        .tasks_ns = s->tasks_ns,
        .tasks_again = s->tasks_again.data,
        .tasks_again_ns = s->tasks_again_ns,
        .python = s->has_python ? &s->python : NULL,
        .no_python = s->no_python[0] != '\0' ? s->no_python : NULL,
        .let_go = let_go,
    };
    impact_copy_live(shared, tracees, process, &live);
}

void subject_release(struct subject *s)
{
    buf_release(&s->tasks);
    buf_release(&s->tasks_again);
    *s = (struct subject){.pid = 0};
}
