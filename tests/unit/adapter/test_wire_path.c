/* SPDX-License-Identifier: BSD-2-Clause */
/* From an address handle's fields to a flow. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/wire_path.h"
#include "rig.h"
#include "udp/udp.h"

#define REMOTE_QPN 0x4005

static struct context *context;

static struct ibv_ah_attr attr_to(const char *dgid, uint8_t sgid_index)
{
	struct ibv_ah_attr attr = { .is_global = 1, .grh = { .sgid_index = sgid_index } };

	memcpy(attr.grh.dgid.raw, dgid, 16);
	return attr;
}

#define V4(last)       "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4e\0" last
#define V4_GROUP       "\0\0\0\0\0\0\0\0\0\0\xff\xff\xef\x4e\1\2"
#define V4_OTHER_GROUP "\xff\x0e\0\0\0\0\0\0\0\0\xff\xff\xef\x4e\1\2"
#define V6	       "\xfd\x78\0\0\0\0\0\0\0\0\0\0\0\0\0\x09"

/* As a QP that moves to RTR does. */
static int resolve(const struct ibv_ah_attr *attr, struct wire_flow *flow)
{
	wire_path_open(context, attr);
	return wire_path_resolve(context, attr, REMOTE_QPN, flow);
}

static void fields_of_the_flow_follow_from_the_address(void **state)
{
	struct ibv_ah_attr attr = attr_to(V4("\x09"), 1);
	uint8_t own[16];
	struct wire_flow flow;

	attr.grh.traffic_class = 0x69 | 3; /* the ECN bits are not the program's */
	attr.grh.flow_label = 0xfff12345;
	assert_int_equal(resolve(&attr, &flow), 0);
	rig_address(2, own);
	assert_memory_equal(flow.local, own, 16);
	assert_memory_equal(flow.remote, V4("\x09"), 16);
	assert_int_equal(flow.traffic_class, 0x68 | 2);
	assert_int_equal(flow.flow_label, 0x12345);
	assert_int_equal(flow.hop_limit, 64);
	assert_int_equal(flow.ifindex, 0);
	assert_memory_equal(udp_gid(flow.port), own, 16);
	assert_ptr_equal(flow.sender, udp_sender(flow.port, REMOTE_QPN));
	attr.grh.hop_limit = 7;
	assert_int_equal(resolve(&attr, &flow), 0);
	assert_int_equal(flow.hop_limit, 7);
}

static void a_group_has_one_spelling_and_an_interface(void **state)
{
	struct ibv_ah_attr attr = attr_to(V4_OTHER_GROUP, 0);
	struct wire_flow flow;

	assert_int_equal(resolve(&attr, &flow), 0);
	assert_memory_equal(flow.remote, V4_GROUP, 16);
	assert_int_equal(flow.ifindex, context->device->ifindex);
}

static void an_empty_entry_of_the_gid_table_is_refused(void **state)
{
	struct wire_flow flow;

	for (int index = 2; index < 256; index += 11) {
		struct ibv_ah_attr attr = attr_to(V4("\x09"), (uint8_t)index);

		rig_cause = CAUSE_NONE;
		assert_int_equal(resolve(&attr, &flow), EINVAL);
		assert_int_equal(rig_cause, CAUSE_GID_UNKNOWN);
	}
}

static void the_two_ends_are_of_one_kind(void **state)
{
	struct ibv_ah_attr attr = attr_to(V6, 0);
	struct wire_flow flow;

	assert_int_equal(resolve(&attr, &flow), ENETUNREACH);
	assert_int_equal(rig_cause, CAUSE_NO_PATH);
	assert_int_equal(rig_port_calls, 0);
}

/* The address goes after the program has read the GID table. */
static void an_address_that_went_is_said_to_be_gone(void **state)
{
	struct ibv_ah_attr attr = attr_to(V4("\x09"), 0);
	struct wire_flow flow;

	rig_remove_address(1);
	assert_int_equal(resolve(&attr, &flow), EADDRNOTAVAIL);
	assert_int_equal(rig_cause, CAUSE_DEVICE_GONE);
	rig_add_address(1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fields_of_the_flow_follow_from_the_address),
		TEST(a_group_has_one_spelling_and_an_interface),
		TEST(an_empty_entry_of_the_gid_table_is_refused),
		TEST(the_two_ends_are_of_one_kind),
		TEST(an_address_that_went_is_said_to_be_gone),
	};

	rig_init();
	rig_add_address(1);
	rig_add_address(2);
	context = rig_context(1, 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
