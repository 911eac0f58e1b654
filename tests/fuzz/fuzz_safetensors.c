/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the header of a safetensors file: must end, stay in bounds, and leave sane strings.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/lib/byte_reader.h"
#include "collectors/lib/safetensors.h"
#include "collectors/lib/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct byte_reader reader;
    struct weights w = {0};
    char mix[64];
    byte_reader_init_memory(&reader, data, size, UINT64_MAX);
    safetensors_read(&reader, &w);
    weights_mix(&w, mix, sizeof mix);
    if (w.type_count > WEIGHTS_TYPES_MAX || reader.pos > size || strlen(mix) >= sizeof mix ||
        strnlen(w.problem, sizeof w.problem) == sizeof w.problem ||
        (w.needed_bytes > size && !w.truncated && w.problem[0] == '\0'))
        abort();
    return 0;
}
