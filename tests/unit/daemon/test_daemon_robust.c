/* SPDX-License-Identifier: BSD-2-Clause */
/* A client harms neither the daemon nor other clients. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/control.h"
#include "ctl/fdmsg.h"

static struct ctl_hello make_hello(void)
{
	return (struct ctl_hello){
		.greeting = { .header = { .type = CTL_HELLO, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.comm = "raw",
	};
}

/* A raw connection that is a process with a slot. */
static int raw_join(void)
{
	struct ctl_hello hello = make_hello();
	int fds[] = { make_arena(), make_wake(), make_arena() };
	int sock = raw_connect();
	struct fdmsg m;

	CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 3));
	CHECK(!fdmsg_wait(sock, INT64_MAX, &m));
	CHECK(m.len == sizeof(m.body.welcome) && m.body.welcome.status == 0);
	fdmsg_close_fds(&m);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return sock;
}

/* The daemon's descriptors, once it has handled all messages of this client. */
static unsigned settled_fds(struct ctl_client *c)
{
	static const uint8_t no_group[CTL_MGID_BYTES];
	uint64_t slots[CTL_BITMAP_WORDS];

	/* It sends WELCOME before it closes its copy of the token; then it takes a request. */
	CHECK(!get_members(c, no_group, slots));
	return count_fds(ctl_daemon_pid(c));
}

/* The bystander and the daemon are as they were. */
static void check_unharmed(struct ctl_client *bystander, pid_t daemon)
{
	struct ctl_peer_info peer;

	CHECK(!ctl_peer(bystander, ctl_slot(bystander), &peer));
	close_peer(&peer);
	CHECK(daemon_pid() == daemon);
}

static void test_malformed_messages(void **state)
{
	static const struct {
		uint32_t type;
		size_t len;
		unsigned fds;
		bool joined; /* after HELLO, or as the first message */
	} rows[] = {
		{ 0, 8, 0, false },
		{ 0, 1, 0, false },
		{ 0, 7, 0, false },
		{ CTL_HELLO, sizeof(struct ctl_hello), 0, false },
		{ CTL_HELLO, sizeof(struct ctl_hello), 1, false },
		{ CTL_HELLO, sizeof(struct ctl_hello), 2, false },
		{ CTL_HELLO, sizeof(struct ctl_hello), 3, false }, /* no magic */
		{ CTL_HELLO, sizeof(struct ctl_hello), 5, false },
		{ CTL_HELLO, sizeof(struct ctl_hello) - 1, 3, false },
		{ CTL_HELLO, 60000, 0, false },
		{ CTL_OBSERVE, sizeof(struct ctl_observe), 1, false },
		{ CTL_PEER, sizeof(struct ctl_peer), 0, false },
		{ CTL_LIST, sizeof(struct ctl_list), 0, false },
		{ CTL_CM_LIST, sizeof(struct ctl_list), 0, false },
		{ CTL_COUNTERS, sizeof(struct ctl_counters), 0, false },
		{ CTL_HELLO, sizeof(struct ctl_hello), 3, true },
		{ CTL_LIST, sizeof(struct ctl_list), 0, true },
		{ CTL_COUNTERS, sizeof(struct ctl_counters), 0, true },
		{ CTL_WELCOME, sizeof(struct ctl_welcome), 0, true },
		{ CTL_PEER, sizeof(struct ctl_peer), 1, true },
		{ CTL_PEER, sizeof(struct ctl_peer) - 4, 0, true },
		{ CTL_PEER, sizeof(struct ctl_peer) + 1, 0, true },
		{ CTL_MCAST_ATTACH, 8, 0, true },
		{ CTL_PORT, sizeof(struct ctl_port), 0, false },
		{ CTL_PORT, sizeof(struct ctl_port), 1, true },
		{ CTL_PORT, sizeof(struct ctl_port) - 1, 0, true },
		{ CTL_PORT_KEPT, sizeof(struct ctl_port), 0, true },
		{ CTL_PORT_KEPT, sizeof(struct ctl_port), 2, true },
		{ CTL_PORT_KEPT, sizeof(struct ctl_port) + 1, 1, true },
		{ CTL_PORT_REPLY, sizeof(struct ctl_port_reply), 0, true },
		{ CTL_NOTICE_DEATH, sizeof(struct ctl_death), 0, true },
		{ CTL_TYPE_COUNT, 8, 0, true },
		{ UINT32_MAX, 64, 3, true },
	};
	struct ctl_client *bystander = join();
	pid_t daemon = ctl_daemon_pid(bystander);
	unsigned fds_before = settled_fds(bystander);
	static char room[65536];
	int fds[CTL_FDS_MAX + 1];

	for (int i = 0; i <= CTL_FDS_MAX; i++)
		fds[i] = make_wake();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int sock = rows[i].joined ? raw_join() : raw_connect();

		memset(room, 0, sizeof(room));
		memcpy(room, &rows[i].type, sizeof(rows[i].type));
		CHECK(!fdmsg_send(sock, room, rows[i].len, fds,
				  rows[i].fds <= CTL_FDS_MAX ? rows[i].fds : CTL_FDS_MAX));
		if (!is_cut_off(sock)) {
			print_error("row %zu is not cut off\n", i);
			fail();
		}
		close(sock);
		check_unharmed(bystander, daemon);
	}
	/* Every descriptor that came along was closed; the raw connections are being freed. */
	for (int64_t end = now_ms() + PATIENCE_MS; count_fds(daemon) > fds_before + 1;) {
		CHECK(now_ms() < end);
		usleep(1000);
	}
	for (int i = 0; i <= CTL_FDS_MAX; i++)
		close(fds[i]);
	ctl_close(bystander);
}

/* Bytes from a seed, of any length. */
static void test_random_messages(void **state)
{
	struct ctl_client *bystander = join();
	pid_t daemon = ctl_daemon_pid(bystander);
	unsigned seed = 20240229;

	for (int i = 0; i < 2000; i++) {
		unsigned char room[256];
		int sock = i % 50 ? raw_connect() : raw_join();
		size_t len = (unsigned)rand_r(&seed) % sizeof(room) + 1;

		for (size_t b = 0; b < len; b++)
			room[b] = (unsigned char)rand_r(&seed);
		if (i % 2 && len >= 4) {
			memset(room, 0, 4);
			room[0] = (unsigned char)(rand_r(&seed) % (CTL_TYPE_COUNT + 1));
		}
		fdmsg_send(sock, room, len, NULL, 0);
		close(sock);
	}
	check_unharmed(bystander, daemon);
	ctl_close(bystander);
}

static void test_other_version(void **state)
{
	struct ctl_client *bystander = join();
	struct ctl_hello hello = make_hello();
	char longer[200] = "";
	int sock = raw_connect();
	struct fdmsg m;

	hello.greeting.version = CTL_VERSION + 1;
	memcpy(longer, &hello, sizeof(hello));
	CHECK(!fdmsg_send(sock, longer, sizeof(longer), NULL, 0));
	CHECK(!fdmsg_wait(sock, INT64_MAX, &m));
	CHECK(m.len == sizeof(m.body.welcome) && m.body.welcome.status == EPROTONOSUPPORT);
	CHECK(m.body.welcome.greeting.version == CTL_VERSION);
	CHECK(is_cut_off(sock));
	close(sock);
	ctl_close(bystander);
}

/* A slot needs its token, not only its number. */
static void test_slot_without_its_token(void **state)
{
	static const struct {
		unsigned slot;
		bool bound; /* to the name of slot 500, from this namespace */
		int status;
	} rows[] = {
		{ 1, true, EADDRINUSE }, /* the bystander's */
		{ 2, true, EPERM },	      { 500, false, EPERM }, { 1024, true, EPROTO },
		{ UINT32_MAX, true, EPROTO }, { 0, true, EPROTO },
	};
	struct ctl_client *bystander = join();
	struct sockname_space space;
	struct sockname name;
	int bound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int unbound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	sockname_space_of_user(geteuid(), &space);
	sockname_of_slot(&space, 500, &name);
	CHECK(!bind(bound, (struct sockaddr *)&name.addr, name.len));
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ctl_hello hello = make_hello();
		int fds[] = { make_arena(), make_wake(), make_arena(),
			      rows[i].bound ? bound : unbound };
		int sock = raw_connect();
		struct fdmsg m;

		hello.wanted_slot = rows[i].slot;
		CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 4));
		CHECK(!fdmsg_wait(sock, INT64_MAX, &m));
		if (m.body.welcome.status != rows[i].status) {
			print_error("row %zu: status %d\n", i, m.body.welcome.status);
			fail();
		}
		close(fds[0]);
		close(fds[1]);
		close(sock);
	}
	close(bound);
	close(unbound);
	ctl_close(bystander);
}

static int send_claim(unsigned slot, int token)
{
	struct ctl_hello hello = make_hello();
	int fds[] = { make_arena(), make_wake(), make_arena(), token };
	int sock = raw_connect();

	hello.wanted_slot = slot;
	CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 4));
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return sock;
}

static int hear_status(int sock)
{
	struct fdmsg m;

	CHECK(!fdmsg_wait(sock, INT64_MAX, &m));
	fdmsg_close_fds(&m);
	return m.body.welcome.status;
}

static int claim(unsigned slot, int token)
{
	int sock = send_claim(slot, token);
	int status = hear_status(sock);

	close(sock);
	return status;
}

/*
 * A process comes again before the daemon has seen the end of its earlier connections, as when the
 * daemon was stopped: the last one gets the slot.
 */
static void test_slot_is_claimed_again(void **state)
{
	struct ctl_client *c = join(), *bystander = join();
	pid_t daemon = ctl_daemon_pid(c);
	int earlier, last, status;

	kill(daemon, SIGSTOP);
	earlier = send_claim(ctl_slot(c), c->token_fd);
	last = send_claim(ctl_slot(c), c->token_fd);
	kill(daemon, SIGCONT);
	CHECK(hear_status(earlier) == EAGAIN);
	status = hear_status(last);
	CHECK(status == EAGAIN || status == 0);
	CHECK(is_cut_off(c->sock) && is_cut_off(earlier));
	if (status) {
		close(last);
		last = send_claim(ctl_slot(c), c->token_fd);
		CHECK(hear_status(last) == 0);
	}
	close(last);
	close(earlier);
	check_unharmed(bystander, daemon);
	ctl_close(c);
	ctl_close(bystander);
}

/*
 * Two sockets may have the same name, if the file of one was moved meanwhile: a datagram to the
 * name distinguishes them.
 */
static void test_token_of_the_same_name(void **state)
{
	struct ctl_client *bystander = join();
	int real = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockname_space space;
	struct sockname name;
	char aside[sizeof(name.addr.sun_path) + 8];

	sockname_space_of_user(geteuid(), &space);
	sockname_of_slot(&space, 500, &name);
	if (!*name.addr.sun_path)
		skip(); /* there is no directory for files */
	snprintf(aside, sizeof(aside), "%s.aside", name.addr.sun_path);
	CHECK(!bind(real, (struct sockaddr *)&name.addr, name.len));
	CHECK(!rename(name.addr.sun_path, aside));
	CHECK(!bind(other, (struct sockaddr *)&name.addr, name.len));
	CHECK(!rename(aside, name.addr.sun_path));
	CHECK(claim(500, other) == EPERM);
	CHECK(claim(500, real) == 0);
	close(other);
	close(real);
	ctl_close(bystander);
}

/* Asks and asks, and never reads. */
static void test_flood_of_requests(void **state)
{
	struct ctl_client *bystander = join();
	pid_t daemon = ctl_daemon_pid(bystander);
	struct ctl_peer ask = { .header = { .type = CTL_PEER, .seq = 1 }, .slot = 1 };
	struct ctl_notice notice;
	int sock = raw_join();
	int64_t end = now_ms() + PATIENCE_MS;
	int rc;

	do {
		int64_t before_ms = processor_ms(daemon), asked_ms = now_ms();

		for (int i = 0; i < 100; i++) {
			rc = fdmsg_send(sock, &ask, sizeof(ask), NULL, 0);
			if (rc)
				break;
		}
		check_unharmed(bystander, daemon);
		CHECK(now_ms() - asked_ms < PATIENCE_MS);
		CHECK(processor_ms(daemon) - before_ms < 1000);
	} while ((!rc || rc == -EAGAIN) && now_ms() < end);
	CHECK(rc == -EPIPE || rc == -ECONNRESET);
	await_notice(bystander, CTL_LINK, &notice);
	close_peer(&notice.peer);
	await_notice(bystander, CTL_DEATH, &notice);
	close(sock);
	ctl_close(bystander);
}

/* A stopped process does not delay the others, and learns of changes when it continues. */
static void test_slow_reader(void **state)
{
	enum { GROUPS = 1000, MOST = 64 };
	struct ctl_client *slow = join(), *busy = join();
	uint8_t mgid[CTL_MGID_BYTES] = { 0xff };
	struct ctl_notice notice;
	bool seen = false;

	/* More than a socket's buffer holds. */
	for (int i = 0; i < GROUPS; i++) {
		memcpy(mgid + 4, &i, sizeof(i));
		CHECK(!ctl_mcast_attach(busy, mgid));
	}
	for (int i = 0; i < MOST && !seen; i++) {
		await_notice(slow, CTL_MCAST_CHANGED, &notice);
		seen = has_no_notice(slow);
	}
	CHECK(seen);
	/* None is left out after that. */
	mgid[1]++;
	CHECK(!ctl_mcast_attach(busy, mgid));
	do
		await_notice(slow, CTL_MCAST_CHANGED, &notice);
	while (memcmp(notice.mgid, mgid, sizeof(mgid)));
	CHECK(has_no_notice(slow));
	ctl_close(busy);
	ctl_close(slow);
}

#define UNREAD_LINKS 60
#define UNREAD_MAX   32 /* of them in the socket */

static bool has_message(int sock)
{
	struct fdmsg m;
	int rc = fdmsg_recv(sock, &m);

	CHECK(!rc || rc == -EAGAIN);
	if (!rc)
		fdmsg_close_fds(&m);
	return !rc;
}

/*
 * What a process does not read waits in verbatimd for the most part: descriptors in a socket count
 * against what a user may have under way.
 */
static void test_unread_links_wait(void **state)
{
	struct ctl_client *bystander = join();
	struct ctl_peer_info peer;
	int lazy = raw_join(), others[UNREAD_LINKS];
	struct ctl_peer ask = { .header = { .type = CTL_PEER, .seq = 7 }, .slot = 2 };
	int count = 0, all;

	for (int i = 0; i < UNREAD_LINKS; i++) {
		others[i] = raw_join();
		CHECK(!fdmsg_send(others[i], &ask, sizeof(ask), NULL, 0));
	}
	CHECK(!ctl_peer(bystander, 2, &peer));
	close_peer(&peer);
	kill(ctl_daemon_pid(bystander), SIGSTOP);
	while (has_message(lazy))
		count++;
	kill(ctl_daemon_pid(bystander), SIGCONT);
	CHECK(count > 0 && count <= UNREAD_MAX);
	all = count;
	for (int64_t until = now_ms() + PATIENCE_MS; all < UNREAD_LINKS + 1;) {
		CHECK(now_ms() < until);
		all += has_message(lazy);
	}
	for (int i = 0; i < UNREAD_LINKS; i++)
		close(others[i]);
	close(lazy);
	ctl_close(bystander);
}

static void test_no_fd_leak(void **state)
{
	struct ctl_client *stays = join();
	pid_t daemon = ctl_daemon_pid(stays);
	unsigned before;
	struct ctl_notice notice;

	before = settled_fds(stays);
	for (int i = 0; i < 500; i++) {
		int arena = make_arena(), wake = make_wake();
		struct ctl_peer_info peer;
		struct ctl_client *c;
		char why[256];

		CHECK(!ctl_connect(&c, arena, wake, arena, "cycle", why, sizeof(why)));
		CHECK(!ctl_peer(c, ctl_slot(stays), &peer));
		close_peer(&peer);
		await_notice(stays, CTL_LINK, &notice);
		close_peer(&notice.peer);
		ctl_close(c);
		await_notice(stays, CTL_DEATH, &notice);
		close(arena);
		close(wake);
	}
	/* A death is told a moment before its descriptors are closed. */
	for (int64_t end = now_ms() + PATIENCE_MS; count_fds(daemon) != before;)
		CHECK(now_ms() < end);
	ctl_close(stays);
}

static void limit_fds(pid_t pid, unsigned limit)
{
	struct rlimit l = { .rlim_cur = limit, .rlim_max = limit };
	struct rlimit old;

	CHECK(!prlimit(pid, RLIMIT_NOFILE, NULL, &old));
	l.rlim_max = old.rlim_max;
	CHECK(!prlimit(pid, RLIMIT_NOFILE, &l, NULL));
}

/*
 * Lets the process open so many more descriptors. The limit is on their numbers, which may have
 * gaps.
 */
static void limit_room(pid_t pid, unsigned room)
{
	unsigned limit = 0;
	struct stat s;
	char path[64];

	for (unsigned free = 0;; limit++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)pid, limit);
		if (lstat(path, &s) && free++ == room)
			break;
	}
	limit_fds(pid, limit);
}

/* Waits until queued descriptors are closed, and the reserve is open again. */
static void wait_for_fds(pid_t pid, unsigned used)
{
	for (int64_t end = now_ms() + PATIENCE_MS;; usleep(1000)) {
		CHECK(now_ms() < end);
		if (count_fds(pid) != used)
			continue;
		usleep(20000);
		if (count_fds(pid) == used)
			return;
	}
}

/* Every place where the daemon runs out of descriptors answers, and none spins. */
static void test_out_of_fds(void **state)
{
	struct ctl_client *c = join(), *peer_of_c = join();
	pid_t daemon = ctl_daemon_pid(c);
	unsigned used = settled_fds(peer_of_c);
	int64_t before = processor_ms(daemon);

	for (unsigned room = 0; room < 7; room++) {
		struct ctl_client *newcomer;
		int arena = make_arena(), wake = make_wake();
		char why[256] = "";
		int rc;

		limit_room(daemon, room);
		rc = ctl_connect(&newcomer, arena, wake, arena, "newcomer", why, sizeof(why));
		if (!rc) {
			ctl_close(newcomer);
			CHECK(room >= 5);
		} else if (rc != -EMFILE || !strstr(why, "descriptors")) {
			print_error("room for %u: %d %s\n", room, rc, why);
			fail();
		}
		close(arena);
		close(wake);
		wait_for_fds(daemon, used);
	}

	struct ctl_peer_info peer;

	limit_room(daemon, 0);
	CHECK(ctl_peer(c, ctl_slot(peer_of_c), &peer) == -EMFILE);
	CHECK(has_no_notice(peer_of_c));

	/* It sleeps although connections wait for which it has no descriptor. */
	usleep(200000);
	CHECK(processor_ms(daemon) - before < 500);

	limit_fds(daemon, 1000);
	CHECK(!ctl_peer(c, ctl_slot(peer_of_c), &peer));
	close_peer(&peer);
	ctl_close(c);
	ctl_close(peer_of_c);
}

/* Each is refused, and soon. */
static void test_many_refused_for_want_of_fds(void **state)
{
	struct ctl_client *c = join();
	pid_t daemon = ctl_daemon_pid(c);
	unsigned quick = 0;
	struct fdmsg m;

	settled_fds(c);
	limit_room(daemon, 0);
	for (int i = 0; i < 50; i++) {
		int64_t since_ms = now_ms();
		int sock = raw_connect();

		CHECK(!fdmsg_wait(sock, (now_ms() + PATIENCE_MS) * 1000000, &m));
		CHECK(m.body.welcome.status == EMFILE);
		quick += now_ms() - since_ms < 100;
		close(sock);
	}
	CHECK(quick >= 10); /* others may have had to wait for a processor */
	limit_fds(daemon, 1000);
	ctl_close(c);
}

/* This process has no room: the notice comes without descriptors, the reply with an error. */
static void test_client_out_of_fds(void **state)
{
	struct ctl_client *c = join(), *other = join();
	struct ctl_peer_info peer;
	struct ctl_notice notice;
	struct rlimit old, none = { 0 };

	CHECK(!ctl_peer(other, ctl_slot(c), &peer));
	close_peer(&peer);
	CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	none.rlim_max = old.rlim_max;
	none.rlim_cur = count_fds(getpid()) - 1;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));

	struct pollfd p = { .fd = ctl_fd(c), .events = POLLIN };
	int notice_rc, peer_rc;

	poll(&p, 1, PATIENCE_MS);
	notice_rc = ctl_next_notice(c, &notice);
	peer_rc = ctl_peer(c, ctl_slot(other), &peer);
	CHECK(!setrlimit(RLIMIT_NOFILE, &old));
	CHECK(notice_rc == 1 && notice.kind == CTL_LINK && notice.peer.slot == ctl_slot(other));
	CHECK(notice.peer.arena_fd == -1 && notice.peer.wake_fd == -1 &&
	      notice.peer.link_fd == -1 && notice.peer.heap_fd == -1);
	CHECK(peer_rc == -EMFILE);
	CHECK(!ctl_peer(c, ctl_slot(other), &peer));
	close_peer(&peer);
	ctl_close(c);
	ctl_close(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_malformed_messages),
		TEST(test_random_messages),
		TEST(test_other_version),
		TEST(test_slot_without_its_token),
		TEST(test_slot_is_claimed_again),
		TEST(test_token_of_the_same_name),
		TEST(test_flood_of_requests),
		TEST(test_slow_reader),
		TEST(test_unread_links_wait),
		TEST(test_no_fd_leak),
		TEST(test_out_of_fds),
		TEST(test_client_out_of_fds),
		TEST(test_many_refused_for_want_of_fds),
	};

	return cmocka_run_group_tests_name("daemon robust", tests, NULL, NULL);
}
