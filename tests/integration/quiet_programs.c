/* SPDX-License-Identifier: Apache-2.0 */
/* Traces nobody, and has the number of ptrace(2) and its name. Its child crashes at once. */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const char names[] = "ptrace\0syscall.ptraced\0ptrace";

__attribute__((noinline)) static long number(void)
{
    return SYS_ptrace;
}

int main(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    pid_t pid = fork();
    if (pid == 0)
        (void)raise(SIGSEGV);
    (void)waitpid(pid, NULL, 0);
    (void)printf("%s %ld\n", names, number());
    return 4;
}
