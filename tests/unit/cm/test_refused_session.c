/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verbatimd that refuses a process's session: the call fails with its errno, and says why. That
 * verbatimd is a child of the test. One with a lower limit does not refuse it.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

#include "ctl/client_types.h"
#include "ctl/fdmsg.h"

#define CALLS 3

/* Refuses each connection before it has read anything, as a verbatimd short of descriptors does. */
static void refuse_all(int fd)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockname_space space;
	struct sockname name;

	CHECK(!sockname_space_of_user(geteuid(), &space));
	sockname_of_daemon(&space, &name);
	CHECK(!bind(listener, (struct sockaddr *)&name.addr, name.len) && !listen(listener, 1));
	say(fd, 1);
	for (;;) {
		struct ctl_welcome welcome = {
			.greeting = { { CTL_WELCOME, 1 }, CTL_MAGIC, CTL_VERSION },
			.status = EDQUOT,
			.pid = getpid(),
		};
		int sock = accept(listener, NULL, NULL);

		CHECK(sock >= 0 && !fdmsg_send(sock, &welcome, sizeof(welcome), NULL, 0));
		close(sock);
	}
}

static void test_says_why(void **state)
{
	char path[] = "/tmp/test_refused_session.XXXXXX", text[2048];
	int file = mkstemp(path), before = dup(STDERR_FILENO);
	struct worker daemon;
	ssize_t len;

	CHECK(file >= 0 && !unlink(path));
	worker_start(&daemon, refuse_all);
	hear(daemon.fd);
	CHECK(dup2(file, STDERR_FILENO) >= 0);
	for (int i = 0; i < CALLS; i++)
		CHECK(!rdma_create_event_channel() && errno == EDQUOT);
	CHECK(dup2(before, STDERR_FILENO) >= 0);
	close(before);
	len = pread(file, text, sizeof(text) - 1, 0);
	CHECK(len > 0);
	text[len] = 0;
	CHECK(strstr(text, "no slot or no descriptor left for this user"));
	CHECK(!strstr(text, "Protocol error"));
	close(file);
	worker_kill(&daemon);
}

/* Has more channels than a process could make with the verbatimd that it starts then. */
static void outlive_the_limit(int fd)
{
	enum { CHANNELS = 60, DESCRIPTORS = 256 };
	struct rlimit few = { DESCRIPTORS, DESCRIPTORS };
	struct rdma_event_channel *channels[CHANNELS];
	struct rdma_cm_id *id;
	pid_t daemon;

	for (int i = 0; i < CHANNELS; i++)
		CHECK((channels[i] = rdma_create_event_channel()));
	daemon = daemon_pid();
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	for (int i = 0; i < CHANNELS; i++) {
		CHECK(!rdma_create_id(channels[i], &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_destroy_id(id));
	}
	CHECK(!rdma_create_event_channel() && errno == EMFILE);
	for (int i = 0; i < CHANNELS; i++)
		rdma_destroy_event_channel(channels[i]);
}

static void test_a_lower_limit(void **state)
{
	struct worker w;

	worker_start(&w, outlive_the_limit);
	worker_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_says_why, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_a_lower_limit, harness_setup,
						harness_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
