/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of PyTorch's libc10_hip and of CPython that inject/allocator.c looks for. */
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

int stub_allocator_ask(void);
void *PyObject_CallObject(void *callable, void *arguments);
int PyGC_Disable(void);
int PyGC_Enable(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int stub_allocator_ask(void)
{
    (void)pthread_mutex_lock(&mutex);
    int parent = getppid();
    (void)pthread_mutex_unlock(&mutex);
    return parent;
}

void *PyObject_CallObject(void *callable, void *arguments)
{
    (void)callable;
    (void)arguments;
    return NULL;
}

int PyGC_Disable(void)
{
    return 1;
}

int PyGC_Enable(void)
{
    return 1;
}
