/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/neighbour.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/netlink.h"
#include "base/syscall.h"

#define WAIT_MS	     1000
#define STEP_MS	     10
#define DISCARD_PORT 9
#define ANSWER_BYTES 32768
#define KNOWN	     (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)

/* An IPv4 or IPv6 address. */
struct address {
	uint8_t family;
	uint8_t length;
	uint8_t bytes[16];
};

static struct address address_of(const union ibv_gid *gid)
{
	bool v4 = gid_is_v4(gid->raw);
	struct address address = { .family = v4 ? AF_INET : AF_INET6, .length = v4 ? 4 : 16 };

	memcpy(address.bytes, v4 ? gid->raw + GID_V4_AT : gid->raw, address.length);
	return address;
}

/*
 * Calls `take` with each message of the answer until it returns true (then returns true), or there
 * are no more.
 */
static bool ask(struct netlink_request *request,
		bool (*take)(const struct nlmsghdr *head, void *arg), void *arg)
{
	char answer[ANSWER_BYTES] __attribute__((aligned(8)));
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	bool many = request->head.nlmsg_flags & NLM_F_DUMP, taken = false, over = false;

	if (fd < 0)
		return false;
	over = send(fd, request, request->head.nlmsg_len, 0) < 0;
	while (!over) {
		ssize_t got = recv(fd, answer, sizeof(answer), 0);
		long left = got;

		over = got <= 0 || !many;
		for (const struct nlmsghdr *head = (void *)answer; NLMSG_OK(head, left);
		     head = NLMSG_NEXT(head, left)) {
			if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR)
				over = true;
			else if (!taken)
				taken = take(head, arg);
		}
	}
	close(fd);
	return taken;
}

static const struct rtattr *find_attribute(const struct rtattr *attribute, int left, uint16_t type)
{
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == type)
			return attribute;
	return NULL;
}

/* The first hop on the way to an address. */
struct hop {
	struct address to; /* in: the destination; out: the neighbour */
	uint32_t ifindex;
};

static bool take_route(const struct nlmsghdr *head, void *arg)
{
	const struct rtmsg *route = NLMSG_DATA(head);
	const struct rtattr *interface, *gateway;
	struct hop *hop = arg;
	uint32_t ifindex = 0;

	if (head->nlmsg_type != RTM_NEWROUTE)
		return false;
	interface = find_attribute(RTM_RTA(route), (int)RTM_PAYLOAD(head), RTA_OIF);
	gateway = find_attribute(RTM_RTA(route), (int)RTM_PAYLOAD(head), RTA_GATEWAY);
	if (interface)
		memcpy(&ifindex, RTA_DATA(interface), sizeof(ifindex));
	if (ifindex != hop->ifindex)
		return false;
	if (gateway && RTA_PAYLOAD(gateway) == hop->to.length)
		memcpy(hop->to.bytes, RTA_DATA(gateway), hop->to.length);
	return true;
}

static bool find_hop(struct hop *hop)
{
	struct netlink_request request = {
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			  .nlmsg_type = RTM_GETROUTE,
			  .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = hop->to.family,
			   .rtm_dst_len = (uint8_t)(hop->to.length * 8) },
	};

	netlink_add(&request, RTA_DST, hop->to.bytes, hop->to.length);
	netlink_add(&request, RTA_OIF, &hop->ifindex, sizeof(hop->ifindex));
	return ask(&request, take_route, hop);
}

struct wanted {
	const struct hop *hop;
	uint8_t *mac;
};

static bool take_neighbour(const struct nlmsghdr *head, void *arg)
{
	const struct ndmsg *neighbour = NLMSG_DATA(head);
	const struct rtattr *attributes =
		(const struct rtattr *)((const char *)neighbour + NLMSG_ALIGN(sizeof(*neighbour)));
	int left = (int)NLMSG_PAYLOAD(head, sizeof(*neighbour));
	const struct rtattr *address, *mac;
	struct wanted *wanted = arg;

	if (head->nlmsg_type != RTM_NEWNEIGH ||
	    (uint32_t)neighbour->ndm_ifindex != wanted->hop->ifindex ||
	    !(neighbour->ndm_state & KNOWN))
		return false;
	address = find_attribute(attributes, left, NDA_DST);
	mac = find_attribute(attributes, left, NDA_LLADDR);
	if (!address || !mac || RTA_PAYLOAD(address) != wanted->hop->to.length ||
	    RTA_PAYLOAD(mac) != NEIGHBOUR_BYTES ||
	    memcmp(RTA_DATA(address), wanted->hop->to.bytes, wanted->hop->to.length) != 0)
		return false;
	memcpy(wanted->mac, RTA_DATA(mac), NEIGHBOUR_BYTES);
	return true;
}

static bool look_up(const struct hop *hop, uint8_t *mac)
{
	struct wanted wanted = { hop, mac };
	struct netlink_request request = {
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
			  .nlmsg_type = RTM_GETNEIGH,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.neighbour = { .ndm_family = hop->to.family },
	};

	return ask(&request, take_neighbour, &wanted);
}

/* Makes the kernel resolve the neighbour: sends an empty datagram to its discard port. */
static void provoke(const struct hop *hop)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(DISCARD_PORT) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(DISCARD_PORT),
				   .sin6_scope_id = hop->ifindex };
	int fd = sys_socket(hop->to.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	memcpy(&v4.sin_addr, hop->to.bytes, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, hop->to.bytes, sizeof(v6.sin6_addr));
	/* a failure shows in the wait that follows */
	sendto(fd, NULL, 0, MSG_NOSIGNAL,
	       hop->to.family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
	       hop->to.family == AF_INET ? sizeof(v4) : sizeof(v6));
	close(fd);
}

int neighbour_find(uint32_t ifindex, const union ibv_gid *gid, uint8_t mac[NEIGHBOUR_BYTES])
{
	struct hop hop = { .to = address_of(gid), .ifindex = ifindex };
	const struct timespec step = { 0, STEP_MS * 1000000 };

	if (!find_hop(&hop))
		return ENETUNREACH;
	if (look_up(&hop, mac))
		return 0;
	provoke(&hop);
	for (int waited = 0; waited < WAIT_MS; waited += STEP_MS) {
		nanosleep(&step, NULL);
		if (look_up(&hop, mac))
			return 0;
	}
	return EHOSTUNREACH;
}
