#include "meet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "verify.h"

int meet(const char *host, int port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct timeval limit = {.tv_sec = 60};
	int one = 1;
	int listener, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (host) {
		if (inet_pton(AF_INET, host, &addr.sin_addr) != 1)
			fail("'%s' is not an IPv4 address", host);
		if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
			fail("connect to %s port %d: %s", host, port, strerror(errno));
	} else {
		listener = fd;
		addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(listener, 1))
			fail("listen on port %d: %s", port, strerror(errno));
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			fail("accept: %s", strerror(errno));
		close(listener);
	}
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
