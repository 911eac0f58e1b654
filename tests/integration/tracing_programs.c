/* SPDX-License-Identifier: Apache-2.0 */
/* A program that traces others; programs.c must not be one (launch/tracer_left_alone.c). argv[1] says whom. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef AS_IN_GO
/* The number is the argument of a function that makes any system call; the program has the names of its functions. */
const char function_name[] = "syscall.ptrace";
#endif
#if defined(AS_IN_GO) || defined(BY_SYSCALL)
#define ptrace(...) syscall(SYS_ptrace, __VA_ARGS__)
#endif

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

static char *first_line(const char *format, int pid, char line[4096])
{
    char path[64];
    (void)snprintf(path, sizeof path, format, pid, pid);
    FILE *file = fopen(path, "r");
    char *read = file != NULL ? fgets(line, 4096, file) : NULL;
    if (file != NULL)
        (void)fclose(file);
    return read;
}

/* Those that look on, those that look after them, and at last the one that has to see our death. */
static int hold_all(void)
{
    char line[4096];
    int tracer = getppid();
    const char *stat = first_line("/proc/%d/stat", tracer, line);
    if (stat == NULL)
        return 77;
    int first = (int)strtol(strrchr(stat, ')') + 4, NULL, 10);
    char *at = first_line("/proc/%d/task/%d/children", first, line);
    if (at == NULL || ptrace(PTRACE_ATTACH, first, NULL, NULL) != 0)
        return 77;
    for (int pid; (pid = (int)strtol(at, &at, 10)) != 0;)
        if (pid != tracer)
            (void)ptrace(PTRACE_ATTACH, pid, NULL, NULL);
    if (ptrace(PTRACE_ATTACH, tracer, NULL, NULL) != 0)
        return 77;
    (void)kill(getpid(), SIGSEGV);
    return 1;
}

int main(int argc, char *argv[])
{
    const char *whom = argc > 1 ? argv[1] : "child";
    if (strcmp(whom, "all") == 0)
        return hold_all();
    if (strcmp(whom, "myself") == 0)
        return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 3 : 9;
    return strcmp(whom, "parent") == 0 ? hold_parent() : trace_child();
}
