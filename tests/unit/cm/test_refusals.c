/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call of rdma_cm that fails reports a cause, in one line of VERBATIM_EXPLAIN that names the
 * call.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "pairs.h"

static char path[] = "/tmp/test_refusals.XXXXXX";
static off_t read_so_far;

/* Reads the lines since the last call. */
static void said(char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = pread(fd, text, room - 1, read_so_far);

	CHECK(fd >= 0 && got >= 0);
	text[got] = 0;
	read_so_far += got;
	close(fd);
}

static struct rdma_event_channel *channel;
static struct rdma_cm_id *fresh, *bound, *resolved, *routed, *listening;
static uint16_t taken;

static struct rdma_cm_id *make(void)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

static int bind_v4(struct rdma_cm_id *id, uint32_t address, uint16_t port)
{
	struct sockaddr_in at = pairs_v4(address, port);

	return rdma_bind_addr(id, (struct sockaddr *)&at);
}

static int bind_elsewhere(void)
{
	return bind_v4(fresh, 0xc0000201, 0);
}
static int bind_again(void)
{
	return bind_v4(bound, INADDR_LOOPBACK, 0);
}
static int bind_taken(void)
{
	return bind_v4(fresh, INADDR_LOOPBACK, taken);
}

static int bind_family(int family)
{
	struct sockaddr_storage at = { .ss_family = (sa_family_t)family };

	return rdma_bind_addr(fresh, (struct sockaddr *)&at);
}

static int bind_ib(void)
{
	return bind_family(27);
}
static int bind_unix(void)
{
	return bind_family(AF_UNIX);
}

static int bind_link_local(void)
{
	struct sockaddr_in6 at = pairs_v6("fe80::1", 0);

	return rdma_bind_addr(fresh, (struct sockaddr *)&at);
}

static int resolve_v4(struct rdma_cm_id *id, uint32_t address)
{
	struct sockaddr_in to = pairs_v4(address, 7);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100);
}

static int listen_resolved(void)
{
	return rdma_listen(resolved, 1);
}
static int resolve_nothing(void)
{
	return rdma_resolve_addr(fresh, NULL, NULL, 100);
}
static int resolve_broadcast(void)
{
	return resolve_v4(fresh, INADDR_BROADCAST);
}
static int resolve_twice(void)
{
	return resolve_v4(resolved, INADDR_LOOPBACK);
}

static int resolve_routed(void)
{
	return resolve_v4(routed, INADDR_LOOPBACK);
}

static int resolve_mixed(void)
{
	struct sockaddr_in6 from = pairs_v6("::1", 0);
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);

	return rdma_resolve_addr(fresh, (struct sockaddr *)&from, (struct sockaddr *)&to, 100);
}

static int route_unresolved(void)
{
	return rdma_resolve_route(fresh, 100);
}
static int connect_early(void)
{
	return rdma_connect(resolved, &(struct rdma_conn_param){ 0 });
}
static int connect_without_qp(void)
{
	return rdma_connect(routed, NULL);
}

static int connect_deep(void)
{
	return rdma_connect(routed, &(struct rdma_conn_param){ .responder_resources = 253 });
}

static int connect_long(void)
{
	static const char data[200];

	return rdma_connect(
		routed, &(struct rdma_conn_param){ .private_data = data, .private_data_len = 57 });
}

static int accept_nothing(void)
{
	return rdma_accept(bound, &(struct rdma_conn_param){ 0 });
}
static int reject_nothing(void)
{
	return rdma_reject(bound, NULL, 0);
}
static int reject_null(void)
{
	return rdma_reject(bound, NULL, 5);
}
static int establish_nothing(void)
{
	return rdma_establish(bound);
}
static int notify_other(void)
{
	return rdma_notify(bound, IBV_EVENT_CQ_ERR);
}
static int disconnect_nothing(void)
{
	return rdma_disconnect(bound);
}
static int ece_null(void)
{
	return rdma_set_local_ece(bound, NULL);
}
static int option_unknown(void)
{
	return rdma_set_option(bound, 9, 9, NULL, 0);
}
static int ack_null(void)
{
	return rdma_ack_cm_event(NULL);
}
static int request_asynchronous(void)
{
	return rdma_get_request(listening, &fresh);
}

static int join_connected(void)
{
	struct sockaddr_in group = pairs_v4(0xefff0101, 0);

	return rdma_join_multicast(resolved, (struct sockaddr *)&group, NULL);
}

static int leave_not_joined(void)
{
	struct sockaddr_in group = pairs_v4(0xefff0101, 0);

	return rdma_leave_multicast(resolved, (struct sockaddr *)&group);
}

static int make_qp_without_device(void)
{
	return rdma_create_qp(fresh, NULL, &(struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC });
}

static const struct {
	int (*call)(void);
	int error;
	const char *name, *why;
} rows[] = {
	{ bind_elsewhere, EADDRNOTAVAIL, "rdma_bind_addr",
	  "no interface of this host has 192.0.2.1" },
	{ bind_again, EINVAL, "rdma_bind_addr", "the identifier is bound to an address" },
	{ bind_taken, EADDRINUSE, "rdma_bind_addr", "127.0.0.1 port" },
	{ bind_ib, ENODEV, "rdma_bind_addr", "AF_IB" },
	{ bind_unix, EINVAL, "rdma_bind_addr", "family 1" },
	{ bind_link_local, EINVAL, "rdma_bind_addr", "sin6_scope_id" },
	{ listen_resolved, EINVAL, "rdma_listen", "at the end of rdma_resolve_addr" },
	{ resolve_nothing, EINVAL, "rdma_resolve_addr", "" },
	{ resolve_broadcast, 0, "rdma_resolve_addr", "to 255.255.255.255" },
	{ resolve_twice, EINVAL, "rdma_resolve_addr", "at the end of rdma_resolve_addr" },
	{ resolve_routed, EINVAL, "rdma_resolve_addr", "at the end of rdma_resolve_route" },
	{ resolve_mixed, EINVAL, "rdma_resolve_addr", "one of IPv4 and one of IPv6" },
	{ route_unresolved, EINVAL, "rdma_resolve_route", "the identifier is new" },
	{ connect_early, EINVAL, "rdma_connect", "at the end of rdma_resolve_addr" },
	{ connect_without_qp, EINVAL, "rdma_connect", "neither a QP nor conn_param" },
	{ connect_deep, EINVAL, "rdma_connect", "responder_resources 253, at most" },
	{ connect_long, EINVAL, "rdma_connect", "57 bytes of private data, at most 56" },
	{ accept_nothing, EINVAL, "rdma_accept", "the identifier is bound to an address" },
	{ reject_nothing, EINVAL, "rdma_reject", "" },
	{ reject_null, EINVAL, "rdma_reject", "" },
	{ establish_nothing, EINVAL, "rdma_establish", "" },
	{ notify_other, EINVAL, "rdma_notify", "" },
	{ disconnect_nothing, EINVAL, "rdma_disconnect", "" },
	{ ece_null, EINVAL, "rdma_set_local_ece", "" },
	{ option_unknown, 0, "rdma_set_option", "" },
	/* no cause of earlier calls */
	{ ack_null, EINVAL, "rdma_ack_cm_event", "rdma_ack_cm_event: Invalid argument" },
	{ request_asynchronous, EINVAL, "rdma_get_request", "" },
	{ join_connected, EINVAL, "rdma_join_multicast", "at the end of rdma_resolve_addr" },
	{ leave_not_joined, EADDRNOTAVAIL, "rdma_leave_multicast", "" },
	{ make_qp_without_device, EINVAL, "rdma_create_qp", "" },
};

static void test_each_refusal_says_why(void **state)
{
	char text[2000], *end;

	channel = rdma_create_event_channel();
	CHECK(channel);
	fresh = make();
	bound = make();
	resolved = make();
	routed = make();
	listening = make();
	CHECK(!bind_v4(bound, INADDR_LOOPBACK, 0));
	CHECK(!bind_v4(listening, INADDR_LOOPBACK, 0) && !rdma_listen(listening, 1));
	taken = ntohs(rdma_get_src_port(listening));
	CHECK(!resolve_v4(resolved, INADDR_LOOPBACK));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	pair_route(channel, routed, listening);
	said(text, sizeof(text));
	CHECK(!*text);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s: ", rows[i].name);
		errno = 0;
		CHECK(rows[i].call() == -1);
		if (rows[i].error && errno != rows[i].error)
			fail_msg("row %zu, %s: %s", i, rows[i].name, strerror(errno));
		said(text, sizeof(text));
		end = strchr(text, '\n');
		if (!end || end[1] || !strstr(text, name) || !strstr(text, rows[i].why))
			fail_msg("row %zu, %s: \"%s\"", i, rows[i].name, text);
	}
}

static void test_where_nobody_listens(void **state)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = make();
	char text[2000];

	CHECK(!resolve_v4(id, INADDR_LOOPBACK));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 100));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	pair_make_qp(id);
	CHECK(!rdma_connect(id, &(struct rdma_conn_param){ .retry_count = 7 }));
	event = await_event(channel, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 8 && !rdma_ack_cm_event(event));
	said(text, sizeof(text));
	if (!strstr(text, "127.0.0.1 port 7, reason 8: no program listens there"))
		fail_msg("\"%s\"", text);
	CHECK(rdma_listen(id, 1) && errno == EINVAL);
	said(text, sizeof(text));
	if (!strstr(text, "connecting, connected, or was so, and has a QP"))
		fail_msg("\"%s\"", text);
}

static void test_where_the_program_refuses(void **state)
{
	struct rdma_cm_id *id = make(), *child;
	struct rdma_cm_event *event;
	char text[2000];

	pair_route(channel, id, listening);
	pair_make_qp(id);
	CHECK(!rdma_connect(id, &(struct rdma_conn_param){ .retry_count = 7 }));
	event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	CHECK(!rdma_reject(child, NULL, 0) && !rdma_ack_cm_event(event) && !rdma_destroy_id(child));
	event = await_event(channel, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 28 && !rdma_ack_cm_event(event));
	said(text, sizeof(text));
	if (!strstr(text, "reason 28: the program at the other end refused it"))
		fail_msg("\"%s\"", text);
}

/* There was no event that told of it. */
static void test_what_was_taken_back(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_id *id = make(), *child;
	struct rdma_cm_event *event;
	char text[2000];

	pair_route(channel, id, listening);
	CHECK(!rdma_connect(id, &param));
	event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	CHECK(!rdma_ack_cm_event(event) && !rdma_destroy_id(id));
	said(text, sizeof(text));
	CHECK(fails_with(rdma_accept(child, &param), EINVAL));
	said(text, sizeof(text));
	if (!strstr(text, "rdma_accept: no request awaits it"))
		fail_msg("\"%s\"", text);
	CHECK(!rdma_destroy_id(child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_refusal_says_why),
		cmocka_unit_test(test_where_nobody_listens),
		cmocka_unit_test(test_where_the_program_refuses),
		cmocka_unit_test(test_what_was_taken_back),
	};
	int failed, fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	setenv("VERBATIM_EXPLAIN", path, 1);
	failed = cmocka_run_group_tests(tests, harness_setup, harness_teardown);
	unlink(path);
	return failed;
}
