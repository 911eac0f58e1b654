/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocmcrash-unwind: prints the stacks of every thread of one impact, the failed thread first.
 *
 * A separate program, started by the stacks collector with a deadline: it reads ELF and DWARF of
 * all files that the target had mapped, and a malformed one may crash it. Never asks the network
 * for debug files.
 */
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/names.h"
#include "probe/unwind.h"

#define DEFAULT_SECONDS 10
#define MEMORY_MAX ((rlim_t)4 << 30) /* a crafted .gnu_debugdata may unpack to any size */
#define PRINTED_STACKS_MAX 512

enum { EXIT_NOTHING = 1, EXIT_USAGE = 2, EXIT_TIME = 3 };

static void out_of_time(int signo)
{
    (void)signo;
    static const char text[] = "\nunwinding stopped: out of time\n";
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    _exit(EXIT_TIME);
}

static bool names_an_address(int signo)
{
    return signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE;
}

/* "SIGSEGV at 0x10 (si_code 1)" */
static void print_cause(const struct shared_impact *head)
{
    if (head->signo <= 0) {
        (void)printf(head->kind == IMPACT_SNAPSHOT ? "alive" : "end of the process");
        return;
    }
    const char *name = name_of_signal(head->signo);
    if (name != NULL)
        (void)printf("SIG%s", name);
    else
        (void)printf("signal %d", head->signo);
    if (names_an_address(head->signo) && head->code > 0)
        (void)printf(" at 0x%" PRIx64, head->fault_address);
    else if (head->sender_pid > 0 && head->code <= 0)
        (void)printf(" sent by process %d", head->sender_pid);
    (void)printf(" (si_code %d)", head->code);
}

static void print_frame(struct unwinder *u, size_t number, const struct unwind_frame *frame)
{
    struct unwind_place place;
    unwinder_place(u, frame, &place);
    (void)printf("  #%-3zu 0x%016" PRIx64 " in ", number, frame->pc);
    if (place.module == NULL) {
        const struct mapping *mapping = modules_mapping_at(&u->modules, frame->pc);
        (void)printf("%s\n", mapping == NULL       ? "?? (no memory is mapped there)"
                             : mapping->executable ? "?? (code without a file: made at run time)"
                                                   : "?? (memory that is not executable)");
        return;
    }
    if (place.symbol != NULL)
        (void)printf("%s+0x%" PRIx64, place.symbol, place.symbol_offset);
    else
        (void)printf("%s+0x%" PRIx64, place.module_name, place.module_offset);
    (void)printf(" (%s", place.module_name);
    if (place.build_id_length > 0) {
        (void)printf(", build-id ");
        for (int i = 0; i < place.build_id_length && i < 32; i++)
            (void)printf("%02x", place.build_id[i]);
    }
    static const char *const why[] = {
        [MODULE_DELETED] = ", file deleted while mapped",
        [MODULE_REPLACED] = ", file replaced while mapped",
        [MODULE_UNREADABLE] = ", file not readable",
    };
    if (place.module->state >= MODULE_DELETED)
        (void)printf("%s", why[place.module->state]);
    (void)printf(")\n");
}

static void print_end(const struct unwind_stack *stack)
{
    if (stack->truncated)
        (void)printf("  stack truncated at %zu bytes\n", stack->thread->stack.length);
    if (stack->stopped[0] != '\0')
        (void)printf("  unwinding stopped: %s\n", stack->stopped);
}

static bool same_stack(const struct unwind_stack *a, const struct unwind_stack *b)
{
    if (a->count != b->count || strcmp(a->stopped, b->stopped) != 0 ||
        a->truncated != b->truncated)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->frames[i].pc != b->frames[i].pc)
            return false;
    return true;
}

static void print_stack(struct unwinder *u, const struct unwind_stack *stack)
{
    for (size_t i = 0; i < stack->count; i++)
        print_frame(u, i, &stack->frames[i]);
    print_end(stack);
    (void)fflush(stdout);
}

/* Worker threads of one pool mostly wait at the same place: such a stack is printed once. */
static void print_others(struct unwinder *u, struct unwind_stack *stacks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct unwind_stack *stack = &stacks[i];
        if (stack->thread == NULL)
            continue;
        (void)printf("\nThread %d \"%s\"", stack->thread->tid, stack->thread->comm);
        for (size_t k = i + 1; k < count; k++) {
            if (stacks[k].thread == NULL || !same_stack(stack, &stacks[k]))
                continue;
            (void)printf(", %d \"%s\"", stacks[k].thread->tid, stacks[k].thread->comm);
            stacks[k].thread = NULL;
        }
        (void)printf(":\n");
        print_stack(u, stack);
    }
}

static void print_failed_thread(struct unwinder *u, struct unwind_stack *stack)
{
    const struct impact_file *file = u->file;
    unwinder_thread(u, &file->threads[0], stack);
    (void)printf("\nThread %d \"%s\"", stack->thread->tid, stack->thread->comm);
    if (file->record.header.kind == IMPACT_SNAPSHOT) {
        (void)printf(stack->thread->tid == file->record.header.tid ? " (main):" : ":");
    } else if (stack->thread->tid == file->record.header.tid) {
        /* After a plain exit the frames are those of exit() itself. */
        (void)printf(file->record.header.signo != 0 ? " (faulting): " : " (ended): ");
        print_cause(&file->record.header);
    } else {
        (void)printf(":");
    }
    (void)printf("\n");
    print_stack(u, stack);
}

static int print_all(const struct impact_file *file)
{
    struct unwinder u;
    struct rc_err err = {""};
    int status = 0;
    (void)printf("Process %d \"%.16s\": ", file->record.header.pid, file->record.header.comm);
    print_cause(&file->record.header);
    if (file->record.header.threads_seen > 0) /* not counted at the end of a process */
        (void)printf("; threads copied: %zu of %u\n", file->thread_count, file->record.header.threads_seen);
    else
        (void)printf("; threads copied: %zu\n", file->thread_count);
    if (file->cut || file->record.header.state != IMPACT_COMPLETE)
        (void)printf("incomplete: the copy ended before its end\n");
    if (file->maps.truncated)
        (void)printf("incomplete: the list of mappings was cut at %zu bytes\n", file->maps.length);
    size_t most =
        file->thread_count < PRINTED_STACKS_MAX ? file->thread_count : PRINTED_STACKS_MAX;
    struct unwind_stack *stacks = calloc(most + 1, sizeof *stacks);
    if (unwinder_open(&u, file, &err) < 0 || stacks == NULL) {
        (void)printf("unwinding stopped: %s\n", stacks == NULL ? "out of memory" : err.msg);
        status = EXIT_NOTHING;
    } else {
        print_failed_thread(&u, &stacks[0]);
        for (size_t i = 1; i < most; i++)
            unwinder_thread(&u, &file->threads[i], &stacks[i]);
        if (most > 1)
            print_others(&u, stacks + 1, most - 1);
        if (most < file->thread_count)
            (void)printf("\n%zu more threads are not shown\n", file->thread_count - most);
    }
    unwinder_release(&u);
    free(stacks);
    return status;
}

static void set_limits(unsigned seconds)
{
#if !defined(__SANITIZE_ADDRESS__)
    struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
    (void)setrlimit(RLIMIT_AS, &memory);
#endif
    struct rlimit core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &core);
    (void)unsetenv("DEBUGINFOD_URLS");
    struct sigaction action = {.sa_handler = out_of_time};
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(seconds);
}

/* In a forged impact file the name may hold any byte. */
static void clean_name(char *name, size_t size)
{
    for (size_t i = 0; i < size && name[i] != '\0'; i++)
        if (!isprint((unsigned char)name[i]))
            name[i] = '?';
}

int main(int argc, char **argv)
{
    unsigned seconds = DEFAULT_SECONDS;
    int first = 1;
    if (argc == 4 && strcmp(argv[1], "--seconds") == 0) {
        seconds = (unsigned)strtoul(argv[2], NULL, 10);
        first = 3;
    }
    if (argc != first + 1 || seconds == 0 || seconds > 600) {
        (void)fprintf(stderr, "usage: rocmcrash-unwind [--seconds N] IMPACT_FILE\n");
        return EXIT_USAGE;
    }
    set_limits(seconds);
    struct impact_file file;
    struct rc_err err = {""};
    if (impact_file_read(&file, argv[first], &err) < 0) {
        (void)fprintf(stderr, "rocmcrash-unwind: %s\n", err.msg);
        impact_file_release(&file);
        return EXIT_NOTHING;
    }
    clean_name(file.record.header.comm, sizeof file.record.header.comm);
    int status = print_all(&file);
    impact_file_release(&file);
    return fflush(stdout) == 0 ? status : EXIT_NOTHING;
}
