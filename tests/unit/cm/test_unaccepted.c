/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Children that were not accepted yet: no event but the request is about them, whatever happens to
 * the other end. rdma_accept fails then.
 */
#include "harness.h"
#include "pairs.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <unistd.h>

static int accept_child(struct rdma_cm_id *child)
{
	struct rdma_conn_param param = { .qp_num = 88 };

	return rdma_accept(child, &param);
}

static int ask(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .qp_num = 77 };

	return rdma_connect(id, &param);
}

/* The program can put it away, and nothing else. */
static void check_that_it_is_over(struct rdma_cm_id *child)
{
	CHECK(!has_event(child->channel, 20));
	CHECK(fails_with(accept_child(child), EINVAL));
	CHECK(fails_with(rdma_reject(child, NULL, 0), EINVAL));
	CHECK(!rdma_disconnect(child));
	CHECK(fails_with(accept_child(child), EINVAL));
	CHECK(!has_event(child->channel, 0));
}

/* The active end asks, and is destroyed; the program has its request by then, or not. */
static void take_back(struct pair *p, bool fetched)
{
	pair_open(p, RDMA_PS_TCP);
	CHECK(!ask(p->id));
	if (fetched)
		CHECK(!rdma_ack_cm_event(pair_take_request(p)));
	CHECK(!rdma_destroy_id(p->id));
	p->id = NULL;
}

/* The request may be in the queue still. */
static void test_the_request_is_taken_back(void **state)
{
	for (int fetched = 0; fetched < 2; fetched++) {
		struct pair p;

		take_back(&p, fetched);
		if (!fetched)
			CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		check_that_it_is_over(p.child);
		pair_close(&p);
	}
}

/* In a process of its own, which is killed: a request, and then a connection. */
static void ask_and_connect(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *id = NULL;

	to.sin_port = (in_port_t)hear(fd);
	CHECK(channel);
	for (int i = 0; i < 2; i++) {
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		CHECK(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
		CHECK(!rdma_resolve_route(id, 1000));
		CHECK(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
		CHECK(!ask(id));
	}
	CHECK(expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE) == id);
	CHECK(!rdma_establish(id));
	say(fd, 1);
	pause();
}

static void kill_with_daemon(struct worker *w)
{
	pid_t daemon = daemon_pid();

	CHECK(daemon > 0 && !kill(daemon, SIGSTOP));
	worker_kill(w);
	CHECK(!kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
}

/*
 * The other end's process dies, with verbatimd or without it. When the event of the second child
 * comes, which is connected, verbatimd is done with the first: it ends them in one go, or in the
 * order in which they were made.
 */
static void test_the_other_end_is_killed(void **state)
{
	for (int with_daemon = 0; with_daemon < 2; with_daemon++) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
		struct rdma_cm_id *listener, *children[2];
		struct worker other;

		CHECK(channel);
		CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
		CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&at));
		CHECK(!rdma_listen(listener, 2));
		worker_start(&other, ask_and_connect);
		say(other.fd, rdma_get_src_port(listener));
		for (int i = 0; i < 2; i++) {
			struct rdma_cm_event *event;

			event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
			children[i] = event->id;
			CHECK(!rdma_ack_cm_event(event));
		}
		CHECK(!accept_child(children[1]));
		CHECK(hear(other.fd) == 1);
		CHECK(expect_event(channel, RDMA_CM_EVENT_ESTABLISHED) == children[1]);
		if (with_daemon)
			kill_with_daemon(&other);
		else
			worker_kill(&other);
		CHECK(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == children[1]);
		CHECK(!rdma_destroy_id(children[1]));
		check_that_it_is_over(children[0]);
		CHECK(!rdma_destroy_id(children[0]));
		CHECK(!rdma_destroy_id(listener));
		rdma_destroy_event_channel(channel);
	}
}

/* verbatimd answers a request before it delivers what follows from it, and serves the next then. */
static void wait_until_delivered(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) && !rdma_destroy_id(id));
}

/* The next verbatimd knows that there was no rdma_accept. */
static void test_over_the_end_of_verbatimd(void **state)
{
	for (int fetched = 0; fetched < 2; fetched++) {
		pid_t daemon;
		struct pair p;

		take_back(&p, fetched);
		wait_until_delivered(p.active);
		daemon = daemon_pid();
		CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
		if (!fetched)
			CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		check_that_it_is_over(p.child);
		pair_close(&p);
	}
}

/* A call that waits for an event does not wait for one that does not come. */
static void test_synchronous_calls(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *listener, *id, *child;

	CHECK(channel);
	CHECK(!rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 1));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	pair_route(channel, id, listener);
	CHECK(!ask(id));
	CHECK(!rdma_get_request(listener, &child));
	CHECK(!rdma_disconnect(child));
	CHECK(!has_event(channel, 20)); /* the request stays */
	CHECK(!rdma_destroy_id(id));
	CHECK(child->channel != listener->channel && !has_event(listener->channel, 0));
	check_that_it_is_over(child);
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_request_is_taken_back),
		TEST(test_the_other_end_is_killed),
		TEST(test_over_the_end_of_verbatimd),
		TEST(test_synchronous_calls),
	};

	return cmocka_run_group_tests_name("cm unaccepted", tests, NULL, NULL);
}
