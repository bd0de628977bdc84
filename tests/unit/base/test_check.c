/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of base/: a list, a timer heap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "../broken.h"
#include "base/check.h"
#include "base/list.h"
#include "base/timer_heap.h"

#define ENTRIES 20

static void test_list(void **state)
{
	struct list head, elements[ENTRIES];

	list_init(&head);
	assert_int_equal(list_check(&head, 0), 0);
	for (unsigned i = 0; i < ENTRIES; i++)
		list_add_tail(&head, &elements[i]);
	assert_int_equal(list_check(&head, ENTRIES), ENTRIES);
	assert_broken(elements[3].prev = &head, list_check(&head, ENTRIES));
	assert_broken(elements[3].next = NULL, list_check(&head, ENTRIES));
	assert_broken((elements[9].next = &elements[3], elements[3].prev = &elements[9]),
		      list_check(&head, ENTRIES)); /* it never comes back */
}

static void test_timer_heap(void **state)
{
	struct timer_heap heap = { 0 };
	struct timer_heap_entry entries[ENTRIES] = { 0 };

	assert_int_equal(timer_heap_reserve(&heap, ENTRIES), 0);
	for (unsigned i = 0; i < ENTRIES; i++)
		timer_heap_set(&heap, &entries[i], 1000 - 7 * i);
	assert_broken(heap.at[0]->deadline_ns = 2000, timer_heap_check(&heap));
	assert_broken(heap.at[ENTRIES - 1]->deadline_ns = 1, timer_heap_check(&heap));
	assert_broken(heap.at[5]->place = 0, timer_heap_check(&heap));
	assert_broken(heap.count = heap.room + 1, timer_heap_check(&heap));
	free(heap.at);
}

static void test_sometimes(void **state)
{
	unsigned chosen = 0;

	for (unsigned i = 0; i < 6400; i++)
		chosen += check_sometimes(64);
	assert_in_range(chosen, 50, 200);
	assert_true(check_sometimes(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_timer_heap),
		cmocka_unit_test(test_sometimes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
