/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One producer and one consumer in one thread: laps, limits, and what a hostile other end writes.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/ring.h"

struct pair {
	struct ring_control control;
	struct ring_producer tx;
	struct ring_consumer rx;
	char *data;
};

static int setup(void **state)
{
	static struct pair pair;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	memset(&pair, 0, sizeof(pair));
	assert_int_equal(ftruncate(fd, RING_BYTES), 0);
	pair.data = ring_map(fd, 0, RING_BYTES);
	assert_ptr_not_equal(pair.data, MAP_FAILED);
	close(fd);
	pair.tx = (struct ring_producer){ .data = pair.data,
					  .bytes = RING_BYTES,
					  .control = &pair.control };
	pair.rx = (struct ring_consumer){
		.data = pair.data,
		.bytes = RING_BYTES,
		.control = &pair.control,
		.hold = UINT64_MAX,
	};
	*state = &pair;
	return 0;
}

static int teardown(void **state)
{
	ring_unmap(((struct pair *)*state)->data, RING_BYTES);
	return 0;
}

static bool put(struct pair *pair, uint32_t bytes, uint32_t number)
{
	struct record *record = ring_reserve(&pair->tx, bytes, 0);

	if (!record)
		return false;
	memset(&record->header, 0, sizeof(record->header));
	record->header.bytes = bytes;
	record->header.imm = number;
	for (uint32_t i = 0; i < bytes; i++)
		record->payload[i] = (uint8_t)(number + i);
	ring_publish(&pair->tx, record, record_word(OPERATION_SEND, 0, bytes));
	return true;
}

static void take(struct pair *pair, uint32_t bytes, uint32_t number)
{
	struct record_header header = { 0 };
	struct record *record = ring_peek(&pair->rx, &header);

	assert_non_null(record);
	assert_int_equal(header.bytes, bytes);
	assert_int_equal(header.imm, number);
	for (uint32_t i = 0; i < bytes; i++)
		if (record->payload[i] != (uint8_t)(number + i))
			fail_msg("record %u, byte %u of %u", number, i, bytes);
	ring_advance(&pair->rx, &header);
}

static void expect_none(struct pair *pair)
{
	struct record_header header = { 0 };

	assert_null(ring_peek(&pair->rx, &header));
	assert_false(pair->rx.broken);
}

static void test_beginning_is_mapped_twice(void **state)
{
	struct pair *pair = *state;

	strcpy(pair->data + RING_BYTES - 3, "around");
	assert_string_equal(pair->data, "und");
	strcpy(pair->data, "front");
	assert_string_equal(pair->data + RING_BYTES, "front");
}

static void test_publish_ends_with_a_zero_word(void **state)
{
	struct pair *pair = *state;

	memset(pair->data, 0xee, RING_BYTES); /* as left over from an earlier lap */
	((struct record *)pair->data)->header.word = 0;
	expect_none(pair);
	for (uint32_t n = 0; n < 100; n++) {
		assert_true(put(pair, n * 7, n));
		assert_int_equal(*(uint32_t *)(pair->data + pair->tx.tail % RING_BYTES), 0);
		take(pair, n * 7, n);
		expect_none(pair);
	}
}

static void test_nothing_is_taken_before_publish(void **state)
{
	struct pair *pair = *state;
	struct record *record = ring_reserve(&pair->tx, 100, 0);

	assert_non_null(record);
	assert_ptr_equal(record, ring_reserve(&pair->tx, 100, 0));
	assert_int_equal(pair->tx.tail, 0);
	expect_none(pair);
}

static void test_peek_does_not_take(void **state)
{
	struct pair *pair = *state;
	struct record_header header = { 0 };

	assert_true(put(pair, 5, 1));
	assert_true(put(pair, 6, 2));
	assert_ptr_equal(ring_peek(&pair->rx, &header), ring_peek(&pair->rx, &header));
	assert_int_equal(header.imm, 1);
	take(pair, 5, 1);
	take(pair, 6, 2);
	expect_none(pair);
}

static void test_many_laps(void **state)
{
	struct pair *pair = *state;
	uint32_t put_random = 1, take_random = 1, pace = 2, put_number = 0, take_number = 0;

	/* two generators from one seed: what is put, and, behind it, what has to be taken */
	while (pair->tx.tail < 40ull * RING_BYTES) {
		uint32_t before = put_random;

		if (put(pair, draw(&put_random) % (RECORD_PAYLOAD_MAX + 1), put_number)) {
			put_number++;
			continue;
		}
		put_random = before;
		/* some stay, so that the ring is full at another place each time */
		for (uint32_t n = draw(&pace) % (put_number - take_number) + 1; n; n--)
			take(pair, draw(&take_random) % (RECORD_PAYLOAD_MAX + 1), take_number++);
		ring_release(&pair->rx);
	}
	while (take_number != put_number)
		take(pair, draw(&take_random) % (RECORD_PAYLOAD_MAX + 1), take_number++);
	expect_none(pair);
	ring_release(&pair->rx);
	assert_false(pair->tx.broken);
	assert_int_equal(pair->rx.head, pair->tx.tail);
	assert_true(pair->control.head <= pair->rx.head);
	assert_int_equal(pair->control.acked, pair->rx.head);
}

/* At each offset of the end, a record that lies across it. */
static void test_record_across_the_end(void **state)
{
	struct pair *pair = *state;

	for (uint32_t lap = 0; lap < 258; lap++) {
		uint64_t goal = (lap + 1ull) * RING_BYTES - lap * RECORD_UNIT;

		while (pair->tx.tail < goal) {
			uint64_t left = goal - pair->tx.tail;
			uint32_t bytes = RECORD_PAYLOAD_MAX;

			if (left < (uint64_t)record_units(bytes) * RECORD_UNIT)
				bytes = (uint32_t)left - sizeof(struct record_header);
			assert_true(put(pair, bytes, lap));
			take(pair, bytes, lap);
			ring_release(&pair->rx);
		}
		assert_true(put(pair, RECORD_PAYLOAD_MAX, lap));
		take(pair, RECORD_PAYLOAD_MAX, lap);
		expect_none(pair);
		ring_release(&pair->rx);
	}
}

static void test_full(void **state)
{
	static const uint32_t sizes[] = { 0, 16, 17, 1000, RECORD_PAYLOAD_MAX };
	struct pair *pair = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t count = 0, unit = record_units(sizes[i]) * RECORD_UNIT;
		uint64_t begin = pair->tx.tail;

		while (put(pair, sizes[i], count))
			count++;
		/*
		 * All but what the zero word behind the last record needs, and less than a record.
		 */
		assert_in_range(RING_BYTES - (pair->tx.tail - begin), RECORD_UNIT,
				unit + RECORD_UNIT - 1);
		assert_false(pair->tx.broken);
		assert_null(ring_reserve(&pair->tx, sizes[i], 0));
		for (uint32_t n = 0; n < count; n++)
			take(pair, sizes[i], n);
		expect_none(pair);
		assert_null(ring_reserve(&pair->tx, RECORD_PAYLOAD_MAX, 0)); /* not released yet */
		assert_true(ring_release(&pair->rx));
		assert_non_null(ring_reserve(&pair->tx, RECORD_PAYLOAD_MAX, 0));
	}
}

static void test_release_tells_of_room_in_large_pieces(void **state)
{
	struct pair *pair = *state;
	uint64_t told = 0;

	while (pair->tx.tail < 3 * RING_BYTES) {
		assert_true(put(pair, 16, 0));
		take(pair, 16, 0);
		assert_true(ring_release(&pair->rx)); /* of the acknowledgement */
		assert_int_equal(pair->control.acked, pair->rx.head);
		if (pair->control.head != told) {
			assert_true(pair->control.head - told >= RING_BYTES / 16);
			told = pair->control.head;
		}
		assert_in_range(pair->rx.head - told, 0, RING_BYTES / 16);
		assert_false(ring_release(&pair->rx));
	}
	assert_true(told > 2 * RING_BYTES);
}

static void test_acknowledge_runs_forward_and_stops_at_hold(void **state)
{
	struct pair *pair = *state;

	ring_acknowledge(&pair->rx, 128);
	assert_int_equal(pair->control.acked, 128);
	ring_acknowledge(&pair->rx, 64);
	assert_int_equal(pair->control.acked, 128);
	pair->rx.hold = 192;
	ring_acknowledge(&pair->rx, 512);
	assert_int_equal(pair->control.acked, 192);
	assert_true(ring_release(&pair->rx)); /* that was news */
	assert_false(ring_release(&pair->rx));
	ring_acknowledge(&pair->rx, 512);
	assert_false(ring_release(&pair->rx));
	pair->rx.hold = UINT64_MAX;
	ring_acknowledge(&pair->rx, 512);
	assert_int_equal(pair->control.acked, 512);
	assert_true(ring_release(&pair->rx));
}

static void fill(struct pair *pair)
{
	while (put(pair, 1000, 0))
		;
}

/* Values of head, after `seen` was loaded last and `tail` was written. */
static void test_hostile_heads(void **state)
{
	struct pair *pair = *state;
	uint64_t seen = 2 * RING_BYTES;

	static const struct {
		int64_t from_seen; /* head as stored, from what was seen last */
		bool past_tail;	   /* from the tail instead */
		bool broken;
	} rows[] = {
		{ 0, false, false },	    { RECORD_UNIT, false, false },
		{ 1, false, false },	    { 0, true, false },
		{ -1, false, true },	    { -RECORD_UNIT, false, true },
		{ 1, true, true },	    { RECORD_UNIT, true, true },
		{ RING_BYTES, true, true }, { INT64_MAX, false, true },
		{ INT64_MIN, false, true }, { -(int64_t)(2 * RING_BYTES), false, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pair->tx = (struct ring_producer){
			.data = pair->data,
			.bytes = RING_BYTES,
			.control = &pair->control,
			.tail = seen,
			.head = seen,
		};
		pair->control.head = seen;
		fill(pair);
		assert_false(pair->tx.broken);
		pair->control.head =
			(rows[i].past_tail ? pair->tx.tail : seen) + (uint64_t)rows[i].from_seen;
		if (rows[i].broken) {
			assert_null(ring_reserve(&pair->tx, 1000, 0));
			assert_true(pair->tx.broken);
			/* and it stays broken, whatever the other end stores then */
			pair->control.head = pair->tx.tail;
			assert_null(ring_reserve(&pair->tx, RECORD_PAYLOAD_MAX, 0));
		} else {
			bool room = ring_reserve(&pair->tx, 1000, 0);

			assert_false(pair->tx.broken);
			assert_int_equal(room,
					 pair->tx.tail + 1152 - pair->control.head <= RING_BYTES);
		}
	}
}

static void test_insane_headers(void **state)
{
	struct pair *pair = *state;
	static const struct record_header rows[] = {
		{ .word = RECORD_KINDS | 1 << 16 },
		{ .word = OPERATION_NONE | 1 << 16 },
		{ .word = OPERATION_SEND },
		{ .word = OPERATION_SEND | 0xffffu << 16, .bytes = 16 },
		{ .word = OPERATION_SEND | 1 << 16, .bytes = 17 },
		{ .word = OPERATION_SEND | 257u << 16, .bytes = UINT16_MAX },
		{ .word = UINT32_MAX, .bytes = UINT16_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct record *record = (struct record *)(pair->data + pair->rx.head % RING_BYTES);
		struct record_header header = { 0 };
		uint64_t head = pair->rx.head;

		pair->rx.broken = false;
		record->header = rows[i];
		assert_null(ring_peek(&pair->rx, &header));
		assert_true(pair->rx.broken);
		assert_int_equal(pair->rx.head, head);
		/* a good record does not mend it */
		record->header =
			(struct record_header){ .word = record_word(OPERATION_SEND, 0, 0) };
		assert_null(ring_peek(&pair->rx, &header));
	}
}

/* The checked copy is used, whatever happens to the original. */
static void test_header_is_a_copy(void **state)
{
	struct pair *pair = *state;
	struct record_header header = { 0 };
	struct record *record;

	assert_true(put(pair, 100, 3));
	record = ring_peek(&pair->rx, &header);
	memset(&record->header, 0xff, sizeof(record->header));
	assert_int_equal(header.bytes, 100);
	ring_advance(&pair->rx, &header);
	assert_int_equal(pair->rx.head, pair->tx.tail);
}

/* What the consumer has not begun is not executed; what it is at is left alone. */
static void test_break(void **state)
{
	struct pair *pair = *state;
	static const uint32_t sizes[] = { 8, 5000, 300, 0 };
	struct record_header header = { 0 };
	struct record *record;

	for (uint32_t i = 0; i < 60; i++) { /* most of a lap */
		assert_true(put(pair, 8000, i));
		take(pair, 8000, i);
		ring_release(&pair->rx);
	}
	for (uint32_t i = 0; i < 4; i++)
		assert_true(put(pair, sizes[i], i));
	take(pair, sizes[0], 0);
	record = ring_peek(&pair->rx, &header);
	assert_non_null(record);
	ring_break(&pair->tx);
	assert_int_equal(header.bytes, sizes[1]);
	for (uint32_t i = 0; i < sizes[1]; i++)
		assert_int_equal(record->payload[i], (uint8_t)(1 + i));
	ring_advance(&pair->rx, &header);
	assert_null(ring_peek(&pair->rx, &header));
	assert_true(pair->rx.broken);
}

/* The other end may have written anything, a head too: what is behind the last record is spoilt. */
static void test_break_of_a_hostile_ring(void **state)
{
	static const int64_t heads[] = { 0, -1, -63, -64, -65, 64, INT64_MIN, -RING_BYTES };
	struct pair *pair = *state;
	struct record_header header = { 0 };

	for (size_t i = 0; i < 2 * sizeof(heads) / sizeof(heads[0]); i++) {
		struct ring_consumer at_end;

		for (uint32_t k = 0; k < 100; k++) {
			assert_true(put(pair, k, k));
			take(pair, k, k);
			ring_release_room(&pair->rx);
		}
		if (i % 2)
			memset(pair->data, 0x77, RING_BYTES);
		pair->control.head = pair->tx.tail + (uint64_t)heads[i / 2];
		ring_break(&pair->tx);
		at_end = pair->rx;
		assert_null(ring_peek(&at_end, &header));
		assert_true(at_end.broken);
		memset(pair->data, 0, RING_BYTES);
		ring_release_room(&pair->rx);
	}
}

/* Zeros look as if nothing had been published. */
static void test_whole(void **state)
{
	struct pair *pair = *state;
	struct record *record;

	assert_true(ring_is_whole(&pair->tx));
	assert_true(put(pair, 500, 0) && put(pair, 0, 1));
	assert_true(ring_is_whole(&pair->tx));
	take(pair, 500, 0);
	assert_true(ring_is_whole(&pair->tx)); /* whether it was released or not */
	ring_release_room(&pair->rx);
	assert_true(ring_is_whole(&pair->tx));
	record = (struct record *)(pair->data + pair->rx.head);
	record->header.word = 0;
	assert_false(ring_is_whole(&pair->tx));
	pair->control.head = pair->tx.tail;
	assert_true(ring_is_whole(&pair->tx));
	pair->control.head = pair->tx.tail - 1;
	assert_false(ring_is_whole(&pair->tx));
	pair->control.head = pair->tx.tail + 64;
	assert_false(ring_is_whole(&pair->tx));
	pair->control.head = pair->tx.tail;
	pair->data[pair->tx.tail] = 1;
	assert_false(ring_is_whole(&pair->tx));
}

static void test_no_mapping_of_a_bad_descriptor(void **state)
{
	assert_ptr_equal(ring_map(-1, 0, RING_BYTES), MAP_FAILED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_beginning_is_mapped_twice),
		TEST(test_publish_ends_with_a_zero_word),
		TEST(test_nothing_is_taken_before_publish),
		TEST(test_peek_does_not_take),
		TEST(test_many_laps),
		TEST(test_record_across_the_end),
		TEST(test_full),
		TEST(test_release_tells_of_room_in_large_pieces),
		TEST(test_acknowledge_runs_forward_and_stops_at_hold),
		TEST(test_hostile_heads),
		TEST(test_insane_headers),
		TEST(test_header_is_a_copy),
		TEST(test_break),
		TEST(test_break_of_a_hostile_ring),
		TEST(test_whole),
		cmocka_unit_test(test_no_mapping_of_a_bad_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
