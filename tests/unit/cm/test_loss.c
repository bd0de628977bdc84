/*
 * The end of verbatimd, and forks: calls return, identifiers are told of it once, and the next
 * daemon serves whoever begins anew.
 */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOON_MS 5000

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static void kill_daemon(void)
{
	pid_t daemon = daemon_pid();

	CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
}

static void wait_for(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
		     struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(channel, &event) && event->event == type);
	if (id)
		*id = event->id;
	CHECK(!rdma_ack_cm_event(event));
}

static struct rdma_cm_id *make_listener(struct rdma_event_channel *channel)
{
	struct sockaddr_in at = loopback(0);
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 4));
	return id;
}

/* Two ends without QPs, connected. */
struct ends {
	struct rdma_event_channel *channel[2];
	struct rdma_cm_id *listener, *id[2];
};

static void connect_ends(struct ends *e)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct sockaddr_in to;

	for (int i = 0; i < 2; i++)
		CHECK((e->channel[i] = rdma_create_event_channel()));
	e->listener = make_listener(e->channel[0]);
	to = loopback(rdma_get_src_port(e->listener));
	CHECK(!rdma_create_id(e->channel[1], &e->id[1], NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(e->id[1], NULL, (struct sockaddr *)&to, 1000));
	wait_for(e->channel[1], RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	CHECK(!rdma_resolve_route(e->id[1], 1000));
	wait_for(e->channel[1], RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	CHECK(!rdma_connect(e->id[1], &param));
	wait_for(e->channel[0], RDMA_CM_EVENT_CONNECT_REQUEST, &e->id[0]);
	CHECK(!rdma_accept(e->id[0], &param));
	wait_for(e->channel[1], RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	CHECK(!rdma_establish(e->id[1]));
	wait_for(e->channel[0], RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static void drop_ends(struct ends *e)
{
	CHECK(!rdma_destroy_id(e->id[0]) && !rdma_destroy_id(e->id[1]));
	CHECK(!rdma_destroy_id(e->listener));
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(e->channel[i]);
}

static bool is_readable(const struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* After DEVICE_REMOVAL: no more events, at once, and nothing that wakes who polls. */
static void check_silence(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	for (int i = 0; i < 3; i++)
		CHECK(rdma_get_cm_event(channel, &event) && errno == ENODEV);
	CHECK(!is_readable(channel));
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) && errno == ENODEV);
}

static void test_each_identifier_is_told_once(void **state)
{
	struct rdma_cm_id *first, *second;
	struct ends e;

	connect_ends(&e);
	kill_daemon();
	CHECK(is_readable(e.channel[0]) && is_readable(e.channel[1]));
	wait_for(e.channel[0], RDMA_CM_EVENT_DEVICE_REMOVAL, &first);
	wait_for(e.channel[0], RDMA_CM_EVENT_DEVICE_REMOVAL, &second);
	CHECK(first != second && (first == e.id[0] || first == e.listener) &&
	      (second == e.id[0] || second == e.listener));
	check_silence(e.channel[0]);
	wait_for(e.channel[1], RDMA_CM_EVENT_DEVICE_REMOVAL, &first);
	CHECK(first == e.id[1]);
	check_silence(e.channel[1]);
	drop_ends(&e);

	/* With the next one all goes as with the first. */
	connect_ends(&e);
	drop_ends(&e);
}

struct waiter {
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	int error;
	atomic_bool ended;
};

static void *wait_there(void *arg)
{
	struct waiter *w = arg;

	w->error = rdma_get_cm_event(w->channel, &w->event) ? errno : 0;
	w->ended = true;
	return NULL;
}

/* Of threads that sleep there, one for each identifier is told, and none goes on sleeping. */
static void test_sleepers_wake(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make_listener(channel);
	struct waiter waiters[3] = { 0 };
	pthread_t threads[3];
	unsigned told = 0;

	for (int i = 0; i < 3; i++) {
		waiters[i].channel = channel;
		CHECK(!pthread_create(&threads[i], NULL, wait_there, &waiters[i]));
	}
	usleep(50000);
	kill_daemon();
	for (int i = 0; i < 3; i++) {
		for (int64_t end = now_ms() + SOON_MS; !waiters[i].ended;)
			CHECK(now_ms() < end);
		CHECK(!pthread_join(threads[i], NULL));
		CHECK(waiters[i].error == 0 || waiters[i].error == ENODEV);
		if (waiters[i].error)
			continue;
		told++;
		CHECK(waiters[i].event->event == RDMA_CM_EVENT_DEVICE_REMOVAL);
		CHECK(waiters[i].event->id == id && !rdma_ack_cm_event(waiters[i].event));
	}
	CHECK(told == 1);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* Every call on what the old daemon gave comes back, and says no. */
static void test_calls_return(void **state)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct sockaddr_in to = loopback(htons(7));
	struct rdma_event_channel *fresh;
	int64_t since;
	struct ends e;

	connect_ends(&e);
	kill_daemon();
	since = now_ms();
	CHECK(rdma_listen(e.listener, 1));
	CHECK(rdma_accept(e.id[0], &param));
	CHECK(rdma_reject(e.id[0], NULL, 0));
	CHECK(rdma_connect(e.id[1], &param));
	CHECK(rdma_establish(e.id[1]));
	CHECK(rdma_notify(e.id[0], IBV_EVENT_COMM_EST));
	CHECK(rdma_disconnect(e.id[0]) && rdma_disconnect(e.id[1]));
	CHECK(rdma_resolve_addr(e.id[1], NULL, (struct sockaddr *)&to, 1000));
	CHECK(rdma_resolve_route(e.id[1], 1000));
	fresh = rdma_create_event_channel();
	CHECK(fresh && rdma_migrate_id(e.id[1], fresh));
	CHECK(now_ms() - since < SOON_MS);
	rdma_destroy_event_channel(fresh);
	drop_ends(&e);
}

/* Identifiers of a channel that was destroyed are not those of the next one at its address. */
static void test_orphans_are_not_told(void **state)
{
	struct rdma_event_channel *channels[64], *fresh;
	struct rdma_cm_id *orphans[64], *id;
	struct rdma_cm_event *event;

	for (int i = 0; i < 64; i++) {
		CHECK((channels[i] = rdma_create_event_channel()));
		CHECK(!rdma_create_id(channels[i], &orphans[i], NULL, RDMA_PS_TCP));
	}
	for (int i = 0; i < 64; i++)
		rdma_destroy_event_channel(channels[i]);
	for (int i = 0; i < 64; i++)
		CHECK((channels[i] = rdma_create_event_channel()));
	CHECK((fresh = rdma_create_event_channel()));
	id = make_listener(fresh);
	kill_daemon();
	for (int i = 0; i < 64; i++)
		CHECK(rdma_get_cm_event(channels[i], &event) && errno == ENODEV);
	wait_for(fresh, RDMA_CM_EVENT_DEVICE_REMOVAL, NULL);
	for (int i = 0; i < 64; i++) {
		CHECK(!rdma_destroy_id(orphans[i]));
		rdma_destroy_event_channel(channels[i]);
	}
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(fresh);
}

/* Without a descriptor to spare nothing can be made silent; with one again it can. */
static void test_no_descriptor_for_silence(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rlimit limit, none;

	CHECK(channel);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 3;
	kill_daemon();
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	CHECK(rdma_get_cm_event(channel, &event) && errno == ENODEV);
	CHECK(is_readable(channel));
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	check_silence(channel);
	rdma_destroy_event_channel(channel);
}

static void *get_request(void *arg)
{
	struct rdma_cm_id *child;

	return rdma_get_request(arg, &child) ? (void *)(intptr_t)errno : NULL;
}

/* An identifier whose calls wait for their event waits for no event that cannot come. */
static void test_synchronous_calls_return(void **state)
{
	struct rdma_cm_id *listener = make_listener(NULL), *id;
	struct sockaddr_in to = loopback(rdma_get_src_port(listener));
	struct rdma_conn_param param = { .qp_num = 77 };
	pthread_t thread;
	void *error;

	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(!rdma_resolve_route(id, 1000));
	CHECK(!pthread_create(&thread, NULL, get_request, listener));
	usleep(50000);
	kill_daemon();
	CHECK(!pthread_join(thread, &error) && (intptr_t)error == ENODEV);
	CHECK(rdma_connect(id, &param));
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
}

/* No next one comes: errors, not waiting. */
static void test_no_daemon_any_more(void **state)
{
	char *path = strdup(getenv("VERBATIM_DAEMON"));
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = make_listener(channel);
	int64_t since;

	setenv("VERBATIM_DAEMON", "/nonexistent/verbatimd", 1);
	kill_daemon();
	since = now_ms();
	wait_for(channel, RDMA_CM_EVENT_DEVICE_REMOVAL, NULL);
	CHECK(rdma_listen(id, 1));
	CHECK(!rdma_create_event_channel());
	check_silence(channel);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	CHECK(now_ms() - since < 4 * SOON_MS);
	setenv("VERBATIM_DAEMON", path, 1);
	free(path);
	channel = rdma_create_event_channel();
	CHECK(channel);
	rdma_destroy_event_channel(channel);
}

/* ------------------------------------------------------------------------------------------
 * Forks.
 */

static atomic_bool busy_ends;

/* Whatever has a lock in this library is in use all the time. */
static void *be_busy(void *unused)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = loopback(htons(7));

	while (!busy_ends) {
		struct ibv_context **devices = rdma_get_devices(NULL);
		struct rdma_cm_id *id;

		CHECK(devices);
		rdma_free_devices(devices);
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
		CHECK(!rdma_destroy_id(id));
	}
	rdma_destroy_event_channel(channel);
	return NULL;
}

static void be_a_child(struct rdma_cm_id *inherited)
{
	struct rdma_event_channel *channel;
	struct sockaddr_in to = loopback(htons(7));
	struct rdma_cm_id *id;

	alarm(PATIENCE_MS / 1000);
	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_destroy_id(inherited));
	_exit(0);
}

static void test_forks_beside_busy_threads(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *inherited = make_listener(channel), *second;
	struct sockaddr_in at;
	pthread_t threads[3];

	busy_ends = false;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, be_busy, NULL));
	for (int i = 0; i < 60; i++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child)
			be_a_child(inherited);
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(status == 0);
	}
	busy_ends = true;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	/* The child's end of it is not ours: it listens. */
	at = loopback(rdma_get_src_port(inherited));
	CHECK(!rdma_create_id(channel, &second, NULL, RDMA_PS_TCP));
	CHECK(rdma_bind_addr(second, (struct sockaddr *)&at) && errno == EADDRINUSE);
	CHECK(!rdma_destroy_id(second) && !rdma_destroy_id(inherited));
	rdma_destroy_event_channel(channel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_identifier_is_told_once),
		TEST(test_sleepers_wake),
		TEST(test_calls_return),
		TEST(test_orphans_are_not_told),
		TEST(test_no_descriptor_for_silence),
		TEST(test_synchronous_calls_return),
		TEST(test_no_daemon_any_more),
		TEST(test_forks_beside_busy_threads),
	};

	return cmocka_run_group_tests_name("cm loss", tests, NULL, NULL);
}
