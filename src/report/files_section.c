/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a bundle: its files and the purpose of each. */
#include "report/internal.h"

#include "base/buf.h"
#include "report/report.h"

#include <string.h>

/* The longest name or folder that matches a file is used; each row is printed once. */
static const struct {
    const char *name;
    const char *what;
} known[] = {
    {"SUMMARY.md", "this text"},
    {"report.html", "the same and more as one page for a browser: charts over time, all facts"},
    {"verdict.json", "the verdict with the way through the decision tree, for programs"},
    {"facts.json", "every number with its source, and why a missing one is missing"},
    {"manifest.json", "what was tried, with its outcome; size and SHA-256 of each file"},
    {"redaction.json", "what was replaced, how often; no values"},
    {"stdout/", "lines of stdout about memory or a failure"},
    {"output/", "the program's stderr: its beginning, its end, and every line of failure"},
    {"impact/", "the dying process, read while the tracer held it: status, mappings, open files, limits"},
    {"stacks/", "native stacks of the process"},
    {"stacks/python", "stacks of Python's threads, by Python itself"},
    {"waits/", "what each thread waited for, and the stacks of Python, of a program that stood still"},
    {"hook/", "from inside Python: exceptions, what the allocators of PyTorch and JAX held at the failure"},
    {"ledger/", "the process's GPU allocations: live ones, peaks, refusals"},
    {"telemetry/", "over time: memory and load of GPUs, processes and host; the allocators of PyTorch and JAX"},
    {"kernel_log/", "kernel lines of the run about GPUs and memory"},
    {"devcoredump/", "the GPU's core dump"},
    {"environment/", "environment variables that matter; values of others are left out"},
    {"software/", "versions of libraries and drivers"},
    {"python/", "installed Python packages"},
    {"host/", "the machine: kernel, processor, memory"},
    {"gpu/", "the GPUs, as the driver describes them"},
    {"drm/", "the GPUs, as libdrm describes them"},
    {"hsa/", "the GPUs, as the HSA runtime describes them"},
    {"models/", "model files: format, sizes, SHA-256"},
    {"limits/", "limits of the process"},
    {"cgroup/", "limits and use of its control group"},
    {"job/", "the scheduler's job"},
    {"run/", "how the run was started and observed"},
};

static bool is_there(const struct report_input *in, const char *name)
{
    size_t len = strlen(name);
    bool begins = strchr(name, '.') == NULL; /* a folder, or the beginning of names */
    for (size_t i = 0; i < in->file_count; i++) {
        if (begins ? strncmp(in->files[i], name, len) == 0 : strcmp(in->files[i], name) == 0)
            return true;
    }
    return false;
}

void report_files(const struct report_input *in, struct buf *out)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (is_there(in, known[i].name))
            buf_printf(out, "- `%s`: %s\n", known[i].name, known[i].what);
    }
}
