/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of verbatimd: programs notice nothing, since the next one restores its state. The child
 * of a fork has no objects of its parent.
 */
#include "harness.h"
#include "pairs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/dial.h"

#define SOON_MS 5000

static void kill_daemon(void)
{
	pid_t daemon = daemon_pid();

	CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
}

static struct rdma_cm_id *make_listener(struct rdma_event_channel *channel)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 4));
	return id;
}

/* Without QPs. */
static void connect_ends(struct pair *p)
{
	struct rdma_conn_param param = { .qp_num = 77 };

	pair_open(p, RDMA_PS_TCP);
	CHECK(!rdma_connect(p->id, &param));
	CHECK(!rdma_ack_cm_event(pair_take_request(p)));
	CHECK(!rdma_accept(p->child, &param));
	expect_event(p->active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(!rdma_establish(p->id));
	expect_event(p->passive, RDMA_CM_EVENT_ESTABLISHED);
}

static atomic_uint steps; /* of connect_again */

/* Another connection to the listener, made and ended. */
static void connect_again(struct pair *p)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct rdma_cm_id *id, *child;
	struct rdma_cm_event *event;

	CHECK(!rdma_create_id(p->active, &id, NULL, RDMA_PS_TCP));
	pair_route(p->active, id, p->listener);
	steps++;
	CHECK(!rdma_connect(id, &param));
	event = await_event(p->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	CHECK(!rdma_ack_cm_event(event));
	steps++;
	CHECK(!rdma_accept(child, &param));
	CHECK(expect_event(p->active, RDMA_CM_EVENT_CONNECT_RESPONSE) == id);
	steps++;
	CHECK(!rdma_establish(id));
	CHECK(expect_event(p->passive, RDMA_CM_EVENT_ESTABLISHED) == child);
	steps++;
	CHECK(!rdma_disconnect(id));
	CHECK(expect_event(p->passive, RDMA_CM_EVENT_DISCONNECTED) == child);
	steps++;
	CHECK(!rdma_disconnect(child));
	CHECK(expect_event(p->active, RDMA_CM_EVENT_DISCONNECTED) == id);
	steps++;
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(id));
}

static bool is_readable(const struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The next verbatimd restores the last one's state: connected ends get no events. */
static void test_connections_and_listeners_go_on(void **state)
{
	struct rdma_cm_id *id;
	struct pair p;

	connect_ends(&p);
	for (int i = 0; i < 3; i++) {
		kill_daemon();
		CHECK(!has_event(p.active, 20) && !has_event(p.passive, 20));
		/* The listener serves others, and a new listener cannot have its port. */
		CHECK(!rdma_create_id(p.active, &id, NULL, RDMA_PS_TCP));
		CHECK(rdma_bind_addr(id, rdma_get_local_addr(p.listener)) && errno == EADDRINUSE);
		CHECK(!rdma_destroy_id(id));
		connect_again(&p);
	}
	kill_daemon();
	CHECK(!rdma_disconnect(p.id));
	CHECK(expect_event(p.passive, RDMA_CM_EVENT_DISCONNECTED) == p.child);
	CHECK(!rdma_disconnect(p.child));
	CHECK(expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED) == p.id);
	pair_close(&p);
}

/* Between any two steps of a connection, and with the event fetched or not. */
static void test_each_step_goes_on(void **state)
{
	struct rdma_conn_param param = { .qp_num = 77 };

	for (int when = 0; when < 8; when++) {
		int step = 0;
		struct pair p;

		pair_open(&p, RDMA_PS_TCP);
#define STEP()                                                                                     \
	if (step++ == when)                                                                        \
	kill_daemon()
		STEP();
		CHECK(!rdma_connect(p.id, &param));
		STEP();
		CHECK(has_event(p.passive, PATIENCE_MS));
		STEP();
		CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		STEP();
		CHECK(!rdma_accept(p.child, &param));
		STEP();
		CHECK(has_event(p.active, PATIENCE_MS));
		STEP();
		CHECK(expect_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE) == p.id);
		STEP();
		CHECK(!rdma_establish(p.id));
		STEP();
		CHECK(expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED) == p.child);
		CHECK(!has_event(p.active, 0) && !has_event(p.passive, 0));
		pair_close(&p);
	}
}

/* The other end has disconnected before rdma_establish, which succeeds all the same, once. */
static void test_a_step_after_the_end_goes_on(void **state)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	CHECK(!rdma_connect(p.id, &param));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	CHECK(!rdma_accept(p.child, &param) && !rdma_disconnect(p.child));
	CHECK(expect_event(p.passive, RDMA_CM_EVENT_DISCONNECTED) == p.child);
	kill_daemon();
	CHECK(expect_event(p.active, RDMA_CM_EVENT_CONNECT_RESPONSE) == p.id);
	CHECK(expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED) == p.id);
	CHECK(!rdma_establish(p.id));
	CHECK(fails_with(rdma_establish(p.id), EINVAL));
	pair_close(&p);
}

/* In their order, each once: those of the program's own, too. */
static void test_events_in_the_queue_stay(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_cm_id *ids[8];

	for (int i = 0; i < 8; i++) {
		CHECK(!rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&to, 1000));
		if (i % 3 == 1)
			kill_daemon();
	}
	for (int i = 0; i < 8; i++) {
		CHECK(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED) == ids[i]);
		if (i % 3 == 1)
			kill_daemon();
	}
	CHECK(!has_event(channel, 0));
	for (int i = 0; i < 8; i++)
		CHECK(!rdma_destroy_id(ids[i]));
	rdma_destroy_event_channel(channel);
}

struct waiter {
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	atomic_bool ended;
};

static void *wait_there(void *arg)
{
	struct waiter *w = arg;

	CHECK(!rdma_get_cm_event(w->channel, &w->event));
	w->ended = true;
	return NULL;
}

/*
 * The next verbatimd serves a program that only sleeps for events: another process connects to its
 * listener, and each of its threads gets an event.
 */
static void test_sleepers_are_served(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_event_channel *active = rdma_create_event_channel();
	struct rdma_cm_id *listener = make_listener(channel), *ids[3];
	struct rdma_conn_param param = { .qp_num = 77 };
	struct waiter waiters[3] = { 0 };
	pthread_t threads[3];

	for (int i = 0; i < 3; i++) {
		waiters[i].channel = channel;
		CHECK(!pthread_create(&threads[i], NULL, wait_there, &waiters[i]));
	}
	usleep(50000);
	for (int i = 0; i < 3; i++) {
		kill_daemon();
		CHECK(!rdma_create_id(active, &ids[i], NULL, RDMA_PS_TCP));
		pair_route(active, ids[i], listener);
		CHECK(!rdma_connect(ids[i], &param));
		for (int64_t end = now_ms() + SOON_MS;
		     waiters[0].ended + waiters[1].ended + waiters[2].ended <= i; usleep(500))
			CHECK(now_ms() < end);
	}
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_id *child = waiters[i].event->id;

		CHECK(!pthread_join(threads[i], NULL));
		CHECK(waiters[i].event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
		CHECK(!rdma_ack_cm_event(waiters[i].event));
		CHECK(!rdma_destroy_id(child));
	}
	for (int i = 0; i < 3; i++)
		CHECK(!rdma_destroy_id(ids[i]));
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(active);
	rdma_destroy_event_channel(channel);
}

static void *get_request(void *arg)
{
	struct rdma_cm_id *child = NULL;

	CHECK(!rdma_get_request(arg, &child));
	return child;
}

/* Calls that wait for their event wait on. */
static void test_synchronous_calls_go_on(void **state)
{
	struct rdma_cm_id *listener = make_listener(NULL), *id, *child;
	struct rdma_event_channel *channel;
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, ntohs(rdma_get_src_port(listener)));
	struct rdma_conn_param param = { .qp_num = 77 };
	pthread_t thread;
	void *got;

	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(!pthread_create(&thread, NULL, get_request, listener));
	usleep(50000);
	kill_daemon();
	CHECK(!rdma_resolve_route(id, 1000));
	CHECK((channel = rdma_create_event_channel()) && !rdma_migrate_id(id, channel));
	CHECK(!rdma_connect(id, &param));
	CHECK(!pthread_join(thread, &got));
	child = got;
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(id) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* Connects to the port that it hears; it has got the answer. */
static struct rdma_cm_id *dial(int fd, struct rdma_event_channel *channel)
{
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, (uint16_t)hear(fd));
	struct rdma_conn_param param = { .qp_num = 77 };
	struct rdma_cm_id *id = NULL;

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_connect(id, &param));
	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	return id;
}

/* The other end, a process, dies together with verbatimd: this end gets an event. */
static void be_connected(int fd)
{
	CHECK(!rdma_establish(dial(fd, rdma_create_event_channel())));
	say(fd, 1);
	pause();
}

/* A worker that runs be_connected or the like; its end of this process is returned. */
static struct rdma_cm_id *connect_worker(struct worker *w, void (*run)(int fd),
					 struct rdma_event_channel *channel,
					 struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct rdma_cm_event *event;
	struct rdma_cm_id *child;

	worker_start(w, run);
	say(w->fd, ntohs(rdma_get_src_port(listener)));
	event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event->id;
	CHECK(!rdma_ack_cm_event(event) && !rdma_accept(child, &param));
	hear(w->fd);
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	return child;
}

/* Has a session of verbatimd, but nothing in it any more. */
static void be_done(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(channel);
	rdma_destroy_event_channel(channel);
	say(fd, 1);
	pause();
}

/* A process that manages no connections any more does not put that off. */
static void test_both_ends_of_a_job(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = make_listener(channel), *child;
	struct worker w, done;
	pid_t daemon;

	worker_start(&done, be_done);
	hear(done.fd);

	child = connect_worker(&w, be_connected, channel, listener);
	daemon = daemon_pid();
	CHECK(!kill(daemon, SIGSTOP));
	worker_kill(&w);
	CHECK(!kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	CHECK(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == child);
	worker_kill(&done);
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* A stopped process returns when it continues, and stays connected until then. */
static void test_a_stopped_end_comes_back(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = make_listener(channel), *child;
	struct worker w;

	child = connect_worker(&w, be_connected, channel, listener);
	CHECK(!kill(w.pid, SIGSTOP));
	kill_daemon();
	CHECK(!has_event(channel, 1500));
	CHECK(!kill(w.pid, SIGCONT));
	CHECK(!has_event(channel, 500));
	worker_kill(&w);
	CHECK(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == child);
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* While a stopped process is waited for, connections with others end. */
static void test_a_stopped_end_holds_up_no_other(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = make_listener(channel), *child, *of_stopped;
	struct worker stopped, w;
	pid_t daemon;

	of_stopped = connect_worker(&stopped, be_connected, channel, listener);
	child = connect_worker(&w, be_connected, channel, listener);
	CHECK(!kill(stopped.pid, SIGSTOP));
	daemon = daemon_pid();
	CHECK(!kill(daemon, SIGSTOP));
	worker_kill(&w);
	CHECK(!kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	CHECK(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == child);
	CHECK(!has_event(channel, 500));
	worker_kill(&stopped);
	CHECK(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == of_stopped);
	CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(of_stopped));
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* Gets an answer from the other end, and says nothing more. */
static void be_silent(int fd)
{
	dial(fd, rdma_create_event_channel());
	say(fd, 1);
	pause();
}

/* The same for ends that wait for an answer of the end that died: to accept, to disconnect. */
static void test_a_stopped_end_holds_up_no_answer(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = make_listener(channel), *of_stopped, *accepted, *disconnected;
	struct rdma_conn_param param = { .qp_num = 77 };
	struct worker stopped, silent, w;
	struct rdma_cm_event *event;
	pid_t daemon;

	of_stopped = connect_worker(&stopped, be_connected, channel, listener);
	disconnected = connect_worker(&w, be_connected, channel, listener);
	CHECK(!rdma_disconnect(disconnected));
	worker_start(&silent, be_silent);
	say(silent.fd, ntohs(rdma_get_src_port(listener)));
	event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	accepted = event->id;
	CHECK(!rdma_ack_cm_event(event) && !rdma_accept(accepted, &param));
	hear(silent.fd);

	CHECK(!kill(stopped.pid, SIGSTOP));
	daemon = daemon_pid();
	CHECK(!kill(daemon, SIGSTOP));
	worker_kill(&silent);
	worker_kill(&w);
	CHECK(!kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
	for (int i = 0; i < 2; i++) {
		CHECK(has_event(channel, PATIENCE_MS) && !rdma_get_cm_event(channel, &event));
		CHECK(event->id == accepted ? event->event == RDMA_CM_EVENT_REJECTED
					    : event->id == disconnected &&
						      event->event == RDMA_CM_EVENT_DISCONNECTED);
		CHECK(!rdma_ack_cm_event(event));
	}
	worker_kill(&stopped);
	CHECK(expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == of_stopped);
	CHECK(!rdma_destroy_id(accepted) && !rdma_destroy_id(disconnected));
	CHECK(!rdma_destroy_id(of_stopped) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* As be_connected; when told to, gives up a call, then waits for its end, and says that it came. */
static void stay_connected(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	CHECK(!rdma_establish(dial(fd, channel)));
	say(fd, 1);
	hear(fd);
	CHECK(!rdma_create_event_channel() && errno == ETIMEDOUT);
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_DISCONNECTED);
	say(fd, 2);
	pause();
}

static bool has_said(const struct worker *w, int wait_ms)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	return poll(&p, 1, wait_ms) == 1;
}

static void give_up(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *other;
	struct rdma_cm_id *listener = make_listener(channel), *child;
	struct rdma_cm_event *event;
	struct worker w, later;
	pid_t daemon;

	child = connect_worker(&w, stay_connected, channel, listener);

	daemon = daemon_pid();
	CHECK(!kill(daemon, SIGSTOP));
	say(w.fd, 1);
	usleep(200000); /* its call is first to give up */
	CHECK(!rdma_create_event_channel() && errno == ETIMEDOUT);
	CHECK(!kill(daemon, SIGCONT));
	CHECK(!has_said(&w, 1000));
	CHECK((other = rdma_create_event_channel()) && daemon_pid() == daemon);
	rdma_destroy_event_channel(other);
	CHECK(!has_said(&w, 500) && !has_event(channel, 0));

	worker_start(&later, be_connected);
	say(later.fd, ntohs(rdma_get_src_port(listener)));
	event = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!rdma_ack_cm_event(event));
	worker_kill(&later);

	CHECK(!rdma_disconnect(child));
	CHECK(hear(w.fd) == 2);
	worker_kill(&w);
	say(fd, 1);
}

/*
 * A call gives up while verbatimd is stopped. The process lives, so its connections do, and its
 * listener: the same verbatimd gives them back. In a process whose session is of this verbatimd.
 */
static void test_a_call_gives_up(void **state)
{
	struct pollfd p = { .events = POLLIN };
	struct worker w;

	worker_start(&w, give_up);
	p.fd = w.fd;
	CHECK(poll(&p, 1, 3 * PATIENCE_MS) == 1 && hear(w.fd) == 1);
	worker_end(&w);
}

/* A process that stops a thread of the test's. */
static void stop_thread(int fd)
{
	pid_t thread = (pid_t)hear(fd);

	if (ptrace(PTRACE_SEIZE, thread, 0, 0)) {
		say(fd, false);
		return;
	}
	CHECK(!ptrace(PTRACE_INTERRUPT, thread, 0, 0) && waitpid(thread, NULL, __WALL) == thread);
	say(fd, true);
	hear(fd);
	CHECK(!ptrace(PTRACE_DETACH, thread, 0, 0));
}

/*
 * A request may find the next verbatimd before the watching thread gets a processor: that thread
 * still sees the end of the next one.
 */
static void test_an_end_that_was_seen_late_is_not_the_last(void **state)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct worker stopper;
	pid_t watching = 0;

	worker_start(&stopper, stop_thread);
	prctl(PR_SET_PTRACER, stopper.pid);
	CHECK((channel = rdma_create_event_channel()) && (watching = pairs_watching_thread()));
	usleep(50000);

	say(stopper.fd, (uint64_t)watching);
	if (!hear(stopper.fd)) {
		worker_end(&stopper);
		rdma_destroy_event_channel(channel);
		skip(); /* it cannot be kept from running */
	}
	kill_daemon();
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	say(stopper.fd, true);
	worker_end(&stopper);
	usleep(100000);

	/* No other process starts the next one. */
	kill_daemon();
	for (int64_t end = now_ms() + PATIENCE_MS; daemon_pid() <= 0; usleep(1000))
		CHECK(now_ms() < end);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

#define KILLS 30

static atomic_bool killing_ends;
static atomic_uint killed;

static void *kill_daemons(void *unused)
{
	for (uint64_t random = 1; !killing_ends;
	     random = random * 6364136223846793005 + 1442695040888963407) {
		unsigned until = steps + (random >> 33) % 30;
		pid_t daemon;

		/* However slow the machine is, connections come about in between. */
		while (steps < until && !killing_ends)
			usleep(100);
		usleep((random >> 40) % 1000);
		daemon = daemon_pid();
		if (daemon > 0 && !kill(daemon, SIGKILL))
			killed++;
	}
	return NULL;
}

/* verbatimd is killed at random moments. */
static void test_killed_again_and_again(void **state)
{
	int64_t end = now_ms() + 40000, slowest_ms = 0;
	unsigned rounds = 0;
	pthread_t killer;
	struct pair p;

	connect_ends(&p);
	killing_ends = false;
	killed = 0;
	CHECK(!pthread_create(&killer, NULL, kill_daemons, NULL));
	for (; (killed <= KILLS || rounds <= KILLS) && now_ms() < end; rounds++) {
		int64_t since = now_ms();

		connect_again(&p);
		if (now_ms() - since > slowest_ms)
			slowest_ms = now_ms() - since;
	}
	killing_ends = true;
	CHECK(!pthread_join(killer, NULL));
	print_message("%u daemons killed, %u connections, the slowest took %d ms\n", killed, rounds,
		      (int)slowest_ms);
	CHECK(killed > KILLS / 3 && rounds > KILLS / 3);
	CHECK(!has_event(p.active, 0) && !has_event(p.passive, 0));
	pair_close(&p);
}

/* A call for an event fails, too, once the library has sought the next verbatimd in vain. */
static bool event_fails(struct rdma_event_channel *channel)
{
	int flags = fcntl(channel->fd, F_GETFL);
	int64_t end = now_ms() + SOON_MS;
	struct rdma_cm_event *event;
	bool fails;

	CHECK(!fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
	do
		fails = rdma_get_cm_event(channel, &event) && errno != EAGAIN;
	while (!fails && now_ms() < end && !usleep(1000));
	CHECK(!fcntl(channel->fd, F_SETFL, flags));
	return fails;
}

/* Without a next verbatimd calls fail, and do not wait. When one runs again, all is as before. */
static void test_no_daemon_for_a_while(void **state)
{
	char *path = strdup(getenv("VERBATIM_DAEMON"));
	struct rdma_cm_id *unwanted, *id;
	struct sockaddr_in at;
	struct pair p;
	int64_t since;

	connect_ends(&p);
	unwanted = make_listener(p.passive);
	at = unwanted->route.addr.src_sin;
	wait_for_the_last_daemon();
	setenv("VERBATIM_DAEMON", "/nonexistent/verbatimd", 1);
	kill_daemon();
	since = now_ms();
	CHECK(rdma_listen(p.listener, 1));
	CHECK(!rdma_create_event_channel());
	CHECK(!rdma_destroy_id(unwanted));
	CHECK(event_fails(p.passive));
	CHECK(now_ms() - since < 4 * SOON_MS);
	setenv("VERBATIM_DAEMON", path, 1);
	free(path);
	connect_again(&p);
	/* Identifiers that were destroyed meanwhile are not restored. */
	CHECK(!rdma_create_id(p.passive, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 4) &&
	      !rdma_destroy_id(id));
	pair_close(&p);
}

static pid_t start_daemon_of_all(void)
{
	int64_t end = now_ms() + PATIENCE_MS;
	enum dial_which reached;
	char why[256];
	int sock;
	pid_t daemon = fork();

	if (!daemon) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(getenv("VERBATIM_DAEMON"), "verbatimd", "--system", "--foreground", NULL);
		_exit(127);
	}
	while (dial_running(DIAL_SYSTEM, &sock, &reached, why, sizeof(why))) {
		CHECK(now_ms() < end);
		usleep(1000);
	}
	close(sock);
	return daemon;
}

/* No process here starts the next one: the program waits for it once, not for each identifier. */
static void test_a_daemon_of_all_is_waited_for_once(void **state)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *ids[4], *id;
	int64_t since;
	pid_t daemon;

	if (geteuid() != 0) {
		print_message("skipped: only root can run verbatimd --system\n");
		skip();
	}
	daemon = start_daemon_of_all();
	channel = rdma_create_event_channel();
	CHECK(channel);
	for (int i = 0; i < 4; i++)
		ids[i] = make_listener(channel);
	CHECK(!kill(daemon, SIGKILL) && waitpid(daemon, NULL, 0) == daemon);
	since = now_ms();
	CHECK(!rdma_destroy_id(ids[0]));
	CHECK(!rdma_destroy_id(ids[1]));
	CHECK(now_ms() - since < 9000);
	/* The next one restores the rest. */
	daemon = start_daemon_of_all();
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(rdma_bind_addr(id, rdma_get_local_addr(ids[2])) && errno == EADDRINUSE);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(ids[2]) && !rdma_destroy_id(ids[3]));
	rdma_destroy_event_channel(channel);
	CHECK(!kill(daemon, SIGTERM) && waitpid(daemon, NULL, 0) == daemon);
}

/* In the child of a fork all objects are dead: each identifier gets one DEVICE_REMOVAL. */
static void take_removals(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	alarm(PATIENCE_MS / 1000);
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && event->id == id);
	CHECK(!rdma_ack_cm_event(event));
	for (int i = 0; i < 3; i++)
		CHECK(rdma_get_cm_event(channel, &event) && errno == ENODEV);
	CHECK(!is_readable(channel));
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) && errno == ENODEV);
	_exit(0);
}

static void test_a_child_has_nothing(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make_listener(channel);
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child)
		take_removals(channel, id);
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(!has_event(channel, 0));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_connections_and_listeners_go_on),
		TEST(test_each_step_goes_on),
		TEST(test_a_step_after_the_end_goes_on),
		TEST(test_events_in_the_queue_stay),
		TEST(test_sleepers_are_served),
		TEST(test_synchronous_calls_go_on),
		TEST(test_both_ends_of_a_job),
		TEST(test_a_stopped_end_comes_back),
		TEST(test_a_stopped_end_holds_up_no_other),
		TEST(test_a_stopped_end_holds_up_no_answer),
		TEST(test_a_call_gives_up),
		TEST(test_an_end_that_was_seen_late_is_not_the_last),
		TEST(test_killed_again_and_again),
		TEST(test_no_daemon_for_a_while),
		TEST(test_a_daemon_of_all_is_waited_for_once),
		TEST(test_a_child_has_nothing),
	};

	return cmocka_run_group_tests_name("cm loss", tests, NULL, NULL);
}
