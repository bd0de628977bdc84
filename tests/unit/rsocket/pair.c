/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>

#include "pair.h"

struct sockaddr_in loopback(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

int make_listener(struct sockaddr_in *addr)
{
	socklen_t length = sizeof(*addr);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	*addr = loopback();
	assert_true(fd >= 0);
	assert_return_code(rbind(fd, (struct sockaddr *)addr, sizeof(*addr)), errno);
	assert_return_code(rgetsockname(fd, (struct sockaddr *)addr, &length), errno);
	assert_int_not_equal(addr->sin_port, 0);
	assert_return_code(rlisten(fd, 8), errno);
	return fd;
}

int start_connecting(const struct sockaddr_in *addr)
{
	int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(rconnect(fd, (const struct sockaddr *)addr, sizeof(*addr)), -1);
	assert_int_equal(errno, EINPROGRESS);
	return fd;
}

void wait_for(int fd, short events)
{
	struct pollfd poll = { .fd = fd, .events = events };

	assert_int_equal(rpoll(&poll, 1, LONG_MS), 1);
	assert_true(poll.revents & events);
}

/* One thread makes both ends: the connecting one does not block meanwhile. */
void make_pair(int fds[2], int mappings)
{
	struct sockaddr_in addr;
	int server = make_listener(&addr), error;
	socklen_t length = sizeof(error);

	rsetsockopt(server, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof(mappings));
	fds[0] = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_true(fds[0] >= 0);
	rsetsockopt(fds[0], SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof(mappings));
	assert_int_equal(rconnect(fds[0], (struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, EINPROGRESS);
	for (fds[1] = -1; fds[1] < 0;) {
		struct pollfd polls[] = { { .fd = fds[0], .events = POLLOUT },
					  { .fd = server, .events = POLLIN } };

		assert_true(rpoll(polls, 2, LONG_MS) > 0);
		assert_int_equal(polls[0].revents & (POLLERR | POLLHUP), 0);
		if (polls[1].revents & POLLIN)
			fds[1] = raccept(server, NULL, NULL);
	}
	wait_for(fds[0], POLLOUT);
	wait_for(fds[1], POLLOUT);
	assert_return_code(rgetsockopt(fds[0], SOL_SOCKET, SO_ERROR, &error, &length), errno);
	assert_int_equal(error, 0);
	assert_return_code(rconnect(fds[0], (struct sockaddr *)&addr, sizeof(addr)), errno);
	assert_int_equal(rconnect(fds[0], (struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, EISCONN);
	assert_return_code(rfcntl(fds[0], F_SETFL, 0), errno);
	assert_return_code(rclose(server), errno);
}

void close_pair(int fds[2])
{
	assert_return_code(rclose(fds[0]), errno);
	assert_return_code(rclose(fds[1]), errno);
	assert_int_equal(rsend(fds[0], "", 1, 0), -1);
	assert_int_equal(errno, EBADF);
}
