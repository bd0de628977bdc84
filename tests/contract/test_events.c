/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion and async events: rules 3, 4, 29, 30 and 31 of the contract. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "events.h"

static void rule_29_next_completion_makes_an_event(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	expect_no_event(pair);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
}

static void rule_29_one_event_per_arming(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	for (uint64_t i = 0; i < 5; i++)
		deliver(pair, 50 + i, SOLICITED);
	expect_event(pair, RECEIVES);
	expect_no_event(pair);
	for (uint64_t i = 0; i < 5; i++)
		expect(&pair->a, RECEIVES, 50 + i, IBV_WC_SUCCESS);
	deliver(pair, 60, SOLICITED);
	expect_no_event(pair);
	expect(&pair->a, RECEIVES, 60, IBV_WC_SUCCESS);
}

static void rule_29_arrived_before_arming(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	deliver(pair, 50, SOLICITED);
	expect_event(pair, RECEIVES); /* it has arrived, and stays in the CQ */
	arm(pair, RECEIVES, false);
	expect_no_event(pair);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
	deliver(pair, 51, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	expect(&pair->a, RECEIVES, 51, IBV_WC_SUCCESS);
}

/* As if it came after the arming; but not what the program did not look for. */
static void rule_29_arrived_after_an_empty_poll(struct pair *pair)
{
	struct ibv_wc wc;

	pair_connect(pair, WITH(.channel = true));
	REQUIRE(ibv_poll_cq(pair->a.side->cq[RECEIVES], 1, &wc) == 0, "the CQ is not empty");
	deliver(pair, 50, IBV_SEND_SIGNALED);
	arm(pair, RECEIVES, true); /* it is not solicited */
	expect_no_event(pair);
	arm(pair, RECEIVES, false);
	expect_event(pair, RECEIVES);
	arm(pair, RECEIVES, false);
	expect_no_event(pair);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
	deliver(pair, 51, SOLICITED);
	expect_event(pair, RECEIVES);
	deliver(pair, 52, SOLICITED);
	arm(pair, RECEIVES, true);
	expect_no_event(pair);
}

static void rule_29_arming_twice_is_harmless(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	arm(pair, RECEIVES, false);
	arm(pair, RECEIVES, false);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	deliver(pair, 51, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	expect_no_event(pair);
}

static void rule_29_solicited_only(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, true);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	deliver(pair, 51, IBV_SEND_SIGNALED);
	expect_no_event(pair);
	deliver(pair, 52, SOLICITED);
	expect_event(pair, RECEIVES);
	expect_no_event(pair);
	for (uint64_t i = 50; i < 53; i++)
		expect(&pair->a, RECEIVES, i, IBV_WC_SUCCESS);
}

static void rule_29_solicited_write_with_imm(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, true);
	post_receive(&pair->a, 0, RECEIVE(.wr_id = 50));
	post_receive(&pair->a, 0, RECEIVE(.wr_id = 51));
	post_send(&pair->b, 0, WRITE_IMM(&pair->a, 0, .wr_id = 1, .length = 64));
	expect(&pair->b, SENDS, 1, IBV_WC_SUCCESS);
	expect_no_event(pair);
	post_send(&pair->b, 0,
		  WRITE_IMM(&pair->a, 0, .wr_id = 2, .length = 64, .flags = SOLICITED));
	expect(&pair->b, SENDS, 2, IBV_WC_SUCCESS);
	expect_event(pair, RECEIVES);
}

static void rule_29_failure_counts_as_solicited(struct pair *pair)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, true);
	arm(pair, SENDS, true);
	post_receive(&pair->a, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 1, .length = 8));
	sleep_ms(QUIET_MS);
	expect_no_event(pair); /* a good completion of a send is not solicited */
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(end_modify(&pair->a, 0, error, IBV_QP_STATE) == 0, "ERR");
	expect_event(pair, RECEIVES);
	expect(&pair->a, RECEIVES, 50, IBV_WC_WR_FLUSH_ERR);
	post_send(&pair->a, 0, SEND(.wr_id = 2, .length = 8));
	expect_event(pair, SENDS);
	expect(&pair->a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
}

static void rule_29_any_and_solicited_is_any(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	arm(pair, RECEIVES, true);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	arm(pair, RECEIVES, true);
	arm(pair, RECEIVES, false);
	deliver(pair, 51, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	expect_no_event(pair);
}

static void rule_29_events_of_sends(struct pair *pair)
{
	pair_connect(pair, WITH(.channel = true));
	arm(pair, SENDS, false);
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 1, .length = 64, .flags = 0));
	expect_no_event(pair); /* no completion, no event */
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 2, .length = 64));
	expect_event(pair, SENDS);
	expect(&pair->a, SENDS, 2, IBV_WC_SUCCESS);
	arm(pair, SENDS, false);
	post_send(&pair->a, 0, SEND(.wr_id = 3, .length = 64));
	expect_no_event(pair);
	post_receive(&pair->b, 0, RECEIVE(.wr_id = 50, .length = 64));
	expect_event(pair, SENDS);
	expect(&pair->a, SENDS, 3, IBV_WC_SUCCESS);
}

static void rule_29_one_channel_two_cqs(struct pair *pair)
{
	struct side *side;
	struct ibv_cq *cq;
	void *context;
	int seen = 0;

	pair_connect(pair, WITH(.channel = true));
	side = pair->a.side;
	arm(pair, SENDS, false);
	arm(pair, RECEIVES, false);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	post_send(&pair->a, 0, WRITE(&pair->b, 0, .wr_id = 1, .length = 64));
	for (int i = 0; i < 2; i++) {
		REQUIRE(readable(side->channel->fd, WAIT_MS), "event %d is missing", i);
		REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == 0, "ibv_get_cq_event");
		seen |= cq == side->cq[SENDS] ? 1 : cq == side->cq[RECEIVES] ? 2 : 4;
		ibv_ack_cq_events(cq, 1);
	}
	REQUIRE(seen == 3, "not one event of each CQ");
	expect_no_event(pair);
}

struct op_later {
	unsigned int delay_ms;
	int flags;
};

/* At end b: waits, then sends; the waiting end is blocked in the kernel by then. */
static void op_send_later(struct side *side, void *argument)
{
	struct op_later *op = argument;
	struct ibv_sge sge = { (uintptr_t)side->buf, 64, side->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	sleep_ms(op->delay_ms);
	REQUIRE(ibv_post_send(side->qp[0], &wr, &bad) == 0, "ibv_post_send");
}

static uint64_t cpu_us(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* A blocked ibv_get_cq_event is woken from the other process, and costs nothing until then. */
static void rule_29_blocked_until_it_comes(struct pair *pair)
{
	struct op_later op = { .delay_ms = 500 };
	struct side *side;
	struct ibv_cq *cq;
	void *context;
	uint64_t used_us;

	pair_connect(pair, WITH(.channel = true));
	side = pair->a.side;
	post_receive(&pair->a, 0, RECEIVE(.wr_id = 50, .length = 64));
	arm(pair, RECEIVES, false);
	sleep_ms(50);
	START(&pair->b, op_send_later, &op);
	used_us = cpu_us();
	REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == 0, "ibv_get_cq_event");
	used_us = cpu_us() - used_us;
	ibv_ack_cq_events(cq, 1);
	end_finish(&pair->b);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
	REQUIRE(used_us < 25000 * (uint64_t)slowness(), "%llu us of CPU time in half a second",
		(unsigned long long)used_us);
}

static void take_sends(struct side *side)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(side->cq[SENDS], 1, &wc) == 1)
		REQUIRE(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

struct op_answer {
	int rounds;
	bool sleep_in_poll; /* poll(2) before ibv_get_cq_event */
};

/* A ping-pong in which both ends sleep between the messages, unless the other is quicker. */
static void op_answer_by_events(struct side *side, void *argument)
{
	struct op_answer *op = argument;
	struct ibv_sge sge = { (uintptr_t)side->buf, 64, side->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	for (int round = 0; round < op->rounds;) {
		REQUIRE(!op->sleep_in_poll || readable(side->channel->fd, WAIT_MS),
			"round %d: no event", round);
		REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == 0, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		REQUIRE(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		while (ibv_poll_cq(side->cq[RECEIVES], 1, &wc) == 1) {
			REQUIRE(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			REQUIRE(ibv_post_recv(side->qp[0], &recv, &bad_recv) == 0, "post_recv");
			/* the next message may come each time before this loop ends */
			take_sends(side);
			REQUIRE(ibv_post_send(side->qp[0], &wr, &bad) == 0, "post_send");
			round++;
		}
		take_sends(side);
	}
}

static void op_arm_both(struct side *side, void *argument)
{
	for (int i = 0; i < WHICH; i++)
		REQUIRE(ibv_req_notify_cq(side->cq[i], 0) == 0, "ibv_req_notify_cq");
}

static void answer_each_other(struct pair *pair, struct op_answer op)
{
	int none = 0;

	pair_connect(pair, WITH(.channel = true));
	RUN(&pair->a, op_arm_both, &none);
	RUN(&pair->b, op_arm_both, &none);
	for (int i = 0; i < 4; i++) {
		post_receive(&pair->a, 0, RECEIVE(.length = 64));
		post_receive(&pair->b, 0, RECEIVE(.length = 64));
	}
	START(&pair->b, op_answer_by_events, &op);
	post_send(&pair->a, 0, SEND(.length = 64));
	RUN(&pair->a, op_answer_by_events, &op);
	end_finish(&pair->b);
}

static void rule_29_no_event_is_lost(struct pair *pair)
{
	answer_each_other(pair, (struct op_answer){ .rounds = 2000, .sleep_in_poll = true });
}

/* Both ends sleep in ibv_get_cq_event. */
static void rule_29_no_event_is_lost_by_sleepers(struct pair *pair)
{
	answer_each_other(pair, (struct op_answer){ .rounds = 2000 });
}

/* At end b: is woken by a message, and then calls no verbs. */
static void op_receive_and_compute(struct side *side, void *argument)
{
	struct ibv_cq *cq;
	void *context;

	REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == 0, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	sleep_ms(*(unsigned int *)argument);
}

/* The sender, which sleeps, need not wait until the receiver calls a verb again. */
static void rule_29_completed_while_the_receiver_computes(struct pair *pair)
{
	unsigned int computes_ms = 2000 * (unsigned)slowness();
	uint64_t begin;
	int none = 0;

	pair_connect(pair, WITH(.channel = true));
	RUN(&pair->a, op_arm_both, &none);
	RUN(&pair->b, op_arm_both, &none);
	post_receive(&pair->b, 0, RECEIVE(.length = 64));
	START(&pair->b, op_receive_and_compute, &computes_ms);
	sleep_ms(50);
	begin = now_ms();
	post_send(&pair->a, 0, SEND(.wr_id = 7, .length = 64));
	expect_event(pair, SENDS);
	REQUIRE(now_ms() - begin < computes_ms / 2, "it did wait");
	expect(&pair->a, SENDS, 7, IBV_WC_SUCCESS);
	end_finish(&pair->b);
}

static void rule_30_level_triggered(struct pair *pair)
{
	struct epoll_event ready = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd;

	pair_connect(pair, WITH(.channel = true));
	fd = pair->a.side->channel->fd;
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ready) == 0, "epoll_ctl");
	arm(pair, RECEIVES, false);
	REQUIRE(epoll_wait(epoll, &ready, 1, QUIET_MS) == 0, "ready without an event");
	deliver(pair, 50, IBV_SEND_SIGNALED);
	REQUIRE(epoll_wait(epoll, &ready, 1, (int)WAIT_MS) == 1, "epoll saw nothing");
	for (int i = 0; i < 3; i++)
		REQUIRE(epoll_wait(epoll, &ready, 1, 0) == 1, "not level-triggered");
	REQUIRE(readable(fd, 0), "epoll and poll disagree");
	expect_event(pair, RECEIVES);
	REQUIRE(epoll_wait(epoll, &ready, 1, 0) == 0, "still ready after the event was taken");
}

static void rule_30_o_nonblock(struct pair *pair)
{
	struct side *side;
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;

	pair_connect(pair, WITH(.channel = true));
	side = pair->a.side;
	REQUIRE(fcntl(side->channel->fd, F_SETFL, fcntl(side->channel->fd, F_GETFL) | O_NONBLOCK) ==
			0,
		"fcntl");
	errno = 0;
	REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == -1 && errno == EAGAIN,
		"ibv_get_cq_event: errno %d", errno);
	arm(pair, RECEIVES, false);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	errno = 0;
	REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == -1 && errno == EAGAIN,
		"ibv_get_cq_event: errno %d", errno);

	REQUIRE(fcntl(side->context->async_fd, F_SETFL,
		      fcntl(side->context->async_fd, F_GETFL) | O_NONBLOCK) == 0,
		"fcntl");
	errno = 0;
	REQUIRE(ibv_get_async_event(side->context, &event) == -1 && errno == EAGAIN,
		"ibv_get_async_event: errno %d", errno);
	post_send(&pair->b, 0,
		  WRITE(&pair->a, 0, .wr_id = 1, .length = 8, .rkey = pair->a.rkey ^ 0x5500));
	expect(&pair->b, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	expect_async(&pair->a, 0, IBV_EVENT_QP_ACCESS_ERR);
}

static void rule_30_a_duplicate_works(struct pair *pair)
{
	int copy;

	pair_connect(pair, WITH(.channel = true));
	copy = dup(pair->a.side->channel->fd);
	arm(pair, RECEIVES, false);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	REQUIRE(readable(copy, WAIT_MS), "the duplicate is not readable");
	expect_event(pair, RECEIVES);
	REQUIRE(!readable(copy, 0), "the duplicate is still readable");
	close(copy);
}

static void rule_31_clean_run_is_silent(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	for (int i = 0; i < 20; i++)
		expect_working(pair, 0);
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 70000));
	post_send(a, 0, READ(b, 0, .wr_id = 2, .length = 70000));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	for (int qp = 0; qp < 1; qp++) {
		struct op_destroy_qp op = { .qp = qp };

		RUN(a, op_destroy_qp, &op);
		REQUIRE(op.result == 0, "ibv_destroy_qp");
	}
	expect_no_async(a);
	expect_no_async(b);
}

static void rule_31_comm_est_before_rtu(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH());
	REQUIRE(end_move(b, a, 0, IBV_QPS_INIT) == 0, "INIT");
	REQUIRE(end_move(b, a, 0, IBV_QPS_RTR) == 0, "RTR");
	end_ready(a, b, 0);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 64));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_async(b, 0, IBV_EVENT_COMM_EST);
	REQUIRE(end_move(b, a, 0, IBV_QPS_RTS) == 0, "RTS");
	post_send(a, 0, SEND(.wr_id = 2, .length = 64));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect_no_async(b);
}

/* More completions than the CQ holds: an event, and only this CQ suffers. */
static void rule_03_overrun_raises_cq_err(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_async op = { .timeout_ms = WAIT_MS };
	int capacity;

	pair_connect(pair, WITH(.cqe = 4, .qps = 2,
				.cap = { .max_send_wr = 64,
					 .max_recv_wr = 8,
					 .max_send_sge = 1,
					 .max_recv_sge = 1 }));
	capacity = a->side->cq[SENDS]->cqe;
	if (capacity > 100)
		skip_because("%d entries were granted for 4", capacity);
	for (int i = 0; i < capacity + 2; i++)
		post_send(a, i % 2, WRITE(b, 0, .wr_id = (uint64_t)i, .length = 8));
	RUN(a, op_async, &op);
	REQUIRE(op.type == IBV_EVENT_CQ_ERR && op.of_cq, "event %d", op.type);
	/* The receive CQ and the other end still work. */
	if (end_state(a, 0) == IBV_QPS_RTS) {
		post_receive(a, 0, RECEIVE(.wr_id = 50, .length = 8));
		post_send(b, 0, SEND(.wr_id = 1, .length = 8));
		expect(b, SENDS, 1, IBV_WC_SUCCESS);
		expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	}
	expect_state(b, 0, IBV_QPS_RTS);
	expect_no_async(b);
}

/* Destroying, in a thread of its own, so that the test sees whether it waits. */
struct destroyer {
	pthread_t thread;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int result;
	_Atomic bool done;
};

static void *destroy(void *argument)
{
	struct destroyer *this = argument;

	this->result = this->cq ? ibv_destroy_cq(this->cq) : ibv_destroy_qp(this->qp);
	this->done = true;
	return NULL;
}

static void start_destroy(struct destroyer *this)
{
	this->done = false;
	REQUIRE(pthread_create(&this->thread, NULL, destroy, this) == 0, "pthread_create");
}

static void finish_destroy(struct destroyer *this)
{
	uint64_t end_ms = now_ms() + WAIT_MS;

	while (!this->done && now_ms() < end_ms)
		sleep_ms(1);
	REQUIRE(this->done, "destroy does not return");
	pthread_join(this->thread, NULL);
	REQUIRE(this->result == 0, "destroy: %s", strerror(this->result));
}

static void rule_04_destroy_cq_waits_for_acks(struct pair *pair)
{
	struct destroyer destroyer = { .result = -1 };
	struct op_destroy_qp op = { .qp = 0 };
	struct side *side;
	struct ibv_cq *cq;
	void *context;

	pair_connect(pair, WITH(.channel = true));
	side = pair->a.side;
	for (uint64_t i = 0; i < 2; i++) {
		arm(pair, RECEIVES, false);
		deliver(pair, i, IBV_SEND_SIGNALED);
		REQUIRE(readable(side->channel->fd, WAIT_MS), "no event");
		REQUIRE(ibv_get_cq_event(side->channel, &cq, &context) == 0, "ibv_get_cq_event");
	}
	arm(pair, RECEIVES, false);
	deliver(pair, 9, IBV_SEND_SIGNALED); /* an event that is not fetched does not block it */
	RUN(&pair->a, op_destroy_qp, &op);
	REQUIRE(op.result == 0, "ibv_destroy_qp");
	destroyer.cq = side->cq[RECEIVES];
	start_destroy(&destroyer);
	sleep_ms(QUIET_MS);
	REQUIRE(!destroyer.done, "ibv_destroy_cq did not wait");
	ibv_ack_cq_events(side->cq[RECEIVES], 1);
	sleep_ms(QUIET_MS);
	REQUIRE(!destroyer.done, "ibv_destroy_cq did not wait for the second event");
	ibv_ack_cq_events(side->cq[RECEIVES], 1);
	finish_destroy(&destroyer);
	REQUIRE(!readable(side->channel->fd, 0), "the event outlived its CQ");
	/* The other CQ can be destroyed at any time. */
	REQUIRE(ibv_destroy_cq(side->cq[SENDS]) == 0, "ibv_destroy_cq");
	REQUIRE(ibv_destroy_comp_channel(side->channel) == 0, "ibv_destroy_comp_channel");
}

static void rule_04_destroy_qp_waits_for_acks(struct pair *pair)
{
	struct destroyer destroyer = { .result = -1 }, other = { .result = -1 };
	struct ibv_async_event event;

	pair_connect(pair, WITH(.qps = 2));
	post_send(&pair->b, 0,
		  WRITE(&pair->a, 0, .wr_id = 1, .length = 8, .rkey = pair->a.rkey ^ 0x5500));
	expect(&pair->b, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	REQUIRE(readable(pair->a.side->context->async_fd, WAIT_MS), "no async event");
	REQUIRE(ibv_get_async_event(pair->a.side->context, &event) == 0, "ibv_get_async_event");
	REQUIRE(event.element.qp == pair->a.side->qp[0], "event of another QP");
	other.qp = pair->a.side->qp[1];
	start_destroy(&other);
	finish_destroy(&other);
	destroyer.qp = pair->a.side->qp[0];
	start_destroy(&destroyer);
	sleep_ms(QUIET_MS);
	REQUIRE(!destroyer.done, "ibv_destroy_qp did not wait");
	ibv_ack_async_event(&event);
	finish_destroy(&destroyer);
}

/* An event that was not fetched goes with its object. */
static void rule_04_unfetched_event_is_dropped(struct pair *pair)
{
	struct destroyer destroyer = { .result = -1 };

	pair_connect(pair, WITH());
	post_send(&pair->b, 0,
		  WRITE(&pair->a, 0, .wr_id = 1, .length = 8, .rkey = pair->a.rkey ^ 0x5500));
	expect(&pair->b, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	REQUIRE(readable(pair->a.side->context->async_fd, WAIT_MS), "no async event");
	destroyer.qp = pair->a.side->qp[0];
	start_destroy(&destroyer);
	finish_destroy(&destroyer);
	REQUIRE(!readable(pair->a.side->context->async_fd, 0), "the event outlived its QP");
}

static const struct test tests[] = {
	PAIR(rule_03_overrun_raises_cq_err),
	PAIR(rule_04_destroy_cq_waits_for_acks),
	PAIR(rule_04_destroy_qp_waits_for_acks),
	PAIR(rule_04_unfetched_event_is_dropped),
	EVERY(rule_29_next_completion_makes_an_event),
	PAIR(rule_29_one_event_per_arming),
	PAIR(rule_29_arrived_before_arming),
	PAIR(rule_29_arrived_after_an_empty_poll),
	PAIR(rule_29_arming_twice_is_harmless),
	PAIR(rule_29_solicited_only),
	PAIR(rule_29_solicited_write_with_imm),
	PAIR(rule_29_failure_counts_as_solicited),
	PAIR(rule_29_any_and_solicited_is_any),
	PAIR(rule_29_events_of_sends),
	PAIR(rule_29_one_channel_two_cqs),
	APART(rule_29_blocked_until_it_comes),
	PAIR(rule_29_no_event_is_lost),
	PAIR(rule_29_no_event_is_lost_by_sleepers),
	APART(rule_29_completed_while_the_receiver_computes),
	PAIR(rule_30_level_triggered),
	PAIR(rule_30_o_nonblock),
	PAIR(rule_30_a_duplicate_works),
	EVERY(rule_31_clean_run_is_silent),
	PAIR(rule_31_comm_est_before_rtu),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
