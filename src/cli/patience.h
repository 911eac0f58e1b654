/* SPDX-License-Identifier: Apache-2.0 */
/* Says what is being done when it takes longer than a user waits without asking himself. */
#ifndef CLI_PATIENCE_H
#define CLI_PATIENCE_H

/* Print `line` on stdout when patience_end() is not called soon. One at a time; SIGALRM is taken.
 * A fork inherits no timer: only this process speaks. */
void patience_begin(const char *line);
void patience_end(void);

#endif
