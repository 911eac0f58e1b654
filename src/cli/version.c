/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own: compiled anew with every commit. */
#include "cli/version.h"

#include "cli/commit.h" /* made by commit.cmake */

const char version_commit[] = ROCMCRASH_COMMIT;
