/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to file systems that may never answer (a home folder on a server that is gone, a GPU in
 * trouble), asked by processes that must not hang: somebody waits for the exit status or the
 * bundle.
 */
#ifndef BASE_BOUNDED_H
#define BASE_BOUNDED_H

#include <stdbool.h>

/*
 * Runs question(context) in a child without descriptors and returns what it says. Returns false if
 * there is no answer within `within_ms`, or if no child can be made. A child that does not answer
 * is killed and not waited for: whoever reaps for the caller reaps it. Only shared memory comes
 * back from the child.
 */
bool bounded_ask(bool (*question)(void *context), void *context, unsigned within_ms);

#endif
