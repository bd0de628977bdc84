#include "netdev/watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd = -1;

void watch_start(void)
{
	struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		fd = -1;
	}
}

int watch_fd(void)
{
	return fd;
}

bool watch_take(void)
{
	char message[8192];
	bool any = false;
	ssize_t got;

	if (fd < 0)
		return false;
	while ((got = recv(fd, message, sizeof(message), 0)) > 0 || (got < 0 && errno == ENOBUFS))
		any = true; /* ENOBUFS: more than the socket could hold */
	return any;
}

void watch_reset_after_fork(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}
