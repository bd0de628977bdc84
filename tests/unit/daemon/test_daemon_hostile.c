/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile client of connection management harms neither the daemon nor other clients: whatever it
 * does, two others can connect meanwhile, and soon.
 */
#include "cm_raw.h"
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "event/send_queue.h"

/*
 * What a whole round may cost the daemon of processor time, with sanitizers and checks; else some
 * 5. What other programs of a loaded machine take of the time is not the daemon's fault: a message
 * of a round may take PATIENCE_MS.
 */
#define SOON_MS 2000

/* Two well-behaved clients. */
static struct others {
	struct ctl_client *first; /* starts the daemon, and keeps it */
	int passive, active;
	pid_t daemon;
} others;

static void others_join(void)
{
	others.first = join();
	others.daemon = daemon_pid();
	others.passive = cm_join();
	others.active = cm_join();
}

/* Two clients connect. What it took, and how much processor time the daemon spent, in ms. */
static int64_t others_connect(int64_t *spent)
{
	int64_t before = processor_ms(others.daemon);
	int64_t took = cm_round(others.passive, others.active);

	*spent = processor_ms(others.daemon) - before;
	return took;
}

static void check_others(void)
{
	int64_t spent;

	CHECK(others_connect(&spent) < PATIENCE_MS);
	CHECK(spent < SOON_MS);
}

static void others_leave(void)
{
	check_others();
	CHECK(daemon_pid() == others.daemon);
	close(others.passive);
	close(others.active);
	ctl_close(others.first);
}

/* After the hello, what is no request ends the connection, and nothing else. */
static void test_garbage_after_the_hello(void **state)
{
	static const struct {
		uint32_t type;
		size_t len;
		unsigned fds;
	} rows[] = {
		{ 0, 8, 0 },
		{ CTL_CM_HELLO, sizeof(struct ctl_cm_hello), 0 },
		{ CTL_HELLO, sizeof(struct ctl_hello), 3 },
		{ CTL_PEER, sizeof(struct ctl_peer), 0 },
		{ CTL_MCAST_ATTACH, sizeof(struct ctl_mcast), 0 },
		{ CTL_PORT, sizeof(struct ctl_port), 0 },
		{ CTL_LIST, sizeof(struct ctl_list), 0 },
		{ CTL_CM_LIST, sizeof(struct ctl_list), 0 },
		{ CTL_COUNTERS, sizeof(struct ctl_counters), 0 },
		{ CTL_CM_REPLY, sizeof(struct ctl_cm_reply), 0 },
		{ CTL_CM_EVENT, sizeof(struct ctl_cm_event), 0 },
		{ CTL_CM_CREATE_CHANNEL, sizeof(struct ctl_cm_ask), 0 },
		{ CTL_CM_CREATE_CHANNEL, sizeof(struct ctl_cm_ask), 2 },
		{ CTL_CM_RETURN_CHANNEL, sizeof(struct ctl_cm_ask), 1 },
		{ CTL_CM_BEGIN, sizeof(struct ctl_cm_ask), 0 },
		{ CTL_CM_CREATE_CHANNEL, sizeof(struct ctl_cm_ask), 3 },
		{ CTL_CM_CREATE_ID, sizeof(struct ctl_cm_ask), 1 },
		{ CTL_CM_CREATE_ID, sizeof(struct ctl_cm_ask) - 1, 0 },
		{ CTL_CM_GET_EVENT, sizeof(struct ctl_cm_ask) + 1, 0 },
		{ CTL_CM_BIND, sizeof(struct ctl_cm_bind) - 4, 0 },
		{ CTL_CM_CONNECT, sizeof(struct ctl_cm_request) - 1, 0 },
		{ CTL_CM_CONNECT, 60000, 0 },
		{ CTL_CM_RAISE, sizeof(struct ctl_cm_raise) + 8, 0 },
		{ CTL_TYPE_COUNT, 64, 0 },
		{ UINT32_MAX, 64, 4 },
	};
	static char room[65536];
	int fds[CTL_FDS_MAX];

	others_join();
	for (int i = 0; i < CTL_FDS_MAX; i++)
		fds[i] = make_wake();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int sock = cm_join();

		cm_make_id(sock, cm_make_channel(sock));
		memset(room, 0, sizeof(room));
		memcpy(room, &rows[i].type, sizeof(rows[i].type));
		CHECK(!fdmsg_send(sock, room, rows[i].len, fds, rows[i].fds));
		if (!is_cut_off(sock)) {
			print_error("row %zu is not cut off\n", i);
			fail();
		}
		close(sock);
		check_others();
	}
	for (int i = 0; i < CTL_FDS_MAX; i++)
		close(fds[i]);
	others_leave();
}

/* Numbers of other clients, or of no object, are refused. */
static void test_what_belongs_to_others(void **state)
{
	static const enum ctl_type steps[] = {
		CTL_CM_DESTROY_ID, CTL_CM_MIGRATE_ID, CTL_CM_LISTEN,
		CTL_CM_READY,	   CTL_CM_ESTABLISH,  CTL_CM_DISCONNECT,
	};
	static const enum ctl_type types[] = { CTL_CM_CONNECT, CTL_CM_ACCEPT, CTL_CM_REJECT };
	struct ctl_cm_address at;
	uint32_t channel, own, victims[2];
	int owner, sock;

	others_join();
	owner = cm_join();
	sock = cm_join();
	channel = cm_make_channel(owner);
	own = cm_make_channel(sock);
	victims[0] = cm_listen(owner, channel, &at);
	victims[1] = 77;
	CHECK(!cm_connect(owner, cm_make_id(owner, channel), &at));
	for (size_t v = 0; v < 2; v++) {
		struct ctl_cm_bind bind = { .header = { .type = CTL_CM_BIND }, .id = victims[v] };

		for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
			CHECK(cm_say(sock, steps[i], victims[v], own) == ENOENT);
		for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
			struct ctl_cm_request request = { .header = { .type = types[i] },
							  .id = victims[v] };

			CHECK(cm_ask(sock, &request, sizeof(request)).status == ENOENT);
		}
		CHECK(cm_ask(sock, &bind, sizeof(bind)).status == ENOENT);
		CHECK(cm_raise(sock, victims[v]) == ENOENT);
	}
	CHECK(cm_event(sock, channel).answer == ENOENT);
	CHECK(cm_say(sock, CTL_CM_DESTROY_CHANNEL, 0, channel) == ENOENT);
	CHECK(cm_say(sock, CTL_CM_CREATE_ID, 0, channel) == ENOENT);
	CHECK(cm_say(sock, CTL_CM_MIGRATE_ID, cm_make_id(sock, own), channel) == ENOENT);
	/* All is as it was. */
	CHECK(cm_event(owner, channel).kind == CTL_CM_CONNECT_REQUEST);
	close(owner);
	close(sock);
	others_leave();
}

/* In any state, what does not fit it is refused; the rest of the connection goes on. */
static void test_steps_out_of_order(void **state)
{
	uint32_t channel, id;
	struct ctl_cm_address at;
	struct ctl_cm_request request = { .end = { .private_bytes = 65535 } };
	int sock;

	others_join();
	sock = cm_join();
	channel = cm_make_channel(sock);
	id = cm_make_id(sock, channel);
	CHECK(cm_say(sock, CTL_CM_READY, id, 0) == EINVAL);
	CHECK(cm_say(sock, CTL_CM_ESTABLISH, id, 0) == EINVAL);
	CHECK(cm_say(sock, CTL_CM_DISCONNECT, id, 0) == EINVAL);
	request.id = id;
	for (request.header.type = CTL_CM_CONNECT; request.header.type <= CTL_CM_REJECT;
	     request.header.type++)
		CHECK(cm_ask(sock, &request, sizeof(request)).status == EINVAL);
	request.id = cm_listen(sock, channel, &at);
	CHECK(!cm_connect(sock, id, &at));
	CHECK(cm_connect(sock, id, &at) == EINVAL);
	CHECK(cm_connect(sock, request.id, &at) == EINVAL);
	CHECK(cm_say(sock, CTL_CM_LISTEN, id, 0) == EINVAL);
	request.id = cm_event(sock, channel).id;
	request.header.type = CTL_CM_ACCEPT;
	CHECK(cm_ask(sock, &request, sizeof(request)).status == EINVAL);
	request.end.private_bytes = 0;
	CHECK(!cm_ask(sock, &request, sizeof(request)).status);
	CHECK(cm_ask(sock, &request, sizeof(request)).status == EINVAL);
	CHECK(!cm_say(sock, CTL_CM_READY, id, 0));
	CHECK(cm_say(sock, CTL_CM_READY, id, 0) == EINVAL);
	close(sock);
	others_leave();
}

static unsigned resident_kib(pid_t pid)
{
	char path[64], line[128];
	unsigned kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %u", &kib);
	if (f)
		fclose(f);
	return kib;
}

/* A client that sends requests and reads nothing is disconnected before many replies are queued. */
static void test_one_that_does_not_read(void **state)
{
	struct ctl_cm_raise request = { .header = { .type = CTL_CM_RAISE, .seq = 1 },
					.kind = CTL_CM_ADDR_RESOLVED };
	int64_t end = now_ms() + PATIENCE_MS;
	unsigned before, accepted = 0, last = 0;
	int sock, rc;

	others_join();
	check_others();
	before = resident_kib(others.daemon);
	sock = cm_join();
	request.id = cm_make_id(sock, cm_make_channel(sock));
	do {
		for (int i = 0; i < 500; i++) {
			rc = fdmsg_send(sock, &request, sizeof(request), NULL, 0);
			accepted += !rc;
		}
		check_others();
		if (accepted != last)
			end = now_ms() + PATIENCE_MS;
		last = accepted;
	} while ((!rc || rc == -EAGAIN) && accepted < 10 * SEND_QUEUE_MAX && now_ms() < end);
	CHECK(rc == -EPIPE || rc == -ECONNRESET);
	CHECK(resident_kib(others.daemon) < before + 16384);
	close(sock);
	others_leave();
}

static void test_identifiers_are_bounded(void **state)
{
	struct ctl_cm_ask create = { .header = { .type = CTL_CM_CREATE_ID }, .value = CTL_CM_TCP };
	unsigned count = 0;
	int sock, rc = 0;

	others_join();
	sock = cm_join();
	create.channel = cm_make_channel(sock);
	while (!rc && count < 100000) {
		rc = cm_ask(sock, &create, sizeof(create)).status;
		count += !rc;
	}
	CHECK(rc == ENOSPC && count <= 65536);
	check_others();
	close(sock);
	others_leave();
}

/*
 * Sends the most expensive request as fast as it can (a port where hardly any is left), and reads
 * all replies. It is nice: what is measured is how the daemon divides its time between clients, not
 * how the kernel divides the processors' between this test's processes.
 */
static void flood(int fd)
{
	struct ctl_cm_bind bind = {
		.header = { .type = CTL_CM_BIND, .seq = 1 },
		.local = { .gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
			   .family = AF_INET },
	};
	int sock = cm_join();
	uint32_t channel = cm_make_channel(sock);
	struct ctl_cm_ask create = { .header = { .type = CTL_CM_CREATE_ID },
				     .channel = channel,
				     .value = CTL_CM_UDP };
	enum { AT_A_TIME = 8, ANSWERED = 100 };
	unsigned taken = 0, asked = 0, answered = 0;
	int rc;
	struct fdmsg m;

	/* All of them take what there is: some 10,000 each. */
	do {
		if (taken++ % 256 == 0)
			say(fd, 0); /* goes on */
		bind.id = cm_ask(sock, &create, sizeof(create)).number;
	} while (!cm_ask(sock, &bind, sizeof(bind)).status);
	say(fd, 1);
	CHECK(nice(19) == 19);
	for (;;) {
		if (asked < AT_A_TIME && !fdmsg_send(sock, &bind, sizeof(bind), NULL, 0))
			asked++;
		while (!(rc = fdmsg_recv(sock, &m))) {
			asked--;
			if (++answered == ANSWERED)
				say(fd, answered);
		}
		CHECK(rc == -EAGAIN);
	}
}

static void test_floods(void **state)
{
	struct worker workers[3];
	int64_t slowest_ms = 0, most_ms = 0, end;

	others_join();
	for (int i = 0; i < 3; i++)
		worker_start(&workers[i], flood);
	for (int i = 0; i < 3; i++) {
		while (!hear(workers[i].fd))
			;
	}
	for (end = now_ms() + 1500; now_ms() < end;) {
		struct ctl_peer_info peer;
		int64_t since = now_ms(), spent;

		others_connect(&spent);
		if (spent > most_ms)
			most_ms = spent;
		CHECK(!ctl_peer(others.first, ctl_slot(others.first), &peer));
		close_peer(&peer);
		if (now_ms() - since > slowest_ms)
			slowest_ms = now_ms() - since;
	}
	for (int i = 0; i < 3; i++) {
		hear_within(workers[i].fd, 4 * PATIENCE_MS); /* it has flooded */
		CHECK(!waitpid(workers[i].pid, NULL, WNOHANG));
		worker_kill(&workers[i]);
	}
	print_message("slowest connection during the flood: %d ms, most of the daemon's: %d ms\n",
		      (int)slowest_ms, (int)most_ms);
	CHECK(most_ms < SOON_MS);
	others_leave();
}

/* Connections need descriptors, too: when there are no more, connected clients are still served. */
static void test_endless_connections(void **state)
{
	struct rlimit old;
	int socks[400], count = 0;
	unsigned fds;

	CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	others_join();
	fds = count_fds(others.daemon);
	CHECK(!prlimit(others.daemon, RLIMIT_NOFILE, &(struct rlimit){ 200, old.rlim_max }, NULL));
	while (count < 250) {
		struct ctl_cm_hello hello = cm_hello(0);
		int store = cm_make_store();
		struct fdmsg m;

		socks[count] = raw_connect();
		fdmsg_send(socks[count], &hello, sizeof(hello), &store, 1);
		close(store);
		if (fdmsg_wait(socks[count++], deadline_in_ms(PATIENCE_MS), &m) ||
		    m.body.welcome.status)
			break;
	}
	CHECK(count < 200);
	while (count)
		close(socks[--count]);
	/* What is still to be closed counts against the user, who is this one, too. */
	CHECK(comes_down_to(others.daemon, fds));
	others_leave();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_garbage_after_the_hello), TEST(test_what_belongs_to_others),
		TEST(test_steps_out_of_order),	    TEST(test_one_that_does_not_read),
		TEST(test_identifiers_are_bounded), TEST(test_floods),
		TEST(test_endless_connections),
	};

	return cmocka_run_group_tests_name("daemon hostile", tests, NULL, NULL);
}
