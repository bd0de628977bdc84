/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP port 4791: each process gets the packets of its slot, whichever processes die in between; a
 * port that cannot be opened has a reason.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#include "../udp/net.h"
#include "ctl/fdmsg.h"

#define SLOT_SHIFT 14
#define SEGMENT	   24 /* bytes of a packet here */

static unsigned addresses; /* each test has one of its own */

static bool has_own_network; /* where no other program has port 4791 of ::1 */
static uint32_t network;     /* set before the workers are forked */

static atomic_bool time_stands;
static struct timespec stood_at;

/* 127.x.y.z, for this test only. */
static void this_address(uint8_t gid[CTL_GID_BYTES])
{
	uint32_t a = htonl(network | addresses);

	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &a, 4);
}

static int setup(void **state)
{
	network = 0x7f000000 | ((uint32_t)getpid() & 0xffff) << 8;
	addresses++;
	time_stands = false;
	return harness_setup(state);
}

static socklen_t to_socket_address(const uint8_t *gid, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (gid[10] == 0xff) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(CTL_UDP_PORT);
		memcpy(&v4->sin_addr, gid + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(CTL_UDP_PORT);
	memcpy(&v6->sin6_addr, gid, 16);
	return sizeof(*v6);
}

/*
 * A socket that is no client's, bound to the address's port without SO_REUSEPORT. -1: it is taken.
 */
static int bind_plain(const uint8_t *gid)
{
	struct sockaddr_storage address;
	socklen_t len = to_socket_address(gid, &address);
	int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, len) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Packets for a QP of the slot, one datagram or a GSO batch; `mark` comes back from receive_marks.
 */
static void send_marks(const uint8_t *gid, unsigned slot, uint32_t mark, int packets)
{
	struct sockaddr_storage to;
	socklen_t len = to_socket_address(gid, &to);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), segment = SEGMENT;
	uint8_t bytes[16 * SEGMENT] = { 0 };

	for (int i = 0; i < packets; i++) {
		uint32_t qpn = htonl(0xaa000000 | slot << SLOT_SHIFT | 5);

		memcpy(bytes + i * SEGMENT + 4, &qpn, 4);
		memcpy(bytes + i * SEGMENT + 12, &mark, 4);
	}
	if (packets > 1)
		CHECK(!setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)));
	CHECK(sendto(fd, bytes, (size_t)packets * SEGMENT, 0, (struct sockaddr *)&to, len) ==
	      packets * SEGMENT);
	close(fd);
}

/* The sum of the marks of all packets: each test's marks are powers of ten. */
static uint64_t receive_marks(int fd)
{
	uint8_t bytes[65536];
	uint64_t sum = 0;
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		for (ssize_t at = 0; at < n; at += SEGMENT) {
			uint32_t mark;

			memcpy(&mark, bytes + at + 12, sizeof(mark));
			sum += mark;
		}
	}
	return sum;
}

static int get_port(struct ctl_client *c, const uint8_t *gid, char why[CTL_WHY_BYTES])
{
	int fd = -1, rc;

	*why = '\0';
	rc = ctl_port(c, gid, 0, &fd, why, CTL_WHY_BYTES);
	if (rc && !*why)
		fprintf(stderr, "%d without a why\n", rc);
	return rc ? rc : fd;
}

static int open_port(struct ctl_client *c, const uint8_t *gid)
{
	char why[CTL_WHY_BYTES];
	int fd = get_port(c, gid, why);

	if (fd < 0)
		fprintf(stderr, "ctl_port: %d %s\n", fd, why);
	CHECK(fd >= 0);
	return fd;
}

/*
 * ------------------------------------------------------------------------------------------
 * An agent: a process that does as it is told.
 */

enum order {
	ORDER_JOIN,	 /* answers its slot */
	ORDER_PORT,	 /* answers the negative result, or 0 */
	ORDER_RECEIVE,	 /* answers the sum of the marks */
	ORDER_RECONNECT, /* answers the negative result */
	ORDER_INODE,	 /* asks again; answers the socket's inode */
	ORDER_LOSE,	 /* waits until the daemon is gone */
};

static void agent(int orders)
{
	struct ctl_client *c = NULL;
	struct ctl_notice notice;
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	struct stat st;
	uint64_t order;
	int fd = -1, rc;

	this_address(gid);
	while (recv(orders, &order, sizeof(order), 0) == sizeof(order)) {
		switch ((enum order)order) {
		case ORDER_JOIN:
			c = join();
			say(orders, ctl_slot(c));
			break;
		case ORDER_PORT:
			rc = get_port(c, gid, why);
			if (rc >= 0)
				fd = rc;
			say(orders, (uint64_t)(rc < 0 ? -rc : 0));
			break;
		case ORDER_RECEIVE:
			say(orders, receive_marks(fd));
			break;
		case ORDER_RECONNECT:
			rc = ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why));
			say(orders, (uint64_t)-rc);
			break;
		case ORDER_INODE:
			rc = open_port(c, gid);
			CHECK(!fstat(rc, &st));
			close(rc);
			say(orders, st.st_ino);
			break;
		case ORDER_LOSE:
			for (int64_t end = now_ms() + PATIENCE_MS;
			     ctl_next_notice(c, &notice) != -ENOTCONN;) {
				CHECK(now_ms() < end);
				usleep(1000);
			}
			say(orders, 0);
			break;
		}
	}
}

static uint64_t ask(struct worker *w, enum order order)
{
	say(w->fd, order);
	return hear(w->fd);
}

/* An agent with a slot, and with the port. */
static unsigned start(struct worker *w, bool port)
{
	unsigned slot;

	worker_start(w, agent);
	slot = (unsigned)ask(w, ORDER_JOIN);
	if (port)
		CHECK(ask(w, ORDER_PORT) == 0);
	return slot;
}

/* Each of three slots gets its own packets, single and in GSO batches, and none of others. */
static void check_steering(struct worker *agents, const unsigned *slots, int count)
{
	static const uint32_t marks[] = { 1, 100, 10000 };
	uint8_t gid[CTL_GID_BYTES];

	this_address(gid);
	for (int i = 0; i < count; i++)
		ask(&agents[i], ORDER_RECEIVE);
	for (int i = 0; i < count; i++) {
		send_marks(gid, slots[i], marks[i], 1);
		send_marks(gid, slots[i], marks[i], 16);
	}
	send_marks(gid, 0, 1000000, 1);
	send_marks(gid, 1023, 1000000, 16);
	send_marks(gid, 900, 1000000, 1);
	for (int i = 0; i < count; i++)
		CHECK(ask(&agents[i], ORDER_RECEIVE) == 17 * marks[i]);
}

static void kill_daemon(void)
{
	pid_t pid = daemon_pid();

	CHECK(pid > 0);
	kill(pid, SIGKILL);
	CHECK(wait_for_end(pid, PATIENCE_MS));
}

static void wait_until_free(const uint8_t *gid)
{
	int64_t end = now_ms() + PATIENCE_MS;
	int fd;

	while ((fd = bind_plain(gid)) < 0) {
		CHECK(now_ms() < end);
		usleep(1000);
	}
	close(fd);
}

/* ------------------------------------------------------------------------------------------ */

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
 * ------------------------------------------------------------------------------------------
 * The daemon is killed.
 */

static void lose_and_reconnect(struct worker *w)
{
	CHECK(ask(w, ORDER_LOSE) == 0);
	CHECK(ask(w, ORDER_RECONNECT) == 0);
}

static void test_daemon_killed(void **state)
{
	struct worker a[3];
	unsigned slots[3];
	uint64_t inode;

	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	inode = ask(&a[0], ORDER_INODE);
	for (int round = 0; round < 2; round++) {
		kill_daemon();
		check_steering(a, slots, 2);
		lose_and_reconnect(&a[0]);
		check_steering(a, slots, 2);
		lose_and_reconnect(&a[1]);
		check_steering(a, slots, 2);
		CHECK(ask(&a[0], ORDER_INODE) == inode);
	}
	/* the new daemon goes on where the old one ended */
	slots[2] = start(&a[2], true);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
}

/* A new process connects before the processes that have the port return. */
static void test_newcomer_waits(void **state)
{
	struct worker a[3];
	unsigned slots[3];

	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	kill_daemon();
	slots[2] = start(&a[2], false);
	CHECK(slots[2] != slots[0] && slots[2] != slots[1]);
	say(a[2].fd, ORDER_PORT);
	usleep(20000); /* the request waits for no longer than two seconds */
	lose_and_reconnect(&a[1]);
	CHECK(hear(a[2].fd) == 0);
	check_steering(a, slots, 3);
	lose_and_reconnect(&a[0]);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
}

static void test_newcomer_is_told_to_wait(void **state)
{
	struct worker a;
	struct ctl_client *c;
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES], pid[32];
	int fd;

	this_address(gid);
	start(&a, true);
	kill_daemon();
	c = join();
	CHECK(get_port(c, gid, why) == -EAGAIN);
	snprintf(pid, sizeof(pid), "process %d ", (int)a.pid);
	CHECK(strstr(why, pid) != NULL);
	/* that one dies, and its port with it */
	worker_kill(&a);
	fd = open_port(c, gid);
	close(fd);
	ctl_close(c);
}

static void *reconnect_later(void *client)
{
	struct ctl_notice notice;
	char why[CTL_WHY_BYTES];

	while (ctl_next_notice(client, &notice) != -ENOTCONN)
		usleep(1000);
	usleep(20000);
	CHECK(!ctl_reconnect(client, CTL_CONNECT_MS, why, sizeof(why)));
	return NULL;
}

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_MONOTONIC || !time_stands)
		return __real_clock_gettime(clock, time);
	*time = stood_at;
	return 0;
}

/* A program asks in the moment between two daemons: it does not notice. */
static void test_asked_between_daemons(void **state)
{
	struct ctl_client *c = join();
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	pthread_t waker;

	this_address(gid);
	kill_daemon();
	/* The request gives up after 500 ms: until then the next daemon may not have begun. */
	CHECK(!clock_gettime(CLOCK_MONOTONIC, &stood_at));
	time_stands = true;
	CHECK(!pthread_create(&waker, NULL, reconnect_later, c));
	close(open_port(c, gid));
	pthread_join(waker, NULL);
	time_stands = false;
	/* and if no process reconnects, the request fails */
	kill_daemon();
	CHECK(get_port(c, gid, why) == -ENOTCONN);
	ctl_close(c);
}

/* Daemon and process die; the slot's next process gets the socket, without stale packets. */
static void test_both_killed(void **state)
{
	struct worker a[2];
	unsigned slots[2];
	uint8_t gid[CTL_GID_BYTES];

	this_address(gid);
	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	kill_daemon();
	worker_kill(&a[0]);
	send_marks(gid, slots[0], 1, 16);
	check_steering(a + 1, slots + 1, 1);
	lose_and_reconnect(&a[1]);
	CHECK(start(&a[0], true) == slots[0]);
	CHECK(ask(&a[0], ORDER_RECEIVE) == 0);
	check_steering(a, slots, 2);
	worker_end(&a[0]);
	worker_end(&a[1]);
}

/* The last process with a higher slot keeps the order of those before it. */
static void test_order_outlives_the_owners(void **state)
{
	struct worker a[3];
	unsigned slots[3];

	for (int i = 0; i < 3; i++)
		slots[i] = start(&a[i], true);
	kill_daemon();
	worker_kill(&a[0]);
	worker_kill(&a[2]);
	check_steering(a + 1, slots + 1, 1);
	lose_and_reconnect(&a[1]);
	CHECK(start(&a[0], true) == slots[0]);
	CHECK(start(&a[2], true) == slots[2]);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
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
#define port_test(f) cmocka_unit_test_setup_teardown(f, setup, harness_teardown)
	const struct CMUnitTest tests[] = {
		port_test(test_steering),
		port_test(test_growth),
		port_test(test_successor),
		port_test(test_ended_group_leaves_nothing),
		port_test(test_daemon_killed),
		port_test(test_newcomer_waits),
		port_test(test_newcomer_is_told_to_wait),
		port_test(test_asked_between_daemons),
		port_test(test_both_killed),
		port_test(test_order_outlives_the_owners),
		port_test(test_port_taken),
		port_test(test_last_process_goes_slowly),
		port_test(test_last_process_stays),
		port_test(test_port_taken_with_reuseport),
		port_test(test_bad_addresses),
		port_test(test_v6),
		port_test(test_false_fd_stores),
	};

	has_own_network = net_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
