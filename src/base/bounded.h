/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may never return, because the file system does not answer (a home folder on a server
 * that is gone, a GPU in trouble). For processes that must not hang: somebody waits for their exit
 * status or for the bundle.
 */
#ifndef BASE_BOUNDED_H
#define BASE_BOUNDED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Runs question(context) in a child without descriptors and returns its answer. Returns false if
 * there is no answer within `within_ms`, or if no child can be made. A child that does not answer
 * is killed. If even that does not end it, the function does not wait for it: the caller's reaper
 * collects it. Only shared memory comes back from the child.
 */
bool bounded_ask(bool (*question)(void *context), void *context, unsigned within_ms);

/*
 * Does question(context) return within `within_ms`, whatever its answer? Runs it in a child as
 * bounded_ask() does, so that the caller can afterwards read the same file itself. True also if no
 * child can be made.
 */
bool bounded_reach(bool (*question)(void *context), void *context, unsigned within_ms);

/*
 * Runs step(context, i) for i from *next to count - 1, in a child. *next lies in shared memory and
 * is incremented before each step. A step that hangs costs `within_ms`: another child continues with
 * the next step, up to four times. If fork() fails, the steps run in the caller.
 */
void bounded_steps(void (*step)(void *context, uint32_t i), void *context, _Atomic uint32_t *next,
                   uint32_t count, unsigned within_ms);

#endif
