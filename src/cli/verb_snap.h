/* SPDX-License-Identifier: Apache-2.0 */
/* `snap PID`. It belongs to the program that people start, because it uses the helpers of a run. */
#ifndef CLI_VERB_SNAP_H
#define CLI_VERB_SNAP_H

/* argv[0] is the first word after "snap"; `site` and `finisher` as in struct launch_options. Returns
 * the exit status. */
int verb_snap(int argc, char *argv[], const char *site, const char *finisher);

#endif
