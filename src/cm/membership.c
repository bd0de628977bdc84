/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/membership.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/address.h"
#include "cm/qp_attr.h"

#define QPN_MULTICAST 0xffffff

/* Guarded by the identifier's lock. */
struct membership {
	struct membership *next;
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
static struct membership **find(struct id *id, uint64_t cookie)
{
	struct membership **at = &id->memberships;

	while (*at && (*at)->cookie != cookie)
		at = &(*at)->next;
	return at;
}

static uint64_t next_cookie(void)
{
	static _Atomic uint64_t last;

	return ++last;
}

int membership_add(struct id *id, const struct ctl_cm_address *address, bool attaches,
		   void *context, uint64_t *cookie)
{
	struct membership *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*cookie = m->cookie = next_cookie();
	m->context = context;
	m->address = *address;
	m->attaches = attaches;
	pthread_mutex_lock(&id->lock);
	m->next = id->memberships;
	id->memberships = m;
	pthread_mutex_unlock(&id->lock);
	return 0;
}

static int attach(struct id *id, struct membership *m)
{
	union ibv_gid mgid;
	int rc;

	if (!m->attaches || !id->base.qp)
		return 0;
	address_gid(&m->address, &mgid);
	rc = -ibv_attach_mcast(id->base.qp, &mgid, 0);
	m->attached = !rc;
	return rc;
}

bool membership_on_event(struct id *id, uint64_t cookie, struct rdma_cm_event *event)
{
	struct rdma_ud_param *ud = &event->param.ud;
	struct membership *m;

	pthread_mutex_lock(&id->lock);
	m = *find(id, cookie);
	if (m) {
		int rc = attach(id, m);

		if (!rc)
			rc = qp_attr_address(id, &m->address, &ud->ah_attr);
		if (rc)
			event->event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->status = rc;
		ud->private_data = m->context;
		ud->qp_num = QPN_MULTICAST;
		ud->qkey = RDMA_UDP_QKEY;
	}
	pthread_mutex_unlock(&id->lock);
	return m != NULL;
}

/* Caller holds the lock. *at may be NULL. */
static struct membership *take_out(struct membership **at)
{
	struct membership *m = *at;

	if (m)
		*at = m->next;
	return m;
}

static void leave(struct id *id, struct membership *m)
{
	union ibv_gid mgid;

	address_gid(&m->address, &mgid);
	if (m->attached && id->base.qp)
		ibv_detach_mcast(id->base.qp, &mgid, 0);
	free(m);
}

void membership_drop(struct id *id, uint64_t cookie)
{
	struct membership *m;

	pthread_mutex_lock(&id->lock);
	m = take_out(find(id, cookie));
	pthread_mutex_unlock(&id->lock);
	free(m);
}

int membership_leave(struct id *id, const struct ctl_cm_address *address)
{
	struct membership **at, *m;

	pthread_mutex_lock(&id->lock);
	for (at = &id->memberships; *at && !same_address(&(*at)->address, address);
	     at = &(*at)->next)
		;
	m = take_out(at);
	pthread_mutex_unlock(&id->lock);
	if (!m)
		return -EADDRNOTAVAIL;
	leave(id, m);
	return 0;
}

void membership_leave_all(struct id *id)
{
	while (id->memberships) {
		struct membership *m = id->memberships;

		id->memberships = m->next;
		leave(id, m);
	}
}
