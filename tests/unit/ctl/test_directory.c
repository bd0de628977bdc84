/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of the daemon's sockets vanishes: new processes begin, and old ones return. */
#include "../daemon/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void remove_dir_of_daemon(void)
{
	struct sockname_space space;
	char command[256];

	CHECK(!sockname_space_of_user(geteuid(), &space) && *space.dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", space.dir);
	CHECK(!system(command));
	CHECK(access(space.dir, F_OK) < 0);
}

static void lose_daemon(struct ctl_client *c)
{
	pid_t daemon = ctl_daemon_pid(c);
	struct ctl_notice notice;

	CHECK(!kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	CHECK(ctl_next_notice(c, &notice) == -ENOTCONN);
}

/* A directory in /tmp is cleaned up while its daemon runs. */
static void test_directory_vanishes(void **state)
{
	struct ctl_client *a = join(), *b, *c;
	struct ctl_peer_info peer;
	char why[256];

	remove_dir_of_daemon();
	b = join();
	CHECK(ctl_slot(a) == 1 && ctl_slot(b) == 2 && ctl_daemon_pid(a) == ctl_daemon_pid(b));
	CHECK(!ctl_peer(a, ctl_slot(b), &peer));
	close_peer(&peer);
	lose_daemon(a);
	CHECK(ctl_peer(b, 1, &peer) == -ENOTCONN);
	CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(a) == 1);
	c = join();
	CHECK(ctl_slot(c) == 3);
	CHECK(!ctl_reconnect(b, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(b) == 2);
	ctl_close(a);
	ctl_close(b);
	ctl_close(c);
}

/* A slot's token that cannot be tried does not count against one that can. */
static void test_vanished_token_is_no_claim(void **state)
{
	struct ctl_client *a = join(), *b;
	struct ctl_peer_info peer;
	char why[256];

	remove_dir_of_daemon();
	lose_daemon(a);
	b = join();
	CHECK(ctl_slot(b) == 1);
	CHECK(ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) == -EADDRINUSE);
	lose_daemon(b);
	ctl_close(join());
	CHECK(ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) == -EPERM);
	CHECK(!ctl_reconnect(b, CTL_CONNECT_MS, why, sizeof(why)));
	/* Nor against one that cannot be tried any more while its process is connected. */
	remove_dir_of_daemon();
	CHECK(ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) == -EADDRINUSE);
	CHECK(!ctl_peer(b, 1, &peer));
	close_peer(&peer);
	ctl_close(a);
	ctl_close(b);
}

/* The user's runtime directory goes with the last session: the next daemon has another. */
static void test_runtime_directory_vanishes(void **state)
{
	char dir[] = "/tmp/test-runtime.XXXXXX", base[64], command[64];
	struct ctl_client *a, *b;
	char why[256];

	snprintf(base, sizeof(base), "/run/user/%u", (unsigned)geteuid());
	if (!access(base, F_OK))
		skip(); /* it has precedence */
	CHECK(mkdtemp(dir));
	setenv("XDG_RUNTIME_DIR", dir, 1);
	a = join();
	CHECK(ctl_slot(a) == 1);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK(!system(command));
	b = join();
	CHECK(ctl_slot(b) == 2 && ctl_daemon_pid(a) == ctl_daemon_pid(b));
	lose_daemon(a);
	unsetenv("XDG_RUNTIME_DIR");
	CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(a) == 1);
	ctl_close(a);
	ctl_close(b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_directory_vanishes),
		TEST(test_vanished_token_is_no_claim),
		TEST(test_runtime_directory_vanishes),
	};

	return cmocka_run_group_tests_name("ctl directory", tests, NULL, NULL);
}
