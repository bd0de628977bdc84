/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of ports, and its epoll descriptor with listening on and off. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "adapter/port_table.h"
#include "rig.h"

/* A port that wakes no thread is refused. */
static void a_port_that_cannot_be_watched_is_refused(void **state)
{
	rig_epoll_error = ENOSPC;
	assert_int_equal(rig_try_address(1), ENOSPC);
	assert_int_equal(rig_cause, CAUSE_PORT_FAILED);
	assert_false(ports_any());
	rig_epoll_error = 0;
	rig_open_address(2);
}

/* On a loopback interface all addresses of a network are the host's. */
static void a_full_table_is_a_refusal(void **state)
{
	assert_int_equal(system("ip address add 10.78.1.1/20 dev lo"), 0);
	port_table_count = PORT_TABLE_MAX - 2; /* as if so many were open */
	assert_int_equal(rig_try_address(0x100), 0);
	assert_int_equal(rig_try_address(0x101), 0);
	assert_int_equal(rig_try_address(0x102), ENOSPC);
	assert_int_equal(rig_cause, CAUSE_PORT_FAILED);
	assert_int_equal(system("ip address del 10.78.1.1/20 dev lo"), 0);
}

/* Packets that came meanwhile are reported when listening begins again. */
static void not_listening_hears_nothing_until_it_begins(void **state)
{
	struct wire_port *from = rig_open_address(1);

	rig_open_address(2);
	for (int i = 0; i < 3; i++) {
		assert_true(port_table_listen(false));
		rig_send_to(from, 2, 1);
		assert_false(rig_is_readable_within(20));
		assert_true(port_table_listen(true));
		assert_true(rig_is_readable());
		rig_take_all();
		rig_send_to(from, 2, 1);
		assert_true(rig_is_readable());
		rig_take_all();
	}
}

static void a_port_that_is_opened_meanwhile_is_heard_later(void **state)
{
	struct wire_port *from = rig_open_address(1);

	assert_true(port_table_listen(false));
	rig_open_address(2);
	rig_send_to(from, 2, 1);
	assert_false(rig_is_readable_within(20));
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
	rig_send_to(from, 2, 1);
	assert_true(port_table_listen(true));
	assert_true(rig_is_readable());
	rig_take_all();
}

static void a_group_that_is_left_meanwhile_is_heard_no_more(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 3, 1 } };
	union ibv_gid other = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 3, 2 } };

	assert_int_equal(ports_join(context->device, context->device->ifindex, &group), 0);
	assert_true(port_table_listen(false));
	ports_leave(context->device->ifindex, &group);
	assert_int_equal(ports_join(context->device, context->device->ifindex, &other),
			 0); /* in its place */
	assert_true(port_table_listen(true));
	assert_int_equal(rig_send(rig_open_address(1), other.raw, 1), 1);
	assert_true(rig_is_readable());
	rig_take_all();
	ports_leave(context->device->ifindex, &other);
	free(context->device);
	free(context);
}

/* The system has no room for it (epoll_ctl(2): ENOSPC, ENOMEM): it can be tried again. */
static void listening_that_fails_begins_later(void **state)
{
	struct wire_port *from = rig_open_address(1);

	rig_open_address(2);
	assert_true(port_table_listen(false));
	rig_epoll_error = ENOSPC;
	assert_false(port_table_listen(true));
	rig_send_to(from, 2, 1);
	assert_false(rig_is_readable_within(20));
	assert_false(port_table_listen(true));
	rig_epoll_error = 0;
	assert_true(port_table_listen(true));
	assert_true(rig_is_readable());
	rig_take_all();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_port_that_cannot_be_watched_is_refused),
		TEST(a_full_table_is_a_refusal),
		TEST(not_listening_hears_nothing_until_it_begins),
		TEST(a_port_that_is_opened_meanwhile_is_heard_later),
		TEST(a_group_that_is_left_meanwhile_is_heard_no_more),
		TEST(listening_that_fails_begins_later),
	};

	rig_init();
	for (unsigned which = 1; which <= 3; which++)
		rig_add_address(which);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
