/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of a device, and lists, as daemons answer. The test is the daemons. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/deadline.h"
#include "ctl/dial.h"
#include "ctl/fdmsg.h"
#include "ctl/observe.h"

#define DAEMONS 2 /* the system's, the user's */
#define STARTS	2 /* of each: one after the other */

/* The daemons' ends, with all that they say; -1: there is none. */
static int ends[DAEMONS][STARTS], peers[DAEMONS][STARTS];
static unsigned starts[DAEMONS], dials[DAEMONS];

int __wrap_dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
			size_t why_len);
int __wrap_dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
			size_t why_len)
{
	unsigned i = which == DIAL_USER, start = dials[i]++;

	*sock = start < STARTS ? peers[i][start] : -1;
	*reached = which;
	return *sock < 0 ? -ECONNREFUSED : 0;
}

static unsigned sentences; /* about an errno */

char *__real_strerror(int error);
char *__wrap_strerror(int error);
char *__wrap_strerror(int error)
{
	sentences++;
	return __real_strerror(error);
}

static void start(unsigned which, int32_t status)
{
	struct ctl_welcome welcome = {
		.greeting = { { CTL_WELCOME, 1 }, CTL_MAGIC, CTL_VERSION },
		.status = status,
		.pid = 77,
	};
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	ends[which][starts[which]] = pair[0];
	peers[which][starts[which]] = pair[1];
	assert_int_equal(fdmsg_send(pair[0], &welcome, sizeof(welcome), NULL, 0), 0);
	starts[which]++;
}

static int end_of(unsigned which)
{
	return ends[which][starts[which] - 1];
}

/* Says no more. */
static void hang_up(unsigned which)
{
	assert_int_equal(shutdown(end_of(which), SHUT_WR), 0);
}

static void answer(unsigned which, enum ctl_type type, size_t length)
{
	struct ctl_counters_reply reply = { .header = { type, 2 } };

	for (unsigned i = 0; i < CTL_COUNTS; i++)
		reply.counts[i] = i + 1000 * (which + 1);
	assert_int_equal(fdmsg_send(end_of(which), &reply, length, NULL, 0), 0);
}

/* What the observer has sent: a greeting, and for which device it has asked. */
static void assert_asked(unsigned which, const char *device)
{
	struct fdmsg m;

	assert_int_equal(fdmsg_recv(end_of(which), &m), 0);
	assert_int_equal(m.body.header.type, CTL_OBSERVE);
	assert_int_equal(fdmsg_recv(end_of(which), &m), 0);
	assert_int_equal(m.len, sizeof(struct ctl_counters));
	assert_int_equal(m.body.header.type, CTL_COUNTERS);
	assert_string_equal(m.body.counters.device, device);
}

static int setup(void **state)
{
	memset(ends, -1, sizeof(ends));
	memset(peers, -1, sizeof(peers));
	memset(starts, 0, sizeof(starts));
	memset(dials, 0, sizeof(dials));
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < DAEMONS; i++)
		for (unsigned j = 0; j < starts[i]; j++)
			close(ends[i][j]);
	return 0;
}

static int look(uint64_t counts[CTL_COUNTS])
{
	char why[256];

	memset(counts, 0xff, CTL_COUNTS * sizeof(*counts));
	return observe_counters("vrb_eth0", counts, why, sizeof(why));
}

static void both_daemons_are_added(void **state)
{
	uint64_t counts[CTL_COUNTS];

	for (unsigned i = 0; i < DAEMONS; i++) {
		start(i, 0);
		answer(i, CTL_COUNTERS_REPLY, sizeof(struct ctl_counters_reply));
	}
	assert_int_equal(look(counts), 0);
	for (unsigned i = 0; i < CTL_COUNTS; i++)
		assert_int_equal(counts[i], 2 * i + 3000);
	for (unsigned i = 0; i < DAEMONS; i++)
		assert_asked(i, "vrb_eth0");
}

static void one_daemon_is_enough(void **state)
{
	uint64_t counts[CTL_COUNTS];

	start(1, 0);
	answer(1, CTL_COUNTERS_REPLY, sizeof(struct ctl_counters_reply));
	assert_int_equal(look(counts), 0);
	assert_int_equal(counts[3], 2003);
}

static void without_a_daemon_all_is_zero(void **state)
{
	uint64_t counts[CTL_COUNTS];

	assert_int_equal(look(counts), -ECONNREFUSED);
	for (unsigned i = 0; i < CTL_COUNTS; i++)
		assert_int_equal(counts[i], 0);
}

/* Refused; another message; one too short. */
static void strange_answers_are_errors(void **state)
{
	uint64_t counts[CTL_COUNTS];

	start(0, EPROTONOSUPPORT);
	assert_int_equal(look(counts), -EPROTONOSUPPORT);
	start(0, 0);
	answer(0, CTL_LIST_END, sizeof(struct ctl_counters_reply));
	assert_int_equal(look(counts), -EPROTO);
	teardown(NULL);
	setup(NULL);
	start(0, 0);
	answer(0, CTL_COUNTERS_REPLY, sizeof(struct ctl_counters_reply) - 8);
	assert_int_equal(look(counts), -EPROTO);
	assert_int_equal(counts[0], 0);
}

static void nobody_has_to_read_why(void **state)
{
	uint64_t counts[CTL_COUNTS];

	start(0, EPROTONOSUPPORT);
	start(0, EPROTONOSUPPORT);
	sentences = 0;
	assert_int_equal(observe_counters("vrb_eth0", counts, NULL, 0), -EPROTONOSUPPORT);
	assert_int_equal(sentences, 0);
	assert_int_equal(look(counts), -EPROTONOSUPPORT);
	assert_int_equal(sentences, 1);
}

/* It knows no such request. That is not the same as no daemon, which would mean 0. */
static void an_older_daemon_cannot_tell(void **state)
{
	uint64_t counts[CTL_COUNTS];

	for (unsigned i = 0; i < STARTS; i++) {
		start(0, 0);
		hang_up(0);
	}
	assert_int_equal(look(counts), -EOPNOTSUPP);
	assert_int_equal(dials[0], 2);
}

static void a_daemon_that_ends_after_its_welcome_is_dialed_again(void **state)
{
	uint64_t counts[CTL_COUNTS];

	start(1, 0);
	hang_up(1);
	assert_int_equal(look(counts), -ECONNREFUSED);
	assert_int_equal(dials[1], 2);
}

static void the_next_daemon_answers(void **state)
{
	uint64_t counts[CTL_COUNTS];

	start(1, 0);
	hang_up(1);
	start(1, 0);
	answer(1, CTL_COUNTERS_REPLY, sizeof(struct ctl_counters_reply));
	assert_int_equal(look(counts), 0);
	assert_int_equal(counts[3], 2003);
}

static void the_next_daemon_ends_before_its_welcome(void **state)
{
	uint64_t counts[CTL_COUNTS];
	struct fdmsg m;

	start(1, 0);
	hang_up(1);
	start(1, 0);
	assert_int_equal(fdmsg_recv(peers[1][1], &m), 0); /* the welcome */
	hang_up(1);
	assert_int_equal(look(counts), -ECONNREFUSED);
	assert_int_equal(dials[1], 2);
}

static void a_daemon_that_ends_before_its_welcome_is_none(void **state)
{
	uint64_t counts[CTL_COUNTS];
	struct fdmsg m;

	start(1, 0);
	assert_int_equal(fdmsg_recv(peers[1][0], &m), 0); /* the welcome */
	hang_up(1);
	assert_int_equal(look(counts), -ECONNREFUSED);
	assert_int_equal(dials[1], 1);
}

/* It is gone before the observer greets it. */
static void a_daemon_that_refuses_at_once_is_heard(void **state)
{
	uint64_t counts[CTL_COUNTS];

	start(1, EDQUOT);
	assert_int_equal(shutdown(end_of(1), SHUT_RDWR), 0);
	assert_int_equal(look(counts), -EDQUOT);
}

/* A program waits for it in open(). */
static void a_silent_daemon_does_not_block_for_long(void **state)
{
	int64_t before_ns = deadline_now_ns();
	uint64_t counts[CTL_COUNTS];

	start(0, 0);
	start(1, 0);
	assert_int_equal(look(counts), -ETIMEDOUT);
	assert_true(deadline_now_ns() - before_ns >= 200 * 1000000);
	assert_true(deadline_now_ns() - before_ns < 1500 * 1000000);
}

static unsigned heard;

static void hear(const struct observe_listener *listener, void *arg)
{
	heard++;
}

/* A part of a list is none, and says so; the beginning of none is that of no daemon. */
static void a_list_that_breaks_off_is_an_error(void **state)
{
	struct ctl_cm_listener listener = { .header = { CTL_CM_LISTENER, 2 } };
	char why[256] = "";

	heard = 0;
	start(1, 0);
	hang_up(1);
	assert_int_equal(observe_listeners(hear, NULL, why, sizeof(why)), -ECONNREFUSED);
	start(1, 0);
	assert_int_equal(fdmsg_send(end_of(1), &listener, sizeof(listener), NULL, 0), 0);
	hang_up(1);
	assert_int_equal(observe_listeners(hear, NULL, why, sizeof(why)), -ECONNRESET);
	assert_string_equal(why, "verbatimd (pid 77) ended while it listed");
	assert_int_equal(heard, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_daemons_are_added),
		TEST(one_daemon_is_enough),
		TEST(without_a_daemon_all_is_zero),
		TEST(strange_answers_are_errors),
		TEST(nobody_has_to_read_why),
		TEST(an_older_daemon_cannot_tell),
		TEST(a_daemon_that_ends_after_its_welcome_is_dialed_again),
		TEST(the_next_daemon_answers),
		TEST(the_next_daemon_ends_before_its_welcome),
		TEST(a_daemon_that_ends_before_its_welcome_is_none),
		TEST(a_daemon_that_refuses_at_once_is_heard),
		TEST(a_silent_daemon_does_not_block_for_long),
		TEST(a_list_that_breaks_off_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
