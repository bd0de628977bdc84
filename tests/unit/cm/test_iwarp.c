/* SPDX-License-Identifier: BSD-2-Clause */
/* An rdma_accept over iWARP whose QP cannot be connected: the peer learns of nothing. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "harness.h"
#include "pairs.h"

/* It can still be refused. */
static void reject(struct pair *p)
{
	CHECK(!has_event(p->active, 200));
	CHECK(!rdma_reject(p->child, NULL, 0));
	expect_event(p->active, RDMA_CM_EVENT_REJECTED);
	pair_close(p);
}

static void ask(struct pair *p)
{
	pair_open(p, RDMA_PS_TCP);
	pair_make_qp(p->id);
	CHECK(!rdma_connect(p->id, NULL));
	CHECK(!rdma_ack_cm_event(pair_take_request(p)));
}

static void test_qp_in_error(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct pair p;

	ask(&p);
	pair_make_qp(p.child);
	CHECK(!ibv_modify_qp(p.child->qp, &attr, IBV_QP_STATE));
	CHECK(fails_with(rdma_accept(p.child, NULL), EINVAL));
	reject(&p);
}

static void test_no_such_qp(void **state)
{
	struct rdma_conn_param param = { .qp_num = 0x3fffff };
	struct pair p;

	ask(&p);
	CHECK(fails_with(rdma_accept(p.child, &param), EINVAL));
	reject(&p);
}

static void test_another_qp(void **state)
{
	struct pair p;

	ask(&p);
	CHECK(fails_with(rdma_accept(p.child, &(struct rdma_conn_param){ .qp_num = 0x3fffff }),
			 EINVAL));
	pair_make_qp(p.child);
	CHECK(!rdma_accept(p.child, NULL));
	expect_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_qp_in_error),
		cmocka_unit_test(test_no_such_qp),
		cmocka_unit_test(test_another_qp),
	};

	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
