/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * max_dest_rd_atomic: how many responses a QP owes while a ring is full, other values after RESET
 * and in SQD, and what happens without memory for them.
 */
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "execute/depth.h"
#include "object/limits.h"
#include "shm/progress.h"

#define FAR_SLOT 9
#define FAR_QPN	 (FAR_SLOT << ARENA_QP_BITS | 1)
#define REQUESTS (2 * LIMIT_QP_RD_ATOM + 2) /* in a connection */
#define WORDS	 (8 * REQUESTS + RECORD_PAYLOAD_MAX / 8)

static struct rig rig;
static struct far far;
static struct qp *qp, *filler;
static uint64_t words[WORDS] __attribute__((aligned(4096)));
static char payload[RECORD_PAYLOAD_MAX];
static struct mr *mr, *payload_mr;
static uint32_t msn;	     /* of the next request from the other end */
static bool reads[REQUESTS]; /* by MSN; the others are atomics */
static bool is_short;

void *__real_depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn);
void *__wrap_depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn);

void *__wrap_depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn)
{
	return is_short ? NULL : __real_depth_widen(ring, slots, qpn);
}

static void connect(struct qp *one, uint8_t depth)
{
	rig_connect(one, &(struct rig_connection){ .slot = FAR_SLOT,
						   .access = IBV_ACCESS_REMOTE_READ |
							     IBV_ACCESS_REMOTE_ATOMIC,
						   .timeout = 14,
						   .retry_cnt = 7,
						   .rnr_retry = 7,
						   .rd_atomic = depth });
	msn = 0;
}

static void take_completions(void)
{
	struct ibv_wc wc;

	while (cq_pop(rig.cq, 1, &wc))
		;
}

static int setup(void **state)
{
	is_short = false;
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	mr = rig_mr(&rig, words, sizeof(words),
		    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	payload_mr = rig_mr(&rig, payload, sizeof(payload), 0);
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = 7 * i;
	qp = rig_qp(&rig, IBV_QPT_RC);
	filler = rig_qp(&rig, IBV_QPT_UC);
	connect(filler, 0);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(filler), 0);
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(mr_destroy(payload_mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

static void fill_ring(void)
{
	struct ibv_sge sge = { (uintptr_t)payload, sizeof(payload), payload_mr->ib.lkey };

	while (!shm_of(filler)->blocked_on) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

		rig_post_send(filler, &wr);
		take_completions();
	}
}

/*
 * Longest READs and FETCH_ADDs in turn, the n-th of a connection at word 8 * n. A full ring has no
 * room for the READ, and what is behind that waits.
 */
static void request(unsigned count)
{
	for (unsigned i = 0; i < count; i++, msn++) {
		bool is_read = i % 2 == 0;
		struct operands operands = { .swap_add = 1000 };
		struct record_header header = { .dst_qpn = qp->ib.qp_num,
						.src_qpn = FAR_QPN,
						.msn = msn,
						.total = is_read ? RECORD_PAYLOAD_MAX : 8,
						.bytes = is_read ? 0 : sizeof(operands),
						.rkey = mr->ib.rkey,
						.remote_addr = (uintptr_t)&words[8 * msn] };

		reads[msn] = is_read;
		far_send(&far, is_read ? OPERATION_READ : OPERATION_FETCH_ADD,
			 RECORD_FIRST | RECORD_LAST, header, &operands);
	}
	rig_progress(far.link);
}

/* The other end takes what is in the ring: responses `first` to `first + count`, in order. */
static void expect_responses(uint32_t first, uint32_t count)
{
	struct record_header header;
	uint32_t got = 0;

	for (int rounds = 0; rounds < 10000 && got < count; rounds++) {
		while (got < count && far_next(&far, &header)) {
			uint32_t n = first + got;

			if (header.src_qpn != qp->ib.qp_num)
				continue;
			assert_int_equal(record_kind(&header),
					 reads[n] ? RECORD_READ_RESPONSE : RECORD_ATOMIC_RESPONSE);
			assert_int_equal(record_msn(&header), n);
			assert_int_equal(header.total, reads[n] ? RECORD_PAYLOAD_MAX : 8);
			assert_int_equal(words[8 * n], 56ull * n + (reads[n] ? 0 : 1000));
			got++;
		}
		far_acknowledge(&far);
		rig_progress(far.link);
		take_completions();
	}
	assert_int_equal(got, count);
}

/* What is left of a connection that has ended. */
static void drain(void)
{
	struct record_header header;
	bool any;

	do {
		any = false;
		while (far_next(&far, &header))
			any = true;
		far_acknowledge(&far);
		rig_progress(far.link);
	} while (any);
	take_completions();
}

static unsigned owed(void)
{
	return shm_of(qp)->response_tail - shm_of(qp)->response_head;
}

static int change(enum ibv_qp_state state, uint8_t depth)
{
	struct ibv_qp_attr attr = { .qp_state = state, .max_dest_rd_atomic = depth };

	return qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC);
}

static void move(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	assert_int_equal(qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

/* So many are owed while the other end takes nothing; one more ends the connection. */
static void test_other_depths_after_reset(void **state)
{
	static const uint8_t depths[] = { 1, LIMIT_QP_RD_ATOM, 3, 1, 5 };

	for (unsigned i = 0; i < sizeof(depths); i++) {
		connect(qp, depths[i]);
		fill_ring();
		request(depths[i]);
		assert_int_equal(owed(), depths[i]);
		assert_int_equal(qp_state(qp), IBV_QPS_RTS);
		expect_responses(0, depths[i]);
		request(1); /* so that the next ones begin elsewhere in the ring */
		expect_responses(depths[i], 1);
		fill_ring();
		request(depths[i]);
		request(1);
		assert_int_equal(qp_state(qp), IBV_QPS_ERR);
		rig_reset(qp);
		drain();
		for (unsigned w = 0; w < WORDS; w++)
			words[w] = 7 * w;
	}
}

static void test_rings_are_as_long_as_asked(void **state)
{
	connect(qp, 1);
	assert_int_equal(shm_of(qp)->response_slots, 1);
	assert_null(shm_of(filler)->responses);
	rig_reset(qp);
	connect(qp, 5);
	assert_int_equal(shm_of(qp)->response_slots, 8);
	assert_int_equal(shm_of(qp)->response_limit, 5);
}

/* What is owed stays, in order. */
static void test_more_in_sqd(void **state)
{
	connect(qp, 3);
	request(4); /* so that the ring wraps */
	expect_responses(0, 4);
	fill_ring();
	request(3);
	move(IBV_QPS_SQD);
	assert_int_equal(change(IBV_QPS_SQD, 12), 0);
	request(5);
	move(IBV_QPS_RTS);
	request(4);
	assert_int_equal(owed(), 12);
	expect_responses(4, 12);
}

static void test_fewer_in_sqd(void **state)
{
	connect(qp, 8);
	fill_ring();
	request(6);
	move(IBV_QPS_SQD);
	assert_int_equal(change(IBV_QPS_SQD, 2), 0);
	move(IBV_QPS_RTS);
	assert_int_equal(owed(), 6);
	expect_responses(0, 6);
	fill_ring();
	request(2);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	request(1);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
}

static void test_counts_wrap(void **state)
{
	connect(qp, 6);
	shm_of(qp)->response_head = shm_of(qp)->response_tail = UINT32_MAX - 3;
	fill_ring();
	request(6);
	expect_responses(0, 6);
}

static void test_refused(void **state)
{
	struct ibv_qp_attr before, after;
	struct ibv_qp_init_attr init;

	connect(qp, 2);
	move(IBV_QPS_SQD);
	qp_query(qp, &before, &init);
	assert_int_equal(change(IBV_QPS_SQD, LIMIT_QP_RD_ATOM + 1), EINVAL);
	is_short = true;
	assert_int_equal(change(IBV_QPS_SQD, 3), ENOMEM);
	is_short = false;
	qp_query(qp, &after, &init);
	assert_memory_equal(&before, &after, sizeof(before));
	move(IBV_QPS_RTS);
	assert_int_equal(change(IBV_QPS_RTS, 3), EINVAL);
	fill_ring();
	request(2);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	request(1);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
}

static void test_no_memory_at_rtr(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = FAR_QPN,
				    .ah_attr = { .is_global = 1, .port_num = 1 },
				    .max_dest_rd_atomic = 8 };

	assert_int_equal(
		qp_modify(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_state = IBV_QPS_RTR;
	is_short = true;
	assert_int_equal(qp_modify(qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER),
			 ENOMEM);
	is_short = false;
	assert_int_equal(qp_state(qp), IBV_QPS_INIT);
	rig_reset(qp);
	connect(qp, 8);
	request(8);
	expect_responses(0, 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_other_depths_after_reset),
		TEST(test_rings_are_as_long_as_asked),
		TEST(test_more_in_sqd),
		TEST(test_fewer_in_sqd),
		TEST(test_counts_wrap),
		TEST(test_refused),
		TEST(test_no_memory_at_rtr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
