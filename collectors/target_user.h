/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads with the rights of the target's user.
 *
 * Root looks at processes of others (`snap PID`, a run under sudo). The paths that lead to files then come from that
 * user: his environment, his mappings, his links. A link to a file that he cannot read himself must not bring its words
 * into the bundle. The owner and the mode of the file do not decide it: most files below /root are open to all, and only
 * the folder is closed; and there are groups and lists of rights. So the kernel decides: between begin and end, this
 * process looks for files as that user (setfsuid(2), setfsgid(2) and his groups). It stays root in everything else, so
 * that he cannot send it a signal.
 */
#ifndef COLLECTORS_TARGET_USER_H
#define COLLECTORS_TARGET_USER_H

#include "collect/collector.h"

/*
 * Does nothing unless we are root and the target is another user's. Its user is known from the impact record, else from
 * the live process. If there is neither, the paths are those that we gave the program at its start: they are read as
 * ourselves. 0, or -errno: then nothing of the target's may be read. The bundle cannot be written before the end.
 */
int target_user_begin(const struct collect_ctx *ctx);
void target_user_end(void); /* also without a begin */

/* The row of a collector for which target_user_begin() failed. */
enum collect_status target_user_refused(struct collect_out *out, int error);

#endif
