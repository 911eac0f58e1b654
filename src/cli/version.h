/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

extern const char version_commit[]; /* "commit 7a092ed31c55", of what was built */

#endif
