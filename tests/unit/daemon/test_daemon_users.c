/* SPDX-License-Identifier: BSD-2-Clause */
/* Several users: each has a daemon of its own, or all have the system's and do not meet there. */
#include "cm_raw.h"
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/dial.h"

static const uint8_t group[CTL_MGID_BYTES] = { 0xff, 0x0e, 9 };
static const struct ctl_cm_ask begin = { .header = { CTL_CM_BEGIN, 2 } };

/* In a worker: it dies with the test whatever it has become. */
static void become_user(uid_t uid)
{
	CHECK(!setuid(uid));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Says its slot and daemon; then, asked for a slot, the result of ctl_peer, until it hears 0. */
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

static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("skipped: needs root to be two users\n");
		skip();
	}
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

static pid_t start_system_daemon(void)
{
	pid_t daemon = fork();

	if (!daemon) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(getenv("VERBATIM_DAEMON"), "verbatimd", "--system", "--foreground", NULL);
		_exit(127);
	}
	for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end; usleep(1000)) {
		enum dial_which reached;
		char why[256];
		int sock;

		if (dial_running(DIAL_SYSTEM, &sock, &reached, why, sizeof(why)))
			continue;
		close(sock);
		break;
	}
	return daemon;
}

static int call_system(void)
{
	enum dial_which reached;
	char why[256];
	int sock;

	CHECK(!dial_running(DIAL_SYSTEM, &sock, &reached, why, sizeof(why)));
	return sock;
}

/* signal: SIGTERM, at which it ends in order; or SIGKILL. */
static void stop_system_daemon(pid_t daemon, int signal)
{
	int status;

	CHECK(!kill(daemon, signal));
	CHECK(wait_for_end(daemon, PATIENCE_MS));
	CHECK(waitpid(daemon, &status, 0) == daemon);
	CHECK(signal != SIGTERM || status == 0);
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

	/* Those of one user meet, in groups too; those of another are not there. */
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

/* ------------------------------------------------------------------------------------------
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

/* The system's daemon divides the port among users; what would show one's traffic is not given. */
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
	 * While the port is in use, a user's slot goes to nobody else: somebody may have its
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

/* Two users' own daemons cannot share it, and the second is told. */
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

/* A stranger is told why, and is not served. */
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

/* Takes all the slots that there are for this user: says how many, and stays. */
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
	/* A slot that is given back is there again. */
	ctl_close(clients[0]);
	for (int64_t end = now_ms() + PATIENCE_MS; rc && now_ms() < end; usleep(1000))
		rc = ctl_connect(&clients[0], arena, wake, arena, "greedy", why, sizeof(why));
	CHECK(!rc);
	say(fd, 0);
	hear(fd);
}

/* One user cannot take all slots of all. */
static void test_a_user_has_a_share(void **state)
{
	struct rlimit many = { 20000, 20000 };
	struct worker greedy, other;
	uint64_t count;
	pid_t daemon;

	need_root();
	CHECK(!setrlimit(RLIMIT_NOFILE, &many));
	daemon = start_system_daemon();
	worker_start(&greedy, be_greedy);
	count = hear(greedy.fd);
	CHECK(count >= CTL_SLOT_MAX / 2 && count <= CTL_SLOT_MAX / 2 + 1);
	hear(greedy.fd);
	worker_start(&other, as_another_user);
	CHECK(hear(other.fd) > count);
	hear(other.fd);
	worker_kill(&other);
	worker_kill(&greedy);
	stop_system_daemon(daemon, SIGTERM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

/* A session of verbatimd --system; says its number, and whether it was cut off once it is asked. */
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

/* Numbers of sessions can be read by all: who says that it has one shows its token. */
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
	/* Nor one that nobody waits for. */
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

/* Whether somebody listens at the address, as far as requests of this session tell. */
static bool is_answered(int sock, uint32_t channel, const struct ctl_cm_address *at, uint32_t listeners)
{
	uint32_t id = cm_make_id(sock, channel);
	struct ctl_cm_event event;

	CHECK(!cm_connect(sock, id, at));
	event = cm_next(sock, listeners);
	return event.kind == CTL_CM_CONNECT_REQUEST;
}

/*
 * Has a listener with verbatimd --system; says that it has, and when it hears that the next daemon is there returns
 * with its store and its token.
 */
static void return_to_system(int fd)
{
	struct ctl_cm_ask again = { .header = { .type = CTL_CM_RETURN_CHANNEL, .seq = 3 } };
	int sock, event_fd = cm_make_event_fd(), fds[2] = { cm_make_store(), -1 };
	struct ctl_cm_hello hello = cm_hello(0);
	struct ctl_cm_address at;
	uint32_t listener;
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
	sock = call_system();
	m = cm_ask_with(sock, &hello, sizeof(hello), fds, 2);
	CHECK(!m.body.welcome.status && m.body.welcome.slot == hello.session && !m.fd_count);
	CHECK(!cm_ask_with(sock, &again, sizeof(again), &event_fd, 1).body.cm_reply.status);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	CHECK(is_answered(sock, cm_make_channel(sock), &at, again.channel));
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, listener, 0));
	close(sock);
	say(fd, 1);
}

/* What a user's process had with a daemon of all it has with the next, and nobody else has it. */
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

/* Makes all the channels that it can, with a few connections; says how many, and stays. */
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

/* Channels have descriptors in the daemon: one user cannot take all that there are for them. */
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

/* Locks all that it sees of where the daemon of all lies, and stays. */
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

/* Who may see the directory cannot keep the next daemon out of it. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_user_has_a_daemon),
		TEST(test_one_daemon_for_all),
		TEST(test_port_of_all),
		TEST(test_port_of_each),
		TEST(test_a_user_has_a_share),
		TEST(test_stranger_is_refused),
		TEST(test_sessions_of_others_are_not_taken),
		TEST(test_a_session_returns_to_the_next_daemon_of_all),
		TEST(test_a_stranger_cannot_lock_the_daemon_out),
		TEST(test_a_user_has_a_share_of_the_channels),
	};

	return cmocka_run_group_tests_name("daemon users", tests, NULL, NULL);
}
