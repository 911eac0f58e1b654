/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine.h"
#include "node.h"

#define EVENTS_MAX 8192u
#define FIRST_OTHER KFD_SIGNAL_EVENT_LIMIT /* ids below are slots of the event page */
#define AGE_MINOR 14 /* KFD 1.14: waiters pass the last age they saw */

struct event {
    bool used, auto_reset, signaled;
    uint32_t type;
    unsigned waiters;
    uint64_t age;
    struct kfd_event_data data; /* of an exception */
};

static struct event events[EVENTS_MAX];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_condition(void)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&changed, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static struct event *find(uint32_t id)
{
    return id < EVENTS_MAX && events[id].used ? &events[id] : NULL;
}

int events_create(struct kfd_ioctl_create_event_args *args)
{
    bool is_signal = args->event_type == KFD_IOC_EVENT_SIGNAL;
    (void)pthread_once(&once, init_condition);
    (void)pthread_mutex_lock(&mutex);
    uint32_t id = is_signal ? 1 : FIRST_OTHER;
    uint32_t end = is_signal ? FIRST_OTHER : EVENTS_MAX;
    while (id < end && events[id].used)
        id++;
    if (id < end)
        events[id] = (struct event){.used = true, .auto_reset = args->auto_reset != 0,
                                    .type = args->event_type, .age = 1};
    (void)pthread_mutex_unlock(&mutex);
    if (id == end)
        return -ENOSPC;
    args->event_id = id;
    args->event_trigger_data = id;
    args->event_slot_index = id;
    /* 0 would mean that there is no event page: libhsakmt then gives signals no mailbox. */
    if (is_signal || args->event_type == KFD_IOC_EVENT_DEBUG_EVENT)
        args->event_page_offset = NODE_EVENTS;
    return 0;
}

static void signal_locked(struct event *event)
{
    event->signaled = !event->auto_reset || event->waiters == 0;
    event->age++;
    (void)pthread_cond_broadcast(&changed);
}

int events_destroy(uint32_t id)
{
    (void)pthread_mutex_lock(&mutex);
    struct event *event = find(id);
    if (event != NULL) {
        signal_locked(event);
        event->used = false;
    }
    (void)pthread_mutex_unlock(&mutex);
    return event != NULL ? 0 : -EINVAL;
}

int events_set(uint32_t id)
{
    (void)pthread_mutex_lock(&mutex);
    struct event *event = find(id);
    if (event != NULL)
        signal_locked(event);
    (void)pthread_mutex_unlock(&mutex);
    return event != NULL ? 0 : -EINVAL;
}

int events_reset(uint32_t id)
{
    (void)pthread_mutex_lock(&mutex);
    struct event *event = find(id);
    if (event != NULL)
        event->signaled = false;
    (void)pthread_mutex_unlock(&mutex);
    return event != NULL ? 0 : -EINVAL;
}

/* --- waiting --- */

struct waiter {
    uint64_t age; /* of the event when the wait began */
    bool active;
};

/* KFD 1.14: the first 8 bytes of the union hold the age that the waiter saw last. */
static uint64_t seen_age(const struct event *event, const struct kfd_event_data *data)
{
    uint64_t age = 0;
    if (event->type == KFD_IOC_EVENT_SIGNAL && machine.kfd_minor >= AGE_MINOR)
        memcpy(&age, data, sizeof age);
    return age;
}

static void enter(struct waiter *waiter, struct event *event, const struct kfd_event_data *data)
{
    uint64_t seen = seen_age(event, data);
    waiter->age = event->age;
    waiter->active = event->signaled || (seen != 0 && seen != event->age);
    if (event->auto_reset)
        event->signaled = false;
    event->waiters++;
}

static void leave(const struct waiter *waiter, struct event *event, struct kfd_event_data *data)
{
    event->waiters--;
    if (!waiter->active)
        return;
    if (event->type == KFD_IOC_EVENT_MEMORY)
        data->memory_exception_data = event->data.memory_exception_data;
    else if (event->type == KFD_IOC_EVENT_HW_EXCEPTION)
        data->hw_exception_data = event->data.hw_exception_data;
    else if (seen_age(event, data) != 0)
        memcpy(data, &event->age, sizeof event->age);
}

static struct timespec deadline_of(uint32_t timeout_ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static uint32_t count_active(struct waiter *waiters, const struct kfd_event_data *data, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (events[data[i].event_id].age != waiters[i].age)
            waiters[i].active = true;
        count += waiters[i].active;
    }
    return count;
}

/* With the mutex held: until enough are active or the time is over. */
static void wait_locked(struct kfd_ioctl_wait_events_args *args, struct waiter *waiters,
                        const struct kfd_event_data *data)
{
    uint32_t n = args->num_events;
    uint32_t needed = args->wait_for_all ? n : 1;
    struct timespec deadline = deadline_of(args->timeout);
    args->wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
    while (count_active(waiters, data, n) < needed) {
        int r = 0;
        if (args->timeout == UINT32_MAX)
            r = pthread_cond_wait(&changed, &mutex);
        else if (args->timeout == 0)
            r = ETIMEDOUT;
        else
            r = pthread_cond_timedwait(&changed, &mutex, &deadline);
        if (r == ETIMEDOUT && count_active(waiters, data, n) < needed) {
            args->wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
            return;
        }
    }
}

int events_wait(struct kfd_ioctl_wait_events_args *args)
{
    struct kfd_event_data *data = (struct kfd_event_data *)(uintptr_t)args->events_ptr;
    uint32_t n = args->num_events;
    if (n == 0 || n > EVENTS_MAX)
        return -EINVAL;
    struct waiter *waiters = calloc(n, sizeof *waiters);
    if (waiters == NULL)
        return -ENOMEM;
    (void)pthread_once(&once, init_condition);
    (void)pthread_mutex_lock(&mutex);
    bool known = true;
    for (uint32_t i = 0; i < n; i++)
        known = known && find(data[i].event_id) != NULL;
    if (known) {
        for (uint32_t i = 0; i < n; i++)
            enter(&waiters[i], &events[data[i].event_id], &data[i]);
        wait_locked(args, waiters, data);
        for (uint32_t i = 0; i < n; i++) {
            known = known && events[data[i].event_id].used; /* destroyed meanwhile */
            leave(&waiters[i], &events[data[i].event_id], &data[i]);
        }
    }
    if (!known)
        args->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
    (void)pthread_mutex_unlock(&mutex);
    free(waiters);
    return known ? 0 : -EIO;
}

/* --- exceptions --- */

static void raise_all(uint32_t type, const struct kfd_event_data *data)
{
    (void)pthread_once(&once, init_condition);
    (void)pthread_mutex_lock(&mutex);
    for (uint32_t id = FIRST_OTHER; id < EVENTS_MAX; id++)
        if (events[id].used && events[id].type == type) {
            events[id].data = *data;
            signal_locked(&events[id]);
        }
    (void)pthread_mutex_unlock(&mutex);
}

void events_page_fault(unsigned gpu, uint64_t address)
{
    struct kfd_event_data data = {0};
    data.memory_exception_data.failure.NotPresent = 1;
    data.memory_exception_data.va = address & ~4095ull;
    data.memory_exception_data.gpu_id = machine.gpus[gpu].gpu_id;
    raise_all(KFD_IOC_EVENT_MEMORY, &data);
}

/* kfd_signal_reset_event(): memory events only for ECC. ROCr 5.2.3 listens to those alone, so there a
 * program stays stuck after the reset; later ones print "HW Exception by GPU node" and abort. */
void events_gpu_reset(unsigned gpu)
{
    struct kfd_event_data data = {0};
    data.hw_exception_data.reset_type = KFD_HW_EXCEPTION_WHOLE_GPU_RESET;
    data.hw_exception_data.reset_cause = KFD_HW_EXCEPTION_GPU_HANG;
    data.hw_exception_data.memory_lost = 1;
    data.hw_exception_data.gpu_id = machine.gpus[gpu].gpu_id;
    raise_all(KFD_IOC_EVENT_HW_EXCEPTION, &data);
}

void events_after_fork(void)
{
    (void)pthread_mutex_init(&mutex, NULL);
    init_condition();
    memset(events, 0, sizeof events);
}
