/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's packets, one by one: no owed packet is lost between threads, no request is
 * acknowledged too early, and PSNs and MSNs are those that other implementations expect.
 */
#include "pair.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 65536
#define PSN   0xfffffe
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

enum {
	SEND_ONLY = 0x04,
	WRITE_FIRST = 0x06,
	WRITE_ONLY = 0x0a,
	READ_REQUEST = 0x0c,
	READ_RESPONSE_ONLY = 0x10,
	ACKNOWLEDGE = 0x11,
};

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.min_rnr_timer = 12,
							.psn = PSN });
	return 0;
}

/* The n-th PSN of the connection from a to b. */
static psn_t psn(uint32_t n)
{
	return psn_of(PSN + n);
}

static void post(struct qp *qp, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)here + 32768, bytes, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)there + 32768, .rkey = there_mr->ib.rkey },
	};

	rig_post_send(qp, &wr);
}

/* As if a had sent it: 4 bytes each, but for a WRITE's first packet. */
static void inject(uint8_t opcode, uint32_t n, bool ack_req)
{
	uint32_t bytes = opcode == WRITE_FIRST ? 1024 : opcode == WRITE_ONLY ? 4 : 0;
	struct packet packet = {
		.opcode = opcode,
		.psn = psn(n),
		.ack_req = ack_req,
		.va = (uintptr_t)there,
		.rkey = there_mr->ib.rkey,
		.length = opcode == WRITE_FIRST ? 2048 : 4,
		.payload_bytes = bytes,
	};

	rig_inject(a, &packet, here);
}

static void step(unsigned count)
{
	while (count--)
		assert_true(rig_step());
}

static bool lose_all(struct rig_packet *packet, struct packet *decoded)
{
	return false;
}

static void lose_what_waits(void)
{
	rig_on_packet = lose_all;
	while (rig_step())
		;
	rig_on_packet = NULL;
}

static void run(void)
{
	rig_run(rig_now_ns + 100 * MS);
}

static void expect(uint64_t wr_id)
{
	struct ibv_wc wc = rig_completion(&rig);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/*
 * rxe completes a READ, without data, by an acknowledgement with its PSN, if its response was lost.
 */
static void test_never_acknowledges_a_read(void **state)
{
	rig_post_receive(b, 9, NULL);
	post(a, IBV_WR_SEND, 0, 1);
	post(a, IBV_WR_RDMA_READ, 100, 2);
	step(2);
	roce_flush();
	assert_in_range(rig_waiting(), 1, 2);
	assert_int_equal(rig_peek(0).opcode, READ_RESPONSE_ONLY);
	for (uint32_t i = 0; i < rig_waiting(); i++)
		assert_true(rig_peek(i).opcode == READ_RESPONSE_ONLY ||
			    psn_equal(rig_peek(i).psn, psn(0)));

	lose_what_waits();
	inject(SEND_ONLY, 0, true); /* the requester begins again */
	step(1);
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	assert_int_equal(rig_peek(0).psn.number, psn(0).number);
	run();
	expect(9);
	expect(1);
	expect(2);
}

static bool lose_first_response(struct rig_packet *packet, struct packet *decoded)
{
	return decoded->opcode != READ_RESPONSE_ONLY || !psn_equal(decoded->psn, psn(0));
}

/* MSNs never decrease, also with repeated responses before waiting ones. */
static void test_message_numbers(void **state)
{
	uint32_t last = 0;

	rig_post_receive(b, 9, NULL);
	for (uint64_t i = 0; i < 3; i++)
		post(a, IBV_WR_RDMA_READ, 4, i);
	post(a, IBV_WR_SEND, 0, 3);
	rig_full_after = 1;
	step(4);
	roce_flush(); /* one response leaves */
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).msn, 1);
	inject(READ_REQUEST, 0, true);
	rig_on_packet = lose_first_response;
	step(2);
	rig_on_packet = NULL;
	rig_full_after = UINT32_MAX;
	roce_flush();
	/* the first once more, two others, an acknowledgement */
	assert_int_equal(rig_waiting(), 4);
	assert_int_equal(rig_peek(0).psn.number, psn(0).number);
	for (uint32_t i = 0; i < rig_waiting(); i++) {
		assert_in_range(rig_peek(i).msn, last, i + 1);
		last = rig_peek(i).msn;
	}
	assert_int_equal(last, 4);
	run();
	expect(9);
	for (uint64_t i = 0; i < 4; i++)
		expect(i);
}

/* As if a had asked for so many packets. */
static void ask(uint32_t n, uint32_t packets)
{
	rig_inject(a,
		   &(struct packet){ .opcode = READ_REQUEST,
				     .psn = psn(n),
				     .va = (uintptr_t)there,
				     .rkey = there_mr->ib.rkey,
				     .length = packets * 1024 },
		   NULL);
	step(1);
}

/*
 * Half of a response is lost, and the requester repeats the READ: the other half, which waits, is
 * sent once, and the requester may send the next READ as soon as it has that.
 */
static void test_repetition_takes_what_was_left(void **state)
{
	rig_full_after = 2;
	ask(0, 4);
	for (uint32_t n = 4; n < 7; n++)
		ask(n, 1);
	roce_flush();
	assert_int_equal(rig_waiting(), 2);
	lose_what_waits();
	rig_full_after = 4;
	ask(0, 4);
	roce_flush();
	assert_int_equal(rig_waiting(), 4);
	lose_what_waits();
	ask(7, 1); /* four are outstanding, as was agreed on */
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
	rig_full_after = UINT32_MAX;
	roce_flush();
	assert_int_equal(rig_waiting(), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(rig_peek(i).psn.number, psn(4 + i).number);
		assert_int_equal(rig_peek(i).msn, 2 + i);
	}
	lose_what_waits();
}

/*
 * A packet that closes a gap makes the NAK unnecessary, but not its acknowledgement, which is also
 * that of the packet behind the gap.
 */
static void test_gap_that_closes(void **state)
{
	inject(WRITE_ONLY, 0, true);
	inject(WRITE_ONLY, 2, false);
	inject(WRITE_ONLY, 1, false);
	step(3);
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	assert_int_equal(rig_peek(0).syndrome, 31);
	assert_int_equal(rig_peek(0).psn.number, psn(2).number);
}

static void expect_nak(uint32_t n)
{
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	assert_int_equal(rig_peek(0).syndrome, PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE);
	assert_int_equal(rig_peek(0).psn.number, psn(n).number);
	lose_what_waits();
}

/* What fills a gap that a NAK has told of uncovers another one: its NAK waits for no flush. */
static void test_gap_behind_a_repair(void **state)
{
	inject(WRITE_ONLY, 0, false);
	inject(WRITE_ONLY, 2, false);
	inject(WRITE_ONLY, 4, false);
	step(3);
	assert_int_equal(rig_waiting(), 0);
	roce_flush();
	expect_nak(1);
	inject(WRITE_ONLY, 1, true);
	step(1);
	expect_nak(3);
	roce_flush();
	assert_int_equal(rig_waiting(), 0);
}

/* Packets that only overtook one another: no NAK leaves for either gap. */
static void test_gaps_that_close(void **state)
{
	inject(WRITE_ONLY, 0, false);
	inject(WRITE_ONLY, 2, false);
	inject(WRITE_ONLY, 4, false);
	inject(WRITE_ONLY, 1, true);
	step(4);
	assert_int_equal(rig_waiting(), 0);
	inject(WRITE_ONLY, 3, false);
	step(1);
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).syndrome, 31);
	assert_int_equal(rig_peek(0).psn.number, psn(4).number);
}

/*
 * Another thread posts while the packets of a WRITE are collected: no acknowledgement overtakes
 * them.
 */
static void test_acknowledges_what_is_there(void **state)
{
	bool acknowledged = false;

	inject(WRITE_FIRST, 0, true);
	assert_true(rig_step_more());
	post(b, IBV_WR_RDMA_WRITE, 8, 1);
	for (uint32_t i = 0; i < rig_waiting(); i++)
		acknowledged |= rig_peek(i).opcode == ACKNOWLEDGE;
	assert_true(acknowledged);
	assert_memory_equal(there, here, 1024);
	run();
	expect(1);
}

/* From its begin to its end, in a thread of its own. */
static void in_a_thread(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, body, arg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *take_one(void *arg)
{
	rig_step();
	return arg;
}

/* A thread takes a packet, and ends before it acknowledges it. */
static void take_in_a_thread_that_is_gone(void)
{
	in_a_thread(take_one, NULL);
}

static void test_thread_that_does_not_acknowledge(void **state)
{
	inject(WRITE_ONLY, 0, true);
	take_in_a_thread_that_is_gone();
	inject(WRITE_ONLY, 1, true);
	step(1);
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	assert_int_equal(rig_peek(0).psn.number, psn(1).number);
}

static void test_thread_that_does_not_go_back(void **state)
{
	struct packet nak = { .opcode = ACKNOWLEDGE, .psn = psn(0), .syndrome = 0x60 };

	post(a, IBV_WR_RDMA_WRITE, 8, 1);
	lose_what_waits();
	rig_inject(b, &nak, NULL);
	take_in_a_thread_that_is_gone();
	assert_int_equal(rig_waiting(), 0);
	run();
	expect(1);
}

/* Reserved codes. */
static void test_reserved_syndromes(void **state)
{
	static const uint8_t syndromes[] = { 0x40, 0x5f, 0x80, 0x9f, 0xa0, 0xe0, 0xff };

	post(a, IBV_WR_RDMA_WRITE, 8, 1);
	lose_what_waits();
	for (unsigned i = 0; i < sizeof(syndromes); i++) {
		struct packet answer = { .opcode = ACKNOWLEDGE,
					 .psn = psn(0),
					 .syndrome = syndromes[i] };

		rig_inject(b, &answer, NULL);
		step(1);
		roce_flush();
		assert_true(rig_is_quiet(&rig));
		assert_int_equal(rig_waiting(), 0);
	}
	run();
	expect(1);
}

/*
 * The program has its message and ends the QP, while the acknowledgement waits for its next step.
 */
static void test_acknowledges_before_an_end(void **state)
{
	static const enum ibv_qp_state ends[] = { IBV_QPS_ERR, IBV_QPS_RESET };

	for (unsigned i = 0; i < 2; i++) {
		post(a, IBV_WR_RDMA_WRITE, 8, 1);
		step(1);
		assert_int_equal(rig_waiting(), 0);
		rig_modify(b, ends[i]);
		assert_int_equal(rig_waiting(), 1);
		step(1);
		expect(1);
		if (!i) {
			pair_teardown(state);
			setup(state);
		}
	}
}

static void setup_sleeper_with(enum ibv_mtu mtu)
{
	pair_regions(here, there, BYTES, ACCESS);
	rig_add_channel(&rig);
	rig_buffer_bytes = 8 << 20;
	pair_connect(IBV_QPT_RC, &(struct rig_options){
					 .mtu = mtu, .access = ACCESS, .timeout = 14, .psn = PSN });
}

static int setup_sleeper(void **state)
{
	setup_sleeper_with(IBV_MTU_1024);
	for (uint64_t i = 0; i < 8; i++) {
		rig_post_receive(a, 100 + i, NULL);
		rig_post_receive(b, 200 + i, NULL);
	}
	return 0;
}

static void *take_one_and_flush(void *arg)
{
	rig_step();
	roce_flush();
	return arg;
}

/* Another thread takes a packet and acknowledges it. */
static void take_beside(void)
{
	in_a_thread(take_one_and_flush, NULL);
}

/*
 * A program that sleeps gets the event of a message when the acknowledgement in the same GSO batch
 * was handled.
 */
static void test_tells_of_all_of_a_batch(void **state)
{
	post(a, IBV_WR_SEND, 0, 1);
	step(1);
	expect(200);
	post(b, IBV_WR_SEND_WITH_IMM, 0, 2);
	assert_int_equal(rig_waiting(), 2);
	assert_int_equal(rig_calls, 2);
	cq_arm(rig.cq, false);
	assert_true(rig_step_more());
	assert_false(rig_has_event(&rig));
	step(1);
	assert_true(rig_has_event(&rig));
	expect(100);
	expect(1);
	run();
	expect(2);
	lock_acquire(&a->lock); /* no thread holds it */
	lock_release(&a->lock);
}

/* What follows in the datagram is for another QP, or no packet at all. */
static void test_tells_before_it_takes_another(void **state)
{
	struct qp *c = rig_qp(&rig, IBV_QPT_RC), *d = rig_qp(&rig, IBV_QPT_RC);

	rig_connect(c, d, &(struct rig_options){ .timeout = 14 });
	post(a, IBV_WR_SEND, 0, 1);
	post(c, IBV_WR_SEND, 0, 2);
	rig_post_receive(d, 300, NULL);
	cq_arm(rig.cq, false);
	assert_true(rig_step_more());
	assert_false(rig_has_event(&rig));
	assert_true(rig_step_more());
	assert_true(rig_has_event(&rig));
	cq_arm(rig.cq, false);
	expect(200);
	expect(300);
	run();
	expect(1);
	expect(2);
	assert_int_equal(qp_destroy(c), 0);
	assert_int_equal(qp_destroy(d), 0);
}

/*
 * The thread that took a message acknowledges it by itself, which may be late: the answer repeats
 * the acknowledgement at the end of its GSO batch. Not for a program that polls.
 */
static void test_acknowledges_with_the_answer(void **state)
{
	bool sleeps = rig.channel;

	if (!sleeps) {
		rig_post_receive(a, 100, NULL);
		rig_post_receive(b, 200, NULL);
	}
	post(a, IBV_WR_SEND, 0, 1);
	take_beside();
	expect(200);
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	lose_what_waits();

	post(b, IBV_WR_SEND_WITH_IMM, 0, 2);
	assert_int_equal(rig_waiting(), sleeps ? 2 : 1);
	if (!sleeps) {
		run();
		return;
	}
	assert_int_equal(rig_peek(1).opcode, ACKNOWLEDGE);
	assert_int_equal(rig_peek(1).psn.number, psn(0).number);
	step(2);
	expect(100);
	expect(1);
	post(b, IBV_WR_SEND_WITH_IMM, 0, 3); /* once is enough */
	assert_int_equal(rig_waiting(), 1);
	run();
	expect(101);
	expect(2);
	expect(3);
}

static void *end_b(void *arg)
{
	rig_modify(b, IBV_QPS_ERR);
	return arg;
}

static void end_meanwhile(void)
{
	in_a_thread(end_b, NULL);
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	assert_int_equal(rig_peek(0).psn.number, psn(0).number);
}

/* The acknowledging thread's packet is late: the QP repeats it before it ends. */
static void test_acknowledges_anew_before_the_end(void **state)
{
	if (!rig.channel) {
		rig_post_receive(a, 100, NULL);
		rig_post_receive(b, 200, NULL);
	}
	post(a, IBV_WR_SEND, 0, 1);
	rig_before_send = end_meanwhile;
	take_beside();
	expect(200);
	assert_int_equal(rig_waiting(), 2);
	lose_what_waits();
}

/* The acknowledgement was sent: a repetition might reach a QP that is gone. */
static void test_acknowledges_once_before_the_end(void **state)
{
	if (!rig.channel) {
		rig_post_receive(a, 100, NULL);
		rig_post_receive(b, 200, NULL);
	}
	post(a, IBV_WR_SEND, 0, 1);
	take_beside();
	expect(200);
	rig_modify(b, IBV_QPS_ERR);
	assert_int_equal(rig_waiting(), 1);
	lose_what_waits();
}

static uint32_t count_waiting(uint8_t opcode)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < rig_waiting(); i++)
		count += rig_peek(i).opcode == opcode;
	return count;
}

static void *post_beside(void *arg)
{
	post(b, *(enum ibv_wr_opcode *)arg, 0, 9);
	return arg;
}

static void post_in_a_thread(enum ibv_wr_opcode opcode)
{
	in_a_thread(post_beside, &opcode);
}

/* Threads that take turns send no more acknowledgements than messages came. */
static void test_says_it_once_more_and_not_forever(void **state)
{
	post(a, IBV_WR_SEND, 0, 1);
	take_beside();
	expect(200);
	assert_int_equal(count_waiting(ACKNOWLEDGE), 1);
	post(b, IBV_WR_SEND, 0, 2); /* the acknowledgement goes before it */
	assert_int_equal(count_waiting(ACKNOWLEDGE), 2);
	for (uint64_t i = 3; i < 6; i++) {
		post_in_a_thread(IBV_WR_SEND);
		post(b, IBV_WR_SEND, 0, i);
	}
	assert_int_equal(count_waiting(ACKNOWLEDGE), 2);
	run();
}

/* Another thread's request has carried the acknowledgement, before the answer. */
static void test_says_once_more_what_left_with_another(void **state)
{
	post(a, IBV_WR_SEND, 0, 1);
	step(1);
	expect(200);
	post_in_a_thread(IBV_WR_SEND_WITH_IMM);
	assert_int_equal(count_waiting(ACKNOWLEDGE), 1);
	post(b, IBV_WR_SEND_WITH_IMM, 0, 2);
	assert_int_equal(count_waiting(ACKNOWLEDGE), 2);
	post(b, IBV_WR_SEND_WITH_IMM, 0, 3);
	assert_int_equal(count_waiting(ACKNOWLEDGE), 2);
	run();
}

/* Two messages in two GSO batches: the first may raise an event alone. */
static void test_acknowledges_ahead_of_two_answers(void **state)
{
	struct ibv_sge sges[] = { { (uintptr_t)here, 100, here_mr->ib.lkey },
				  { (uintptr_t)here, 1000, here_mr->ib.lkey } };
	struct ibv_send_wr wr[] = {
		{ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sges[0], .num_sge = 1 },
		{ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sges[1], .num_sge = 1 },
	};

	for (unsigned i = 0; i < 2; i++) {
		wr[i].wr.rdma.remote_addr = (uintptr_t)there;
		wr[i].wr.rdma.rkey = there_mr->ib.rkey;
	}
	post(a, IBV_WR_SEND, 0, 1);
	step(1);
	expect(200);
	lock_acquire(&b->lock);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sq_push(&b->sq, &wr[i]), 0);
	b->path->issue(b);
	lock_release(&b->lock);
	assert_int_equal(rig_waiting(), 3);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	run();
	expect(1);
	expect(2);
	expect(3);
}

/*
 * With 4096 bytes of payload 15 packets fill a GSO batch as far as packets of their size go. A
 * shorter one still has room there, and ends it.
 */
static void test_acknowledges_within_the_last_batch(void **state)
{
	static const struct {
		uint32_t bytes, packets;
		bool ahead;
	} answers[] = {
		{ 61440, 15, false },
		{ 61440 + 3000, 16, true },
		{ 61440 + 4096, 16, false },
	};

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_sge sge = { (uintptr_t)here, answers[i].bytes, 0 };
		struct ibv_sge room = { (uintptr_t)there, BYTES, 0 };
		struct ibv_send_wr wr = {
			.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
		};
		uint32_t at = answers[i].ahead ? 0 : answers[i].packets;

		pair_teardown(state);
		setup_sleeper_with(IBV_MTU_4096);
		sge.lkey = here_mr->ib.lkey;
		room.lkey = there_mr->ib.lkey;
		/* until the window has room for the answer */
		for (unsigned warm = 0; warm < 8; warm++) {
			post(b, IBV_WR_RDMA_WRITE, 32768, warm);
			run();
			expect(warm);
		}
		rig_post_receive(a, 100, &room);
		rig_post_receive(b, 200, NULL);
		post(a, IBV_WR_SEND, 0, 1);
		step(1);
		expect(200);
		rig_post_send(b, &wr);
		assert_int_equal(rig_waiting(), answers[i].packets + 1);
		assert_int_equal(rig_peek(at).opcode, ACKNOWLEDGE);
		run();
	}
}

/* Each packet is a datagram. */
static void test_acknowledges_ahead_without_gso(void **state)
{
	rig_without_gso = true;
	post(a, IBV_WR_SEND, 0, 1);
	step(1);
	expect(200);
	post(b, IBV_WR_SEND_WITH_IMM, 0, 2);
	assert_int_equal(rig_waiting(), 2);
	assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
	run();
}

/*
 * The socket is full for the acknowledgement, then takes the answer: the acknowledgement is still
 * sent.
 */
static void test_acknowledges_later_if_it_has_to(void **state)
{
	post(a, IBV_WR_SEND, 0, 1);
	step(1);
	expect(200);
	rig_full_after = 0;
	post(b, IBV_WR_SEND, 0, 2);
	assert_int_equal(rig_waiting(), 0);
	rig_full_after = UINT32_MAX;
	run();
	expect(1);
	expect(100);
	expect(2);
}

/* A message that is shorter than an acknowledgement, which would begin a datagram of its own. */
static void test_acknowledges_ahead_of_the_answer(void **state)
{
	for (unsigned beside = 0; beside < 2; beside++) {
		post(a, IBV_WR_SEND, 0, 1);
		if (beside) {
			take_beside();
			lose_what_waits();
		} else {
			step(1);
		}
		expect(200 + beside);
		post(b, IBV_WR_SEND, 0, 2);
		assert_int_equal(rig_waiting(), 2);
		assert_int_equal(rig_peek(0).opcode, ACKNOWLEDGE);
		assert_int_equal(rig_peek(0).psn.number, psn(beside).number);
		assert_int_equal(rig_peek(1).opcode, SEND_ONLY);
		run();
		expect(1);
		expect(100 + beside);
		expect(2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(never_acknowledges_a_read),
		TEST(message_numbers),
		TEST(repetition_takes_what_was_left),
		TEST(gap_that_closes),
		TEST(gap_behind_a_repair),
		TEST(gaps_that_close),
		TEST(acknowledges_what_is_there),
		TEST(thread_that_does_not_acknowledge),
		TEST(thread_that_does_not_go_back),
		TEST(reserved_syndromes),
		TEST(acknowledges_before_an_end),
		TEST(acknowledges_anew_before_the_end),
		TEST(acknowledges_once_before_the_end),
		TEST(acknowledges_with_the_answer),
#define SLEEPER(name) cmocka_unit_test_setup_teardown(test_##name, setup_sleeper, pair_teardown)
		SLEEPER(tells_of_all_of_a_batch),
		SLEEPER(tells_before_it_takes_another),
		SLEEPER(acknowledges_anew_before_the_end),
		SLEEPER(acknowledges_once_before_the_end),
		SLEEPER(acknowledges_with_the_answer),
		SLEEPER(says_it_once_more_and_not_forever),
		SLEEPER(says_once_more_what_left_with_another),
		SLEEPER(acknowledges_ahead_of_two_answers),
		SLEEPER(acknowledges_within_the_last_batch),
		SLEEPER(acknowledges_ahead_without_gso),
		SLEEPER(acknowledges_later_if_it_has_to),
		SLEEPER(acknowledges_ahead_of_the_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
