/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions of rdma_cm at verbatimd --system: they belong to their processes, and outlive the
 * daemon.
 */
#include "cm_raw.h"
#include "harness.h"
#include "system_daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct ctl_cm_ask begin = { .header = { CTL_CM_BEGIN, 2 } };

/*
 * A session of verbatimd --system; sends its number and, when asked, whether it was disconnected.
 */
static void have_session(int fd)
{
	struct ctl_cm_hello hello = cm_hello(0);
	int sock, store = cm_make_store();
	struct fdmsg m;

	become_user(20001);
	sock = call_system();
	m = cm_ask_with(sock, &hello, sizeof(hello), &store, 1);
	CHECK(!m.body.welcome.status && m.fd_count == 1);
	say(fd, m.body.welcome.slot);
	hear(fd);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	say(fd, 1);
}

/* All can read the numbers of sessions. A process that claims one has to send its token. */
static void test_sessions_of_others_are_not_taken(void **state)
{
	int store = cm_make_store(), event_fd = cm_make_event_fd(), fds[2] = { store, event_fd };
	struct ctl_cm_hello hello;
	struct worker owner;
	pid_t daemon;
	int sock;

	need_root();
	daemon = start_system_daemon();
	worker_start(&owner, have_session);
	hello = cm_hello((uint32_t)hear(owner.fd));
	sock = call_system();
	CHECK(cm_ask_with(sock, &hello, sizeof(hello), fds, 2).body.welcome.status == EPERM);
	close(sock);
	/* Nor one that does not exist. */
	hello.session++;
	sock = call_system();
	CHECK(cm_ask_with(sock, &hello, sizeof(hello), fds, 2).body.welcome.status == EPERM);
	close(sock);
	say(owner.fd, 1);
	CHECK(hear(owner.fd) == 1);
	worker_end(&owner);
	close(store);
	close(event_fd);
	stop_system_daemon(daemon, SIGTERM);
}

static int join_system(void)
{
	struct ctl_cm_hello hello = cm_hello(0);
	int sock = call_system(), store = cm_make_store();
	struct fdmsg m = cm_ask_with(sock, &hello, sizeof(hello), &store, 1);

	CHECK(!m.body.welcome.status);
	fdmsg_close_fds(&m);
	close(store);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	return sock;
}

/* Connects to the address. True: the channel `listeners` gets the request. */
static bool is_answered(int sock, uint32_t channel, const struct ctl_cm_address *at,
			uint32_t listeners)
{
	uint32_t id = cm_make_id(sock, channel);
	struct ctl_cm_event event;

	CHECK(!cm_connect(sock, id, at));
	event = cm_next(sock, listeners);
	return event.kind == CTL_CM_CONNECT_REQUEST;
}

/* Longer than a request waits for a listener, and less than for one that may return. */
#define BETWEEN_MS 200
#define AT_MOST_MS 800

/*
 * Makes a listener at verbatimd --system and reports it. When the next daemon runs, it returns with
 * its store and its token. Somebody has connected to it meanwhile.
 */
static void return_to_system(int fd)
{
	struct ctl_cm_ask again = { .header = { .type = CTL_CM_RETURN_CHANNEL, .seq = 3 } };
	int sock, other, event_fd = cm_make_event_fd(), fds[2] = { cm_make_store(), -1 };
	struct ctl_cm_hello hello = cm_hello(0);
	struct ctl_cm_address at;
	uint32_t listener;
	int64_t since_ms;
	struct fdmsg m;

	become_user(20001);
	sock = call_system();
	m = cm_ask_with(sock, &hello, sizeof(hello), fds, 1);
	CHECK(!m.body.welcome.status && m.fd_count == 1);
	hello.session = m.body.welcome.slot;
	fds[1] = fdmsg_take_fd(&m, 0);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	CHECK(!cm_create_channel(sock, event_fd, &again.channel));
	listener = cm_listen(sock, again.channel, &at);
	say(fd, hello.session);

	/* The one that is killed, and the next. */
	hear(fd);
	CHECK(is_cut_off(sock));
	close(sock);
	other = join_system();
	since_ms = now_ms();
	CHECK(!cm_connect(other, cm_make_id(other, cm_make_channel(other)), &at));
	usleep(BETWEEN_MS * 1000);
	sock = call_system();
	m = cm_ask_with(sock, &hello, sizeof(hello), fds, 2);
	CHECK(!m.body.welcome.status && m.body.welcome.slot == hello.session && !m.fd_count);
	CHECK(!cm_ask_with(sock, &again, sizeof(again), &event_fd, 1).body.cm_reply.status);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	if (now_ms() - since_ms < AT_MOST_MS)
		CHECK(cm_next(sock, again.channel).kind == CTL_CM_CONNECT_REQUEST);
	CHECK(is_answered(sock, cm_make_channel(sock), &at, again.channel));
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, listener, 0));
	close(sock);
	close(other);
	say(fd, 1);
}

/* The next daemon gives a session to the process that had it, and to no other. */
static void test_a_session_returns_to_the_next_daemon_of_all(void **state)
{
	int store = cm_make_store(), event_fd = cm_make_event_fd(), fds[2] = { store, event_fd },
	    sock;
	struct ctl_cm_hello hello;
	struct worker owner;
	pid_t daemon;

	need_root();
	daemon = start_system_daemon();
	worker_start(&owner, return_to_system);
	hello = cm_hello((uint32_t)hear(owner.fd));
	stop_system_daemon(daemon, SIGKILL);
	daemon = start_system_daemon();
	sock = call_system();
	CHECK(cm_ask_with(sock, &hello, sizeof(hello), fds, 2).body.welcome.status == EPERM);
	close(sock);
	say(owner.fd, 1);
	CHECK(hear(owner.fd) == 1);
	worker_end(&owner);
	close(store);
	close(event_fd);
	stop_system_daemon(daemon, SIGTERM);
}

/* Makes all channels that it can over four connections, says how many, and stays. */
static void make_channels(int fd)
{
	int event_fd = cm_make_event_fd();
	uint64_t count = 0;
	uint32_t channel;

	become_user(20001);
	for (int i = 0; i < 4; i++) {
		int sock = join_system();

		while (!cm_create_channel(sock, event_fd, &channel))
			count++;
	}
	say(fd, count);
	hear(fd);
}

/* Channels take descriptors of the daemon: one user cannot take them all. */
static void test_a_user_has_a_share_of_the_channels(void **state)
{
	struct rlimit few = { 800, 800 };
	struct worker greedy;
	pid_t daemon;
	int sock;

	need_root();
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	daemon = start_system_daemon();
	worker_start(&greedy, make_channels);
	CHECK(hear(greedy.fd) > 40);
	sock = join_system();
	for (int i = 0; i < 10; i++)
		cm_make_channel(sock);
	close(sock);
	worker_kill(&greedy);
	stop_system_daemon(daemon, SIGTERM);
}

/* A session begins in a daemon whose directory has vanished. */
static void test_directory_vanishes(void **state)
{
	struct ctl_client *c = join();
	struct sockname_space space;
	char command[256];
	int sock;

	CHECK(!sockname_space_of_user(geteuid(), &space) && *space.dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", space.dir);
	CHECK(!system(command));
	sock = cm_join();
	CHECK(!access(space.dir, F_OK));
	close(sock);
	ctl_close(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_sessions_of_others_are_not_taken),
		TEST(test_a_session_returns_to_the_next_daemon_of_all),
		TEST(test_a_user_has_a_share_of_the_channels),
		TEST(test_directory_vanishes),
	};

	return cmocka_run_group_tests_name("daemon sessions", tests, NULL, NULL);
}
