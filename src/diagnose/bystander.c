/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/bystander.h"

#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/kernel_lines.h"

#define PROMPT_MAX 80 /* bytes of a name, a host and a folder */

bool bystander_is_stamped(struct text line)
{
    return klog_stamp(line) >= 0 || klog_date(line) >= 0 || text_has(line, "kernel: ");
}

bool bystander_is_kernel(struct text line)
{
    return bystander_is_stamped(line) || text_has(line, "amdgpu") || text_has(line, "NVRM: ");
}

bool bystander_is_command(struct text line)
{
    static const char *const ends[] = {"$ ", "# ", "> ", "% "};
    struct text prompt;
    if (text_starts(line, "$ "))
        return line.len > 2;
    if (!text_starts(line, "PS ") && memchr(line.at, '@', line.len < PROMPT_MAX ? line.len : PROMPT_MAX) == NULL)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (text_before(line, ends[i], &prompt) && prompt.len < PROMPT_MAX && prompt.len + 2 < line.len)
            return text_has(prompt, "@") || text_starts(prompt, "PS ");
    return false;
}

/* The text shows its program, and it is not this process. */
static bool is_strange(struct text all, const char *name, bool is_python)
{
    bool shown = is_python;
    struct text rest = all, line;
    while (text_next_line(&rest, &line)) {
        if (bystander_is_kernel(line))
            continue;
        if (text_has_word(line, text_of(name)))
            return false;
        shown |= bystander_is_command(line);
    }
    return shown;
}

/* Python's own names, and those that PyTorch gives to its processes. */
static bool may_be_python(const char *name)
{
    return strncmp(name, "py", 2) == 0 || strncmp(name, "pt_", 3) == 0;
}

/* The process that the record of the first bad event names; "" = none. */
static const char *process_of(const struct facts *facts, char *out, size_t size)
{
    static const char *const names[] = {"kmsg.page_fault_process", "kmsg.ring_timeout_process", "kmsg.oom_kill_comm"};
    const char *value = "";
    struct text name;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (facts_get_text(facts, names[i], &value))
            return value;
    if (!facts_get_text(facts, "kmsg.first_bad_text", &value) || !text_after(text_of(value), "name=", &name))
        return "";
    return text_copy(text_until(name, ", "), out, size);
}

bool bystander_doubt(struct facts *facts, size_t from, struct text all, bool is_python)
{
    char out[64];
    const char *name = process_of(facts, out, sizeof out);
    bool any = false;
    if (name[0] == '\0' || (is_python && may_be_python(name)) || !is_strange(all, name, is_python))
        return false;
    for (size_t i = from; i < facts_count(facts); i++) {
        if (!klog_is_event(facts_at(facts, i)->name))
            continue;
        facts_mark(facts, i, FACT_MARK_BYSTANDER);
        any = true;
    }
    return any;
}
