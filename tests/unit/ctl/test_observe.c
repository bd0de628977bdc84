/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of a device, as daemons answer. The test is the daemons. */
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

#include "ctl/dial.h"
#include "ctl/fdmsg.h"
#include "ctl/observe.h"

#define DAEMONS 2 /* the system's, the user's */

/* The daemons' ends, with all that they say; -1: there is none. */
static int ends[DAEMONS], peers[DAEMONS];

int __wrap_dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
			size_t why_len);
int __wrap_dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
			size_t why_len)
{
	*sock = peers[which == DIAL_USER];
	*reached = which;
	return *sock < 0 ? -ECONNREFUSED : 0;
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
	ends[which] = pair[0];
	peers[which] = pair[1];
	assert_int_equal(fdmsg_send(ends[which], &welcome, sizeof(welcome), NULL, 0), 0);
}

static void answer(unsigned which, enum ctl_type type, size_t length)
{
	struct ctl_counters_reply reply = { .header = { type, 2 } };

	for (unsigned i = 0; i < CTL_COUNTS; i++)
		reply.counts[i] = i + 1000 * (which + 1);
	assert_int_equal(fdmsg_send(ends[which], &reply, length, NULL, 0), 0);
}

/* What the observer has sent: a greeting, and for which device it has asked. */
static void assert_asked(unsigned which, const char *device)
{
	struct fdmsg m;

	assert_int_equal(fdmsg_recv(ends[which], &m), 0);
	assert_int_equal(m.body.header.type, CTL_OBSERVE);
	assert_int_equal(fdmsg_recv(ends[which], &m), 0);
	assert_int_equal(m.len, sizeof(struct ctl_counters));
	assert_int_equal(m.body.header.type, CTL_COUNTERS);
	assert_string_equal(m.body.counters.device, device);
}

static int setup(void **state)
{
	memset(ends, -1, sizeof(ends));
	memset(peers, -1, sizeof(peers));
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < DAEMONS; i++)
		if (ends[i] >= 0)
			close(ends[i]);
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
	close(ends[0]);
	start(0, 0);
	answer(0, CTL_LIST_END, sizeof(struct ctl_counters_reply));
	assert_int_equal(look(counts), -EPROTO);
	close(ends[0]);
	start(0, 0);
	answer(0, CTL_COUNTERS_REPLY, sizeof(struct ctl_counters_reply) - 8);
	assert_int_equal(look(counts), -EPROTO);
	assert_int_equal(counts[0], 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_daemons_are_added),
		TEST(one_daemon_is_enough),
		TEST(without_a_daemon_all_is_zero),
		TEST(strange_answers_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
