/* SPDX-License-Identifier: Apache-2.0 */
/* Byte `i` of an endless sequence that shows a lost, doubled or swapped piece of any length. The writing target and the
 * checking test share it. */
#ifndef TEST_WATCH_STREAM_BYTE_H
#define TEST_WATCH_STREAM_BYTE_H

#include <stdint.h>

static inline unsigned char stream_byte(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    return (unsigned char)((x ^ (x >> 29)) >> 24);
}

#endif
