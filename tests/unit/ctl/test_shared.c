/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_SOCKET_DIR: a verbatimd of the directory that gives slots and links, beside that of the
 * network namespace, which has ports and groups.
 */
#include "../daemon/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int set_up(void **state)
{
	int rc = harness_setup(state);

	strcpy(dir, "/tmp/test-shared.XXXXXX");
	if (rc || !mkdtemp(dir))
		return -1;
	setenv("VERBATIM_SOCKET_DIR", dir, 1);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	unsetenv("VERBATIM_SOCKET_DIR");
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK(!system(command));
	return harness_teardown(state);
}

static struct ctl_client *join_shared(void)
{
	struct ctl_client *c;
	char why[256] = "";
	int rc = ctl_connect_shared(&c, make_arena(), make_wake(), make_arena(), "test", why,
				    sizeof(why));

	if (rc)
		fprintf(stderr, "ctl_connect_shared: %d %s\n", rc, why);
	CHECK(!rc && c);
	return c;
}

static struct ctl_client *join_local(const struct ctl_client *shared)
{
	struct ctl_client *c;
	char why[256] = "";
	int rc = ctl_join(&c, shared, why, sizeof(why));

	if (rc)
		fprintf(stderr, "ctl_join: %d %s\n", rc, why);
	CHECK(!rc && c);
	return c;
}

static void lose_daemon(struct ctl_client *c)
{
	pid_t daemon = ctl_daemon_pid(c);
	struct ctl_notice notice;

	CHECK(!kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	CHECK(ctl_next_notice(c, &notice) == -ENOTCONN);
}

/* ::ffff:127.x.y.1, for this process only. */
static void this_address(uint8_t gid[CTL_GID_BYTES])
{
	memset(gid, 0, CTL_GID_BYTES);
	gid[10] = gid[11] = 0xff;
	gid[12] = 127;
	gid[13] = (uint8_t)(getpid() >> 8);
	gid[14] = (uint8_t)getpid();
	gid[15] = 1;
}

static void test_two_daemons(void **state)
{
	uint8_t address[CTL_GID_BYTES];
	struct ctl_client *a = join_shared(), *b = join_shared();
	struct ctl_client *la = join_local(a), *lb = join_local(b);
	struct ctl_peer_info peer;
	char why[256];
	int fd;

	CHECK(ctl_slot(a) == 1 && ctl_slot(b) == 2 && ctl_slot(la) == 1 && ctl_slot(lb) == 2);
	CHECK(ctl_daemon_pid(a) == ctl_daemon_pid(b) && ctl_daemon_pid(la) == ctl_daemon_pid(lb) &&
	      ctl_daemon_pid(a) != ctl_daemon_pid(la));
	CHECK(!ctl_peer(a, 2, &peer));
	close_peer(&peer);
	this_address(address);
	CHECK(!ctl_port(lb, address, 0, &fd, why, sizeof(why)));
	close(fd);
	ctl_close(la);
	ctl_close(a);
	ctl_close(lb);
	ctl_close(b);
}

/* Each daemon may end: the process keeps its slot at both. */
static void test_daemons_end(void **state)
{
	struct ctl_client *a = join_shared(), *la = join_local(a);
	char why[256];

	for (int i = 0; i < 2; i++) {
		lose_daemon(la);
		CHECK(!ctl_reconnect(la, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(la) == 1);
		lose_daemon(a);
		CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(a) == 1);
	}
	CHECK(ctl_daemon_pid(a) != ctl_daemon_pid(la));
	ctl_close(la);
	ctl_close(a);
}

static void expect_no_entry(const struct ctl_client *shared)
{
	struct ctl_client *c = NULL;
	char why[256] = "";

	CHECK(ctl_join(&c, shared, why, sizeof(why)) == -EXDEV && !c);
	CHECK(strstr(why, "VERBATIM_SOCKET_DIR"));
}

/* Processes of one network namespace share one directory, or all do not. */
static void test_not_all_share(void **state)
{
	struct ctl_client *other = join(), *a = join_shared(), *la, *c = NULL;
	char why[256] = "", another[80];

	expect_no_entry(a);
	ctl_close(other);
	la = join_local(a);
	CHECK(ctl_connect(&c, make_arena(), make_wake(), make_arena(), "test", why, sizeof(why)) ==
		      -EXDEV &&
	      !c);
	snprintf(another, sizeof(another), "%s/another", dir);
	CHECK(!mkdir(another, 0700));
	setenv("VERBATIM_SOCKET_DIR", another, 1);
	other = join_shared();
	expect_no_entry(other);
	ctl_close(la);
	ctl_close(a);
	la = join_local(other);
	ctl_close(la);
	ctl_close(other);
}

/* A slot that its daemon gives is that at the other one, too, also after other processes. */
static void test_slots_agree(void **state)
{
	struct ctl_client *a[3], *l[3], *other = join_shared(); /* in another network namespace */

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			a[i] = join_shared();
			l[i] = join_local(a[i]);
			CHECK(ctl_slot(a[i]) == ctl_slot(l[i]));
		}
		for (int i = 0; i < 3; i++) { /* the order in which they end: 1, 0, 2 */
			ctl_close(l[i ^ (i < 2)]);
			ctl_close(a[i ^ (i < 2)]);
		}
	}
	ctl_close(other);
}

/* Whoever has not returned to the directory's next daemon is not taken for dead. */
static void test_peer_that_is_away(void **state)
{
	struct ctl_client *a = join_shared(), *b = join_shared();
	struct ctl_peer_info peer;
	struct ctl_notice notice;
	char why[256];

	CHECK(ctl_peer(a, 3, &peer) == -ENOENT);
	lose_daemon(a);
	CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)));
	CHECK(ctl_peer(a, 2, &peer) == -EAGAIN);
	CHECK(ctl_peer(a, 3, &peer) == -ENOENT);
	CHECK(ctl_next_notice(b, &notice) == -ENOTCONN);
	CHECK(!ctl_reconnect(b, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(b) == 2);
	CHECK(!ctl_peer(a, 2, &peer));
	close_peer(&peer);
	ctl_close(a);
	ctl_close(b);
}

/* The volume may be emptied under them. */
static void test_names_are_gone(void **state)
{
	struct ctl_client *a = join_shared();
	char command[128], why[256];

	snprintf(command, sizeof(command), "rm -rf %s/*", dir);
	CHECK(!system(command));
	lose_daemon(a);
	CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(a) == 1);
	ctl_close(a);
}

static void test_has_neither_ports_nor_connections(void **state)
{
	struct ctl_client *a = join_shared();
	uint8_t address[CTL_GID_BYTES];
	struct ctl_notice notice;
	char why[256];
	int fd;

	this_address(address);
	CHECK(ctl_port(a, address, 0, &fd, why, sizeof(why)) < 0);
	CHECK(ctl_next_notice(a, &notice) == -ENOTCONN);
	CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)));
	ctl_close(a);
}

static void test_slashes_at_the_end(void **state)
{
	struct ctl_client *a = join_shared(), *b;
	char value[80], why[256];

	snprintf(value, sizeof(value), "%s//", dir);
	setenv("VERBATIM_SOCKET_DIR", value, 1);
	b = join_shared();
	CHECK(ctl_daemon_pid(a) == ctl_daemon_pid(b) && ctl_slot(b) == 2);
	ctl_close(b);
	/* The next one compares the names of tokens with its own. */
	lose_daemon(a);
	CHECK(!ctl_reconnect(a, CTL_CONNECT_MS, why, sizeof(why)) && ctl_slot(a) == 1);
	ctl_close(a);
}

static void expect_refusal(const char *value, int error, const char *words)
{
	struct ctl_client *c = NULL;
	char why[256] = "";

	setenv("VERBATIM_SOCKET_DIR", value, 1);
	CHECK(ctl_connect_shared(&c, make_arena(), make_wake(), make_arena(), "test", why,
				 sizeof(why)) == error);
	CHECK(!c && strstr(why, "VERBATIM_SOCKET_DIR") && strstr(why, words));
}

static void test_directories_of_no_use(void **state)
{
	char part[128], longer[200];
	struct ctl_client *c = NULL;
	char why[256];

	expect_refusal("relative", -EINVAL, "no absolute path");
	expect_refusal("/no/such/directory", -ENOENT, "No such file");
	snprintf(longer, sizeof(longer), "%s/%070d", dir, 0);
	CHECK(!mkdir(longer, 0700));
	expect_refusal(longer, -ENAMETOOLONG, "too long");
	/* others might bind names there */
	snprintf(part, sizeof(part), "%s/verbatim-%u", dir, (unsigned)geteuid());
	CHECK(!mkdir(part, 0700) && !chmod(part, 0777));
	expect_refusal(dir, -EACCES, "others may write");
	CHECK(!rmdir(part));
	CHECK(!chmod(dir, 0777));
	expect_refusal(dir, -EPERM, "sticky");
	unsetenv("VERBATIM_SOCKET_DIR");
	CHECK(!ctl_connect_shared(&c, -1, -1, -1, "test", why, sizeof(why)) && !c);
}

/* The directory itself may be everybody's, as /tmp is. */
static void test_directory_of_all(void **state)
{
	CHECK(!chmod(dir, 01777));
	ctl_close(join_shared());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_two_daemons),		  TEST(test_daemons_end),
		TEST(test_not_all_share),	  TEST(test_slots_agree),
		TEST(test_peer_that_is_away),	  TEST(test_names_are_gone),
		TEST(test_slashes_at_the_end),	  TEST(test_has_neither_ports_nor_connections),
		TEST(test_directories_of_no_use), TEST(test_directory_of_all),
	};

	return cmocka_run_group_tests_name("ctl shared", tests, NULL, NULL);
}
