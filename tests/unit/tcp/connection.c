/* SPDX-License-Identifier: BSD-2-Clause */
#include "connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

int connection_make(int *fd, int *peer, int bytes)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	*fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bytes) {
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
		setsockopt(*fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
	if (listener < 0 || bind(listener, (struct sockaddr *)&name, len) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&name, &len) < 0 ||
	    connect(*fd, (struct sockaddr *)&name, len) < 0)
		return -1;
	*peer = accept(listener, NULL, NULL);
	close(listener);
	return setsockopt(*peer, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}
