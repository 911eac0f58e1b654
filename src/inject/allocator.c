/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks PyTorch's allocator for the hook (python/rocmcrash_torch.py) without waiting for its lock.
 * The question holds the GIL, and another thread may hold the lock through a call of the driver
 * that takes long or never returns: all of the program's Python would stand still because of us.
 *
 * So the calls of pthread_mutex_lock() in PyTorch's libc10_hip come to us. While a thread asks, a lock that
 * stays taken for 3 ms is refused with EBUSY. std::mutex and std::recursive_mutex then throw
 * std::system_error, which PyTorch turns into a RuntimeError. Other threads and all other locks are not
 * affected. Python's garbage collector is off meanwhile: it may free a tensor in the asking thread, whose
 * destructor must get the lock.
 *
 * Runs in the target.
 */
#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "inject/got.h"
#include "inject/raw.h"

#define EXPORT __attribute__((visibility("default")))
/* 2 to 3 ms together: the kernel makes each pause 50 to 100 us longer. */
#define TRIES 20
#define BETWEEN_TRIES_NS 50000

/* Functions of CPython. Its objects are only passed on. PyGC_Disable() exists since 3.10. */
static void *(*call_function)(void *callable, void *arguments);
static int (*disable_collector)(void);
static int (*enable_collector)(void);
static int (*real_lock)(void *mutex);
static int (*try_lock)(void *mutex);

/* In the first block of TLS, as attach.c has it. */
static __thread struct {
    bool asks, refused;
} question __attribute__((tls_model("initial-exec")));

static int lock(void *mutex)
{
    const struct timespec pause = {0, BETWEEN_TRIES_NS};
    if (!question.asks)
        return real_lock(mutex);
    for (unsigned i = 0; i < TRIES; i++) {
        int error = try_lock(mutex);
        if (error != EBUSY)
            return error;
        (void)raw_call(SYS_nanosleep, &pause, NULL, 0, 0);
    }
    question.refused = true;
    return EBUSY;
}

/* --- finding them --- */

/* The slots for pthread_mutex_lock() in the libraries of the allocator. */
struct found {
    void *bound; /* what all of them hold; NULL = there is none */
    bool is_unfit; /* they differ, or one cannot be changed */
};

static bool is_allocator(const char *path)
{
    const char *name = path;
    for (const char *p = path; *p != '\0'; p++)
        if (*p == '/')
            name = p + 1;
    return raw_starts(name, "libc10_hip") || raw_starts(name, "libc10_cuda");
}

static bool is_ready(const struct got_slot *slot, const struct found *found)
{
    return __atomic_load_n(slot->at, __ATOMIC_ACQUIRE) == found->bound && !got_is_being_loaded(slot);
}

static void note_slot(const struct got_slot *slot, void *context)
{
    struct found *found = context;
    if (!raw_same(slot->name, "pthread_mutex_lock"))
        return;
    if (found->bound == NULL)
        found->bound = __atomic_load_n(slot->at, __ATOMIC_ACQUIRE);
    if (!is_ready(slot, found))
        found->is_unfit = true;
}

static bool note_object(const struct next_object *o, void *context)
{
    if (is_allocator(o->name))
        got_each_slot(o, note_slot, context);
    return false;
}

/* The library to whose pthread_mutex_lock() the slot is bound: its try is the right one. */
static bool note_locks(const struct next_object *o, void *context)
{
    void *bound = ((struct found *)context)->bound;
    if (next_in(o, "pthread_mutex_lock") != bound)
        return false;
    *(void **)&try_lock = next_in(o, "pthread_mutex_trylock");
    *(void **)&real_lock = bound;
    return true;
}

static bool note_python(const struct next_object *o, void *context)
{
    (void)context;
    *(void **)&call_function = next_in(o, "PyObject_CallObject");
    *(void **)&disable_collector = next_in(o, "PyGC_Disable");
    *(void **)&enable_collector = next_in(o, "PyGC_Enable");
    return call_function != NULL && disable_collector != NULL && enable_collector != NULL;
}

static void *our_lock(void)
{
    void *ours = NULL;
    *(int (**)(void *))&ours = lock;
    return ours;
}

static void replace_slot(const struct got_slot *slot, void *context)
{
    struct found *found = context;
    if (!raw_same(slot->name, "pthread_mutex_lock"))
        return;
    if (!is_ready(slot, found) || !got_replace(slot, our_lock()))
        found->is_unfit = true;
}

static bool replace_in_object(const struct next_object *o, void *context)
{
    if (is_allocator(o->name))
        got_each_slot(o, replace_slot, context);
    return false;
}

/* --- for the hook, by ctypes --- */

EXPORT int rocmcrash_guard_allocator(void);
EXPORT void *rocmcrash_ask(void *callable, void *arguments, int *ret_refused);

/* Called once a process, with the GIL. 1 = rocmcrash_ask() may be used. */
int rocmcrash_guard_allocator(void)
{
    struct found found = {.bound = NULL};
    next_objects(note_object, &found);
    if (found.bound == NULL || found.is_unfit)
        return 0;
    if (found.bound == our_lock())
        return 1;
    next_objects(note_locks, &found);
    next_objects(note_python, NULL);
    if (try_lock == NULL || enable_collector == NULL)
        return 0;
    next_objects(replace_in_object, &found);
    return found.is_unfit ? 0 : 1;
}

/* The callable's result, with the GIL; it must be a function in C, as no line of Python may run
 * meanwhile. `arguments` is a tuple. */
void *rocmcrash_ask(void *callable, void *arguments, int *ret_refused)
{
    int was_enabled = disable_collector();
    question.refused = false;
    question.asks = true;
    void *result = call_function(callable, arguments);
    question.asks = false;
    if (was_enabled != 0)
        (void)enable_collector();
    *ret_refused = question.refused;
    return result;
}
