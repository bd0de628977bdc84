/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners: clients that give up, and threads in raccept when the listener ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"

/* The client's request has come to the listener. */
static void wait_for_request(int listener, int client)
{
	struct pollfd polls[] = { { .fd = listener, .events = POLLIN }, { .fd = client } };

	while (!(polls[0].revents & POLLIN)) {
		assert_true(rpoll(polls, 2, LONG_MS) > 0);
		assert_int_equal(polls[1].revents, 0);
	}
}

static int accept_one(int listener, int client)
{
	int fd;

	wait_for_request(listener, client);
	fd = raccept(listener, NULL, NULL);
	assert_return_code(fd, errno);
	return fd;
}

/* iWARP's TCP connection has been made by then, and can be accepted. */
static void expect_no_request(int listener)
{
	const char *transport = getenv("VERBATIM_TRANSPORT");
	int fd = raccept(listener, NULL, NULL);

	if (fd >= 0 && transport && strcmp(transport, "iwarp") == 0) {
		rclose(fd);
		return;
	}
	assert_int_equal(fd, -1);
	assert_int_equal(errno, EAGAIN);
}

/* The client's program goes on by its calls alone: an accepted end would wait for it. */
static void close_both(int client, int accepted)
{
	wait_for(client, POLLOUT);
	rclose(client);
	rclose(accepted);
}

/* Its request is still in the queue when it is gone; the next one is served. */
static void client_gives_up(void **state)
{
	struct sockaddr_in addr;
	int listener = make_listener(&addr), client = start_connecting(&addr), accepted;

	wait_for_request(listener, client);
	assert_return_code(rclose(client), errno);
	usleep(200 * MS);
	assert_return_code(rfcntl(listener, F_SETFL, O_NONBLOCK), errno);
	expect_no_request(listener);
	client = start_connecting(&addr);
	accepted = accept_one(listener, client);
	wait_for(client, POLLOUT);
	assert_int_equal(rsend(client, "x", 1, 0), 1);
	wait_for(accepted, POLLIN);
	close_both(client, accepted);
	rclose(listener);
}

/* As accept_one; on a busy machine a client is still on its way. */
static int accept_one_of(int listener, const int *clients, int count)
{
	struct pollfd polls[8] = { { .fd = listener, .events = POLLIN } };
	int fd;

	assert_true(count < 8);
	for (int i = 0; i < count; i++)
		polls[1 + i].fd = clients[i];
	while (!(polls[0].revents & POLLIN)) {
		assert_true(rpoll(polls, (nfds_t)count + 1, LONG_MS) > 0);
		for (int i = 0; i < count; i++)
			assert_int_equal(polls[1 + i].revents, 0);
	}
	fd = raccept(listener, NULL, NULL);
	assert_return_code(fd, errno);
	return fd;
}

/* rdma_listen takes a backlog of 0 for as many as there can be. */
static void without_a_backlog(void **state)
{
	enum { CLIENTS = 4 };
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), clients[CLIENTS], accepted[CLIENTS];
	struct sockaddr_in addr = loopback();
	socklen_t length = sizeof(addr);

	assert_return_code(rbind(listener, (struct sockaddr *)&addr, sizeof(addr)), errno);
	assert_return_code(rgetsockname(listener, (struct sockaddr *)&addr, &length), errno);
	assert_return_code(rlisten(listener, 0), errno);
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = start_connecting(&addr);
		for (int j = 0; j < 10; j++) {
			struct pollfd poll = { .fd = clients[i], .events = POLLOUT };

			assert_int_equal(rpoll(&poll, 1, 10), 0);
		}
	}
	for (int i = 0; i < CLIENTS; i++)
		accepted[i] = accept_one_of(listener, clients, CLIENTS);
	for (int i = 0; i < CLIENTS; i++)
		close_both(clients[i], accepted[i]);
	rclose(listener);
}

static void expect_peer(int fd, int error)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof(peer);

	assert_int_equal(rgetpeername(fd, (struct sockaddr *)&peer, &length), error ? -1 : 0);
	if (error)
		assert_int_equal(errno, error);
}

/* Programs ask for the peer's name to learn whether a connection has been made. */
static void unnamed_until_accepted(void **state)
{
	struct sockaddr_in addr;
	socklen_t length = sizeof(addr);
	int listener = make_listener(&addr), client = start_connecting(&addr), accepted;

	wait_for_request(listener, client);
	expect_peer(client, ENOTCONN);
	accepted = accept_one(listener, client);
	expect_peer(accepted, 0);
	/* without any other call */
	for (int i = 0; i < LONG_MS && rgetpeername(client, (struct sockaddr *)&addr, &length); i++)
		usleep(1000);
	expect_peer(client, 0);
	close_both(client, accepted);
	rclose(listener);
}

static int64_t cpu_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* A request is no event for who does not ask for it. */
static void polled_for_others(void **state)
{
	struct pollfd poll = { .events = POLLRDNORM };
	struct sockaddr_in addr;
	int listener = make_listener(&addr), client = start_connecting(&addr);
	int64_t before;

	wait_for_request(listener, client);
	poll.fd = listener;
	assert_int_equal(rpoll(&poll, 1, LONG_MS), 1);
	assert_int_equal(poll.revents, POLLRDNORM);
	poll.events = POLLPRI;
	before = cpu_ms();
	assert_int_equal(rpoll(&poll, 1, 500), 0);
	assert_in_range(cpu_ms() - before, 0, 20);
	rclose(client);
	rclose(listener);
}

static void *poll_for_request(void *arg)
{
	struct pollfd poll = { .fd = *(int *)arg, .events = POLLIN };

	return (void *)(intptr_t)rpoll(&poll, 1, LONG_MS);
}

/* It slept beside a request that another thread took, and sees the next one. */
static void accepted_beside_a_sleeper(void **state)
{
	struct sockaddr_in addr;
	int listener = make_listener(&addr), client, accepted, next;
	pthread_t thread;
	void *rc;

	for (int i = 0; i < 20; i++) {
		client = start_connecting(&addr);
		wait_for_request(listener, client);
		assert_int_equal(pthread_create(&thread, NULL, poll_for_request, &listener), 0);
		accepted = raccept(listener, NULL, NULL);
		assert_return_code(accepted, errno);
		next = start_connecting(&addr);
		wait_for_request(listener, next);
		pthread_join(thread, &rc);
		assert_int_equal((intptr_t)rc, 1);
		close_both(next, accept_one(listener, next));
		close_both(client, accepted);
	}
	rclose(listener);
}

/* It looks as one that has closed, as later. */
static void client_ends_before_it_confirms(void **state)
{
	struct sockaddr_in addr;
	int listener = make_listener(&addr), client = start_connecting(&addr), accepted;
	char byte;

	accepted = accept_one(listener, client);
	rclose(client);
	assert_int_equal(rrecv(accepted, &byte, 1, 0), 0);
	rclose(accepted);
	rclose(listener);
}

struct acceptor {
	pthread_t thread;
	int listener, fd, error;
};

static void *accept_any(void *arg)
{
	struct acceptor *acceptor = arg;

	acceptor->fd = raccept(acceptor->listener, NULL, NULL);
	acceptor->error = errno;
	return NULL;
}

static void start(struct acceptor *acceptor, int listener)
{
	*acceptor = (struct acceptor){ .listener = listener };
	assert_int_equal(pthread_create(&acceptor->thread, NULL, accept_any, acceptor), 0);
	usleep(50 * MS);
}

static void expect_error(struct acceptor *acceptor, int error)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 2;
	assert_int_equal(pthread_timedjoin_np(acceptor->thread, NULL, &until), 0);
	assert_int_equal(acceptor->fd, -1);
	assert_int_equal(acceptor->error, error);
}

static void expect_refused(const struct sockaddr_in *addr)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(rconnect(fd, (const struct sockaddr *)addr, sizeof(*addr)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rclose(fd);
}

static void shut_under_a_sleeper(void **state)
{
	struct pollfd poll = { .events = POLLIN };
	struct acceptor acceptor;
	struct sockaddr_in addr;
	int listener = make_listener(&addr);

	start(&acceptor, listener);
	assert_return_code(rshutdown(listener, SHUT_WR), errno); /* nothing, as with TCP */
	poll.fd = listener;
	assert_int_equal(rpoll(&poll, 1, 10), 0);
	assert_return_code(rshutdown(listener, SHUT_RDWR), errno);
	expect_error(&acceptor, EINVAL);
	assert_int_equal(raccept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rpoll(&poll, 1, LONG_MS), 1);
	assert_true(poll.revents & POLLHUP);
	expect_refused(&addr);
	assert_int_equal(rshutdown(listener, SHUT_RDWR), -1);
	assert_int_equal(errno, ENOTCONN);
	rclose(listener);
}

static void closed_under_a_sleeper(void **state)
{
	struct acceptor acceptor;
	struct sockaddr_in addr;
	int listener = make_listener(&addr);

	start(&acceptor, listener);
	assert_return_code(rclose(listener), errno);
	expect_error(&acceptor, EBADF);
	expect_refused(&addr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_gives_up),
		cmocka_unit_test(without_a_backlog),
		cmocka_unit_test(unnamed_until_accepted),
		cmocka_unit_test(polled_for_others),
		cmocka_unit_test(accepted_beside_a_sleeper),
		cmocka_unit_test(client_ends_before_it_confirms),
		cmocka_unit_test(shut_under_a_sleeper),
		cmocka_unit_test(closed_under_a_sleeper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
