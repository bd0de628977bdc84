/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_cm over iWARP: an rdma_accept whose QP cannot be connected, of which the peer learns
 * nothing; and the time in which two ends find whether they are of one host, with a peer that is a
 * plain socket.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "iwarp/mpa_startup.h"
#include "pairs.h"

/* It can still be refused. */
static void reject(struct pair *p)
{
	CHECK(!has_event(p->active, 200));
	CHECK(!rdma_reject(p->child, NULL, 0));
	expect_event(p->active, RDMA_CM_EVENT_REJECTED);
	pair_close(p);
}

static void ask(struct pair *p)
{
	pair_open(p, RDMA_PS_TCP);
	pair_make_qp(p->id);
	CHECK(!rdma_connect(p->id, NULL));
	CHECK(!rdma_ack_cm_event(pair_take_request(p)));
}

static void test_qp_in_error(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct pair p;

	ask(&p);
	pair_make_qp(p.child);
	CHECK(!ibv_modify_qp(p.child->qp, &attr, IBV_QP_STATE));
	CHECK(fails_with(rdma_accept(p.child, NULL), EINVAL));
	reject(&p);
}

static void test_no_such_qp(void **state)
{
	struct rdma_conn_param param = { .qp_num = 0x3fffff };
	struct pair p;

	ask(&p);
	CHECK(fails_with(rdma_accept(p.child, &param), EINVAL));
	reject(&p);
}

static void test_another_qp(void **state)
{
	struct pair p;

	ask(&p);
	CHECK(fails_with(rdma_accept(p.child, &(struct rdma_conn_param){ .qp_num = 0x3fffff }),
			 EINVAL));
	pair_make_qp(p.child);
	CHECK(!rdma_accept(p.child, NULL));
	expect_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	pair_close(&p);
}

static void move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(!ibv_modify_qp(qp, &attr, mask));
}

/* As rdma-core's librdmacm moves it, up to RTS, which comes with the connection. */
static void test_qp_that_the_program_moves(void **state)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 16 }, .qp_type = IBV_QPT_RC };
	struct rdma_conn_param param = { .responder_resources = 1 };
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct pair p;

	ask(&p);
	cq = ibv_create_cq(p.child->verbs, 8, NULL, NULL, 0);
	CHECK(cq);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(p.child->pd, &init);
	CHECK(qp);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		move(p.child, qp, s);
	param.qp_num = qp->qp_num;
	CHECK(!rdma_accept(p.child, &param));
	expect_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
	pair_close(&p);
}

/*
 * ------------------------------------------------------------------------------------------
 * The peer is a socket of this file.
 */

static const struct mpa_offer neighbour = {
	.revision = 2, .extensions = true, .same_host = true, .ird = 4, .ord = 4
};

static struct same_host_place told; /* by the last reply */

static void send_all(int fd, const void *bytes, size_t count)
{
	CHECK(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
}

static void feed(int fd, struct mpa_startup *s)
{
	uint8_t bytes[MPA_FRAME_MAX];

	while (s->state == MPA_WAITING) {
		ssize_t got = recv(fd, bytes, mpa_startup_wanted(s), 0);

		CHECK(got > 0);
		CHECK(mpa_startup_feed(s, bytes, (size_t)got) == (size_t)got);
	}
}

static enum ibv_qp_state state_of(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* p->child is accepted, and waits for the frame of the initiator, which is the socket. */
static int accept_socket(struct pair *p)
{
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 0);
	struct mpa_startup s;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	pair_open(p, RDMA_PS_TCP);
	to.sin_port = rdma_get_src_port(p->listener);
	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
	CHECK(!mpa_startup_call(&s, &neighbour, NULL, 0));
	send_all(fd, s.out, s.out_bytes);
	CHECK(!rdma_ack_cm_event(pair_take_request(p)));
	pair_make_qp(p->child);
	CHECK(!rdma_accept(p->child, NULL));
	feed(fd, &s);
	CHECK(s.state == MPA_ESTABLISHED && s.agreed.same_host);
	same_host_get_place(s.place, &told);
	CHECK(told.qpn == p->child->qp->qp_num);
	CHECK(state_of(p->child) == IBV_QPS_RTS);
	CHECK(!has_event(p->passive, 50));
	return fd;
}

static void send_frame(int fd, const struct same_host_place *place)
{
	uint8_t frame[SAME_HOST_FRAME_BYTES];

	same_host_put_frame(frame, place);
	send_all(fd, frame, 5);
	send_all(fd, frame + 5, sizeof(frame) - 5);
}

/* What the program posts from rdma_accept on leaves by the stream. */
static void test_initiator_wants_the_stream(void **state)
{
	static char text[16];
	struct ibv_sge sge = { (uintptr_t)text, sizeof(text), 0 };
	struct ibv_send_wr *bad, wr = { .wr_id = 5,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_INLINE };
	struct pair p;
	int fd = accept_socket(&p);
	uint8_t byte;

	CHECK(!ibv_post_send(p.child->qp, &wr, &bad));
	CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	send_frame(fd, NULL);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(recv(fd, &byte, 1, 0) == 1);
	close(fd);
	expect_event(p.passive, RDMA_CM_EVENT_DISCONNECTED);
	pair_close(&p);
}

static void expect_failure(struct pair *p, int status)
{
	struct rdma_cm_event *event = await_event(p->passive, RDMA_CM_EVENT_CONNECT_ERROR);

	CHECK(event->id == p->child && event->status == status);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(state_of(p->child) == IBV_QPS_ERR);
	pair_close(p);
}

static void test_initiator_dies(void **state)
{
	struct pair p;
	int fd = accept_socket(&p);

	close(fd);
	expect_failure(&p, -ECONNRESET);
}

static void test_initiator_says_something_else(void **state)
{
	struct pair p;
	int fd = accept_socket(&p);

	send_all(fd, "an FPDU that comes too early", 28);
	expect_failure(&p, -EPROTO);
	close(fd);
}

/* A process that is not there, and one whose arena is another's. */
static void test_initiator_lies(void **state)
{
	struct same_host_place place = { .qpn = 1000 << 14 | 1, .cookie = 1 };
	struct pair p;
	int fd = accept_socket(&p);

	send_frame(fd, &place);
	expect_failure(&p, -EHOSTUNREACH);
	close(fd);
	fd = accept_socket(&p);
	place.qpn = p.child->qp->qp_num;
	send_frame(fd, &place);
	expect_failure(&p, -EHOSTUNREACH);
	close(fd);
}

/* The reply has told this place; but nobody there is connected to the QP. */
static void test_initiator_echoes_the_place(void **state)
{
	struct ibv_send_wr *bad, wr = { .wr_id = 5, .opcode = IBV_WR_SEND };
	struct same_host_place place;
	struct ibv_wc wc;
	struct pair p;
	int fd = accept_socket(&p);

	CHECK(!ibv_post_send(p.child->qp, &wr, &bad));
	place = told;
	send_frame(fd, &place);
	expect_event(p.passive, RDMA_CM_EVENT_CONNECT_ERROR);
	CHECK(state_of(p.child) == IBV_QPS_ERR);
	CHECK(ibv_poll_cq(p.child->send_cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
	close(fd);
	pair_close(&p);
}

/* What was posted still leaves. */
static void test_disconnected_before_the_frame(void **state)
{
	struct ibv_send_wr *bad, wr = { .wr_id = 5, .opcode = IBV_WR_SEND };
	struct pair p;
	int fd = accept_socket(&p);
	uint8_t bytes[64];

	CHECK(!ibv_post_send(p.child->qp, &wr, &bad));
	CHECK(!rdma_disconnect(p.child));
	CHECK(recv(fd, bytes, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	send_frame(fd, NULL);
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(recv(fd, bytes, sizeof(bytes), MSG_WAITALL) > 0); /* up to the FIN */
	close(fd);
	expect_event(p.passive, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(state_of(p.child) == IBV_QPS_ERR);
	pair_close(&p);
}

static void test_destroyed_before_the_frame(void **state)
{
	struct pair p;
	int fd = accept_socket(&p);
	uint8_t byte;

	pair_close(&p);
	CHECK(recv(fd, &byte, 1, 0) == 0);
	close(fd);
}

/*
 * The initiator is p->id, its responder the socket that is returned, which tells of this place.
 * True in *shared: the initiator has met it.
 */
static int connect_to_socket(struct pair *p, const struct same_host_place *told_place, bool *shared)
{
	struct sockaddr_in name = pairs_v4(INADDR_LOOPBACK, 0);
	uint8_t place[SAME_HOST_PLACE_BYTES], frame[SAME_HOST_FRAME_BYTES];
	socklen_t len = sizeof(name);
	struct same_host_place got;
	struct mpa_startup s;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;

	CHECK(!bind(listener, (struct sockaddr *)&name, len) && !listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&name, &len));
	CHECK(!rdma_destroy_id(p->id) && !rdma_create_id(p->active, &p->id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(p->id, NULL, (struct sockaddr *)&name, 1000));
	expect_event(p->active, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(p->id, 1000));
	expect_event(p->active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	pair_make_qp(p->id);
	CHECK(!rdma_connect(p->id, NULL));
	fd = accept(listener, NULL, NULL);
	close(listener);
	mpa_startup_answer(&s, &neighbour);
	feed(fd, &s);
	CHECK(s.state == MPA_ASKED && mpa_startup_asks_place(&s));
	same_host_put_place(place, told_place);
	mpa_startup_offer_place(&s, place);
	CHECK(!mpa_startup_accept(&s, 4, 4, NULL, 0));
	send_all(fd, s.out, s.out_bytes);
	CHECK(recv(fd, frame, sizeof(frame), MSG_WAITALL) == (ssize_t)sizeof(frame));
	CHECK(same_host_get_frame(frame, shared, &got));
	CHECK(!*shared || got.qpn == p->id->qp->qp_num);
	expect_event(p->active, RDMA_CM_EVENT_ESTABLISHED);
	return fd;
}

/* The responder tells of a place that nobody is at: the initiator keeps to the stream. */
static void test_responder_is_elsewhere(void **state)
{
	const struct same_host_place nowhere = { .qpn = 1000 << 14 | 1, .cookie = 1 };
	struct pair p;
	bool shared;
	int fd;

	pair_open(&p, RDMA_PS_TCP);
	fd = connect_to_socket(&p, &nowhere, &shared);
	CHECK(!shared);
	close(fd);
	expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED);
	pair_close(&p);
}

/*
 * The place is there, but its QP is not connected to the initiator's: what is posted waits,
 * whatever the socket says, for longer than a QP that sends would try (540 ms), and ends with the
 * socket.
 */
static void test_responder_is_not_ready(void **state)
{
	const uint8_t ready = SAME_HOST_READY;
	struct ibv_send_wr *bad, wr = { .wr_id = 5, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	struct pair p;
	bool shared;
	int fd, first = accept_socket(&p);

	fd = connect_to_socket(&p, &told, &shared);
	CHECK(shared);
	CHECK(!ibv_post_send(p.id->qp, &wr, &bad));
	send_all(fd, &ready, 1);
	for (int i = 0; i < 120; i++) {
		CHECK(!ibv_poll_cq(p.id->send_cq, 1, &wc));
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	CHECK(state_of(p.id) == IBV_QPS_RTS);
	close(fd);
	expect_event(p.active, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(ibv_poll_cq(p.id->send_cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
	close(first);
	pair_close(&p);
}

/*
 * ------------------------------------------------------------------------------------------
 * What the two ends say to each other, and what a listener takes.
 */

static uint8_t longest[512];

static void fill_longest(void)
{
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = (uint8_t)(i * 3 + 1);
}

/* As long as a call's may be; the depths cross over. */
static void test_private_data_and_depths(void **state)
{
	struct rdma_conn_param param = { .private_data = longest,
					 .private_data_len = 255,
					 .responder_resources = 5,
					 .initiator_depth = 3 };
	struct rdma_cm_event *event;
	struct pair p;

	fill_longest();
	pair_open(&p, RDMA_PS_TCP);
	pair_make_qp(p.id);
	CHECK(!rdma_connect(p.id, &param));
	event = pair_take_request(&p);
	check_data(&event->param.conn, 255, longest, 255);
	CHECK(event->param.conn.responder_resources == 3);
	CHECK(event->param.conn.initiator_depth == 5);
	CHECK(!rdma_ack_cm_event(event));
	pair_make_qp(p.child);
	param = (struct rdma_conn_param){ .private_data = longest + 7,
					  .private_data_len = 255,
					  .responder_resources = 3,
					  .initiator_depth = 4 };
	CHECK(!rdma_accept(p.child, &param));
	event = await_event(p.active, RDMA_CM_EVENT_ESTABLISHED);
	check_data(&event->param.conn, 255, longest + 7, 255);
	CHECK(!rdma_ack_cm_event(event));
	expect_event(p.passive, RDMA_CM_EVENT_ESTABLISHED);
	pair_close(&p);
}

static void test_rejection_with_data(void **state)
{
	struct rdma_cm_event *event;
	struct pair p;

	fill_longest();
	ask(&p);
	CHECK(!rdma_reject(p.child, longest, 200));
	event = await_event(p.active, RDMA_CM_EVENT_REJECTED);
	check_data(&event->param.conn, 200, longest, 200);
	CHECK(!rdma_ack_cm_event(event));
	pair_close(&p);
}

static int call_socket(struct pair *p)
{
	struct sockaddr_in to = pairs_v4(INADDR_LOOPBACK, 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = rdma_get_src_port(p->listener);
	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
	return fd;
}

static void send_request(int fd, const void *data, size_t bytes)
{
	const struct mpa_offer offer = { .revision = 2, .ird = 4, .ord = 4 };
	struct mpa_startup s;

	CHECK(!mpa_startup_call(&s, &offer, data, bytes));
	send_all(fd, s.out, s.out_bytes);
}

/* The length of a struct rdma_conn_param's data is a byte. */
static void test_longer_data_of_a_peer(void **state)
{
	struct rdma_cm_event *event;
	struct pair p;
	int fd;

	fill_longest();
	pair_open(&p, RDMA_PS_TCP);
	fd = call_socket(&p);
	send_request(fd, longest, MPA_PROGRAM_MAX);
	event = pair_take_request(&p);
	check_data(&event->param.conn, 255, longest, 255);
	CHECK(!rdma_ack_cm_event(event));
	close(fd);
	pair_close(&p);
}

/* An HTTP client, say. */
static void test_no_mpa(void **state)
{
	char answer[8];
	struct pair p;
	int fd;

	pair_open(&p, RDMA_PS_TCP);
	fd = call_socket(&p);
	send_all(fd, "GET / HTTP/1.0\r\n\r\n and more", 27);
	CHECK(recv(fd, answer, sizeof(answer), 0) <=
	      0); /* a FIN, or a reset for what was not read */
	CHECK(!has_event(p.passive, 100));
	close(fd);
	pair_close(&p);
}

static void test_port_in_use(void **state)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *second;
	struct pair p;

	pair_open(&p, RDMA_PS_TCP);
	at.sin_port = rdma_get_src_port(p.listener);
	CHECK(!rdma_create_id(p.passive, &second, NULL, RDMA_PS_TCP));
	if (!rdma_bind_addr(second, (struct sockaddr *)&at))
		CHECK(fails_with(rdma_listen(second, 1), EADDRINUSE));
	else
		CHECK(errno == EADDRINUSE);
	CHECK(!rdma_destroy_id(second));
	pair_close(&p);
}

static void listen_for_one(struct pair *p)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);

	pair_open(p, RDMA_PS_TCP);
	CHECK(!rdma_destroy_id(p->listener));
	CHECK(!rdma_create_id(p->passive, &p->listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(p->listener, (struct sockaddr *)&at) && !rdma_listen(p->listener, 1));
}

/* The program is told of one connection; the next waits until it has taken that. */
static void test_backlog(void **state)
{
	struct pair p;
	int fds[3];

	listen_for_one(&p);
	for (int i = 0; i < 3; i++) {
		fds[i] = call_socket(&p);
		send_request(fds[i], NULL, 0);
	}
	for (int i = 0; i < 3; i++) {
		CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
		CHECK(!rdma_reject(p.child, NULL, 0));
		CHECK(!rdma_destroy_id(p.child));
	}
	p.child = NULL;
	CHECK(!has_event(p.passive, 50));
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	pair_close(&p);
}

/* Connections that say nothing, of a port scanner say, keep no client waiting. */
static void test_silent_connections(void **state)
{
	struct rdma_cm_event *event;
	struct pair p;
	int fds[4];

	listen_for_one(&p);
	for (int i = 0; i < 4; i++)
		fds[i] = call_socket(&p);
	send_request(fds[3], longest, 5);
	event = pair_take_request(&p);
	check_data(&event->param.conn, 5, longest, 5);
	CHECK(!rdma_ack_cm_event(event));
	send_request(fds[1], NULL, 0); /* it is late */
	CHECK(!rdma_reject(p.child, NULL, 0) && !rdma_destroy_id(p.child));
	CHECK(!rdma_ack_cm_event(pair_take_request(&p)));
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	pair_close(&p);
}

static void *bind_cancelled(void *id)
{
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);

	CHECK(!pthread_cancel(pthread_self()));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at));
	return NULL;
}

/* It keeps no lock that the next call needs. */
static void test_cancelled_bind(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *ids[2];
	pthread_t thread;

	CHECK(channel);
	for (int i = 0; i < 2; i++)
		CHECK(!rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP));
	CHECK(!pthread_create(&thread, NULL, bind_cancelled, ids[0]));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!rdma_bind_addr(ids[1], (struct sockaddr *)&at));
	for (int i = 0; i < 2; i++)
		CHECK(!rdma_destroy_id(ids[i]));
	rdma_destroy_event_channel(channel);
}

/* In a process without the thread of iWARP's connections, whose start then fails. */
static void listen_in_vain(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = pairs_v4(INADDR_LOOPBACK, 0);
	struct rlimit usual, few;
	struct rdma_cm_id *id;
	unsigned fds;
	int free_fd;

	CHECK(channel);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!getrlimit(RLIMIT_NOFILE, &usual));
	few = usual;
	fds = count_fds(getpid());
	free_fd = dup(fd);
	close(free_fd);
	few.rlim_cur = (rlim_t)free_fd + 1;
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	CHECK(fails_with(rdma_listen(id, 1), EMFILE));
	CHECK(!setrlimit(RLIMIT_NOFILE, &usual));
	CHECK(fails_with(rdma_bind_addr(id, (struct sockaddr *)&at), EINVAL));
	CHECK(count_fds(getpid()) == fds + 1);
	CHECK(!rdma_listen(id, 1));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* As in Linux: it is bound. */
static void test_listen_without_descriptors(void **state)
{
	struct worker w;

	worker_start(&w, listen_in_vain);
	worker_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_qp_in_error),
		cmocka_unit_test(test_no_such_qp),
		cmocka_unit_test(test_another_qp),
		cmocka_unit_test(test_qp_that_the_program_moves),
		cmocka_unit_test(test_initiator_wants_the_stream),
		cmocka_unit_test(test_initiator_dies),
		cmocka_unit_test(test_initiator_says_something_else),
		cmocka_unit_test(test_initiator_lies),
		cmocka_unit_test(test_initiator_echoes_the_place),
		cmocka_unit_test(test_disconnected_before_the_frame),
		cmocka_unit_test(test_destroyed_before_the_frame),
		cmocka_unit_test(test_responder_is_elsewhere),
		cmocka_unit_test(test_responder_is_not_ready),
		cmocka_unit_test(test_private_data_and_depths),
		cmocka_unit_test(test_rejection_with_data),
		cmocka_unit_test(test_longer_data_of_a_peer),
		cmocka_unit_test(test_no_mpa),
		cmocka_unit_test(test_port_in_use),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_silent_connections),
		cmocka_unit_test(test_cancelled_bind),
		cmocka_unit_test(test_listen_without_descriptors),
	};

	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
