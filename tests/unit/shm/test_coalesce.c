/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receives of small SENDs in a row complete together: behind their acknowledgement (pairs
 * RING-3 and RING-4), and before anything else that the program, or the other end, can see.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "object/srq.h"
#include "shm/progress.h"
#include "shm/responder.h"

#define FAR_SLOT 9
#define FAR_QPN	 (FAR_SLOT << ARENA_QP_BITS | 3)
#define BYTES	 8192
#define RECEIVES 12
#define MANY	 60

static struct rig rig;
static struct far far;
static struct qp *qp;
static struct srq *srq;
static struct mr *mr;
static char memory[BYTES];
static uint8_t payload[BYTES];

/* Of each push: how many completions, and the other end's view just before. */
static struct {
	uint32_t count, solicited;
	uint64_t acked, executed, released;
	bool nak;
} pushes[MANY];
static unsigned pushed;
static unsigned events, early; /* early: those that came before the completions */
static uint32_t at_event;      /* completions in the CQ, at the last event */

static uint64_t acked(void)
{
	return atomic_load(&far.tx.control->acked);
}

static bool has_nak(void)
{
	struct record_header header;

	return ring_peek(&far.rx, &header) && record_kind(&header) == RECORD_NAK;
}

void __real_cq_push_all(struct cq *cq, const struct cqe *cqes, uint32_t count, uint32_t solicited);
void __wrap_cq_push_all(struct cq *cq, const struct cqe *cqes, uint32_t count, uint32_t solicited);

void __wrap_cq_push_all(struct cq *cq, const struct cqe *cqes, uint32_t count, uint32_t solicited)
{
	assert_in_range(pushed, 0, MANY - 1);
	pushes[pushed].released = atomic_load(&far.tx.control->head);
	pushes[pushed].count = count;
	pushes[pushed].solicited = solicited;
	pushes[pushed].acked = acked();
	pushes[pushed].executed = atomic_load(&far.link->executed);
	pushes[pushed].nak = has_nak();
	pushed++;
	__real_cq_push_all(cq, cqes, count, solicited);
}

void __real_context_raise(struct context *context, const struct ibv_async_event *event,
			  uint32_t *reported);
void __wrap_context_raise(struct context *context, const struct ibv_async_event *event,
			  uint32_t *reported);

/* A thread that gets it finds all completions that came before. */
void __wrap_context_raise(struct context *context, const struct ibv_async_event *event,
			  uint32_t *reported)
{
	early += event->event_type != IBV_EVENT_COMM_EST && !pushed;
	events++;
	at_event = rig.cq->tail - rig.cq->head;
	__real_context_raise(context, event, reported);
}

static unsigned answers;

bool __wrap_shm_answer_send(struct shm_qp *lq);
bool __wrap_shm_answer_send(struct shm_qp *lq)
{
	early += far.link->coalesced.count != 0;
	answers++;
	return true;
}

static void post(uint64_t count)
{
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->ib.lkey };

	for (uint64_t i = 0; i < count; i++)
		rig_post_receive(qp, i, &sge);
}

static void connect(struct qp *with)
{
	rig_connect(with, &(struct rig_connection){ .slot = FAR_SLOT, .qpn = FAR_QPN });
}

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	qp = rig_qp(&rig, IBV_QPT_RC);
	connect(qp);
	post(RECEIVES);
	pushed = events = early = 0;
	return 0;
}

static int setup_srq(void **state)
{
	struct ibv_srq_attr srq_attr = { .max_wr = MANY, .max_sge = 1 };
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};

	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(srq_create(rig.context, rig.pd, NULL, &srq_attr, &srq), 0);
	attr.send_cq = attr.recv_cq = &rig.cq->ib;
	attr.srq = &srq->ib;
	assert_int_equal(qp_create(rig.context, rig.pd, &attr, &shm_path, &qp), 0);
	connect(qp);
	post(MANY);
	pushed = events = early = 0;
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	if (srq)
		assert_int_equal(srq_destroy(srq), 0);
	srq = NULL;
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

/* A message of one record; returns the position after it. */
static uint64_t send_with(const struct qp *to, uint32_t kind, uint32_t flags, uint32_t msn,
			  uint16_t bytes, uint64_t taken)
{
	struct record_header header = {
		.acked = taken,
		.dst_qpn = to->ib.qp_num,
		.src_qpn = FAR_QPN,
		.msn = msn,
		.total = bytes,
		.bytes = bytes,
	};

	far_send(&far, kind, RECORD_FIRST | RECORD_LAST | flags, header, payload);
	return far.tx.tail;
}

static uint64_t send_to(const struct qp *to, uint32_t kind, uint32_t msn, uint16_t bytes)
{
	return send_with(to, kind, 0, msn, bytes, 0);
}

static uint64_t send(uint32_t kind, uint32_t msn, uint16_t bytes)
{
	return send_to(qp, kind, msn, bytes);
}

static void expect_push(unsigned n, uint32_t count, uint64_t end)
{
	assert_in_range(n, 0, pushed - 1);
	assert_int_equal(pushes[n].count, count);
	assert_int_equal(pushes[n].acked, end);
	assert_int_equal(pushes[n].executed, end);
}

static void expect(uint64_t from, uint64_t to, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	for (; from != to; from++) {
		assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, from);
		assert_int_equal(wc.status, status);
	}
}

static void expect_nak(enum nak nak)
{
	struct record_header header;

	assert_true(far_next(&far, &header));
	assert_int_equal(record_kind(&header), RECORD_NAK);
	assert_int_equal(header.imm, nak);
}

static void test_small_ones_together(void **state)
{
	uint64_t end = 0;

	for (uint32_t msn = 0; msn < 10; msn++)
		end = send(OPERATION_SEND, msn, 8);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushed, 1);
	expect_push(0, 10, end);
	expect(0, 10, IBV_WC_SUCCESS);
	assert_true(cq_is_empty(rig.cq));
}

static void test_no_more_than_a_few(void **state)
{
	uint64_t ends[MANY];

	for (uint32_t msn = 0; msn < MANY; msn++)
		ends[msn] = send(OPERATION_SEND, msn, 8);
	assert_int_equal(progress_link(far.link), 1);
	for (unsigned n = 0; n < MANY / COALESCED_MAX; n++)
		expect_push(n, COALESCED_MAX, ends[(n + 1) * COALESCED_MAX - 1]);
	expect(0, MANY, IBV_WC_SUCCESS);
}

static void test_not_behind_a_long_one(void **state)
{
	uint64_t end;

	send(OPERATION_SEND, 0, 8);
	end = send(OPERATION_SEND, 1, 8);
	send(OPERATION_SEND, 2, BYTES);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushed, 2);
	expect_push(0, 2, end);
	expect(0, 3, IBV_WC_SUCCESS);
}

/* The WRITE that is in the ring behind them is not seen before them. */
static void test_not_behind_another_kind(void **state)
{
	uint64_t end;

	qp->attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	send(OPERATION_SEND, 0, 8);
	end = send(OPERATION_SEND, 1, 8);
	send(OPERATION_WRITE, 2, 0);
	send(OPERATION_SEND, 3, 8);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushed, 2);
	expect_push(0, 2, end);
	expect_push(1, 1, far.tx.tail);
	expect(0, 3, IBV_WC_SUCCESS);
}

static void test_of_one_qp(void **state)
{
	struct qp *other = rig_qp(&rig, IBV_QPT_RC);
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->ib.lkey };
	uint64_t end;

	connect(other);
	rig_post_receive(other, 2, &sge);
	send(OPERATION_SEND, 0, 8);
	end = send(OPERATION_SEND, 1, 8);
	send_to(other, OPERATION_SEND, 0, 8);
	assert_int_equal(progress_link(far.link), 1);
	expect_push(0, 2, end);
	expect_push(1, 1, far.tx.tail);
	expect(0, 3, IBV_WC_SUCCESS);
	assert_int_equal(qp_destroy(other), 0);
}

/* What is refused is not acknowledged with them, and its NAK and its flushes are behind them. */
static void test_before_a_refused_one(void **state)
{
	uint64_t end;

	send(OPERATION_SEND, 0, 8);
	end = send(OPERATION_SEND, 1, 8);
	send(OPERATION_WRITE, 2, 8); /* no right */
	send(OPERATION_SEND, 3, 8);
	assert_int_equal(progress_link(far.link), 1);
	expect_push(0, 2, end);
	assert_false(pushes[0].nak);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	expect(0, 2, IBV_WC_SUCCESS);
	expect(2, RECEIVES, IBV_WC_WR_FLUSH_ERR);
	expect_nak(NAK_REMOTE_ACCESS);
}

static void test_before_one_that_finds_no_receive(void **state)
{
	uint64_t end = 0;

	for (uint32_t msn = 0; msn < RECEIVES; msn++)
		end = send(OPERATION_SEND, msn, 8);
	send(OPERATION_SEND, RECEIVES, 8);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushed, 1);
	expect_push(0, RECEIVES, end);
	assert_false(pushes[0].nak);
	expect(0, RECEIVES, IBV_WC_SUCCESS);
	expect_nak(NAK_RNR);
}

/* A thread that gets IBV_EVENT_QP_LAST_WQE_REACHED may destroy the QP once the CQ is empty. */
static void before_the_last_wqe_event(uint32_t kind, uint16_t bytes)
{
	send(OPERATION_SEND, 0, 8);
	send(OPERATION_SEND, 1, 8);
	send(kind, 2, bytes);
	assert_int_equal(progress_link(far.link), 1);
	assert_in_range(events, 1, 3);
	assert_int_equal(early, 0);
	assert_true(qp->last_wqe_raised);
	expect(0, 2, IBV_WC_SUCCESS);
}

static void test_before_the_last_wqe_event(void **state)
{
	before_the_last_wqe_event(OPERATION_WRITE, 8); /* no right */
}

static void test_before_the_last_wqe_event_of_a_send(void **state)
{
	struct receive receive;

	while (rq_take(qp->rq, &receive))
		rq_release(qp->rq, 1);
	post(2);
	rig_post_receive(qp, 2, NULL); /* has no room */
	before_the_last_wqe_event(OPERATION_SEND, 8);
}

/* A thread that gets IBV_EVENT_SRQ_LIMIT_REACHED posts as many again as it polls. */
static void test_before_the_limit_event(void **state)
{
	struct ibv_srq_attr attr = { .srq_limit = MANY - 5 };

	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	for (uint32_t msn = 0; msn < 12; msn++)
		send(OPERATION_SEND, msn, 8);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(srq_limit(srq), 0);
	assert_int_equal(at_event, 5);
	assert_int_equal(pushed, 6); /* once it has come they are coalesced again */
	expect(0, 12, IBV_WC_SUCCESS);
}

/* By the state of the QP, or the number of the message: see enum arrival. */
static void test_before_one_that_does_not_belong(void **state)
{
	static const struct {
		uint32_t src_qpn, msn, flags;
		enum nak nak;
	} rows[] = {
		{ FAR_QPN + 1, 2, 0, NAK_SILENCE },
		{ FAR_QPN, 7, 0, NAK_SILENCE },
		{ FAR_QPN, 2, RECORD_XRC, NAK_UNREACHABLE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct record_header header = {
			.dst_qpn = qp->ib.qp_num,
			.src_qpn = rows[i].src_qpn,
			.msn = (uint32_t)(2 * i) + rows[i].msn,
			.total = 8,
			.bytes = 8,
		};
		uint64_t end;

		pushed = 0;
		send(OPERATION_SEND, (uint32_t)(2 * i), 8);
		end = send(OPERATION_SEND, (uint32_t)(2 * i) + 1, 8);
		far_send(&far, OPERATION_SEND, RECORD_FIRST | RECORD_LAST | rows[i].flags, header,
			 payload);
		assert_int_equal(progress_link(far.link), 1);
		assert_int_equal(pushed, 1);
		expect_push(0, 2, end);
		assert_false(pushes[0].nak);
		expect_nak(rows[i].nak);
		expect(2 * i, 2 * i + 2, IBV_WC_SUCCESS);
	}
}

/* The time is that of the completion. */
static void test_timestamps_do_not_wait(void **state)
{
	rig.cq->wants_timestamp = true;
	for (uint32_t msn = 0; msn < 3; msn++)
		send(OPERATION_SEND, msn, 8);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushed, 3);
	for (unsigned n = 0; n < 3; n++)
		expect_push(n, 1, (n + 1) * RECORD_UNIT);
	expect(0, 3, IBV_WC_SUCCESS);
}

#define OWN 99 /* wr_id of a SEND of ours */

static void post_send(void)
{
	struct ibv_send_wr wr = { .wr_id = OWN, .opcode = IBV_WR_SEND };
	struct record_header header;

	rig_post_send(qp, &wr);
	assert_true(far_next(&far, &header));
}

/* A page on demand may come only once the program has what was sent before. */
static void test_not_behind_memory_on_demand(void **state)
{
	struct mr *demanded =
		rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sges[] = { { (uintptr_t)memory, 4, mr->ib.lkey },
				  { (uintptr_t)memory, 4, demanded->ib.lkey } };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECEIVES, .sg_list = sges, .num_sge = 2 };
	uint64_t end = 0;

	assert_int_equal(rq_post(qp->rq, &wr, &bad), 0);
	for (uint32_t msn = 0; msn < RECEIVES; msn++)
		end = send(OPERATION_SEND, msn, 8);
	send(OPERATION_SEND, RECEIVES, 8);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushed, 2);
	expect_push(0, RECEIVES, end);
	expect(0, RECEIVES + 1, IBV_WC_SUCCESS);
	assert_int_equal(mr_destroy(demanded), 0);
}

/* In the order of the ring; what the other end has acknowledged meanwhile comes after it. */
static void test_before_acknowledgements(void **state)
{
	post_send();
	send(OPERATION_SEND, 0, 8);
	send(OPERATION_SEND, 1, 8);
	far_acknowledge(&far);
	assert_int_equal(progress_link(far.link), 1);
	expect(0, 2, IBV_WC_SUCCESS);
	expect(OWN, OWN + 1, IBV_WC_SUCCESS);
}

static void test_before_the_acknowledgement_of_an_answer(void **state)
{
	post_send();
	send(OPERATION_SEND, 0, 8);
	send_with(qp, OPERATION_SEND, 0, 1, 8, far.rx.head);
	assert_int_equal(progress_link(far.link), 1);
	expect(0, 1, IBV_WC_SUCCESS);
	expect(OWN, OWN + 1, IBV_WC_SUCCESS);
	expect(1, 2, IBV_WC_SUCCESS);
}

static void test_before_an_answer(void **state)
{
	send(OPERATION_SEND, 0, 8);
	send(OPERATION_SEND, 1, 8);
	shm_of(qp)->response_tail++; /* of an earlier READ, which found no room */
	answers = 0;
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(answers, 2);
	assert_int_equal(early, 0);
	shm_of(qp)->response_tail--;
	expect(0, 2, IBV_WC_SUCCESS);
}

static void test_before_room_is_released(void **state)
{
	struct ibv_wc wc[COALESCED_MAX];

	for (uint32_t msn = 0; msn < 2 * RING_RELEASE_BYTES / RECORD_UNIT; msn++) {
		send(OPERATION_SEND, msn, 8);
		/* a turn begins anywhere */
		if (msn % 23 && far.tx.tail % RING_RELEASE_BYTES > 2 * RECORD_UNIT)
			continue;
		assert_int_equal(progress_link(far.link), 1);
		for (unsigned n = 1; n < pushed; n++)
			assert_true(pushes[n].released <= pushes[n - 1].acked);
		pushes[0] = pushes[pushed - 1];
		pushed = 1;
		for (int n; (n = cq_pop(rig.cq, COALESCED_MAX, wc));)
			post((uint64_t)n);
	}
	assert_true(atomic_load(&far.tx.control->head) >= RING_RELEASE_BYTES);
}

static void test_solicited(void **state)
{
	for (uint32_t msn = 0; msn < 5; msn++)
		send_with(qp, OPERATION_SEND, msn % 2 ? RECORD_SOLICITED : 0, msn, 8, 0);
	assert_int_equal(progress_link(far.link), 1);
	assert_int_equal(pushes[0].solicited, 0x0a);
}

static void test_what_may_pass(void **state)
{
	static const struct {
		uint32_t kind, flags;
		uint16_t bytes;
		bool passes;
	} rows[] = {
		{ OPERATION_SEND, RECORD_FIRST | RECORD_LAST, 8, true },
		{ OPERATION_SEND, RECORD_LAST | RECORD_IMM | RECORD_SOLICITED, 900, true },
		{ OPERATION_SEND, RECORD_UNACKED, 0, true },
		{ OPERATION_SEND, RECORD_LAST, 1000, false },
		{ OPERATION_SEND, RECORD_LAST | RECORD_INV, 8, false },
		{ OPERATION_SEND, RECORD_LAST | RECORD_BY_KEY, 64, false },
		{ OPERATION_SEND, RECORD_LAST | RECORD_XRC, 8, false },
		{ OPERATION_WRITE, RECORD_LAST, 8, false },
		{ OPERATION_READ, RECORD_LAST, 0, false },
		{ RECORD_NAK, 0, 0, false },
		{ RECORD_DATAGRAM, 0, 48, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct record_header header = {
			.word = record_word(rows[i].kind, rows[i].flags, rows[i].bytes),
			.bytes = rows[i].bytes,
		};

		assert_int_equal(shm_responder_coalesces(&header), rows[i].passes);
	}
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_SRQ(name) cmocka_unit_test_setup_teardown(name, setup_srq, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_small_ones_together),
		TEST_SRQ(test_small_ones_together),
		TEST_SRQ(test_no_more_than_a_few),
		TEST(test_not_behind_a_long_one),
		TEST(test_not_behind_memory_on_demand),
		TEST(test_not_behind_another_kind),
		TEST(test_of_one_qp),
		TEST(test_before_a_refused_one),
		TEST(test_before_one_that_finds_no_receive),
		TEST_SRQ(test_before_the_last_wqe_event),
		TEST_SRQ(test_before_the_last_wqe_event_of_a_send),
		TEST_SRQ(test_before_the_limit_event),
		TEST(test_before_one_that_does_not_belong),
		TEST(test_timestamps_do_not_wait),
		TEST(test_before_acknowledgements),
		TEST(test_before_the_acknowledgement_of_an_answer),
		TEST(test_before_an_answer),
		TEST_SRQ(test_before_room_is_released),
		TEST(test_solicited),
		cmocka_unit_test(test_what_may_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
