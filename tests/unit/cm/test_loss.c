/*
 * The end of verbatimd: calls return, identifiers are told of it once, and the next
 * daemon serves whoever begins anew.
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
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SOON_MS 5000

static void kill_daemon(void)
{
	pid_t daemon = daemon_pid();

	CHECK(daemon > 0 && !kill(daemon, SIGKILL) && wait_for_end(daemon, PATIENCE_MS));
}

/* Whose it is. (The channel may have lost its other end by now: has_event is not for that.) */
static struct rdma_cm_id *take_removal(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL);
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
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
	struct pair p;

	connect_ends(&p);
	kill_daemon();
	CHECK(is_readable(p.passive) && is_readable(p.active));
	first = take_removal(p.passive);
	second = take_removal(p.passive);
	CHECK(first != second && (first == p.child || first == p.listener) &&
	      (second == p.child || second == p.listener));
	check_silence(p.passive);
	first = take_removal(p.active);
	CHECK(first == p.id);
	check_silence(p.active);
	pair_close(&p);

	/* With the next one all goes as with the first. */
	connect_ends(&p);
	pair_close(&p);
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
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 7);
	struct rdma_event_channel *fresh;
	int64_t since;
	struct pair p;

	connect_ends(&p);
	kill_daemon();
	since = now_ms();
	CHECK(rdma_listen(p.listener, 1));
	CHECK(rdma_accept(p.child, &param));
	CHECK(rdma_reject(p.child, NULL, 0));
	CHECK(rdma_connect(p.id, &param));
	CHECK(rdma_establish(p.id));
	CHECK(rdma_notify(p.child, IBV_EVENT_COMM_EST));
	CHECK(rdma_disconnect(p.child) && rdma_disconnect(p.id));
	CHECK(rdma_resolve_addr(p.id, NULL, (struct sockaddr *)&to, 1000));
	CHECK(rdma_resolve_route(p.id, 1000));
	fresh = rdma_create_event_channel();
	CHECK(fresh && rdma_migrate_id(p.id, fresh));
	CHECK(now_ms() - since < SOON_MS);
	rdma_destroy_event_channel(fresh);
	pair_close(&p);
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
	take_removal(fresh);
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
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, ntohs(rdma_get_src_port(listener)));
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
	take_removal(channel);
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
	};

	return cmocka_run_group_tests_name("cm loss", tests, NULL, NULL);
}
