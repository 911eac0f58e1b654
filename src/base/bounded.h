/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to file systems that may never answer (a home folder on a server that is gone, a GPU in
 * trouble), asked by processes that must not hang: somebody waits for the exit status or the
 * bundle.
 */
#ifndef BASE_BOUNDED_H
#define BASE_BOUNDED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Runs question(context) in a child without descriptors and returns what it says. Returns false if
 * there is no answer within `within_ms`, or if no child can be made. A child that does not answer
 * is killed. If even that does not end it, it is not waited for: whoever reaps for the caller
 * reaps it. Only shared memory comes back from the child.
 */
bool bounded_ask(bool (*question)(void *context), void *context, unsigned within_ms);

/*
 * Does question(context) come to an end within `within_ms`, whatever it says? Asked in a child in the
 * same way, before the caller reads the same itself. True also if no child can be made.
 */
bool bounded_reach(bool (*question)(void *context), void *context, unsigned within_ms);

/*
 * step(context, i) for i from *next to count - 1, in a child; *next lies in shared memory and is
 * counted up before each step. A step that hangs costs `within_ms` and itself: another child goes on
 * behind it, up to four times. Where no child can be made (fork fails) the steps run here.
 */
void bounded_steps(void (*step)(void *context, uint32_t i), void *context, _Atomic uint32_t *next,
                   uint32_t count, unsigned within_ms);

#endif
