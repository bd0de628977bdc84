/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners: clients that give up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"

/* The client's request has come to the listener. */
static void wait_for_request(int listener, int client)
{
	struct pollfd polls[] = { { .fd = listener, .events = POLLIN }, { .fd = client } };

	while (!(polls[0].revents & POLLIN))
		assert_true(rpoll(polls, 2, LONG_MS) > 0);
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
	rclose(client);
	rclose(accepted);
	rclose(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
