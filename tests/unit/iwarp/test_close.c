/* SPDX-License-Identifier: BSD-2-Clause */
/* How connections begin and end: the first FPDU, the half close, the peer's death, windows. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/bytes.h"
#include "memory/hazard.h"
#include "memory/memory.h"
#include "object/mw.h"
#include "rig.h"

#define ALL                                                                                        \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_MW_BIND)

static int setup(void **state)
{
	rig_create(ALL);
	return 0;
}

static void disconnect(unsigned end)
{
	lock_acquire(&rig[end].qp->lock);
	iwarp_disconnect(rig[end].qp);
	lock_release(&rig[end].qp->lock);
}

static void modify(unsigned end, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	assert_int_equal(qp_modify(rig[end].qp, &attr, IBV_QP_STATE), 0);
}

/* What is posted arrives before the half close; the READ's response comes after it. */
static void test_orderly_end(void **state)
{
	rig_connect(NULL);
	rig_receive(1, 5, 1000);
	rig_receive(1, 6, 1000);
	rig_post(0, IBV_WR_SEND, 1000, 1);
	rig_post(0, IBV_WR_RDMA_READ, 5000, 2);
	disconnect(0);
	disconnect(0);
	assert_true(rig[0].shut);
	assert_int_equal(iwarp_end_of(rig[0].qp), IWARP_END_NONE);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_SUCCESS);
	rig_expect(1, 5, IBV_WC_SUCCESS);
	rig_expect(1, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[0].end, IWARP_END_DISCONNECTED);
	assert_int_equal(rig[1].end, IWARP_END_CLOSED);
	assert_int_equal(qp_state(rig[0].qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(rig[1].qp), IBV_QPS_ERR);
	assert_int_equal(rig[0].ends + rig[1].ends, 2);
	assert_false(rig_has_event());
	assert_memory_equal(rig[0].memory, rig[1].memory, 1000);
}

/* The half close waits for room. */
static void test_disconnect_of_a_full_stream(void **state)
{
	rig_connect(NULL);
	rig_receive(1, 5, 100000);
	rig[0].room = 5000;
	rig_post(0, IBV_WR_SEND, 100000, 1);
	disconnect(0);
	assert_false(rig[0].shut);
	rig[0].room = SIZE_MAX;
	rig_run();
	assert_true(rig[0].shut);
	assert_int_equal(rig_expect(1, 5, IBV_WC_SUCCESS).byte_len, 100000);
}

/* A peer that dies within an FPDU. */
static void test_end_within_an_fpdu(void **state)
{
	rig_connect(NULL);
	rig_receive(1, 5, 1000);
	rig_post(0, IBV_WR_SEND, 1000, 1);
	rig[0].tail -= 7;
	rig[0].shut = true;
	rig_read(1);
	rig_read(1);
	rig_expect(1, 5, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[1].end, IWARP_END_LOST);
}

/* The peer is gone, as a `send` tells. What it said before still counts. */
static void test_what_came_before_a_reset(void **state)
{
	rig_connect(NULL);
	rig_receive(0, 5, 1000);
	rig_receive(0, 6, 1000);
	rig_post(0, IBV_WR_RDMA_READ, 5000, 1);
	rig_read(1);
	rig_post(1, IBV_WR_SEND, 1000, 7);
	rig[0].refused = true;
	rig_post(0, IBV_WR_SEND, 1000, 2);
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 5, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	rig_expect(0, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[0].end, IWARP_END_LOST);
	assert_int_equal(rig[0].qp->failure, CAUSE_IWARP_LOST);
}

/* A stream that takes nothing, and whose peer is there and goes on sending, has a limit. */
static void test_a_broken_stream_that_is_read_has_a_limit(void **state)
{
	rig_connect(NULL);
	rig_post(1, IBV_WR_RDMA_WRITE, 400000, 7);
	rig[0].refused = true;
	rig_post(0, IBV_WR_SEND, 1000, 2);
	assert_int_equal(qp_state(rig[0].qp), IBV_QPS_RTS);
	assert_true(rig[0].is_ending);
	assert_false(rig[0].is_failing);
}

/* What is posted at the peer's FIN still leaves; what is posted later does not hold up the end. */
static void test_requests_at_the_fin(void **state)
{
	rig_connect(NULL);
	rig_receive(1, 5, 100000);
	rig_receive(1, 6, 100000);
	rig[0].room = 5000;
	rig_post(0, IBV_WR_SEND, 100000, 1);
	disconnect(1);
	rig_read(0);
	rig_read(0);
	rig_post(0, IBV_WR_SEND, 1000, 2);
	assert_int_equal(qp_state(rig[0].qp), IBV_QPS_RTS);
	rig[0].room = SIZE_MAX;
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	rig_expect(1, 5, IBV_WC_SUCCESS);
	rig_expect(1, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[0].end, IWARP_END_CLOSED);
	assert_int_equal(rig[0].qp->failure, CAUSE_IWARP_CLOSED);
}

/* Likewise where only a share of it has left. */
static void test_a_long_request_at_the_fin(void **state)
{
	rig_connect(NULL);
	rig_post(0, IBV_WR_RDMA_WRITE, RIG_BYTES, 1);
	assert_true(iwarp_of(rig[0].qp)->sending.yielded);
	disconnect(1);
	rig_read(0);
	rig_read(0);
	assert_int_equal(qp_state(rig[0].qp), IBV_QPS_RTS);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_memory_equal(rig[0].memory, rig[1].memory, RIG_BYTES);
	assert_int_equal(rig[0].end, IWARP_END_CLOSED);
}

static void test_broken_stream(void **state)
{
	rig_connect(NULL);
	rig_receive(0, 5, 1000);
	rig_post(0, IBV_WR_RDMA_READ, 1000, 1);
	rig[0].broken = true;
	rig_post(0, IBV_WR_RDMA_WRITE, 1000, 2);
	rig_expect(0, 1, IBV_WC_WR_FLUSH_ERR);
	rig_expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	rig_expect(0, 5, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[0].end, IWARP_END_LOST);
	assert_int_equal(rig_read(0), IWARP_OVER);
	rig_post(0, IBV_WR_RDMA_WRITE, 1000, 3);
	rig_expect(0, 3, IBV_WC_WR_FLUSH_ERR);
}

/* ibv_modify_qp to ERR: the peer sees the end, no TERMINATE; what was staged still leaves. */
static void test_modified_to_error(void **state)
{
	rig_connect(NULL);
	rig_receive(1, 5, 100000);
	rig[0].room = 5000;
	rig_post(0, IBV_WR_SEND, 4000, 1);
	rig_post(0, IBV_WR_SEND, 4000, 2);
	modify(0, IBV_QPS_ERR);
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[0].ends, 0);
	rig[0].room = SIZE_MAX;
	rig_receive(1, 6, 100000);
	rig_run();
	rig_expect(1, 5, IBV_WC_SUCCESS);
	rig_expect(1, 6, IBV_WC_SUCCESS);
	assert_int_equal(rig[0].end, IWARP_END_DISCONNECTED);
	assert_int_equal(rig[1].end, IWARP_END_CLOSED);
}

/* What comes after that is forgotten by shares, each of which says that there is more. */
static void test_much_to_forget(void **state)
{
	rig_connect(NULL);
	modify(0, IBV_QPS_ERR);
	rig[1].tail = 1 << 20;
	rig[1].shut = true;
	for (int share = 0; share < 4; share++) {
		enum iwarp_progress progress;
		bool any;

		lock_acquire(&rig[0].qp->lock);
		progress = iwarp_on_readable(rig[0].qp, &any);
		lock_release(&rig[0].qp->lock);
		assert_int_equal(progress, IWARP_MORE);
		assert_true(any);
	}
	assert_int_equal(rig_read(0), IWARP_OVER);
}

static void test_reset_and_destroy_end_at_once(void **state)
{
	rig_connect(NULL);
	rig_post(0, IBV_WR_RDMA_READ, 1000, 1);
	modify(0, IBV_QPS_RESET);
	assert_int_equal(rig[0].end, IWARP_END_DISCONNECTED);
	assert_true(rig_is_quiet(0));
	assert_int_equal(rig_read(0), IWARP_OVER);
	/* teardown destroys the other one, which is connected */
}

/* The first QP takes little of a READ's response, and sends a WRITE that is refused. */
static void refuse_behind_responses(void)
{
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 100, rig[0].mr->ib.lkey };
	struct ibv_send_wr bad = { .wr_id = 2,
				   .opcode = IBV_WR_RDMA_WRITE,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .wr.rdma = { 64, 0xbad00 } };

	rig_connect(NULL);
	rig[1].room = 100;
	rig_post(0, IBV_WR_RDMA_READ, 200000, 1);
	rig_post_wr(0, &bad);
	rig_read(1);
	rig_read(1);
}

/* Earlier responses leave before the TERMINATE, however long that takes. */
static void test_earlier_responses_before_terminate(void **state)
{
	refuse_behind_responses();
	assert_int_equal(qp_state(rig[1].qp), IBV_QPS_RTS);
	rig[1].room = SIZE_MAX;
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_SUCCESS);
	assert_memory_equal(rig[0].memory, rig[1].memory, 200000);
	assert_int_equal(rig[0].end, IWARP_END_TERMINATED);
	assert_int_equal(rig_event(), IBV_EVENT_QP_ACCESS_ERR);
}

/* The responder sends nothing before the initiator's first FPDU, whatever that is. */
static void test_ready_to_receive(void **state)
{
	for (int rtr = MPA_RTR_NONE; rtr <= MPA_RTR_READ; rtr++) {
		struct iwarp_options options = rig_options();

		options.mpa.rtr = (enum mpa_rtr)rtr;
		rig_connect(&options);
		rig_receive(0, 5, 100);
		rig_post(1, IBV_WR_SEND, 100, 1);
		assert_int_equal(rig[1].tail > 0, rtr == MPA_RTR_NONE);
		assert_int_equal(rig[0].tail > 0, rtr != MPA_RTR_NONE);
		if (rtr == MPA_RTR_EMPTY)
			assert_int_equal(rig[0].tail, 8);
		rig_run();
		rig_expect(0, 5, IBV_WC_SUCCESS);
		rig_expect(1, 1, IBV_WC_SUCCESS);
		assert_int_equal(iwarp_of(rig[0].qp)->outstanding_head,
				 iwarp_of(rig[0].qp)->outstanding_tail);
		rig_post(0, IBV_WR_RDMA_READ, 100, 2);
		rig_run();
		rig_expect(0, 2, IBV_WC_SUCCESS);
		assert_int_equal(rig_destroy(NULL), 0);
		rig_create(ALL);
	}
}

/*
 * siw takes what comes with the reply for more of it, and ends the connection: the responder waits
 * for the initiator's first FPDU, or a while.
 */
static void test_not_with_the_reply(void **state)
{
	for (int by_itself = 0; by_itself < 2; by_itself++) {
		struct iwarp_options options = rig_options();

		options.mpa.extensions = false;
		rig_connect(&options);
		rig_receive(0, 5, 100);
		rig_receive(1, 6, 100);
		rig_post(1, IBV_WR_SEND, 100, 1);
		assert_int_equal(rig[1].tail, 0);
		if (by_itself) {
			rig_open_gate(1);
			assert_true(rig[1].tail > 0);
		} else {
			rig_post(0, IBV_WR_SEND, 100, 2);
			rig_run();
			rig_expect(0, 2, IBV_WC_SUCCESS);
			rig_expect(1, 6, IBV_WC_SUCCESS);
		}
		rig_run();
		rig_expect(0, 5, IBV_WC_SUCCESS);
		rig_expect(1, 1, IBV_WC_SUCCESS);
		assert_int_equal(rig_destroy(NULL), 0);
		rig_create(ALL);
	}
}

/* Bytes that were read with the start-up frame. */
static void test_early_bytes(void **state)
{
	struct iwarp_options options = rig_options();
	struct qp *qp = rig[1].qp;

	rig_receive(1, 5, 2000);
	lock_acquire(&rig[0].qp->lock);
	assert_int_equal(iwarp_attach(rig[0].qp, &rig[0], &options, NULL, 0), 0);
	lock_release(&rig[0].qp->lock);
	rig_post(0, IBV_WR_SEND, 2000, 1);
	rig[0].head = 1111;
	options.mpa.initiator = false;
	lock_acquire(&qp->lock);
	assert_int_equal(iwarp_attach(qp, &rig[1], &options, rig[0].bytes, 1111), 0);
	assert_int_equal(iwarp_attach(qp, &rig[1], &options, NULL, 0), EINVAL);
	lock_release(&qp->lock);
	rig_expect(1, 5, IBV_WC_SUCCESS);
	assert_memory_equal(rig[0].memory, rig[1].memory, 2000);
}

static struct mw *make_window(void)
{
	struct mw *mw;

	assert_int_equal(mw_create(rig[1].qp->pd, IBV_MW_TYPE_2, &mw), 0);
	return mw;
}

/* A type 2 window: bound, written to, ended by the peer's SEND_WITH_INV; then a WRITE is refused.
 */
static void test_window(void **state)
{
	struct mw *mw = make_window();
	uint32_t rkey = mw->ib.rkey;
	struct ibv_send_wr bind = {
		.wr_id = 1,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = &mw->ib,
			     .rkey = rkey,
			     .bind_info = { .mr = &rig[1].mr->ib,
					    .addr = (uintptr_t)rig[1].memory,
					    .length = 4096,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 4096, rig[0].mr->ib.lkey };
	struct ibv_send_wr write = { .wr_id = 2,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .wr.rdma = { (uintptr_t)rig[1].memory, rkey } };
	struct ibv_send_wr send = { .wr_id = 3,
				    .opcode = IBV_WR_SEND_WITH_INV,
				    .invalidate_rkey = rkey };
	struct ibv_wc wc;

	rig_connect(NULL);
	rig_post_wr(1, &bind);
	rig_expect(1, 1, IBV_WC_SUCCESS);
	rig_receive(1, 9, 0);
	rig_post_wr(0, &write);
	rig_post_wr(0, &send);
	rig_run();
	rig_expect(0, 2, IBV_WC_SUCCESS);
	rig_expect(0, 3, IBV_WC_SUCCESS);
	wc = rig_expect(1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	assert_memory_equal(rig[0].memory, rig[1].memory, 4096);
	rig_post_wr(0, &write);
	rig_run();
	assert_int_equal(rig[0].end, IWARP_END_TERMINATED);
	assert_int_equal(mw_destroy(mw), 0);
}

static void test_local_invalidate(void **state)
{
	struct mw *mw = make_window();
	uint32_t rkey = mw->ib.rkey;
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = &mw->ib,
			     .rkey = rkey,
			     .bind_info = { .mr = &rig[1].mr->ib,
					    .addr = (uintptr_t)rig[1].memory,
					    .length = 4096,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};

	rig_connect(NULL);
	rig_post_wr(1, &wr);
	wr = (struct ibv_send_wr){ .wr_id = 2,
				   .opcode = IBV_WR_LOCAL_INV,
				   .invalidate_rkey = rkey };
	rig_post_wr(1, &wr);
	rig_expect(1, 1, IBV_WC_SUCCESS);
	rig_expect(1, 2, IBV_WC_SUCCESS);
	rig_post_wr(1, &wr); /* twice: it is not bound any more */
	rig_expect(1, 2, IBV_WC_MW_BIND_ERR);
	rig_run();
	assert_int_equal(rig[0].end, IWARP_END_TERMINATED);
	assert_int_equal(rig[1].end, IWARP_END_ERROR);
	assert_int_equal(mw_destroy(mw), 0);
}

static void bind(struct mw *mw)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = &mw->ib,
			     .rkey = mw->ib.rkey,
			     .bind_info = { .mr = &rig[1].mr->ib,
					    .addr = (uintptr_t)rig[1].memory,
					    .length = 4096,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};

	rig_post_wr(1, &wr);
	rig_expect(1, 1, IBV_WC_SUCCESS);
}

static void give_up(unsigned end)
{
	lock_acquire(&rig[end].qp->lock);
	iwarp_give_up(rig[end].qp);
	lock_release(&rig[end].qp->lock);
	assert_int_equal(rig[end].ends, 1);
	assert_int_equal(qp_state(rig[end].qp), IBV_QPS_ERR);
}

/* A thread copies by the key that a request revokes, for ever, and the peer has closed. */
static void test_give_up_a_local_invalidate(void **state)
{
	struct mw *mw = make_window();
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_LOCAL_INV,
				  .invalidate_rkey = mw->ib.rkey };
	struct arena_hazard *hazard;

	rig_connect(NULL);
	bind(mw);
	hazard = hazard_set(memory_slot(), mw->ib.rkey);
	rig_post_wr(1, &wr);
	disconnect(0);
	rig_run();
	assert_true(rig[1].again > 0 && rig[1].is_ending);
	assert_int_equal(rig[1].ends, 0);
	give_up(1);
	rig_expect(1, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[1].end, IWARP_END_LOST);
	hazard_clear(hazard);
	assert_int_equal(mw_destroy(mw), 0);
}

/* Likewise by the key that the peer revokes; the peer is gone. */
static void test_give_up_a_send_with_invalidate(void **state)
{
	struct mw *mw = make_window();
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .invalidate_rkey = mw->ib.rkey };
	struct arena_hazard *hazard;

	rig_connect(NULL);
	bind(mw);
	rig_receive(1, 9, 0);
	hazard = hazard_set(memory_slot(), mw->ib.rkey);
	rig_post_wr(0, &wr);
	rig_run();
	rig[1].refused = true;
	rig_post(1, IBV_WR_RDMA_WRITE, 1000, 3);
	assert_true(rig[1].again > 0 && rig[1].is_ending);
	assert_int_equal(rig[1].ends, 0);
	give_up(1);
	rig_expect(1, 9, IBV_WC_WR_FLUSH_ERR);
	rig_expect(1, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[1].end, IWARP_END_LOST);
	hazard_clear(hazard);
	assert_int_equal(mw_destroy(mw), 0);
}

/* The peer is refused, and takes no responses: that has a limit, too, and keeps its event. */
static void test_give_up_a_refused_peer(void **state)
{
	refuse_behind_responses();
	assert_true(rig[1].is_ending);
	assert_int_equal(qp_state(rig[1].qp), IBV_QPS_RTS);
	give_up(1);
	assert_int_equal(rig[1].end, IWARP_END_ERROR);
	assert_int_equal(rig_event(), IBV_EVENT_QP_ACCESS_ERR);
}

/* The peer learns of IBV_SEND_SOLICITED. */
static void test_solicited(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SOLICITED };

	rig_connect(NULL);
	rig_receive(1, 5, 0);
	rig_post_wr(0, &wr);
	assert_int_equal(rig[0].bytes[3] & 0xf, RDMAP_SEND_SE);
	rig_run();
	rig_expect(1, 5, IBV_WC_SUCCESS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_destroy)
	const struct CMUnitTest tests[] = {
		TEST(test_orderly_end),
		TEST(test_disconnect_of_a_full_stream),
		TEST(test_end_within_an_fpdu),
		TEST(test_what_came_before_a_reset),
		TEST(test_a_broken_stream_that_is_read_has_a_limit),
		TEST(test_requests_at_the_fin),
		TEST(test_a_long_request_at_the_fin),
		TEST(test_broken_stream),
		TEST(test_modified_to_error),
		TEST(test_much_to_forget),
		TEST(test_reset_and_destroy_end_at_once),
		TEST(test_earlier_responses_before_terminate),
		TEST(test_ready_to_receive),
		TEST(test_not_with_the_reply),
		TEST(test_early_bytes),
		TEST(test_window),
		TEST(test_local_invalidate),
		TEST(test_give_up_a_local_invalidate),
		TEST(test_give_up_a_send_with_invalidate),
		TEST(test_give_up_a_refused_peer),
		TEST(test_solicited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
