/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/ib.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/host_address.h"
#include "base/syscall.h"
#include "base/uncancelled.h"
#include "cm/refusal.h"

int address_from_sockaddr(const struct sockaddr *sa, struct ctl_cm_address *out)
{
	memset(out, 0, sizeof(*out));
	if (!sa)
		return refusal(-EINVAL, CAUSE_CM_ADDRESS, "NULL");
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;

		gid_from_v4(&v4->sin_addr, out->gid);
		out->port = v4->sin_port;
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;

		memcpy(out->gid, &v6->sin6_addr, sizeof(out->gid));
		out->port = v6->sin6_port;
		if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) || IN6_IS_ADDR_MULTICAST(&v6->sin6_addr))
			out->ifindex = v6->sin6_scope_id;
	} else if (sa->sa_family == AF_IB) {
		return refusal(-ENODEV, CAUSE_CM_AF_IB, "family AF_IB");
	} else {
		return refusal(-EINVAL, CAUSE_CM_ADDRESS, "family %u", sa->sa_family);
	}
	out->family = sa->sa_family;
	return 0;
}

void address_to_sockaddr(const struct ctl_cm_address *a, struct sockaddr *out)
{
	memset(out, 0, sizeof(struct sockaddr_storage));
	if (a->family == AF_INET) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)out;

		v4->sin_family = AF_INET;
		v4->sin_port = a->port;
		memcpy(&v4->sin_addr, a->gid + GID_V4_AT, sizeof(v4->sin_addr));
	} else if (a->family == AF_INET6) {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

		v6->sin6_family = AF_INET6;
		v6->sin6_port = a->port;
		v6->sin6_scope_id = a->ifindex;
		memcpy(&v6->sin6_addr, a->gid, sizeof(v6->sin6_addr));
	}
}

socklen_t address_length(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

bool address_is_any(const struct ctl_cm_address *a)
{
	static const uint8_t any[sizeof(a->gid)];
	size_t from = a->family == AF_INET ? GID_V4_AT : 0;

	return !memcmp(a->gid + from, any, sizeof(any) - from);
}

bool address_is_multicast(const struct ctl_cm_address *a)
{
	return a->family == AF_INET ? a->gid[12] >> 4 == 14 : a->gid[0] == 0xff;
}

bool address_lacks_interface(const struct ctl_cm_address *a)
{
	return a->family == AF_INET6 && gid_is_link_local(a->gid) && !a->ifindex;
}

void address_set_loopback(struct ctl_cm_address *a)
{
	if (a->family == AF_INET)
		gid_from_v4((const uint8_t[]){ 127, 0, 0, 1 }, a->gid);
	else
		memcpy(a->gid, &in6addr_loopback, sizeof(a->gid));
}

bool address_is_loopback(const struct ctl_cm_address *a)
{
	struct ctl_cm_address loopback = { .family = a->family };
	size_t bytes = a->family == AF_INET ? GID_V4_AT + 1 : sizeof(a->gid);

	address_set_loopback(&loopback);
	return a->family && !memcmp(a->gid, loopback.gid, bytes);
}

void address_gid(const struct ctl_cm_address *a, union ibv_gid *gid)
{
	memcpy(gid->raw, a->gid, sizeof(gid->raw));
}

int address_is_local(const struct ctl_cm_address *a)
{
	return host_has_address(a->gid, a->ifindex);
}

int address_is_held(const struct ctl_cm_address *a)
{
	return host_holds_address(a->gid, a->ifindex);
}

bool address_is_of(const struct ctl_cm_address *a, uint32_t ifindex)
{
	UNCANCELLED; /* with the lock of the devices */
	struct ctl_cm_address own;
	struct ifaddrs *all;
	bool is_of = false;

	if ((a->ifindex && a->ifindex != ifindex) || getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i && !is_of; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != a->family ||
		    address_from_sockaddr(i->ifa_addr, &own))
			continue;
		is_of = !memcmp(own.gid, a->gid, sizeof(own.gid)) &&
			if_nametoindex(i->ifa_name) == ifindex;
	}
	freeifaddrs(all);
	return is_of;
}

/* The route may depend on the source. 0 or -errno. */
static int bind_source(int fd, const struct ctl_cm_address *a)
{
	struct ctl_cm_address any_port = *a;
	struct sockaddr_storage sa;

	any_port.port = 0;
	address_to_sockaddr(&any_port, (struct sockaddr *)&sa);
	return bind(fd, (struct sockaddr *)&sa, address_length((struct sockaddr *)&sa)) < 0 ? -errno
											    : 0;
}

/* connect() of a datagram socket looks up the route, and sends nothing. */
static int look_up(const struct ctl_cm_address *remote, struct ctl_cm_address *local)
{
	UNCANCELLED;
	struct sockaddr_storage to, from = { 0 };
	socklen_t len = sizeof(from);
	struct ctl_cm_address found;
	int fd = sys_socket(remote->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (local->family == remote->family && !address_is_any(local)) {
		rc = address_is_held(local);
		if (rc >= 0)
			rc = rc ? bind_source(fd, local) : -EADDRNOTAVAIL;
	}
	address_to_sockaddr(remote, (struct sockaddr *)&to);
	/* To UDP port 0 there is no route. */
	if (!remote->port)
		((struct sockaddr_in *)&to)->sin_port = htons(CTL_UDP_PORT);
	if (!rc &&
	    (connect(fd, (struct sockaddr *)&to, address_length((struct sockaddr *)&to)) < 0 ||
	     getsockname(fd, (struct sockaddr *)&from, &len) < 0))
		rc = -errno;
	close(fd);
	if (!rc)
		rc = address_from_sockaddr((struct sockaddr *)&from, &found);
	if (rc)
		return rc;
	found.port = local->port;
	*local = found;
	return 0;
}

int address_route(const struct ctl_cm_address *remote, struct ctl_cm_address *local)
{
	bool is_given = local->family == remote->family && !address_is_any(local);
	int rc = look_up(remote, local);

	/* Without a default route a group has no route; then the given interface counts. */
	if (rc && rc != -EADDRNOTAVAIL && is_given && address_is_multicast(remote))
		return 0;
	if (!rc && address_is_multicast(remote) && is_given)
		return 0;
	return rc;
}
