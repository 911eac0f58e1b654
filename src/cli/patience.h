/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what is being done when it takes so long that a user may wonder. */
#ifndef CLI_PATIENCE_H
#define CLI_PATIENCE_H

/* Print `line` on stdout when patience_end() is not called soon. One at a time; SIGALRM is taken.
 * A fork inherits no timer: only this process speaks. */
void patience_begin(const char *line);
void patience_end(void);

#endif
