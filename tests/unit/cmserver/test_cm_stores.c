/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions that return with a store that no daemon wrote: the daemon restores the state that
 * requests could have made, raises DEVICE_REMOVAL for the rest, and other clients notice nothing.
 */
#include "../daemon/cm_raw.h"
#include "../daemon/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmserver/cm_store.h"
#include "ibcm/ip_header.h"

#define CHANNEL	 77u /* the numbers that the session says it had */
#define FIRST_ID 1000u

static struct others {
	struct ctl_client *first; /* starts the daemon, and keeps it */
	int passive, active;
	pid_t daemon;
} others;

static int setup(void **state)
{
	harness_setup(state);
	others.first = join();
	others.daemon = daemon_pid();
	others.passive = cm_join();
	others.active = cm_join();
	return 0;
}

/* The other clients still work. */
static int teardown(void **state)
{
	cm_round(others.passive, others.active);
	CHECK(daemon_pid() == others.daemon);
	close(others.passive);
	close(others.active);
	ctl_close(others.first);
	return harness_teardown(state);
}

static const struct ctl_cm_address loopback = {
	.gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
	.family = AF_INET,
};
static const struct ctl_cm_address elsewhere = {
	.gid = { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 7 },
	.family = AF_INET,
};

static struct cm_record_id an_id(unsigned which)
{
	return (struct cm_record_id){
		.kind = CM_RECORD_ID,
		.number = FIRST_ID + which,
		.channel = CHANNEL,
		.space = CTL_CM_TCP,
		.qp_type = CTL_CM_QP_RC,
	};
}

static struct cm_record_id a_listener(unsigned which, const struct ctl_cm_address *at,
				      uint16_t port)
{
	struct cm_record_id r = an_id(which);

	r.is_bound = r.is_listening = 1;
	r.backlog = 5;
	r.local = *at;
	r.local.port = htons(port);
	return r;
}

/* On this host, over but for late packets. */
static struct cm_record_id a_connection(unsigned which)
{
	struct cm_record_id r = an_id(which);

	r.has_connection = r.had_connection = r.is_local = 1;
	memcpy(r.local_gid, loopback.gid, sizeof(r.local_gid));
	memcpy(r.remote_gid, loopback.gid, sizeof(r.remote_gid));
	r.end.state = CONNECTION_TIMEWAIT;
	r.end.deadline_ns = INT64_MAX;
	r.end.local_id = 5000 + which;
	r.end.remote_id = 6000 + which;
	r.end.wait_ns = CONNECTION_EXPONENT_0_NS << 20;
	return r;
}

/* To another host, at a loopback address where no socket receives it. */
static struct cm_record_id a_request(unsigned which)
{
	struct cm_record_id r = a_connection(which);
	struct ip_header header = { .is_v4 = true, .source_port = 9 };

	r.is_local = 0;
	memcpy(r.remote_gid, elsewhere.gid, sizeof(r.remote_gid));
	r.end.state = CONNECTION_REQ_SENT;
	r.end.type = r.end.sent.type = IBCM_REQ;
	r.end.sent.service_id = ip_header_service_id(CTL_CM_TCP, 7);
	memcpy(r.end.sent.local_gid, r.local_gid, sizeof(r.local_gid));
	memcpy(r.end.sent.remote_gid, r.remote_gid, sizeof(r.remote_gid));
	memcpy(header.source, r.local_gid, sizeof(r.local_gid));
	memcpy(header.destination, r.remote_gid, sizeof(r.remote_gid));
	ip_header_encode(&header, r.end.sent.private_data);
	r.end.sent.private_bytes = IP_HEADER_BYTES;
	return r;
}

static struct cm_record_event a_request_event(unsigned child, unsigned listener)
{
	return (struct cm_record_event){
		.kind = CM_RECORD_EVENT,
		.id = FIRST_ID + child,
		.order = child,
		.body = { .kind = CTL_CM_CONNECT_REQUEST, .listener = FIRST_ID + listener },
	};
}

/* A store that is open for records; its descriptor is the caller's, too. */
static struct cm_store make_store(void)
{
	struct cm_store s;

	CHECK(!cm_store_open(&s, cm_make_store()));
	return s;
}

static void put(struct cm_store *s, const void *record, size_t bytes)
{
	uint32_t slot = 0;

	cm_store_put(s, &slot, record, bytes);
	CHECK(slot);
}

static uint32_t next_session(void)
{
	static uint32_t last;

	return 0x1000000u + ++last;
}

/* A session that returns with it and with a channel, and repeats a request: its connection. */
static int come_back_and_repeat(int store_fd, uint32_t seq)
{
	struct ctl_cm_hello hello = cm_hello(next_session());
	struct ctl_cm_ask channel = { .header = { .type = CTL_CM_RETURN_CHANNEL },
				      .channel = CHANNEL };
	struct ctl_cm_ask begin = { .header = { .type = CTL_CM_BEGIN, .seq = 1 }, .flags = seq };
	int sock = raw_connect(), event_fd = cm_make_event_fd();
	int fds[2] = { store_fd, event_fd };

	CHECK(!cm_ask_with(sock, &hello, sizeof(hello), fds, 2).body.welcome.status);
	CHECK(!cm_ask_with(sock, &channel, sizeof(channel), &event_fd, 1).body.cm_reply.status);
	CHECK(!cm_ask(sock, &begin, sizeof(begin)).status);
	close(event_fd);
	return sock;
}

static int come_back(int store_fd)
{
	return come_back_and_repeat(store_fd, 0);
}

static int come_back_with(struct cm_store *s)
{
	int sock = come_back(s->fd);

	cm_store_close(s, 0);
	return sock;
}

static int return_one(const struct cm_record_id *r)
{
	struct cm_store s = make_store();

	put(&s, r, sizeof(*r));
	return come_back_with(&s);
}

/* The identifier exists, and its program gets DEVICE_REMOVAL and no other event. */
static void expect_lost(const struct cm_record_id *r)
{
	int sock = return_one(r);
	struct ctl_cm_event e = cm_await(sock, CHANNEL, CTL_CM_DEVICE_REMOVAL);

	CHECK(e.id == r->number);
	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, r->number, 0));
	close(sock);
}

static void expect_restored(const struct cm_record_id *r)
{
	int sock = return_one(r);

	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, r->number, 0));
	close(sock);
}

static void expect_nothing(const struct cm_record_id *r)
{
	int sock = return_one(r);

	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	CHECK(cm_say(sock, CTL_CM_DESTROY_ID, r->number, 0) == ENOENT);
	close(sock);
}

static void test_what_requests_make_is_restored(void **state)
{
	struct cm_record_id listener = a_listener(0, &loopback, 4000), connection = a_connection(1),
			    request = a_request(2);

	expect_restored(&listener);
	expect_restored(&connection);
	expect_restored(&request);
}

/* A DREQ without an answer was sent for the last time: as in Linux the event says so. */
static void test_an_end_without_an_answer(void **state)
{
	struct cm_record_id r = a_request(0);
	int sock;

	r.end.state = CONNECTION_DREQ_SENT;
	r.end.type = r.end.sent.type = IBCM_DREQ;
	r.end.deadline_ns = 1;
	sock = return_one(&r);
	CHECK(cm_await(sock, CHANNEL, CTL_CM_DISCONNECTED).status == -ETIMEDOUT);
	close(sock);
}

static void test_identifiers_that_cannot_be_are_dropped(void **state)
{
	struct cm_record_id r = a_connection(0);

	r.is_bound = r.is_listening = 1;
	r.local = loopback;
	r.local.port = htons(4001);
	expect_nothing(&r);
	r = a_listener(0, &loopback, 4002);
	r.is_bound = 0;
	expect_nothing(&r);
	r = an_id(0);
	r.space = 1;
	expect_nothing(&r);
	r = an_id(0);
	r.qp_type = 0x10002;
	expect_nothing(&r);
	r = an_id(0);
	r.channel = CHANNEL + 1;
	expect_nothing(&r);
	r = an_id(0);
	r.number = 0;
	expect_nothing(&r);
}

static void test_ports_of_others_are_not_given(void **state)
{
	uint32_t channel = cm_make_channel(others.passive), out = cm_make_channel(others.active);
	struct ctl_cm_address at;
	uint32_t listener = cm_listen(others.passive, channel, &at);
	struct cm_record_id r = a_listener(0, &loopback, ntohs(at.port));

	expect_lost(&r);
	r.bind_flags = UINT32_MAX;
	expect_lost(&r);
	r = a_listener(0, &elsewhere, 4003);
	expect_lost(&r);
	r = a_listener(0, &loopback, 0);
	expect_lost(&r);
	r = a_listener(0, &loopback, 4004);
	r.local.family = 99;
	expect_lost(&r);
	CHECK(!cm_connect(others.active, cm_make_id(others.active, out), &at));
	CHECK(cm_await(others.passive, channel, CTL_CM_CONNECT_REQUEST).listener == listener);
}

static void test_connections_that_cannot_be_are_lost(void **state)
{
	struct cm_record_id rows[16];
	unsigned n = 0;

	rows[n] = a_connection(0), rows[n++].end.state = CONNECTION_CLOSED;
	rows[n] = a_connection(0), rows[n++].end.state = UINT32_MAX;
	rows[n] = a_connection(0), rows[n++].end.local_id = 0;
	rows[n] = a_connection(0), rows[n++].end.state = CONNECTION_SIDR_REQ_SENT;
	rows[n] = a_connection(0), rows[n++].is_ud = 1;
	rows[n] = a_connection(0), rows[n++].end.is_xrc = 1;
	rows[n] = a_connection(0), rows[n++].end.tries_left = 16;
	rows[n] = a_connection(0), rows[n++].end.wait_ns = 3 * CONNECTION_EXPONENT_0_NS;
	rows[n] = a_request(0), rows[n++].end.wait_ns = CONNECTION_EXPONENT_0_NS;
	rows[n] = a_request(0), rows[n++].end.type = IBCM_REP;
	rows[n] = a_request(0), rows[n++].end.sent.private_bytes = 93;
	rows[n] = a_request(0), rows[n++].end.sent.service_id = 1;
	rows[n] = a_request(0), rows[n++].end.sent.private_data[35] ^= 1; /* to whom */
	rows[n] = a_request(0), rows[n++].end.sent.local_gid[15] ^= 1;
	rows[n] = a_request(0), memcpy(rows[n++].local_gid, elsewhere.gid, CTL_GID_BYTES);
	rows[n] = a_request(0), rows[n++].end.sent.transport = IBCM_UC;
	CHECK(n == sizeof(rows) / sizeof(*rows));
	for (unsigned i = 0; i < n; i++)
		expect_lost(&rows[i]);
}

/* What rdma_accept gets that a daemon before may have served already. */
static int accept_again(const struct cm_record_id *r)
{
	struct ctl_cm_request accept = { .header = { .type = CTL_CM_ACCEPT, .seq = 7 },
					 .id = r->number,
					 .end = { .qpn = 5 } };
	struct cm_store s = make_store();
	int sock, status;

	put(&s, r, sizeof(*r));
	sock = come_back_and_repeat(s.fd, accept.header.seq);
	cm_store_close(&s, 0);
	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	status = cm_ask(sock, &accept, sizeof(accept)).status;
	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, r->number, 0));
	close(sock);
	return status;
}

/*
 * A child that was not accepted gets no event, even if its connection cannot be restored. The
 * repeated rdma_accept succeeds only if the one before did.
 */
static void test_a_request_that_is_over(void **state)
{
	struct cm_record_id over = an_id(0), lost = a_connection(1);

	over.had_connection = 1;
	CHECK(accept_again(&over) == 0);
	over.is_unaccepted = 1;
	CHECK(accept_again(&over) == EINVAL);
	lost.end.state = CONNECTION_CLOSED;
	expect_lost(&lost);
	lost.is_unaccepted = 1;
	CHECK(accept_again(&lost) == EINVAL);
}

/* A record that an earlier version wrote: its state says that it was not accepted. */
static void test_a_request_of_an_earlier_version(void **state)
{
	static const uint32_t asked[] = { CONNECTION_REQ_RCVD, CONNECTION_SIDR_REQ_RCVD };
	struct cm_record_id r = a_connection(0);
	struct ctl_cm_ask end = { .header = { .type = CTL_CM_DISCONNECT }, .id = r.number };
	struct ctl_cm_reply reply;
	int sock;

	for (unsigned i = 0; i < 2; i++) {
		r.end.state = asked[i];
		r.end.local_id = 0; /* cannot be restored */
		CHECK(accept_again(&r) == EINVAL);
		r.has_connection = 0; /* the state says nothing */
		CHECK(accept_again(&r) == 0);
		r.has_connection = 1;
	}
	/* Restored: of another host, which is still there. */
	r = a_connection(0);
	r.is_local = 0;
	memcpy(r.remote_gid, elsewhere.gid, sizeof(r.remote_gid));
	r.end.state = CONNECTION_REQ_RCVD;
	sock = return_one(&r);
	reply = cm_ask(sock, &end, sizeof(end));
	CHECK(!reply.status && reply.number == 1);
	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, r.number, 0));
	close(sock);
}

/* Two connections with one number: only one is restored. */
static void test_numbers_are_had_once(void **state)
{
	struct cm_store s = make_store();
	struct cm_record_id first = a_connection(0), second = a_connection(1),
			    again = a_connection(0);
	int sock;

	second.end.local_id = first.end.local_id;
	put(&s, &first, sizeof(first));
	put(&s, &second, sizeof(second));
	put(&s, &again, sizeof(again));
	sock = come_back_with(&s);
	CHECK(cm_await(sock, CHANNEL, CTL_CM_DEVICE_REMOVAL).id == second.number);
	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	close(sock);
}

/* Children of each other, of themselves, of identifiers that do not listen. */
static void test_children_go_round_in_no_circle(void **state)
{
	for (unsigned listen = 0; listen < 8; listen++) {
		struct cm_store s = make_store();
		int sock;

		for (unsigned i = 0; i < 3; i++) {
			struct cm_record_id r =
				listen >> (i & 1) & 1
					? a_listener(i, &loopback, (uint16_t)(4100 + i))
					: an_id(i);
			struct cm_record_event e = a_request_event(i, (i + 1) % 3);

			put(&s, &r, sizeof(r));
			put(&s, &e, sizeof(e));
			e = a_request_event(i, i);
			if (listen & 4)
				put(&s, &e, sizeof(e));
		}
		sock = come_back_with(&s);
		for (unsigned i = 0; i < 3; i++)
			cm_say(sock, CTL_CM_DESTROY_ID, FIRST_ID + i, 0);
		CHECK(!cm_say(sock, CTL_CM_DESTROY_CHANNEL, 0, CHANNEL));
		close(sock);
		CHECK(daemon_pid() == others.daemon);
	}
}

static void test_events_that_cannot_be_are_dropped(void **state)
{
	struct cm_store s = make_store();
	struct cm_record_id id = an_id(0);
	struct cm_record_event e = a_request_event(0, 0);
	int sock;

	put(&s, &id, sizeof(id));
	e.body.kind = CTL_CM_EVENT_KINDS;
	put(&s, &e, sizeof(e));
	e.body.kind = CTL_CM_USER;
	e.index = 1; /* of a step that was not completed */
	put(&s, &e, sizeof(e));
	e.index = 0;
	e.id = FIRST_ID + 1;
	put(&s, &e, sizeof(e));
	e.id = FIRST_ID;
	e.body.end.private_bytes = CTL_CM_PRIVATE_BYTES + 1;
	put(&s, &e, sizeof(e));
	e.body.end.private_bytes = 0;
	e.body.cookie = 5;
	put(&s, &e, sizeof(e));
	sock = come_back_with(&s);
	CHECK(cm_await(sock, CHANNEL, CTL_CM_USER).cookie == 5);
	CHECK(cm_event(sock, CHANNEL).answer == EAGAIN);
	close(sock);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return *state >> 20;
}

/* A few right records, of whose bytes some are changed. */
static void scribble(int fd, uint64_t *random)
{
	for (unsigned i = 0; i < 64; i++) {
		uint64_t what = next_random(random);
		off_t at = 4096 + (off_t)(what % (32 * 1024));
		uint32_t word =
			what & 0x10000 ? (uint32_t)next_random(random) : (uint32_t)(what >> 20 & 3);

		CHECK(pwrite(fd, &word, sizeof(word), at) == sizeof(word));
	}
}

static struct cm_store make_full_store(void)
{
	struct cm_store s = make_store();

	for (unsigned i = 0; i < 8; i++) {
		struct cm_record_id rows[] = { a_connection(i), a_request(100 + i),
					       a_listener(200 + i, &loopback,
							  (uint16_t)(4200 + i)) };
		struct cm_record_event e = a_request_event(i, 200 + i);

		for (unsigned j = 0; j < 3; j++)
			put(&s, &rows[j], sizeof(rows[j]));
		put(&s, &e, sizeof(e));
	}
	return s;
}

static void test_changed_records_harm_nobody(void **state)
{
	uint64_t random = 7;

	for (unsigned i = 0; i < 200; i++) {
		struct cm_store s = make_full_store();

		scribble(s.fd, &random);
		close(come_back_with(&s));
	}
	CHECK(daemon_pid() == others.daemon);
}

static atomic_bool is_over;

static void *go_on_scribbling(void *fd)
{
	uint64_t random = 11;

	while (!is_over)
		scribble(*(int *)fd, &random);
	return NULL;
}

static void test_a_store_may_change_while_it_is_read(void **state)
{
	for (unsigned i = 0; i < 30; i++) {
		struct cm_store s = make_full_store();
		int fd = s.fd;
		pthread_t thread;

		is_over = false;
		CHECK(!pthread_create(&thread, NULL, go_on_scribbling, &fd));
		close(come_back(fd));
		is_over = true;
		CHECK(!pthread_join(thread, NULL));
		cm_store_close(&s, 0);
	}
	CHECK(daemon_pid() == others.daemon);
}

static int status_of_store(int fd, bool returns)
{
	struct ctl_cm_hello hello = cm_hello(returns ? next_session() : 0);
	int sock = raw_connect(), event_fd = cm_make_event_fd();
	int fds[2] = { fd, event_fd };
	struct fdmsg m = cm_ask_with(sock, &hello, sizeof(hello), fds, returns ? 2 : 1);
	int status = m.body.welcome.status;

	fdmsg_close_fds(&m);
	close(sock);
	close(event_fd);
	return status;
}

static void test_what_is_no_store_is_refused(void **state)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint32_t header[3] = { 0 };

	CHECK(fd >= 0 && !ftruncate(fd, CTL_CM_STORE_BYTES));
	CHECK(status_of_store(fd, false) == EINVAL);
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK(status_of_store(fd, true) == EINVAL);
	close(fd);
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(!ftruncate(fd, CTL_CM_STORE_BYTES - 4096) && !fcntl(fd, F_ADD_SEALS, seals));
	CHECK(status_of_store(fd, true) == EINVAL);
	close(fd);
	/* A hole in a pool of huge pages needs none of them. */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd >= 0 && !ftruncate(fd, CTL_CM_STORE_BYTES)) {
		CHECK(!fcntl(fd, F_ADD_SEALS, seals));
		CHECK(status_of_store(fd, true) == EINVAL);
	}
	close(fd);
	fd = cm_make_event_fd();
	CHECK(status_of_store(fd, false) == EINVAL);
	close(fd);
	/* Of something else; of another version. */
	fd = cm_make_store();
	header[0] = 1;
	CHECK(pwrite(fd, header, sizeof(header), 0) == sizeof(header));
	CHECK(status_of_store(fd, true) == ESTALE);
	close(fd);
	fd = cm_make_store();
	CHECK(!status_of_store(fd, false));
	CHECK(pread(fd, header, sizeof(header), 0) == sizeof(header));
	header[1]++;
	CHECK(pwrite(fd, header, sizeof(header), 0) == sizeof(header));
	CHECK(status_of_store(fd, true) == ESTALE);
	close(fd);
	/* A store that cannot be written: only its own process loses its state. */
	fd = cm_make_store();
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK(!status_of_store(fd, false));
	close(fd);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_requests_make_is_restored),
		TEST(test_an_end_without_an_answer),
		TEST(test_identifiers_that_cannot_be_are_dropped),
		TEST(test_ports_of_others_are_not_given),
		TEST(test_connections_that_cannot_be_are_lost),
		TEST(test_a_request_that_is_over),
		TEST(test_a_request_of_an_earlier_version),
		TEST(test_numbers_are_had_once),
		TEST(test_children_go_round_in_no_circle),
		TEST(test_events_that_cannot_be_are_dropped),
		TEST(test_changed_records_harm_nobody),
		TEST(test_a_store_may_change_while_it_is_read),
		TEST(test_what_is_no_store_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
