/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections between RC QPs: the order and contents of events, and how connections end. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "pairs.h"

#define REASON_NO_LISTENER 8
#define REASON_CONSUMER	   28
#define REASON_ECE	   35

static enum ibv_qp_state state_of(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static struct ibv_qp_attr attributes_of(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(id->qp, &attr, -1, &init));
	return attr;
}

/* Small, so that TIMEWAIT is over soon. */
static void use_short_timewait(struct rdma_cm_id *id)
{
	uint8_t exponent = 12; /* 17 ms */

	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1));
}

/*
 * ------------------------------------------------------------------------------------------
 * How they end.
 */

static void test_disconnected_by_one_and_then_the_other(void **state)
{
	for (int passive_first = 0; passive_first < 2; passive_first++) {
		struct rdma_event_channel *first_channel, *second_channel;
		struct rdma_cm_id *first, *second;
		struct pair p;

		pair_open(&p, RDMA_PS_TCP);
		use_short_timewait(p.id);
		pair_connect(&p);
		first = passive_first ? p.child : p.id;
		second = passive_first ? p.id : p.child;
		first_channel = passive_first ? p.passive : p.active;
		second_channel = passive_first ? p.active : p.passive;
		CHECK(state_of(first) == IBV_QPS_RTS && state_of(second) == IBV_QPS_RTS);

		CHECK(!rdma_disconnect(first));
		CHECK(state_of(first) == IBV_QPS_ERR);
		expect_event(second_channel, RDMA_CM_EVENT_DISCONNECTED);
		/* The program itself moves its QP. */
		CHECK(state_of(second) == IBV_QPS_RTS);
		CHECK(!has_event(first_channel, 20));
		CHECK(!rdma_disconnect(second));
		CHECK(state_of(second) == IBV_QPS_ERR);
		expect_event(first_channel, RDMA_CM_EVENT_DISCONNECTED);
		expect_event(first_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		expect_event(second_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		/* A disconnect of a disconnected end succeeds. */
		CHECK(!rdma_disconnect(first) && !rdma_disconnect(second));
		CHECK(!has_event(first_channel, 20) && !has_event(second_channel, 0));
		pair_close(&p);
	}
}

/* Both ends disconnect at once: each gets one event. */
static void test_disconnected_by_both(void **state)
{
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	use_short_timewait(p.id);
	pair_connect(&p);
	CHECK(!rdma_disconnect(p.id) && !rdma_disconnect(p.child));
	expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED);
	expect_event(p.passive, RDMA_CM_EVENT_DISCONNECTED);
	expect_event(p.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect_event(p.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(!has_event(p.active, 20) && !has_event(p.passive, 0));
	pair_close(&p);
}

static void test_destroyed_without_a_word(void **state)
{
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p);
	rdma_destroy_qp(p.child);
	CHECK(!rdma_destroy_id(p.child));
	p.child = NULL;
	expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(p.id));
	pair_close(&p);
}

/*
 * The passive end disconnects before the active program has looked. looks_late: which looks when
 * TIMEWAIT is over; that of the active end began first.
 */
static void leave_at_once(struct pair *p, struct rdma_conn_param *param, bool looks_late)
{
	CHECK(!rdma_accept(p->child, param));
	CHECK(!rdma_disconnect(p->child));
	expect_event(p->passive, RDMA_CM_EVENT_DISCONNECTED);
	if (looks_late)
		expect_event(p->passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

/* A connection was made, and has ended, maybe with data that came before: it has not failed. */
static void test_disconnected_before_the_other_looks(void **state)
{
	for (int looks_late = 0; looks_late < 2; looks_late++) {
		struct pair p;

		pair_open(&p, RDMA_PS_TCP);
		use_short_timewait(p.id);
		pair_make_qp(p.id);
		CHECK(!rdma_connect(p.id, NULL));
		CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		pair_make_qp(p.child);
		leave_at_once(&p, NULL, looks_late);
		expect_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
		expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED);
		expect_event(p.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		CHECK(!rdma_disconnect(p.id));
		CHECK(!has_event(p.active, 20));
		pair_close(&p);
	}
}

/* The same where the program has the QP, and calls rdma_establish. */
static void test_disconnected_before_it_is_established(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };

	for (int looks_late = 0; looks_late < 2; looks_late++) {
		struct pair p;

		pair_open(&p, RDMA_PS_TCP);
		use_short_timewait(p.id);
		CHECK(!rdma_connect(p.id, &param));
		CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		leave_at_once(&p, &param, looks_late);
		expect_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
		expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED);
		CHECK(!has_event(p.active, 0));
		CHECK(!rdma_establish(p.id));
		expect_event(p.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		CHECK(fails_with(rdma_establish(p.id), EINVAL));
		pair_close(&p);
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * How they begin.
 */

static void test_calls_that_come_too_late(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p);
	CHECK(fails_with(rdma_connect(p.id, NULL), EINVAL));
	CHECK(fails_with(rdma_accept(p.child, NULL), EINVAL));
	CHECK(fails_with(rdma_reject(p.child, NULL, 0), EINVAL));
	CHECK(fails_with(rdma_establish(p.id), EINVAL));
	CHECK(fails_with(rdma_listen(p.child, 1), EINVAL));
	CHECK(fails_with(rdma_notify(p.child, IBV_EVENT_PATH_MIG), EINVAL));
	CHECK(fails_with(rdma_notify(p.child, IBV_EVENT_COMM_EST), EISCONN));
	CHECK(fails_with(rdma_accept(p.listener, &param), EINVAL));
	/* And the connection still works. */
	CHECK(state_of(p.id) == IBV_QPS_RTS && state_of(p.child) == IBV_QPS_RTS);
	CHECK(!has_event(p.active, 20) && !has_event(p.passive, 0));
	pair_close(&p);
}

static void test_refused(void **state)
{
	static const uint8_t data[149] = { 1, 2, 3 };
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_event *event;
	struct pair p;

	for (int with_ece = 0; with_ece < 2; with_ece++) {
		pair_open(&p, RDMA_PS_TCP);
		pair_make_qp(p.id);
		CHECK(!rdma_connect(p.id, NULL));
		CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		CHECK(fails_with(rdma_reject(p.child, data, 149), EINVAL));
		CHECK(fails_with(rdma_reject(p.child, NULL, 3), EINVAL));
		if (with_ece)
			CHECK(!rdma_reject_ece(p.child, data, 3));
		else
			CHECK(!rdma_reject(p.child, data, 148));
		event = await_event(p.active, RDMA_CM_EVENT_REJECTED);
		CHECK(event->status == (with_ece ? REASON_ECE : REASON_CONSUMER));
		CHECK(event->param.conn.private_data_len == 148);
		CHECK(!memcmp(event->param.conn.private_data, data, 148));
		CHECK(!rdma_ack_cm_event(event));
		CHECK(state_of(p.id) == IBV_QPS_ERR);
		CHECK(fails_with(rdma_connect(p.id, &param), EINVAL));
		pair_close(&p);
	}
	pair_open(&p, RDMA_PS_TCP);
	CHECK(!rdma_destroy_id(p.listener));
	p.listener = NULL;
	CHECK(!rdma_connect(p.id, &param));
	event = await_event(p.active, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == REASON_NO_LISTENER && !rdma_ack_cm_event(event));
	pair_close(&p);
}

static void test_private_data(void **state)
{
	uint8_t data[200];
	struct rdma_conn_param param = { .private_data = data, .qp_num = 5 };
	struct rdma_cm_event *event;
	struct pair p;

	memset(data, 0xa5, sizeof(data));
	for (int length = 0; length <= 56; length += 28) {
		pair_open(&p, RDMA_PS_TCP);
		param.private_data_len = 57;
		CHECK(fails_with(rdma_connect(p.id, &param), EINVAL));
		param.private_data_len = (uint8_t)length;
		CHECK(!rdma_connect(p.id, &param));
		event = pair_take_request(&p);
		check_data(&event->param.conn, 56, data, (size_t)length);
		CHECK(!rdma_ack_cm_event(event));
		param.private_data_len = 197;
		CHECK(fails_with(rdma_accept(p.child, &param), EINVAL));
		param.private_data_len = (uint8_t)(length * 3.5);
		CHECK(!rdma_accept(p.child, &param));
		event = await_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
		check_data(&event->param.conn, 196, data, param.private_data_len);
		CHECK(!rdma_ack_cm_event(event));
		CHECK(!rdma_establish(p.id));
		event = await_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!event->param.conn.private_data && !event->param.conn.private_data_len);
		CHECK(!rdma_ack_cm_event(event));
		pair_close(&p);
	}
}

static void test_parameters(void **state)
{
	struct rdma_conn_param param = {
		.responder_resources = 3,
		.initiator_depth = 2,
		.flow_control = 1,
		.retry_count = 5,
		.rnr_retry_count = 4,
		.srq = 1,
		.qp_num = 0x123456,
	};
	struct rdma_conn_param most = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = 15,
		.rnr_retry_count = 9,
		.qp_num = 7,
	};
	struct rdma_conn_param too_many = { .responder_resources = 200, .qp_num = 7 };
	struct ibv_device_attr device;
	struct rdma_cm_event *event;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(fails_with(rdma_connect(p.id, NULL), EINVAL)); /* which QP? */
	CHECK(fails_with(rdma_connect(p.id, &too_many), EINVAL));
	too_many = (struct rdma_conn_param){ .initiator_depth = 200 };
	CHECK(fails_with(rdma_connect(p.id, &too_many), EINVAL));
	CHECK(!rdma_connect(p.id, &param));
	event = pair_take_request(&p);
	/* The initiator depth of one end is the responder resources of the other. */
	CHECK(event->param.conn.responder_resources == 2 && event->param.conn.initiator_depth == 3);
	CHECK(event->param.conn.flow_control == 1 && event->param.conn.retry_count == 5 &&
	      event->param.conn.rnr_retry_count == 4 && event->param.conn.srq == 1 &&
	      event->param.conn.qp_num == 0x123456);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_accept(p.child, &most)); /* as much as the REQ requested */
	event = await_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(event->param.conn.responder_resources == 3 && event->param.conn.initiator_depth == 2);
	CHECK(event->param.conn.qp_num == 7 && !event->param.conn.srq);
	CHECK(!rdma_ack_cm_event(event));
	pair_close(&p);

	pair_open(&p, RDMA_PS_TCP);
	CHECK(!ibv_query_device(p.id->verbs, &device));
	CHECK(!rdma_connect(p.id, &most));
	event = pair_take_request(&p);
	CHECK(event->param.conn.responder_resources == device.max_qp_init_rd_atom &&
	      event->param.conn.initiator_depth == device.max_qp_rd_atom);
	CHECK(event->param.conn.retry_count == 7 && event->param.conn.rnr_retry_count == 7);
	CHECK(!rdma_ack_cm_event(event));
	pair_close(&p);
}

/* One more than the backlog waits until a request is fetched. */
static void test_backlog(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *narrow, *children[2], *second;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(!rdma_create_id(p.passive, &narrow, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(narrow, (struct sockaddr *)&at) && !rdma_listen(narrow, 1));
	CHECK(!rdma_create_id(p.active, &second, NULL, RDMA_PS_TCP));
	pair_route(p.active, second, narrow);
	CHECK(!rdma_destroy_id(p.id));
	CHECK(!rdma_create_id(p.active, &p.id, NULL, RDMA_PS_TCP));
	pair_route(p.active, p.id, narrow);
	CHECK(!rdma_connect(p.id, &param) && !rdma_connect(second, &param));
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_event *event;

		event = await_event(p.passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		children[i] = event->id;
		CHECK(event->listen_id == narrow && !rdma_ack_cm_event(event));
	}
	CHECK(!has_event(p.active, 0));
	for (int i = 0; i < 2; i++)
		CHECK(!rdma_destroy_id(children[i]));
	expect_event(p.active, RDMA_CM_EVENT_REJECTED);
	expect_event(p.active, RDMA_CM_EVENT_REJECTED);
	CHECK(!rdma_destroy_id(second) && !rdma_destroy_id(narrow));
	pair_close(&p);
}

/*
 * ------------------------------------------------------------------------------------------
 * QPs that the program moves itself.
 */

struct external {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void make_external(struct external *e, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 16 }, .qp_type = IBV_QPT_RC };

	e->cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	CHECK(e->cq);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = ibv_create_qp(id->pd, &init);
	CHECK(e->qp);
}

static void move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(mask & IBV_QP_STATE && attr.qp_state == state);
	CHECK(!ibv_modify_qp(qp, &attr, mask));
}

static void put_away(struct external *e)
{
	CHECK(!ibv_destroy_qp(e->qp) && !ibv_destroy_cq(e->cq));
}

/*
 * Up to the response at the active end, whose QP can send; it has not sent the RTU. The passive QP
 * stays in RTR: its program waits for the connection before it sends.
 */
static void begin_external(struct pair *p, struct external *active, struct external *passive)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	pair_open(p, RDMA_PS_TCP);
	make_external(active, p->id);
	param.qp_num = active->qp->qp_num;
	CHECK(!rdma_connect(p->id, &param));
	CHECK(!rdma_ack_cm_event(pair_take_request(p)));
	make_external(passive, p->child);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTR; s++)
		move(p->child, passive->qp, s);
	param.qp_num = passive->qp->qp_num;
	CHECK(!rdma_accept(p->child, &param));
	expect_event(p->active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		move(p->id, active->qp, s);
}

static void end_external(struct pair *p, struct external *active, struct external *passive)
{
	put_away(active);
	put_away(passive);
	pair_close(p);
}

static void test_external_qps(void **state)
{
	struct external active, passive;
	struct pair p;

	begin_external(&p, &active, &passive);
	CHECK(!has_event(p.passive, 20));
	CHECK(!rdma_establish(p.id));
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	move(p.child, passive.qp, IBV_QPS_RTS);
	/* The end that calls rdma_establish gets no event. */
	CHECK(!has_event(p.active, 20));
	CHECK(fails_with(rdma_establish(p.id), EINVAL));
	CHECK(!rdma_disconnect(p.id));
	expect_event(p.passive, RDMA_CM_EVENT_DISCONNECTED);
	end_external(&p, &active, &passive);
}

static void test_data_before_it_is_established(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_async_event async;
	struct external active, passive;
	struct pollfd pfd = { .events = POLLIN };
	struct pair p;

	begin_external(&p, &active, &passive);
	CHECK(!ibv_post_recv(passive.qp, &recv, &bad_recv));
	CHECK(!ibv_post_send(active.qp, &wr, &bad));
	pfd.fd = p.child->verbs->async_fd;
	for (int64_t end_ms = now_ms() + PATIENCE_MS; now_ms() < end_ms && !poll(&pfd, 1, 1);) {
		struct ibv_wc wc;

		ibv_poll_cq(passive.cq, 1, &wc);
	}
	CHECK(!ibv_get_async_event(p.child->verbs, &async));
	CHECK(async.event_type == IBV_EVENT_COMM_EST && async.element.qp == passive.qp);
	CHECK(!has_event(p.passive, 20));
	CHECK(!rdma_notify(p.child, async.event_type));
	ibv_ack_async_event(&async);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(fails_with(rdma_notify(p.child, IBV_EVENT_COMM_EST), EISCONN));
	CHECK(!rdma_establish(p.id));
	CHECK(!has_event(p.passive, 20));
	end_external(&p, &active, &passive);
}

/*
 * ------------------------------------------------------------------------------------------
 * What QPs are given.
 */

static void test_options_reach_the_qp(void **state)
{
	uint8_t tos = 0x68, ack_timeout = 12;
	struct ibv_qp_attr attr;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(!rdma_destroy_id(p.id));
	CHECK(!rdma_create_id(p.active, &p.id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_set_option(p.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	CHECK(!rdma_set_option(p.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout, 1));
	pair_route(p.active, p.id, p.listener);
	CHECK(p.id->route.path_rec->traffic_class == tos);
	pair_connect(&p);
	attr = attributes_of(p.id);
	CHECK(attr.ah_attr.is_global && attr.ah_attr.grh.traffic_class == tos);
	CHECK(attr.timeout == ack_timeout && attr.retry_cnt == 7 && attr.rnr_retry == 7);
	CHECK(attributes_of(p.child).timeout == ack_timeout);
	CHECK(attributes_of(p.child).ah_attr.grh.traffic_class == tos);
	CHECK(p.child->route.num_paths == 1 && p.child->route.path_rec);
	CHECK(p.child->route.path_rec->traffic_class == tos);
	CHECK(p.child->route.path_rec->mtu == p.id->route.path_rec->mtu);
	CHECK(attr.dest_qp_num == p.child->qp->qp_num);
	CHECK(attributes_of(p.child).dest_qp_num == p.id->qp->qp_num);
	pair_close(&p);
}

/* No time-out at all; the peer's is what it would have been. */
static void test_no_ack_timeout(void **state)
{
	uint8_t none = 0;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(!rdma_set_option(p.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &none, 1));
	pair_connect(&p);
	CHECK(attributes_of(p.id).timeout == 0);
	CHECK(attributes_of(p.child).timeout > 0);
	pair_close(&p);
}

/* Newer headers name FLUSH. */
enum { ACCESS_FLUSH_GLOBAL = 1 << 8 };

static void test_rights_of_qps(void **state)
{
	static const unsigned all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_connect(&p);
	CHECK(attributes_of(p.id).qp_access_flags == all);
	CHECK(attributes_of(p.child).qp_access_flags == all);
	pair_close(&p);
}

/* Both options of the end that accepts go before what the request says. */
static void test_options_of_the_passive_end(void **state)
{
	uint8_t tos = 0x28, ack_timeout = 9;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_make_qp(p.id);
	CHECK(!rdma_connect(p.id, NULL));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	CHECK(!rdma_set_option(p.child, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	CHECK(!rdma_set_option(p.child, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
			       1));
	pair_make_qp(p.child);
	CHECK(!rdma_accept(p.child, NULL));
	expect_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(attributes_of(p.child).timeout == ack_timeout);
	CHECK(attributes_of(p.child).ah_attr.grh.traffic_class == tos);
	CHECK(attributes_of(p.id).timeout != ack_timeout);
	pair_close(&p);
}

static void test_shared_receive_queue(void **state)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex init = {
		.cap = { 4, 0, 1, 0, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_cm_event *event;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	char text[64];
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_make_qp(p.id);
	CHECK(!rdma_connect(p.id, NULL));
	event = pair_take_request(&p);
	CHECK(!event->param.conn.srq && !rdma_ack_cm_event(event));
	CHECK(!rdma_create_srq(p.child, NULL, &srq) && p.child->srq && srq.attr.max_wr >= 8);
	init.send_cq = init.recv_cq = ibv_create_cq(p.child->verbs, 16, NULL, NULL, 0);
	CHECK(!rdma_create_qp_ex(p.child, &init));
	CHECK(init.srq == p.child->srq && p.child->qp->srq == p.child->srq);
	CHECK(fails_with(rdma_create_qp_ex(p.child, &init), EINVAL)); /* there is one */
	mr = rdma_reg_msgs(p.child, text, sizeof(text));
	CHECK(mr);
	CHECK(!rdma_post_recv(p.child, text, text, sizeof(text), mr));
	CHECK(!rdma_accept(p.child, NULL));
	event = await_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->param.conn.srq && event->param.conn.qp_num == p.child->qp->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_post_send(p.id, NULL, "shared", 7, NULL, IBV_SEND_INLINE));
	while (!ibv_poll_cq(init.recv_cq, 1, &wc))
		;
	CHECK(!wc.status && wc.wr_id == (uintptr_t)text && !strcmp(text, "shared"));
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_qp(p.child);
	rdma_destroy_srq(p.child);
	CHECK(!p.child->qp && !p.child->srq);
	CHECK(!ibv_destroy_cq(init.send_cq));
	pair_close(&p);
}

/* A program that asks for less and less gets what there is: no CQ of a failed call is left. */
static void test_smaller_qp(void **state)
{
	struct ibv_qp_init_attr_ex init = {
		.cap = { 4, 4, 1 << 20, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(fails_with(rdma_create_qp_ex(p.id, &init), EINVAL));
	CHECK(!init.send_cq && !init.recv_cq && !p.id->send_cq && !p.id->recv_cq);
	init.cap.max_send_sge = 1;
	CHECK(!rdma_create_qp_ex(p.id, &init) && init.send_cq && init.send_cq == p.id->send_cq);
	rdma_destroy_qp(p.id);
	pair_close(&p);
}

/* The helpers of rdma/rdma_verbs.h, each of which works on what rdma_create_qp made. */
static void test_helpers(void **state)
{
	static char source[4096], target[4096], message[64];
	struct ibv_mr *local, *remote, *received;
	struct ibv_sge pieces[2];
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	pair_make_qp(p.id);
	CHECK(p.id->send_cq && p.id->recv_cq && p.id->send_cq_channel && p.id->recv_cq_channel);
	CHECK(!rdma_connect(p.id, NULL));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	pair_make_qp(p.child);
	received = rdma_reg_msgs(p.child, message, sizeof(message));
	CHECK(received && !rdma_post_recv(p.child, message, message, sizeof(message), received));
	CHECK(!rdma_accept(p.child, NULL));
	expect_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);

	memset(source, 'x', sizeof(source));
	local = rdma_reg_msgs(p.id, source, sizeof(source));
	remote = rdma_reg_write(p.child, target, sizeof(target));
	CHECK(local && remote);
	CHECK(!rdma_post_write(p.id, source, source, 4096, local, 0, (uintptr_t)target,
			       remote->rkey));
	CHECK(rdma_get_send_comp(p.id, &wc) == 1 && !wc.status && wc.opcode == IBV_WC_RDMA_WRITE);
	CHECK(target[0] == 'x' && target[4095] == 'x' && !rdma_dereg_mr(remote));
	remote = rdma_reg_read(p.child, target, sizeof(target));
	CHECK(remote);
	memset(target, 'y', sizeof(target));
	CHECK(!rdma_post_read(p.id, source, source, 100, local, 0, (uintptr_t)target,
			      remote->rkey));
	CHECK(rdma_get_send_comp(p.id, &wc) == 1 && !wc.status && wc.opcode == IBV_WC_RDMA_READ);
	CHECK(source[99] == 'y' && source[100] == 'x');
	pieces[0] = (struct ibv_sge){ (uintptr_t)source, 4, local->lkey };
	pieces[1] = (struct ibv_sge){ (uintptr_t)source + 100, 4, local->lkey };
	CHECK(!rdma_post_sendv(p.id, pieces, pieces, 2, 0));
	CHECK(rdma_get_recv_comp(p.child, &wc) == 1 && wc.byte_len == 8);
	CHECK(!memcmp(message, "yyyyxxxx", 8));
	CHECK(rdma_get_send_comp(p.id, &wc) == 1 && wc.wr_id == (uintptr_t)pieces);
	CHECK(!rdma_dereg_mr(local) && !rdma_dereg_mr(remote) && !rdma_dereg_mr(received));
	pair_close(&p);
}

static void test_ece(void **state)
{
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 0x80000001 }, got;
	struct rdma_conn_param param = { .qp_num = 5 };
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(fails_with(rdma_set_local_ece(p.id, NULL), EINVAL));
	ece.comp_mask = 1;
	CHECK(fails_with(rdma_set_local_ece(p.id, &ece), EINVAL));
	ece.comp_mask = 0;
	CHECK(!rdma_set_local_ece(p.id, &ece));
	CHECK(!rdma_connect(p.id, &param));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	CHECK(!rdma_get_remote_ece(p.child, &got));
	CHECK(got.vendor_id == 0x15b3 && got.options == 0x80000001 && !got.comp_mask);
	ece.options = 3;
	CHECK(!rdma_set_local_ece(p.child, &ece) && !rdma_accept(p.child, &param));
	expect_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(!rdma_get_remote_ece(p.id, &got) && got.options == 3);
	pair_make_qp(p.id);
	CHECK(fails_with(rdma_get_remote_ece(p.id, &got), EINVAL));
	CHECK(fails_with(rdma_set_local_ece(p.id, &ece), EINVAL));
	pair_close(&p);
}

/* A port space of its own, for any type of QP. */
static void test_port_space_ib(void **state)
{
	struct rdma_cm_event *event;
	struct pair p;

	pair_open(&p, RDMA_PS_IB);
	CHECK(p.id->qp_type == IBV_QPT_RC);
	pair_connect(&p);
	CHECK(!rdma_disconnect(p.id));
	event = await_event(p.passive, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(event->id == p.child && !rdma_ack_cm_event(event));
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disconnected_by_one_and_then_the_other),
		cmocka_unit_test(test_disconnected_by_both),
		cmocka_unit_test(test_destroyed_without_a_word),
		cmocka_unit_test(test_disconnected_before_the_other_looks),
		cmocka_unit_test(test_disconnected_before_it_is_established),
		cmocka_unit_test(test_calls_that_come_too_late),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_private_data),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_external_qps),
		cmocka_unit_test(test_data_before_it_is_established),
		cmocka_unit_test(test_options_reach_the_qp),
		cmocka_unit_test(test_no_ack_timeout),
		cmocka_unit_test(test_rights_of_qps),
		cmocka_unit_test(test_options_of_the_passive_end),
		cmocka_unit_test(test_shared_receive_queue),
		cmocka_unit_test(test_smaller_qp),
		cmocka_unit_test(test_helpers),
		cmocka_unit_test(test_ece),
		cmocka_unit_test(test_port_space_ib),
	};

	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
