/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening ports: once, by verbatimd; refusals, and addresses that go. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../udp/net.h"
#include "rig.h"

#define A_SECOND_NS 1000000000ull
#define TRUST_US    120000 /* after that an address is looked for again */

static void opens_a_port_once(void **state)
{
	struct wire_port *first = rig_open_address(1);

	assert_ptr_equal(rig_open_address(1), first);
	assert_ptr_not_equal(rig_open_address(2), first);
	assert_int_equal(rig_port_calls, 2);
	assert_true(ports_any());
}

static int look_up(unsigned which)
{
	struct wire_port *port;
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	return port_open_nowait(gid, 0, "vrb_test", &port);
}

/* As the progress thread, when verbatimd has answered. */
static void answer(unsigned which, int error)
{
	struct ctl_port_answer answer = { .error = error, .fd = -1 };

	rig_address(which, answer.gid);
	if (!error)
		answer.fd = net_bind(answer.gid, WIRE_UDP_PORT);
	port_open_on_answer(&answer);
}

/* A lookup does not wait: the progress thread asks verbatimd, once. */
static void a_lookup_has_the_port_asked_for_once(void **state)
{
	assert_int_equal(look_up(1), EINPROGRESS);
	assert_int_equal(look_up(1), EINPROGRESS);
	assert_int_equal(rig_port_asks, 0);
	assert_int_equal(port_open_ask(rig_now_ns()), PORT_OPEN_NEVER);
	assert_int_equal(port_open_ask(rig_now_ns()), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 1);
	assert_int_equal(look_up(1), EINPROGRESS);
	answer(1, 0);
	assert_int_equal(look_up(1), 0);
	answer(1, 0); /* to another thread */
	assert_int_equal(port_table_count, 1);
	assert_int_equal(rig_port_calls, 0);
}

static void a_question_that_is_not_asked_or_answered_is_asked_again(void **state)
{
	uint64_t now, again;

	assert_int_equal(look_up(1), EINPROGRESS);
	rig_port_error = -EAGAIN; /* another thread uses the connection */
	now = rig_now_ns();
	again = port_open_ask(now);
	assert_true(again > now && again < now + A_SECOND_NS);
	rig_port_error = 0;
	assert_int_equal(port_open_ask(again), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 2);
	answer(1, -EAGAIN);	    /* the owner of the port has not reconnected */
	again = port_open_due_ns(); /* by which the progress thread wakes */
	assert_true(again < rig_now_ns() + A_SECOND_NS);
	assert_int_equal(port_open_ask(again), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 3);
	port_open_ask_again(); /* there is a new verbatimd */
	assert_int_equal(port_open_ask(rig_now_ns()), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 4);
	answer(1, -EADDRINUSE);
	assert_int_equal(rig_cause, CAUSE_PORT_TAKEN);
	assert_int_equal(look_up(1), EADDRINUSE);
	assert_int_equal(port_open_ask(rig_now_ns()), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 4);
}

/* Questions wait for the next verbatimd while there is no connection. */
static void a_verbatimd_that_is_lost_is_asked_nothing_more(void **state)
{
	assert_int_equal(look_up(1), EINPROGRESS);
	rig_port_error = -ENOTCONN;
	assert_int_equal(port_open_ask(rig_now_ns()), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 1);
	rig_port_error = 0;
	port_open_ask_again();
	assert_int_equal(port_open_ask(rig_now_ns()), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 2);
	answer(1, 0);
	assert_int_equal(look_up(1), 0);
}

/* Moved to a bridge, say, or there twice. */
static void an_address_has_one_port_on_all_interfaces(void **state)
{
	struct wire_port *first = rig_open_address(1), *port = NULL;
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(1, gid);
	assert_int_equal(port_open(gid, 7, "vrb_test", &port), 0);
	assert_ptr_equal(port, first);
	assert_int_equal(rig_port_calls, 1);
	assert_int_equal(port_table_count, 1);
}

static void a_refusal_is_remembered_for_a_second(void **state)
{
	uint64_t end;

	rig_port_error = -EADDRINUSE;
	assert_int_equal(rig_try_address(1), EADDRINUSE);
	assert_int_equal(rig_cause, CAUSE_PORT_TAKEN);
	rig_cause = CAUSE_NONE;
	rig_port_error = 0;
	assert_int_equal(rig_try_address(1), EADDRINUSE);
	assert_int_equal(rig_cause, CAUSE_NONE);
	assert_int_equal(rig_port_calls, 1);
	rig_open_address(2); /* another address has another port */
	end = rig_now_ns() + A_SECOND_NS;
	while (rig_now_ns() <= end)
		rig_sleep_us(10000);
	rig_open_address(1);
}

static void an_address_that_is_not_ours_is_said_to_be_gone(void **state)
{
	assert_int_equal(rig_try_address(200), EADDRNOTAVAIL);
	assert_int_equal(rig_cause, CAUSE_DEVICE_GONE);
	assert_false(ports_any());
}

/* Between two connections; and it comes back. */
static void an_address_that_is_removed_fails_and_comes_back(void **state)
{
	struct wire_port *port = rig_open_address(3);
	uint64_t end;

	rig_remove_address(3);
	rig_sleep_us(TRUST_US);
	assert_int_equal(rig_try_address(3), EADDRNOTAVAIL);
	assert_int_equal(rig_cause, CAUSE_DEVICE_GONE);
	rig_add_address(3);
	end = rig_now_ns() + A_SECOND_NS;
	while (rig_now_ns() <= end)
		rig_sleep_us(10000);
	assert_ptr_equal(rig_open_address(3), port);
	assert_int_equal(rig_send_to(rig_open_address(1), 3, 1), 1);
	assert_true(rig_is_readable());
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(opens_a_port_once),
		TEST(a_lookup_has_the_port_asked_for_once),
		TEST(a_question_that_is_not_asked_or_answered_is_asked_again),
		TEST(a_verbatimd_that_is_lost_is_asked_nothing_more),
		TEST(an_address_has_one_port_on_all_interfaces),
		TEST(a_refusal_is_remembered_for_a_second),
		TEST(an_address_that_is_not_ours_is_said_to_be_gone),
		TEST(an_address_that_is_removed_fails_and_comes_back),
	};

	rig_init();
	for (unsigned which = 1; which <= 3; which++)
		rig_add_address(which);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
