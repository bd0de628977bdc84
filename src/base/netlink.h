/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Netlink - what the users of the kernel's routing sockets share. Any thread.
 */
#ifndef BASE_NETLINK_H
#define BASE_NETLINK_H

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct netlink_request {
	struct nlmsghdr head;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
	};
	uint8_t attributes[64];
};

static inline void netlink_add(struct netlink_request *r, uint16_t type, const void *value,
			       uint16_t bytes)
{
	struct rtattr *a = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(a), value, bytes);
	r->head.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->head.nlmsg_len) + RTA_SPACE(bytes));
}

/* A non-blocking socket for notifications of changed interfaces and addresses; -1: none. */
static inline int netlink_watch(void)
{
	const struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Discards queued notifications. True: there was one, or the socket's queue overflowed (ENOBUFS).
 */
static inline bool netlink_drain(int fd)
{
	char message[8192];
	bool any = false;
	ssize_t got;

	while ((got = recv(fd, message, sizeof(message), 0)) > 0 || (got < 0 && errno == ENOBUFS))
		any = true;
	return any;
}

#endif
