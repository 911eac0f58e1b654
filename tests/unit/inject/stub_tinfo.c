/* SPDX-License-Identifier: Apache-2.0 */
int tputs(const char *text, int lines, int (*put)(int));
int setupterm(const char *name, int fd, int *error);

int tputs(const char *text, int lines, int (*put)(int))
{
    return text == 0 || lines == 0 || put != 0;
}

int setupterm(const char *name, int fd, int *error)
{
    return name == 0 || fd == 0 || error != 0;
}
