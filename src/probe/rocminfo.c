/* SPDX-License-Identifier: Apache-2.0 */
/* The HSA tree in the layout of rocminfo, which maintainers know by heart. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "probe/rocminfo.h"

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

/* Raw numbers (all digits kept) parse as numbers once printed; a double is exact enough in KB. */
static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (cJSON_IsRaw(item) && item->valuestring != NULL)
        return strtod(item->valuestring, NULL);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static bool is_true(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void print_pool(struct buf *out, const cJSON *pool, int number)
{
    uint64_t kib = (uint64_t)(number_of(pool, "size_bytes") / 1024);
    buf_printf(out, "    Pool %-20d\n      Segment:                 %s", number,
               text_of(pool, "segment"));
    const cJSON *flags = cJSON_GetObjectItemCaseSensitive(pool, "flags");
    const cJSON *flag;
    const char *separator = "; FLAGS: ";
    cJSON_ArrayForEach(flag, flags)
    {
        buf_printf(out, "%s%s", separator, cJSON_GetStringValue(flag));
        separator = ", ";
    }
    buf_printf(out, "\n      Size:                    %" PRIu64 "(0x%" PRIx64 ") KB\n", kib, kib);
    buf_printf(out, "      Allocatable:             %s\n",
               is_true(pool, "allocatable") ? "TRUE" : "FALSE");
    buf_printf(out, "      Alloc Granule:           %.0fKB\n",
               number_of(pool, "granule_bytes") / 1024);
    if (number_of(pool, "recommended_granule_bytes") > 0)
        buf_printf(out, "      Alloc Recommended Granule:%.0fKB\n",
                   number_of(pool, "recommended_granule_bytes") / 1024);
    buf_printf(out, "      Alloc Alignment:         %.0fKB\n",
               number_of(pool, "alignment_bytes") / 1024);
    buf_printf(out, "      Accessible by all:       %s\n",
               is_true(pool, "accessible_by_all") ? "TRUE" : "FALSE");
}

static void print_agent(struct buf *out, const cJSON *agent, int number)
{
    buf_printf(out, "*******\nAgent %d\n*******\n", number);
    buf_printf(out, "  Name:                    %s\n", text_of(agent, "name"));
    buf_printf(out, "  Marketing Name:          %s\n", text_of(agent, "marketing_name"));
    buf_printf(out, "  Vendor Name:             %s\n", text_of(agent, "vendor"));
    buf_printf(out, "  Node:                    %.0f\n", number_of(agent, "node"));
    buf_printf(out, "  Device Type:             %s\n", text_of(agent, "type"));
    buf_printf(out, "  Chip ID:                 %.0f(0x%x)\n", number_of(agent, "chip_id"),
               (unsigned)number_of(agent, "chip_id"));
    buf_printf(out, "  Cacheline Size:          %.0f(0x%x)\n", number_of(agent, "cacheline_bytes"),
               (unsigned)number_of(agent, "cacheline_bytes"));
    buf_printf(out, "  Max Clock Freq. (MHz):   %.0f\n", number_of(agent, "clock_mhz"));
    if (cJSON_HasObjectItem(agent, "wavefront_size"))
        buf_printf(out, "  Wavefront Size:          %.0f(0x%x)\n",
                   number_of(agent, "wavefront_size"),
                   (unsigned)number_of(agent, "wavefront_size"));
    buf_printf(out, "  Compute Unit:            %.0f\n", number_of(agent, "compute_units"));
    buf_printf(out, "  Pool Info:\n");
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(agent, "pools"))
    {
        print_pool(out, item, ++count);
    }
    buf_printf(out, "  ISA Info:\n");
    count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(agent, "isas"))
    {
        buf_printf(out, "    ISA %d\n      Name:                    %s\n", ++count,
                   cJSON_GetStringValue(item));
    }
}

void rocminfo_text(const cJSON *hsa, struct buf *out)
{
    buf_printf(out, "=====================\nHSA System Attributes\n=====================\n");
    buf_printf(out, "Runtime Version:         %s\n\n", text_of(hsa, "runtime_version"));
    buf_printf(out, "==========\nHSA Agents\n==========\n");
    const cJSON *agent;
    int number = 0;
    cJSON_ArrayForEach(agent, cJSON_GetObjectItemCaseSensitive(hsa, "agents"))
    {
        print_agent(out, agent, ++number);
    }
    buf_printf(out, "*** Done ***\n");
}
