/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo: names and services as the addresses of endpoints. Needs no device and no
 * network.
 */
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cm/address.h"
#include "cm/export.h"

struct wanted {
	int flags, family, qp_type, port_space;
};

/* Derives hints that are missing from those that are set. */
static struct wanted read_hints(const struct rdma_addrinfo *hints)
{
	struct wanted w = { 0 };

	if (hints) {
		w.flags = hints->ai_flags;
		w.family = hints->ai_family;
		w.qp_type = hints->ai_qp_type;
		w.port_space = hints->ai_port_space;
	}
	if (!w.qp_type)
		w.qp_type = w.port_space == RDMA_PS_UDP || w.port_space == RDMA_PS_IPOIB
				    ? IBV_QPT_UD
				    : IBV_QPT_RC;
	if (!w.port_space)
		w.port_space = w.qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	return w;
}

/* A GID, given as an IPv6 address; its service ID holds the port space and the port. */
static bool copy_as_gid(struct sockaddr **to, socklen_t *to_len, const struct sockaddr_in6 *from,
			int port_space)
{
	struct sockaddr_ib *sib = calloc(1, sizeof(*sib));

	if (!sib)
		return false;
	sib->sib_family = AF_IB;
	sib->sib_pkey = htobe16(0xffff);
	sib->sib_flowinfo = from->sin6_flowinfo;
	sib->sib_scope_id = from->sin6_scope_id;
	memcpy(&sib->sib_addr, &from->sin6_addr, sizeof(sib->sib_addr));
	sib->sib_sid = htobe64((uint64_t)port_space << 16 | be16toh(from->sin6_port));
	sib->sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK);
	if (from->sin6_port)
		sib->sib_sid_mask |= htobe64(RDMA_IB_IP_PORT_MASK);
	*to = (struct sockaddr *)sib;
	*to_len = sizeof(*sib);
	return true;
}

static bool wants_gids(const struct wanted *w)
{
	return w->family == AF_IB && w->flags & RAI_FAMILY && w->flags & RAI_NUMERICHOST;
}

static bool copy_address(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
			 socklen_t len)
{
	if (!from || !len)
		return true;
	*to = malloc(len);
	if (!*to)
		return false;
	memcpy(*to, from, len);
	*to_len = len;
	return true;
}

/* 0 or EAI_*. */
static int make_entry(const struct addrinfo *ai, const struct wanted *w,
		      const struct rdma_addrinfo *hints, struct rdma_addrinfo **out)
{
	struct rdma_addrinfo *r = calloc(1, sizeof(*r));
	bool is_passive = w->flags & RAI_PASSIVE, good;
	bool is_gid = wants_gids(w) && ai->ai_family == AF_INET6;

	if (!r)
		return EAI_MEMORY;
	*out = r;
	r->ai_flags = w->flags;
	r->ai_family = is_gid ? AF_IB : ai->ai_family;
	r->ai_qp_type = w->qp_type;
	r->ai_port_space = w->port_space;
	if (is_passive) {
		good = is_gid ? copy_as_gid(&r->ai_src_addr, &r->ai_src_len,
					    (const struct sockaddr_in6 *)ai->ai_addr, w->port_space)
			      : copy_address(&r->ai_src_addr, &r->ai_src_len, ai->ai_addr,
					     ai->ai_addrlen);
		if (good && ai->ai_canonname)
			good = (r->ai_src_canonname = strdup(ai->ai_canonname)) != NULL;
		return good ? 0 : EAI_MEMORY;
	}
	good = is_gid ? copy_as_gid(&r->ai_dst_addr, &r->ai_dst_len,
				    (const struct sockaddr_in6 *)ai->ai_addr, w->port_space)
		      : copy_address(&r->ai_dst_addr, &r->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
	if (good && ai->ai_canonname)
		good = (r->ai_dst_canonname = strdup(ai->ai_canonname)) != NULL;
	/* The hints may say from where. */
	if (good && hints && hints->ai_src_addr && hints->ai_src_len)
		good = copy_address(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr,
				    hints->ai_src_len);
	return good ? 0 : EAI_MEMORY;
}

/* Finds the source for a destination without one, if there is a route. */
static void find_source(struct rdma_addrinfo *r)
{
	struct ctl_cm_address dst, src = { .family = 0 };
	struct sockaddr_storage sa;

	if (r->ai_flags & (RAI_PASSIVE | RAI_NOROUTE) || r->ai_src_addr || !r->ai_dst_addr ||
	    address_from_sockaddr(r->ai_dst_addr, &dst) || address_route(&dst, &src))
		return;
	src.port = 0;
	address_to_sockaddr(&src, (struct sockaddr *)&sa);
	copy_address(&r->ai_src_addr, &r->ai_src_len, (struct sockaddr *)&sa,
		     address_length((struct sockaddr *)&sa));
}

/* Neither name nor service: the addresses are in the hints, if there are any. */
static int from_hints(const struct wanted *w, const struct rdma_addrinfo *hints,
		      struct rdma_addrinfo **out)
{
	bool is_passive = w->flags & RAI_PASSIVE;
	struct addrinfo ai = {
		.ai_family = w->family,
		.ai_addr = is_passive ? hints->ai_src_addr : hints->ai_dst_addr,
		.ai_addrlen = is_passive ? hints->ai_src_len : hints->ai_dst_len,
	};

	if (!ai.ai_family && hints->ai_src_addr && hints->ai_src_len)
		ai.ai_family = hints->ai_src_addr->sa_family;
	if (!ai.ai_family && hints->ai_dst_addr && hints->ai_dst_len)
		ai.ai_family = hints->ai_dst_addr->sa_family;
	return make_entry(&ai, w, hints, out);
}

static int from_names(const char *node, const char *service, const struct wanted *w,
		      const struct rdma_addrinfo *hints, struct rdma_addrinfo **out)
{
	bool is_ud = w->qp_type == IBV_QPT_UD;
	struct addrinfo ask = {
		.ai_family = w->family != AF_IB ? w->family
			     : wants_gids(w)	? AF_INET6
						: AF_UNSPEC,
		.ai_socktype = is_ud ? SOCK_DGRAM : SOCK_STREAM,
	};
	struct addrinfo *list;
	int rc;

	/* getaddrinfo refuses (EAI_SOCKTYPE) a protocol that does not fit the QP type. */
	if (w->port_space == RDMA_PS_TCP)
		ask.ai_protocol = IPPROTO_TCP;
	else if (w->port_space == RDMA_PS_UDP || w->port_space == RDMA_PS_IPOIB)
		ask.ai_protocol = IPPROTO_UDP;
	if (w->flags & RAI_PASSIVE)
		ask.ai_flags |= AI_PASSIVE;
	if (w->flags & RAI_NUMERICHOST)
		ask.ai_flags |= AI_NUMERICHOST;
	rc = getaddrinfo(node, service, &ask, &list);
	if (rc)
		return rc;
	for (const struct addrinfo *ai = list; ai && !rc; ai = ai->ai_next) {
		rc = make_entry(ai, w, hints, out);
		if (*out)
			out = &(*out)->ai_next;
	}
	freeaddrinfo(list);
	return rc;
}

CM_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

CM_EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			       const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct wanted w = read_hints(hints);
	struct rdma_addrinfo *list = NULL;
	int rc;

	if (!node && !service && !hints) {
		errno = EINVAL;
		return -1;
	}
	if (node || service)
		rc = from_names(node, service, &w, hints, &list);
	else
		rc = from_hints(&w, hints, &list);
	if (rc) {
		rdma_freeaddrinfo(list);
		return rc;
	}
	for (struct rdma_addrinfo *r = list; r; r = r->ai_next)
		find_source(r);
	*res = list;
	return 0;
}
