/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of an identifier: binding, listening, and the way to the other end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/address.h"
#include "cm/export.h"
#include "cm/id.h"
#include "cm/iwcm.h"
#include "cm/refusal.h"
#include "cm/session.h"
#include "cm/sync.h"

/* Binds to id->local as verbatimd sees it, with a port. 0 or -errno. */
static int bind_local(struct id *id)
{
	struct ctl_cm_bind ask = {
		.header = { .type = CTL_CM_BIND },
		.id = id->number,
		.flags = id->bind_flags,
		.local = id->local,
	};
	struct ctl_cm_reply reply = { .local = id->local };
	int rc = iwcm_is_on() ? iwcm_bind(id) : session_ask(&ask.header, sizeof(ask), &reply);
	char text[REFUSAL_ADDRESS_BYTES];

	if (rc && rc != -EOPNOTSUPP)
		return refusal(rc, CAUSE_CM_ADDRESS, "%s", refusal_print(&id->local, text));
	if (rc)
		return rc;
	if (!id->iwcm)
		id->local = reply.local;
	id->state = ID_BOUND;
	return 0;
}

CM_EXPORT int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *addr)
{
	struct id *id = id_of(base);
	struct ctl_cm_address before = id->local;
	int rc = id->state == ID_IDLE ? address_from_sockaddr(addr, &id->local)
				      : id_refuse_state(id);
	char text[REFUSAL_ADDRESS_BYTES];
	int has_device;

	if (!rc && address_lacks_interface(&id->local))
		rc = refusal(-EINVAL, CAUSE_CM_ADDRESS, "%s is link-local, and sin6_scope_id is 0",
			     refusal_print(&id->local, text));
	/*
	 * As in Linux: a loopback address has no device, and the connecting side chooses one. If
	 * there is only one device, it is chosen now, for programs that use id->verbs right after
	 * rdma_bind_addr.
	 */
	has_device = rc || !address_is_loopback(&id->local) ? 1 : device_is_alone();
	if (has_device < 0)
		rc = has_device;
	if (!rc && has_device)
		rc = id_set_device(id);
	if (rc == -ENODEV && id->local.family) {
		rc = address_is_held(&id->local);
		if (rc >= 0)
			rc = rc ? 0
				: refusal(-EADDRNOTAVAIL, CAUSE_CM_ADDRESS,
					  "no interface of this host has %s",
					  refusal_print(&id->local, text));
	}
	if (!rc)
		rc = bind_local(id);
	if (rc) {
		id->local = before;
		/* An identifier that was bound before keeps its device. */
		if (id->state == ID_IDLE)
			id_drop_device(id);
	}
	id_show_addresses(id);
	return answer(rc);
}

static int listen_iwarp(struct id *id, int backlog)
{
	int rc = id->state == ID_IDLE ? iwcm_bind(id) : 0;

	if (rc)
		return rc;
	/* Even if it cannot listen: it has a port, and must not get another. */
	if (id->state == ID_IDLE)
		id->state = ID_BOUND;
	return iwcm_listen(id, backlog);
}

CM_EXPORT int rdma_listen(struct rdma_cm_id *base, int backlog)
{
	struct id *id = id_of(base);
	struct ctl_cm_ask ask = {
		.header = { .type = CTL_CM_LISTEN },
		.id = id->number,
		.value = backlog > 0 ? (uint32_t)backlog : 0,
		.flags = id->bind_flags,
	};
	struct ctl_cm_reply reply;
	char text[REFUSAL_ADDRESS_BYTES];
	int rc;

	if (id->state != ID_IDLE && id->state != ID_BOUND)
		rc = id_refuse_state(id);
	else if (iwcm_is_on())
		rc = listen_iwarp(id, backlog);
	else
		rc = session_ask(&ask.header, sizeof(ask), &reply);
	if (rc == -EADDRINUSE)
		refusal(rc, CAUSE_CM_ADDRESS, "%s", refusal_print(&id->local, text));
	if (!rc) {
		if (!id->iwcm)
			id->local = reply.local;
		id->state = ID_LISTENING;
		id_show_addresses(id);
	}
	return answer(rc);
}

/* The port is there. 0 or -errno. */
static int resolved(struct id *id)
{
	int rc;

	/* Before the event: the program may go on, or end the identifier, as soon as it has it. */
	id->state = ID_ADDR_RESOLVED;
	id_show_addresses(id);
	rc = id_raise_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	if (rc)
		id->state = ID_BOUND;
	return rc;
}

/* 0 or -errno. */
static int resolve(struct id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct ctl_cm_address wanted = { .family = 0 }, before = id->local;
	struct ctl_cm_address remote = { .family = 0 };
	bool was_idle = id->state == ID_IDLE, had_device = id->device != NULL;
	int rc = was_idle || id->state == ID_BOUND ? address_from_sockaddr(dst, &remote)
						   : id_refuse_state(id);
	char from[REFUSAL_ADDRESS_BYTES], to[REFUSAL_ADDRESS_BYTES];

	if (!rc && src)
		rc = address_from_sockaddr(src, &wanted);
	if (rc)
		return rc;
	/* A port that is bound already stays; a wildcard address gets the route's. */
	if (was_idle && src)
		id->local = wanted;
	if (!id->local.family)
		id->local.family = remote.family;
	if (id->local.family != remote.family) {
		id->local = before;
		return refusal(-EINVAL, CAUSE_CM_ADDRESS, "one of IPv4 and one of IPv6");
	}
	/* The wildcard as a destination is this host. */
	if (address_is_any(&remote))
		address_set_loopback(&remote);
	rc = address_route(&remote, &id->local);
	if (rc)
		refusal(rc, CAUSE_CM_ADDRESS, "from %s to %s", refusal_print(&id->local, from),
			refusal_print(&remote, to));
	if (!rc) {
		id->remote = remote;
		rc = id_set_device(id);
	}
	if (!rc && was_idle)
		rc = bind_local(id);
	if (!rc)
		rc = resolved(id);
	if (!rc)
		return 0;
	/* Another attempt may have another destination, unless this one bound the identifier. */
	if (!had_device && !(was_idle && id->state == ID_BOUND)) {
		id->local = before;
		id_drop_device(id);
	}
	id_show_addresses(id);
	return rc;
}

CM_EXPORT int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src_addr,
				struct sockaddr *dst_addr, int timeout_ms)
{
	struct id *id = id_of(base), *waiting = sync_begin(id);
	int rc = dst_addr ? resolve(id, src_addr, dst_addr) : -EINVAL;

	return rc ? answer(rc) : sync_complete(waiting);
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
