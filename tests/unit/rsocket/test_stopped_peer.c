/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stopped peer acknowledges nothing: how long rclose and rshutdown take, and what arrives when it
 * continues. A killed peer: threads that wait for it get an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONG_MS	  20000
#define AT_ONCE_S 3.0 /* what is wrong takes ten */

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct rig {
	int listener, fd;
	pid_t peer;
};

/* Ends a peer, and prints why, because its other end sees only the end of the connection. */
static _Noreturn void give_up(const char *what)
{
	print_error("peer: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/*
 * Connects, stops once what it sent has come, and when it goes on expects "bye" and the end of the
 * stream.
 */
static void be_peer(const struct sockaddr_in *addr, int gate)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	char buffer[8] = "";

	if (fd < 0)
		give_up("rsocket");
	if (rconnect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		give_up("rconnect");
	if (rsend(fd, "x", 1, 0) != 1)
		give_up("rsend");
	if (read(gate, buffer, 1) != 1)
		give_up("read");
	raise(SIGSTOP);
	if (rrecv(fd, buffer, 3, MSG_WAITALL) != 3 || memcmp(buffer, "bye", 3))
		give_up("rrecv");
	if (rrecv(fd, buffer, 1, 0))
		give_up("end of stream");
	_exit(0);
}

/* The peer is made before this process has a device. */
static pid_t peer_of(struct sockaddr_in *addr, int *go)
{
	int tube[2];
	pid_t pid;

	assert_return_code(pipe(tube), errno);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(tube[1]);
		if (read(tube[0], addr, sizeof(*addr)) != sizeof(*addr))
			_exit(1);
		be_peer(addr, tube[0]);
	}
	close(tube[0]);
	*go = tube[1];
	return pid;
}

enum { ROUNDS = 7 };

static pid_t peers[ROUNDS];
static int gates[ROUNDS], next_peer;

static int make_peers(void **state)
{
	static struct sockaddr_in addr;

	signal(SIGPIPE, SIG_IGN);
	/* The parent may have set SIG_IGN: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	for (int i = 0; i < ROUNDS; i++)
		peers[i] = peer_of(&addr, &gates[i]);
	return 0;
}

/* Also when a test has failed: a stopped process does not end by itself. */
static int end_peers(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		if (!waitpid(peers[i], NULL, WNOHANG)) {
			kill(peers[i], SIGKILL);
			waitpid(peers[i], NULL, 0);
		}
	return 0;
}

static void begin(struct rig *rig, bool nonblocking)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(addr);
	int status, gate;
	char byte;

	rig->listener = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_return_code(rbind(rig->listener, (struct sockaddr *)&addr, sizeof(addr)), errno);
	assert_return_code(rgetsockname(rig->listener, (struct sockaddr *)&addr, &length), errno);
	assert_return_code(rlisten(rig->listener, 8), errno);
	rig->peer = peers[next_peer];
	gate = gates[next_peer++];
	assert_int_equal(write(gate, &addr, sizeof(addr)), sizeof(addr));
	rig->fd = raccept(rig->listener, NULL, NULL);
	assert_true(rig->fd >= 0);
	assert_int_equal(rrecv(rig->fd, &byte, 1, 0) == 1 ? 0 : errno, 0);
	assert_int_equal(write(gate, &byte, 1), 1);
	assert_int_equal(waitpid(rig->peer, &status, WUNTRACED), rig->peer);
	assert_true(WIFSTOPPED(status));
	assert_return_code(rfcntl(rig->fd, F_SETFL, nonblocking ? O_NONBLOCK : 0), errno);
	assert_int_equal(rsend(rig->fd, "bye", 3, 0), 3);
}

static int end(struct rig *rig)
{
	int status;

	kill(rig->peer, SIGCONT);
	assert_int_equal(waitpid(rig->peer, &status, 0), rig->peer);
	assert_return_code(rclose(rig->listener), errno);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double close_s(struct rig *rig)
{
	double since = now_s();

	assert_return_code(rclose(rig->fd), errno);
	return now_s() - since;
}

/* The peer gets all data although rclose did not wait. */
static void nonblocking(void **state)
{
	struct rig rig;

	begin(&rig, true);
	assert_true(close_s(&rig) < AT_ONCE_S);
	assert_int_equal(end(&rig), 0);
}

static void shut_down(void **state)
{
	struct rig rig;
	double since;

	begin(&rig, true);
	since = now_s();
	for (int i = 0; i < 8; i++) {
		assert_return_code(rshutdown(rig.fd, SHUT_WR), errno);
		assert_int_equal(rsend(rig.fd, "x", 1, 0), -1);
		assert_int_equal(errno, EPIPE);
	}
	assert_true(now_s() - since < AT_ONCE_S);
	assert_int_equal(end(&rig), 0);
	assert_true(close_s(&rig) < AT_ONCE_S);
}

static void linger(struct rig *rig, int seconds)
{
	struct linger linger = { .l_onoff = 1, .l_linger = seconds };

	assert_return_code(rsetsockopt(rig->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)),
			   errno);
}

/* As close() of a socket: also if it is non-blocking. */
static void lingers(void **state)
{
	struct rig rig;
	double took;

	begin(&rig, true);
	linger(&rig, 1);
	took = close_s(&rig);
	assert_true(took >= 0.9 && took < 8);
	end(&rig);
}

static void does_not_linger(void **state)
{
	struct rig rig;

	begin(&rig, false);
	linger(&rig, 0);
	assert_true(close_s(&rig) < AT_ONCE_S);
	end(&rig);
}

static void *kill_later(void *arg)
{
	usleep(100000);
	kill(((struct rig *)arg)->peer, SIGKILL);
	return NULL;
}

/* The death of the peer's process ends the stream, or gives an error, soon. */
static void while_killed(bool nonblocking, void (*waits)(int fd))
{
	struct rig rig;
	pthread_t killer;
	double since;

	begin(&rig, nonblocking);
	assert_int_equal(pthread_create(&killer, NULL, kill_later, &rig), 0);
	since = now_s();
	waits(rig.fd);
	assert_true(now_s() - since < 0.1 + AT_ONCE_S);
	pthread_join(killer, NULL);
	assert_int_equal(waitpid(rig.peer, NULL, 0), rig.peer);
	assert_true(close_s(&rig) < AT_ONCE_S);
	assert_return_code(rclose(rig.listener), errno);
}

static void read_it(int fd)
{
	char byte;

	assert_true(rrecv(fd, &byte, 1, 0) <= 0);
}

static void poll_it(int fd)
{
	struct pollfd poll = { .fd = fd, .events = POLLIN };

	assert_int_equal(rpoll(&poll, 1, LONG_MS), 1);
}

static void write_to_it(int fd)
{
	static char data[1 << 20];

	while (rsend(fd, data, sizeof(data), 0) > 0)
		;
	assert_true(errno == ECONNRESET || errno == EPIPE);
}

static void killed_while_read(void **state)
{
	while_killed(false, read_it);
}

static void killed_while_polled(void **state)
{
	while_killed(true, poll_it);
}

static void killed_while_written_to(void **state)
{
	while_killed(false, write_to_it);
}

int main(void)
{
	const struct CMUnitTest tests[ROUNDS] = {
		cmocka_unit_test(nonblocking),
		cmocka_unit_test(shut_down),
		cmocka_unit_test(lingers),
		cmocka_unit_test(does_not_linger),
		cmocka_unit_test(killed_while_read),
		cmocka_unit_test(killed_while_polled),
		cmocka_unit_test(killed_while_written_to),
	};

	return cmocka_run_group_tests(tests, make_peers, end_peers);
}
