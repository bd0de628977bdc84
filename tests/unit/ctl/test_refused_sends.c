/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel refuses to send to verbatimd, as it does when a user has too many descriptors under
 * way, or out of memory: what is refused is sent later, and no connection is lost for good.
 */
#include "../daemon/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint8_t group[CTL_MGID_BYTES] = { 0xff, 0x0e, 1, 2, 3 };
static const int errors[] = { ETOOMANYREFS, ENOMEM, ENOBUFS };

#define ERRORS (sizeof(errors) / sizeof(errors[0]))

/* Messages of this type are refused with this errno, so many. */
static struct {
	enum ctl_type type;
	int error;
	atomic_int left;
} refuse;

static bool is_refused(const struct msghdr *m)
{
	const struct ctl_header *header = m->msg_iov[0].iov_base;

	return atomic_load(&refuse.left) && m->msg_iov[0].iov_len >= sizeof(*header) &&
	       header->type == refuse.type && atomic_fetch_sub(&refuse.left, 1) > 0;
}

/* In place of the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (m->msg_iovlen && is_refused(m)) {
		errno = refuse.error;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, m, flags);
}

static void refuse_next(enum ctl_type type, int error, int count)
{
	refuse.type = type;
	refuse.error = error;
	atomic_store(&refuse.left, count);
}

static int reconnect(struct ctl_client *c)
{
	char why[256] = "";
	int rc = ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why));

	if (rc)
		print_error("ctl_reconnect: %d %s\n", rc, why);
	return rc;
}

static void lose_daemon(struct ctl_client *c)
{
	pid_t pid = ctl_daemon_pid(c);
	struct ctl_notice notice;

	CHECK(!kill(pid, SIGKILL) && wait_for_end(pid, PATIENCE_MS));
	CHECK(ctl_next_notice(c, &notice) == -ENOTCONN);
}

/* 127.x.y.z, for this test only. */
static void this_address(uint8_t gid[CTL_GID_BYTES])
{
	uint32_t a = htonl(0x7f000000 | ((uint32_t)getpid() & 0xffff) << 8 | 1);

	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &a, 4);
}

static int get_port(struct ctl_client *c)
{
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	int fd;

	this_address(gid);
	return ctl_port(c, gid, 0, &fd, why, sizeof(why)) ?: fd;
}

/* The next daemon gets the port later; a process that comes then shares it. */
static void test_kept_port(void **state)
{
	struct ctl_client *c = join(), *next;
	unsigned slot = ctl_slot(c);

	CHECK(get_port(c) >= 0);
	for (size_t i = 0; i < ERRORS; i++) {
		lose_daemon(c);
		refuse_next(CTL_PORT_KEPT, errors[i], 3);
		CHECK(!reconnect(c) && ctl_slot(c) == slot);
		for (int64_t until = now_ms() + PATIENCE_MS; ctl_return_ports(c) == -EAGAIN;)
			CHECK(now_ms() < until);
		CHECK(!atomic_load(&refuse.left));
		next = join();
		CHECK(ctl_slot(next) != slot && get_port(next) >= 0);
		ctl_close(next);
	}
	/* A request returns it, too. */
	lose_daemon(c);
	refuse_next(CTL_PORT_KEPT, ETOOMANYREFS, 3);
	CHECK(!reconnect(c) && !ctl_mcast_attach(c, group) && !ctl_return_ports(c));
	ctl_close(c);
}

static void test_hello(void **state)
{
	struct ctl_client *c;

	for (size_t i = 0; i < ERRORS; i++) {
		refuse_next(CTL_HELLO, errors[i], 3);
		c = join();
		lose_daemon(c);
		refuse_next(CTL_HELLO, errors[i], 3);
		CHECK(!reconnect(c));
		ctl_close(c);
	}
}

static void test_request(void **state)
{
	struct ctl_client *c = join();

	for (size_t i = 0; i < ERRORS; i++) {
		refuse_next(CTL_MCAST_ATTACH, errors[i], 3);
		CHECK(ctl_mcast_attach_again(c, group) == -EAGAIN);
		CHECK(!ctl_mcast_attach(c, group));
	}
	ctl_close(c);
}

/* This end gives the connection up: the daemon, which is there, must not keep the slot from it. */
static void test_connection_is_given_up(void **state)
{
	struct ctl_client *c = join();
	unsigned slot = ctl_slot(c);

	for (int i = 0; i < 10; i++) {
		refuse_next(CTL_MCAST_ATTACH, EIO, 1);
		CHECK(ctl_mcast_attach(c, group) == -ENOTCONN);
		CHECK(!reconnect(c) && ctl_slot(c) == slot);
		CHECK(!ctl_mcast_attach(c, group));
	}
	ctl_close(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kept_port),
		TEST(test_hello),
		TEST(test_request),
		TEST(test_connection_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
