/* SPDX-License-Identifier: BSD-2-Clause */
/* Wake-ups: a sleeping process is woken for records in its ring, and for nothing else. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/eventfd.h"
#include "shm/progress.h"

#define FAR_SLOT 9
#define PSN	 100
#define MANY	 100000

static struct rig rig;
static struct far far;

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	((struct arena_header *)rig.arena)->need_wakeup = true;
	((struct arena_header *)far.arena)->need_wakeup = true;
	return 0;
}

static int teardown(void **state)
{
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

/* Since the last time. */
static uint32_t notices(struct link *link)
{
	return eventfd_withdraw(link->wake_fd, 2 * MANY);
}

static void connect_own(struct qp *qp, struct qp *to)
{
	rig_connect(qp, &(struct rig_connection){ .qpn = to->ib.qp_num,
						  .psn = PSN,
						  .timeout = 14,
						  .access = IBV_ACCESS_REMOTE_WRITE |
							    IBV_ACCESS_REMOTE_READ });
}

/* The target sleeps, and is not woken. */
static void test_direct_requests_call_nobody(void **state)
{
	static const enum ibv_wr_opcode direct[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC), *target = rig_qp(&rig, IBV_QPT_RC);
	char *memory = aligned_alloc(4096, 4096);
	struct mr *mr =
		rig_mr(&rig, memory, 4096,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->ib.lkey };

	connect_own(qp, target);
	connect_own(target, qp);
	for (int i = 0; i < MANY; i++) {
		struct ibv_send_wr wr = {
			.wr_id = (uint64_t)i,
			.opcode = direct[i % 2],
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { (uintptr_t)memory + 64, mr->ib.rkey },
		};
		struct ibv_wc wc;

		rig_post_send(qp, &wr);
		assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(notices(rig.self), 0);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(target), 0);
	assert_int_equal(mr_destroy(mr), 0);
	free(memory);
}

/* One for each post, however many records that are. */
static void test_records_call_the_sleeper_once(void **state)
{
	static char memory[3 * RECORD_PAYLOAD_MAX];
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);
	struct mr *mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->ib.lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct record_header header;
	int records = 0;

	rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT, .timeout = 14 });
	for (uint32_t posts = 1; posts <= 3; posts++) {
		rig_post_send(qp, &wr);
		assert_int_equal(notices(far.link), 1);
	}
	while (far_next(&far, &header))
		records++;
	assert_int_equal(records, 9);
	((struct arena_header *)far.arena)->need_wakeup = false;
	rig_post_send(qp, &wr);
	assert_int_equal(notices(far.link), 0);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(mr), 0);
}

/* Acknowledgements are there at once; a peer that sleeps learns of them when the notice is sent. */
static void test_deferred_notice_is_sent_once(void **state)
{
	static char memory[64];
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);
	struct mr *mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	uint32_t sent = 0;

	rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT, .timeout = 14, .psn = PSN });
	for (int deferred = 0; deferred < 2; deferred++) {
		struct record_header header = { .bytes = 8,
						.total = 8,
						.dst_qpn = qp->ib.qp_num,
						.src_qpn = qp->attr.dest_qp_num,
						.msn = PSN + sent++ };

		rig_post_receive(
			qp, 1, &(struct ibv_sge){ (uintptr_t)memory, sizeof(memory), mr->ib.lkey });
		far_send(&far, OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header, "1234567");
		progress_defers_notice = deferred;
		while (progress_link(far.link))
			;
		progress_defers_notice = false;
		assert_int_equal(progress_has_notice(), deferred);
		assert_int_equal(notices(far.link), !deferred);
		progress_send_notice();
		assert_false(progress_has_notice());
		assert_int_equal(notices(far.link), deferred);
		progress_send_notice();
		assert_int_equal(notices(far.link), 0);
	}
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_direct_requests_call_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_records_call_the_sleeper_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_deferred_notice_is_sent_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
