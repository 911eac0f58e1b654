/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log's events, a line for each device. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "report/report.h"

#include <stdio.h>

#define DEVICES_MAX 8u
#define TEXT_BYTES 600

static const char *text_of(const struct facts *facts, unsigned device, const char *what)
{
    char name[64];
    const char *text = NULL;
    (void)snprintf(name, sizeof(name), "kmsg.device.%u.%s", device, what);
    return facts_get_text(facts, name, &text) ? text : NULL;
}

void report_kernel_timeline(const struct report_input *in, struct buf *out)
{
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        const char *device = text_of(in->facts, i, "device"), *first = text_of(in->facts, i, "first");
        const char *cause = text_of(in->facts, i, "cause"), *fragment = text_of(in->facts, i, "fragment");
        const char *followed = text_of(in->facts, i, "followed");
        if (device == NULL || first == NULL || (cause == NULL && fragment == NULL))
            return;
        buf_puts(out, "- ");
        escape_markdown(out, device, TEXT_BYTES);
        buf_printf(out, ", %s%s: ", first, cause == NULL ? ", its beginning is not in the log" : "");
        escape_markdown(out, cause != NULL ? cause : fragment, TEXT_BYTES);
        if (followed != NULL) {
            buf_puts(out, "; this followed: ");
            escape_markdown(out, followed, TEXT_BYTES);
        }
        buf_putc(out, '\n');
    }
}
