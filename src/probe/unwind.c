/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/err.h"

static bool read_stack(const struct impact_thread *thread, uint64_t address, void *out,
                       size_t length)
{
    uint64_t at = address - thread->stack_address;
    if (address < thread->stack_address || at > thread->stack.length ||
        thread->stack.length - at < length)
        return false;
    memcpy(out, thread->stack.data + at, length);
    return true;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *context)
{
    (void)dwfl;
    struct unwinder *u = context;
    uint64_t word = 0;
    if (read_stack(u->current, address, &word, sizeof word) ||
        modules_read(&u->modules, address, &word, sizeof word)) {
        *result = word;
        return true;
    }
    u->read_failed = true;
    u->read_failed_at = address;
    return false;
}

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread_arg)
{
    (void)dwfl;
    struct unwinder *u = context;
    if (*thread_arg != NULL)
        return 0;
    *thread_arg = u;
    return u->current->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **thread_arg)
{
    (void)dwfl;
    struct unwinder *u = context;
    *thread_arg = u;
    return u->current->tid == tid;
}

/* The order is that of the DWARF register numbers of each architecture's psABI. */
static bool set_registers(Dwfl_Thread *thread, void *context)
{
    const struct unwinder *u = context;
    struct user_regs_struct r;
    if (u->current->regs.length != sizeof r)
        return false;
    memcpy(&r, u->current->regs.data, sizeof r);
#if defined(__x86_64__)
    Dwarf_Word words[17] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                            r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    return dwfl_thread_state_registers(thread, 0, 17, words);
#elif defined(__aarch64__)
    Dwarf_Word words[32];
    for (size_t i = 0; i < 31; i++)
        words[i] = r.regs[i];
    words[31] = r.sp;
    if (!dwfl_thread_state_registers(thread, 0, 32, words))
        return false;
    dwfl_thread_state_register_pc(thread, r.pc);
    return true;
#else
#error "which registers does this architecture have?"
#endif
}

static int take_frame(Dwfl_Frame *state, void *context)
{
    struct unwind_stack *stack = ((void **)context)[0];
    struct unwinder *u = ((void **)context)[1];
    u->read_failed = false;
    Dwarf_Addr pc;
    bool exact;
    if (!dwfl_frame_pc(state, &pc, &exact))
        return DWARF_CB_ABORT;
    if (stack->count == UNWIND_FRAMES_MAX) {
        (void)snprintf(stack->stopped, sizeof stack->stopped, "more than %d frames",
                       UNWIND_FRAMES_MAX);
        return DWARF_CB_ABORT;
    }
    stack->frames[stack->count++] = (struct unwind_frame){pc, exact};
    return DWARF_CB_OK;
}

/* If libdwfl cannot read a return address, it takes that for the end of the stack and reports
 * success. So we check what the last step could not read. */
static void explain_end(const struct unwinder *u, struct unwind_stack *stack, int result)
{
    const struct impact_thread *thread = stack->thread;
    if (stack->stopped[0] != '\0')
        return;
    if (u->read_failed) {
        stack->truncated = thread->stack.length > 0 && thread->stack.truncated &&
                           u->read_failed_at + 8 > thread->stack_address + thread->stack.length;
        (void)snprintf(stack->stopped, sizeof stack->stopped,
                       "memory at 0x%" PRIx64 " was not copied", u->read_failed_at);
    } else if (result < 0) {
        (void)snprintf(stack->stopped, sizeof stack->stopped, "%s", dwfl_errmsg(-1));
    } else if (result > 0) {
        (void)snprintf(stack->stopped, sizeof stack->stopped, "a frame without an address");
    }
}

/* Without libdwfl (no file of the process can be read) only the program counter is known. */
static void only_the_pc(const struct impact_thread *thread, struct unwind_stack *stack)
{
    struct user_regs_struct r;
    memcpy(&r, thread->regs.data, sizeof r);
#if defined(__x86_64__)
    uint64_t pc = r.rip;
#else
    uint64_t pc = r.pc;
#endif
    stack->frames[0] = (struct unwind_frame){pc, true};
    stack->count = 1;
}

void unwinder_thread(struct unwinder *u, const struct impact_thread *thread,
                     struct unwind_stack *stack)
{
    *stack = (struct unwind_stack){.thread = thread};
    if (thread->regs.length != sizeof(struct user_regs_struct)) {
        (void)snprintf(stack->stopped, sizeof stack->stopped, "%s",
                       thread->regs.length == 0 ? "its registers were not copied"
                                                : "registers of another kind of program");
        return;
    }
    u->current = thread;
    u->read_failed = false;
    void *context[2] = {stack, u};
    int result = dwfl_getthread_frames(u->dwfl, thread->tid, take_frame, (void *)context);
    explain_end(u, stack, result);
    if (stack->count == 0)
        only_the_pc(thread, stack);
}

int unwinder_open(struct unwinder *u, const struct impact_file *file, struct rc_err *err)
{
    static char search[] = ":.debug:/usr/lib/debug";
    static char *search_path = search;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = modules_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .debuginfo_path = &search_path,
    };
    static const Dwfl_Thread_Callbacks thread_callbacks = {
        .next_thread = next_thread,
        .get_thread = get_thread,
        .memory_read = memory_read,
        .set_initial_registers = set_registers,
    };
    *u = (struct unwinder){.file = file, .own_fd = -1};
    if (file->thread_count == 0)
        return rc_err_set(err, -ENODATA, "no registers were copied at this impact");
    u->current = &file->threads[0];
    int r = modules_parse(&u->modules, file->maps_text);
    if (r < 0)
        return rc_err_set(err, r, "out of memory");
    (void)elf_version(EV_CURRENT);
    u->own_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    u->own_elf = u->own_fd >= 0 ? elf_begin(u->own_fd, ELF_C_READ_MMAP, NULL) : NULL;
    u->dwfl = dwfl_begin(&callbacks);
    if (u->own_elf == NULL || u->dwfl == NULL)
        return rc_err_set(err, -EIO, "cannot start libdwfl");
    r = modules_report(&u->modules, u->dwfl, err);
    if (r < 0)
        return r;
    if (!dwfl_attach_state(u->dwfl, u->own_elf, file->record.header.pid, &thread_callbacks, u))
        return rc_err_set(err, -EINVAL, "libdwfl refuses the process: %s", dwfl_errmsg(-1));
    return 0;
}

void unwinder_release(struct unwinder *u)
{
    if (u->dwfl != NULL)
        dwfl_end(u->dwfl);
    modules_release(&u->modules);
    if (u->own_elf != NULL)
        (void)elf_end(u->own_elf);
    if (u->own_fd >= 0)
        (void)close(u->own_fd);
}

void unwinder_place(struct unwinder *u, const struct unwind_frame *frame, struct unwind_place *place)
{
    *place = (struct unwind_place){.symbol = NULL};
    /* A return address may be the first byte of the next function. The byte before it belongs to
     * the call. */
    uint64_t pc = frame->exact || frame->pc == 0 ? frame->pc : frame->pc - 1;
    const struct module *module = modules_at(&u->modules, pc);
    if (module == NULL)
        return;
    place->module = module;
    const char *slash = strrchr(module->path, '/');
    place->module_name = slash != NULL ? slash + 1 : module->path;
    place->module_offset = frame->pc - module->start;
    Dwarf_Addr bias = 0;
    if (module->mod == NULL || dwfl_module_getelf(module->mod, &bias) == NULL)
        return;
    place->module_offset = frame->pc - bias;
    GElf_Off offset = 0;
    GElf_Sym symbol;
    place->symbol = dwfl_module_addrinfo(module->mod, pc, &offset, &symbol, NULL, NULL, NULL);
    place->symbol_offset = offset + (frame->pc - pc);
    GElf_Addr where;
    place->build_id_length = dwfl_module_build_id(module->mod, &place->build_id, &where);
}
