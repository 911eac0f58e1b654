/* SPDX-License-Identifier: Apache-2.0 */
/* A program that replaces itself by argv[2], after argv[1] milliseconds. No library sees its call. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

#ifdef AS_IN_GO
/* A program in Go with cgo exports it. */
void _cgo_panic(void);
void _cgo_panic(void)
{
}
#endif
#ifdef WITH_EXEC
/* Go's linker keeps the names of the functions that are called. */
const char function_name[] = "syscall.Exec";
#endif

int main(int argc, char *argv[])
{
    if (argc < 3)
        abort();
    (void)usleep((useconds_t)atoi(argv[1]) * 1000);
    (void)syscall(SYS_execve, argv[2], argv + 2, environ);
    return 126;
}
