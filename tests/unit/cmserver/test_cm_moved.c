/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is told that an address has moved, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_moved.h"
#include "cmserver/cm_state.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

#define LOOPBACK 1	     /* an interface that exists */
#define REMOVED	 0x7ffffff0u /* one that does not */

static struct cm cm;
static uint32_t interface_now; /* of the address; 0: it is gone */
static unsigned told;
static uint32_t told_kind;

bool __wrap_cm_interfaces_look(struct cm_interfaces *i);
bool __wrap_cm_interfaces_look(struct cm_interfaces *i)
{
	return true;
}

uint32_t __wrap_cm_interfaces_find(const struct cm_interfaces *i, const uint8_t gid[CTL_GID_BYTES],
				   uint32_t preferred);
uint32_t __wrap_cm_interfaces_find(const struct cm_interfaces *i, const uint8_t gid[CTL_GID_BYTES],
				   uint32_t preferred)
{
	return interface_now;
}

int __wrap_cm_event_post(struct cm_id *id, const struct ctl_cm_event *body, uint32_t made_seq);
int __wrap_cm_event_post(struct cm_id *id, const struct ctl_cm_event *body, uint32_t made_seq)
{
	told++;
	told_kind = body->kind;
	return 0;
}

/* The only identifier, bound to an address that was there. */
static void make(struct cm_id *id, uint32_t ifindex)
{
	static struct daemon d;
	static struct client c;
	static struct cm_client cc;

	*id = (struct cm_id){ .owner = &cc, .has_own_gid = true, .own_ifindex = ifindex };
	list_init(&id->in_client);
	list_init(&cc.ids);
	list_add_tail(&cc.ids, &id->in_client);
	cc.cm = &cm;
	c.cm = &cc;
	list_init(&c.in_daemon);
	list_init(&d.clients);
	list_add_tail(&d.clients, &c.in_daemon);
	cm.daemon = &d;
	told = 0;
	interface_now = ifindex;
}

static void test_told_once(void **state)
{
	struct cm_id id;

	make(&id, LOOPBACK);
	cm_moved_look(&cm);
	assert_int_equal(told, 0);
	interface_now = 0;
	cm_moved_look(&cm);
	cm_moved_look(&cm);
	assert_int_equal(told, 1);
	assert_int_equal(told_kind, CTL_CM_ADDR_CHANGE);

	make(&id, REMOVED);
	interface_now = 0;
	cm_moved_look(&cm);
	cm_moved_look(&cm);
	assert_int_equal(told, 1);
	assert_int_equal(told_kind, CTL_CM_DEVICE_REMOVAL);
}

/* To its program it is no identifier yet. */
static void test_a_child_is_told_once_it_is_accepted(void **state)
{
	static const uint32_t was_at[] = { LOOPBACK, REMOVED };

	for (unsigned i = 0; i < 2; i++) {
		struct cm_id id;

		make(&id, was_at[i]);
		id.is_unaccepted = true;
		interface_now = 0;
		cm_moved_look(&cm);
		assert_int_equal(told, 0);
		id.is_unaccepted = false;
		cm_moved_look(&cm);
		cm_moved_look(&cm);
		assert_int_equal(told, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_once),
		cmocka_unit_test(test_a_child_is_told_once_it_is_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
