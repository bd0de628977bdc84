/* SPDX-License-Identifier: BSD-2-Clause */
/* iwarp_check notices each rule of its list that is broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../broken.h"
#include "rig.h"

static int setup(void **state)
{
	rig_create(IBV_ACCESS_REMOTE_READ);
	rig_connect(NULL);
	rig_post(0, IBV_WR_RDMA_READ, 100, 1);
	rig_post(0, IBV_WR_RDMA_READ, 100, 2);
	return 0;
}

static void test_rules(void **state)
{
	struct qp *qp = rig[0].qp;
	struct iwarp_qp *iq = iwarp_of(qp);

	assert_broken(iq->options.mpa.ord = 0, iwarp_check(qp));
	assert_broken(iq->response_tail += 5, iwarp_check(qp));
	assert_broken(iq->outstanding[0].seq = qp->sq.head - 1, iwarp_check(qp));
	assert_broken(iq->outstanding[1].seq = qp->sq.issue, iwarp_check(qp));
	assert_broken(iq->outstanding[1].msn = iq->outstanding[0].msn, iwarp_check(qp));
	assert_broken(iq->outstanding[0].received = 101, iwarp_check(qp));
	assert_broken(iq->sending.in_message = true, iwarp_check(qp));
	assert_broken(iq->stage.tail = iq->stage.room + 1, iwarp_check(qp));
	assert_broken(iq->input.start = iq->input.end + 1, iwarp_check(qp));
	assert_broken(iq->state = STREAM_ENDED, iwarp_check(qp));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rules, setup, rig_destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
