/* SPDX-License-Identifier: BSD-2-Clause */
/* Receivers that are not ready, peers that do not answer, and what is sent again: rule 21. */
#include <signal.h>
#include <unistd.h>

#include "expect.h"

#define LENGTH 4096u

/*
 * timeout 12: 4.096 us * 2^12 = 16.8 ms for each of the tries; an adapter may take four times that.
 */
#define SHORT .timeout = 12, .retry_cnt = 2

static void rule_21_rnr_retry_finite(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.rnr_retry = 2, .qps = 3));
	for (int qp = 0; qp < 3; qp++) {
		struct request request = SEND(.wr_id = 1, .length = LENGTH);

		if (qp == 1)
			request = WRITE_IMM(b, 0, .wr_id = 1, .length = LENGTH);
		if (qp == 2)
			request = SEND(.wr_id = 1); /* no payload needs a receive too */
		post_send(a, qp, request);
		post_send(a, qp, SEND(.wr_id = 2, .length = 8));
		expect(a, SENDS, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
		expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
		expect_state(b, qp, IBV_QPS_RTS);
	}
	expect_no_async(a);
	expect_no_async(b);
}

/* min_rnr_timer 22 is 20.48 ms; three retries cannot fail before three of them have passed. */
static void rule_21_rnr_timer_is_respected(struct pair *pair)
{
	uint64_t start_ms, took_ms;

	pair_connect(pair, WITH(.rnr_retry = 3, .min_rnr_timer = 22));
	start_ms = now_ms();
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = 8));
	expect(&pair->a, SENDS, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	took_ms = now_ms() - start_ms;
	REQUIRE(took_ms >= 60, "failed after %llu ms; 61 ms are the least",
		(unsigned long long)took_ms);
}

static void rule_21_rnr_retry_zero_fails_at_once(struct pair *pair)
{
	uint64_t quickest_ms = UINT64_MAX;

	/* One that waits for a processor may be slow; if all wait for the timer, none is quick. */
	pair_connect(pair, WITH(.rnr_retry = 0, .min_rnr_timer = 0 /* 655 ms */, .qps = 4));
	for (int qp = 0; qp < 4; qp++) {
		uint64_t start_ms = now_ms(), took_ms;

		post_send(&pair->a, qp, SEND(.wr_id = 1, .length = 8));
		expect(&pair->a, SENDS, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		took_ms = now_ms() - start_ms;
		if (took_ms < quickest_ms)
			quickest_ms = took_ms;
	}
	REQUIRE(quickest_ms < (uint64_t)(500 * slowness()), "the quickest took %llu ms",
		(unsigned long long)quickest_ms);
}

static void rule_21_rnr_retry_for_ever(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.rnr_retry = 7));
	fill(a, 0, LENGTH, 1);
	for (uint64_t i = 1; i <= 5; i++)
		post_send(a, 0, SEND(.wr_id = i, .length = LENGTH));
	expect_none(a, SENDS);
	sleep_ms(200);
	expect_none(a, SENDS);
	expect_state(a, 0, IBV_QPS_RTS);
	for (uint64_t i = 1; i <= 5; i++) {
		post_receive(b, 0, RECEIVE(.wr_id = 50 + i, .length = LENGTH));
		expect(a, SENDS, i, IBV_WC_SUCCESS);
		expect(b, RECEIVES, 50 + i, IBV_WC_SUCCESS);
	}
	expect_bytes(b, 0, LENGTH, 1);
	expect_no_async(a);
	expect_no_async(b);
}

/* A receive that comes late, but within the retries. */
static void rule_21_rnr_then_ready(struct pair *pair)
{
	pair_connect(pair, WITH(.rnr_retry = 6, .min_rnr_timer = 0 /* 655 ms */));
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = LENGTH));
	sleep_ms(20);
	post_receive(&pair->b, 0, RECEIVE(.wr_id = 50, .length = LENGTH));
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	expect(&pair->b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_working(pair, 0);
}

/* One-sided requests need no receive, but wait for the SEND before them. */
static void rule_21_rnr_keeps_order(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.rnr_retry = 7));
	poke(a, 64, 0x77);
	poke(b, 128, 0);
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	post_send(a, 0, WRITE(b, 128, .wr_id = 2, .offset = 64, .length = 8));
	post_send(a, 0, READ(b, 128, .wr_id = 3, .offset = 256, .length = 8));
	/* without the fence it may be executed before the READ reads (IBA 10.8.3.3) */
	post_send(a, 0,
		  FETCH_ADD(b, 128, .wr_id = 4, .offset = 264, .compare_add = 1,
			    .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE));
	expect_none(a, SENDS);
	REQUIRE(peek(b, 128) == 0, "a WRITE overtook the SEND before it");
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	for (uint64_t i = 1; i <= 4; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	REQUIRE(peek(b, 128) == 0x78, "0x%llx", (unsigned long long)peek(b, 128));
	REQUIRE(peek(a, 256) == 0x77 && peek(a, 264) == 0x77, "read the wrong values");
}

static const enum ibv_wr_opcode all_opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };

/* QPs 0..3 of a, each with another opcode, do not reach their peer. */
static void expect_no_answer(struct pair *pair)
{
	for (int qp = 0; qp < 4; qp++) {
		post_send(&pair->a, qp,
			  REQUEST(.wr_id = 1, .opcode = all_opcodes[qp], TO(&pair->b, 0),
				  .length = 8));
		post_send(&pair->a, qp, SEND(.wr_id = 2, .length = 8));
	}
	for (int qp = 0; qp < 4; qp++) {
		struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };

		for (int i = 0; i < 2; i++) {
			RUN(&pair->a, op_poll, &op);
			REQUIRE(op.result == 1, "no completion");
			REQUIRE(op.wc.status == (op.wc.wr_id == 1 ? IBV_WC_RETRY_EXC_ERR
								  : IBV_WC_WR_FLUSH_ERR),
				"request %llu: %s", (unsigned long long)op.wc.wr_id,
				ibv_wc_status_str(op.wc.status));
		}
	}
	for (int qp = 0; qp < 4; qp++)
		expect_state(&pair->a, qp, IBV_QPS_ERR);
	expect_none(&pair->a, SENDS);
	expect_no_async(&pair->a);
}

/* Does not check the shortest time: an end that knows the peer's state may fail at once. */
static void peer_in_state(struct pair *pair, enum ibv_qp_state state)
{
	pair_make(pair, WITH(SHORT, .qps = 4));
	for (int qp = 0; qp < 4; qp++) {
		end_ready(&pair->a, &pair->b, qp);
		if (state == IBV_QPS_ERR)
			end_ready(&pair->b, &pair->a, qp);
		if (state != IBV_QPS_RESET)
			REQUIRE(end_move(&pair->b, &pair->a, qp, state) == 0, "modify failed");
	}
	fill(&pair->b, 0, LENGTH, 0);
	expect_no_answer(pair);
	expect_bytes(&pair->b, 0, LENGTH, 0);
}

static void rule_21_peer_in_reset(struct pair *pair)
{
	peer_in_state(pair, IBV_QPS_RESET);
}

static void rule_21_peer_in_init(struct pair *pair)
{
	peer_in_state(pair, IBV_QPS_INIT);
}

static void rule_21_peer_in_error(struct pair *pair)
{
	peer_in_state(pair, IBV_QPS_ERR);
}

static void rule_21_peer_in_rtr_answers(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH());
	end_ready(a, b, 0);
	REQUIRE(end_move(b, a, 0, IBV_QPS_INIT) == 0, "INIT");
	REQUIRE(end_move(b, a, 0, IBV_QPS_RTR) == 0, "RTR");
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	post_send(a, 0, READ(b, 0, .wr_id = 2, .length = 8));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
}

/* A peer that becomes ready while the requester still retries. */
static void rule_21_peer_ready_in_time(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH());
	end_ready(a, b, 0);
	REQUIRE(end_move(b, a, 0, IBV_QPS_INIT) == 0, "INIT");
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	sleep_ms(50);
	REQUIRE(end_move(b, a, 0, IBV_QPS_RTR) == 0, "RTR");
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_none(b, RECEIVES);
}

static void rule_21_timeout_zero_waits_for_ever(struct pair *pair)
{
	pair_make(pair, WITH(.timeout = 0, .retry_cnt = 0));
	end_ready(&pair->a, &pair->b, 0);
	REQUIRE(end_move(&pair->b, &pair->a, 0, IBV_QPS_INIT) == 0, "INIT");
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = 8));
	sleep_ms(300);
	expect_none(&pair->a, SENDS);
	expect_state(&pair->a, 0, IBV_QPS_RTS);
}

static void rule_21_peer_destroyed(struct pair *pair)
{
	pair_connect(pair, WITH(SHORT, .qps = 4));
	for (int qp = 0; qp < 4; qp++) {
		struct op_destroy_qp op = { .qp = qp };

		RUN(&pair->b, op_destroy_qp, &op);
		REQUIRE(op.result == 0, "ibv_destroy_qp: %s", strerror(op.result));
	}
	expect_no_answer(pair);
}

/* A QP accepts only messages of its peer, where the sender is known. */
static void rule_21_peer_connected_elsewhere(struct pair *pair)
{
	struct end elsewhere;

	pair_make(pair, WITH(SHORT, .qps = 8));
	elsewhere = pair->a;
	for (int qp = 0; qp < 4; qp++) {
		elsewhere.qpn[qp] = pair->a.qpn[qp + 4];
		end_ready(&pair->a, &pair->b, qp);
		end_ready(&pair->b, &elsewhere, qp);
		post_receive(&pair->b, qp, RECEIVE(.wr_id = 50, .length = 8));
	}
	fill(&pair->b, 0, LENGTH, 0);
	expect_no_answer(pair);
	if (over_wire())
		return; /* packets do not name their source QP: b accepts those that fit */
	expect_none(&pair->b, RECEIVES);
	expect_bytes(&pair->b, 0, LENGTH, 0);
}

/*
 * A process that is killed: what is under way and what is posted later fails within 100 ms of its
 * death. On a busy machine it may take longer; what is looked at is that it takes less than the
 * time-outs, 8 times 1.07 s (tests/integration/test_death.py has the 100 ms). Over a wire only the
 * time-outs show it.
 */
static void rule_21_peer_killed(struct pair *pair)
{
	struct end *a = &pair->a;
	uint64_t soon_ms = over_wire() ? 1000 * (uint64_t)patience() : 4000;
	uint64_t start_ms, took_ms;

	pair_connect(pair, WITH(.timeout = over_wire() ? 10 : 18, .retry_cnt = 7, .qps = 3));
	post_receive(a, 0, RECEIVE(.wr_id = 60, .length = 8));
	for (uint64_t i = 1; i <= 4; i++)
		post_send(a, 0, SEND(.wr_id = i, .length = LENGTH)); /* no receive there */
	expect_none(a, SENDS);
	end_kill(&pair->b, SIGKILL);
	start_ms = now_ms();
	expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
	took_ms = now_ms() - start_ms;
	for (uint64_t i = 2; i <= 4; i++)
		expect(a, SENDS, i, IBV_WC_WR_FLUSH_ERR);
	expect(a, RECEIVES, 60, IBV_WC_WR_FLUSH_ERR);
	expect_state(a, 0, IBV_QPS_ERR);
	REQUIRE(took_ms < soon_ms, "it took %llu ms", (unsigned long long)took_ms);

	/*
	 * Idle QPs fail when they are used, as on adapters; or they are in ERR already, since the
	 * peer's death is known.
	 */
	start_ms = now_ms();
	post_send(a, 1, WRITE(&pair->b, 0, .wr_id = 5, .length = LENGTH));
	post_send(a, 2, READ(&pair->b, 0, .wr_id = 6, .length = LENGTH));
	for (int i = 0; i < 2; i++) {
		struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };

		RUN(a, op_poll, &op);
		REQUIRE(op.result == 1 && (op.wc.status == IBV_WC_RETRY_EXC_ERR ||
					   op.wc.status == IBV_WC_WR_FLUSH_ERR),
			"%s", ibv_wc_status_str(op.wc.status));
	}
	expect_state(a, 1, IBV_QPS_ERR);
	expect_state(a, 2, IBV_QPS_ERR);
	took_ms = now_ms() - start_ms;
	REQUIRE(took_ms < (over_wire() ? 2 * soon_ms : soon_ms), "it took %llu ms",
		(unsigned long long)took_ms);
}

/* Killed in the middle of long one-sided requests: each succeeds or fails, in order. */
static void rule_21_peer_killed_during_write(struct pair *pair)
{
	struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };
	bool failed = false;

	pair_connect(pair, WITH(.timeout = over_wire() ? 10 : 18, .size = 32 << 20, .qps = 1));
	for (uint64_t i = 0; i < 20; i++)
		post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = i, .length = 32 << 20));
	end_kill(&pair->b, SIGKILL);
	for (uint64_t i = 0; i < 20; i++) {
		enum ibv_wc_status status;

		RUN(&pair->a, op_poll, &op);
		REQUIRE(op.result == 1, "completion %llu is missing", (unsigned long long)i);
		REQUIRE(op.wc.wr_id == i, "completion of request %llu, expected %llu",
			(unsigned long long)op.wc.wr_id, (unsigned long long)i);
		status = op.wc.status;
		REQUIRE(failed ? status == IBV_WC_WR_FLUSH_ERR
			       : status == IBV_WC_SUCCESS || status == IBV_WC_RETRY_EXC_ERR,
			"request %llu: %s", (unsigned long long)i, ibv_wc_status_str(status));
		failed = failed || status != IBV_WC_SUCCESS;
	}
	REQUIRE(failed, "640 MiB were written to a process that had been killed");
}

/*
 * The ends have different first PSNs: no packet has the responder's expected PSN, neither the first
 * time nor when it is repeated.
 */
static void rule_21_psn_mismatch_is_not_success(struct pair *pair)
{
	static const int offsets[] = { -1, -300, 455, 455 };
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH(SHORT, .qps = 4));
	fill(b, 0, LENGTH, 0);
	for (int qp = 0; qp < 4; qp++) {
		struct op_move op = { .qp = qp,
				      .to = IBV_QPS_RTR,
				      .qpn = a->qpn[qp],
				      .gid = a->gid,
				      .lid = a->lid,
				      .psn_offset = offsets[qp] };

		end_ready(a, b, qp);
		REQUIRE(end_move(b, a, qp, IBV_QPS_INIT) == 0, "INIT");
		RUN(b, op_move, &op);
		REQUIRE(op.result == 0, "RTR: %s", strerror(op.result));
		post_receive(b, qp, RECEIVE(.wr_id = 50, .length = LENGTH));
		post_send(a, qp,
			  qp == 3 ? WRITE_IMM(b, 0, .wr_id = 1, .length = 8)
				  : SEND(.wr_id = 1, .length = 8));
		post_send(a, qp, SEND(.wr_id = 2, .length = 8));
		expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
		expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
	}
	expect_none(b, RECEIVES);
	expect_bytes(b, 0, LENGTH, 0);
}

/*
 * The responder fails in the middle of a long message. Each QP of b fails a little later than the
 * last one; a message that was complete by then succeeds at both ends, no other does.
 */
static void rule_21_responder_leaves_in_the_middle(struct pair *pair)
{
	enum { LONG = 8 << 20 };
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	pair_connect(pair, WITH(SHORT, .qps = 8, .size = LONG));
	for (int qp = 0; qp < 8; qp++) {
		struct op_poll sent = { .which = SENDS, .timeout_ms = WAIT_MS };
		struct op_poll received = { .which = RECEIVES, .timeout_ms = WAIT_MS };

		post_receive(b, qp, RECEIVE(.wr_id = 50, .length = LONG));
		post_send(a, qp, SEND(.wr_id = 1, .length = LONG));
		usleep((useconds_t)qp * 100);
		REQUIRE(end_modify(b, qp, error, IBV_QP_STATE) == 0, "ERR");
		RUN(b, op_poll, &received);
		REQUIRE(received.result == 1 && received.wc.wr_id == 50, "the receive is missing");
		RUN(a, op_poll, &sent);
		REQUIRE(sent.result == 1 && sent.wc.wr_id == 1, "the SEND is missing");
		REQUIRE(sent.wc.status == IBV_WC_RETRY_EXC_ERR ||
				(sent.wc.status == IBV_WC_SUCCESS &&
				 received.wc.status == IBV_WC_SUCCESS),
			"QP %d: the SEND's completion says %s, the receive's %s", qp,
			ibv_wc_status_str(sent.wc.status), ibv_wc_status_str(received.wc.status));
	}
}

/* A window is bound behind a SEND that is sent again: the bind is executed once. */
static void rule_08_bind_after_a_retry(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_sge sge;
	struct ibv_send_wr bind = { .wr_id = 2,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr send = { .wr_id = 1,
				    .next = &bind,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_mw *mw;

	pair_connect(pair, WITH(.rnr_retry = 7));
	mw = ibv_alloc_mw(a->side->pd, IBV_MW_TYPE_2);
	if (!mw)
		skip_because("ibv_alloc_mw: %s", strerror(errno));
	add_region(a, (struct op_region){ .length = LENGTH,
					  .access = ACCESS_ALL | IBV_ACCESS_MW_BIND });
	sge = (struct ibv_sge){ a->addr, 8, a->lkey };
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info =
		(struct ibv_mw_bind_info){ .mr = a->side->region[0],
					   .addr = a->addr,
					   .length = 64,
					   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	REQUIRE(ibv_post_send(a->side->qp[0], &send, &bad) == 0, "ibv_post_send");
	expect_none(a, SENDS);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_none(a, SENDS);
	fill(b, 64, 64, 3);
	post_send(b, 0,
		  REQUEST(.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .offset = 64, .length = 64,
			  .remote = a->addr, .rkey = bind.bind_mw.rkey));
	expect(b, SENDS, 3, IBV_WC_SUCCESS);
	expect_bytes(a, 0, 64, 3);
}

static const struct test tests[] = {
	PAIR(rule_21_rnr_retry_finite),
	PAIR(rule_21_rnr_timer_is_respected),
	PAIR(rule_21_rnr_retry_zero_fails_at_once),
	EVERY(rule_21_rnr_retry_for_ever),
	PAIR(rule_21_rnr_then_ready),
	EVERY(rule_21_rnr_keeps_order),
	PAIR(rule_21_peer_in_reset),
	PAIR(rule_21_peer_in_init),
	PAIR(rule_21_peer_in_error),
	PAIR(rule_21_peer_in_rtr_answers),
	PAIR(rule_21_peer_ready_in_time),
	PAIR(rule_21_timeout_zero_waits_for_ever),
	PAIR(rule_21_peer_destroyed),
	PAIR(rule_21_peer_connected_elsewhere),
	PAIR(rule_21_psn_mismatch_is_not_success),
	PAIR(rule_21_responder_leaves_in_the_middle),
	PAIR(rule_08_bind_after_a_retry),
	APART(rule_21_peer_killed),
	APART(rule_21_peer_killed_during_write),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
