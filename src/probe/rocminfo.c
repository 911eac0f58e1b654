/* SPDX-License-Identifier: Apache-2.0 */
/* The HSA tree in the layout of rocminfo, which maintainers know by heart. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/probe.h"

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

static void print_pool(const cJSON *pool, int number)
{
    uint64_t kib = (uint64_t)(number_of(pool, "size_bytes") / 1024);
    (void)printf("    Pool %-20d\n      Segment:                 %s", number,
                 text_of(pool, "segment"));
    const cJSON *flags = cJSON_GetObjectItemCaseSensitive(pool, "flags");
    const cJSON *flag;
    const char *separator = "; FLAGS: ";
    cJSON_ArrayForEach(flag, flags)
    {
        (void)printf("%s%s", separator, cJSON_GetStringValue(flag));
        separator = ", ";
    }
    (void)printf("\n      Size:                    %" PRIu64 "(0x%" PRIx64 ") KB\n", kib, kib);
    (void)printf("      Allocatable:             %s\n",
                 is_true(pool, "allocatable") ? "TRUE" : "FALSE");
    (void)printf("      Alloc Granule:           %.0fKB\n", number_of(pool, "granule_bytes") / 1024);
    (void)printf("      Alloc Alignment:         %.0fKB\n",
                 number_of(pool, "alignment_bytes") / 1024);
    (void)printf("      Accessible by all:       %s\n",
                 is_true(pool, "accessible_by_all") ? "TRUE" : "FALSE");
}

static void print_agent(const cJSON *agent, int number)
{
    (void)printf("*******\nAgent %d\n*******\n", number);
    (void)printf("  Name:                    %s\n", text_of(agent, "name"));
    (void)printf("  Marketing Name:          %s\n", text_of(agent, "marketing_name"));
    (void)printf("  Vendor Name:             %s\n", text_of(agent, "vendor"));
    (void)printf("  Node:                    %.0f\n", number_of(agent, "node"));
    (void)printf("  Device Type:             %s\n", text_of(agent, "type"));
    (void)printf("  Chip ID:                 %.0f(0x%x)\n", number_of(agent, "chip_id"),
                 (unsigned)number_of(agent, "chip_id"));
    (void)printf("  Cacheline Size:          %.0f\n", number_of(agent, "cacheline_bytes"));
    (void)printf("  Max Clock Freq. (MHz):   %.0f\n", number_of(agent, "clock_mhz"));
    (void)printf("  Compute Unit:            %.0f\n", number_of(agent, "compute_units"));
    (void)printf("  Pool Info:\n");
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(agent, "pools"))
    {
        print_pool(item, ++count);
    }
    (void)printf("  ISA Info:\n");
    count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(agent, "isas"))
    {
        (void)printf("    ISA %d\n      Name:                    %s\n", ++count,
                     cJSON_GetStringValue(item));
    }
}

void probe_print_rocminfo(const cJSON *hsa)
{
    (void)printf("=====================\nHSA System Attributes\n=====================\n");
    (void)printf("Runtime Version:         %s\n\n", text_of(hsa, "runtime_version"));
    (void)printf("==========\nHSA Agents\n==========\n");
    const cJSON *agent;
    int number = 0;
    cJSON_ArrayForEach(agent, cJSON_GetObjectItemCaseSensitive(hsa, "agents"))
    {
        print_agent(agent, ++number);
    }
    (void)printf("*** Done ***\n");
}
