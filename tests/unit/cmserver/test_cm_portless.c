/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that lack a port are tried some at a time, and each has its turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmserver/cm_connection.h"
#include "cmserver/cm_return.h"
#include "cmserver/cm_state.h"
#include "daemon/daemon.h"

#define COUNT 5
#define EACH  2

static struct cm cm;
static struct cm_connection connections[COUNT];
static unsigned visited[COUNT], left;

static bool visit_some(struct cm_connection *c)
{
	if (!left)
		return false;
	left--;
	visited[c - connections]++;
	return true;
}

static void visit(void)
{
	left = EACH;
	cm_connection_visit_portless(&cm, visit_some);
}

static void test_each_has_its_turn(void **state)
{
	list_init(&cm.portless);
	for (int i = 0; i < COUNT; i++)
		list_add_tail(&cm.portless, &connections[i].in_portless);
	for (int i = 0; i < COUNT; i++)
		visit();
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(visited[i], EACH);
}

static bool take_port(struct cm_connection *c)
{
	visited[c - connections]++;
	list_del(&c->in_portless);
	return true;
}

static void test_what_has_a_port_is_visited_no_more(void **state)
{
	cm_connection_visit_portless(&cm, take_port);
	assert_true(list_empty(&cm.portless));
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(visited[i], EACH + 1);
	visit();
	assert_int_equal(left, EACH);
}

static unsigned tries[COUNT];

bool __wrap_cm_connection_open_port(struct cm_connection *c);
bool __wrap_cm_connection_open_port(struct cm_connection *c)
{
	tries[c - connections]++;
	return false;
}

/* An address that one user's share of ports has no room for may be had by another user. */
static void test_each_user_has_its_turn(void **state)
{
	static const uid_t uids[COUNT] = { 1, 1, 2, 1, 2 };
	static const unsigned wanted[COUNT] = { 1, 0, 1, 0, 0 };
	static struct daemon d;

	assert_int_equal(loop_init(&d.loop), 0);
	list_init(&d.clients);
	list_init(&cm.in_flight);
	cm.daemon = &d;
	cm.sessions = (struct cm_sessions){ .daemon = &d, .is_over = true };
	for (int i = 0; i < COUNT; i++) {
		connections[i].cm = &cm;
		connections[i].uid = uids[i];
		list_add_tail(&cm.portless, &connections[i].in_portless);
	}
	assert_int_equal(cm_return_create(&cm), 0);
	cm_return_remember(cm.returning, 1, 1); /* it looks soon */
	while (!tries[0])
		loop_turn(&d.loop);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(tries[i], wanted[i]);
	cm_return_destroy(cm.returning);
	free(cm.sessions.away);
	loop_fini(&d.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_has_its_turn),
		cmocka_unit_test(test_what_has_a_port_is_visited_no_more),
		cmocka_unit_test(test_each_user_has_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
