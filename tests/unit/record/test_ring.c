/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: a reader gets exactly the bytes written, however far behind it is. Half of the ring
 * stays free for a producer that writes meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "record/ring.h"

#define SIZE (1u << 20)
#define PIECE (SIZE / 2) /* as large as it may be */
#define FOR_NS UINT64_C(300000000)
#define AT_MOST_NS UINT64_C(10000000000) /* if the reader gets no CPU */

static struct {
    struct ring ring;
    unsigned char data[SIZE];
} memory;
static _Atomic bool over;

static unsigned char byte_at(uint64_t position)
{
    return (unsigned char)(position / PIECE % 4);
}

static void *produce(void *context)
{
    static unsigned char pieces[4][PIECE];
    (void)context;
    for (int i = 0; i < 4; i++)
        memset(pieces[i], i, PIECE);
    while (!over)
        ring_write(&memory.ring, pieces[memory.ring.head / PIECE % 4], PIECE);
    return NULL;
}

static void test_reader_beside_a_producer(void **state)
{
    (void)state;
    pthread_t thread;
    static unsigned char got[SIZE];
    uint64_t cursor = 0;
    uint64_t lost = 0;
    uint64_t bytes = 0;
    uint64_t wrong = 0;
    uint64_t begin_ns = clock_mono_ns();
    ring_init(&memory.ring, SIZE);
    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    while (clock_mono_ns() - begin_ns < (bytes > 0 ? FOR_NS : AT_MOST_NS)) {
        size_t len = ring_read(&memory.ring, &cursor, got, sizeof got, &lost);
        for (size_t i = 0; i < len; i += 509)
            wrong += got[i] != byte_at(cursor - len + i);
        bytes += len;
    }
    over = true;
    (void)pthread_join(thread, NULL);
    assert_true(bytes > 0);
    assert_int_equal(bytes + lost, cursor);
    assert_int_equal(wrong, 0);
}

static void test_reader_that_is_behind(void **state)
{
    (void)state;
    static unsigned char piece[100000];
    static unsigned char got[SIZE];
    uint64_t cursor = 0;
    uint64_t lost = 0;
    ring_init(&memory.ring, SIZE);
    assert_int_equal(ring_read(&memory.ring, &cursor, got, sizeof got, &lost), 0);
    for (uint64_t head = 0; head < 2000000; head += sizeof piece) {
        for (size_t i = 0; i < sizeof piece; i++)
            piece[i] = byte_at(head + i);
        ring_write(&memory.ring, piece, sizeof piece);
    }
    assert_int_equal(ring_read(&memory.ring, &cursor, got, 100, &lost), 100);
    assert_int_equal(lost, 2000000 - SIZE / 2);
    assert_int_equal(got[0], byte_at(lost));
    assert_int_equal(ring_read(&memory.ring, &cursor, got, sizeof got, &lost), SIZE / 2 - 100);
    assert_int_equal(cursor, 2000000);
    assert_int_equal(got[SIZE / 2 - 101], byte_at(1999999));
}

/* The header lies in memory that the target's user can write to. */
static void test_damaged_header(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 3, 2 * RING_BYTES_MAX, UINT64_MAX, UINT64_C(1) << 63};
    static const unsigned char piece[64] = {1};
    static unsigned char got[64];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t cursor = 0;
        ring_init(&memory.ring, SIZE);
        ring_write(&memory.ring, piece, sizeof piece);
        memory.ring.size = sizes[i];
        ring_write(&memory.ring, piece, sizeof piece);
        assert_int_equal(memory.ring.head, sizeof piece);
        assert_int_equal(ring_read(&memory.ring, &cursor, got, sizeof got, NULL), 0);
    }
    ring_init(&memory.ring, SIZE);
    ring_write(&memory.ring, memory.data, SIZE); /* more than half of it: refused */
    assert_int_equal(memory.ring.head, 0);
    memory.ring.head = UINT64_MAX - 7; /* a wild head stays within the ring */
    ring_write(&memory.ring, piece, sizeof piece);
    uint64_t cursor = 0;
    assert_true(ring_read(&memory.ring, &cursor, got, sizeof got, NULL) <= sizeof got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_that_is_behind),
        cmocka_unit_test(test_damaged_header),
        cmocka_unit_test(test_reader_beside_a_producer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
