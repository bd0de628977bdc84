/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verbatimd that refuses a process's session: the call fails with its errno, and says why. The
 * verbatimd is a child of the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_says_why, harness_setup, harness_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
