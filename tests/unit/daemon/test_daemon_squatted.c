/* SPDX-License-Identifier: BSD-2-Clause */
/* Another user's process has the abstract name of a daemon. */
#include "harness.h"
#include "system_daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/client.h"

#define VICTIM	 12345
#define SQUATTER 12346

/*
 * It accepts connections, does not listen, ends while the daemon waits for that, or its queue is
 * full.
 */
enum squat { SQUAT_ANSWERS, SQUAT_BOUND, SQUAT_SHORTLY, SQUAT_FULL };

static void squat_at(int fd, const struct sockname_space *space, enum squat how)
{
	struct sockname name;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	sockname_of_daemon(space, &name);
	become_user(SQUATTER);
	CHECK(!bind(sock, (struct sockaddr *)&name.addr, name.len));
	if (how == SQUAT_ANSWERS || how == SQUAT_FULL)
		CHECK(!listen(sock, how == SQUAT_FULL ? 0 : 8));
	for (int rc = 0; how == SQUAT_FULL && !rc;) {
		int caller = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

		rc = connect(caller, (struct sockaddr *)&name.addr, name.len);
		CHECK(!rc || errno == EAGAIN);
	}
	say(fd, 1);
	if (how == SQUAT_SHORTLY) {
		usleep(100000);
		close(sock);
	}
	pause();
}

static void squat_users(int fd, enum squat how)
{
	struct sockname_space space;

	sockname_space_of_user(VICTIM, &space);
	squat_at(fd, &space, how);
}

static void squat(int fd)
{
	squat_users(fd, SQUAT_ANSWERS);
}

static void squat_bound(int fd)
{
	squat_users(fd, SQUAT_BOUND);
}

static void squat_shortly(int fd)
{
	squat_users(fd, SQUAT_SHORTLY);
}

static void squat_full(int fd)
{
	squat_users(fd, SQUAT_FULL);
}

static void squat_full_of_system(int fd)
{
	struct sockname_space space;

	CHECK(!sockname_space_of_system(&space));
	squat_at(fd, &space, SQUAT_FULL);
}

/* The daemon that this process starts has the name, too. */
static void connect_and_find_name(int fd)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockname_space space;
	struct ctl_client *client;
	struct sockname name;

	become_user(VICTIM);
	client = join();
	sockname_space_of_user(VICTIM, &space);
	sockname_of_daemon(&space, &name);
	CHECK(!connect(sock, (struct sockaddr *)&name.addr, name.len));
	close(sock);
	ctl_close(client);
}

static void connect_to_squatter(int fd)
{
	struct ctl_client *c;
	char why[256] = "";

	become_user(VICTIM);
	CHECK(ctl_connect(&c, make_arena(), make_wake(), make_arena(), "test", why, sizeof(why)) ==
	      -EPERM);
	CHECK(strstr(why, "12346"));
}

/* Two processes meet in the directory, to which another user has no access. */
static void connect_beside_squatter(int fd)
{
	struct ctl_peer_info peer;
	struct ctl_client *a, *b;

	become_user(VICTIM);
	a = join();
	b = join();
	CHECK(!ctl_peer(a, ctl_slot(b), &peer));
	close_peer(&peer);
	ctl_close(b);
	ctl_close(a);
}

static void test_squatted_name(void **state)
{
	static const char dir[] = "/tmp/verbatim-12345";
	struct worker squatter, victim;

	need_root();
	worker_start(&squatter, squat);
	hear(squatter.fd);
	worker_start(&victim, connect_beside_squatter);
	worker_end(&victim);
	/* If the other user has both names, the message names it. */
	CHECK(!chown(dir, SQUATTER, -1));
	worker_start(&victim, connect_to_squatter);
	worker_end(&victim);
	CHECK(!chown(dir, VICTIM, -1));
	worker_kill(&squatter);
}

static void check(void (*squatter_main)(int fd), void (*victim_main)(int fd))
{
	struct worker squatter, victim;

	need_root();
	worker_start(&squatter, squatter_main);
	hear(squatter.fd);
	worker_start(&victim, victim_main);
	worker_end(&victim);
	worker_kill(&squatter);
}

static void test_name_without_listener(void **state)
{
	check(squat_bound, connect_beside_squatter);
}

static void test_name_with_full_queue(void **state)
{
	check(squat_full, connect_beside_squatter);
}

static void test_systems_name_with_full_queue(void **state)
{
	check(squat_full_of_system, connect_beside_squatter);
}

static void test_name_that_becomes_free(void **state)
{
	check(squat_shortly, connect_and_find_name);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_squatted_name),
		TEST(test_name_without_listener),
		TEST(test_name_that_becomes_free),
		TEST(test_name_with_full_queue),
		TEST(test_systems_name_with_full_queue),
	};

	return cmocka_run_group_tests_name("squatters", tests, NULL, NULL);
}
