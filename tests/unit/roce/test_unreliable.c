/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: a message with a lost packet is lost whole; RC and UC answer congestion marks alike. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"

#define BYTES  65536
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define MS     1000000ull
#define CNP    0x81

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static uint32_t lost_psn, marks;

static bool lose_psn(struct rig_packet *packet, struct packet *decoded)
{
	return decoded->psn.number != lost_psn;
}

static bool mark(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode == CNP) {
		assert_true(decoded->becn);
		assert_int_equal(decoded->payload_bytes, 16);
		marks++;
	} else {
		packet->flow.traffic_class |= 3;
	}
	return true;
}

static void connect(enum ibv_qp_type type)
{
	pair_connect(type, &(struct rig_options){ .access = ACCESS, .timeout = 14, .psn = 100 });
}

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	return 0;
}

static void post(enum ibv_wr_opcode opcode, uint32_t offset, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)here + offset, bytes, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)there + offset, .rkey = there_mr->ib.rkey },
	};

	rig_post_send(a, &wr);
	rig_run(rig_now_ns + MS);
}

/* Of three messages of four packets the second loses one: FIRST, MIDDLE or LAST. */
static void test_loss(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there, BYTES, there_mr->ib.lkey };

	connect(IBV_QPT_UC);
	for (uint32_t n = 0; n < 4; n++) {
		uint32_t received = 0;

		rig_on_packet = lose_psn;
		lost_psn = 100 + n * 12 + 4 + n;
		for (unsigned i = 0; i < 3; i++)
			rig_post_receive(b, 10 + i, &sge);
		for (uint32_t i = 0; i < 3; i++)
			post(IBV_WR_SEND, i * 4096, 4096 - i);
		while (!rig_is_quiet(&rig)) {
			struct ibv_wc wc = rig_completion(&rig);

			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode != IBV_WC_RECV)
				continue;
			/* the first message and the third */
			assert_int_equal(wc.byte_len, received ? 4094 : 4096);
			received++;
		}
		assert_int_equal(received, 2);
		assert_memory_equal(there, here + 8192, 4094);
		rig_modify(b, IBV_QPS_ERR); /* the receive that is left */
		assert_int_equal(rig_completion(&rig).status, IBV_WC_WR_FLUSH_ERR);
		rig_modify(b, IBV_QPS_RESET);
		rig_modify(a, IBV_QPS_RESET);
		rig_connect(a, b, &(struct rig_options){ .access = ACCESS, .psn = 112 + n * 12 });
	}
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
}

/* No receive, no right, a wrong key: the message is gone, the QP lives. */
static void test_dropped(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there, 100, there_mr->ib.lkey };

	connect(IBV_QPT_UC);
	post(IBV_WR_SEND, 0, 3000); /* no receive */
	rig_post_receive(b, 10, &sge);
	post(IBV_WR_SEND, 0, 3000); /* too long */
	there_mr->ib.rkey++;
	post(IBV_WR_RDMA_WRITE, 0, 3000);
	there_mr->ib.rkey--;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig));
	post(IBV_WR_SEND, 0, 100);
	assert_int_equal(rig_completion(&rig).wr_id, 1);
	assert_int_equal(rig_completion(&rig).wr_id, 10);
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
}

/* rxe sets AckReq even for UC, which has no acknowledgements. */
static void test_acknowledgement_asked_for(void **state)
{
	struct packet packet = { .opcode = 0x2a,
				 .psn = { 100 },
				 .ack_req = true,
				 .va = (uintptr_t)there,
				 .rkey = there_mr->ib.rkey,
				 .length = 8,
				 .payload_bytes = 8 };

	connect(IBV_QPT_UC);
	memset(there, 0, 8);
	rig_inject(a, &packet, here + 8);
	while (rig_step())
		;
	roce_flush();
	assert_int_equal(rig_waiting(), 0);
	assert_memory_equal(there, here + 8, 8);
}

/* Without acknowledgements only timers drive the QP, no faster than its pace. */
static void test_pace(void **state)
{
	uint64_t start = rig_now_ns, bytes = 0;

	connect(IBV_QPT_UC);
	for (unsigned i = 0; i < 60; i++) {
		struct ibv_sge sge = { (uintptr_t)here, 60000, here_mr->ib.lkey };
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = (uintptr_t)there, .rkey = there_mr->ib.rkey },
		};

		rig_post_send(a, &wr);
	}
	while (bytes < 60 * 60000) {
		assert_true(rig_now_ns - start < 100 * MS);
		while (rig_step())
			;
		while (!rig_is_quiet(&rig)) {
			assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
			bytes += 60000;
		}
		/* as of a process that receives nothing: roce_flush is never called */
		if (roce_deadline_ns() != TRANSPORT_NEVER)
			rig_now_ns = roce_deadline_ns();
		roce_run(rig_now_ns);
		assert_true(bytes <=
			    PACE_BURST_BYTES * (1 + (rig_now_ns - start) / PACE_INTERVAL_NS));
	}
}

/* WRITEs come faster than they are received: the sender is slower from then on. */
static void test_backlog(void **state)
{
	connect(IBV_QPT_UC);
	rig_backlogged = true;
	post(IBV_WR_RDMA_WRITE, 0, 8);
	roce_flush();
	rig_run(rig_now_ns);
	assert_in_range(roce_of(a)->pace.withheld, PACE_SHARES / 2 - 1, PACE_SHARES / 2);
}

/* The window of an RC QP does that. */
static void test_backlog_with_a_window(void **state)
{
	uint64_t handled = counter_read(COUNTER_RP_CNP_HANDLED);

	connect(IBV_QPT_RC);
	rig_backlogged = true;
	post(IBV_WR_RDMA_WRITE, 0, 60000);
	assert_int_equal(counter_read(COUNTER_RP_CNP_HANDLED) - handled, 0);
}

/* One notification in 50 us at most, and the window halves. */
static void test_congestion(void **state)
{
	uint32_t before;

	connect(IBV_QPT_RC);
	post(IBV_WR_RDMA_WRITE, 0, 8);
	before = roce_of(a)->window.size;
	rig_on_packet = mark;
	post(IBV_WR_RDMA_WRITE, 0, 8);
	assert_int_equal(marks, 2); /* b's, and a's for the marked acknowledgement */
	assert_int_equal(roce_of(a)->window.size, before / 2);
	post(IBV_WR_RDMA_WRITE, 0, 60000);
	assert_in_range(marks, 3, 10);
	while (!rig_is_quiet(&rig))
		assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
}

/* In a GRO batch: a WRITE_WITH_IMM that finds no receive at its end, then another message. */
static void test_no_receive_in_a_batch(void **state)
{
	connect(IBV_QPT_UC);
	pair_post(IBV_WR_RDMA_WRITE_WITH_IMM, 4096, 1);
	pair_post(IBV_WR_RDMA_WRITE, 4096, 2);
	while (rig_waiting() > 1)
		assert_true(rig_step_more());
	assert_true(rig_step());
	roce_flush();
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig));
	assert_memory_equal(here, there, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(loss),
		TEST(dropped),
		TEST(acknowledgement_asked_for),
		TEST(pace),
		TEST(congestion),
		TEST(backlog),
		TEST(backlog_with_a_window),
		TEST(no_receive_in_a_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
