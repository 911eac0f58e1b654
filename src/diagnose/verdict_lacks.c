/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the facts that were missing ("lacks" of the tree). */
#include "diagnose/verdict.h"

#include "base/buf.h"
#include "diagnose/tree.h"

#include <errno.h>
#include <string.h>

#define SHOWN_MAX 3

/* Does the name begin with one of these words? */
static bool begins_with_any(const char *words, const char *name)
{
    for (size_t len; *words != '\0'; words += len + strspn(words + len, " ")) {
        len = strcspn(words, " ");
        if (strncmp(name, words, len) == 0)
            return true;
    }
    return false;
}

/* Why the fact is missing, if that was read, and does not only follow from another one. */
static const char *own_reason(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    const char *reason = f != NULL && f->status != FACT_PRESENT ? f->reason : NULL;
    return reason != NULL && strncmp(reason, "not computed", 12) != 0 ? reason : "";
}

/* "What the program printed: stderr is a device, which is not read. It is read where ..." */
static void put_lack(const struct facts *facts, const struct tree_lack *lack, const char *const *names, size_t count,
                     struct buf *out)
{
    struct eval ev = {.facts = facts};
    const char *reason = "";
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (!begins_with_any(lack->facts, names[i]))
            continue;
        any = true;
        reason = reason[0] == '\0' && lack->has_reason ? own_reason(facts, names[i]) : reason;
    }
    if (!any || (lack->when != NULL && eval_answer(&ev, lack->when) != ANSWER_YES))
        return;
    buf_printf(out, "%s%s%s.", lack->say, reason[0] != '\0' ? ": " : "", reason);
    if (lack->get != NULL)
        buf_printf(out, " %s", lack->get);
}

int verdict_add_lacks(struct verdict *v, const struct facts *facts, const struct tree *tree, const char *const *names,
                      size_t count)
{
    for (size_t i = 0; i < tree->lack_count && v->lacks.count < SHOWN_MAX; i++) {
        struct buf line = BUF_INIT;
        put_lack(facts, &tree->lack[i], names, count, &line);
        char *text = line.len > 0 && !buf_failed(&line) ? strdup(buf_str(&line)) : NULL;
        bool lost = buf_failed(&line) || (line.len > 0 && text == NULL);
        buf_release(&line);
        if (lost)
            return -ENOMEM;
        if (text != NULL)
            verdict_list_take(&v->lacks, text);
    }
    return 0;
}
