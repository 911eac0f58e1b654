/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a process as its user set it, without what a run of ours added. */
#ifndef CLI_OWN_VARIABLES_H
#define CLI_OWN_VARIABLES_H

/* Takes our library out of LD_PRELOAD and our hook's folder out of PYTHONPATH. The entries of the list lie in
 * `text`; one of which nothing is left goes. */
void own_variables_remove(const char **list, char *text);

#endif
