/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: identifiers whose calls wait for their events. */
#include "harness.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pairs.h"

static struct rdma_addrinfo *look_up(const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *res;

	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	return res;
}

static struct ibv_qp_init_attr small_qp(void)
{
	return (struct ibv_qp_init_attr){ .cap = { 4, 4, 1, 1, 16 }, .sq_sig_all = 1 };
}

/* In a process of its own: refused once, then accepted. */
static void endpoint(int fd)
{
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 6 };
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char port[8], got[16];

	snprintf(port, sizeof(port), "%u", (unsigned)hear(fd));
	for (int round = 0; round < 2; round++) {
		struct rdma_addrinfo *res = look_up(port, 0);
		struct ibv_qp_init_attr init = small_qp();

		CHECK(!rdma_create_ep(&id, res, NULL, &init));
		rdma_freeaddrinfo(res);
		CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
		mr = rdma_reg_msgs(id, got, sizeof(got));
		CHECK(mr && !rdma_post_recv(id, NULL, got, sizeof(got), mr));
		if (round) {
			CHECK(!rdma_connect(id, &param));
			CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
			CHECK(!memcmp(id->event->param.conn.private_data, "there", 6));
			CHECK(!rdma_post_send(id, NULL, "data", 5, NULL, IBV_SEND_INLINE));
			CHECK(rdma_get_recv_comp(id, &wc) == 1 && !wc.status);
			CHECK(!strcmp(got, "answer"));
			CHECK(!rdma_disconnect(id));
			CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
		} else {
			CHECK(fails_with(rdma_connect(id, &param), ECONNREFUSED));
			CHECK(id->event->event == RDMA_CM_EVENT_REJECTED);
			CHECK(!memcmp(id->event->param.conn.private_data, "no", 3));
		}
		CHECK(!rdma_dereg_mr(mr));
		rdma_destroy_ep(id);
	}
}

static void test_endpoints_of_two_processes(void **state)
{
	struct rdma_conn_param param = { .private_data = "there", .private_data_len = 6 };
	struct rdma_addrinfo *res = look_up("0", RAI_PASSIVE);
	struct ibv_qp_init_attr init = small_qp();
	struct rdma_cm_id *listener, *id;
	struct worker other;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char got[16];

	worker_start(&other, endpoint);
	CHECK(!rdma_create_ep(&listener, res, NULL, &init));
	rdma_freeaddrinfo(res);
	CHECK(fails_with(rdma_migrate_id(listener, NULL), EINVAL)); /* it is synchronous */
	CHECK(!rdma_listen(listener, 0));
	say(other.fd, ntohs(rdma_get_src_port(listener)));

	CHECK(!rdma_get_request(listener, &id));
	CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
	      id->channel != listener->channel && id->pd == listener->pd);
	CHECK(!rdma_reject(id, "no", 3));
	rdma_destroy_ep(id);

	CHECK(!rdma_get_request(listener, &id));
	CHECK(!memcmp(id->event->param.conn.private_data, "hello", 6));
	mr = rdma_reg_msgs(id, got, sizeof(got));
	CHECK(mr && !rdma_post_recv(id, NULL, got, sizeof(got), mr));
	CHECK(!rdma_accept(id, &param));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && !wc.status && !strcmp(got, "data"));
	CHECK(!rdma_post_send(id, NULL, "answer", 7, NULL, IBV_SEND_INLINE));
	CHECK(!rdma_disconnect(id));
	CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_ep(id);
	worker_end(&other);
	rdma_destroy_ep(listener);
}

/* The connection's own data goes before the program's. */
static void test_data_of_an_endpoint(void **state)
{
	bool by_iwarp = getenv("VERBATIM_TRANSPORT") != NULL;
	struct rdma_conn_param param = { .qp_num = 5,
					 .private_data = "two",
					 .private_data_len = 4 };
	struct rdma_addrinfo *res;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *unused;
	char port[8];
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(fails_with(rdma_get_request(p.listener, &unused), EINVAL)); /* not synchronous */
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(p.listener)));
	res = look_up(port, 0);
	res->ai_connect = malloc(4);
	CHECK(res->ai_connect);
	memcpy(res->ai_connect, "one", 4);
	res->ai_connect_len = 4;
	CHECK(!rdma_create_ep(&id, res, NULL, NULL));
	rdma_freeaddrinfo(res);
	CHECK(!rdma_migrate_id(id, p.active));
	CHECK(!rdma_connect(id, &param));
	event = pair_take_request(&p);
	check_data(&event->param.conn, by_iwarp ? 8 : 56, (const uint8_t *)"one\0two", 8);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(id));
	/* A request is given up without a word. */
	CHECK(!has_event(p.passive, 20));
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_endpoints_of_two_processes),
		cmocka_unit_test(test_data_of_an_endpoint),
	};

	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
