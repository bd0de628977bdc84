/* SPDX-License-Identifier: BSD-2-Clause */
/* Identifiers and channels where threads, signals and the end of verbatimd come in between. */
#include "harness.h"
#include "pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 2000

static void kill_daemon(void)
{
	pid_t daemon = daemon_pid();

	CHECK(daemon > 0 && !kill(daemon, SIGKILL));
}

static void rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static void *fetch_all(void *channel)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(channel, &event)) {
		bool is_last = event->id->context == channel;

		rdma_ack_cm_event(event);
		if (is_last)
			break;
	}
	return NULL;
}

/*
 * An event may be under way when its identifier ends: it is delivered before that, or not at all.
 */
static void test_destroy_beside_fetch(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_cm_id *id;
	pthread_t threads[2];

	CHECK(channel);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, fetch_all, channel));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		CHECK(!rdma_destroy_id(id));
	}
	CHECK(!rdma_create_id(channel, &id, channel, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(!rdma_resolve_route(id, 1000));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* rping ends its thread so: no lock stays taken, no channel stays behind. */
static void test_cancelled_fetch(void **state)
{
	struct rdma_event_channel *keeper = rdma_create_event_channel();
	pid_t daemon = daemon_pid();
	unsigned fds = count_fds(daemon);

	CHECK(keeper);
	for (int i = 0; i < 200; i++) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		pthread_t thread;

		CHECK(channel);
		CHECK(!pthread_create(&thread, NULL, fetch_all, channel));
		if (i % 2)
			nanosleep(&(struct timespec){ .tv_nsec = i * 1000 }, NULL);
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, NULL));
		rdma_destroy_event_channel(channel);
	}
	/* Requests are served in order, so all are on their way by now. */
	rdma_destroy_event_channel(rdma_create_event_channel());
	CHECK(comes_down_to(daemon, fds + 2));
	rdma_destroy_event_channel(keeper);
}

static void *destroy_it(void *id)
{
	CHECK(!rdma_destroy_id(id));
	pthread_testcancel();
	return NULL;
}

static void *move_it(void *arg)
{
	struct rdma_cm_id *id = arg;

	CHECK(!rdma_migrate_id(id, id->context));
	pthread_testcancel();
	return NULL;
}

/* A thread that waits for acknowledgements ends only after they have come. */
static void test_cancelled_while_events_are_held(void **state)
{
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel && other && !rdma_create_id(channel, &id, other, RDMA_PS_TCP));
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		void *result;

		if (i)
			CHECK(!rdma_resolve_route(id, 1000));
		else
			CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		event = await_event(i ? other : channel,
				    i ? RDMA_CM_EVENT_ROUTE_RESOLVED : RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!pthread_create(&thread, NULL, i ? destroy_it : move_it, id));
		rest();
		CHECK(!pthread_cancel(thread));
		rest();
		CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
		CHECK(!rdma_ack_cm_event(event));
		CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	}
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(other);
}

/* Returns the context of the join whose event it got. */
static void *fetch_join(void *channel)
{
	struct rdma_cm_event *event;
	void *context;

	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_MULTICAST_JOIN);
	context = (void *)event->param.ud.private_data;
	CHECK(!rdma_ack_cm_event(event));
	return context;
}

/* The channel is destroyed under a sleeping thread, which sleeps on, and still gets events. */
static void test_told_after_the_end(void **state)
{
	struct sockaddr_in group = pairs_v4(INADDR_LOOPBACK, 0),
			   here = pairs_v4(INADDR_LOOPBACK, 0);
	char first, second;
	unsigned untold = 0;

	group.sin_addr.s_addr = htonl(0xefff0102);
	for (int i = 0; i < 20; i++) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_cm_id *id;
		pthread_t thread;
		void *context;
		int failed;

		CHECK(channel);
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
		CHECK(!rdma_resolve_addr(id, (struct sockaddr *)&here, (struct sockaddr *)&group,
					 1000));
		expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!pthread_create(&thread, NULL, fetch_join, channel));
		rest();
		rdma_destroy_event_channel(channel);
		/* Then the thread wakes for an event that may have been dropped. */
		if (rdma_join_multicast(id, (struct sockaddr *)&group, &first)) {
			/*
			 * the thread was not there yet: it sleeps, and the channel has ended
			 * without it
			 */
			CHECK(errno == ENOENT && !pthread_cancel(thread) &&
			      !pthread_join(thread, &context));
			CHECK(!rdma_destroy_id(id));
			continue;
		}
		rdma_leave_multicast(id, (struct sockaddr *)&group);
		if (i % 4 == 0)
			kill_daemon();
		/* A thread that got the first event has left, and the channel has ended with it. */
		failed = rdma_join_multicast(id, (struct sockaddr *)&group, &second);
		CHECK(!pthread_join(thread, &context));
		CHECK(context == &first || (context == &second && !failed));
		untold += context == &second;
		CHECK(!rdma_destroy_id(id));
	}
	CHECK(untold > 0);
}

/* What test_connect_beside_route's two threads share. */
struct eager {
	struct rdma_event_channel *channel;
	atomic_int ended; /* identifiers that were destroyed */
};

/* Uses and ends an identifier as soon as its events allow, whatever its maker's calls do. */
static void *connect_all(void *arg)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct eager *eager = arg;

	while (eager->ended < ROUNDS) {
		struct rdma_cm_event *event;
		struct rdma_cm_id *id;
		bool has_route;

		CHECK(!rdma_get_cm_event(eager->channel, &event));
		id = event->id;
		has_route = event->event == RDMA_CM_EVENT_ROUTE_RESOLVED;
		CHECK(!rdma_ack_cm_event(event));
		if (!has_route)
			continue;
		CHECK(!rdma_connect(id, &param));
		CHECK(!rdma_destroy_id(id));
		eager->ended++;
	}
	return NULL;
}

/*
 * A thread that gets ROUTE_RESOLVED connects at once, and destroys the identifier, before
 * rdma_resolve_route returns.
 */
static void test_connect_beside_route(void **state)
{
	struct eager eager = { .channel = rdma_create_event_channel() };
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 9);
	struct rdma_cm_id *id;
	pthread_t thread;

	CHECK(eager.channel);
	CHECK(!pthread_create(&thread, NULL, connect_all, &eager));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!rdma_create_id(eager.channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		CHECK(!rdma_resolve_route(id, 1000));
	}
	CHECK(!pthread_join(thread, NULL));
	rdma_destroy_event_channel(eager.channel);
}

/* Written with headers that do not know them, as those of this library do not. */
enum { EVENT_USER = 18 };

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* A call that could not raise its event can be repeated. */
static void test_no_room_for_events(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_event_channel *full = rdma_create_event_channel();
	struct rdma_cm_id *idle, *bound, *resolved, *filler;
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 9), any = { .sin_family = AF_INET };
	struct rdma_conn_param param = { .qp_num = 5 };
	int rc;

	CHECK(channel && full);
	CHECK(!rdma_create_id(full, &filler, NULL, RDMA_PS_TCP));
	CHECK(!rdma_create_id(channel, &idle, NULL, RDMA_PS_TCP));
	CHECK(!rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(bound, (struct sockaddr *)&any));
	CHECK(!rdma_create_id(channel, &resolved, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(resolved, NULL, (struct sockaddr *)&to, 1000));
	do
		rc = rdma_write_cm_event(filler, (enum rdma_cm_event_type)EVENT_USER, 0, 0);
	while (!rc);
	CHECK(errno == ENOSPC);
	CHECK(rdma_resolve_addr(idle, NULL, (struct sockaddr *)&to, 1000) && errno == ENOSPC);
	CHECK(rdma_resolve_addr(bound, NULL, (struct sockaddr *)&to, 1000) && errno == ENOSPC);
	CHECK(!bound->verbs);
	CHECK(rdma_resolve_route(resolved, 1000) && errno == ENOSPC);
	CHECK(resolved->route.num_paths == 0);
	CHECK(rdma_connect(resolved, &param) && errno == EINVAL);
	CHECK(!rdma_destroy_id(filler));
	CHECK(!rdma_resolve_addr(idle, NULL, (struct sockaddr *)&to, 1000));
	CHECK(!rdma_resolve_addr(bound, NULL, (struct sockaddr *)&to, 1000));
	CHECK(!rdma_resolve_route(resolved, 1000) && resolved->route.num_paths == 1);
	CHECK(!rdma_connect(resolved, &param));
	CHECK(!rdma_destroy_id(idle) && !rdma_destroy_id(bound) && !rdma_destroy_id(resolved));
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(full);
}

static void *sleep_for_ever(void *channel)
{
	struct rdma_cm_event *event;

	rdma_get_cm_event(channel, &event);
	return NULL;
}

/* Programs end so: the channel before what is in it, and before the thread that waits there. */
static void test_channels_that_end_too_early(void **state)
{
	struct rdma_event_channel *keeper = rdma_create_event_channel();
	unsigned fds = count_fds(daemon_pid()), own_fds = count_fds(getpid());
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);

	CHECK(keeper);
	for (int i = 0; i < 100; i++) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_cm_id *id, *idle;
		pthread_t thread;

		CHECK(channel);
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_create_id(channel, &idle, NULL, RDMA_PS_TCP));
		if (i % 10) {
			CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
			rdma_destroy_event_channel(channel);
		} else {
			CHECK(!pthread_create(&thread, NULL, sleep_for_ever, channel));
			rest();
			rdma_destroy_event_channel(channel);
			pthread_cancel(thread);
			CHECK(!pthread_join(thread, NULL));
		}
		rdma_destroy_id(id);
		rdma_destroy_id(idle);
	}
	/* Requests are served in order, so all are on their way by now. */
	rdma_destroy_event_channel(rdma_create_event_channel());
	CHECK(comes_down_to(daemon_pid(), fds + 2));
	CHECK(count_fds(getpid()) <= own_fds + 2);
	rdma_destroy_event_channel(keeper);
}

static void on_signal(int number)
{
}

struct sleeper {
	struct rdma_event_channel *channel;
	int error;
	atomic_bool ended;
};

static void *sleep_there(void *arg)
{
	struct sleeper *s = arg;
	struct rdma_cm_event *event;

	s->error = rdma_get_cm_event(s->channel, &event) ? errno : 0;
	s->ended = true;
	return NULL;
}

/* As with any system call: the handler's SA_RESTART decides. */
static void test_signals(void **state)
{
	for (int restarts = 0; restarts < 2; restarts++) {
		struct sigaction action = {
			.sa_handler = on_signal,
			.sa_flags = restarts ? SA_RESTART : 0,
		};
		struct sleeper s = { .channel = rdma_create_event_channel() };
		pthread_t thread;

		CHECK(s.channel && !sigaction(SIGUSR1, &action, NULL));
		CHECK(!pthread_create(&thread, NULL, sleep_there, &s));
		rest();
		for (int64_t end = now_ms() + (restarts ? 200 : PATIENCE_MS);
		     now_ms() < end && !s.ended;) {
			pthread_kill(thread, SIGUSR1);
			rest();
		}
		CHECK(s.ended == !restarts);
		if (restarts)
			pthread_cancel(thread);
		CHECK(!pthread_join(thread, NULL));
		if (!restarts)
			CHECK(s.error == EINTR);
		rdma_destroy_event_channel(s.channel);
	}
}

/*
 * No program can know whether the thread has entered when the channel ends: the thread sleeps in
 * either case.
 */
static void test_asleep_too_late(void **state)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	unsigned own_fds = count_fds(getpid());
	struct rdma_cm_event *event;

	rdma_destroy_event_channel(channel);
	CHECK(channel && !sigaction(SIGUSR1, &action, NULL));
	for (int i = 0; i < 200; i++) {
		struct sleeper s = { .channel = rdma_create_event_channel() };
		bool is_signalled = i % 10 == 0;
		pthread_t thread;

		CHECK(s.channel && !pthread_create(&thread, NULL, sleep_there, &s));
		for (volatile int spins = i % 50 * 1000; spins > 0; spins--)
			;
		rdma_destroy_event_channel(s.channel);
		if (i % 20 == 0)
			kill_daemon();
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
		CHECK(!s.ended);
		for (int64_t end = now_ms() + PATIENCE_MS;
		     is_signalled && now_ms() < end && !s.ended;) {
			pthread_kill(thread, SIGUSR1);
			rest();
		}
		if (!is_signalled)
			pthread_cancel(thread);
		CHECK(!pthread_join(thread, NULL));
		CHECK(s.ended == is_signalled && (!is_signalled || s.error == EINTR));
	}
	CHECK(count_fds(getpid()) <= own_fds + 2);
	/* With O_NONBLOCK the call does not sleep. */
	channel = rdma_create_event_channel();
	CHECK(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	rdma_destroy_event_channel(channel);
	CHECK(rdma_get_cm_event(channel, &event) && errno == EBADF);
}

/* The QP uses what the other end grants, not what this end requested. */
static void test_fewer_reads_are_granted(void **state)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct rdma_event_channel *passive = rdma_create_event_channel();
	struct rdma_event_channel *active = rdma_create_event_channel();
	struct rdma_conn_param wish = { .responder_resources = 7, .initiator_depth = 8 };
	struct rdma_conn_param grant = { .responder_resources = 1, .initiator_depth = 2 };
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *listener, *child, *id;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;

	CHECK(!rdma_create_id(passive, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 1));
	at.sin_port = rdma_get_src_port(listener);
	CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000));
	CHECK(!rdma_get_cm_event(active, &event) && !rdma_ack_cm_event(event));
	CHECK(!rdma_resolve_route(id, 1000));
	CHECK(!rdma_get_cm_event(active, &event) && !rdma_ack_cm_event(event));
	CHECK(!rdma_create_qp(id, NULL, &init) && !rdma_connect(id, &wish));

	CHECK(!rdma_get_cm_event(passive, &event));
	CHECK(event->param.conn.responder_resources == 8 && event->param.conn.initiator_depth == 7);
	child = event->id;
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_create_qp(child, NULL, &init) && !rdma_accept(child, &grant));

	CHECK(!rdma_get_cm_event(active, &event) && event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC,
			    &init));
	CHECK(attr.max_rd_atomic == 1 && attr.max_dest_rd_atomic == 2);

	rdma_destroy_ep(id);
	rdma_destroy_ep(child);
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(active);
	rdma_destroy_event_channel(passive);
}

/* How far the other end gets before it is killed; before rdma_accept: test_unaccepted.c. */
enum stage { STAGE_RESPONSE, STAGE_ESTABLISHED };

static void active_end(int fd)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 0);
	enum stage stage = (enum stage)hear(fd);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	to.sin_port = (in_port_t)hear(fd);
	CHECK(channel);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_connect(id, &param));
	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (stage >= STAGE_ESTABLISHED)
		CHECK(!rdma_establish(id));
	say(fd, stage);
	pause();
}

/* No end stays connected to a process that was killed: time-outs are longer than PATIENCE_MS. */
static void test_the_other_end_is_killed(void **state)
{
	for (enum stage stage = STAGE_RESPONSE; stage <= STAGE_ESTABLISHED; stage++) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_conn_param param = { .qp_num = 88 };
		struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
		struct rdma_cm_id *listener, *child;
		struct worker other;

		CHECK(channel);
		CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
		CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&at));
		CHECK(!rdma_listen(listener, 1));
		worker_start(&other, active_end);
		say(other.fd, stage);
		say(other.fd, rdma_get_src_port(listener));
		child = expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		CHECK(!rdma_accept(child, &param));
		CHECK(hear(other.fd) == stage);
		if (stage >= STAGE_ESTABLISHED)
			expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);
		worker_kill(&other);
		expect_event(channel, stage >= STAGE_ESTABLISHED ? RDMA_CM_EVENT_DISCONNECTED
								 : RDMA_CM_EVENT_REJECTED);
		CHECK(!rdma_destroy_id(child) && !rdma_destroy_id(listener));
		rdma_destroy_event_channel(channel);
	}
}

static bool says_what_is_short(void)
{
	return errno == EMFILE || errno == ENOMEM;
}

/* In a process that has opened no device yet, with ever more descriptors. */
static void bind_with_few(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0), to = pairs_v4(INADDR_LOOPBACK, 7);
	int first = dup(fd), refused = 0, rc = -1;
	struct rlimit usual;

	close(first);
	CHECK(channel && !getrlimit(RLIMIT_NOFILE, &usual));
	for (int more = 0; rc && more < 100; more++) {
		struct rlimit few = { (rlim_t)first + (rlim_t)more, usual.rlim_max };
		struct rdma_cm_id *bound, *resolved;

		CHECK(!rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP));
		CHECK(!rdma_create_id(channel, &resolved, NULL, RDMA_PS_TCP));
		CHECK(!setrlimit(RLIMIT_NOFILE, &few));
		rc = rdma_resolve_addr(resolved, NULL, (struct sockaddr *)&to, 1000);
		CHECK(!rc || says_what_is_short());
		rc = rdma_bind_addr(bound, (struct sockaddr *)&at);
		CHECK(rc ? says_what_is_short() : bound->verbs != NULL);
		CHECK(!setrlimit(RLIMIT_NOFILE, &usual));
		refused += rc != 0;
		CHECK(!rdma_destroy_id(bound) && !rdma_destroy_id(resolved));
	}
	CHECK(!rc && refused > 4);
	rdma_destroy_event_channel(channel);
}

/* A device that cannot be opened is not taken for one that is not there. */
static void test_bind_without_descriptors(void **state)
{
	struct worker w;

	worker_start(&w, bind_with_few);
	worker_end(&w);
}

/* In a process without a session, with ever more descriptors. */
static void begin_with_few(int fd)
{
	struct rdma_event_channel *channel = NULL;
	int first = dup(fd), refused = 0;
	struct rlimit usual;

	close(first);
	CHECK(!getrlimit(RLIMIT_NOFILE, &usual));
	for (int more = 0; !channel && more < 100; more++) {
		struct rlimit few = { (rlim_t)first + (rlim_t)more, usual.rlim_max };

		CHECK(!setrlimit(RLIMIT_NOFILE, &few));
		channel = rdma_create_event_channel();
		CHECK(channel || says_what_is_short());
		CHECK(!setrlimit(RLIMIT_NOFILE, &usual));
		refused += !channel;
	}
	CHECK(channel && refused > 2);
	rdma_destroy_event_channel(channel);
}

/* A session that did not begin, as its token was lost, does not keep the next one from it. */
static void test_begin_without_descriptors(void **state)
{
	struct rdma_event_channel *keeper = rdma_create_event_channel();
	struct worker w;

	CHECK(keeper);
	worker_start(&w, begin_with_few);
	worker_end(&w);
	rdma_destroy_event_channel(keeper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_destroy_beside_fetch, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_cancelled_fetch, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_cancelled_while_events_are_held, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_channels_that_end_too_early, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_told_after_the_end, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_connect_beside_route, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_no_room_for_events, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_signals, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(test_bind_without_descriptors, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_begin_without_descriptors, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_asleep_too_late, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_the_other_end_is_killed, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(test_fewer_reads_are_granted, harness_setup,
						harness_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
