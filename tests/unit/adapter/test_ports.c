/* The table of ports: opening, refusals, addresses that go, groups; and what a look takes. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../udp/net.h"
#include "rig.h"
#include "udp/udp.h"

#define A_SECOND_NS 1000000000ull
#define TRUST_US    120000 /* after that an address is looked for again */
#define BATCH_MAX   128	   /* what one look may take, and some more */

static struct wire_port *open_address(unsigned which)
{
	struct wire_port *port = NULL;
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	assert_int_equal(port_open(gid, 0, "vrb_test", &port), 0);
	return port;
}

static int try_address(unsigned which)
{
	struct wire_port *port;
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	return port_open(gid, 0, "vrb_test", &port);
}

static unsigned send_to(struct wire_port *from, unsigned which, unsigned count)
{
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	return rig_send(from, gid, count);
}

static bool is_readable_within(int ms)
{
	struct pollfd p = { .fd = port_table_epoll(), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static bool is_readable(void)
{
	return is_readable_within(1000);
}

static void opens_a_port_once(void **state)
{
	struct wire_port *first = open_address(1);

	assert_ptr_equal(open_address(1), first);
	assert_ptr_not_equal(open_address(2), first);
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

/* Who looks does not wait: verbatimd is asked once, by the progress thread. */
static void who_looks_for_a_port_has_it_asked_for(void **state)
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
	uint64_t again;

	assert_int_equal(look_up(1), EINPROGRESS);
	rig_port_error = -EAGAIN; /* another thread has the connection */
	again = port_open_ask(rig_now_ns());
	assert_true(again > rig_now_ns() && again < rig_now_ns() + A_SECOND_NS);
	rig_port_error = 0;
	assert_int_equal(port_open_ask(again), PORT_OPEN_NEVER);
	assert_int_equal(rig_port_asks, 2);
	answer(1, -EAGAIN); /* who has the port has not come back */
	again = port_open_ask(rig_now_ns());
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

/* What is to be asked of a verbatimd that is lost waits for the next one. */
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
	struct wire_port *first = open_address(1), *port = NULL;
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
	assert_int_equal(try_address(1), EADDRINUSE);
	assert_int_equal(rig_cause, CAUSE_PORT_TAKEN);
	rig_cause = CAUSE_NONE;
	rig_port_error = 0;
	assert_int_equal(try_address(1), EADDRINUSE);
	assert_int_equal(rig_cause, CAUSE_NONE);
	assert_int_equal(rig_port_calls, 1);
	open_address(2); /* another is none of it */
	end = rig_now_ns() + A_SECOND_NS;
	while (rig_now_ns() <= end)
		rig_sleep_us(10000);
	open_address(1);
}

static void an_address_that_is_not_ours_is_said_to_be_gone(void **state)
{
	assert_int_equal(try_address(200), EADDRNOTAVAIL);
	assert_int_equal(rig_cause, CAUSE_DEVICE_GONE);
	assert_false(ports_any());
}

/* Between two connections; and it comes back. */
static void an_address_that_is_removed_fails_and_comes_back(void **state)
{
	struct wire_port *port = open_address(3);
	uint64_t end;

	rig_remove_address(3);
	rig_sleep_us(TRUST_US);
	assert_int_equal(try_address(3), EADDRNOTAVAIL);
	assert_int_equal(rig_cause, CAUSE_DEVICE_GONE);
	rig_add_address(3);
	end = rig_now_ns() + A_SECOND_NS;
	while (rig_now_ns() <= end)
		rig_sleep_us(10000);
	assert_ptr_equal(open_address(3), port);
	assert_int_equal(send_to(open_address(1), 3, 1), 1);
	assert_true(is_readable());
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
}

/* A port that nobody would be woken for is none. */
static void a_port_that_cannot_be_watched_is_refused(void **state)
{
	rig_epoll_error = ENOSPC;
	assert_int_equal(try_address(1), ENOSPC);
	assert_int_equal(rig_cause, CAUSE_PORT_FAILED);
	assert_false(ports_any());
	rig_epoll_error = 0;
	open_address(2);
}

static void a_full_table_is_a_refusal(void **state)
{
	int error = 0;

	for (unsigned which = 0x100; which < 0x100 + 129 && !error; which++) {
		rig_add_address(which);
		error = try_address(which);
	}
	assert_int_equal(error, ENOSPC);
	assert_int_equal(rig_cause, CAUSE_PORT_FAILED);
	for (unsigned which = 0x100; which < 0x100 + 129; which++)
		rig_remove_address(which);
}

static void a_look_takes_a_bounded_number_and_leaves_nothing_in_the_end(void **state)
{
	struct wire_port *from = open_address(1);
	uint32_t before = 0;

	open_address(2);
	for (int i = 0; i < 10; i++)
		assert_int_equal(send_to(from, 2, WIRE_BURST), WIRE_BURST);
	assert_true(is_readable());
	while (ports_progress(0, PORTS_ALL) > 0) {
		assert_true(rig_arrivals - before <= BATCH_MAX);
		before = rig_arrivals;
	}
	assert_int_equal(rig_arrivals, 10 * WIRE_BURST);
}

static int looked_inside;

static void look_inside(const struct wire_arrival *arrival)
{
	looked_inside = ports_progress(0, PORTS_ALL);
}

static void who_comes_second_is_told_so(void **state)
{
	struct wire_port *from = open_address(1);

	open_address(2);
	rig_on_arrival = look_inside;
	send_to(from, 2, 1);
	assert_true(is_readable());
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
	assert_int_equal(looked_inside, -EBUSY);
}

static _Atomic bool is_inside, is_through;

static void stay_inside(const struct wire_arrival *arrival)
{
	is_inside = true;
	rig_sleep_us(100000);
	is_through = true;
}

static void *look(void *arg)
{
	ports_progress(0, PORTS_ALL);
	return arg;
}

/* What another thread has taken from the socket it has handed over, however long it has no processor. */
static void catching_up_waits_for_who_is_at_it(void **state)
{
	struct wire_port *from = open_address(1);
	pthread_t thread;

	open_address(2);
	is_inside = is_through = false;
	rig_on_arrival = stay_inside;
	send_to(from, 2, 1);
	assert_true(is_readable());
	assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
	while (!is_inside)
		rig_sleep_us(100);
	rig_on_arrival = NULL;
	assert_false(ports_catch_up(0));
	assert_true(is_through);
	send_to(from, 2, 3);
	assert_true(is_readable());
	assert_true(ports_catch_up(0));
	pthread_join(thread, NULL);
}

static void a_cold_port_is_looked_at_with_all_and_warm_afterwards(void **state)
{
	struct wire_port *from = open_address(1);

	open_address(2);
	send_to(from, 2, 1);
	assert_true(is_readable());
	assert_int_equal(ports_progress(0, PORTS_BUSY_ONES), 0);
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
	send_to(from, 2, 1);
	assert_true(is_readable());
	assert_int_equal(ports_progress(0, PORTS_BUSY_ONES), 1);
}

/* Attached twice and detached twice; then the entry is another group's. */
static void a_group_lives_from_the_first_to_the_last_attachment(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 1 } };
	union ibv_gid other = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 2 } };
	struct wire_port *from = open_address(1);

	assert_int_equal(ports_join(context, &group), 0);
	assert_int_equal(ports_join(context, &group), 0);
	ports_leave(context, &group);
	assert_int_equal(rig_send(from, group.raw, 1), 1);
	ports_leave(context, &group);
	assert_int_equal(ports_progress(0, PORTS_ALL), 0);
	assert_int_equal(port_table_count, 2);
	assert_int_equal(ports_join(context, &other), 0);
	assert_int_equal(port_table_count, 2);
	ports_leave(context, &other);
	free(context->device);
	free(context);
}

static void take_all(void)
{
	while (ports_progress(0, PORTS_ALL) > 0)
		;
	assert_false(is_readable_within(0));
}

/* What came meanwhile is told of when listening begins again. */
static void who_does_not_listen_hears_nothing_until_he_does(void **state)
{
	struct wire_port *from = open_address(1);

	open_address(2);
	for (int i = 0; i < 3; i++) {
		assert_true(port_table_listen(false));
		send_to(from, 2, 1);
		assert_false(is_readable_within(20));
		assert_true(port_table_listen(true));
		assert_true(is_readable());
		take_all();
		send_to(from, 2, 1);
		assert_true(is_readable());
		take_all();
	}
}

static void a_port_that_is_opened_meanwhile_is_heard_later(void **state)
{
	struct wire_port *from = open_address(1);

	assert_true(port_table_listen(false));
	open_address(2);
	send_to(from, 2, 1);
	assert_false(is_readable_within(20));
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
	send_to(from, 2, 1);
	assert_true(port_table_listen(true));
	assert_true(is_readable());
	take_all();
}

static void a_group_that_is_left_meanwhile_is_heard_no_more(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 3, 1 } };
	union ibv_gid other = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 3, 2 } };

	assert_int_equal(ports_join(context, &group), 0);
	assert_true(port_table_listen(false));
	ports_leave(context, &group);
	assert_int_equal(ports_join(context, &other), 0); /* in its place */
	assert_true(port_table_listen(true));
	assert_int_equal(rig_send(open_address(1), other.raw, 1), 1);
	assert_true(is_readable());
	take_all();
	ports_leave(context, &other);
	free(context->device);
	free(context);
}

/* The system has no room for it (epoll_ctl(2): ENOSPC, ENOMEM): it can be tried again. */
static void listening_that_fails_begins_later(void **state)
{
	struct wire_port *from = open_address(1);

	open_address(2);
	assert_true(port_table_listen(false));
	rig_epoll_error = ENOSPC;
	assert_false(port_table_listen(true));
	send_to(from, 2, 1);
	assert_false(is_readable_within(20));
	assert_false(port_table_listen(true));
	rig_epoll_error = 0;
	assert_true(port_table_listen(true));
	assert_true(is_readable());
	take_all();
}

static _Atomic bool done;

static void *listen_now_and_then(void *arg)
{
	for (unsigned i = 0; !done; i++)
		if (!port_table_listen(i % 2))
			abort();
	return arg;
}

static void *look_all_the_time(void *arg)
{
	while (!done) {
		ports_progress(0, PORTS_ALL);
		if (try_address(1))
			abort();
	}
	return arg;
}

/* Groups come and go while threads receive, and one listens or not. */
static void groups_come_and_go_under_those_who_look(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 2, 1 } };
	struct wire_port *from = open_address(1);
	pthread_t threads[3];

	done = false;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, look_all_the_time, NULL);
	pthread_create(&threads[2], NULL, listen_now_and_then, NULL);
	for (int i = 0; i < 200; i++) {
		group.raw[15] = (uint8_t)i;
		assert_int_equal(ports_join(context, &group), 0);
		send_to(from, 1, 4);
		ports_leave(context, &group);
	}
	done = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(port_table_count, 2);
	assert_true(port_table_listen(true));
	take_all();
	send_to(from, 1, 1);
	assert_true(is_readable());
	free(context->device);
	free(context);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(opens_a_port_once),
		TEST(who_looks_for_a_port_has_it_asked_for),
		TEST(a_question_that_is_not_asked_or_answered_is_asked_again),
		TEST(a_verbatimd_that_is_lost_is_asked_nothing_more),
		TEST(an_address_has_one_port_on_all_interfaces),
		TEST(a_refusal_is_remembered_for_a_second),
		TEST(an_address_that_is_not_ours_is_said_to_be_gone),
		TEST(an_address_that_is_removed_fails_and_comes_back),
		TEST(a_port_that_cannot_be_watched_is_refused),
		TEST(a_full_table_is_a_refusal),
		TEST(a_look_takes_a_bounded_number_and_leaves_nothing_in_the_end),
		TEST(who_comes_second_is_told_so),
		TEST(catching_up_waits_for_who_is_at_it),
		TEST(a_cold_port_is_looked_at_with_all_and_warm_afterwards),
		TEST(a_group_lives_from_the_first_to_the_last_attachment),
		TEST(who_does_not_listen_hears_nothing_until_he_does),
		TEST(a_port_that_is_opened_meanwhile_is_heard_later),
		TEST(a_group_that_is_left_meanwhile_is_heard_no_more),
		TEST(listening_that_fails_begins_later),
		TEST(groups_come_and_go_under_those_who_look),
	};

	rig_init();
	for (unsigned which = 1; which <= 3; which++)
		rig_add_address(which);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
