/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets taken by one look; groups. */
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "adapter/adapter.h"
#include "adapter/contexts.h"
#include "adapter/port_table.h"
#include "object/qp.h"
#include "rig.h"
#include "udp/udp.h"

#define BATCH_MAX 128 /* what one look may take, and some more */

static void a_look_takes_a_bounded_number_and_leaves_nothing_in_the_end(void **state)
{
	struct wire_port *from = rig_open_address(1);
	uint32_t before = 0;

	rig_open_address(2);
	for (int i = 0; i < 10; i++)
		assert_int_equal(rig_send_to(from, 2, WIRE_BURST), WIRE_BURST);
	assert_true(rig_is_readable());
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

static void a_second_look_is_told_of_the_first(void **state)
{
	struct wire_port *from = rig_open_address(1);

	rig_open_address(2);
	rig_on_arrival = look_inside;
	rig_send_to(from, 2, 1);
	assert_true(rig_is_readable());
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

/*
 * After ports_catch_up, packets that another thread has taken from the socket are delivered,
 * however long that thread was preempted.
 */
static void catching_up_waits_for_the_thread_at_the_port(void **state)
{
	struct wire_port *from = rig_open_address(1);
	pthread_t thread;

	rig_open_address(2);
	is_inside = is_through = false;
	rig_on_arrival = stay_inside;
	rig_send_to(from, 2, 1);
	assert_true(rig_is_readable());
	assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
	while (!is_inside)
		rig_sleep_us(100);
	rig_on_arrival = NULL;
	assert_false(ports_catch_up(0));
	assert_true(is_through);
	rig_send_to(from, 2, 3);
	assert_true(rig_is_readable());
	assert_true(ports_catch_up(0));
	pthread_join(thread, NULL);
}

static void a_cold_port_is_looked_at_with_all_and_warm_afterwards(void **state)
{
	struct wire_port *from = rig_open_address(1);

	rig_open_address(2);
	rig_send_to(from, 2, 1);
	assert_true(rig_is_readable());
	assert_int_equal(ports_progress(0, PORTS_BUSY_ONES), 0);
	assert_int_equal(ports_progress(0, PORTS_ALL), 1);
	rig_send_to(from, 2, 1);
	assert_true(rig_is_readable());
	assert_int_equal(ports_progress(0, PORTS_BUSY_ONES), 1);
}

/* Attached twice and detached twice; then the entry is another group's. */
static void a_group_lives_from_the_first_to_the_last_attachment(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 1 } };
	union ibv_gid other = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 2 } };
	struct wire_port *from = rig_open_address(1);

	assert_int_equal(ports_join(context->device, context->device->ifindex, &group), 0);
	assert_int_equal(ports_join(context->device, context->device->ifindex, &group), 0);
	ports_leave(context->device->ifindex, &group);
	assert_int_equal(rig_send(from, group.raw, 1), 1);
	ports_leave(context->device->ifindex, &group);
	assert_int_equal(ports_progress(0, PORTS_ALL), 0);
	assert_int_equal(port_table_count, 2);
	assert_int_equal(ports_join(context->device, context->device->ifindex, &other), 0);
	assert_int_equal(port_table_count, 2);
	ports_leave(context->device->ifindex, &other);
	free(context->device);
	free(context);
}

/* An interface gets another index when it is made anew, and the device learns that. */
static void make_interface(struct context *context)
{
	system("ip link del again 2>/dev/null");
	assert_int_equal(system("ip link add again type veth peer name other && "
				"ip link set again up && ip link set other up"),
			 0);
	context->device->ifindex = if_nametoindex("again");
	assert_true(context->device->ifindex);
}

static bool is_joined(const union ibv_gid *group, uint32_t ifindex)
{
	bool found;

	lock_acquire(&port_table_lock);
	found = port_table_find(group->raw, ifindex, true);
	lock_release(&port_table_lock);
	return found;
}

/* What a QP leaves is what it has joined. */
static void an_interface_that_is_made_anew_keeps_its_new_members(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 3 } };
	struct qp first = { .ib.qp_num = 1, .context = context };
	struct qp second = { .ib.qp_num = 2, .context = context };
	uint32_t before;

	make_interface(context);
	before = context->device->ifindex;
	assert_int_equal(adapter_mcast_attach(&first, &group), 0);
	make_interface(context);
	assert_int_not_equal(context->device->ifindex, before);
	assert_int_equal(adapter_mcast_attach(&second, &group), 0);
	assert_int_equal(adapter_mcast_detach(&first, &group), 0);
	assert_false(is_joined(&group, before));
	assert_true(is_joined(&group, context->device->ifindex));
	assert_int_equal(adapter_mcast_detach(&second, &group), 0);
	assert_false(is_joined(&group, context->device->ifindex));
	free(context->device);
	free(context);
}

/* The limits of a device are on groups and QPs, not on groups of each interface. */
static void all_groups_may_be_joined_on_several_interfaces(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 4, 0 } };
	uint32_t on[2] = { context->device->ifindex };

	make_interface(context);
	on[1] = context->device->ifindex;
	for (int i = 0; i < 2 * LIMIT_MCAST_GRP; i++) {
		group.raw[15] = (uint8_t)(i / 2);
		assert_int_equal(ports_join(context->device, on[i % 2], &group), 0);
	}
	rig_open_address(1); /* there is room for these, too */
	for (int i = 0; i < 2 * LIMIT_MCAST_GRP; i++) {
		group.raw[15] = (uint8_t)(i / 2);
		ports_leave(on[i % 2], &group);
	}
	free(context->device);
	free(context);
}

/* Its members stay members, without a call of the program. */
static void members_follow_an_interface_that_is_made_anew(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 4 } };
	struct qp first = { .ib.qp_num = 1, .context = context };
	struct qp second = { .ib.qp_num = 2, .context = context };
	uint32_t before;

	make_interface(context);
	before = context->device->ifindex;
	assert_int_equal(adapter_mcast_attach(&first, &group), 0);
	assert_int_equal(adapter_mcast_attach(&second, &group), 0);
	ports_follow_interfaces(true);
	assert_true(is_joined(&group, before));
	make_interface(context);
	ports_follow_interfaces(true);
	assert_false(is_joined(&group, before));
	assert_true(is_joined(&group, context->device->ifindex));
	assert_int_equal(adapter_mcast_detach(&first, &group), 0);
	assert_true(is_joined(&group, context->device->ifindex));
	assert_int_equal(adapter_mcast_detach(&second, &group), 0);
	assert_false(is_joined(&group, context->device->ifindex));
	free(context->device);
	free(context);
}

/* Once, although it is tried again and again: the table of causes has few places. */
static void a_group_that_cannot_be_joined_anew_is_reported_once(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 1, 5 } };
	struct qp qp = { .ib.qp_num = 1, .context = context };
	uint32_t present;

	make_interface(context);
	assert_int_equal(adapter_mcast_attach(&qp, &group), 0);
	make_interface(context);
	present = context->device->ifindex;
	rig_epoll_error = ENOSPC;
	rig_cause = CAUSE_NONE;
	assert_false(ports_follow_interfaces(true));
	assert_int_equal(rig_cause, CAUSE_GROUP_REFUSED);
	rig_cause = CAUSE_NONE;
	assert_false(ports_follow_interfaces(false));
	assert_int_equal(rig_cause, CAUSE_NONE);
	rig_epoll_error = 0;
	assert_true(ports_follow_interfaces(false));
	assert_true(is_joined(&group, present));
	assert_int_equal(adapter_mcast_detach(&qp, &group), 0);
	free(context->device);
	free(context);
}

/* What leaves for groups leaves by the interface that has the address. */
static void a_port_follows_its_address(void **state)
{
	struct wire_port *from = rig_open_address(1);
	struct port *port = &port_table[0];
	uint32_t present = if_nametoindex("lo"), other;
	struct context *context = rig_context(1, 2);

	make_interface(context);
	other = context->device->ifindex;
	contexts_add(context);
	port->ifindex = present;
	assert_true(ports_follow_interfaces(true));
	assert_int_equal(port->ifindex, present); /* it is still there */
	udp_sender(from, 0);
	port->ifindex = 1u << 20;
	udp_move(from, 1u << 20);
	assert_true(ports_follow_interfaces(true));
	assert_int_equal(port->ifindex, other);
	contexts_remove(context);
	free(context->device);
	free(context);
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
		if (rig_try_address(1))
			abort();
	}
	return arg;
}

/* Groups come and go while threads receive, and listening goes on and off. */
static void groups_come_and_go_under_threads_that_look(void **state)
{
	struct context *context = rig_context(1, 2);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 2, 1 } };
	struct wire_port *from = rig_open_address(1);
	pthread_t threads[3];

	done = false;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, look_all_the_time, NULL);
	pthread_create(&threads[2], NULL, listen_now_and_then, NULL);
	for (int i = 0; i < 200; i++) {
		group.raw[15] = (uint8_t)i;
		assert_int_equal(ports_join(context->device, context->device->ifindex, &group), 0);
		rig_send_to(from, 1, 4);
		ports_leave(context->device->ifindex, &group);
	}
	done = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(port_table_count, 2);
	assert_true(port_table_listen(true));
	rig_take_all();
	rig_send_to(from, 1, 1);
	assert_true(rig_is_readable());
	free(context->device);
	free(context);
}

static void *join_and_leave(void *arg)
{
	struct context *context = arg;
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 78, 3, 1 } };

	for (int i = 0; i < 2000; i++) {
		if (ports_join(context->device, context->device->ifindex, &group))
			abort();
		ports_leave(context->device->ifindex, &group);
	}
	done = true;
	return NULL;
}

/* A thread that joins has the ports' lock, and takes the contexts'. */
static void ports_follow_while_a_thread_joins(void **state)
{
	struct context *context = rig_context(1, 2);
	pthread_t thread;

	rig_open_address(1);
	contexts_add(context);
	done = false;
	assert_int_equal(pthread_create(&thread, NULL, join_and_leave, context), 0);
	while (!done) {
		port_table[0].ifindex = 1u << 20;
		assert_true(ports_follow_interfaces(true));
		assert_int_equal(port_table[0].ifindex, context->device->ifindex);
	}
	pthread_join(thread, NULL);
	contexts_remove(context);
	free(context->device);
	free(context);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_look_takes_a_bounded_number_and_leaves_nothing_in_the_end),
		TEST(a_second_look_is_told_of_the_first),
		TEST(catching_up_waits_for_the_thread_at_the_port),
		TEST(a_cold_port_is_looked_at_with_all_and_warm_afterwards),
		TEST(an_interface_that_is_made_anew_keeps_its_new_members),
		TEST(all_groups_may_be_joined_on_several_interfaces),
		TEST(members_follow_an_interface_that_is_made_anew),
		TEST(a_group_that_cannot_be_joined_anew_is_reported_once),
		TEST(a_port_follows_its_address),
		TEST(a_group_lives_from_the_first_to_the_last_attachment),
		TEST(ports_follow_while_a_thread_joins),
		TEST(groups_come_and_go_under_threads_that_look),
	};

	rig_init();
	for (unsigned which = 1; which <= 3; which++)
		rig_add_address(which);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
