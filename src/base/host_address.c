/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/host_address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/netlink.h"
#include "base/uncancelled.h"

static void ask(struct netlink_request *q, const uint8_t gid[16], uint32_t ifindex)
{
	bool is_v4 = gid_is_v4(gid);

	*q = (struct netlink_request){
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof(q->route)),
			  .nlmsg_type = RTM_GETROUTE,
			  .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = is_v4 ? AF_INET : AF_INET6,
			   .rtm_dst_len = is_v4 ? 32 : 128 },
	};
	netlink_add(q, RTA_DST, is_v4 ? gid + GID_V4_AT : gid, is_v4 ? 4 : 16);
	if (ifindex && gid_is_link_local(gid))
		netlink_add(q, RTA_OIF, &ifindex, sizeof(ifindex));
}

/* The kernel queues its answer before send() returns, so recv() need not wait. */
static int exchange(int fd, const struct netlink_request *q, void *answer, size_t room)
{
	ssize_t got;

	if (send(fd, q, q->head.nlmsg_len, MSG_DONTWAIT) < 0)
		return -errno;
	got = recv(fd, answer, room, MSG_DONTWAIT);
	return got < 0 ? -errno : got < (ssize_t)sizeof(struct nlmsghdr) ? -EBADMSG : 0;
}

int host_has_address(const uint8_t gid[16], uint32_t ifindex)
{
	UNCANCELLED;
	union {
		struct nlmsghdr header;
		uint8_t bytes[2048];
	} answer = { .header = { 0 } };
	struct netlink_request question;
	int fd, error;

	if (gid_is_unspecified(gid))
		return 0; /* as a destination it would be this host */
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	ask(&question, gid, ifindex);
	error = exchange(fd, &question, &answer, sizeof(answer));
	close(fd);
	if (error)
		return error;
	/* NLMSG_ERROR: no route leads there. */
	return answer.header.nlmsg_type == RTM_NEWROUTE &&
	       ((const struct rtmsg *)NLMSG_DATA(&answer.header))->rtm_type == RTN_LOCAL;
}

static bool is_at(const struct ifaddrs *at, const uint8_t gid[16], uint32_t ifindex)
{
	uint8_t own[GID_BYTES];

	if (!at->ifa_addr ||
	    (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
		return false;
	gid_from_sockaddr(at->ifa_addr, own);
	return !memcmp(own, gid, sizeof(own)) &&
	       (!ifindex || !gid_is_link_local(gid) || if_nametoindex(at->ifa_name) == ifindex);
}

int host_holds_address(const uint8_t gid[16], uint32_t ifindex)
{
	UNCANCELLED;
	struct ifaddrs *all;
	int found = host_has_address(gid, ifindex);

	if (found)
		return found;
	if (getifaddrs(&all))
		return -errno;
	for (const struct ifaddrs *at = all; at && !found; at = at->ifa_next)
		found = is_at(at, gid, ifindex);
	freeifaddrs(all);
	return found;
}
