/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that an identifier permits in each state; its addresses, ports and options. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pairs.h"

static struct rdma_cm_id *make(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, channel, ps));
	CHECK(id->channel == channel && id->context == channel && id->ps == ps && !id->verbs);
	return id;
}

static void test_order_of_calls(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in any = pairs_v4(INADDR_ANY, 0), to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP), *listener = make(channel, RDMA_PS_TCP);
	struct rdma_conn_param param = { .qp_num = 5 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	int mask;

	/* Nothing is known yet. */
	CHECK(fails_with(rdma_resolve_route(id, 1), EINVAL));
	CHECK(fails_with(rdma_connect(id, &param), EINVAL));
	CHECK(fails_with(rdma_accept(id, &param), EINVAL));
	CHECK(fails_with(rdma_reject(id, NULL, 0), EINVAL));
	CHECK(fails_with(rdma_disconnect(id), EINVAL));
	CHECK(fails_with(rdma_establish(id), EINVAL));
	CHECK(fails_with(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL));
	CHECK(fails_with(rdma_init_qp_attr(id, &attr, &mask), EINVAL));
	CHECK(fails_with(rdma_create_qp(id, NULL, &init), EINVAL));
	CHECK(fails_with(rdma_join_multicast(id, (struct sockaddr *)&any, NULL), EINVAL));
	CHECK(!has_event(channel, 0));

	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(fails_with(rdma_connect(id, &param), EINVAL));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(fails_with(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), EINVAL));
	CHECK(fails_with(rdma_bind_addr(id, (struct sockaddr *)&any), EINVAL));
	CHECK(fails_with(rdma_listen(id, 1), EINVAL));
	CHECK(id->verbs && id->port_num == 1 && id->pd);
	CHECK(rdma_get_src_port(id) && rdma_get_dst_port(id) == htons(7));
	CHECK(!memcmp(rdma_get_peer_addr(id), &to, sizeof(to)));
	CHECK(!id->route.num_paths);
	CHECK(!rdma_resolve_route(id, 1000));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(id->route.num_paths == 1 && id->route.path_rec);
	CHECK(fails_with(rdma_resolve_route(id, 1000), EINVAL));

	CHECK(!rdma_listen(listener, 1)); /* unbound: on all addresses */
	CHECK(rdma_get_src_port(listener) && !listener->verbs);
	CHECK(fails_with(rdma_listen(listener, 1), EINVAL));
	CHECK(fails_with(rdma_resolve_addr(listener, NULL, (struct sockaddr *)&to, 1), EINVAL));
	CHECK(fails_with(rdma_bind_addr(listener, (struct sockaddr *)&any), EINVAL));
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

static void test_odd_arguments(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr nothing = { .sa_family = AF_UNIX };
	struct sockaddr_ib gid = { .sib_family = AF_IB };
	struct sockaddr_in v4 = pairs_v4(INADDR_ANY, 0), nobodys = pairs_v4(0xc6336401, 0);
	struct sockaddr_in6 v6 = pairs_v6("::1", 7), vague = pairs_v6("fe80::1", 7);
	struct sockaddr_in6 any = pairs_v6("::", 0);
	struct rdma_cm_id *id;

	CHECK(fails_with(rdma_create_id(channel, &id, NULL, 0x0199), EINVAL));
	CHECK(fails_with(rdma_get_cm_event(channel, NULL), EINVAL));
	CHECK(fails_with(rdma_ack_cm_event(NULL), EINVAL));
	id = make(channel, RDMA_PS_TCP);
	CHECK(fails_with(rdma_bind_addr(id, &nothing), EINVAL));
	CHECK(fails_with(rdma_resolve_addr(id, NULL, &nothing, 1), EINVAL));
	CHECK(fails_with(rdma_resolve_addr(id, &nothing, (struct sockaddr *)&v6, 1), EINVAL));
	/* As with RoCE adapters, none of which has such an address. */
	CHECK(fails_with(rdma_bind_addr(id, (struct sockaddr *)&gid), ENODEV));
	CHECK(fails_with(rdma_resolve_addr(id, NULL, (struct sockaddr *)&gid, 1), ENODEV));
	CHECK(fails_with(rdma_bind_addr(id, (struct sockaddr *)&nobodys), EADDRNOTAVAIL));
	CHECK(fails_with(rdma_bind_addr(id, (struct sockaddr *)&vague), EINVAL));
	CHECK(fails_with(rdma_resolve_addr(id, (struct sockaddr *)&v4, (struct sockaddr *)&v6, 1),
			 EINVAL));
	/* These failures changed nothing. */
	CHECK(!id->verbs && !rdma_get_src_port(id) && !has_event(channel, 0));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&any));
	v4 = pairs_v4(INADDR_LOOPBACK, 7);
	CHECK(fails_with(rdma_resolve_addr(id, NULL, (struct sockaddr *)&v4, 1), EINVAL));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&v6, 1));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_destroy_id(id));

	/* The wildcard as a destination is this host. */
	id = make(channel, RDMA_PS_TCP);
	v4 = pairs_v4(INADDR_ANY, 7);
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&v4, 1));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->verbs && rdma_get_dst_port(id) == htons(7));
	CHECK(!rdma_destroy_id(id));
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
	CHECK(!strcmp(rdma_event_str(77), "UNKNOWN EVENT"));
	rdma_destroy_event_channel(channel);
}

static void set_int(struct rdma_cm_id *id, int option, int value)
{
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof(value)));
}

static int bind_to(struct rdma_cm_id *id, struct sockaddr_in at)
{
	return rdma_bind_addr(id, (struct sockaddr *)&at);
}

static int bind_v6(struct rdma_cm_id *id, struct sockaddr_in6 at)
{
	return rdma_bind_addr(id, (struct sockaddr *)&at);
}

static void test_ports(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *ids[6], *other;
	uint16_t port;

	for (int i = 0; i < 6; i++)
		ids[i] = make(channel, RDMA_PS_TCP);
	/* Two share a port: neither can listen, and no other can bind it. */
	set_int(ids[0], RDMA_OPTION_ID_REUSEADDR, 1);
	set_int(ids[1], RDMA_OPTION_ID_REUSEADDR, 1);
	CHECK(!bind_to(ids[0], pairs_v4(INADDR_LOOPBACK, 0)));
	port = ntohs(rdma_get_src_port(ids[0]));
	CHECK(port);
	CHECK(!bind_to(ids[1], pairs_v4(INADDR_LOOPBACK, port)));
	CHECK(fails_with(bind_to(ids[2], pairs_v4(INADDR_LOOPBACK, port)), EADDRINUSE));
	CHECK(fails_with(bind_to(ids[2], pairs_v4(INADDR_ANY, port)), EADDRINUSE));
	CHECK(fails_with(rdma_listen(ids[0], 1), EADDRINUSE));
	/* Another address, and another space, has ports of its own. */
	CHECK(!bind_v6(ids[2], pairs_v6("::1", port)));
	other = make(channel, RDMA_PS_UDP);
	CHECK(!bind_to(other, pairs_v4(INADDR_LOOPBACK, port)));
	CHECK(!rdma_destroy_id(other));
	CHECK(!rdma_destroy_id(ids[1]));
	CHECK(!rdma_listen(ids[0], 1));
	/* A listener does not share its port. */
	ids[1] = make(channel, RDMA_PS_TCP);
	set_int(ids[1], RDMA_OPTION_ID_REUSEADDR, 1);
	CHECK(fails_with(bind_to(ids[1], pairs_v4(INADDR_LOOPBACK, port)), EADDRINUSE));

	/* [::] takes IPv4's ports, too, unless told otherwise. */
	CHECK(fails_with(bind_v6(ids[3], pairs_v6("::", port)), EADDRINUSE));
	CHECK(!rdma_destroy_id(ids[2]));
	set_int(ids[3], RDMA_OPTION_ID_AFONLY, 1);
	CHECK(!bind_v6(ids[3], pairs_v6("::", port)));
	CHECK(!rdma_listen(ids[3], 1));
	/* The end of an identifier frees its port. */
	CHECK(!rdma_destroy_id(ids[0]));
	CHECK(!bind_to(ids[4], pairs_v4(INADDR_LOOPBACK, port)));
	CHECK(!bind_to(ids[5], pairs_v4(INADDR_ANY, 0)));
	CHECK(rdma_get_src_port(ids[5]) && !ids[5]->verbs);
	for (int i = 3; i < 6; i++)
		CHECK(!rdma_destroy_id(ids[i]));
	CHECK(!rdma_destroy_id(ids[1]));
	rdma_destroy_event_channel(channel);
}

/* A listener on [::] is reached by IPv4 peers, and shows them as such. */
static void test_dual_stack(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_event *event;
	struct rdma_cm_id *child;

	for (int only = 0; only < 2; only++) {
		struct rdma_cm_id *listener = make(channel, RDMA_PS_TCP), *id;

		set_int(listener, RDMA_OPTION_ID_AFONLY, only);
		CHECK(!bind_v6(listener, pairs_v6("::", 0)));
		CHECK(!rdma_listen(listener, 1));
		id = make(own, RDMA_PS_TCP);
		pair_route(own, id, listener);
		CHECK(!rdma_connect(id, &param));
		if (only) {
			event = await_event(own, RDMA_CM_EVENT_REJECTED);
			CHECK(event->status == 8);
			CHECK(!rdma_ack_cm_event(event));
		} else {
			event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
			child = event->id;
			CHECK(rdma_get_local_addr(child)->sa_family == AF_INET);
			CHECK(rdma_get_peer_addr(child)->sa_family == AF_INET);
			CHECK(rdma_get_src_port(child) == rdma_get_src_port(listener));
			CHECK(rdma_get_dst_port(child) == rdma_get_src_port(id));
			CHECK(child->verbs && child->port_num == 1 && child->context == channel);
			CHECK(!rdma_ack_cm_event(event) && !rdma_destroy_id(child));
		}
		CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
	}
	rdma_destroy_event_channel(own);
	rdma_destroy_event_channel(channel);
}

/* As rdma-core, which asks for the address's length first. */
static void test_null_addresses(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_UDP);

	CHECK(fails_with(rdma_bind_addr(id, NULL), EINVAL));
	CHECK(fails_with(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL));
	CHECK(fails_with(rdma_join_multicast(id, NULL, NULL), EINVAL));
	CHECK(fails_with(rdma_leave_multicast(id, NULL), EINVAL));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void test_options(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP), *datagrams;
	uint8_t byte = 9;
	int on = 1, off = 0;

	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1));
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
	CHECK(!rdma_create_id(channel, &datagrams, NULL, RDMA_PS_UDP));
	CHECK(fails_with(
		rdma_set_option(datagrams, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1),
		EINVAL));
	CHECK(!rdma_destroy_id(datagrams));
	CHECK(fails_with(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)),
			 EINVAL));
	CHECK(fails_with(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1),
			 EINVAL));
	CHECK(fails_with(rdma_set_option(id, RDMA_OPTION_ID, 99, &byte, 1), ENOSYS));
	CHECK(fails_with(rdma_set_option(id, 9, RDMA_OPTION_ID_TOS, &byte, 1), ENOSYS));
	CHECK(!bind_to(id, pairs_v4(INADDR_LOOPBACK, 0)));
	set_int(id, RDMA_OPTION_ID_REUSEADDR, 1);
	set_int(id, RDMA_OPTION_ID_AFONLY, 1);
	CHECK(fails_with(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &off, sizeof(off)),
		EINVAL));
	CHECK(!rdma_listen(id, 1));
	CHECK(fails_with(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)),
		EINVAL));
	CHECK(fails_with(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)),
		EINVAL));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* A path that the program gives takes the place of rdma_resolve_route. */
static void test_given_path(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP);
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct ibv_path_data paths[2] = {
		{ .flags = IBV_PATH_FLAG_ALTERNATE },
		{ .flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		  .path = { .mtu = 2 << 6 | IBV_MTU_512, .tclass = 0x20 } },
	};

#define GIVE(bytes) rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, (bytes))
	CHECK(fails_with(GIVE(sizeof(paths)), EINVAL));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(fails_with(GIVE(sizeof(paths)), EINVAL)); /* elsewhere */
	paths[1].path.sgid = id->route.addr.addr.ibaddr.sgid;
	paths[1].path.dgid = id->route.addr.addr.ibaddr.dgid;
	CHECK(fails_with(GIVE(sizeof(paths) - 1), EINVAL));
	CHECK(fails_with(GIVE(sizeof(*paths)), EINVAL)); /* the alternate one alone */
	CHECK(!has_event(channel, 0));
	CHECK(!GIVE(sizeof(paths)));
#undef GIVE
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(id->route.num_paths == 1 && id->route.path_rec->mtu == IBV_MTU_512 &&
	      id->route.path_rec->traffic_class == 0x20);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void test_devices(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP);
	struct sockaddr_in here = pairs_v4(INADDR_LOOPBACK, 0);
	struct ibv_context **list, **again;
	bool found = false;
	int count;

	list = rdma_get_devices(&count);
	again = rdma_get_devices(NULL);
	CHECK(list && again && count > 0 && !list[count]);
	/*
	 * There is no other device to choose (where there are,
	 * tests/integration/test_default_devices.py).
	 */
	CHECK(!bind_to(id, pairs_v4(INADDR_LOOPBACK, 0)));
	CHECK(id->verbs && id->port_num == 1);
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->port_num == 1 && id->pd);
	CHECK(!memcmp(&id->route.addr.addr.ibaddr.sgid, &id->route.addr.addr.ibaddr.dgid, 16));
	for (int i = 0; i < count; i++) {
		CHECK(list[i] == again[i]);
		found = found || list[i] == id->verbs;
	}
	CHECK(found);
	rdma_free_devices(list);
	rdma_free_devices(again);
	CHECK(!ibv_query_gid(id->verbs, 1, 0, &(union ibv_gid){ .raw = { 0 } }));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/*
 * ------------------------------------------------------------------------------------------
 * Channels.
 */

static void test_nonblocking_channel(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP);
	struct rdma_cm_event *event;

	CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	CHECK(fails_with(rdma_get_cm_event(channel, &event), EAGAIN));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1) &&
	      !rdma_resolve_route(id, 1));
	/* As long as there are events, and not longer. */
	CHECK(has_event(channel, 0) && has_event(channel, 0));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(has_event(channel, 0));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!has_event(channel, 0));
	CHECK(fails_with(rdma_get_cm_event(channel, &event), EAGAIN));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/*
 * That there is no event is told at once. If the call waited for verbatimd, then an event that came
 * meanwhile, such as the end of a connection, would overtake what came before it to a CQ that the
 * program has found empty.
 */
static void test_no_event_is_told_without_verbatimd(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	pid_t daemon = daemon_pid();
	int64_t begin, ms;
	bool fails;

	CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	CHECK(!kill(daemon, SIGSTOP));
	begin = now_ms();
	fails = fails_with(rdma_get_cm_event(channel, &event), EAGAIN);
	ms = now_ms() - begin;
	CHECK(!kill(daemon, SIGCONT));
	CHECK(fails && ms < PATIENCE_MS / 2);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

struct slow_call {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to; /* NULL: destroys it */
	atomic_bool ended;
};

static void *call_slowly(void *arg)
{
	struct slow_call *c = arg;

	if (c->to)
		CHECK(!rdma_migrate_id(c->id, c->to));
	else
		CHECK(!rdma_destroy_id(c->id));
	c->ended = true;
	return NULL;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

/* A pending event moves along; fetched events have to be acknowledged first. */
static void test_migration_and_destruction_wait(void **state)
{
	struct rdma_event_channel *one = rdma_create_event_channel();
	struct rdma_event_channel *two = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct slow_call call = { .id = make(one, RDMA_PS_TCP), .to = two };
	struct rdma_cm_event *held;
	pthread_t thread;

	CHECK(!rdma_resolve_addr(call.id, NULL, (struct sockaddr *)&to, 1));
	CHECK(!rdma_resolve_route(call.id, 1));
	held = await_event(one, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!pthread_create(&thread, NULL, call_slowly, &call));
	nap();
	CHECK(!call.ended);
	CHECK(!rdma_ack_cm_event(held));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!has_event(one, 0) && call.id->channel == two);
	held = await_event(two, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(held->id == call.id);

	call.to = NULL;
	call.ended = false;
	CHECK(!pthread_create(&thread, NULL, call_slowly, &call));
	nap();
	CHECK(!call.ended);
	CHECK(!rdma_ack_cm_event(held));
	CHECK(!pthread_join(thread, NULL));
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
}

/*
 * A listener moves while an event of its old channel is held: a request that the new channel
 * delivers meanwhile is there already, and is not waited for.
 */
static void test_requests_of_a_moving_listener(void **state)
{
	struct slow_call call = { .to = rdma_create_event_channel() };
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_event *held, *event;
	struct rdma_cm_id *other, *child;
	pthread_t thread;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(!rdma_connect(p.id, &param));
	held = pair_take_request(&p);
	call.id = p.listener;
	CHECK(!pthread_create(&thread, NULL, call_slowly, &call));
	nap();
	CHECK(!rdma_create_id(p.active, &other, NULL, RDMA_PS_TCP));
	pair_route(p.active, other, p.listener);
	CHECK(!rdma_connect(other, &param));
	event = await_event(call.to, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	CHECK(event->listen_id == p.listener && !call.ended);
	CHECK(p.listener->channel == call.to && child->channel == call.to);
	CHECK(!rdma_ack_cm_event(held));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(other));
	pair_close(&p);
	rdma_destroy_event_channel(call.to);
}

/* A request that was not fetched is refused; a fetched one is the program's, and survives. */
static void test_a_listener_ends(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct pair p;

	for (int fetched = 0; fetched < 2; fetched++) {
		pair_open(&p, RDMA_PS_TCP);
		CHECK(!rdma_connect(p.id, &param));
		CHECK(has_event(p.passive, PATIENCE_MS));
		if (fetched)
			CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		CHECK(!rdma_destroy_id(p.listener));
		p.listener = NULL;
		if (fetched) {
			CHECK(!rdma_accept(p.child, &param));
			expect_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
		} else {
			CHECK(!has_event(p.passive, 0));
			expect_event(p.active, RDMA_CM_EVENT_REJECTED);
		}
		pair_close(&p);
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * Names.
 */

static void test_addrinfo(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *res, *copied;
	struct sockaddr_in *v4;

	CHECK(fails_with(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL));
	CHECK(rdma_getaddrinfo("no.such.name.invalid", "7", &hints, &res) == EAI_NONAME);
	CHECK(rdma_getaddrinfo("127.0.0.1", "no-such-service", NULL, &res) == EAI_SERVICE);
	hints = (struct rdma_addrinfo){ .ai_family = AF_INET6, .ai_flags = RAI_NUMERICHOST };
	CHECK(rdma_getaddrinfo("127.0.0.1", "7", &hints, &res) == EAI_ADDRFAMILY);
	hints = (struct rdma_addrinfo){ .ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_TCP };
	CHECK(rdma_getaddrinfo("127.0.0.1", "7", &hints, &res) == EAI_SOCKTYPE);

	CHECK(!rdma_getaddrinfo("127.0.0.1", "7471", NULL, &res));
	v4 = (struct sockaddr_in *)res->ai_dst_addr;
	CHECK(res->ai_family == AF_INET && res->ai_dst_len == sizeof(*v4) &&
	      v4->sin_port == htons(7471) && v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	CHECK(res->ai_qp_type == IBV_QPT_RC && res->ai_port_space == RDMA_PS_TCP);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_port_space = RDMA_PS_UDP };
	CHECK(!rdma_getaddrinfo("::1", "7471", &hints, &res));
	CHECK(res->ai_family == AF_INET6 && res->ai_qp_type == IBV_QPT_UD);
	rdma_freeaddrinfo(res);
	/* The passive side may leave the address open. */
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_PASSIVE, .ai_family = AF_INET };
	CHECK(!rdma_getaddrinfo(NULL, "7471", &hints, &res));
	v4 = (struct sockaddr_in *)res->ai_src_addr;
	CHECK(res->ai_flags & RAI_PASSIVE && !res->ai_dst_addr && !res->ai_dst_len &&
	      res->ai_src_len == sizeof(*v4) && v4->sin_addr.s_addr == htonl(INADDR_ANY));
	/* And hints alone do: nothing is looked up. */
	hints = (struct rdma_addrinfo){ .ai_src_addr = res->ai_src_addr,
					.ai_src_len = res->ai_src_len,
					.ai_dst_addr = res->ai_src_addr,
					.ai_dst_len = res->ai_src_len };
	CHECK(!rdma_getaddrinfo(NULL, NULL, &hints, &copied));
	CHECK(!memcmp(copied->ai_src_addr, hints.ai_src_addr, hints.ai_src_len) &&
	      !memcmp(copied->ai_dst_addr, hints.ai_dst_addr, hints.ai_dst_len));
	rdma_freeaddrinfo(copied);
	rdma_freeaddrinfo(res);
}

/* A GID for a name is a sockaddr_ib, whose service is that of the port. */
static void test_addrinfo_of_a_gid(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST | RAI_FAMILY,
				       .ai_family = AF_IB,
				       .ai_port_space = RDMA_PS_IB },
			     *res;
	struct sockaddr_ib *sib;
	struct rdma_cm_id *id;

	CHECK(rdma_getaddrinfo("127.0.0.1", "7", &hints, &res) == EAI_ADDRFAMILY);
	CHECK(!rdma_getaddrinfo("fe80::2", "7", &hints, &res));
	sib = (struct sockaddr_ib *)res->ai_dst_addr;
	CHECK(res->ai_family == AF_IB && res->ai_dst_len == sizeof(*sib) &&
	      sib->sib_family == AF_IB && be64toh(sib->sib_sid) == (RDMA_PS_IB << 16 | 7));
	CHECK(fails_with(rdma_create_ep(&id, res, NULL, NULL), ENODEV));
	rdma_freeaddrinfo(res);
}

/*
 * ------------------------------------------------------------------------------------------
 * RDMACM_1.4
 */

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

#define ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define ADDRINFO_ERROR	  ((enum rdma_cm_event_type)17)
#define USER		  ((enum rdma_cm_event_type)18)
#define INTERNAL	  ((enum rdma_cm_event_type)19)

static void test_written_events(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	uint64_t arg;

	CHECK(fails_with(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL));
	CHECK(fails_with(rdma_write_cm_event(id, INTERNAL + 1, 0, 0), EINVAL));
	for (enum rdma_cm_event_type type = USER; type <= INTERNAL; type++) {
		CHECK(!rdma_write_cm_event(id, type, -5, 0x123456789abcdef0));
		event = await_event(channel, type);
		memcpy(&arg, &event->param, sizeof(arg));
		CHECK(event->id == id && event->status == -5 && arg == 0x123456789abcdef0);
		CHECK(!rdma_ack_cm_event(event));
	}
	CHECK(!strcmp(rdma_event_str(USER), "RDMA_CM_EVENT_USER"));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void test_resolved_names(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make(channel, RDMA_PS_TCP);
	struct rdma_addrinfo hints = { .ai_flags = 0x30 }, *info;
	struct rdma_cm_event *event;

	CHECK(fails_with(rdma_query_addrinfo(id, &info), EINVAL));
	CHECK(fails_with(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL));
	CHECK(fails_with(rdma_resolve_addrinfo(id, "::1", NULL, &hints), EINVAL));
	hints.ai_flags = 0x10; /* by a subnet administrator, which is not there */
	CHECK(fails_with(rdma_resolve_addrinfo(id, NULL, "7", &hints), EOPNOTSUPP));
	CHECK(!has_event(channel, 0));
	CHECK(!rdma_resolve_addrinfo(id, "127.0.0.1", "7", NULL));
	expect_event(channel, ADDRINFO_RESOLVED);
	CHECK(!rdma_query_addrinfo(id, &info));
	CHECK(info->ai_family == AF_INET && info->ai_dst_len);
	rdma_freeaddrinfo(info);
	hints.ai_flags = RAI_NUMERICHOST | 0x20;
	CHECK(!rdma_resolve_addrinfo(id, "localhost.invalid", "7", &hints));
	event = await_event(channel, ADDRINFO_ERROR);
	CHECK(event->status == EAI_NONAME && !rdma_ack_cm_event(event));
	CHECK(fails_with(rdma_query_addrinfo(id, &info), EINVAL));
	/* Not queried: freed with it. */
	CHECK(!rdma_resolve_addrinfo(id, "127.0.0.1", "7", NULL));
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addrinfo(id, "127.0.0.1", "7", NULL));
	CHECK(id->event->event == ADDRINFO_RESOLVED);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_of_calls),
		cmocka_unit_test(test_odd_arguments),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_dual_stack),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_null_addresses),
		cmocka_unit_test(test_given_path),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_nonblocking_channel),
		cmocka_unit_test(test_no_event_is_told_without_verbatimd),
		cmocka_unit_test(test_migration_and_destruction_wait),
		cmocka_unit_test(test_requests_of_a_moving_listener),
		cmocka_unit_test(test_a_listener_ends),
		cmocka_unit_test(test_addrinfo),
		cmocka_unit_test(test_addrinfo_of_a_gid),
		cmocka_unit_test(test_written_events),
		cmocka_unit_test(test_resolved_names),
	};

	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
