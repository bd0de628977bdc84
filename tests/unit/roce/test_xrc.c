/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: the SRQ that each message names, its protection domain, and one half of the service at each
 * end.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"
#include "execute/copies.h"

#define BYTES 65536
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS  1000000ull
#define PSN 0xfffff0

#define XRC_SEND_FIRST	    0xa0
#define XRC_SEND_ONLY	    0xa4
#define XRC_RESPONSE_MIDDLE 0xae
#define XRC_RESPONSE_ONLY   0xb0
#define XRC_ACKNOWLEDGE	    0xb1

static struct rig rig;
static struct pd *other_pd;
static struct qp *sender, *receiver;
static struct srq *srq, *other_srq; /* the other one is of the other PD */
static uint8_t here[BYTES], there[BYTES] __attribute__((aligned(8)));
static struct mr *here_mr, *there_mr, *other_mr;

static int setup(void **state)
{
	struct mr_spec spec = {
		.addr = there, .length = BYTES, .iova = (uintptr_t)there, .access = ACCESS
	};

	rig_create(&rig);
	assert_int_equal(pd_create(&rig.context->verbs.context, &other_pd), 0);
	for (uint32_t i = 0; i < BYTES; i++)
		here[i] = (uint8_t)(i * 7 + i / 1000);
	memset(there, 0xee, BYTES);
	here_mr = rig_mr(&rig, here, BYTES, ACCESS);
	there_mr = rig_mr(&rig, there, BYTES, ACCESS);
	spec.pd = other_pd;
	assert_int_equal(mr_create(&spec, &other_mr), 0);
	srq = rig_xrc_srq(&rig, rig.pd);
	other_srq = rig_xrc_srq(&rig, other_pd);
	sender = rig_qp(&rig, IBV_QPT_XRC_SEND);
	receiver = rig_qp(&rig, IBV_QPT_XRC_RECV);
	rig_connect(sender, receiver,
		    &(struct rig_options){ .access = ACCESS,
					   .timeout = 14,
					   .retry_cnt = 7,
					   .rnr_retry = 7,
					   .min_rnr_timer = 12,
					   .psn = PSN });
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(sender), 0);
	assert_int_equal(qp_destroy(receiver), 0);
	assert_int_equal(xrc_destroy_srq(srq), 0);
	if (other_srq)
		assert_int_equal(xrc_destroy_srq(other_srq), 0);
	assert_int_equal(mr_destroy(here_mr), 0);
	assert_int_equal(mr_destroy(there_mr), 0);
	assert_int_equal(mr_destroy(other_mr), 0);
	assert_int_equal(pd_destroy(other_pd), 0);
	rig_destroy(&rig);
	return 0;
}

static void post(enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id, uint32_t srqn,
		 const struct mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)here, bytes, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)there, .rkey = mr->ib.rkey },
		.qp_type.xrc.remote_srqn = srqn,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)there;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = mr->ib.rkey;
	}
	rig_post_send(sender, &wr);
}

static void post_receive(struct srq *to, uint64_t wr_id, uint32_t bytes, const struct mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)there, bytes, mr->ib.lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(rq_post(&to->rq, &wr, &bad), 0);
}

static void run(void)
{
	rig_run(rig_now_ns + 1000 * MS);
}

static struct ibv_wc expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = rig_completion(&rig);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static void test_send(void **state)
{
	struct ibv_wc wc;

	post_receive(other_srq, 100, BYTES, other_mr);
	post(IBV_WR_SEND, 5000, 1, other_srq->number, there_mr);
	assert_int_equal(rig_peek(0).opcode, XRC_SEND_FIRST);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rig_peek(i).xrc_srqn, other_srq->number);
	run();
	wc = expect(100, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 5000);
	assert_int_equal(wc.qp_num, receiver->ib.qp_num);
	assert_int_equal(wc.src_qp, sender->ib.qp_num);
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 5000);
	post_receive(srq, 101, 64, there_mr);
	post(IBV_WR_SEND, 64, 2, srq->number, there_mr);
	assert_int_equal(rig_peek(0).opcode, XRC_SEND_ONLY);
	rig_step();
	roce_flush();
	assert_int_equal(rig_peek(0).opcode, XRC_ACKNOWLEDGE);
	run();
	expect(101, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
}

static void test_receive_comes_later(void **state)
{
	post_receive(other_srq, 100, 64, other_mr); /* which is not the one that is named */
	post(IBV_WR_SEND, 64, 1, srq->number, there_mr);
	rig_run(rig_now_ns + 2 * MS);
	assert_true(rig_is_quiet(&rig));
	post_receive(srq, 101, 64, there_mr);
	run();
	expect(101, IBV_WC_SUCCESS);
	expect(1, IBV_WC_SUCCESS);
}

static void test_write_read_atomic(void **state)
{
	uint64_t word = 41;

	post(IBV_WR_RDMA_WRITE, 5000, 1, srq->number, there_mr);
	run();
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 5000);
	memset(here, 0, 5000);
	post(IBV_WR_RDMA_READ, 5000, 2, srq->number, there_mr);
	run();
	expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 5000);
	memcpy(there, &word, 8);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 3, other_srq->number, other_mr);
	run();
	expect(3, IBV_WC_SUCCESS);
	assert_memory_equal(here, &word, 8);
	word++;
	assert_memory_equal(there, &word, 8);
}

static bool lose_one_response(struct rig_packet *packet, struct packet *decoded)
{
	static bool lost;

	if (decoded->opcode != XRC_RESPONSE_ONLY)
		return true;
	lost = !lost;
	return !lost;
}

/* A repeated READ uses the PD of its own SRQ, though the QP has served the other one since. */
static void test_repeated_read(void **state)
{
	rig_on_packet = lose_one_response;
	post(IBV_WR_RDMA_READ, 64, 1, other_srq->number, other_mr);
	post(IBV_WR_RDMA_WRITE, 0, 2, srq->number, there_mr);
	run();
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(here[0], 0xee);
}

static unsigned middles;

static bool lose_first_middle(struct rig_packet *packet, struct packet *decoded)
{
	return decoded->opcode != XRC_RESPONSE_MIDDLE || middles++;
}

/* From a copy, which the key of the SRQ's PD allows. */
static void test_copied_read(void **state)
{
	uint64_t went_back = counter_read(COUNTER_WENT_BACK);

	post(IBV_WR_RDMA_WRITE, 5000, 1, srq->number, there_mr);
	run();
	expect(1, IBV_WC_SUCCESS);
	memset(here, 0, sizeof(here));
	copies_start(&roce_of(receiver)->copies, 1024);
	roce_of(sender)->read_repair.trusted = true;
	middles = 0;
	rig_on_packet = lose_first_middle;
	post(IBV_WR_RDMA_READ, 5000, 2, other_srq->number, other_mr);
	run();
	expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 5000);
	assert_true(middles && roce_of(sender)->read_repair.trusted);
	assert_int_equal(counter_read(COUNTER_WENT_BACK), went_back);
}

static void test_key_of_another_pd(void **state)
{
	post(IBV_WR_RDMA_WRITE, 64, 1, srq->number, other_mr);
	run();
	expect(1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(there[0], 0xee);
}

static void test_unknown_srq(void **state)
{
	post(IBV_WR_SEND, 64, 1, other_srq->number + 1000, there_mr);
	run();
	expect(1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(qp_state(receiver), IBV_QPS_ERR);
}

/* The rest of the message must not wait for a receive for ever. */
static void test_srq_destroyed_within_a_message(void **state)
{
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 4096, 1, other_srq->number, other_mr);
	rig_step();
	roce_flush();
	assert_int_equal(xrc_destroy_srq(other_srq), 0);
	other_srq = NULL;
	run();
	expect(1, IBV_WC_REM_INV_REQ_ERR);
}

/* Requests to an XRC_SEND QP, answers to an XRC_RECV QP, and RC to either. */
static void test_wrong_half(void **state)
{
	static const uint8_t to_sender[] = { XRC_SEND_ONLY, 0x04, 0x11 };
	static const uint8_t to_receiver[] = { XRC_ACKNOWLEDGE, 0x04, XRC_RESPONSE_ONLY };
	uint64_t before = counter_read(COUNTER_OTHER_SERVICE);

	post_receive(srq, 100, 64, there_mr);
	for (unsigned i = 0; i < 3; i++) {
		rig_inject(receiver,
			   &(struct packet){ .opcode = to_sender[i], .psn = { PSN + 1000 } }, NULL);
		rig_inject(sender, &(struct packet){ .opcode = to_receiver[i], .psn = { PSN } },
			   NULL);
	}
	run();
	assert_int_equal(counter_read(COUNTER_OTHER_SERVICE), before + 6);
	assert_true(rig_is_quiet(&rig));
	post(IBV_WR_SEND, 64, 1, srq->number, there_mr);
	run();
	expect(100, IBV_WC_SUCCESS);
	expect(1, IBV_WC_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_send),
		TEST(test_receive_comes_later),
		TEST(test_write_read_atomic),
		TEST(test_repeated_read),
		TEST(test_copied_read),
		TEST(test_key_of_another_pd),
		TEST(test_unknown_srq),
		TEST(test_srq_destroyed_within_a_message),
		TEST(test_wrong_half),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
