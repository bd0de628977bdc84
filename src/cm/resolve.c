/*
 * Addresses of an identifier: binding, listening, and the way to the other end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/address.h"
#include "cm/event.h"
#include "cm/export.h"
#include "cm/id.h"
#include "cm/session.h"

/* Binds to id->local as verbatimd sees it, with a port. 0 or -errno. */
static int bind_local(struct id *id)
{
	struct ctl_cm_bind ask = {
		.header = { .type = CTL_CM_BIND },
		.id = id->number,
		.flags = id->bind_flags,
		.local = id->local,
	};
	struct ctl_cm_reply reply;
	int rc = session_ask(&ask.header, sizeof(ask), NULL, 0, &reply);

	if (rc)
		return rc;
	id->local = reply.local;
	id->is_bound = true;
	return 0;
}

CM_EXPORT int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *addr)
{
	struct id *id = id_of(base);
	struct ctl_cm_address before = id->local;
	int rc = address_from_sockaddr(addr, &id->local);

	if (!rc && id->is_bound)
		rc = -EINVAL;
	/* An address that is no device's is none here, whoever has it: before a port is taken. */
	if (!rc)
		rc = id_set_device(id);
	if (!rc)
		rc = bind_local(id);
	if (rc == -ENODEV && !address_is_local(&id->local))
		rc = -EADDRNOTAVAIL;
	if (rc) {
		id->local = before;
		/* Bound before, it keeps what it has. */
		if (!id->is_bound)
			id_drop_device(id);
	}
	id_show_addresses(id);
	return answer(rc);
}

CM_EXPORT int rdma_listen(struct rdma_cm_id *base, int backlog)
{
	struct id *id = id_of(base);
	struct ctl_cm_ask ask = {
		.header = { .type = CTL_CM_LISTEN },
		.id = id->number,
		.value = backlog > 0 ? (uint32_t)backlog : 0,
	};
	struct ctl_cm_reply reply;
	int rc = session_ask(&ask.header, sizeof(ask), NULL, 0, &reply);

	if (!rc) {
		id->local = reply.local;
		id->is_bound = true;
		id_show_addresses(id);
	}
	return answer(rc);
}

/* 0 or -errno. */
static int resolve(struct id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct ctl_cm_address wanted = { .family = 0 }, before = id->local;
	int rc = address_from_sockaddr(dst, &id->remote);

	if (!rc && src)
		rc = address_from_sockaddr(src, &wanted);
	if (rc)
		return rc;
	/* A port that is taken already stays; an address is found for a wildcard. */
	if (!id->is_bound && src)
		id->local = wanted;
	if (!id->local.family)
		id->local.family = id->remote.family;
	if (address_is_any(&id->remote))
		return -EADDRNOTAVAIL;
	rc = address_route(&id->remote, &id->local);
	if (!rc)
		rc = id_set_device(id);
	if (!rc && !id->is_bound)
		rc = bind_local(id);
	/* Another attempt may go elsewhere. */
	if (rc && !id->is_bound) {
		id->local = before;
		id_drop_device(id);
	}
	id_show_addresses(id);
	return rc;
}

CM_EXPORT int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src_addr,
				struct sockaddr *dst_addr, int timeout_ms)
{
	struct id *id = id_of(base);
	int rc = resolve(id, src_addr && address_length(src_addr) ? src_addr : NULL, dst_addr);

	if (!rc)
		rc = event_raise(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	return rc ? answer(rc) : id_complete(id);
}

/* 0 or -errno. */
static int show_path(struct id *id)
{
	struct ibv_sa_path_rec *path;
	struct ibv_port_attr port;

	if (!id->device || !id->remote.family)
		return -EINVAL;
	if (ibv_query_port(id->base.verbs, DEVICE_PORT, &port))
		return -ENODEV;
	path = id->base.route.path_rec;
	if (!path)
		path = calloc(1, sizeof(*path));
	if (!path)
		return -ENOMEM;
	memset(path, 0, sizeof(*path));
	address_gid(&id->local, &path->sgid);
	address_gid(&id->remote, &path->dgid);
	path->pkey = 0xffff;
	path->reversible = 1;
	path->numb_path = 1;
	path->hop_limit = 64;
	path->traffic_class = id->tos;
	path->mtu_selector = 2;
	path->mtu = (uint8_t)port.active_mtu;
	path->rate_selector = 2;
	path->rate = IBV_RATE_10_GBPS;
	path->packet_life_time_selector = 2;
	path->packet_life_time = 16;
	id->base.route.path_rec = path;
	id->base.route.num_paths = 1;
	return 0;
}

CM_EXPORT int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
	struct id *id = id_of(base);
	int rc = show_path(id);

	if (!rc)
		rc = event_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, 0);
	return rc ? answer(rc) : id_complete(id);
}

/* Network order; 0: not bound. Unlike the rest they cannot fail. */
CM_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return id_of(id)->local.port;
}

CM_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return id_of(id)->remote.port;
}
