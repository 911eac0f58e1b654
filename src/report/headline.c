/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the first screen that combine several facts or rows. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "diagnose/verdict.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GPUS_MAX 64
#define WORD_MAX 80
#define LINE_MAX_BYTES 600

/* --- the machine --- */

static void add_text(struct buf *out, const struct facts *facts, const char *name,
                     const char *before, const char *separator)
{
    const char *text = NULL;
    if (!facts_get_text(facts, name, &text) || text[0] == '\0')
        return;
    buf_puts(out, out->len > 0 ? separator : "");
    buf_puts(out, before);
    escape_markdown(out, text, WORD_MAX);
}

/* "gfx1100", or the name if the target is not known (NVIDIA). */
static const char *gpu_word(const struct facts *facts, int gpu)
{
    static const char *const whats[] = {"gfx", "name"};
    for (size_t i = 0; i < 2; i++) {
        char name[48];
        const char *text = NULL;
        (void)snprintf(name, sizeof(name), "gpu.%d.%s", gpu, whats[i]);
        if (facts_get_text(facts, name, &text))
            return text;
    }
    return NULL;
}

/* "2 x gfx1100 (23.98 GiB)": neighbours of one kind and size are counted. */
static void add_gpus(struct buf *out, const struct facts *facts)
{
    int64_t count = 0;
    if (!facts_get_integer(facts, "gpu.count", &count))
        return;
    for (int gpu = 0; gpu < count && gpu < GPUS_MAX;) {
        char size_name[48];
        char size[64];
        const char *word = gpu_word(facts, gpu);
        int64_t bytes = -1;
        int64_t is_apu = 0;
        int next = gpu;
        (void)snprintf(size_name, sizeof(size_name), "gpu.%d.vram.total_bytes", gpu);
        (void)facts_get_integer(facts, size_name, &bytes);
        fact_format(facts_best(facts, size_name), size, sizeof(size));
        for (bool same = true; same; next += same) {
            const char *other = gpu_word(facts, next);
            int64_t other_bytes = -1;
            (void)snprintf(size_name, sizeof(size_name), "gpu.%d.vram.total_bytes", next);
            (void)facts_get_integer(facts, size_name, &other_bytes);
            same = next < count && next < GPUS_MAX && other_bytes == bytes &&
                   (word == NULL ? other == NULL : other != NULL && strcmp(word, other) == 0);
        }
        buf_puts(out, out->len > 0 ? ", " : "");
        if (next - gpu > 1)
            buf_printf(out, "%d x ", next - gpu);
        escape_markdown(out, word != NULL ? word : "GPU", WORD_MAX);
        (void)snprintf(size_name, sizeof(size_name), "gpu.%d.is_apu", gpu);
        bool apu = facts_get_integer(facts, size_name, &is_apu) && is_apu != 0;
        if (bytes >= 0)
            buf_printf(out, apu ? " (APU, carve-out %s)" : " (%s)", size);
        gpu = next > gpu ? next : gpu + 1;
    }
}

static void add_no_gpu(struct buf *out, const struct facts *facts)
{
    size_t before = out->len;
    add_text(out, facts, "gpu.none_why", "no GPU found (", ", ");
    buf_puts(out, out->len > before ? ")" : "");
}

void report_machine_line(const struct facts *facts, struct buf *ret)
{
    struct buf line = BUF_INIT;
    struct buf *out = &line;
    const struct fact *ram = facts_best(facts, "host.mem_total_bytes");
    const char *driver = NULL;
    char size[64];
    add_gpus(out, facts);
    add_no_gpu(out, facts);
    fact_format(ram, size, sizeof(size));
    if (ram != NULL && ram->status == FACT_PRESENT)
        buf_printf(out, "%sRAM %s", out->len > 0 ? ", " : "", size);
    add_text(out, facts, "host.kernel", "Linux ", "; ");
    add_text(out, facts, "host.distribution", "", ", ");
    add_text(out, facts, "host.container", "in ", ", ");
    add_text(out, facts, "host.amdgpu_version", "amdgpu (DKMS) ", "; ");
    if (facts_get_text(facts, "gpu.0.driver", &driver) && strcmp(driver, "nvidia") == 0)
        add_text(out, facts, "gpu.0.driver_version", "NVIDIA driver ", "; ");
    add_text(out, facts, "software.rocm_version", "ROCm ", "; ");
    if (facts_best(facts, "jax.platforms") != NULL)
        add_text(out, facts, "software.jax_version", "JAX ", "; ");
    add_text(out, facts, "software.torch_version", "PyTorch ", "; ");
    add_text(out, facts, "software.python_version", "Python ", "; ");
    buf_append(ret, buf_str(&line), line.len);
    buf_release(&line);
}

void report_missing(const struct verdict *v, struct buf *out)
{
    for (size_t i = 0; i < v->lacks.count; i++) {
        buf_puts(out, "- ");
        escape_markdown(out, v->lacks.text[i], LINE_MAX_BYTES);
        buf_putc(out, '\n');
    }
}
