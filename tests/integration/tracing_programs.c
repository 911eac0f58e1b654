/* SPDX-License-Identifier: Apache-2.0 */
/* A program that traces others; programs.c must not be one (launch/tracer_left_alone.c). argv[1] says whom. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* A debugger under another name. */
static int trace_child(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(5);
        (void)raise(SIGSTOP);
        _exit(9);
    }
    (void)waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status))
        return WEXITSTATUS(status);
    (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
    (void)waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

/* The parent is what traces us. It is stopped, and never continued. */
static int hold_parent(void)
{
    if (ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, getppid(), NULL, NULL) != 0)
        return 77;
    (void)!write(STDERR_FILENO, "held\n", 5);
    (void)raise(SIGTERM);
    return 1;
}

int main(int argc, char *argv[])
{
    return argc > 1 && strcmp(argv[1], "parent") == 0 ? hold_parent() : trace_child();
}
