/* SPDX-License-Identifier: BSD-2-Clause */
/* Several users: each has its own daemon, or all use the system's and do not meet there. */
#include "cm_raw.h"
#include "harness.h"
#include "system_daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/control.h"
#include "ctl/fdmsg.h"

static const uint8_t group[CTL_MGID_BYTES] = { 0xff, 0x0e, 9 };

/*
 * Sends its slot and daemon; then, for each slot that it gets, the result of ctl_peer; ends at 0.
 */
static void serve_as(int fd, uid_t uid)
{
	struct ctl_client *c;
	struct ctl_peer_info peer;
	uint64_t slots[CTL_BITMAP_WORDS];
	uint64_t ask;

	become_user(uid);
	c = join();
	CHECK(!ctl_mcast_attach(c, group));
	say(fd, ctl_slot(c));
	say(fd, (uint64_t)ctl_daemon_pid(c));
	while ((ask = hear(fd))) {
		int rc = ctl_peer(c, (unsigned)ask, &peer);

		if (!rc)
			close_peer(&peer);
		say(fd, (uint64_t)-rc);
		CHECK(!get_members(c, group, slots));
		say(fd, slots[0]);
	}
	ctl_close(c);
}

static void as_one_user(int fd)
{
	serve_as(fd, 20001);
}

static void as_another_user(int fd)
{
	serve_as(fd, 20002);
}

/* Tells a worker that it has done its work. */
static void dismiss(struct worker *w)
{
	say(w->fd, 0);
	worker_end(w);
}

static void test_each_user_has_a_daemon(void **state)
{
	struct worker a, b;
	pid_t a_daemon, b_daemon;

	need_root();
	worker_start(&a, as_one_user);
	worker_start(&b, as_another_user);
	CHECK(hear(a.fd) == 1);
	a_daemon = (pid_t)hear(a.fd);
	CHECK(hear(b.fd) == 1);
	b_daemon = (pid_t)hear(b.fd);
	CHECK(a_daemon != b_daemon);
	say(a.fd, 2);
	CHECK(hear(a.fd) == ENOENT);
	hear(a.fd);
	dismiss(&a);
	dismiss(&b);
	CHECK(wait_for_end(a_daemon, PATIENCE_MS) && wait_for_end(b_daemon, PATIENCE_MS));
}

static void test_one_daemon_for_all(void **state)
{
	struct worker a, b, c;
	pid_t daemon;

	need_root();
	daemon = start_system_daemon();
	worker_start(&a, as_one_user);
	CHECK(hear(a.fd) == 1);
	CHECK((pid_t)hear(a.fd) == daemon);
	worker_start(&b, as_another_user);
	CHECK(hear(b.fd) == 2);
	CHECK((pid_t)hear(b.fd) == daemon);
	worker_start(&c, as_one_user);
	CHECK(hear(c.fd) == 3);
	CHECK((pid_t)hear(c.fd) == daemon);

	/* Processes of one user meet, in groups too; those of another are not visible. */
	say(a.fd, 3);
	CHECK(hear(a.fd) == 0);
	CHECK(hear(a.fd) == (1 << 1 | 1 << 3));
	say(a.fd, 2);
	CHECK(hear(a.fd) == ENOENT);
	hear(a.fd);
	say(b.fd, 1);
	CHECK(hear(b.fd) == ENOENT);
	CHECK(hear(b.fd) == 1 << 2);

	dismiss(&a);
	dismiss(&b);
	dismiss(&c);
	/* It stays without clients, and ends when it is told. */
	CHECK(!wait_for_end(daemon, 500));
	stop_system_daemon(daemon, SIGTERM);
}

/*
 * ------------------------------------------------------------------------------------------
 * One UDP port.
 */

static void this_address(uint8_t gid[CTL_GID_BYTES])
{
	uint32_t a = htonl(0x7f000000 | ((uint32_t)getppid() & 0xffff) << 8 | 201);

	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &a, sizeof(a));
}

/* A datagram for a QP of the slot, with the sender's slot in it. */
static void send_to_slot(int fd, const uint8_t *gid, unsigned slot, uint8_t mark)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(CTL_UDP_PORT) };
	uint32_t qpn = htonl(slot << 14 | 1);
	uint8_t bytes[16] = { [12] = mark };

	memcpy(&to.sin_addr, gid + 12, 4);
	memcpy(bytes + 4, &qpn, 4);
	CHECK(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to)) ==
	      sizeof(bytes));
}

/* Says -result of ctl_port, the slot, and the descriptors it got; then each datagram's mark. */
static void use_port_as(int orders, uid_t uid)
{
	uint8_t gid[CTL_GID_BYTES], bytes[64];
	struct ctl_client *c;
	char why[CTL_WHY_BYTES];
	int fd = -1, rc;
	unsigned before;
	uint64_t slot;

	become_user(uid);
	this_address(gid);
	c = join();
	prctl(PR_SET_DUMPABLE, 1); /* its /proc is its own again */
	before = count_fds(getpid());
	rc = ctl_port(c, gid, 0, &fd, why, sizeof(why));
	say(orders, (uint64_t)-rc);
	say(orders, ctl_slot(c));
	say(orders, count_fds(getpid()) - before);
	while ((slot = hear(orders))) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		send_to_slot(fd, gid, (unsigned)slot, (uint8_t)(10 * slot + ctl_slot(c)));
		say(orders, 0);
		CHECK(poll(&p, 1, PATIENCE_MS) == 1);
		CHECK(recv(fd, bytes, sizeof(bytes), 0) == 16);
		say(orders, bytes[12]);
	}
	close(fd);
	ctl_close(c);
}

static void port_of_one(int fd)
{
	use_port_as(fd, 20001);
}

static void port_of_another(int fd)
{
	use_port_as(fd, 20002);
}

/*
 * The system's daemon divides the port among users, and gives no descriptor that would show others'
 * traffic.
 */
static void test_port_of_all(void **state)
{
	struct worker a, b;
	pid_t daemon;

	need_root();
	daemon = start_system_daemon();
	worker_start(&a, port_of_one);
	CHECK(hear(a.fd) == 0 && hear(a.fd) == 1 && hear(a.fd) == 1);
	worker_start(&b, port_of_another);
	CHECK(hear(b.fd) == 0 && hear(b.fd) == 2 && hear(b.fd) == 1);
	say(a.fd, 2);
	say(b.fd, 1);
	CHECK(hear(a.fd) == 0 && hear(b.fd) == 0);
	CHECK(hear(a.fd) == 12);
	CHECK(hear(b.fd) == 21);

	/*
	 * While the port is in use, no other user gets the slot: a process may still have its
	 * socket.
	 */
	struct worker c, d;

	dismiss(&a);
	worker_start(&c, port_of_another);
	CHECK(hear(c.fd) == 0 && hear(c.fd) == 3 && hear(c.fd) == 1);
	worker_start(&d, port_of_one);
	CHECK(hear(d.fd) == 0 && hear(d.fd) == 1 && hear(d.fd) == 1);
	dismiss(&b);
	dismiss(&c);
	dismiss(&d);
	stop_system_daemon(daemon, SIGTERM);
}

/* Two users' own daemons cannot share it; the second gets an error. */
static void test_port_of_each(void **state)
{
	struct worker a, b;

	need_root();
	worker_start(&a, port_of_one);
	CHECK(hear(a.fd) == 0 && hear(a.fd) == 1 && hear(a.fd) == 2);
	worker_start(&b, port_of_another);
	CHECK(hear(b.fd) == EADDRINUSE && hear(b.fd) == 1 && hear(b.fd) == 0);
	dismiss(&a);
	dismiss(&b);
}

/* Another user gets a reason, and is not served. */
static void call_as_stranger(int fd)
{
	struct sockname_space space;
	struct sockname name;
	struct ctl_welcome welcome;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	sockname_space_of_user(0, &space);
	sockname_of_daemon(&space, &name);
	CHECK(!setuid(20001));
	CHECK(!connect(sock, (struct sockaddr *)&name.addr, name.len));
	CHECK(read(sock, &welcome, sizeof(welcome)) == sizeof(welcome));
	CHECK(welcome.status == EACCES);
	CHECK(read(sock, &welcome, sizeof(welcome)) == 0);
}

static void test_stranger_is_refused(void **state)
{
	struct ctl_client *c;
	struct worker w;

	need_root();
	c = join();
	worker_start(&w, call_as_stranger);
	worker_end(&w);
	ctl_close(c);
}

#define AT_ONCE 30

/* Shared by all workers of a test; NULL: not counted. */
static struct {
	atomic_uint senders; /* processes that have tried to send descriptors */
	atomic_uint refused; /* those of them whose first try the kernel refused */
} * tries;

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	static bool has_tried;
	ssize_t n = __real_sendmsg(fd, m, flags);

	if (tries && m->msg_controllen && !has_tried) {
		int error = errno;

		has_tried = true;
		if (n < 0 && error == ETOOMANYREFS)
			tries->refused++;
		tries->senders++;
		errno = error;
	}
	return n;
}

static void join_with_few_descriptors(int fd)
{
	struct rlimit few;

	CHECK(!getrlimit(RLIMIT_NOFILE, &few));
	few.rlim_cur = 64;
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	become_user(20001);
	say(fd, 0);
	ctl_close(join());
	say(fd, 0);
	hear(fd);
}

/*
 * An ordinary user may have no more descriptors under way, in all its processes, than one of them
 * may open: here what 21 HELLOs have. The others wait.
 */
static void test_many_come_to_a_stopped_daemon(void **state)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	struct worker first, w[AT_ONCE];
	pid_t daemon;

	need_root();
	worker_start(&first, as_one_user);
	hear(first.fd);
	daemon = (pid_t)hear(first.fd);
	CHECK(!kill(daemon, SIGSTOP));
	tries = mmap(NULL, sizeof(*tries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	CHECK(tries != MAP_FAILED);
	for (int i = 0; i < AT_ONCE; i++) {
		worker_start(&w[i], join_with_few_descriptors);
		hear(w[i].fd);
	}
	while (tries->senders < AT_ONCE && now_ms() < end_ms)
		usleep(1000);
	CHECK(tries->senders == AT_ONCE && tries->refused);
	CHECK(!kill(daemon, SIGCONT));
	for (int i = 0; i < AT_ONCE; i++)
		hear(w[i].fd);
	for (int i = 0; i < AT_ONCE; i++)
		dismiss(&w[i]);
	dismiss(&first);
	munmap(tries, sizeof(*tries));
	tries = NULL;
}

/* Takes all slots that this user may have, says how many, and stays. */
static void be_greedy(int fd)
{
	static struct ctl_client *clients[CTL_SLOT_MAX];
	int arena = make_arena(), wake = make_wake();
	char why[256] = "";
	uint64_t count = 0;
	int rc = 0;

	become_user(20001);
	while (count < CTL_SLOT_MAX && !rc) {
		rc = ctl_connect(&clients[count], arena, wake, arena, "greedy", why, sizeof(why));
		count += !rc;
	}
	CHECK(rc == -EDQUOT && strstr(why, "this user"));
	say(fd, count);
	/* A slot that was given back can be had again. */
	ctl_close(clients[0]);
	for (int64_t end = now_ms() + PATIENCE_MS; rc && now_ms() < end; usleep(1000))
		rc = ctl_connect(&clients[0], arena, wake, arena, "greedy", why, sizeof(why));
	CHECK(!rc);
	say(fd, 0);
	hear(fd);
}

/*
 * The same, but leaves at once, and keeps the tokens alone, each connected to another socket: it
 * takes no datagrams of others.
 */
static void be_greedy_for_tokens(int fd)
{
	int arena = make_arena(), wake = make_wake(), token;
	int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockname name = { .addr.sun_family = AF_UNIX, .len = sizeof(name.addr) };
	struct ctl_client *c;
	char why[256] = "";
	uint64_t count = 0;

	become_user(20001);
	CHECK(!bind(other, (struct sockaddr *)&name.addr, sizeof(sa_family_t)));
	CHECK(!getsockname(other, (struct sockaddr *)&name.addr, &name.len));
	while (!ctl_connect(&c, arena, wake, arena, "greedy", why, sizeof(why))) {
		CHECK(++count <= CTL_SLOT_MAX / 2 + 1);
		token = dup(c->token_fd);
		CHECK(!connect(token, (struct sockaddr *)&name.addr, name.len));
		ctl_close(c);
	}
	CHECK(strstr(why, "this user"));
	say(fd, count);
	say(fd, 0);
	hear(fd);
}

static void check_share(void (*body)(int fd))
{
	struct rlimit many = { 20000, 20000 };
	struct worker greedy, other;
	uint64_t count;
	pid_t daemon;

	need_root();
	CHECK(!setrlimit(RLIMIT_NOFILE, &many));
	daemon = start_system_daemon();
	worker_start(&greedy, body);
	count = hear_within(greedy.fd, 4 * PATIENCE_MS); /* it makes thousands of connections */
	CHECK(count >= CTL_SLOT_MAX / 2 && count <= CTL_SLOT_MAX / 2 + 1);
	hear(greedy.fd);
	worker_start(&other, as_another_user);
	CHECK(hear(other.fd) > count);
	hear(other.fd);
	worker_kill(&other);
	worker_kill(&greedy);
	stop_system_daemon(daemon, SIGTERM);
}

/* One user cannot take all slots. */
static void test_a_user_has_a_share(void **state)
{
	check_share(be_greedy);
	check_share(be_greedy_for_tokens);
}

/* A connection that only observes. The status of its WELCOME. */
static int observe(void)
{
	struct ctl_observe ask = {
		.greeting = { .header = { .type = CTL_OBSERVE, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
	};
	int sock = call_system(), rc;
	struct fdmsg m;

	rc = fdmsg_send(sock, &ask, sizeof(ask), NULL, 0);
	CHECK(!rc || rc == -EPIPE);
	CHECK(!fdmsg_wait(sock, INT64_MAX, &m));
	return m.body.welcome.status;
}

#define DESCRIPTORS 1000

/* Has as many connections as this user may, says how many, and stays. */
static void be_greedy_for_connections(int fd)
{
	uint64_t count = 0;
	int status;

	become_user(20001);
	while (!(status = observe()))
		CHECK(++count < DESCRIPTORS);
	CHECK(status == EDQUOT);
	say(fd, count);
	hear(fd);
}

/* Nor all descriptors. */
static void test_a_user_has_a_share_of_connections(void **state)
{
	struct rlimit few = { DESCRIPTORS, 2 * DESCRIPTORS };
	struct worker greedy, other;
	uint64_t count;
	pid_t daemon;

	need_root();
	daemon = start_system_daemon();
	CHECK(!prlimit(daemon, RLIMIT_NOFILE, &few, NULL));
	worker_start(&greedy, be_greedy_for_connections);
	count = hear(greedy.fd);
	CHECK(count > DESCRIPTORS / 4 && count <= DESCRIPTORS / 2);
	worker_start(&other, as_another_user);
	hear(other.fd);
	CHECK((pid_t)hear(other.fd) == daemon);
	CHECK(observe() == 0);
	worker_kill(&other);
	worker_kill(&greedy);
	stop_system_daemon(daemon, SIGTERM);
}

/* Has UDP ports of as many addresses as this user may begin, says how many, and stays. */
static void be_greedy_for_addresses(int fd)
{
	uint8_t gid[CTL_GID_BYTES] = { [10] = 0xff, [11] = 0xff };
	char why[CTL_WHY_BYTES] = "";
	struct ctl_client *c;
	uint64_t count = 0;
	int port, rc = 0;

	become_user(20001);
	c = join();
	for (unsigned n = 1; n < 255 && !rc; n++) {
		uint32_t a = htonl(0x7f000000 | ((uint32_t)getppid() & 0xff) << 16 | 77u << 8 | n);

		memcpy(gid + 12, &a, sizeof(a));
		rc = ctl_port(c, gid, 0, &port, why, sizeof(why));
		count += !rc;
	}
	CHECK(rc == -ENOSPC && strstr(why, "share"));
	say(fd, count);
	hear(fd);
	ctl_close(c);
}

/* The same by connections of rdma_cm, for which verbatimd itself opens the ports. */
static void be_greedy_for_addresses_by_cm(int fd)
{
	static const struct ctl_cm_address elsewhere = {
		.gid = { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 7 },
		.family = AF_INET,
		.port = 7,
	};
	struct ctl_cm_address from = {
		.gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [14] = 77 },
		.family = AF_INET,
	};
	uint64_t count = 0;
	uint32_t channel;
	int sock, rc = 0;

	become_user(20001);
	sock = cm_join_by(call_system());
	channel = cm_make_channel(sock);
	from.gid[13] = (uint8_t)getppid();
	for (from.gid[15] = 1; from.gid[15] < 255 && !rc; from.gid[15]++) {
		rc = cm_connect_from(sock, cm_make_id(sock, channel), &from, &elsewhere);
		count += !rc;
	}
	CHECK(rc == ENOSPC);
	say(fd, count);
	hear(fd);
	close(sock);
}

static void check_share_of_addresses(void (*body)(int fd), unsigned others_slot)
{
	struct rlimit many = { 20000, 20000 };
	struct worker greedy, other;
	pid_t daemon;

	need_root();
	CHECK(!setrlimit(RLIMIT_NOFILE, &many));
	daemon = start_system_daemon();
	worker_start(&greedy, body);
	CHECK(hear(greedy.fd) == 128);
	worker_start(&other, port_of_another);
	CHECK(hear(other.fd) == 0 && hear(other.fd) == others_slot && hear(other.fd) == 1);
	dismiss(&other);
	dismiss(&greedy);
	stop_system_daemon(daemon, SIGTERM);
}

/* Nor all addresses. */
static void test_a_user_has_a_share_of_addresses(void **state)
{
	check_share_of_addresses(be_greedy_for_addresses, 2);
	check_share_of_addresses(be_greedy_for_addresses_by_cm, 1);
}

/* Locks what it can open in the directory of the system's daemon, and stays. */
static void lock_directory(int fd)
{
	struct sockname_space space;
	struct sockname name;
	int dir;

	CHECK(!setuid(20001) && !sockname_space_of_system(&space));
	dir = open(space.dir, O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0);
	flock(dir, LOCK_EX);
	sockname_of_daemon_file(&space, &name);
	strcpy(strrchr(name.addr.sun_path, '/'), "/lock");
	CHECK(open(name.addr.sun_path, O_RDONLY) < 0);
	say(fd, 1);
	hear(fd);
}

/* A user that can read the directory cannot keep the next daemon out of it. */
static void test_a_stranger_cannot_lock_the_daemon_out(void **state)
{
	struct worker stranger;
	pid_t daemon;

	need_root();
	daemon = start_system_daemon();
	stop_system_daemon(daemon, SIGKILL);
	worker_start(&stranger, lock_directory);
	hear(stranger.fd);
	daemon = start_system_daemon();
	close(call_system());
	worker_kill(&stranger);
	stop_system_daemon(daemon, SIGTERM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_user_has_a_daemon),
		TEST(test_one_daemon_for_all),
		TEST(test_port_of_all),
		TEST(test_port_of_each),
		TEST(test_many_come_to_a_stopped_daemon),
		TEST(test_a_user_has_a_share),
		TEST(test_a_user_has_a_share_of_connections),
		TEST(test_a_user_has_a_share_of_addresses),
		TEST(test_stranger_is_refused),
		TEST(test_a_stranger_cannot_lock_the_daemon_out),
	};

	return cmocka_run_group_tests_name("daemon users", tests, NULL, NULL);
}
