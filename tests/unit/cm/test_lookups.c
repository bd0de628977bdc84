/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: lookups of UD QPs (SIDR), and multicast groups. */
#include "harness.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

#include "pairs.h"

#define SIDR_REJECTED	 2
#define SIDR_NO_LISTENER 1
#define GROUP		 0xef010203 /* 239.1.2.3 */
#define GRH_BYTES	 40

static void test_looked_up(void **state)
{
	static const enum rdma_port_space spaces[] = { RDMA_PS_UDP, RDMA_PS_IPOIB };
	uint8_t data[200];
	struct rdma_conn_param param = { .private_data = data };
	struct rdma_cm_event *event;
	struct rdma_ud_param *ud;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char got[GRH_BYTES + 8];
	struct pair p;

	memset(data, 0x5a, sizeof(data));
	for (size_t i = 0; i < 2; i++) {
		pair_open(&p, spaces[i]);
		CHECK(p.id->qp_type == IBV_QPT_UD);
		pair_make_qp(p.id); /* and it is ready to send */
		param.private_data_len = 181;
		CHECK(fails_with(rdma_connect(p.id, &param), EINVAL));
		param.private_data_len = 180;
		CHECK(!rdma_connect(p.id, &param));
		event = pair_take_request(&p);
		ud = &event->param.ud;
		CHECK(ud->private_data_len == 180 && !memcmp(ud->private_data, data, 180));
		CHECK(!rdma_ack_cm_event(event));
		pair_make_qp(p.child);
		mr = rdma_reg_msgs(p.child, got, sizeof(got));
		CHECK(mr && !rdma_post_recv(p.child, NULL, got, sizeof(got), mr));
		param.private_data_len = 137;
		CHECK(fails_with(rdma_accept(p.child, &param), EINVAL));
		param.private_data_len = 7;
		CHECK(!rdma_accept(p.child, &param));
		event = await_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
		ud = &event->param.ud;
		CHECK(ud->qp_num == p.child->qp->qp_num && ud->qkey == RDMA_UDP_QKEY);
		CHECK(ud->private_data_len == 136 && !memcmp(ud->private_data, data, 7) &&
		      !((const uint8_t *)ud->private_data)[7]);
		CHECK(ud->ah_attr.port_num == p.id->port_num);
		/* The passive end gets no event; its parameters are used. */
		CHECK(!has_event(p.passive, 20));
		ah = ibv_create_ah(p.id->pd, &ud->ah_attr);
		CHECK(ah);
		CHECK(!rdma_post_ud_send(p.id, NULL, data, 8, NULL, IBV_SEND_INLINE, ah,
					 ud->qp_num));
		CHECK(rdma_get_recv_comp(p.child, &wc) == 1 && wc.byte_len == GRH_BYTES + 8);
		CHECK(!memcmp(got + GRH_BYTES, data, 8));
		CHECK(!ibv_destroy_ah(ah) && !rdma_ack_cm_event(event) && !rdma_dereg_mr(mr));
		pair_close(&p);
	}
}

static void test_lookups_refused(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_event *event;
	struct pair p;

	pair_open(&p, RDMA_PS_UDP);
	CHECK(!rdma_connect(p.id, &param));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	CHECK(!rdma_reject(p.child, "no", 3));
	event = await_event(p.active, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(event->status == SIDR_REJECTED && event->param.ud.private_data_len == 136 &&
	      !strcmp(event->param.ud.private_data, "no"));
	CHECK(!rdma_ack_cm_event(event));
	pair_close(&p);

	pair_open(&p, RDMA_PS_UDP);
	CHECK(!rdma_destroy_id(p.listener));
	p.listener = NULL;
	CHECK(!rdma_connect(p.id, &param));
	event = await_event(p.active, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(event->status == SIDR_NO_LISTENER && !rdma_ack_cm_event(event));
	pair_close(&p);

	/* Ended before it was answered. */
	pair_open(&p, RDMA_PS_UDP);
	CHECK(!rdma_connect(p.id, &param));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	CHECK(!rdma_destroy_id(p.child));
	p.child = NULL;
	expect_event(p.active, RDMA_CM_EVENT_UNREACHABLE);
	pair_close(&p);
}

/* In RDMA_PS_IB the type of QP decides; the two do not meet. */
static void test_datagrams_of_port_space_ib(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE,
				       .ai_qp_type = IBV_QPT_UD,
				       .ai_port_space = RDMA_PS_IB },
			     *res;
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener, *connected, *datagram, *child;
	struct rdma_cm_event *event;
	char port[8];

	CHECK(!rdma_getaddrinfo("127.0.0.1", "0", &hints, &res));
	CHECK(!rdma_create_ep(&listener, res, NULL, NULL));
	rdma_freeaddrinfo(res);
	CHECK(!rdma_migrate_id(listener, channel) && !rdma_listen(listener, 1));
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	hints.ai_flags = 0;
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	CHECK(!rdma_create_ep(&datagram, res, NULL, NULL));
	rdma_freeaddrinfo(res);
	CHECK(!rdma_migrate_id(datagram, channel));
	CHECK(!rdma_create_id(channel, &connected, NULL, RDMA_PS_IB));
	pair_route(channel, connected, listener);

	CHECK(!rdma_connect(connected, &param));
	event = await_event(channel, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 8 && !rdma_ack_cm_event(event));
	CHECK(!rdma_connect(datagram, &param));
	event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	CHECK(child->qp_type == IBV_QPT_UD && !rdma_ack_cm_event(event));
	CHECK(!rdma_accept(child, &param));
	event = await_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == datagram && event->param.ud.qp_num == 5 && !rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(listener));
	CHECK(!rdma_destroy_id(connected) && !rdma_destroy_id(datagram));
	rdma_destroy_event_channel(channel);
}

/*
 * ------------------------------------------------------------------------------------------
 * Groups.
 */

struct member {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	struct ibv_mr *mr;
	char got[GRH_BYTES + 8];
};

static struct sockaddr_in group = {
	.sin_family = AF_INET,
};

static void become_member(struct member *m, unsigned flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags,
		.addr = (struct sockaddr *)&group,
	};
	struct sockaddr_in from = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_event *event;

	group.sin_addr.s_addr = htonl(GROUP);
	m->channel = rdma_create_event_channel();
	CHECK(!rdma_create_id(m->channel, &m->id, NULL, RDMA_PS_UDP));
	CHECK(fails_with(rdma_join_multicast(m->id, attr.addr, NULL), EINVAL)); /* no device */
	CHECK(!rdma_resolve_addr(m->id, (struct sockaddr *)&from, attr.addr, 1000));
	expect_event(m->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	pair_make_qp(m->id);
	CHECK(fails_with(rdma_join_multicast(m->id, (struct sockaddr *)&from, NULL), EINVAL));
	attr.comp_mask |= 4;
	CHECK(fails_with(rdma_join_multicast_ex(m->id, &attr, m), ENOTSUP));
	attr.comp_mask &= 2u;
	CHECK(fails_with(rdma_join_multicast_ex(m->id, &attr, m), EINVAL));
	attr.comp_mask |= 1;
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	CHECK(fails_with(rdma_join_multicast_ex(m->id, &attr, m), EINVAL));
	attr.join_flags = flags;
	CHECK(!rdma_join_multicast_ex(m->id, &attr, m));
	event = await_event(m->channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(!event->status && event->param.ud.private_data == m);
	m->qpn = event->param.ud.qp_num;
	m->qkey = event->param.ud.qkey;
	CHECK(m->qpn == 0xffffff && m->qkey);
	m->ah = ibv_create_ah(m->id->pd, &event->param.ud.ah_attr);
	CHECK(m->ah && !rdma_ack_cm_event(event));
	m->mr = rdma_reg_msgs(m->id, m->got, sizeof(m->got));
	CHECK(m->mr && !rdma_post_recv(m->id, NULL, m->got, sizeof(m->got), m->mr));
}

static void leave(struct member *m)
{
	CHECK(!rdma_leave_multicast(m->id, (struct sockaddr *)&group));
	CHECK(fails_with(rdma_leave_multicast(m->id, (struct sockaddr *)&group), EADDRNOTAVAIL));
}

static void end(struct member *m)
{
	CHECK(!ibv_destroy_ah(m->ah) && !rdma_dereg_mr(m->mr));
	rdma_destroy_qp(m->id);
	CHECK(!rdma_destroy_id(m->id));
	rdma_destroy_event_channel(m->channel);
}

static void send_to_group(struct member *m, const char *text)
{
	struct ibv_wc wc;

	CHECK(!rdma_post_ud_send(m->id, NULL, (void *)(uintptr_t)text, 8, NULL, IBV_SEND_INLINE,
				 m->ah, m->qpn));
	CHECK(rdma_get_send_comp(m->id, &wc) == 1 && !wc.status);
}

static void test_groups(void **state)
{
	static struct member receiver, sender;
	struct ibv_wc wc;

	become_member(&receiver, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	become_member(&sender, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	send_to_group(&sender, "to all.");
	CHECK(rdma_get_recv_comp(receiver.id, &wc) == 1 && wc.byte_len == GRH_BYTES + 8);
	CHECK(!strcmp(receiver.got + GRH_BYTES, "to all."));
	/* An end that only sends gets nothing, nor does an end that has left. */
	CHECK(!rdma_post_recv(receiver.id, NULL, receiver.got, sizeof(receiver.got), receiver.mr));
	leave(&receiver);
	send_to_group(&sender, "to none");
	send_to_group(&receiver, "to none");
	CHECK(!ibv_poll_cq(sender.id->recv_cq, 1, &wc));
	CHECK(!ibv_poll_cq(receiver.id->recv_cq, 1, &wc));
	leave(&sender);
	end(&receiver);
	end(&sender);
}

/* The event is dropped with the group; a synchronous identifier waits for it in the call. */
static void test_groups_left_early(void **state)
{
	struct sockaddr_in from = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	group.sin_addr.s_addr = htonl(GROUP);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&from));
	CHECK(!rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
	CHECK(!rdma_leave_multicast(id, (struct sockaddr *)&group));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&from, 1));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
	CHECK(!rdma_leave_multicast(id, (struct sockaddr *)&group));
	CHECK(!rdma_migrate_id(id, NULL));
	CHECK(!rdma_join_multicast(id, (struct sockaddr *)&group, id));
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_MULTICAST_JOIN &&
	      id->event->param.ud.private_data == id);
	CHECK(!rdma_destroy_id(id)); /* which leaves */
	/* Connected QPs have no groups. */
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&from));
	CHECK(fails_with(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looked_up),
		cmocka_unit_test(test_lookups_refused),
		cmocka_unit_test(test_datagrams_of_port_space_ib),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_groups_left_early),
	};

	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
