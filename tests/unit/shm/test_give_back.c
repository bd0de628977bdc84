/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a ring that rests is given back: all pages that hold nothing that its consumer may
 * read, and no others, whatever head the other end stores.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/page.h"
#include "shm/link.h"

#define FAR_SLOT 9
#define MARK	 0x5a

/* What a consumer that does not lag may leave unreleased is less. */
#define LAG (RING_BYTES / 16 + RECORD_BYTES_MAX)

static struct rig rig;
static struct far far;

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	return 0;
}

static int teardown(void **state)
{
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

/* Whether the byte at this place of the ring is in a page that only [tail + 64, head + ring) has.
 */
static bool is_given(uint64_t place, uint64_t head, uint64_t tail)
{
	uint64_t page = page_bytes(), begin = place & ~(page - 1);

	/* the first position from the last record's end on that has this place */
	while (begin < tail + RECORD_UNIT)
		begin += RING_BYTES;
	return begin + page <= head + RING_BYTES;
}

static void check_pages(const char *data, uint64_t head, uint64_t tail, bool any)
{
	for (uint64_t place = 0; place < RING_BYTES; place += RECORD_UNIT) {
		char expected = any && is_given(place, head, tail) ? 0 : MARK;

		if (data[place] != expected)
			fail_msg("head %llu tail %llu: byte %llu is %#x", (unsigned long long)head,
				 (unsigned long long)tail, (unsigned long long)place, data[place]);
	}
}

/* The producer maps the ring elsewhere than the consumer, which is where the test looks. */
static void give_back(uint64_t head, uint64_t tail, bool any)
{
	struct ring_control control = { .head = head };
	struct ring_producer tx = far.link->tx;

	memset(far.rx.data, MARK, RING_BYTES);
	tx.control = &control;
	tx.tail = tail;
	tx.given = tail - RING_BYTES;
	ring_give_back(&tx);
	check_pages(far.rx.data, head, tail, any);
	assert_int_equal(tx.given, tail - head < LAG ? tail : tail - RING_BYTES);
}

static void test_what_is_given_back(void **state)
{
	static const struct {
		uint64_t head, tail;
	} rows[] = {
		{ 0, 0 },
		{ 0, 64 },
		{ 0, RING_BYTES - 64 },
		{ 0, RING_BYTES },
		{ 0, LAG - RECORD_UNIT },
		{ 0, LAG },
		{ 64, LAG },
		{ 64, 128 },
		{ 4096, 4096 },
		{ 4096, 8128 },
		{ 4096, 8192 },
		{ RING_BYTES / 2, RING_BYTES / 2 + 640 },
		{ RING_BYTES - 64, RING_BYTES - 64 },
		{ RING_BYTES - 64, RING_BYTES + 64 },
		{ 7ull * RING_BYTES, 7ull * RING_BYTES },
		{ 7ull * RING_BYTES - 8192, 7ull * RING_BYTES + 8192 },
		{ 7ull * RING_BYTES + 12288, 8ull * RING_BYTES - 12352 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		give_back(rows[i].head, rows[i].tail, true);
}

/* A head that there cannot be; it need not be a multiple of a record's unit. */
static void test_hostile_heads(void **state)
{
	const uint64_t tail = 3ull * RING_BYTES + 640;

	give_back(tail + 64, tail, false);
	give_back(tail + RING_BYTES, tail, false);
	give_back(UINT64_MAX, tail, false);
	give_back(0, tail, false);
	give_back(tail - RING_BYTES - 1, tail, false);
	give_back(tail - RING_BYTES, tail, true);
	give_back(tail - 1, tail, true);
	give_back(UINT64_MAX, 0, true); /* below the begin by 1: as good as all of it */
}

static blkcnt_t blocks(void)
{
	struct stat st;

	assert_int_equal(fstat(far.shared_fd, &st), 0);
	return st.st_blocks;
}

static void send_records(uint32_t count)
{
	struct link *link = far.link;
	struct record_header header = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		struct record *record;

		lock_acquire(&link->tx_lock);
		record = ring_reserve(&link->tx, RECORD_PAYLOAD_MAX, 0);
		assert_non_null(record);
		memset(record, MARK, RECORD_PAYLOAD_MAX);
		record->header.bytes = RECORD_PAYLOAD_MAX;
		ring_publish(&link->tx, record, record_word(OPERATION_SEND, 0, RECORD_PAYLOAD_MAX));
		lock_release(&link->tx_lock);
		assert_true(far_next(&far, &header));
		assert_int_equal(header.bytes, RECORD_PAYLOAD_MAX);
		ring_release_room(&far.rx);
	}
}

static void look(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		link_give_back(far.link);
}

static void test_a_link_that_rests(void **state)
{
	const blkcnt_t little = 4 * PAGE_BYTES_MAX / 512, much = RING_BYTES / 512;
	uint64_t given;

	send_records(100);
	assert_true(blocks() >= much);
	look(LINK_RESTS);
	assert_true(blocks() >= much); /* it might have sent just before the first look */
	look(1);
	assert_true(blocks() < little);
	/* it is as good as new */
	send_records(100);
	assert_true(blocks() >= much);
	look(LINK_RESTS);
	send_records(1);
	look(LINK_RESTS);
	assert_true(blocks() >= much);
	look(1);
	assert_true(blocks() < little);
	/* little is not worth it */
	given = far.link->tx.given;
	send_records(1);
	look(2 * LINK_RESTS);
	assert_int_equal(far.link->tx.given, given);
}

/* What it had not read at the first time is given back once it has. */
static void test_a_consumer_that_lags(void **state)
{
	const blkcnt_t little = 4 * PAGE_BYTES_MAX / 512, much = RING_BYTES / 2 / 512;
	struct ring_control *control = far.link->tx.control;

	send_records(100);
	control->head -= RING_BYTES * 3 / 4;
	look(LINK_RESTS + 1);
	assert_int_equal(far.link->tx.given, 0);
	assert_true(blocks() >= much);
	control->head = far.link->tx.tail;
	look(1);
	assert_int_equal(far.link->tx.given, far.link->tx.tail);
	assert_true(blocks() < little);
}

static void test_what_does_not_rest(void **state)
{
	send_records(100);
	far.link->broken = true;
	look(2 * LINK_RESTS);
	assert_int_equal(far.link->tx.given, 0);
	far.link->broken = false;
	far.link->tx.broken = true;
	look(1);
	assert_int_equal(far.link->tx.given, 0);
	far.link->tx.broken = false;
	lock_acquire(&far.link->tx_lock);
	look(1);
	assert_int_equal(far.link->tx.given, 0);
	lock_release(&far.link->tx_lock);
	look(1);
	assert_int_equal(far.link->tx.given, far.link->tx.tail);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_given_back), TEST(test_hostile_heads),
		TEST(test_a_link_that_rests),  TEST(test_a_consumer_that_lags),
		TEST(test_what_does_not_rest),
	};

	return cmocka_run_group_tests_name("memory of rings that rest", tests, NULL, NULL);
}
