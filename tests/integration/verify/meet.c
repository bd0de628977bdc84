/* SPDX-License-Identifier: BSD-2-Clause */
#include "meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* An IPv4 or IPv6 address, of the latter also a link-local one with %interface. */
static struct addrinfo *resolve(const char *address, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *found;
	char service[16];

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(address, service, &hints, &found))
		fail("'%s' is not an IP address", address);
	return found;
}

int meet(const struct options *options)
{
	const char *address = options->host ? options->host : options->listen;
	struct addrinfo *addr = resolve(address, options->port);
	struct timeval limit = { .tv_sec = 60 };
	int one = 1;
	int listener, fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (options->host) {
		if (connect(fd, addr->ai_addr, addr->ai_addrlen))
			fail("connect to %s port %d: %s", address, options->port, strerror(errno));
	} else {
		listener = fd;
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, addr->ai_addr, addr->ai_addrlen) || listen(listener, 1))
			fail("listen on %s port %d: %s", address, options->port, strerror(errno));
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			fail("accept: %s", strerror(errno));
		close(listener);
	}
	freeaddrinfo(addr);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

void meet_exchange(int fd, const void *ours, void *theirs, size_t len)
{
	if (send(fd, ours, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail("send to the other end: %s", strerror(errno));
	if (recv(fd, theirs, len, MSG_WAITALL) != (ssize_t)len)
		fail("the other end is gone or silent");
}

void meet_barrier(int fd)
{
	char ours = 'b', theirs;

	meet_exchange(fd, &ours, &theirs, 1);
}

void meet_end(int fd)
{
	char byte = 'e';

	if (send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, MSG_WAITALL) < 0 &&
	    errno == EAGAIN)
		fail("the other end is silent");
}
