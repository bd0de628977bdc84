/* SPDX-License-Identifier: BSD-2-Clause */
/* Attachments of this process's QPs to multicast groups, up to the limits of the device. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/group.h"
#include "base/cause.h"
#include "object/limits.h"

static int told; /* attachments that verbatimd knows */
static unsigned limits_reported;
static unsigned visited;

int __wrap_ctl_mcast_attach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES]);
int __wrap_ctl_mcast_attach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES])
{
	told++;
	return 0;
}

int __wrap_ctl_mcast_detach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES]);
int __wrap_ctl_mcast_detach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES])
{
	told--;
	return 0;
}

void __wrap_cause_report(enum cause cause, uint32_t qpn, const char *fmt, ...);
void __wrap_cause_report(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	limits_reported += cause == CAUSE_LIMIT_EXCEEDED;
}

static int setup(void **state)
{
	told = 0;
	limits_reported = visited = 0;
	group_reset_after_fork();
	return 0;
}

static union ibv_gid group_of(uint32_t number)
{
	return (union ibv_gid){
		.raw = { 0xff, 0x15, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number }
	};
}

static int attach(uint32_t qpn, uint32_t group)
{
	union ibv_gid gid = group_of(group);
	int before = told, error;
	bool is_new;

	error = group_attach(&(struct group_member){ .qpn = qpn, .gid = gid }, &is_new);
	assert_int_equal(told - before, is_new);
	return error;
}

static int detach(uint32_t qpn, uint32_t group)
{
	union ibv_gid gid = group_of(group);

	return group_detach(qpn, &gid, &(uint32_t){ 0 });
}

static void visit(uint32_t qpn, void *arg)
{
	visited++;
}

static void test_each_qp_of_a_group_is_visited_or_refused(void **state)
{
	union ibv_gid gid = group_of(1);

	for (uint32_t qpn = 1; qpn <= LIMIT_MCAST_QP_ATTACH; qpn++)
		assert_int_equal(attach(qpn, 1), 0);
	assert_int_equal(attach(LIMIT_MCAST_QP_ATTACH + 1, 1), ENOMEM);
	assert_int_equal(limits_reported, 1);
	assert_int_equal(attach(1, 1), 0); /* once more */
	assert_int_equal(attach(LIMIT_MCAST_QP_ATTACH + 1, 2), 0);
	group_visit(&gid, visit, NULL);
	assert_int_equal(visited, LIMIT_MCAST_QP_ATTACH);
	assert_int_equal(detach(7, 1), 0);
	assert_int_equal(attach(LIMIT_MCAST_QP_ATTACH + 1, 1), 0);
}

static void test_groups_are_limited(void **state)
{
	for (uint32_t group = 1; group <= LIMIT_MCAST_GRP; group++)
		for (uint32_t qpn = 1; qpn <= 2; qpn++)
			assert_int_equal(attach(qpn, group), 0);
	assert_int_equal(attach(1, LIMIT_MCAST_GRP + 1), ENOMEM);
	assert_int_equal(limits_reported, 1);
	assert_int_equal(attach(3, LIMIT_MCAST_GRP), 0);
	assert_int_equal(detach(1, 9), 0);
	assert_int_equal(attach(1, LIMIT_MCAST_GRP + 1), ENOMEM); /* the other QP is there */
	assert_int_equal(detach(2, 9), 0);
	assert_int_equal(attach(1, LIMIT_MCAST_GRP + 1), 0);
}

static void test_attachments_are_limited(void **state)
{
	const uint32_t each = LIMIT_TOTAL_MCAST_QP_ATTACH / LIMIT_MCAST_GRP;

	for (uint32_t group = 1; group <= LIMIT_MCAST_GRP; group++)
		for (uint32_t qpn = 1; qpn <= each; qpn++)
			assert_int_equal(attach(qpn, group), 0);
	assert_int_equal(attach(each + 1, 1), ENOMEM);
	assert_int_equal(limits_reported, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_qp_of_a_group_is_visited_or_refused, setup),
		cmocka_unit_test_setup(test_groups_are_limited, setup),
		cmocka_unit_test_setup(test_attachments_are_limited, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
