/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is linked with a library of the name of a real one, libtinfo. With ASKS it does not draw. */
int tputs(const char *text, int lines, int (*put)(int));
int setupterm(const char *name, int fd, int *error);

int main(void)
{
#ifdef ASKS
    return setupterm("", 1, 0);
#else
    return tputs("", 1, 0);
#endif
}
