/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP port 4791: each process gets the packets of its slot; a port that cannot be opened has a
 * reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ports_rig.h"

#include "../udp/net.h"
#include "ctl/fdmsg.h"

static bool has_own_network; /* where no other program has port 4791 of ::1 */

static void test_steering(void **state)
{
	struct worker a[3];
	unsigned slots[3];
	uint8_t gid[CTL_GID_BYTES];
	uint64_t inode;

	this_address(gid);
	for (int i = 0; i < 3; i++)
		slots[i] = start(&a[i], false);
	/* no port before it is needed */
	wait_until_free(gid);
	/* in any order of asking */
	CHECK(ask(&a[2], ORDER_PORT) == 0);
	CHECK(ask(&a[0], ORDER_PORT) == 0);
	CHECK(ask(&a[1], ORDER_PORT) == 0);
	check_steering(a, slots, 3);
	/* asked again, it is the same socket */
	inode = ask(&a[1], ORDER_INODE);
	CHECK(ask(&a[1], ORDER_INODE) == inode);
	CHECK(ask(&a[2], ORDER_INODE) != inode);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
	/* and none after it was */
	wait_until_free(gid);
}

/* Many processes: the group grows while it is in use. */
static void test_growth(void **state)
{
	enum { MANY = 21 };
	struct worker a[MANY];
	unsigned slots[MANY];

	for (int i = 0; i < MANY; i++)
		slots[i] = start(&a[i], i % 3 == 0);
	check_steering(a, slots, 1);
	CHECK(ask(&a[MANY - 1], ORDER_PORT) == 0);
	CHECK(ask(&a[10], ORDER_PORT) == 0);

	struct worker some[] = { a[0], a[10], a[MANY - 1] };
	unsigned some_slots[] = { slots[0], slots[10], slots[MANY - 1] };

	check_steering(some, some_slots, 3);
	for (int i = 0; i < MANY; i++)
		worker_end(&a[i]);
}

/* A slot's next process gets no packets of the last one. */
static void test_successor(void **state)
{
	struct worker a[2];
	unsigned slots[2];
	uint8_t gid[CTL_GID_BYTES];
	struct ctl_client *c = join();
	int fd;

	this_address(gid);
	fd = open_port(c, gid);
	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	check_steering(a, slots, 2);
	send_marks(gid, slots[0], 1, 16);
	worker_kill(&a[0]);
	/* The daemon has noticed when the slot is given out again. */
	CHECK(start(&a[0], false) == slots[0]);
	send_marks(gid, slots[0], 1, 16);
	CHECK(ask(&a[0], ORDER_PORT) == 0);
	CHECK(ask(&a[0], ORDER_RECEIVE) == 0);
	check_steering(a, slots, 2);
	CHECK(receive_marks(fd) == 0);
	worker_end(&a[0]);
	worker_end(&a[1]);
	close(fd);
	ctl_close(c);
	wait_until_free(gid);
}

/* The descriptors of a group that has ended are closed. */
static void test_ended_group_leaves_nothing(void **state)
{
	struct ctl_client *c = join();
	pid_t daemon = ctl_daemon_pid(c);
	unsigned before = count_fds(daemon);
	struct worker w;

	start(&w, true);
	CHECK(count_fds(daemon) > before);
	worker_end(&w);
	for (int64_t end = now_ms() + PATIENCE_MS; count_fds(daemon) > before;) {
		CHECK(now_ms() < end);
		usleep(1000);
	}
	ctl_close(c);
}

/*
 * ------------------------------------------------------------------------------------------ Ports
 * that cannot be opened.
 */

static void test_port_taken(void **state)
{
	struct ctl_client *c = join();
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES], pid[32];
	int fd;

	this_address(gid);
	fd = bind_plain(gid);
	CHECK(fd >= 0);
	CHECK(get_port(c, gid, why) == -EADDRINUSE);
	snprintf(pid, sizeof(pid), "process %d (", (int)getpid());
	CHECK(strstr(why, pid) != NULL);
	close(fd);
	fd = open_port(c, gid);
	close(fd);
	ctl_close(c);
}

static void *close_later(void *fd)
{
	usleep(20000); /* the daemon waits for no longer than a second */
	close(*(int *)fd);
	return NULL;
}

/* A process that ends closes its socket late. The next process does not notice. */
static void test_last_process_goes_slowly(void **state)
{
	struct ctl_client *c = join();
	uint8_t gid[CTL_GID_BYTES];
	pthread_t closing;
	int fd;

	this_address(gid);
	fd = leave_socket(c, gid);
	CHECK(!pthread_create(&closing, NULL, close_later, &fd));
	close(open_port(c, gid));
	pthread_join(closing, NULL);
	ctl_close(c);
}

/* The process did not end, or passed its socket on: the holder counts as any other program. */
static void test_last_process_stays(void **state)
{
	struct ctl_client *c = join();
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	int fd;

	this_address(gid);
	fd = leave_socket(c, gid);
	CHECK(get_port(c, gid, why) == -EADDRINUSE);
	close(fd);
	close(open_port(c, gid));
	ctl_close(c);
}

/* Another socket of this user with SO_REUSEPORT is refused, too. */
static void test_port_taken_with_reuseport(void **state)
{
	struct ctl_client *c = join();
	struct sockaddr_storage address;
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	socklen_t len;
	int fd, on = 1;

	this_address(gid);
	len = to_socket_address(gid, &address);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)));
	CHECK(!bind(fd, (struct sockaddr *)&address, len));
	CHECK(get_port(c, gid, why) == -EADDRINUSE);
	close(fd);
	ctl_close(c);
}

static void test_bad_addresses(void **state)
{
	static const struct {
		uint8_t gid[CTL_GID_BYTES];
		int rc;
	} rows[] = {
		{ { 0 }, -EADDRNOTAVAIL },
		{ { [10] = 0xff, 0xff, 0, 0, 0, 0 }, -EADDRNOTAVAIL },
		{ { [10] = 0xff, 0xff, 192, 0, 2, 1 }, -EADDRNOTAVAIL },
		{ { [10] = 0xff, 0xff, 239, 1, 2, 3 }, -EADDRNOTAVAIL },
		{ { [10] = 0xff, 0xff, 255, 255, 255, 255 }, -EADDRNOTAVAIL },
		{ { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 }, -EADDRNOTAVAIL },
		{ { 0xff, 0x02, [15] = 1 }, -EADDRNOTAVAIL },
		{ { 0xfe, 0x80, [15] = 1 }, -EINVAL },
	};
	struct ctl_client *c = join();
	unsigned before = count_fds(ctl_daemon_pid(c));
	char why[CTL_WHY_BYTES];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int rc = get_port(c, rows[i].gid, why);

		if (rc != rows[i].rc)
			fprintf(stderr, "row %zu: %d %s\n", i, rc, why);
		CHECK(rc == rows[i].rc);
		CHECK(*why);
	}
	CHECK(comes_down_to(ctl_daemon_pid(c), before));
	ctl_close(c);
}

static void test_v6(void **state)
{
	const uint8_t gid[CTL_GID_BYTES] = { [15] = 1 };
	struct ctl_client *c = join();
	int fd = has_own_network ? bind_plain(gid) : -1;

	if (fd < 0) {
		print_message("port 4791 of ::1 may not be free here\n");
		ctl_close(c);
		skip();
	}
	close(fd);
	fd = open_port(c, gid);
	send_marks(gid, ctl_slot(c), 1, 16);
	send_marks(gid, ctl_slot(c) + 1, 100, 1);
	send_marks(gid, 0, 10000, 1);
	CHECK(receive_marks(fd) == 16);
	close(fd);
	ctl_close(c);
	wait_until_free(gid);
}

/*
 * ------------------------------------------------------------------------------------------ Forged
 * descriptor stores.
 */

static int make_fd_store_of(const int *fds, int count)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);
	int fd_store = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(!bind(fd_store, (struct sockaddr *)&name, sizeof(sa_family_t)));
	CHECK(!getsockname(fd_store, (struct sockaddr *)&name, &len));
	CHECK(!connect(fd_store, (struct sockaddr *)&name, len));
	for (int i = 0; i < count; i += 4)
		CHECK(!fdmsg_send(fd_store, "", 1, fds + i, 4));
	return fd_store;
}

static int return_fd_store(int sock, const uint8_t *gid, int fd_store)
{
	struct ctl_port kept = { .header = { .type = CTL_PORT_KEPT, .seq = 7 } };
	struct fdmsg m;

	memcpy(kept.gid, gid, sizeof(kept.gid));
	CHECK(!fdmsg_send(sock, &kept, sizeof(kept), &fd_store, 1));
	CHECK(!fdmsg_wait(sock, (now_ms() + PATIENCE_MS) * 1000000, &m));
	fdmsg_close_fds(&m);
	CHECK(m.body.header.type == CTL_PORT_REPLY && m.body.header.seq == 7);
	return m.body.port_reply.status;
}

static int raw_join(void)
{
	struct ctl_hello hello = { .greeting = { .header = { .type = CTL_HELLO, .seq = 1 },
						 .magic = CTL_MAGIC,
						 .version = CTL_VERSION } };
	int fds[] = { make_arena(), make_wake(), make_arena() };
	int sock = raw_connect();
	struct fdmsg m;

	CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 3));
	CHECK(!fdmsg_wait(sock, (now_ms() + PATIENCE_MS) * 1000000, &m));
	CHECK(m.body.welcome.status == 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return sock;
}

static void test_false_fd_stores(void **state)
{
	struct ctl_client *c = join();
	pid_t daemon = ctl_daemon_pid(c);
	uint8_t gid[CTL_GID_BYTES];
	int sock = raw_join(), before, fd, pipes[2], junk[8];
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	this_address(gid);
	CHECK(!pipe2(pipes, O_CLOEXEC));
	before = (int)count_fds(daemon);
	/* no descriptor stores */
	CHECK(return_fd_store(sock, gid, pipes[0]) == EPROTO);
	CHECK(return_fd_store(sock, gid, udp) == EPROTO);
	/* nothing in it, the wrong things, too few of them, words without descriptors */
	fd = make_fd_store_of(NULL, 0);
	CHECK(return_fd_store(sock, gid, fd) == EPROTO);
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK(return_fd_store(sock, gid, fd) == EPROTO);
	close(fd);
	for (int i = 0; i < 8; i++)
		junk[i] = i % 2 ? udp : pipes[0];
	fd = make_fd_store_of(junk, 8);
	CHECK(return_fd_store(sock, gid, fd) == EPROTO);
	close(fd);
	for (int i = 0; i < 8; i++)
		junk[i] = udp;
	fd = make_fd_store_of(junk, 8);
	CHECK(return_fd_store(sock, gid, fd) == EPROTO);
	/* a group that is there already keeps its own */
	close(open_port(c, gid));
	CHECK(return_fd_store(sock, gid, fd) == EEXIST);
	close(fd);
	/* a descriptor store of descriptor stores */
	for (int i = 0; i < 8; i++)
		junk[i] = sock;
	fd = make_fd_store_of(junk, 4);
	CHECK(return_fd_store(sock, gid, fd) == EEXIST);
	close(fd);
	ctl_close(c);
	wait_until_free(gid);
	CHECK(comes_down_to(daemon, (unsigned)before));
	close(sock);
	close(udp);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
#define port_test(f) cmocka_unit_test_setup_teardown(f, ports_setup, harness_teardown)
	const struct CMUnitTest tests[] = {
		port_test(test_steering),	    port_test(test_growth),
		port_test(test_successor),	    port_test(test_ended_group_leaves_nothing),
		port_test(test_port_taken),	    port_test(test_last_process_goes_slowly),
		port_test(test_last_process_stays), port_test(test_port_taken_with_reuseport),
		port_test(test_bad_addresses),	    port_test(test_v6),
		port_test(test_false_fd_stores),
	};

	has_own_network = net_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
