/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's side: slots, links, notices, groups, reconnection, messages of errors. */
#include "../daemon/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/control.h"

static const uint8_t group[CTL_MGID_BYTES] = { 0xff, 0x0e, 1, 2, 3 };

static ino_t inode(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return st.st_ino;
}

/* Sends its slot, then the inode of each link of a notice, until the test hangs up. */
static void tell_links(int fd)
{
	struct ctl_client *c = join();

	say(fd, ctl_slot(c));
	for (;;) {
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = ctl_fd(c), .events = POLLIN } };
		struct ctl_notice notice;

		CHECK(poll(p, 2, PATIENCE_MS) > 0);
		if (p[0].revents)
			break;
		while (ctl_next_notice(c, &notice) == 1) {
			CHECK(notice.kind == CTL_LINK);
			CHECK(fcntl(notice.peer.link_fd, F_GETFD) == FD_CLOEXEC);
			say(fd, inode(notice.peer.link_fd));
			say(fd, notice.peer.side);
			say(fd, (uint64_t)notice.peer.pid);
		}
	}
	ctl_close(c);
}

static void test_two_processes_get_one_link(void **state)
{
	struct worker a, b;
	struct ctl_peer_info peer, again;
	struct stat st;
	uint64_t seen = 42;
	unsigned a_slot, b_slot;

	worker_start(&a, tell_links);
	a_slot = (unsigned)hear(a.fd);

	struct ctl_client *c = join();

	worker_start(&b, tell_links);
	b_slot = (unsigned)hear(b.fd);
	CHECK(a_slot == 1 && ctl_slot(c) == 2 && b_slot == 3);

	CHECK(!ctl_peer(c, a_slot, &peer));
	CHECK(peer.slot == a_slot && peer.pid == a.pid && peer.uid == geteuid());
	CHECK(peer.side == 1);
	CHECK(hear(a.fd) == inode(peer.link_fd));
	CHECK(hear(a.fd) == 0);
	CHECK((pid_t)hear(a.fd) == getpid());
	CHECK(!fstat(peer.link_fd, &st) && st.st_size == LINK_BYTES_LONG);
	CHECK((fcntl(peer.link_fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW)) ==
	      (F_SEAL_SHRINK | F_SEAL_GROW));
	CHECK(ftruncate(peer.link_fd, 0) < 0);
	CHECK(fcntl(peer.link_fd, F_GETFD) == FD_CLOEXEC);
	CHECK(!fstat(peer.arena_fd, &st) && st.st_size == 4096);
	CHECK(write(peer.wake_fd, &(uint64_t){ 1 }, 8) == 8);

	/* The same link, however often it is asked for. */
	CHECK(!ctl_peer(c, a_slot, &again));
	CHECK(inode(again.link_fd) == inode(peer.link_fd));
	close_peer(&again);

	CHECK(!ctl_peer(c, b_slot, &again));
	CHECK(again.side == 0);
	CHECK(inode(again.link_fd) != inode(peer.link_fd));
	seen = hear(b.fd);
	CHECK(seen == inode(again.link_fd));
	CHECK(hear(b.fd) == 1);
	hear(b.fd);
	close_peer(&again);
	close_peer(&peer);

	CHECK(has_no_notice(c));
	worker_end(&a);
	worker_end(&b);
	ctl_close(c);
}

static void test_link_with_oneself(void **state)
{
	struct ctl_client *c = join();
	struct ctl_peer_info peer, again;

	CHECK(!ctl_peer(c, ctl_slot(c), &peer));
	CHECK(peer.side == 0 && peer.pid == getpid());
	CHECK(!ctl_peer(c, ctl_slot(c), &again));
	CHECK(inode(peer.link_fd) == inode(again.link_fd));
	CHECK(has_no_notice(c));
	close_peer(&peer);
	close_peer(&again);
	ctl_close(c);
}

static void test_unknown_slots(void **state)
{
	static const unsigned slots[] = { 0, 2, 1023, 1024, 4711, UINT32_MAX };
	struct ctl_client *c = join();
	struct ctl_peer_info peer;

	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++)
		CHECK(ctl_peer(c, slots[i], &peer) == -ENOENT);
	ctl_close(c);
}

static void test_lowest_slot_is_given_again(void **state)
{
	struct ctl_client *a = join(), *b = join(), *c = join();

	CHECK(ctl_slot(b) == 2);
	ctl_close(b);
	/* The daemon needs a moment to see that it left. */
	for (int64_t end = now_ms() + PATIENCE_MS; now_ms() < end;) {
		b = join();
		if (ctl_slot(b) == 2)
			break;
		ctl_close(b);
	}
	CHECK(ctl_slot(b) == 2);
	ctl_close(a);
	ctl_close(b);
	ctl_close(c);
}

/* Connects, says its slot, and lives until it is killed. */
static void live(int fd)
{
	struct ctl_client *c = join();

	say(fd, ctl_slot(c));
	pause();
}

/* The same, with a child that holds copies of all its descriptors. */
static void live_with_child(int fd)
{
	struct ctl_client *c = join();
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	say(fd, ctl_slot(c));
	say(fd, (uint64_t)child);
	pause();
}

static void check_death(struct ctl_client *c, struct worker *w, unsigned slot)
{
	struct ctl_notice notice;

	kill(w->pid, SIGKILL);
	await_notice(c, CTL_DEATH, &notice);
	CHECK(notice.peer.slot == slot && notice.peer.pid == w->pid);
	CHECK(notice.peer.link_fd == -1);
	worker_kill(w);
}

static void test_death_is_told(void **state)
{
	struct worker w;
	struct ctl_peer_info peer;
	unsigned slot;

	worker_start(&w, live);
	slot = (unsigned)hear(w.fd);

	struct ctl_client *c = join();
	struct ctl_client *unlinked = join();

	CHECK(!ctl_peer(c, slot, &peer));
	close_peer(&peer);
	check_death(c, &w, slot);
	CHECK(ctl_peer(c, slot, &peer) == -ENOENT);
	CHECK(has_no_notice(unlinked));
	ctl_close(c);
	ctl_close(unlinked);
}

static void test_death_with_a_living_child(void **state)
{
	struct worker w;
	struct ctl_peer_info peer;
	unsigned slot;
	pid_t child;

	worker_start(&w, live_with_child);
	slot = (unsigned)hear(w.fd);
	child = (pid_t)hear(w.fd);

	struct ctl_client *c = join();

	CHECK(!ctl_peer(c, slot, &peer));
	close_peer(&peer);
	check_death(c, &w, slot);

	/* The child still holds the token: no other process gets the slot. */
	struct ctl_client *newcomer = join();

	CHECK(ctl_slot(newcomer) != slot);
	kill(child, SIGKILL);
	ctl_close(newcomer);
	ctl_close(c);
}

static void test_child_is_another_process(void **state)
{
	struct ctl_client *c = join();
	int ends[2], status;
	pid_t child;

	CHECK(!pipe(ends));
	child = fork();
	if (!child) {
		ctl_close_in_child(c);

		struct ctl_client *own = join();

		CHECK(ctl_slot(own) == 2);
		ctl_close(own);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);

	/* The parent's connection is as it was. */
	struct ctl_peer_info peer;

	CHECK(!ctl_peer(c, ctl_slot(c), &peer));
	close_peer(&peer);
	ctl_close(c);
}

static bool is_member(const uint64_t *slots, unsigned slot)
{
	return slots[slot / 64] >> slot % 64 & 1;
}

static void test_multicast_membership(void **state)
{
	struct ctl_client *a = join(), *b = join();
	struct ctl_notice notice;
	uint64_t slots[CTL_BITMAP_WORDS];

	CHECK(!get_members(a, group, slots));
	CHECK(!is_member(slots, 1) && !is_member(slots, 2));
	CHECK(ctl_mcast_detach(a, group) == -ENOENT);

	CHECK(!ctl_mcast_attach(a, group));
	await_notice(b, CTL_MCAST_CHANGED, &notice);
	CHECK(!memcmp(notice.mgid, group, sizeof(group)));
	await_notice(a, CTL_MCAST_CHANGED, &notice);
	/* A second QP of the same process changes nothing for the others. */
	CHECK(!ctl_mcast_attach(a, group));
	CHECK(!get_members(b, group, slots));
	CHECK(is_member(slots, 1) && !is_member(slots, 2));
	CHECK(has_no_notice(b));

	CHECK(!ctl_mcast_attach(b, group));
	await_notice(b, CTL_MCAST_CHANGED, &notice);
	CHECK(!ctl_mcast_detach(a, group));
	CHECK(!get_members(b, group, slots));
	CHECK(is_member(slots, 1) && is_member(slots, 2));
	CHECK(!ctl_mcast_detach(a, group));
	await_notice(b, CTL_MCAST_CHANGED, &notice);
	CHECK(!get_members(b, group, slots));
	CHECK(!is_member(slots, 1) && is_member(slots, 2));

	/* Death ends a membership. */
	ctl_close(b);
	do {
		await_notice(a, CTL_MCAST_CHANGED, &notice);
		CHECK(!get_members(a, group, slots));
	} while (is_member(slots, 2));
	ctl_close(a);
}

static void *ask_often(void *arg)
{
	struct ctl_client *c = arg;

	for (int i = 0; i < 300; i++) {
		uint64_t slots[CTL_BITMAP_WORDS];
		struct ctl_peer_info peer;

		CHECK(!ctl_peer(c, ctl_slot(c), &peer));
		close_peer(&peer);
		CHECK(!get_members(c, group, slots));
	}
	return NULL;
}

/* How many notices of changes come until one is there and no more follow at once. */
static unsigned take_changes(struct ctl_client *c, int wake_fd)
{
	struct pollfd p[] = { { .fd = wake_fd, .events = POLLIN },
			      { .fd = ctl_fd(c), .events = POLLIN } };
	unsigned seen = 0;

	while (!seen) {
		struct ctl_notice notice;
		uint64_t count;

		CHECK(poll(p, 2, PATIENCE_MS) > 0);
		if (p[0].revents)
			CHECK(read(wake_fd, &count, sizeof(count)) == sizeof(count));
		while (ctl_next_notice(c, &notice) == 1) {
			CHECK(notice.kind == CTL_MCAST_CHANGED);
			seen++;
		}
	}
	return seen;
}

/*
 * Requests of several threads, and notices in between: each thread gets its reply, and no notice is
 * lost, though one may stand for several changes.
 */
static void test_threads_and_notices(void **state)
{
	enum { CHANGES = 200 };
	int wake_fd = make_wake();
	struct ctl_client *c, *other = join();
	char why[256];
	uint64_t slots[CTL_BITMAP_WORDS];
	struct ctl_notice notice;
	pthread_t threads[2];
	unsigned seen = 0;

	CHECK(!ctl_connect(&c, make_arena(), wake_fd, make_arena(), "threads", why, sizeof(why)));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, ask_often, c));
	for (int i = 0; i < CHANGES; i++) {
		CHECK(!(i % 2 ? ctl_mcast_detach(other, group) : ctl_mcast_attach(other, group)));
		if (i % 10 == 9)
			seen += take_changes(c, wake_fd);
	}
	CHECK(seen >= CHANGES / 10 && seen <= CHANGES);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	/* Those that came late are gone; one more change has its notice. */
	CHECK(!get_members(c, group, slots));
	while (ctl_next_notice(c, &notice) == 1)
		;
	CHECK(!ctl_mcast_attach(other, group));
	take_changes(c, wake_fd);
	ctl_close(c);
	ctl_close(other);
}

/* Another thread's call is no reason to come again, unless there is something to return. */
static void test_no_ports_to_return(void **state)
{
	struct ctl_client *c = join();

	pthread_mutex_lock(&c->lock);
	CHECK(!ctl_return_ports(c));
	c->owes_ports = true;
	CHECK(ctl_return_ports(c) == -EAGAIN);
	pthread_mutex_unlock(&c->lock);
	CHECK(!ctl_return_ports(c) && !c->owes_ports);
	ctl_close(c);
}

/* Joins, and comes back whenever its daemon is gone. */
static void live_and_reconnect(int fd)
{
	struct ctl_client *c = join();

	say(fd, ctl_slot(c));
	for (;;) {
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = ctl_fd(c), .events = POLLIN } };
		struct ctl_notice notice;
		char why[256];

		CHECK(poll(p, 2, PATIENCE_MS) > 0);
		if (p[0].revents)
			break;
		if (ctl_next_notice(c, &notice) != -ENOTCONN)
			continue;
		hear(fd); /* the test says when */
		CHECK(!ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why)));
		say(fd, ctl_slot(c));
	}
	ctl_close(c);
}

static void test_daemon_killed(void **state)
{
	struct worker a, b;
	struct ctl_client *c, *newcomer;
	struct ctl_peer_info before, after;
	struct ctl_notice notice;
	pid_t killed;
	char why[256];

	worker_start(&a, live_and_reconnect);
	CHECK(hear(a.fd) == 1);
	worker_start(&b, live_and_reconnect);
	CHECK(hear(b.fd) == 2);
	c = join();
	CHECK(ctl_slot(c) == 3);
	CHECK(!ctl_peer(c, 1, &before));
	CHECK(ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why)) == -EALREADY);

	killed = ctl_daemon_pid(c);
	kill(killed, SIGKILL);
	CHECK(wait_for_end(killed, PATIENCE_MS));
	CHECK(ctl_peer(c, 1, &after) == -ENOTCONN);
	CHECK(ctl_next_notice(c, &notice) == -ENOTCONN);

	/* No other process gets the slot of a living one, even before that has returned. */
	newcomer = join();
	CHECK(ctl_slot(newcomer) == 4);
	CHECK(ctl_daemon_pid(newcomer) != killed);

	CHECK(!ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why)));
	CHECK(ctl_slot(c) == 3);
	CHECK(ctl_peer(c, 1, &after) == -ENOENT);
	say(b.fd, 0);
	CHECK(hear(b.fd) == 2);
	say(a.fd, 0);
	CHECK(hear(a.fd) == 1);

	/* A link made anew watches the peer's life anew. */
	CHECK(!ctl_peer(c, 1, &after));
	CHECK(after.pid == before.pid);
	CHECK(inode(after.link_fd) != inode(before.link_fd));
	CHECK(inode(after.arena_fd) == inode(before.arena_fd));
	close_peer(&before);
	close_peer(&after);
	check_death(c, &a, 1);
	kill(b.pid, SIGKILL);
	worker_kill(&b);
	ctl_close(c);
	ctl_close(newcomer);
}

/* A daemon that hangs costs a request its time limit; a late answer is ignored. */
static void test_daemon_hangs(void **state)
{
	struct ctl_client *c = join();
	struct ctl_peer_info peer;
	pid_t daemon = ctl_daemon_pid(c);
	int64_t asked_ms;
	unsigned fds = count_fds(getpid());

	kill(daemon, SIGSTOP);
	asked_ms = now_ms();
	CHECK(ctl_peer(c, ctl_slot(c), &peer) == -ETIMEDOUT);
	CHECK(now_ms() - asked_ms >= CTL_REQUEST_MS && now_ms() - asked_ms < 2 * CTL_REQUEST_MS);
	CHECK(has_no_notice(c));
	kill(daemon, SIGCONT);
	CHECK(!ctl_mcast_attach(c, group));
	CHECK(!ctl_peer(c, ctl_slot(c), &peer));
	close_peer(&peer);
	CHECK(count_fds(getpid()) == fds);
	ctl_close(c);
}

static void *ask_a_hanging_daemon(void *arg)
{
	struct ctl_peer_info peer;

	CHECK(ctl_peer(arg, 1, &peer) == -ETIMEDOUT);
	return NULL;
}

/* Threads that ask together wait together. */
static void test_daemon_hangs_for_all(void **state)
{
	struct ctl_client *c = join();
	pid_t daemon = ctl_daemon_pid(c);
	int64_t asked_ms = now_ms();
	pthread_t threads[4];

	kill(daemon, SIGSTOP);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, ask_a_hanging_daemon, c));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(now_ms() - asked_ms < 2 * CTL_REQUEST_MS);
	kill(daemon, SIGCONT);
	CHECK(!ctl_mcast_attach(c, group));
	ctl_close(c);
}

static int connect_and_explain(char *why, size_t why_len)
{
	struct ctl_client *c;

	return ctl_connect(&c, make_arena(), make_wake(), make_arena(), "test", why, why_len);
}

/*
 * In place of a daemon, or of a service manager: answers the first HELLO with a refusal, after it
 * has slept, or spun, for longer than a daemon usually needs.
 */
static void answer_late(int fd, const char *name, bool spins)
{
	struct ctl_welcome welcome = {
		.greeting = { .header = { .type = CTL_WELCOME, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.status = ENOSPC,
		.pid = getpid(),
	};
	int64_t until_ms = now_ms() + CTL_REQUEST_MS + 1000;
	struct sockname_space space;
	struct sockname at;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	sockname_space_of_user(geteuid(), &space);
	sockname_of_daemon(&space, &at);
	CHECK(!prctl(PR_SET_NAME, name));
	CHECK(!bind(sock, (struct sockaddr *)&at.addr, at.len) && !listen(sock, 8));
	say(fd, 1);
	sock = accept(sock, NULL, NULL);
	CHECK(sock >= 0);
	if (!spins) /* once: on a busy machine a thread that wakes is runnable for long */
		usleep((CTL_REQUEST_MS + 1000) * 1000);
	while (now_ms() < until_ms)
		;
	send(sock, &welcome, sizeof(welcome), MSG_NOSIGNAL);
	pause();
}

static void answer_after_a_sleep(int fd)
{
	answer_late(fd, "verbatimd", false);
}

static void answer_after_work(int fd)
{
	answer_late(fd, "verbatimd", true);
}

static void start_late(int fd)
{
	answer_late(fd, "manager (1) R", false);
}

/*
 * A daemon that sleeps counts as hanging; the client waits for a runnable one, and for one that a
 * service manager starts.
 */
static void test_daemon_is_late(void **state)
{
	struct worker daemon;
	char why[512] = "";

	worker_start(&daemon, answer_after_a_sleep);
	hear(daemon.fd);
	CHECK(connect_and_explain(why, sizeof(why)) == -ETIMEDOUT);
	CHECK(strstr(why, "does not answer"));
	worker_kill(&daemon);

	worker_start(&daemon, answer_after_work);
	hear(daemon.fd);
	CHECK(connect_and_explain(why, sizeof(why)) == -ENOSPC);
	worker_kill(&daemon);

	worker_start(&daemon, start_late);
	hear(daemon.fd);
	CHECK(connect_and_explain(why, sizeof(why)) == -ENOSPC);
	worker_kill(&daemon);
}

/* A start that takes its time, as on a busy machine. */
static void test_daemon_is_slow_to_start(void **state)
{
	char *program = strdup(getenv("VERBATIM_DAEMON"));
	char path[] = "/tmp/test-slow-daemon.XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	dprintf(fd, "#!/bin/sh\nsleep 6\nexec '%s'\n", program);
	CHECK(!fchmod(fd, 0700) && !close(fd));
	setenv("VERBATIM_DAEMON", path, 1);
	ctl_close(join());
	setenv("VERBATIM_DAEMON", program, 1);
	unlink(path);
	free(program);
}

static void test_missing_daemon_explains_itself(void **state)
{
	char *program = strdup(getenv("VERBATIM_DAEMON"));
	char why[512] = "";

	setenv("VERBATIM_DAEMON", "/nonexistent/verbatimd", 1);
	CHECK(connect_and_explain(why, sizeof(why)) == -ENOENT);
	CHECK(strstr(why, "/nonexistent/verbatimd") && strstr(why, "VERBATIM_DAEMON"));
	CHECK(!strchr(why, '\n'));

	setenv("VERBATIM_DAEMON", "/etc/passwd", 1);
	CHECK(connect_and_explain(why, sizeof(why)) == -EACCES);
	CHECK(strstr(why, "/etc/passwd"));

	/* Another program: its output is the reason. */
	setenv("VERBATIM_DAEMON", "/bin/pwd", 1);
	CHECK(connect_and_explain(why, sizeof(why)) == -ECONNREFUSED);
	CHECK(strstr(why, "/bin/pwd could not be started: /"));

	unsetenv("VERBATIM_DAEMON");
	int rc = connect_and_explain(why, sizeof(why));

	/* Unless Verbatim is installed here. */
	CHECK(!rc || (rc == -ENOENT && strstr(why, "install") && strstr(why, "VERBATIM_DAEMON")));
	setenv("VERBATIM_DAEMON", program, 1);
	free(program);
}

static void test_unsealed_arena_is_refused(void **state)
{
	struct ctl_client *c;
	char why[256] = "";
	int plain = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK(ctl_connect(&c, plain, make_wake(), make_arena(), "test", why, sizeof(why)) ==
	      -EINVAL);
	CHECK(ctl_connect(&c, make_arena(), make_wake(), plain, "test", why, sizeof(why)) ==
	      -EINVAL);
	CHECK(strstr(why, "refuses"));
	close(plain);
}

/* Peers would die of SIGBUS where the pool of huge pages is empty. */
static void test_arena_of_huge_pages_is_refused(void **state)
{
	int huge = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct ctl_client *c;
	char why[256] = "";

	if (huge < 0)
		skip();
	CHECK(!fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	CHECK(ctl_connect(&c, huge, make_wake(), make_arena(), "test", why, sizeof(why)) ==
	      -EINVAL);
	CHECK(ctl_connect(&c, make_arena(), make_wake(), huge, "test", why, sizeof(why)) ==
	      -EINVAL);
	close(huge);
}

static volatile sig_atomic_t sigchlds;

static void count_sigchld(int sig)
{
	sigchlds++;
}

/* A program that waits for any child must not meet the daemon's. */
static void test_start_leaves_no_trace_in_the_program(void **state)
{
	struct sigaction count = { .sa_handler = count_sigchld }, before;
	unsigned fds;

	sigaction(SIGCHLD, &count, &before);
	sigchlds = 0;
	fds = count_fds(getpid());
	ctl_close(join());
	CHECK(sigchlds == 0);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	CHECK(count_fds(getpid()) == fds + 3); /* the arena and the eventfd */
	sigaction(SIGCHLD, &before, NULL);
}

static void test_program_without_standard_fds(void **state)
{
	pid_t child = fork();
	int status;

	if (!child) {
		close(0);
		close(1);
		close(2);
		ctl_close(join());
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_two_processes_get_one_link),
		TEST(test_link_with_oneself),
		TEST(test_unknown_slots),
		TEST(test_lowest_slot_is_given_again),
		TEST(test_death_is_told),
		TEST(test_death_with_a_living_child),
		TEST(test_child_is_another_process),
		TEST(test_multicast_membership),
		TEST(test_threads_and_notices),
		TEST(test_no_ports_to_return),
		TEST(test_daemon_killed),
		TEST(test_daemon_hangs),
		TEST(test_daemon_hangs_for_all),
		TEST(test_daemon_is_late),
		TEST(test_daemon_is_slow_to_start),
		TEST(test_missing_daemon_explains_itself),
		TEST(test_unsealed_arena_is_refused),
		TEST(test_arena_of_huge_pages_is_refused),
		TEST(test_start_leaves_no_trace_in_the_program),
		TEST(test_program_without_standard_fds),
	};

	return cmocka_run_group_tests_name("ctl client", tests, NULL, NULL);
}
