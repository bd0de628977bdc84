/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program forks while a TCP socket of iWARP is made, or is handed to its QP. Its child lives on,
 * but the peer sees the socket end with the program; and the child can put the identifier away.
 * The socket is the kernel's where librspreload interposes socket(), too.
 *
 * Without verbatimd and libibverbs: the QP is verbatim_iwarp_attach of this file.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own_thread.h"
#include "cm/address.h"
#include "cm/iwcm.h"
#include "cm/session.h"
#include "iwarp/handover.h"

#define PATIENCE_MS 10000
#define CHILD_S	    60	      /* a child that hangs ends */
#define WINDOW_NS   200000000 /* for a fork within bind(2), which has to wait */

static int reports[2]; /* to the test: of the program, and of its child */
static int hold[2];    /* the child ends when the test closes it */
static pid_t program;
static int listener, peer;

/* Of the program. */
static sem_t is_there, has_forked, may_go_on;
static bool is_watching;
static bool makes_rsockets;
static bool refuses_to_watch;
static void (*end)(void *arg); /* of the connection that the QP takes */
static void *arg_of_end;
static bool takes;
static struct id id;

/*
 * ------------------------------------------------------------------------------------------
 * What is not there.
 */

int session_ask(struct ctl_header *request, size_t len, struct ctl_cm_reply *reply)
{
	return -ENOENT;
}

void verbatim_own_thread(void)
{
}

int verbatim_iwarp_attach(uint32_t qpn, int fd, const struct mpa_agreed *agreed, uint32_t held,
			  void (*ended)(void *arg), void *arg)
{
	sem_post(&is_there);
	if (takes) {
		end = ended;
		arg_of_end = arg;
		return 0;
	}
	while (sem_wait(&may_go_on) < 0)
		;
	return ENOMEM;
}

void verbatim_iwarp_disconnect(uint32_t qpn, const void *arg, enum verbatim_iwarp_end how)
{
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

/* As librspreload, whose descriptors are of /dev/null. */
int __wrap_socket(int domain, int type, int protocol)
{
	return makes_rsockets ? open("/dev/null", O_RDWR) : __real_socket(domain, type, protocol);
}

int __real_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event);

/* As beyond fs.epoll.max_user_watches, for sockets of ends. */
int __wrap_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event)
{
	if (!refuses_to_watch || !event || !event->data.ptr)
		return __real_epoll_ctl(epoll, how, fd, event);
	errno = ENOSPC;
	return -1;
}

int __real_bind(int fd, const struct sockaddr *name, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t len);

int __wrap_bind(int fd, const struct sockaddr *name, socklen_t len)
{
	int rc = __real_bind(fd, name, len);
	struct timespec until;

	if (!is_watching)
		return rc;
	sem_post(&is_there);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WINDOW_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	sem_timedwait(&has_forked, &until);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * The program and its child. A check that fails ends it, and the test misses its report.
 */

static void check(bool ok)
{
	if (!ok)
		_exit(1);
}

static void report(uint16_t what)
{
	check(write(reports[1], &what, sizeof(what)) == sizeof(what));
}

/* Ends with the test, or is killed. */
static void be_child(void)
{
	char byte;

	alarm(CHILD_S);
	iwcm_end(&id);
	report(0);
	check(read(hold[0], &byte, 1) == 0);
	_exit(0);
}

static void fork_child(void)
{
	pid_t child;

	while (sem_wait(&is_there) < 0)
		;
	child = fork();
	check(child >= 0);
	if (!child)
		be_child();
	sem_post(&has_forked);
}

static void *fork_beside(void *unused)
{
	fork_child();
	return NULL;
}

static void make_id(void)
{
	const struct sockaddr_in any = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	id.base.qp_type = IBV_QPT_RC;
	id.number = 1;
	check(!address_from_sockaddr((struct sockaddr *)&any, &id.local));
}

static void begin_connecting(const struct sockaddr_in *to)
{
	const struct iwcm_param param = { .qpn = 5, .responder_resources = 1 };

	make_id();
	check(!address_from_sockaddr((struct sockaddr *)to, &id.remote));
	check(!iwcm_bind(&id) && !iwcm_connect(&id, &param));
}

/* Ends at once when it has a child. */
static void fork_and_die(const struct sockaddr_in *to)
{
	begin_connecting(to);
	fork_child();
}

/* Its QP refuses the connection then. */
static void fork_and_go_on(const struct sockaddr_in *to)
{
	begin_connecting(to);
	fork_child();
	sem_post(&may_go_on);
	pause();
}

static void await_event(uint32_t kind)
{
	struct iwcm_event event;

	while (!iwcm_next_event(&id, &event))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	check(event.kind == kind);
}

/*
 * The connection ends while a thread forks: libibverbs may not wait for that, as its own handlers
 * wait for the thread that tells of the end.
 */
static void end_within_a_fork(const struct sockaddr_in *to)
{
	takes = true;
	begin_connecting(to);
	await_event(CTL_CM_ESTABLISHED);
	iwcm_before_fork();
	end(arg_of_end);
	report(1);
	iwcm_after_fork();
	await_event(CTL_CM_DISCONNECTED);
	iwcm_end(&id);
	report(2);
}

static void fork_and_listen(const struct sockaddr_in *unused)
{
	pthread_t thread;

	make_id();
	check(!pthread_create(&thread, NULL, fork_beside, NULL));
	is_watching = true;
	check(!iwcm_bind(&id));
	check(!pthread_join(thread, NULL));
	check(!iwcm_listen(&id, 1));
	report(id.local.port);
}

static bool is_listened_to(void)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				    .sin_port = id.local.port };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	bool is = !connect(fd, (struct sockaddr *)&name, sizeof(name));

	check(is || errno == ECONNREFUSED);
	close(fd);
	return is;
}

/* What rdma_listen says holds: nobody connects, and it can be tried again. */
static void listen_unwatched(const struct sockaddr_in *unused)
{
	make_id();
	check(!iwcm_bind(&id));
	refuses_to_watch = true;
	check(iwcm_listen(&id, 1) == -ENOSPC);
	refuses_to_watch = false;
	report(is_listened_to());
	check(!iwcm_listen(&id, 1));
	report(is_listened_to());
	iwcm_end(&id);
}

/*
 * ------------------------------------------------------------------------------------------
 * The test.
 */

static void start(void (*run)(const struct sockaddr_in *to))
{
	struct sockaddr_in name;
	socklen_t len = sizeof(name);

	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &len), 0);
	program = fork();
	assert_true(program >= 0);
	if (program)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(hold[1]);
	close(reports[0]);
	close(listener);
	run(&name);
	_exit(0);
}

static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

static uint16_t await_report(void)
{
	uint16_t what;

	await(reports[0]);
	assert_int_equal(read(reports[0], &what, sizeof(what)), sizeof(what));
	return what;
}

static int setup(void **state)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	listener = socket(AF_INET, SOCK_STREAM, 0);
	peer = -1;
	program = 0;
	return listener < 0 || bind(listener, (struct sockaddr *)&name, sizeof(name)) ||
			       listen(listener, 1) || pipe(reports) || pipe(hold)
		       ? -1
		       : 0;
}

static int teardown(void **state)
{
	if (program > 0 && (kill(program, SIGKILL) || waitpid(program, NULL, 0) != program))
		return -1;
	close(hold[0]);
	close(hold[1]);
	close(reports[0]);
	close(reports[1]);
	close(listener);
	return peer < 0 ? 0 : close(peer);
}

/* Accepts the program's connection as an MPA responder. */
static void answer(void)
{
	const struct mpa_offer offer = { .revision = 2, .extensions = true, .ird = 1, .ord = 1 };
	struct mpa_startup startup;
	uint8_t bytes[MPA_FRAME_MAX];

	await(listener);
	peer = accept(listener, NULL, NULL);
	assert_true(peer >= 0);
	mpa_startup_answer(&startup, &offer);
	while (startup.state == MPA_WAITING) {
		ssize_t got;

		await(peer);
		got = recv(peer, bytes, mpa_startup_wanted(&startup), 0);
		assert_true(got > 0);
		mpa_startup_feed(&startup, bytes, (size_t)got);
	}
	assert_int_equal(startup.state, MPA_ASKED);
	assert_int_equal(mpa_startup_accept(&startup, 1, 1, NULL, 0), 0);
	assert_int_equal(send(peer, startup.out, startup.out_bytes, MSG_NOSIGNAL),
			 startup.out_bytes);
}

static void expect_end(void)
{
	char byte;

	await(peer);
	assert_true(recv(peer, &byte, 1, 0) <= 0);
}

static void test_program_dies_while_it_hands_over(void **state)
{
	start(fork_and_die);
	answer();
	await_report(); /* the child lives, and has put the identifier away */
	expect_end();
}

static void test_qp_refuses_the_socket(void **state)
{
	start(fork_and_go_on);
	answer();
	await_report();
	expect_end();
}

static void test_end_within_a_fork(void **state)
{
	start(end_within_a_fork);
	answer();
	assert_int_equal(await_report(), 1);
	assert_int_equal(await_report(), 2);
}

static void test_fork_while_the_socket_is_made(void **state)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	start(fork_and_listen);
	/* in whichever order: the child's, which is 0, and the program's */
	name.sin_port = await_report();
	name.sin_port |= await_report();
	assert_int_equal(waitpid(program, NULL, 0), program);
	program = 0;
	peer = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(connect(peer, (struct sockaddr *)&name, sizeof(name)) < 0);
	assert_int_equal(errno, ECONNREFUSED);
}

static void test_listener_that_cannot_be_watched(void **state)
{
	start(listen_unwatched);
	assert_int_equal(await_report(), false);
	assert_int_equal(await_report(), true);
}

static void test_librspreload(void **state)
{
	int rc;

	make_id();
	makes_rsockets = true;
	rc = iwcm_bind(&id);
	makes_rsockets = false;
	assert_int_equal(rc, 0);
	assert_int_not_equal(id.local.port, 0);
	iwcm_end(&id);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_program_dies_while_it_hands_over),
		TEST(test_qp_refuses_the_socket),
		TEST(test_end_within_a_fork),
		TEST(test_fork_while_the_socket_is_made),
		TEST(test_listener_that_cannot_be_watched),
		TEST(test_librspreload),
	};

	/* as cm/id.c */
	pthread_atfork(iwcm_before_fork, iwcm_after_fork, iwcm_after_fork_in_child);
	return sem_init(&is_there, 0, 0) || sem_init(&has_forked, 0, 0) ||
	       sem_init(&may_go_on, 0, 0) ||
	       cmocka_run_group_tests_name("iwcm fork", tests, NULL, NULL);
}
