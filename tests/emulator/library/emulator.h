/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start of the library: at the first intercepted call, not in a constructor, and only where
 * EMULATOR_ROOT names a machine. Without it every wrapper passes through.
 */
#ifndef EMULATOR_EMULATOR_H
#define EMULATOR_EMULATOR_H

#include <stdbool.h>

/* Is there an emulated machine? */
bool emulator_on(void);

#endif
