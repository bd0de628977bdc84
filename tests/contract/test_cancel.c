/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are cancelled: a verb that does not wait is no cancellation point, as with adapters.
 * Programs cancel the thread that polls a CQ (rping), which must not keep locks.
 *
 * A thread with a pending cancellation calls each verb: at a cancellation point the thread would
 * end.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"

struct call {
	struct pair *pair;
	const char *what;
	void (*body)(struct pair *pair);
	bool done;
};

static void *run(void *arg)
{
	struct call *call = arg;

	pthread_cancel(pthread_self());
	call->body(call->pair);
	call->done = true;
	pthread_testcancel();
	return NULL;
}

static void call_cancelled(struct pair *pair, const char *what, void (*body)(struct pair *pair))
{
	struct call call = { pair, what, body, false };
	pthread_t thread;
	void *result;

	REQUIRE(pthread_create(&thread, NULL, run, &call) == 0, "pthread_create");
	pthread_join(thread, &result);
	REQUIRE(result == PTHREAD_CANCELED, "%s: the cancellation was lost", what);
	REQUIRE(call.done, "%s is a cancellation point", what);
}

#define CANCELLED(pair, body) call_cancelled(pair, #body, body)

/*
 * ------------------------------------------------------------------------------------------
 * What is called at end a, which lives here.
 */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static struct ibv_mw *mw;
static char buffer[1 << 16];

static void open_device(struct pair *pair)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	REQUIRE(context, "ibv_open_device: %s", strerror(errno));
}

static void query(struct pair *pair)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;

	REQUIRE(ibv_query_device(context, &device) == 0, "ibv_query_device");
	REQUIRE(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
	REQUIRE(ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
}

static void create_objects(struct pair *pair)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	REQUIRE((pd = ibv_alloc_pd(context)), "ibv_alloc_pd");
	REQUIRE((channel = ibv_create_comp_channel(context)), "ibv_create_comp_channel");
	REQUIRE((cq = ibv_create_cq(context, 16, NULL, channel, 0)), "ibv_create_cq");
	REQUIRE(ibv_resize_cq(cq, 32) == 0, "ibv_resize_cq");
	REQUIRE((srq = ibv_create_srq(pd, &srq_init)), "ibv_create_srq");
	init.send_cq = init.recv_cq = cq;
	init.srq = srq;
	REQUIRE((qp = ibv_create_qp(pd, &init)), "ibv_create_qp: %s", strerror(errno));
	REQUIRE((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)), "ibv_alloc_mw");
}

static void register_memory(struct pair *pair)
{
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), ACCESS_ALL);
	REQUIRE(mr, "ibv_reg_mr: %s", strerror(errno));
	REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == 0,
		"ibv_rereg_mr");
}

static void create_address(struct pair *pair)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	REQUIRE(ibv_query_gid(context, 1, 0, &attr.grh.dgid) == 0, "ibv_query_gid");
	REQUIRE((ah = ibv_create_ah(pd, &attr)), "ibv_create_ah: %s", strerror(errno));
}

/* A refusal, whose cause is printed (VERBATIM_EXPLAIN). */
static void be_refused(struct pair *pair)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0, "RESET to RTS was allowed");
}

static void destroy_objects(struct pair *pair)
{
	REQUIRE(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
	REQUIRE(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	REQUIRE(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	REQUIRE(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	REQUIRE(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
	REQUIRE(ibv_destroy_comp_channel(channel) == 0, "ibv_destroy_comp_channel");
	REQUIRE(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
	REQUIRE(ibv_close_device(context) == 0, "ibv_close_device");
}

static void objects_come_and_go(struct pair *pair)
{
	CANCELLED(pair, open_device);
	CANCELLED(pair, query);
	CANCELLED(pair, create_objects);
	CANCELLED(pair, register_memory);
	CANCELLED(pair, create_address);
	CANCELLED(pair, be_refused);
	CANCELLED(pair, destroy_objects);
}

/* ------------------------------------------------------------------------------------------ */

static enum ibv_qp_state target;

static void move(struct pair *pair)
{
	int error = end_move(&pair->a, &pair->b, 0, target);

	REQUIRE(error == 0, "to state %d: %s", target, strerror(error));
}

static void move_cancelled(struct pair *pair, enum ibv_qp_state to)
{
	char what[40];

	snprintf(what, sizeof(what), "ibv_modify_qp to state %d", to);
	target = to;
	call_cancelled(pair, what, move);
}

static void arm(struct pair *pair)
{
	REQUIRE(ibv_req_notify_cq(pair->a.side->cq[SENDS], 0) == 0, "ibv_req_notify_cq");
}

static void receive(struct pair *pair)
{
	post_receive(&pair->a, 0, RECEIVE(.wr_id = 2, .length = 4096));
}

static void request(struct pair *pair)
{
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = 64));
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = 100000));
	post_send(&pair->a, 0, WRITE(&pair->b, 200000, .wr_id = 1, .length = 100000));
	post_send(&pair->a, 0, READ(&pair->b, 0, .wr_id = 1, .length = 100000));
	post_send(&pair->a, 0, FETCH_ADD(&pair->b, 8, .wr_id = 1));
}

/* Not by op_poll, which sleeps. */
static void poll_until(struct pair *pair, enum which which, int count)
{
	uint64_t end = now_ms() + WAIT_MS;
	struct ibv_wc wc;

	while (count) {
		int got = ibv_poll_cq(pair->a.side->cq[which], 1, &wc);

		REQUIRE(got >= 0 && (!got || wc.status == IBV_WC_SUCCESS), "%d, %s", got,
			ibv_wc_status_str(wc.status));
		count -= got;
		REQUIRE(now_ms() < end, "%d completions did not come", count);
		sched_yield();
	}
}

static void poll_sends(struct pair *pair)
{
	poll_until(pair, SENDS, 5);
}

static void poll_send(struct pair *pair)
{
	poll_until(pair, SENDS, 1);
}

static void poll_receives(struct pair *pair)
{
	poll_until(pair, RECEIVES, 1);
}

static void poll_in_vain(struct pair *pair)
{
	struct ibv_wc wc;

	for (int i = 0; i < 10000; i++)
		REQUIRE(ibv_poll_cq(pair->a.side->cq[SENDS], 1, &wc) == 0, "a completion");
}

static void messages_go_and_come(struct pair *pair)
{
	pair_make(pair, WITH(.channel = true));
	move_cancelled(pair, IBV_QPS_INIT);
	move_cancelled(pair, IBV_QPS_RTR);
	move_cancelled(pair, IBV_QPS_RTS);
	end_ready(&pair->b, &pair->a, 0);
	for (int i = 0; i < 20; i++) {
		for (uint64_t n = 0; n < 2; n++)
			post_receive(&pair->b, 0, RECEIVE(.wr_id = n, .length = 200000));
		CANCELLED(pair, arm);
		CANCELLED(pair, receive);
		CANCELLED(pair, request);
		CANCELLED(pair, poll_sends);
		expect(&pair->b, RECEIVES, 0, IBV_WC_SUCCESS);
		expect(&pair->b, RECEIVES, 1, IBV_WC_SUCCESS);
		post_send(&pair->b, 0, SEND(.wr_id = 3, .length = 4096));
		CANCELLED(pair, poll_receives);
		expect(&pair->b, SENDS, 3, IBV_WC_SUCCESS);
	}
	CANCELLED(pair, poll_in_vain);
	expect_working(pair, 0);
	move_cancelled(pair, IBV_QPS_ERR);
}

static void request_datagram(struct pair *pair)
{
	post_send(&pair->a, 0, DATAGRAM(&pair->b, .wr_id = 1, .length = 64));
}

static void datagrams_go(struct pair *pair)
{
	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	for (int i = 0; i < 20; i++) {
		post_receive(&pair->b, 0, RECEIVE(.wr_id = 2, .length = 4096));
		CANCELLED(pair, request_datagram);
		CANCELLED(pair, poll_send);
		expect(&pair->b, RECEIVES, 2, IBV_WC_SUCCESS);
		sleep_ms(150 * (i == 0)); /* until an address is looked up again */
	}
}

/* ------------------------------------------------------------------------------------------ */

static struct ibv_mw *window;

static void bind_window(struct pair *pair)
{
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = pair->a.side->mr,
			       .addr = pair->a.addr,
			       .length = 1 << 19,
			       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};

	REQUIRE(ibv_bind_mw(pair->a.side->qp[0], window, &bind) == 0, "ibv_bind_mw");
}

/* Memory that b writes to often migrates, and comes back when its last key ends. */
static void windows_come_and_go(struct pair *pair)
{
	pair_connect(pair, WITH(.access = ACCESS_ALL | IBV_ACCESS_MW_BIND));
	window = ibv_alloc_mw(pair->a.side->pd, IBV_MW_TYPE_1);
	REQUIRE(window, "ibv_alloc_mw: %s", strerror(errno));
	for (int i = 0; i < 10; i++) {
		CANCELLED(pair, bind_window);
		CANCELLED(pair, poll_send);
		for (uint64_t n = 0; n < 8; n++) {
			post_send(&pair->b, 0,
				  WRITE(&pair->a, 0, .rkey = window->rkey, .length = 1 << 19));
			expect(&pair->b, SENDS, 0, IBV_WC_SUCCESS);
		}
	}
	ibv_dealloc_mw(window);
}

/* ------------------------------------------------------------------------------------------ */

static void request_of_nobody(struct pair *pair)
{
	int error = try_send(&pair->a, 0, SEND(.wr_id = 1, .length = 64));

	REQUIRE(error == 0, "ibv_post_send: %s", strerror(error));
}

static void poll_failure(struct pair *pair)
{
	uint64_t end = now_ms() + WAIT_MS;
	struct ibv_wc wc = { 0 };

	while (!ibv_poll_cq(pair->a.side->cq[SENDS], 1, &wc)) {
		REQUIRE(now_ms() < end, "no completion");
		sched_yield();
	}
	REQUIRE(wc.status == IBV_WC_RETRY_EXC_ERR, "%s", ibv_wc_status_str(wc.status));
}

static void requests_to_nobody_fail(struct pair *pair)
{
	pair_make(pair, WITH(.timeout = 8, .retry_cnt = 1));
	pair->b.qpn[0] ^= 0x5000; /* no QP's */
	end_ready(&pair->a, &pair->b, 0);
	sleep_ms(1100); /* until addresses are looked up again */
	CANCELLED(pair, request_of_nobody);
	CANCELLED(pair, poll_failure);
}

/* A thread that posts and polls is cancelled at any time, and leaves no lock taken. */
static void *post_and_poll(void *arg)
{
	struct pair *pair = arg;
	struct ibv_sge sge = { pair->a.addr, 64, pair->a.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { pair->b.addr, pair->b.rkey } },
			   *bad;
	struct ibv_wc wc;

	for (;;) {
		pthread_testcancel();
		ibv_post_send(pair->a.side->qp[0], &wr, &bad);
		ibv_poll_cq(pair->a.side->cq[SENDS], 1, &wc);
	}
	return NULL;
}

static void nothing_stays_locked(struct pair *pair)
{
	struct op_poll left = { .which = SENDS };

	pair_connect(pair, WITH());
	for (unsigned i = 0; i < 100; i++) {
		struct timespec t = { 0, i * 7919 % 2000 * 1000 };
		pthread_t thread;

		REQUIRE(pthread_create(&thread, NULL, post_and_poll, pair) == 0, "pthread_create");
		nanosleep(&t, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	do {
		left.timeout_ms = 100;
		RUN(&pair->a, op_poll, &left);
	} while (left.result > 0);
	expect_working(pair, 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		HERE(objects_come_and_go),
		PAIR(messages_go_and_come),
		PAIR(datagrams_go),
		PAIR(windows_come_and_go),
		PAIR(requests_to_nobody_fail),
		PAIR(nothing_stays_locked),
	};

	setenv("VERBATIM_EXPLAIN", "/dev/null", 1);
	return RUN_TESTS(tests, argc, argv);
}
