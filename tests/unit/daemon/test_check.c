/* SPDX-License-Identifier: BSD-2-Clause */
/* The check of slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../broken.h"
#include "daemon/slots.h"

static void test_slots(void **state)
{
	static struct daemon d;
	struct client a = { .daemon = &d, .slot = 3, .uid = 7 },
		      b = { .daemon = &d, .slot = 5, .uid = 7 };

	list_init(&d.clients);
	list_add_tail(&d.clients, &a.in_daemon);
	list_add_tail(&d.clients, &b.in_daemon);
	d.by_slot[3] = &a;
	d.by_slot[5] = &b;
	d.slot_uids[3] = d.slot_uids[5] = 8;
	assert_broken(d.by_slot[0] = &a, slots_check(&d));
	assert_broken(d.by_slot[5] = NULL, slots_check(&d));
	assert_broken(d.by_slot[4] = &a, slots_check(&d));
	assert_broken(b.slot = 3, slots_check(&d));
	assert_broken(d.slot_uids[3] = 0, slots_check(&d));
	assert_broken(list_del(&a.in_daemon), slots_check(&d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
