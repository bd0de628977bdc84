/* SPDX-License-Identifier: BSD-2-Clause */
/* A TCP connection over loopback as a byte stream: pieces, short writes, the ends. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcp/tcp.h"

#define WAIT_MS 5000

static int ends[2];

static int setup(void **state)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&name, len) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&name, &len) < 0 ||
	    connect(ends[0], (struct sockaddr *)&name, len) < 0)
		return -1;
	ends[1] = accept(listener, NULL, NULL);
	close(listener);
	return ends[1] < 0 || tcp_prepare(ends[0]) || tcp_prepare(ends[1]) ? -1 : 0;
}

static int teardown(void **state)
{
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* Until there are bytes, or the end. */
static ssize_t receive(int fd, const struct iovec *pieces, int count)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	return tcp_receive(fd, pieces, count);
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static void test_options(void **state)
{
	static const uint8_t loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	uint8_t peer[16];

	tcp_peer(ends[0], peer);
	assert_memory_equal(peer, loopback, sizeof(peer));
	tcp_peer(-1, peer);
	assert_int_equal(peer[15], 0);
	assert_int_equal(option(ends[0], IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option(ends[0], SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(option(ends[0], IPPROTO_TCP, TCP_USER_TIMEOUT), TCP_PEER_GONE_MS);
	assert_in_range(tcp_segment_bytes(ends[0]), 536, 65536);
	assert_int_equal(tcp_segment_bytes(-1), 536);
}

static void test_bytes_moved(void **state)
{
	uint64_t sent = tcp_bytes_moved(ends[0]), came = tcp_bytes_moved(ends[1]);
	struct iovec piece = { (char[100]){ 0 }, 100 };

	assert_int_equal(tcp_send(ends[0], &piece, 1, false), 100);
	assert_int_equal(receive(ends[1], &piece, 1), 100);
	assert_int_equal(tcp_bytes_moved(ends[1]) - came, 100);
	for (int i = 0; i < WAIT_MS && tcp_bytes_moved(ends[0]) - sent < 100; i++)
		poll(NULL, 0, 1); /* for the acknowledgement */
	assert_int_equal(tcp_bytes_moved(ends[0]) - sent, 100);
	assert_int_equal(tcp_bytes_moved(-1), 0);
}

/* It shows although bytes from before are unread. */
static void test_peer_has_closed(void **state)
{
	struct iovec piece = { (char[100]){ 0 }, 100 };
	struct pollfd p = { .fd = ends[1], .events = POLLRDHUP };

	assert_int_equal(tcp_send(ends[0], &piece, 1, false), 100);
	assert_false(tcp_peer_has_closed(ends[1]));
	tcp_half_close(ends[0]);
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(tcp_peer_has_closed(ends[1]));
	assert_false(tcp_peer_has_closed(ends[0]));
	assert_int_equal(receive(ends[1], &piece, 1), 100);
}

static void test_pieces(void **state)
{
	char a[] = "one", b[] = "two", got[2][4] = { "", "" };
	const struct iovec out[] = { { a, 3 }, { b, 3 } };
	const struct iovec in[] = { { got[0], 2 }, { got[1], 4 } };

	assert_int_equal(tcp_receive(ends[1], in, 2), TCP_WOULD_BLOCK);
	assert_int_equal(tcp_send(ends[0], out, 2, false), 6);
	assert_int_equal(receive(ends[1], in, 2), 6);
	assert_memory_equal(got[0], "on", 2);
	assert_memory_equal(got[1], "etwo", 4);
}

/* With `more` a short segment waits for the next bytes; without, none does. */
static void test_more(void **state)
{
	char a[] = "first", got[16];
	const struct iovec out = { a, 5 }, in = { got, sizeof(got) };
	int unsent = 0;

	assert_int_equal(tcp_send(ends[0], &out, 1, true), 5);
	assert_int_equal(ioctl(ends[0], SIOCOUTQNSD, &unsent), 0);
	assert_int_equal(unsent, 5); /* soon the kernel sends them all the same */
	assert_int_equal(tcp_send(ends[0], &out, 1, false), 5);
	assert_int_equal(receive(ends[1], &in, 1), 10);
}

static void test_room(void **state)
{
	static char much[1 << 20], sink[1 << 20];
	const struct iovec out = { much, sizeof(much) }, in = { sink, sizeof(sink) };
	struct pollfd p = { .fd = ends[0], .events = POLLOUT };
	ssize_t sent = 0, one, got = 0;

	while ((one = tcp_send(ends[0], &out, 1, false)) > 0)
		sent += one;
	assert_int_equal(one, TCP_WOULD_BLOCK);
	while (got < sent) {
		one = receive(ends[1], &in, 1);
		assert_true(one > 0);
		got += one;
	}
	assert_int_equal(got, sent);
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

static void test_end(void **state)
{
	char byte = 'x', got[4];
	const struct iovec out = { &byte, 1 }, in = { got, sizeof(got) };

	tcp_half_close(ends[0]);
	assert_int_equal(receive(ends[1], &in, 1), TCP_END);
	/* The other direction is open. */
	assert_int_equal(tcp_send(ends[1], &out, 1, false), 1);
	assert_int_equal(receive(ends[0], &in, 1), 1);
	assert_int_equal(tcp_send(ends[0], &out, 1, false), TCP_LOST);
	assert_false(tcp_drain(ends[0]));
	tcp_half_close(ends[1]);
	assert_int_equal(receive(ends[0], &in, 1), TCP_END);
	assert_true(tcp_drain(ends[0]));
}

static void test_reset(void **state)
{
	struct linger now = { .l_onoff = 1 };
	char got[4];
	const struct iovec in = { got, sizeof(got) };

	assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(ends[0]);
	ends[0] = -1;
	assert_int_equal(receive(ends[1], &in, 1), TCP_LOST);
	assert_true(tcp_drain(ends[1]));
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* The copy of a fork's child. Its number may have become another file's since. */
static void test_copies(void **state)
{
	struct tcp_identity identity, other;
	int copy = dup(ends[0]);

	tcp_identify(ends[0], &identity);
	tcp_identify(ends[1], &other);
	tcp_close_copy(copy, &other);
	assert_true(is_open(copy));
	tcp_close_copy(copy, &identity);
	assert_false(is_open(copy));
	tcp_close_copy(copy, &identity);
	tcp_close_copy(-1, &identity);
	tcp_identify(-1, &other);
	tcp_close_copy(ends[0], &other);
	assert_true(is_open(ends[0]) && is_open(ends[1]));
}

/* Any other kind of file is left alone: to ask what it is may take another process. */
static void test_number_of_another_file(void **state)
{
	struct tcp_identity identity;
	struct stat status;
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(fstat(pipes[0], &status), 0);
	identity = (struct tcp_identity){ status.st_dev, status.st_ino };
	tcp_close_copy(pipes[0], &identity);
	assert_true(is_open(pipes[0]));
	tcp_identify(ends[0], &identity);
	assert_int_equal(dup2(pipes[0], ends[0]), ends[0]);
	tcp_close_copy(ends[0], &identity);
	assert_true(is_open(ends[0]));
	close(pipes[0]);
	close(pipes[1]);
}

static void test_bad_memory(void **state)
{
	char byte = 'x';
	const struct iovec out = { &byte, 1 }, nowhere = { (void *)16, 64 };

	assert_int_equal(tcp_send(ends[0], &nowhere, 1, false), TCP_LOST);
	assert_int_equal(tcp_send(ends[0], &out, 1, false), 1);
	assert_int_equal(receive(ends[1], &nowhere, 1), TCP_LOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_options, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bytes_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_has_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_more, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_number_of_another_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
