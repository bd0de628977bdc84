/* SPDX-License-Identifier: BSD-2-Clause */
/* A client of connection management harms neither the daemon nor other clients. */
#include "../daemon/cm_raw.h"
#include "../daemon/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/deadline.h"

/* More channels are no way to have more events kept. */
static void test_events_of_all_channels_are_bounded(void **state)
{
	struct ctl_client *bystander = join();
	int sock = cm_join();
	uint32_t ids[4];
	unsigned kept = 0;
	int rc = 0;

	for (unsigned i = 0; i < 4; i++)
		ids[i] = cm_make_id(sock, cm_make_channel(sock));
	while (!rc && kept < 200000) {
		rc = cm_raise(sock, ids[kept % 4]);
		kept += !rc;
	}
	CHECK(rc == ENOSPC && kept <= 65536);
	CHECK(cm_raise(sock, ids[3]) == ENOSPC);
	close(sock);
	ctl_close(bystander);
}

/*
 * The program has a channel's descriptor, too: if the daemon read until nothing is left, a program
 * that writes faster would keep it busy.
 */
static void test_event_fd_is_read_once_an_event(void **state)
{
	struct ctl_client *bystander = join();
	int event_fd = cm_make_event_fd(), sock = cm_join(), left = 0;
	uint32_t channel, id;
	char byte = 1;

	CHECK(!cm_create_channel(sock, event_fd, &channel));
	id = cm_make_id(sock, channel);
	for (int i = 0; i < 100; i++)
		CHECK(send(event_fd, &byte, 1, 0) == 1);
	CHECK(!cm_raise(sock, id) && !cm_raise(sock, id));
	CHECK(!cm_event(sock, channel).answer && !cm_event(sock, channel).answer);
	while (recv(event_fd, &byte, 1, MSG_DONTWAIT) == 1)
		left++;
	CHECK(left == 100);
	close(event_fd);
	close(sock);
	ctl_close(bystander);
}

/* Channels need descriptors of the daemon: it refuses more before it has none for others. */
static void test_descriptors_are_left_for_others(void **state)
{
	struct rlimit few = { 400, 400 };
	struct ctl_client *first, *second;
	unsigned count = 0;
	uint32_t channel;
	int event_fd, sock, rc = 0;

	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	first = join(); /* and starts the daemon */
	sock = cm_join();
	event_fd = cm_make_event_fd();
	while (!rc && count < 400) {
		rc = cm_create_channel(sock, event_fd, &channel);
		count += !rc;
	}
	CHECK(rc == EMFILE && count <= 50);
	second = join();
	ctl_close(second);
	ctl_close(first);
	close(event_fd);
	close(sock);
}

/*
 * verbatimd raises its limit while it receives, and sets it back to what it was before: a limit
 * that is set meanwhile is lost. After the answer to a question every later receive has begun with
 * this.
 */
static void limit_daemon(int sock, const struct rlimit *limit)
{
	struct ctl_cm_ask question = { .header = { .type = CTL_CM_DESTROY_ID }, .id = UINT32_MAX };
	struct rlimit now = { 0 };

	while (now.rlim_cur != limit->rlim_cur) {
		CHECK(!prlimit(daemon_pid(), RLIMIT_NOFILE, limit, NULL));
		CHECK(cm_ask(sock, &question, sizeof(question)).status);
		CHECK(!prlimit(daemon_pid(), RLIMIT_NOFILE, NULL, &now));
	}
}

/* An address that cannot be looked up for want of a descriptor is not another host's. */
static void test_an_address_cannot_be_looked_up(void **state)
{
	struct rlimit none = { 3, 0 }, before;
	struct ctl_client *bystander = join();
	int sock = cm_join();
	uint32_t channel = cm_make_channel(sock), id = cm_make_id(sock, channel);
	struct ctl_cm_address at;
	struct ctl_cm_bind ask = { .header = { .type = CTL_CM_BIND }, .id = id };

	cm_listen(sock, channel, &at);
	ask.local = at;
	ask.local.port = 0;
	CHECK(!prlimit(daemon_pid(), RLIMIT_NOFILE, NULL, &before));
	none.rlim_max = before.rlim_max;
	limit_daemon(sock, &none);
	CHECK(cm_ask(sock, &ask, sizeof(ask)).status == EMFILE);
	CHECK(cm_connect(sock, id, &at) == EMFILE);
	limit_daemon(sock, &before);
	CHECK(!cm_connect(sock, id, &at));
	cm_await(sock, channel, CTL_CM_CONNECT_REQUEST);
	close(sock);
	ctl_close(bystander);
}

/* The identifiers that are left in a channel end with it. */
static void test_a_channel_ends_with_its_identifiers(void **state)
{
	struct ctl_client *bystander = join();
	struct ctl_cm_ask end = { .header = { .type = CTL_CM_DESTROY_CHANNEL } };
	struct ctl_cm_ask gone = { .header = { .type = CTL_CM_DESTROY_ID } };
	struct ctl_cm_ask move = { .header = { .type = CTL_CM_MIGRATE_ID } };
	int event_fd = cm_make_event_fd(), sock = cm_join();
	pid_t daemon = daemon_pid();
	unsigned fds = count_fds(daemon);

	for (unsigned i = 0; i < 100; i++) {
		CHECK(!cm_create_channel(sock, event_fd, &end.channel));
		CHECK(!cm_create_channel(sock, event_fd, &move.channel));
		gone.id = cm_make_id(sock, end.channel);
		move.id = cm_make_id(sock, end.channel);
		CHECK(!cm_raise(sock, gone.id) && !cm_raise(sock, move.id));
		CHECK(!cm_ask(sock, &move, sizeof(move)).status);
		CHECK(!cm_ask(sock, &end, sizeof(end)).status);
		CHECK(cm_ask(sock, &gone, sizeof(gone)).status == ENOENT);
		CHECK(cm_ask(sock, &end, sizeof(end)).status == ENOENT);
		/* An identifier that has moved to another channel stays. */
		CHECK(!cm_raise(sock, move.id));
		end.channel = move.channel;
		CHECK(!cm_ask(sock, &end, sizeof(end)).status);
		CHECK(cm_raise(sock, move.id) == ENOENT);
	}
	CHECK(comes_down_to(daemon, fds));
	close(event_fd);
	close(sock);
	ctl_close(bystander);
}

static struct ctl_cm_address loopback(uint16_t port)
{
	return (struct ctl_cm_address){
		.gid = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 },
		.family = AF_INET,
		.port = htons(port),
	};
}

static uint32_t create_typed(int sock, uint32_t channel, enum ctl_cm_qp_type type, int status)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_CREATE_ID },
				      .channel = channel,
				      .value = CTL_CM_IB,
				      .flags = type };
	struct ctl_cm_reply r = cm_ask(sock, &request, sizeof(request));

	CHECK(r.status == status);
	return r.number;
}

static void bind_to(int sock, uint32_t id, uint16_t port)
{
	struct ctl_cm_bind request = { .header = { .type = CTL_CM_BIND },
				       .id = id,
				       .local = loopback(port) };

	CHECK(!cm_ask(sock, &request, sizeof(request)).status);
}

static uint32_t listen_on(int sock, uint32_t channel, enum ctl_cm_qp_type type, uint16_t port,
			  uint32_t backlog)
{
	struct ctl_cm_ask request = { .header = { .type = CTL_CM_LISTEN }, .value = backlog };

	request.id = create_typed(sock, channel, type, 0);
	bind_to(sock, request.id, port);
	CHECK(!cm_ask(sock, &request, sizeof(request)).status);
	return request.id;
}

static uint32_t connect_to(int sock, uint32_t channel, enum ctl_cm_qp_type type, uint16_t port)
{
	struct ctl_cm_request request = { .header = { .type = CTL_CM_CONNECT },
					  .local = loopback(0),
					  .remote = loopback(port) };

	request.id = create_typed(sock, channel, type, 0);
	CHECK(!cm_ask(sock, &request, sizeof(request)).status);
	return request.id;
}

/* QPs of different services are not connected. */
static void test_both_ends_are_of_a_kind(void **state)
{
	static const enum ctl_cm_qp_type listens[] = { CTL_CM_QP_RC, CTL_CM_QP_UC,
						       CTL_CM_QP_XRC_RECV };
	static const enum ctl_cm_qp_type connects[] = { CTL_CM_QP_RC, CTL_CM_QP_UC,
							CTL_CM_QP_XRC_SEND };
	struct ctl_client *bystander = join();
	struct ctl_cm_request target = { .header = { .type = CTL_CM_CONNECT } };
	int sock = cm_join();
	uint32_t channel = cm_make_channel(sock);

	create_typed(sock, channel, CTL_CM_QP_NONE, EINVAL);
	for (unsigned i = 0; i < 9; i++) {
		uint16_t port = (uint16_t)(100 + i);
		uint32_t listener = listen_on(sock, channel, listens[i / 3], port, 1);
		uint32_t id = connect_to(sock, channel, connects[i % 3], port);
		struct ctl_cm_event event = cm_next(sock, channel);

		if (i / 3 == i % 3) {
			CHECK(event.kind == CTL_CM_CONNECT_REQUEST && event.listener == listener);
		} else {
			CHECK(event.kind == CTL_CM_REJECTED && event.id == id);
			CHECK(event.status == 9); /* invalid transport service type */
		}
	}
	/* An XRC target waits for initiators, and cannot connect itself. */
	target.id = create_typed(sock, channel, CTL_CM_QP_XRC_RECV, 0);
	CHECK(cm_ask(sock, &target, sizeof(target)).status == EINVAL);
	close(sock);
	ctl_close(bystander);
}

static void put(int sock, const void *request, size_t len)
{
	CHECK(!fdmsg_send(sock, request, len, NULL, 0));
}

static struct fdmsg take(int sock)
{
	struct fdmsg m;

	CHECK(!fdmsg_wait(sock, deadline_in_ms(PATIENCE_MS), &m));
	return m;
}

static void put_connect(int sock, uint32_t id, uint16_t port)
{
	struct ctl_cm_request request = { .header = { .type = CTL_CM_CONNECT },
					  .id = id,
					  .local = loopback(0),
					  .remote = loopback(port) };

	put(sock, &request, sizeof(request));
}

/*
 * Requests wait for a listener, or for room in its backlog, for a bounded time: what is to come
 * within it is written while the daemon is stopped.
 */
static void test_requests_that_wait(void **state)
{
	struct ctl_client *bystander = join();
	int passive = cm_join(), active = cm_join();
	uint32_t asked = cm_make_channel(passive), answered = cm_make_channel(active);
	struct ctl_cm_ask listen = { .header = { .type = CTL_CM_LISTEN }, .value = 1 };
	struct ctl_cm_ask get = { .header = { .type = CTL_CM_GET_EVENT }, .channel = asked };
	pid_t daemon = daemon_pid();
	struct ctl_cm_event event;
	uint32_t listener, late, early, ids[20];
	int64_t since_ms;

	early = create_typed(active, answered, CTL_CM_QP_RC, 0);
	late = create_typed(active, answered, CTL_CM_QP_RC, 0);
	listener = listen.id = create_typed(passive, asked, CTL_CM_QP_RC, 0);
	bind_to(passive, listener, 200);
	CHECK(daemon > 0 && !kill(daemon, SIGSTOP));
	put_connect(active, early, 200);
	put_connect(active, late, 201);
	put(passive, &listen, sizeof(listen));
	CHECK(!kill(daemon, SIGCONT));
	CHECK(!take(active).body.cm_reply.status && !take(active).body.cm_reply.status);
	CHECK(!take(passive).body.cm_reply.status);
	event = cm_next(passive, asked);
	CHECK(event.kind == CTL_CM_CONNECT_REQUEST && event.listener == listener);
	event = cm_next(active, answered);
	CHECK(event.kind == CTL_CM_REJECTED && event.id == late && event.status == 8);

	for (unsigned i = 0; i < 20; i++)
		ids[i] = create_typed(active, answered, CTL_CM_QP_RC, 0);
	CHECK(!kill(daemon, SIGSTOP));
	for (unsigned i = 0; i < 20; i++)
		put_connect(active, ids[i], 200);
	for (unsigned i = 0; i < 20; i++)
		put(passive, &get, sizeof(get));
	CHECK(!kill(daemon, SIGCONT));
	for (unsigned i = 0; i < 20; i++)
		CHECK(!take(active).body.cm_reply.status);
	for (unsigned i = 0, early_gets = 0; i < 20 + early_gets; i++) {
		event = i < 20 ? take(passive).body.cm_event : cm_next(passive, asked);
		if (event.answer == EAGAIN) {
			early_gets++; /* the request came after it */
			continue;
		}
		CHECK(event.kind == CTL_CM_CONNECT_REQUEST && event.listener == listener);
	}

	since_ms = now_ms();
	connect_to(active, answered, CTL_CM_QP_RC, 200);
	late = connect_to(active, answered, CTL_CM_QP_RC, 200);
	event = cm_next(active, answered);
	CHECK(event.kind == CTL_CM_REJECTED && event.id == late && event.status == 28);
	CHECK(now_ms() - since_ms >= 900);
	close(active);
	close(passive);
	ctl_close(bystander);
}

static void count_name(uint32_t session, void *count)
{
	++*(unsigned *)count;
}

static unsigned count_names(void)
{
	struct sockname_space space;
	unsigned count = 0;

	CHECK(!sockname_space_of_user(geteuid(), &space));
	sockname_each_session(&space, count_name, &count);
	return count;
}

static bool come_down_to(unsigned names)
{
	for (int64_t until = now_ms() + PATIENCE_MS; now_ms() < until; usleep(1000)) {
		if (count_names() <= names)
			return true;
	}
	return false;
}

/* A long-lived daemon may have had millions of sessions. */
static void test_no_name_is_left_of_a_session(void **state)
{
	struct ctl_client *bystander = join();
	pid_t daemon = daemon_pid();
	int sock[3];

	for (int i = 0; i < 3; i++)
		sock[i] = cm_join();
	CHECK(count_names() == 3);
	close(sock[0]);
	close(sock[1]);
	CHECK(come_down_to(1));
	/* Nor of one that ended without a daemon. */
	CHECK(daemon > 0 && !kill(daemon, SIGKILL));
	close(sock[2]);
	CHECK(count_names() == 1);
	ctl_close(bystander);
	bystander = join();
	CHECK(!count_names());
	ctl_close(bystander);
}

/*
 * A process that has not waited for the answer binds again, to the same address or another; then
 * the first port is free.
 */
static void test_bound_again(void **state)
{
	struct ctl_client *bystander = join();
	int event_fd = cm_make_event_fd(), sock = cm_join();
	struct ctl_cm_bind request = { .header = { .type = CTL_CM_BIND }, .local = loopback(7001) };
	uint32_t channel, ids[2];

	CHECK(!cm_create_channel(sock, event_fd, &channel));
	for (int i = 0; i < 2; i++)
		ids[i] = create_typed(sock, channel, CTL_CM_QP_RC, 0);
	bind_to(sock, ids[0], 7000);
	bind_to(sock, ids[0], 7000);
	bind_to(sock, ids[0], 7001);
	bind_to(sock, ids[1], 7000);
	request.id = ids[1];
	CHECK(cm_ask(sock, &request, sizeof(request)).status == EADDRINUSE);
	bind_to(sock, ids[0], 7000);
	/* What it does know of stays. */
	request.id = listen_on(sock, channel, CTL_CM_QP_RC, 7002, 1);
	CHECK(cm_ask(sock, &request, sizeof(request)).status == EINVAL);
	close(event_fd);
	close(sock);
	ctl_close(bystander);
}

static int answer_with(int sock, enum ctl_type type, uint32_t id)
{
	struct ctl_cm_request request = { .header = { .type = type }, .id = id };

	request.end.qpn = 6;
	return cm_ask(sock, &request, sizeof(request)).status;
}

/* Whether verbatimd says that an event follows. */
static bool disconnect(int sock, uint32_t id)
{
	struct ctl_cm_ask ask = { .header = { .type = CTL_CM_DISCONNECT }, .id = id };
	struct ctl_cm_reply reply = cm_ask(sock, &ask, sizeof(ask));

	CHECK(!reply.status && reply.number <= 1);
	return !reply.number;
}

/* No event follows a disconnection before the request was accepted, and the request stays. */
static void test_disconnected_before_it_is_accepted(void **state)
{
	struct ctl_client *bystander = join();
	int passive = cm_join(), active = cm_join();
	uint32_t in = cm_make_channel(passive), out = cm_make_channel(active), id, child;
	struct ctl_cm_address at;

	cm_listen(passive, in, &at);
	id = cm_make_id(active, out);
	CHECK(!cm_connect(active, id, &at));
	child = cm_await(passive, in, CTL_CM_CONNECT_REQUEST).id;
	CHECK(!disconnect(passive, child));
	CHECK(!answer_with(passive, CTL_CM_ACCEPT, child));
	cm_await(active, out, CTL_CM_CONNECT_RESPONSE);
	CHECK(cm_event(passive, in).answer == EAGAIN);
	CHECK(disconnect(passive, child));
	cm_await(passive, in, CTL_CM_DISCONNECTED);
	close(active);
	close(passive);
	ctl_close(bystander);
}

/*
 * A request that is taken back before it is accepted: the program finds out when it accepts. One
 * that is not fetched yet stays in the queue, and in the backlog.
 */
static void test_requests_that_are_taken_back(void **state)
{
	struct ctl_client *bystander = join();
	int passive = cm_join(), active = cm_join();
	uint32_t in = cm_make_channel(passive), out = cm_make_channel(active);
	struct ctl_cm_address at;

	cm_listen(passive, in, &at);
	for (int fetched = 0; fetched < 2; fetched++) {
		uint32_t id = cm_make_id(active, out), child = 0;

		CHECK(!cm_connect(active, id, &at));
		if (fetched)
			child = cm_await(passive, in, CTL_CM_CONNECT_REQUEST).id;
		CHECK(!cm_say(active, CTL_CM_DESTROY_ID, id, 0));
		if (!fetched)
			child = cm_await(passive, in, CTL_CM_CONNECT_REQUEST).id;
		CHECK(cm_event(passive, in).answer == EAGAIN);
		CHECK(answer_with(passive, CTL_CM_ACCEPT, child) == EINVAL);
		CHECK(answer_with(passive, CTL_CM_REJECT, child) == EINVAL);
		CHECK(cm_say(passive, CTL_CM_ESTABLISH, child, 0) == EINVAL);
		CHECK(!disconnect(passive, child));
		CHECK(cm_event(passive, in).answer == EAGAIN);
		CHECK(!cm_say(passive, CTL_CM_DESTROY_ID, child, 0));
		CHECK(cm_say(passive, CTL_CM_DESTROY_ID, child, 0) == ENOENT);
	}
	/* Nothing is left of them that would keep others away. */
	cm_round(passive, active);
	close(active);
	close(passive);
	ctl_close(bystander);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_events_of_all_channels_are_bounded,
						harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_event_fd_is_read_once_an_event, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_an_address_cannot_be_looked_up, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_a_channel_ends_with_its_identifiers,
						harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_bound_again, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_both_ends_are_of_a_kind, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_requests_that_wait, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_disconnected_before_it_is_accepted,
						harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_requests_that_are_taken_back, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_descriptors_are_left_for_others, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_no_name_is_left_of_a_session, harness_setup,
						harness_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
