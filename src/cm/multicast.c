/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/multicast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/address.h"
#include "cm/event.h"
#include "cm/export.h"
#include "cm/qp_attr.h"
#include "cm/refusal.h"

#define QPN_MULTICAST 0xffffff

/* Guarded by the identifier's lock. */
struct group {
	struct group *next;
	uint64_t cookie;
	void *context;
	struct ctl_cm_address address;
	bool attaches;
	bool attached;
};

static bool same_address(const struct ctl_cm_address *a, const struct ctl_cm_address *b)
{
	return a->family == b->family && !memcmp(a->gid, b->gid, sizeof(a->gid));
}

/* Caller holds the lock. */
static struct group **find(struct id *id, uint64_t cookie)
{
	struct group **at = &id->groups;

	while (*at && (*at)->cookie != cookie)
		at = &(*at)->next;
	return at;
}

static uint64_t next_cookie(void)
{
	static _Atomic uint64_t last;

	return ++last;
}

static bool may_join(const struct id *id)
{
	return id->device && id->base.qp_type == IBV_QPT_UD &&
	       (id->state == ID_BOUND || id->state == ID_ADDR_RESOLVED);
}

static int join(struct id *id, const struct sockaddr *sa, bool attaches, void *context)
{
	struct group *g = calloc(1, sizeof(*g));
	uint64_t cookie = next_cookie();
	int rc;

	if (!g)
		return -ENOMEM;
	rc = may_join(id) ? address_from_sockaddr(sa, &g->address) : refusal_state(id);
	if (!rc && !address_is_multicast(&g->address))
		rc = refusal(-EINVAL, CAUSE_MULTICAST_GID, "it is to be joined");
	if (rc) {
		free(g);
		return rc;
	}
	g->cookie = cookie;
	g->context = context;
	g->attaches = attaches;
	pthread_mutex_lock(&id->lock);
	g->next = id->groups;
	id->groups = g;
	pthread_mutex_unlock(&id->lock);
	rc = event_raise(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, cookie);
	if (rc) {
		struct group **at;

		pthread_mutex_lock(&id->lock);
		at = find(id, cookie);
		g = *at;
		if (g)
			*at = g->next;
		pthread_mutex_unlock(&id->lock);
		free(g);
	}
	return rc;
}

static int attach(struct id *id, struct group *g)
{
	union ibv_gid mgid;
	int rc;

	if (!g->attaches || !id->base.qp)
		return 0;
	address_gid(&g->address, &mgid);
	rc = -ibv_attach_mcast(id->base.qp, &mgid, 0);
	g->attached = !rc;
	return rc;
}

bool multicast_on_event(struct id *id, uint64_t cookie, struct rdma_cm_event *event)
{
	struct rdma_ud_param *ud = &event->param.ud;
	struct group *g;

	pthread_mutex_lock(&id->lock);
	g = *find(id, cookie);
	if (g) {
		int rc = attach(id, g);

		if (!rc)
			rc = qp_attr_address(id, &g->address, &ud->ah_attr);
		if (rc)
			event->event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->status = rc;
		ud->private_data = g->context;
		ud->qp_num = QPN_MULTICAST;
		ud->qkey = RDMA_UDP_QKEY;
	}
	pthread_mutex_unlock(&id->lock);
	return g != NULL;
}

static void leave(struct id *id, struct group *g)
{
	union ibv_gid mgid;

	address_gid(&g->address, &mgid);
	if (g->attached && id->base.qp)
		ibv_detach_mcast(id->base.qp, &mgid, 0);
	free(g);
}

void multicast_leave_all(struct id *id)
{
	while (id->groups) {
		struct group *g = id->groups;

		id->groups = g->next;
		leave(id, g);
	}
}

CM_EXPORT int rdma_join_multicast(struct rdma_cm_id *base, struct sockaddr *addr, void *context)
{
	struct id *waiting = id_waiting(id_of(base));
	int rc = join(id_of(base), addr, true, context);

	return rc ? answer(rc) : id_complete(waiting);
}

CM_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *base, struct rdma_cm_join_mc_attr_ex *attr,
				     void *context)
{
	unsigned known = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct id *waiting = id_waiting(id_of(base));
	int rc;

	if (attr->comp_mask & ~known)
		return answer(-ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !attr->addr)
		return answer(-EINVAL);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return answer(-EINVAL);
	rc = join(id_of(base), attr->addr,
		  attr->join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
	return rc ? answer(rc) : id_complete(waiting);
}

CM_EXPORT int rdma_leave_multicast(struct rdma_cm_id *base, struct sockaddr *addr)
{
	struct id *id = id_of(base);
	struct ctl_cm_address address;
	struct group **at, *g;
	int rc = address_from_sockaddr(addr, &address);

	if (rc)
		return answer(rc);
	pthread_mutex_lock(&id->lock);
	for (at = &id->groups; *at && !same_address(&(*at)->address, &address); at = &(*at)->next)
		;
	g = *at;
	if (g)
		*at = g->next;
	pthread_mutex_unlock(&id->lock);
	if (!g)
		return answer(-EADDRNOTAVAIL);
	leave(id, g);
	return 0;
}
