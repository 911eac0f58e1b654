/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdatomic.h>

static _Atomic unsigned refusals;

unsigned memory_refusals(void)
{
    return refusals;
}

void memory_was_refused(void)
{
    refusals++;
}
