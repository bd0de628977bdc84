/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that say nothing: they end in time, and cost one timer together. Messages that the
 * kernel refuses to send: they wait, but not for ever.
 */
#include "daemon/client.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "event/close_pool.h"

#define CLIENTS 300
#define HELLO_S 5

static time_t later_s; /* than the clock says */
static unsigned ended;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = __real_clock_gettime(id, t);

	t->tv_sec += later_s;
	return rc;
}

static int refusals[4]; /* errnos of the next calls of sendmsg; 0: none */
static unsigned refused;

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (refused < sizeof(refusals) / sizeof(refusals[0]) && refusals[refused]) {
		errno = refusals[refused++];
		return -1;
	}
	return __real_sendmsg(fd, m, flags);
}

static void refuse_next(int first, int next, int last)
{
	refusals[0] = first;
	refusals[1] = next;
	refusals[2] = last;
	refused = 0;
}

static const char *on_message(struct client *c, struct fdmsg *m)
{
	client_set_role(c, CLIENT_OBSERVER);
	return NULL;
}

static void on_drained(struct client *c)
{
}

static bool on_hang_up(struct client *c)
{
	return false;
}

static void on_death(struct client *c)
{
	ended++;
}

static const struct client_hooks hooks = {
	.on_message = on_message,
	.on_drained = on_drained,
	.on_hang_up = on_hang_up,
	.on_death = on_death,
	.on_dismissal = on_death,
};

static struct daemon d = { .hooks = &hooks };
static int others[CLIENTS];

static int setup(void **state)
{
	later_s = 0;
	ended = 0;
	client_init_all(&d);
	return loop_init(&d.loop);
}

static int teardown(void **state)
{
	client_dismiss_all(&d);
	loop_fini(&d.loop);
	return 0;
}

static void connect_one(int i)
{
	struct ucred peer = { .pid = 1, .uid = geteuid() };
	int ends[2];

	assert_false(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends));
	others[i] = ends[1];
	assert_int_equal(client_create(&d, ends[0], &peer), 0);
}

static unsigned count(const struct list *head)
{
	unsigned n = 0;
	const struct list *m;

	list_for_each(m, head)
		n++;
	return n;
}

/* A turn that does not wait, as a descriptor is ready or a timer due. */
static void turn(void)
{
	struct loop_timer now;

	loop_timer_init(&now, loop_timer_disarm);
	loop_timer_arm(&d.loop, &now, 0);
	loop_turn(&d.loop);
	client_free_disconnecting(&d);
}

static void test_silent_ones_have_one_timer(void **state)
{
	for (int i = 0; i < CLIENTS; i++)
		connect_one(i);
	assert_int_equal(count(&d.loop.timers), 1);
	later_s = HELLO_S - 1;
	turn();
	assert_int_equal(ended, 0);
	later_s = HELLO_S + 1;
	turn();
	assert_int_equal(ended, CLIENTS);
	assert_int_equal(count(&d.loop.timers), 0);
	for (int i = 0; i < CLIENTS; i++)
		close(others[i]);
}

static void test_each_has_its_time(void **state)
{
	connect_one(0);
	connect_one(1);
	later_s = 2;
	connect_one(2);
	/* The first one says something. */
	assert_int_equal(send(others[0], "hello", 5, 0), 5);
	turn();
	later_s = HELLO_S + 1;
	turn();
	assert_int_equal(ended, 1);
	later_s = HELLO_S + 3;
	turn();
	assert_int_equal(ended, 2);
	/* The list was empty meanwhile. */
	connect_one(1);
	later_s += HELLO_S + 1;
	turn();
	assert_int_equal(ended, 3);
	assert_int_equal(count(&d.clients), 1);
	for (int i = 0; i < 3; i++)
		close(others[i]);
}

static struct client *the_client(void)
{
	return container_of(d.clients.next, struct client, in_daemon);
}

static bool has_message(int fd)
{
	char bytes[16];

	return recv(fd, bytes, sizeof(bytes), 0) > 0;
}

static void test_refused_messages_wait(void **state)
{
	static const int rows[][3] = {
		{ ENOBUFS, ENOBUFS, ENOMEM },
		{ EAGAIN, ETOOMANYREFS, ETOOMANYREFS },
	};

	connect_one(0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		refuse_next(rows[i][0], rows[i][1], rows[i][2]);
		assert_int_equal(client_post(the_client(), "one", 3, NULL, 0), 0);
		assert_int_equal(client_post(the_client(), "two", 3, NULL, 0), 0);
		for (int turns = 0; turns < 1000 && refused < 3; turns++) {
			usleep(1000);
			turn();
		}
		assert_int_equal(refused, 3);
		for (int turns = 0; turns < 1000 && !has_message(others[0]); turns++) {
			usleep(1000);
			turn();
		}
		turn();
		assert_true(has_message(others[0]) && !has_message(others[0]));
		assert_true(list_empty(&d.refused));
	}
	/* Nothing was queued, and the caller knows it. */
	refuse_next(ETOOMANYREFS, 0, 0);
	assert_int_equal(client_post(the_client(), "one", 3, NULL, 0), -ETOOMANYREFS);
	/* What is refused for ever does not hold up the rest for ever. */
	refuse_next(EAGAIN, ETOOMANYREFS, ETOOMANYREFS);
	refusals[3] = ETOOMANYREFS;
	assert_int_equal(client_post(the_client(), "one", 3, NULL, 0), 0);
	turn();
	later_s = 3;
	turn();
	assert_int_equal(ended, 1);
	refusals[3] = 0;
	close(others[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_silent_ones_have_one_timer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_each_has_its_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_messages_wait, setup, teardown),
	};

	return cmocka_run_group_tests_name("daemon client", tests, NULL, NULL);
}
