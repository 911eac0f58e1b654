/* SPDX-License-Identifier: Apache-2.0 */
/* `watch PID`: in the program that people start, because it stays beside a target. */
#ifndef CLI_VERB_WATCH_H
#define CLI_VERB_WATCH_H

/* As verb_snap(). */
int verb_watch(int argc, char *argv[], const char *site, const char *finisher);

#endif
