#include "base/host_address.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/uncancelled.h"

#define V4_BYTES 4

struct question {
	struct nlmsghdr header;
	struct rtmsg route;
	uint8_t attributes[RTA_SPACE(16) + RTA_SPACE(4)];
};

static void add(struct question *q, uint16_t type, const void *value, size_t bytes)
{
	struct rtattr *a = (struct rtattr *)((char *)q + NLMSG_ALIGN(q->header.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(a), value, bytes);
	q->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(q->header.nlmsg_len) + RTA_SPACE(bytes));
}

static void ask(struct question *q, const uint8_t gid[16], uint32_t ifindex)
{
	bool is_v4 = gid_is_v4(gid);

	*q = (struct question){
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(q->route)),
			    .nlmsg_type = RTM_GETROUTE,
			    .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = is_v4 ? AF_INET : AF_INET6,
			   .rtm_dst_len = is_v4 ? 32 : 128 },
	};
	add(q, RTA_DST, is_v4 ? gid + GID_V4_AT : gid, is_v4 ? V4_BYTES : 16);
	if (ifindex && gid_is_link_local(gid))
		add(q, RTA_OIF, &ifindex, sizeof(ifindex));
}

/* There is an answer when send returns: the kernel gives it in that call. */
static int exchange(int fd, const struct question *q, void *answer, size_t room)
{
	ssize_t got;

	if (send(fd, q, q->header.nlmsg_len, MSG_DONTWAIT) < 0)
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
	} answer;
	struct question question;
	int fd, error;

	if (gid_is_unspecified(gid))
		return 0; /* sent to, it would be this host */
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
