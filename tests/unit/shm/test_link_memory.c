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

static int make_memory(void)
{
	int fd = memfd_create("link", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, LINK_BYTES_OF(RING_BYTES)), 0);
	return fd;
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
	for (uint32_t i = 101; i <= 20000; i++) {
		send_number(a, i);
		expect_numbers(b, i, i);
		ring_release(&b->rx);
	}
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
		cmocka_unit_test(test_both_move),
	};

	return cmocka_run_group_tests_name("memory of links", tests, NULL, NULL);
}
