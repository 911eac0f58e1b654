/* SPDX-License-Identifier: Apache-2.0 */
/* Input for the tests of the hook's readers: a snapshot, and rows of PID.torch.csv. */
#ifndef TEST_TORCH_INPUT_H
#define TEST_TORCH_INPUT_H

#include "base/buf.h"

#include <stdint.h>

#define MIB ((int64_t)1 << 20)

static const char *const two_pools =
    "{\"format\":1,\"segments_omitted\":0,\"segments\":["
    "{\"device\":0,\"address\":1,\"total_size\":20971520,\"stream\":0,\"segment_type\":\"large\","
    "\"segment_pool_id\":[0,0],\"is_expandable\":false,\"blocks\":["
    "{\"size\":8388608,\"state\":\"active_allocated\",\"at\":[\"a.py:1 f\",\"b.py:2 g\"]},"
    "{\"size\":2097152,\"state\":\"inactive\"},"
    "{\"size\":4194304,\"state\":\"active_pending_free\",\"at\":[\"c.py:1 f\"]},"
    "{\"size\":6291456,\"state\":\"inactive\"}]},"
    "{\"device\":0,\"address\":2,\"total_size\":2097152,\"stream\":7,\"segment_type\":\"small\","
    "\"segment_pool_id\":[0,0],\"is_expandable\":false,\"blocks\":["
    "{\"size\":2097152,\"state\":\"inactive\"}]},"
    "{\"device\":0,\"address\":3,\"total_size\":41943040,\"stream\":0,\"segment_type\":\"large\","
    "\"segment_pool_id\":[0,1],\"is_expandable\":true,\"blocks\":["
    "{\"size\":41943040,\"state\":\"inactive\"}]},"
    "{\"device\":1,\"address\":4,\"total_size\":1048576,\"stream\":0,\"segment_type\":\"large\","
    "\"blocks_omitted\":9000,\"inactive_size\":524288,\"largest_inactive\":4096}]}";

static inline void put_row(struct buf *b, int64_t t_ns, int device, int64_t allocated)
{
    buf_printf(b, "%lld,%d,%lld,%lld,1,2,3,4,5,600,300,7,,0,0,%d,%lld,%lld\n", (long long)t_ns,
               device, (long long)allocated, (long long)(allocated + 5), 40 + device,
               (long long)(allocated / 8), (long long)(allocated / MIB));
}

#endif
