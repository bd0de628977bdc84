/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors whose close(2) takes long: however they come into the daemon, no client waits for
 * their close. The tests use a lingering TCP socket, whose close waits for its linger time because
 * of unread data.
 */
#include "cm_raw.h"
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/deadline.h"

#define LINGER_S 20
#define SOON_MS	 5000
#define JAM	 24   /* sockets that linger: more than the threads that one user may block */
#define THREADS	 16   /* so many */
#define BEHIND	 64   /* limit of a user's queued descriptors */
#define LIMIT	 512  /* descriptors that the daemon may have */
#define FULL	 256  /* limit of all users' queued descriptors */
#define IDLE_MS	 1500 /* in which idle threads have ended */
#define CALLS	 12   /* of another user */
#define QUEUE	 16   /* messages: more than the queue of a socket has, as it is by default */
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

static struct {
	struct ctl_client *first; /* starts the daemon, and keeps it */
	int passive, active;
	pid_t daemon;
	int reader;	  /* the other end of the socket that lingers; reads nothing */
	int readers[JAM]; /* the same of a jam */
	struct rlimit usual;
} t;

static int make_lingering(void)
{
	struct linger linger = { 1, LINGER_S };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char bytes[65536];
	socklen_t len = sizeof(at);

	CHECK(!bind(listener, (struct sockaddr *)&at, sizeof(at)) && !listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&at, &len));
	CHECK(!connect(fd, (struct sockaddr *)&at, sizeof(at)));
	t.reader = accept(listener, NULL, NULL);
	CHECK(t.reader >= 0);
	close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	return fd;
}

/* Sends descriptors and closes them here, so that the daemon's close is the last. */
static void give(int sock, const void *message, size_t len, int *fds, unsigned count)
{
	CHECK(!kill(t.daemon, SIGSTOP));
	CHECK(!fdmsg_send(sock, message, len, fds, count));
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	CHECK(!kill(t.daemon, SIGCONT));
}

static int begin(void **state)
{
	harness_setup(state);
	t.first = join();
	t.daemon = daemon_pid();
	t.passive = cm_join();
	t.active = cm_join();
	return 0;
}

/* The other clients are served meanwhile. */
static void check_others(void)
{
	for (int i = 0; i < 3; i++)
		CHECK(cm_round(t.passive, t.active) < LINGER_S * 1000);
	CHECK(daemon_pid() == t.daemon);
}

static int finish(void **state)
{
	close(t.reader);
	close(t.passive);
	close(t.active);
	ctl_close(t.first);
	return harness_teardown(state);
}

static struct ctl_hello make_hello(void)
{
	return (struct ctl_hello){
		.greeting = { { CTL_HELLO, 1 }, CTL_MAGIC, CTL_VERSION },
		.comm = "raw",
	};
}

static void test_of_a_wrong_kind(void **state)
{
	struct ctl_hello hello = make_hello();
	int fds[] = { make_arena(), make_lingering(), make_arena() }, sock = raw_connect();
	struct fdmsg m;

	give(sock, &hello, sizeof(hello), fds, 3);
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m));
	CHECK(m.body.welcome.status == EINVAL);
	CHECK(is_cut_off(sock));
	check_others();
	close(sock);
}

static void test_as_a_channel(void **state)
{
	struct ctl_cm_ask create = { .header = { CTL_CM_CREATE_CHANNEL, 1 } };
	int fd = make_lingering(), sock = cm_join();
	struct fdmsg m;

	give(sock, &create, sizeof(create), &fd, 1);
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m));
	CHECK(m.body.cm_reply.status == EINVAL);
	check_others();
	close(sock);
}

/* Under way when the daemon cuts the client off. */
static void test_not_received_yet(void **state)
{
	struct ctl_cm_ask create = { .header = { CTL_CM_CREATE_CHANNEL, 1 } };
	int fd = make_lingering(), sock = cm_join();

	CHECK(!kill(t.daemon, SIGSTOP));
	CHECK(!fdmsg_send(sock, "garbage", 7, NULL, 0));
	CHECK(!fdmsg_send(sock, &create, sizeof(create), &fd, 1));
	close(fd);
	CHECK(!kill(t.daemon, SIGCONT));
	CHECK(is_cut_off(sock));
	close(sock);
	check_others();
}

/* As many as a message can have; the last one is `last`. */
static void send_most(int sock, const void *message, size_t len, int last)
{
	int fds[FDMSG_FDS_ROOM];

	for (int i = 0; i < FDMSG_FDS_ROOM - 1; i++)
		fds[i] = t.reader;
	fds[FDMSG_FDS_ROOM - 1] = last;
	CHECK(!fdmsg_send(sock, message, len, fds, FDMSG_FDS_ROOM));
}

static void test_too_many(void **state)
{
	struct ctl_cm_ask create = { .header = { CTL_CM_CREATE_CHANNEL, 1 } };
	int fd = make_lingering(), sock = cm_join();

	CHECK(!kill(t.daemon, SIGSTOP));
	send_most(sock, &create, sizeof(create), fd);
	close(fd);
	CHECK(!kill(t.daemon, SIGCONT));
	CHECK(is_cut_off(sock));
	check_others();
	close(sock);
}

static unsigned count_threads(void)
{
	char path[64];
	unsigned count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)t.daemon);
	dir = opendir(path);
	CHECK(dir != NULL);
	for (struct dirent *e; (e = readdir(dir));)
		count += e->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* The threads that close descriptors end when they have closed all. */
static bool has_closed_all(void)
{
	for (int64_t until = now_ms() + SOON_MS; now_ms() < until; usleep(2000))
		if (count_threads() == 1)
			return true;
	return false;
}

/* A limit of so many leaves the process no room, whatever it has above. */
static unsigned lowest_free_fd(pid_t pid)
{
	char path[64];
	unsigned fd = 0;

	do
		snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)pid, fd++);
	while (!faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW));
	return fd - 1;
}

/*
 * The daemon may have no more descriptors: the kernel drops those that come, or the daemon has to.
 */
static void test_without_room(void **state)
{
	int fd = make_lingering(), sock = cm_join();
	uint32_t channel = cm_make_channel(t.passive);
	struct ctl_cm_ask create = { .header = { CTL_CM_CREATE_CHANNEL, 1 } };
	struct rlimit old, none;
	struct fdmsg m;

	/* what one of its threads closes later would make room */
	CHECK(has_closed_all());
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, NULL, &old));
	none = old;
	none.rlim_cur = lowest_free_fd(t.daemon);
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, &none, NULL));
	give(sock, &create, sizeof(create), &fd, 1);
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m));
	CHECK(m.body.cm_reply.status == EMFILE);
	/* Other clients do not wait for an answer either. */
	CHECK(cm_event(t.passive, channel).answer == EAGAIN);
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, &old, NULL));
	check_others();
	close(sock);
}

/* A channel with an event, whose descriptor is the program's to write to. */
struct raised {
	int sock, event_fd;
	uint32_t channel;
	struct ctl_cm_raise raise;
};

static void raise_event(struct raised *r)
{
	CHECK(!cm_ask(r->sock, &r->raise, sizeof(r->raise)).status);
}

static void make_raised(struct raised *r)
{
	r->sock = cm_join();
	r->event_fd = cm_make_event_fd();
	CHECK(!cm_create_channel(r->sock, r->event_fd, &r->channel));
	r->raise = (struct ctl_cm_raise){ .header = { .type = CTL_CM_RAISE },
					  .kind = CTL_CM_ADDR_RESOLVED,
					  .id = cm_make_id(r->sock, r->channel) };
}

static void end_raised(struct raised *r)
{
	close(r->event_fd);
	close(r->sock);
}

/* What is under way in it. */
static void test_in_an_event_fd(void **state)
{
	int fd = make_lingering();
	struct raised r;

	make_raised(&r);
	give(r.event_fd, "x", 1, &fd, 1);
	raise_event(&r);
	CHECK(!cm_event(r.sock, r.channel).answer);
	check_others();
	end_raised(&r);
}

/* The program wants to know who sends, and when. */
static void test_beside_other_control_data(void **state)
{
	int fd = make_lingering(), on = 1;
	struct raised r;

	make_raised(&r);
	CHECK(!setsockopt(r.event_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
	CHECK(!setsockopt(r.event_fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)));
	CHECK(!kill(t.daemon, SIGSTOP));
	send_most(r.event_fd, "x", 1, fd);
	close(fd);
	CHECK(!kill(t.daemon, SIGCONT));
	raise_event(&r);
	CHECK(!cm_event(r.sock, r.channel).answer);
	check_others();
	end_raised(&r);
}

/* Then the kernel makes a descriptor of the sender's process for whoever receives: Linux 6.5. */
static void test_pidfds(void **state)
{
	int on = 1;
	unsigned base;
	struct raised r;

	t.reader = -1;
	make_raised(&r);
	if (setsockopt(r.event_fd, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on))) {
		CHECK(errno == ENOPROTOOPT);
		end_raised(&r);
		print_message("skipped: needs SO_PASSPIDFD\n");
		skip();
	}
	base = count_fds(t.daemon);
	for (int i = 0; i < 8; i++) {
		raise_event(&r);
		CHECK(!cm_event(r.sock, r.channel).answer);
	}
	CHECK(count_fds(t.daemon) == base);
	end_raised(&r);
}

static void test_in_an_event_fd_that_ends(void **state)
{
	int fd = make_lingering(), sock = cm_join(), event_fd = cm_make_event_fd();
	uint32_t channel;

	CHECK(!cm_create_channel(sock, event_fd, &channel));
	give(event_fd, "x", 1, &fd, 1);
	close(event_fd);
	CHECK(!cm_say(sock, CTL_CM_DESTROY_CHANNEL, 0, channel));
	check_others();
	close(sock);
}

/* A process with a slot. */
static int join_raw(void)
{
	struct ctl_hello hello = make_hello();
	int fds[] = { make_arena(), make_wake(), make_arena() }, sock = raw_connect();
	struct fdmsg m;

	CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 3));
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m) && !m.body.welcome.status);
	fdmsg_close_fds(&m);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return sock;
}

/* Asks for the port of an address of the test: the answer's status. */
static uint32_t ask_for_port(int sock, struct fdmsg *m)
{
	struct ctl_port port = { .header = { .type = CTL_PORT, .seq = 2 } };

	port.gid[10] = port.gid[11] = 0xff;
	port.gid[12] = 127;
	port.gid[13] = (uint8_t)(getpid() >> 8);
	port.gid[14] = (uint8_t)getpid();
	port.gid[15] = 77;
	CHECK(!fdmsg_send(sock, &port, sizeof(port), NULL, 0));
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), m));
	return m->body.port_reply.status;
}

/* A process may have put anything into the descriptor store of a port that it was given. */
static void test_in_a_descriptor_store(void **state)
{
	int fd = make_lingering(), sock = join_raw();
	struct fdmsg m;

	CHECK(!ask_for_port(sock, &m) && m.fd_count == 2);
	give(m.fds[1], "", 1, &fd, 1);
	fdmsg_close_fds(&m);
	close(sock);
	check_others();
}

/*
 * ------------------------------------------------------------------------------------------
 * Many at once.
 */

/* All holders of the pipe's other end have closed it. */
static bool is_let_go(int pipe_fd, int ms)
{
	struct pollfd p = { .fd = pipe_fd, .events = 0 };

	return poll(&p, 1, ms) == 1 && p.revents & POLLHUP;
}

/*
 * Blocks all threads that this user may block. Stops the daemon once, which ends waits that have
 * begun, so that it receives all descriptors together. *kept: an end of a pipe, whose other end
 * came last.
 */
static void jam(int *kept)
{
	struct ctl_hello hello = make_hello();
	int socks[JAM], ends[2];

	for (int i = 0; i < JAM; i++)
		socks[i] = raw_connect();
	CHECK(!pipe2(ends, O_CLOEXEC));
	*kept = ends[0];
	CHECK(!kill(t.daemon, SIGSTOP));
	for (int i = 0; i < JAM; i++) {
		int fds[] = { make_arena(), make_lingering(), make_arena(), ends[1] };

		t.readers[i] = t.reader;
		CHECK(!fdmsg_send(socks[i], &hello, sizeof(hello), fds, i == JAM - 1 ? 4 : 3));
		for (int j = 0; j < 3; j++)
			close(fds[j]);
	}
	close(ends[1]);
	CHECK(!kill(t.daemon, SIGCONT));
	for (int i = 0; i < JAM; i++) {
		CHECK(is_cut_off(socks[i]));
		close(socks[i]);
	}
	usleep(IDLE_MS * 1000);
	CHECK(count_threads() == 1 + THREADS);
}

static void clear_jam(void)
{
	for (int i = 0; i < JAM; i++)
		close(t.readers[i]);
	t.reader = -1;
}

/* The daemon refuses it, and closes its descriptors, too. */
static void call_and_be_refused(const struct sockname *daemon)
{
	struct ctl_hello hello = make_hello();
	int ends[2], fds[] = { make_arena(), -1, make_arena() };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK(!pipe2(ends, O_CLOEXEC));
	fds[1] = ends[1];
	CHECK(!connect(sock, (struct sockaddr *)&daemon->addr, daemon->len));
	while (fdmsg_send(sock, &hello, sizeof(hello), fds, 3)) {
		/* Refused before that. */
		close(sock);
		sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		CHECK(!connect(sock, (struct sockaddr *)&daemon->addr, daemon->len));
	}
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	CHECK(is_let_go(ends[0], SOON_MS));
	close(ends[0]);
	close(sock);
}

static void call_as_another_user(int fd)
{
	struct sockname_space space;
	struct sockname name;

	CHECK(!sockname_space_of_user(geteuid(), &space));
	sockname_of_daemon(&space, &name);
	CHECK(!setuid(20001));
	for (int i = 0; i < CALLS; i++)
		call_and_be_refused(&name);
	say(fd, 1);
	CHECK(hear(fd) == 1);
}

/* More than the threads that one user may block: only its own descriptors wait. */
static void test_many_at_once(void **state)
{
	struct worker other;
	int kept;

	jam(&kept);
	check_others();
	if (geteuid() == 0) {
		worker_start(&other, call_as_another_user);
		CHECK(hear(other.fd) == 1);
		say(other.fd, 1);
		worker_end(&other);
	}
	CHECK(!is_let_go(kept, 0));
	/* a call has four descriptors: a thread does not start for each of them */
	CHECK(count_threads() <= 1 + THREADS + 2 * CALLS);
	clear_jam();
	CHECK(is_let_go(kept, SOON_MS));
	close(kept);
}

/*
 * A port that is being closed, after its last process has ended, does not count as taken by another
 * program.
 */
static void test_port_that_is_being_closed(void **state)
{
	int sock = join_raw(), next = join_raw(), kept;
	struct fdmsg m;

	CHECK(!ask_for_port(sock, &m));
	jam(&kept);
	fdmsg_close_fds(&m);
	close(sock);
	check_others(); /* it is freed by now */
	CHECK(ask_for_port(next, &m) == EAGAIN);
	CHECK(strstr(m.body.port_reply.why, "closed") != NULL);
	clear_jam();
	CHECK(is_let_go(kept, SOON_MS));
	for (int64_t end = now_ms() + PATIENCE_MS; ask_for_port(next, &m); usleep(10000))
		CHECK(m.body.port_reply.status == EAGAIN && now_ms() < end);
	fdmsg_close_fds(&m);
	close(next);
	close(kept);
}

static void limit_daemon(void)
{
	struct rlimit limit;

	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, NULL, &t.usual));
	limit = t.usual;
	limit.rlim_cur = LIMIT;
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, &limit, NULL));
}

/* Sends descriptors until the daemon disconnects; returns how many. */
static unsigned give_until_cut_off(int sock)
{
	struct ctl_cm_ask create = { .header = { CTL_CM_CREATE_CHANNEL, 1 } };
	int wake = make_wake();
	unsigned count = 0;
	struct fdmsg m;

	while (count < 2 * LIMIT) {
		if (fdmsg_send(sock, &create, sizeof(create), &wake, 1))
			break;
		if (fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m))
			break;
		CHECK(m.body.cm_reply.status == EINVAL);
		count++;
	}
	close(wake);
	return count;
}

static int call(void)
{
	int sock = raw_connect();
	struct fdmsg m;

	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m));
	close(sock);
	return m.body.welcome.status;
}

/* A client whose descriptors cannot be closed is disconnected before the daemon has none left. */
static void test_more_than_can_be_closed(void **state)
{
	uint32_t channel = cm_make_channel(t.passive);
	int sock = cm_join(), kept, callers[LIMIT];
	unsigned base = count_fds(t.daemon);

	limit_daemon();
	jam(&kept);
	CHECK(give_until_cut_off(sock) <= BEHIND);
	close(sock);
	CHECK(call() == EMFILE);
	CHECK(count_fds(t.daemon) <= base + THREADS + BEHIND + 2 * JAM);
	for (int i = 0; i < LIMIT; i++)
		callers[i] = raw_connect();
	usleep(IDLE_MS * 1000);
	CHECK(count_fds(t.daemon) >= FULL);
	CHECK(count_fds(t.daemon) <= base + THREADS + FULL + 1);
	/* It serves its other clients. */
	CHECK(cm_event(t.passive, channel).answer == EAGAIN);

	clear_jam();
	CHECK(is_let_go(kept, SOON_MS));
	close(kept);
	for (int i = 0; i < LIMIT; i++)
		close(callers[i]);
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, &t.usual, NULL));
	for (int64_t end = now_ms() + PATIENCE_MS; count_fds(t.daemon) > base; usleep(10000))
		CHECK(now_ms() < end);
	check_others();
	close(cm_join());
}

/* Fills the queue of a socket that the daemon is about to receive from with descriptors. */
static void fill(int sender)
{
	int fds[FDMSG_FDS_ROOM];

	for (int i = 0; i < FDMSG_FDS_ROOM; i++)
		fds[i] = t.readers[0];
	for (int i = 0; i < QUEUE && !fdmsg_send(sender, "x", 1, fds, FDMSG_FDS_ROOM); i++)
		;
}

/* A sender to the token, which is bound. */
static int make_sender(int token_fd)
{
	struct sockname name = { .len = sizeof(name.addr) };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(!getsockname(token_fd, (struct sockaddr *)&name.addr, &name.len));
	CHECK(!connect(fd, (struct sockaddr *)&name.addr, name.len));
	return fd;
}

/* The daemon takes one message beyond the limit. */
static void check_taken(unsigned base)
{
	CHECK(count_fds(t.daemon) <= base + BEHIND + FDMSG_FDS_ROOM + 2);
}

static void test_many_in_an_event_fd(void **state)
{
	struct ctl_cm_ask get = { .header = { .type = CTL_CM_GET_EVENT } };
	struct raised r;
	unsigned base;
	char byte;
	int kept;

	make_raised(&r);
	get.channel = r.channel;
	limit_daemon();
	jam(&kept);
	for (int i = 0; i < QUEUE; i++)
		raise_event(&r);
	while (recv(r.event_fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0)
		;
	base = count_fds(t.daemon);
	fill(r.event_fd);
	for (int i = 0; i < QUEUE && !fdmsg_send(r.sock, &get, sizeof(get), NULL, 0); i++)
		;
	CHECK(is_cut_off(r.sock));
	check_taken(base);
	clear_jam();
	CHECK(is_let_go(kept, SOON_MS));
	close(kept);
	end_raised(&r);
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, &t.usual, NULL));
	check_others();
}

/* A process returns with its token, which the daemon has to receive from. */
static void test_many_in_a_token(void **state)
{
	struct ctl_hello hello = make_hello();
	int sock = raw_connect(), fds[] = { make_arena(), make_wake(), make_arena(), -1 }, kept;
	struct fdmsg m;
	unsigned base;
	int sender;

	CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 3));
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m) && m.fd_count == 1);
	hello.wanted_slot = m.body.welcome.slot;
	fds[3] = m.fds[0];
	close(sock);
	limit_daemon();
	jam(&kept);
	base = count_fds(t.daemon);
	sender = make_sender(fds[3]);
	fill(sender);
	close(sender);
	sock = raw_connect();
	CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 4));
	CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m));
	CHECK(m.body.welcome.status == EDQUOT);
	check_taken(base);
	clear_jam();
	CHECK(is_let_go(kept, SOON_MS));
	close(kept);
	close(sock);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	CHECK(!prlimit(t.daemon, RLIMIT_NOFILE, &t.usual, NULL));
	check_others();
}

/* Peers get no descriptors of another type than they expect. */
static void test_wake_is_no_pipe(void **state)
{
	int ends[2], kinds[3], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK(!pipe2(ends, O_CLOEXEC));
	kinds[0] = ends[1];
	kinds[1] = null;
	kinds[2] = make_arena();
	t.reader = -1;
	for (int i = 0; i < 3; i++) {
		struct ctl_hello hello = make_hello();
		int fds[] = { make_arena(), kinds[i], make_arena() }, sock = raw_connect();
		struct fdmsg m;

		CHECK(!fdmsg_send(sock, &hello, sizeof(hello), fds, 3));
		CHECK(!fdmsg_wait(sock, deadline_in_ms(SOON_MS), &m));
		CHECK(m.body.welcome.status == EINVAL);
		close(sock);
		close(fds[0]);
		close(fds[2]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_of_a_wrong_kind),
		TEST(test_as_a_channel),
		TEST(test_not_received_yet),
		TEST(test_too_many),
		TEST(test_without_room),
		TEST(test_in_an_event_fd),
		TEST(test_beside_other_control_data),
		TEST(test_pidfds),
		TEST(test_in_an_event_fd_that_ends),
		TEST(test_in_a_descriptor_store),
		TEST(test_many_at_once),
		TEST(test_more_than_can_be_closed),
		TEST(test_many_in_an_event_fd),
		TEST(test_many_in_a_token),
		TEST(test_port_that_is_being_closed),
		TEST(test_wake_is_no_pipe),
	};

	return cmocka_run_group_tests_name("daemon closing", tests, NULL, NULL);
}
