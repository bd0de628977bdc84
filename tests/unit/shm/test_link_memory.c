/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a link use the same memory, also if a verbatimd ended after it had notified only one
 * of them.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/link.h"

static int make_memory_for(size_t ring_bytes)
{
	int fd = memfd_create("link", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, LINK_BYTES_OF(ring_bytes)), 0);
	return fd;
}

static int make_memory(void)
{
	return make_memory_for(RING_BYTES);
}

/* Not started. */
static struct link *make_end(int side, int memory)
{
	int arena_fd = memfd_create("arena", MFD_CLOEXEC);
	struct peer_arena arena;
	struct link *link;

	assert_int_equal(ftruncate(arena_fd, ARENA_BYTES), 0);
	assert_int_equal(peer_arena_open(&arena, arena_fd), 0);
	close(arena_fd);
	link = link_create(2, getpid(), side, memory, &arena, eventfd(0, EFD_CLOEXEC), -1);
	assert_non_null(link);
	return link;
}

static struct link *start_end(int side, int memory)
{
	struct link *link = make_end(side, memory);

	assert_true(link_start(link));
	return link;
}

static void send_number(struct link *link, uint32_t number)
{
	struct record *record = ring_reserve(&link->tx, sizeof(number), 0);

	assert_non_null(record);
	memset(&record->header, 0, sizeof(record->header));
	record->header.bytes = sizeof(number);
	record->header.imm = number;
	ring_publish(&link->tx, record, record_word(OPERATION_SEND, 0, sizeof(number)));
}

static void expect_numbers(struct link *link, uint32_t first, uint32_t last)
{
	struct record_header header = { 0 };

	for (uint32_t number = first; number <= last; number++) {
		assert_non_null(ring_peek(&link->rx, &header));
		assert_int_equal(header.imm, number);
		ring_advance(&link->rx, &header);
	}
	assert_null(ring_peek(&link->rx, &header));
}

static void exchange_many(struct link *a, struct link *b, uint32_t first)
{
	for (uint32_t i = first; i <= 20000; i++) {
		send_number(a, i);
		expect_numbers(b, i, i);
		ring_release(&b->rx);
	}
}

/* The records that it has sent are in the new memory. */
static void test_an_end_that_was_told_alone_moves(void **state)
{
	int first = make_memory(), second = make_memory(), third = make_memory();
	struct link *a = start_end(0, first), *b = start_end(1, second), *late;

	for (uint32_t i = 1; i <= 100; i++)
		send_number(a, i);
	send_number(b, 7);
	expect_numbers(b, 1, 0);
	assert_false(link_is_shared(a));
	assert_false(link_is_shared(b));
	assert_true(link_move(a, 0, second));
	assert_true(link_is_shared(a));
	assert_true(link_is_shared(b));
	expect_numbers(b, 1, 100);
	expect_numbers(a, 7, 7);
	exchange_many(a, b, 101);
	/* For good. */
	assert_false(link_move(a, 0, third));
	assert_false(link_move(b, 1, third));
	assert_false(link_move(b, 1, first));
	/* The answer of the verbatimd that ended is read late. */
	late = make_end(1, first);
	assert_false(link_start(late));
	link_close(late);
	link_close(a);
	link_close(b);
	close(first);
	close(second);
	close(third);
}

/* What was sent moves to memory of another length, if it fits. */
static void test_moves_to_another_length(void **state)
{
	const size_t lengths[][2] = { { RING_BYTES_MIN, RING_BYTES_MAX },
				      { RING_BYTES_MAX, RING_BYTES_MIN } };

	for (int i = 0; i < 2; i++) {
		int first = make_memory_for(lengths[i][0]), second = make_memory_for(lengths[i][1]);
		struct link *a = start_end(0, first), *b = start_end(1, second);

		for (uint32_t n = 1; n <= 1000; n++)
			send_number(a, n);
		send_number(b, 7);
		assert_true(link_move(a, 0, second));
		assert_int_equal(a->tx.bytes, lengths[i][1]);
		assert_int_equal(a->rx.bytes, lengths[i][1]);
		expect_numbers(b, 1, 1000);
		expect_numbers(a, 7, 7);
		exchange_many(a, b, 1001);
		link_close(a);
		link_close(b);
		close(first);
		close(second);
	}
}

/* One end has sent more than short memory holds, and is offered such. */
static struct link *overfill_and_move(int memory, int offered)
{
	struct link *link = start_end(0, memory);

	while (link->tx.tail < RING_BYTES_MIN)
		send_number(link, 1);
	assert_false(link_move(link, 0, offered));
	return link;
}

/* What does not fit ends both ends. */
static void test_too_much_for_shorter_memory(void **state)
{
	int first = make_memory_for(RING_BYTES_MAX), second = make_memory(), third = make_memory();
	struct link *b = start_end(1, second), *a = overfill_and_move(first, second), *late;

	assert_true(a->tx.broken);
	assert_false(ring_has_head(&b->tx));
	/* Nobody can come to where it was, or leave where it has been refused. */
	late = make_end(1, first);
	assert_false(link_start(late));
	link_close(late);
	assert_false(link_move(b, 1, third));
	a->broken = true;
	assert_false(link_move(a, 0, third));
	late = start_end(1, third);
	assert_false(ring_has_head(&late->tx));
	link_close(late);
	link_close(a);
	link_close(b);
	close(first);
	close(second);
	close(third);
}

/* But not where the other end is, too. */
static void test_enough_room_where_both_are(void **state)
{
	int first = make_memory_for(RING_BYTES_MAX), second = make_memory();
	struct link *b = start_end(1, first), *a = overfill_and_move(first, second);

	assert_false(a->tx.broken);
	assert_true(ring_has_head(&b->tx));
	link_close(a);
	link_close(b);
	close(first);
	close(second);
}

static void test_nobody_leaves_what_both_use(void **state)
{
	int first = make_memory(), second = make_memory();
	struct link *a = start_end(0, first), *b = start_end(1, first);

	send_number(a, 1);
	assert_false(link_move(a, 0, second));
	assert_false(link_move(b, 1, second));
	assert_false(link_move(a, 0, first));
	expect_numbers(b, 1, 1);
	link_close(a);
	link_close(b);
	close(first);
	close(second);
}

/* Each end was notified alone, of different memory; a third is offered to both. */
static void test_both_move(void **state)
{
	int first = make_memory(), second = make_memory(), third = make_memory();
	struct link *a = start_end(0, first), *b = start_end(1, second);

	send_number(a, 1);
	send_number(b, 2);
	assert_true(link_move(b, 1, third));
	assert_false(link_is_shared(b));
	assert_true(link_move(a, 0, third));
	expect_numbers(a, 2, 2);
	expect_numbers(b, 1, 1);
	link_close(a);
	link_close(b);
	close(first);
	close(second);
	close(third);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_end_that_was_told_alone_moves),
		cmocka_unit_test(test_nobody_leaves_what_both_use),
		cmocka_unit_test(test_moves_to_another_length),
		cmocka_unit_test(test_too_much_for_shorter_memory),
		cmocka_unit_test(test_enough_room_where_both_are),
		cmocka_unit_test(test_both_move),
	};

	return cmocka_run_group_tests_name("memory of links", tests, NULL, NULL);
}
